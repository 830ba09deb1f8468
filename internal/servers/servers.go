// Package servers starts servers for one test, each on a port and in a directory
// of its own, so that the test can stop and kill them.
package servers
