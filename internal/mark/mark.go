// Package mark has the marks that an sse.Stream puts on the error of an attempt. The Transport or
// the loop that gets the error removes the mark, so no function of the user sees it, and no other
// loop.
package mark

import "time"

// Unhealthy marks the error of an attempt that does not count as healthy, however long it took. In
// a stream of events, only the time of a connection counts for HealthyAfter. Without the mark, the
// loop of package retry would also count the time of a dial. Then a stream to a host that has
// vanished would never give up, if each dial takes longer than HealthyAfter.
type Unhealthy struct{ Err error }

func (e Unhealthy) Error() string { return e.Err.Error() }
func (e Unhealthy) Unwrap() error { return e.Err }

// CutUnhealthy returns err without the mark. The result `is` reports whether err had the mark.
func CutUnhealthy(err error) (without error, is bool) {
	if e, is := err.(Unhealthy); is {
		return e.Err, true
	}
	return err, false
}

// Wait marks the error of an attempt with the wait that an earlier event of the stream has asked
// for. This wait applies only to the stream. Without the mark, the Transport would take the wait
// for a Retry-After of the response, and a Gate would hold back all callers.
type Wait struct {
	Err error
	For time.Duration
}

func (e Wait) Error() string { return e.Err.Error() }
func (e Wait) Unwrap() error { return e.Err }

// CutWait returns the wait of the mark, and err without the mark. Without a mark, the wait is 0.
func CutWait(err error) (wait time.Duration, without error) {
	if e, is := err.(Wait); is {
		return e.For, e.Err
	}
	return 0, err
}
