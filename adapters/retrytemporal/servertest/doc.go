// Package servertest tests retrytemporal against Temporal's own server, which it
// builds from its module: ".ci/soak temporal".
package servertest
