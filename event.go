package retry

import "time"

// An EventKind says what an [Event] describes. The zero EventKind is none.
type EventKind uint8

// The kinds of events, in brackets the text that String and JSON have for
// each.
const (
	AttemptStarted  EventKind = iota + 1 // an attempt begins [attempt_started]
	AttemptFinished                      // the attempt returned [attempt_finished]
	RetryScheduled                       // another will follow, after Delay [retry_scheduled]
	Stopped                              // no other will follow, for Reason [stopped]
)

var kindNames = []string{"", "attempt_started", "attempt_finished", "retry_scheduled", "stopped"}

// String returns the name of k: "attempt_started".
func (k EventKind) String() string { return nameOf("EventKind", k, kindNames) }

// MarshalText returns the name of k, or an error if it has none.
func (k EventKind) MarshalText() ([]byte, error) { return marshalName("EventKind", k, kindNames) }

// UnmarshalText sets k to the kind of that name.
func (k *EventKind) UnmarshalText(text []byte) error {
	return unmarshalName("EventKind", k, kindNames, text)
}

// Event describes one step of a call, as passed to Policy.OnEvent. n attempts
// that all fail are n AttemptStarted, n AttemptFinished, n - 1 RetryScheduled
// and one Stopped; n RetryScheduled if a wait was cut short. A panic in an
// attempt ends the events with its AttemptStarted, and a job that is to be
// attempted again ends those of its attempt with RetryScheduled. Write an Event
// with field names: it may get more fields.
type Event struct {
	Kind    EventKind
	Time    time.Time // when it happened
	Attempt int       // 1 for the first attempt; 0 if none was made
	Max     int       // EffectiveMax of the policy

	// Err is what the last attempt failed with: nil if it succeeded, if none was
	// made, and in an AttemptStarted.
	Err error

	// Cause, of a Stopped, is Error.Cause. For ReasonSuccess and ReasonLeft it is
	// what is wrong with the policy. It may hold the context.
	Cause error

	Took    time.Duration // AttemptFinished: how long this attempt ran
	Elapsed time.Duration // since the first attempt began

	// A RetryScheduled has the wait, when it ends, the wait that a server asked
	// for, without which Delay cannot be computed again, and what drew Delay, 0 if
	// nothing was drawn.
	Delay time.Duration
	Due   time.Time
	Hint  time.Duration
	Seed  uint64

	Reason Reason // Stopped
}
