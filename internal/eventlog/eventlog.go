// Package eventlog writes, reads, replays, checks and explains logs of events,
// for package retrylog, and for package flowlog of retryflow, whose events may be
// from pipelines.
package eventlog

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// A Record is an event and the key of its call.
type Record struct {
	Key   string
	Event retry.Event
	Line  int  // the line of the log it was read from, 1 for the first; 0: it was not read
	Flow  Flow // what a pipeline of package retryflow says beside the event; nil: it is not from one
}

// MarshalJSON writes the event as package retry does, or package retryflow if it is from a
// pipeline. If there is a key, it is the first field.
func (r Record) MarshalJSON() ([]byte, error) {
	var event json.Marshaler = r.Event
	if r.Flow != nil {
		event = r.Flow
	}
	data, err := json.Marshal(event)
	if err != nil || r.Key == "" {
		return data, err
	}
	key, err := json.Marshal(r.Key)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"key":`), key, []byte(","), data[1:]), nil
}

// UnmarshalJSON reads what MarshalJSON writes, with the errors as texts. It skips the keys of a
// pipeline, and others that it does not know. A key that is null is treated as missing.
func (r *Record) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var read Record
	var err error
	if read.Key, err = keyOf(data); err == nil {
		read.Event, err = ReadEvent(data)
	}
	if err != nil {
		return err
	}
	*r = read
	return nil
}

// String returns the line of r in the text of retrylog's Explain, with its error.
func (r Record) String() string {
	if r.Event.Err == nil {
		return withoutError(r)
	}
	return withoutError(r) + ": " + Printable(textOf(r.Event.Err))
}

// numbered returns r with its line. If it was not read, that is the one that it would
// be written on, as the i-th of a log.
func (r Record) numbered(i int) Record {
	r.Line = cmp.Or(r.Line, i+1)
	return r
}

// Flow is what a pipeline says beside an event.
type Flow interface {
	json.Marshaler
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
