// Package eventlog writes, reads, replays, checks and explains logs of events,
// for package retrylog, and for package flowlog of retryflow, whose events may be
// from pipelines.
package eventlog

import (
	"time"

	"github.com/goretry/retry"
)

// An Entry is an event of a log.
type Entry struct {
	Key   string
	Event retry.Event
	Line  int
	Flow  Flow // nil: the event is not from a pipeline
}

// Flow is what a pipeline says beside an event.
type Flow interface {
	Task() string
	Jumps() bool                  // the rules say to go on with another task, which may have a wait
	Done() bool                   // the rules say that the task is done, whether its attempt failed or not
	Alone() error                 // why the event cannot have happened, whatever came before
	After(before Flow) error      // why it cannot follow another event of the same task
	Describe(event string) string // what happened; event says it without the pipeline
}

// The messages of package retrylog's Slog.
const (
	MessageStarted   = "attempt started"
	MessageFailed    = "attempt failed"
	MessageFinished  = "attempt succeeded"
	MessageScheduled = "retry scheduled"
	MessageSucceeded = "succeeded"
	MessageRecovered = "succeeded after retries"
	MessageCanceled  = "canceled"
	MessageInvalid   = "invalid policy or call"
	MessageGaveUp    = "gave up"
)

// Messages are the texts by which Read knows a line of Slog.
var Messages = []string{
	MessageStarted, MessageFailed, MessageFinished, MessageScheduled,
	MessageSucceeded, MessageRecovered, MessageCanceled, MessageInvalid, MessageGaveUp,
}

// clockSkew is how far the clocks of a queue's workers may differ: Elapsed of a job is
// by the clock of the worker that has it, and a log does not say whether it is of a
// job. The docs of retrylog's Replay and Check say so.
const clockSkew = time.Second

// Reasons are the reasons to stop that this version knows.
var Reasons = []retry.Reason{
	retry.ReasonSuccess, retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonPermanent, retry.ReasonRejected, retry.ReasonRetryAfter,
	retry.ReasonElapsed, retry.ReasonDeadline, retry.ReasonCanceled, retry.ReasonBudget, retry.ReasonBorrowed, retry.ReasonWait, retry.ReasonInvalid,
}
