// Package unhealthy marks the error of an attempt that does not count as healthy, however long it
// took. In a stream of events, only the time of a connection counts for HealthyAfter. Without the
// mark, the loop of package retry would also count the time of a dial. Then a stream to a host that
// has vanished would never give up, if each dial takes longer than HealthyAfter.
package unhealthy

// An Error wraps the error of such an attempt. The loop that gets it removes the mark, so no
// function of the user sees it, and no other loop.
type Error struct{ Err error }

func (e Error) Error() string { return e.Err.Error() }
func (e Error) Unwrap() error { return e.Err }

// Cut returns err without the mark. The result `is` reports whether err had the mark.
func Cut(err error) (without error, is bool) {
	if e, is := err.(Error); is {
		return e.Err, true
	}
	return err, false
}
