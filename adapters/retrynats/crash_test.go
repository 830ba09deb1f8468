//go:build soak

package retrynats_test

import "testing"

// A server that crashes forgets its last deliveries. Their attempts are made again, and no message
// is lost. The server should deliver each message again, but some versions sometimes do not. In
// Debian's 2.9.10, some messages stay in the stream forever. In 2.15.2, on a busy machine, this
// happened to one message in about 40 crashes. So this test does not run for each change.
func TestCrashes(t *testing.T) {
	t.Parallel()
	s := newest(t)
	e := engine("nats://" + s.Address)
	e.Forgets = true
	restarts(t, s, e, s.Crash)
}
