package retrysim

import "time"

// A Condition is what [Check] demands of a system.
type Condition struct {
	text string
	tail time.Duration // how long to simulate after the last event, at least
	hold func(Result) (detail string, ok bool)
}

// RecoversWithin demands that the system has recovered this long after the end of
// its last event, and without one that nothing is wrong.
func RecoversWithin(d time.Duration) Condition { panic("TODO") }

// LoadAtMost demands that in any 3 seconds a service gets at most factor times the
// requests that the calls of these seconds make if no attempt fails; of fewer calls
// than usual, of the usual number. 1.5 allows one retry for two requests.
func LoadAtMost(service string, factor float64) Condition { panic("TODO") }

// GoodputAtLeast demands that at least this share of all calls from outside works,
// from the first second to the last.
func GoodputAtLeast(share float64) Condition { panic("TODO") }

// Check simulates s with ten seeds, and returns an error if a condition does not hold
// in more than half of the runs. The error says for each such condition by how much it was missed, and
// in how many runs. It is also an error if s is invalid, or if there is no condition.
// Duration is prolonged where a condition needs more.
//
//	err := retrysim.Check(system, retrysim.RecoversWithin(30*time.Second), retrysim.LoadAtMost("payments", 1.5))
func Check(s System, conditions ...Condition) error { panic("TODO") }
