package retry

import "time"

// An EventKind says what an [Event] describes. The zero EventKind is none. More
// may be added: a switch needs a default.
type EventKind string

const (
	AttemptStarted  EventKind = "attempt_started"  // an attempt begins
	AttemptFinished EventKind = "attempt_finished" // the attempt returned
	RetryScheduled  EventKind = "retry_scheduled"  // another will follow, after Delay
	Stopped         EventKind = "stopped"          // no other will follow, for Reason
)

// Event describes one step of a call, as passed to Policy.OnEvent. Each attempt
// sends AttemptStarted and AttemptFinished, each retry RetryScheduled before its
// wait, and the call ends with one Stopped. A panic in an attempt ends the events
// with its AttemptStarted. For [Once], RetryScheduled is the last event of an
// attempt that will be retried. Write an Event with field names: it may get more
// fields.
type Event struct {
	Kind    EventKind
	Time    time.Time // when it happened
	Attempt int       // 1 for the first attempt, and for a healthy one from RetryScheduled or Stopped on; 0 if none was made
	Max     int       // EffectiveMax of the policy; if that is invalid, the number of this attempt
	Resets  int       // how often the call has begun anew, by HealthyAfter

	// Err is what the last attempt failed with: nil if it succeeded, if none was
	// made, and in an AttemptStarted.
	Err error

	// Cause, of a Stopped, is Error.Cause. For ReasonSuccess it is what is wrong with
	// the policy. It may hold the context.
	Cause error

	Took    time.Duration // AttemptFinished: how long this attempt ran
	Elapsed time.Duration // since the first attempt began, or the healthy one ended

	Delay      time.Duration // RetryScheduled: how long to wait, Draw(Seed, Attempt, Lo, Hi)
	Due        time.Time     // RetryScheduled: when the wait ends
	Lo, Hi     time.Duration // RetryScheduled: the window of Delay
	RetryAfter time.Duration // RetryScheduled: what the server asked for; 0: nothing
	Seed       uint64        // RetryScheduled: what Delay was drawn with; 0: it is not random

	Class  string // RetryScheduled and Stopped: the class of the failure; "": none
	Reason Reason // Stopped
}
