// Package servers starts servers for a single test, each with its own port and
// directory, so that the test can stop and kill them.
package servers
