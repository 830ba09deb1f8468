// Package servertest tests retrytemporal against Temporal's own server, which runs
// inside the test program. Run it with ".ci/soak temporal".
package servertest
