// Package eventlog reads, judges, tells and writes events. A line becomes an event (line.go,
// envoy.go, event.go), events become calls (files.go, track.go), a call is judged (replay.go,
// check.go) and told (explain.go). It is for package retrylog and for the command. The events of
// a pipeline of package retryflow are read as well, but its rules are not known here.
package eventlog

import (
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// A Record is an event and the key of its call.
type Record struct {
	Key    string
	Event  retry.Event
	Hedged bool // the answer of this attempt is the one of a second request, see retryhttp.Hedge
	Line   int  // the line of the log it was read from, 1 for the first; 0: it was not read

	origin // only of a record of Files
}

// An origin is where a record of Files is from.
type origin struct {
	source string // the pod, service or process that its line names; "": none
	task   string // of a pipeline of package retryflow; "": it is not from one
	file   *file
	torn   int // how many lines of the files were cut off before it

	logged    bool // by slog, which leaves attempts out above level Debug
	foreign   bool // a whole call as Envoy's access log has it
	uncounted bool // it does not say how many attempts there were: at least Attempt
}

// A Fault is what is wrong with a record.
type Fault struct {
	Record
	What error
}

func (f *Fault) Error() string { return fmt.Sprintf("retrylog: line %d: %v", f.Line, f.What) }
func (f *Fault) Unwrap() error { return f.What }

// Place returns where a record of Files is from.
func Place(r Record) (source, file string) { return r.source, r.file.name }

// Of returns which call a record is from: its source and its key, as one printable line.
func Of(r Record) string { return Printable(strings.TrimSpace(r.source + " " + r.Key)) }

// clockSkew is how far the clocks of a queue's workers may differ: Elapsed of a job is
// by the clock of the worker that has it, and a log does not say whether it is of a
// job. The docs of retrylog's Replay and Check say so.
const clockSkew = time.Second
