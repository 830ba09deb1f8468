package logfile

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
	"github.com/goretry/retry/retryflow/flowlog"
)

// How much a Collector holds. Calls beyond it are cut short, the one first that has had
// no event for the longest.
const (
	mostOpen    = 10_000
	mostRecords = 40_000
	mostKeyless = 200 // calls without a key
)

// A Call is a call of a log.
type Call struct {
	Key     string
	Records []flowlog.Record
	Files   []*File // of Records
	Cut     string  // why it is not whole; "": it is

	headless bool // its beginning is not in the log
	sparse   bool // all is from slog, and has no attempts
	timeless bool // its first line is from slog, and has no time
	torn     bool // a line was cut off between two of its events
	marks    int  // how many lines had been cut off at its last event
	turn     int  // when its last event came, counted in events
}

// Last returns the last event of c.
func (c *Call) Last() *retry.Event { return &c.Records[len(c.Records)-1].Event }

// Stopped reports whether c has an end.
func (c *Call) Stopped() bool { return c.Last().Kind == retry.Stopped }

// Replay rebuilds c, as [flowlog.Replay] does. If the log is cut so that this cannot be
// done, cut says how, and the result has no records. It also says it if only the end is
// missing. The line in an error is one of the file that At returns.
func (c *Call) Replay() (call flowlog.Call, cut string, err error) {
	records := c.Records
	switch {
	case c.headless:
		return call, c.Cut, nil
	case c.timeless:
		return call, "its lines have no time", nil
	case c.sparse && c.Last().Resets > 0:
		return call, "it began anew, and the log has no attempts", nil
	case c.sparse:
		records = withAttempts(records)
	}
	calls, err := flowlog.Replay(records)
	switch {
	case err != nil && c.torn:
		return call, "one of its lines is cut off", nil
	case len(calls) > 0:
		call = calls[0]
	}
	return call, c.Cut, err
}

// At returns the file that has this line of c.
func (c *Call) At(line int) *File {
	return c.Files[max(0, slices.IndexFunc(c.Records, func(r flowlog.Record) bool { return r.Line == line }))]
}

// withAttempts returns records with the attempts that slog leaves out above level Debug.
func withAttempts(records []flowlog.Record) (all []flowlog.Record) {
	waited := 0 // the attempt whose retry was scheduled last
	for _, r := range records {
		if e := r.Event; e.Attempt > 0 && (e.Kind == retry.RetryScheduled || e.Attempt != waited) {
			attempt := r
			attempt.Event = retry.Event{Kind: retry.AttemptStarted, Time: e.Time, Attempt: e.Attempt, Max: e.Max, Resets: e.Resets, Elapsed: e.Elapsed}
			all = append(all, attempt)
			attempt.Event.Kind, attempt.Event.Err = retry.AttemptFinished, e.Err
			all = append(all, attempt)
		}
		if waited = 0; r.Event.Kind == retry.RetryScheduled {
			waited = r.Event.Attempt
		}
		all = append(all, r)
	}
	return all
}

// A collector puts the events of a log together to calls.
type collector struct {
	log     *Log
	open    map[string][]*Call // by key, of which all but "" have one
	calls   int                // that are open
	records int                // of these
	turn    int
	ended   []*Call
}

// Calls yields the calls of the log in the order in which they end, and at last those
// that have not ended. An error comes from reading a file, and comes last.
func (l *Log) Calls() iter.Seq2[*Call, error] {
	return func(yield func(*Call, error) bool) {
		c := &collector{log: l, open: map[string][]*Call{}}
		yieldAll := func(calls []*Call) bool {
			return !slices.ContainsFunc(calls, func(call *Call) bool { return !yield(call, nil) })
		}
		var failed error
		for r, err := range l.Records() {
			if failed = err; err != nil {
				break
			}
			if l.Each != nil {
				l.Each(r)
			}
			if !yieldAll(c.add(r)) {
				return
			}
		}
		if yieldAll(c.end()) && failed != nil {
			yield(nil, failed)
		}
	}
}

// add adds the next event, and returns the calls that end with it. They are valid until
// the next call of add.
func (c *collector) add(r Record) (ended []*Call) {
	c.ended = c.ended[:0]
	call := c.find(r.Key, r.Event)
	if !eventlog.Known(r.Event.Kind) && call == nil {
		return nil
	}
	if call != nil && r.Key != "" && begins(call, r.Event) {
		c.close(call, "its end is not in the log: the next call with its key has begun")
		call = nil
	}
	if call == nil {
		call = c.begin(r)
	}
	call.torn = call.torn || c.log.Torn > call.marks
	call.sparse = call.sparse && r.logged && r.Event.Kind != retry.AttemptStarted && r.Event.Kind != retry.AttemptFinished
	c.turn++
	call.marks, call.turn = c.log.Torn, c.turn
	call.Records, call.Files = append(call.Records, r.Record), append(call.Files, r.File)
	c.records++
	switch {
	case r.Event.Kind == retry.Stopped:
		c.close(call, "")
	case c.calls > mostOpen || c.records > mostRecords || r.Key == "" && len(c.open[""]) > mostKeyless:
		c.drop(r.Key == "" && len(c.open[""]) > mostKeyless)
	}
	return c.ended
}

// begin begins a call with r.
func (c *collector) begin(r Record) *Call {
	call := &Call{Key: r.Key, Records: make([]flowlog.Record, 0, 6), Files: make([]*File, 0, 6), sparse: r.logged, timeless: r.logged && r.Event.Time.IsZero(), marks: c.log.Torn}
	e := r.Event
	sparse := r.logged && (e.Kind == retry.RetryScheduled || e.Kind == retry.Stopped)
	if !eventlog.Begins(e, false) && !sparse {
		if e.Time.Add(-e.Elapsed).Before(r.File.first) || c.log.Torn > 0 || c.log.Dropped > 0 {
			call.headless, call.Cut = true, "its beginning is not in the log"
		}
	}
	c.open[r.Key] = append(c.open[r.Key], call)
	c.calls++
	return call
}

// begins reports whether e is the first event of the call after this one.
func begins(c *Call, e retry.Event) bool {
	again := e.Kind == retry.RetryScheduled && e.Attempt == 1 && c.Last().Kind == retry.RetryScheduled && e.Resets <= c.Last().Resets
	return eventlog.Begins(e, true) || c.sparse && again
}

// find returns the open call with this key that e is from, nil if it begins one.
// Without keys it is the one in which e can be next and that began at the same time.
func (c *collector) find(key string, e retry.Event) (found *Call) {
	if key == "" && eventlog.Begins(e, true) {
		return nil
	}
	fits, off := false, time.Duration(0)
	for _, call := range c.open[key] {
		before := call.Last()
		can := !call.sparse && eventlog.Next(*before, e) == e.Attempt || call.sparse && follows(*before, e)
		apart := (e.Time.Sub(before.Time) - (e.Elapsed - before.Elapsed)).Abs()
		if key == "" && !can {
			continue
		}
		if found == nil || can && !fits || can == fits && apart <= off {
			found, fits, off = call, can, apart
		}
	}
	return found
}

// follows reports whether e can follow before in a log without attempts.
func follows(before, e retry.Event) bool {
	anew := e.Attempt == 1 && e.Resets == before.Resets+1
	next := e.Attempt == before.Attempt+1 && e.Resets == before.Resets || anew
	return (anew || e.Elapsed >= before.Elapsed) && before.Kind == retry.RetryScheduled && (next && e.Kind == retry.RetryScheduled || (next || e.Attempt == before.Attempt) && e.Kind == retry.Stopped)
}

// close ends a call.
func (c *collector) close(call *Call, cut string) {
	call.Cut = cmp.Or(call.Cut, cut)
	c.ended = append(c.ended, call)
	c.calls--
	c.records -= len(call.Records)
	if open := c.open[call.Key]; len(open) > 1 {
		c.open[call.Key] = slices.DeleteFunc(open, func(o *Call) bool { return o == call })
	} else {
		delete(c.open, call.Key)
	}
}

// drop cuts a quarter of the open calls short, or of those without a key.
func (c *collector) drop(keyless bool) {
	calls := c.open[""]
	if !keyless {
		calls = slices.Concat(slices.Collect(maps.Values(c.open))...)
	}
	calls = slices.SortedFunc(slices.Values(calls), func(a, b *Call) int { return a.turn - b.turn })
	for _, call := range calls[:len(calls)/4+1] {
		c.log.Dropped++
		c.close(call, "too many calls were open at once")
	}
}

// end returns the calls that have not ended, in the order of their last events.
func (c *collector) end() []*Call {
	c.ended = nil
	calls := slices.Concat(slices.Collect(maps.Values(c.open))...)
	for _, call := range slices.SortedFunc(slices.Values(calls), func(a, b *Call) int { return a.turn - b.turn }) {
		c.close(call, "its end is not in the log")
	}
	return c.ended
}
