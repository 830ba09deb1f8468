// Package eventlog reads, judges, tells and writes events: a line becomes an event (line.go,
// text.go, envoy.go), events become calls (files.go, track.go), a call is judged (replay.go,
// check.go) and told (explain.go). It is for package retrylog, for package flowlog of retryflow,
// whose events may be from pipelines, and for the command.
package eventlog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// A Record is an event and the key of its call.
type Record struct {
	Key    string
	Event  retry.Event
	Hedged bool // the answer of this attempt is the one of a second request, see retryhttp.Hedge
	Line   int  // the line of the log it was read from, 1 for the first; 0: it was not read
	Flow   Flow // what a pipeline of package retryflow says beside the event; nil: it is not from one

	origin // only of a record of Files
}

// An origin is where a record of Files is from.
type origin struct {
	source string // the pod, service or process that its line names; "": none
	file   *File
	torn   int // how many lines of the files were cut off before it

	logged    bool // by slog, which leaves attempts out above level Debug
	foreign   bool // a whole call as Envoy's access log has it
	uncounted bool // it does not say how many attempts there were: at least Attempt
}

// numbered returns r with its line. If it was not read, that is the one that it would
// be written on, as the i-th of a log.
func (r Record) numbered(i int) Record {
	r.Line = cmp.Or(r.Line, i+1)
	return r
}

// A Fault is what is wrong with a record.
type Fault struct {
	Record
	What error
}

func (f *Fault) Error() string { return fmt.Sprintf("retrylog: line %d: %v", f.Line, f.What) }
func (f *Fault) Unwrap() error { return f.What }

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

// messages are the texts by which a line of Slog is known.
var messages = []string{
	MessageStarted, MessageFailed, MessageFinished, MessageScheduled,
	MessageSucceeded, MessageRecovered, MessageCanceled, MessageInvalid, MessageGaveUp,
}

// clockSkew is how far the clocks of a queue's workers may differ: Elapsed of a job is
// by the clock of the worker that has it, and a log does not say whether it is of a
// job. The docs of retrylog's Replay and Check say so.
const clockSkew = time.Second
