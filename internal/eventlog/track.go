package eventlog

import (
	"cmp"
	"io"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// How much a collector holds. Calls beyond it are cut short, the one first that has had
// no event for the longest.
const (
	mostOpen    = 10_000
	mostRecords = 40_000
	mostAlike   = 200 // calls with the same key, or without one
)

// An Origin says which call an event is from.
type Origin struct {
	Source string `json:"source,omitempty"` // the pod, service or process that a prefix names
	Key    string `json:"key,omitempty"`
}

func (o Origin) String() string {
	if o.Source != "" && o.Key != "" {
		return o.Source + " " + o.Key
	}
	return o.Source + o.Key
}

// A Trace is what files have of a call.
type Trace struct {
	Origin  // of its first event: the next attempt of a job may be made elsewhere
	Records []Record
	Cut     string // why it is not whole; "": it is

	sparse bool // all is from slog, and has no attempts
	turn   int  // when its last event came, counted in events
}

const headless = "its beginning is not in the log" // if a call is Cut so, there is no more to say

// Last returns the last event of t.
func (t *Trace) Last() *retry.Event { return &t.last().Event }

func (t *Trace) last() *Record { return &t.Records[len(t.Records)-1] }

// Stopped reports whether t has an end.
func (t *Trace) Stopped() bool { return t.Last().Kind == retry.CallFinished }

// Place returns where a record of Files is from.
func Place(r Record) (source, file string, line int) { return r.source, r.file.name, r.Line }

// From returns where t is from: its source, or its file where no prefix says one.
func (t *Trace) From() string { return cmp.Or(t.Source, t.Records[0].file.name) }

// Foreign reports whether t is a line of Envoy's access log, and whether that says how many
// attempts there were.
func (t *Trace) Foreign() (is, counted bool) {
	first := &t.Records[0]
	return first.foreign, !first.uncounted
}

// Call rebuilds t. If the log is cut so that this cannot be done, cut says how, and the result has
// no records. It also says it if only the end is missing.
func (t *Trace) Call() (call Call, cut string, err error) {
	first := &t.Records[0]
	switch {
	case first.foreign:
		return call, "an access log has no decisions", nil
	case t.Cut == headless:
		return call, t.Cut, nil
	case first.logged && first.Event.Time.IsZero():
		return call, "its lines have no time", nil
	case t.sparse && t.Last().Resets > 0:
		return call, "it began anew, and the log has no attempts", nil
	}
	calls, err := Replay(t.Whole())
	switch {
	case err != nil && t.last().torn > first.torn: // between two of its events
		return call, "one of its lines is cut off", nil
	case len(calls) > 0:
		call = calls[0]
	}
	return call, t.Cut, err
}

// Whole returns the events of t, with the attempts that slog leaves out above level Debug.
func (t *Trace) Whole() (all []Record) {
	waited := 0 // the attempt whose retry was scheduled last
	for _, r := range t.Records {
		e := r.Event
		if t.sparse && !r.foreign && e.Attempt > 0 && (e.Kind == retry.RetryScheduled || e.Attempt != waited) {
			attempt := r
			attempt.Event = retry.Event{Kind: retry.AttemptStarted, Time: e.Time, Attempt: e.Attempt, Total: e.Total, Max: e.Max, Resets: e.Resets, Elapsed: e.Elapsed}
			all = append(all, attempt)
			attempt.Event.Kind, attempt.Event.Err = retry.AttemptFinished, e.Err
			all = append(all, attempt)
		}
		if waited = 0; e.Kind == retry.RetryScheduled {
			waited = e.Attempt
		}
		all = append(all, r)
	}
	return all
}

// A collector puts the events of a log together to calls.
type collector struct {
	log     *Files
	open    map[string][]*Trace // by key
	calls   int                 // that are open
	records int                 // of these
	yield   func(*Trace, error) bool
	done    bool // yield wants no more
}

// Traces yields the calls of the files in the order in which they end, and at last those
// that have not ended. An error comes from reading a file, and comes last.
func (l *Files) Traces() iter.Seq2[*Trace, error] {
	return func(yield func(*Trace, error) bool) {
		c := &collector{log: l, open: map[string][]*Trace{}, yield: yield}
		for !c.done {
			r, err := l.next()
			if err != nil {
				c.cut(c.all(), 1, "its end is not in the log")
				if err != io.EOF && !c.done {
					yield(nil, err)
				}
				return
			}
			c.add(r)
		}
	}
}

// add adds the next event.
func (c *collector) add(r Record) {
	var call *Trace
	if !r.foreign {
		call = c.find(&r)
	}
	if !known(r.Event.Kind) && call == nil {
		return
	}
	if call != nil && r.Key != "" && beginsAfter(call, r.Event) {
		c.close(call, "its end is not in the log: the next call with its key has begun")
		call = nil
	}
	if call == nil {
		call = c.begin(&r)
	}
	call.sparse = call.sparse && r.logged && r.Event.Kind != retry.AttemptStarted && r.Event.Kind != retry.AttemptFinished
	c.log.Events++
	call.turn = c.log.Events
	call.Records = append(call.Records, r)
	c.records++
	dropped := c.calls
	switch alike := c.open[r.Key]; {
	case r.Event.Kind == retry.CallFinished:
		c.close(call, "")
		return
	case len(alike) > mostAlike:
		c.cut(alike, 4, "too many calls were open at once")
	case c.calls > mostOpen || c.records > mostRecords:
		c.cut(c.all(), 4, "too many calls were open at once")
	}
	c.log.Dropped += dropped - c.calls
}

// begin begins a call with r.
func (c *collector) begin(r *Record) *Trace {
	e := r.Event
	call := &Trace{Origin: Origin{r.source, r.Key}, Records: make([]Record, 0, 6), sparse: r.logged}
	first := begins(e, false) || r.logged && (e.Kind == retry.RetryScheduled || e.Kind == retry.CallFinished)
	if !first && (e.Time.Add(-e.Elapsed).Before(r.file.first) || c.log.Torn > 0 || c.log.Dropped > 0) {
		call.Cut = headless
	}
	c.open[r.Key] = append(c.open[r.Key], call)
	c.calls++
	return call
}

// beginsAfter reports whether e is the first event of the call after this one.
func beginsAfter(t *Trace, e retry.Event) bool {
	again := e.Kind == retry.RetryScheduled && e.Attempt == 1 && t.Last().Kind == retry.RetryScheduled && e.Resets <= t.Last().Resets
	return begins(e, true) || t.sparse && again
}

// find returns the open call that r is from, nil if it begins one. With a key it is the
// one of the same source and file. If there is none, it is a job whose next attempt is made
// elsewhere, or a call that began at the same time and goes on in a file after a rotation.
// Without keys it is the one of the same source in which r can be next and that began at the
// same time.
func (c *collector) find(r *Record) (found *Trace) {
	e := &r.Event
	if r.Key == "" && begins(*e, true) {
		return nil
	}
	near, fits, off := 0, false, time.Duration(0)
	for _, call := range c.open[r.Key] {
		before, last, rank := call.Last(), call.last(), 0
		switch {
		case last.source != r.source:
		case r.Key != "" && last.file != r.file:
			rank = 1
		default:
			rank = 2
		}
		can := !call.sparse && following(*before, *e) == e.Attempt || call.sparse && follows(*before, *e)
		apart := (e.Time.Sub(before.Time) - (e.Elapsed - before.Elapsed)).Abs()
		switch {
		case rank == 2 && (can || r.Key != ""):
		case rank < 2 && can && r.Key != "" && (e.Attempt > before.Attempt || rank == 1 && apart < rotated):
		default:
			continue
		}
		if better := rank > near || rank == near && (can && !fits || can == fits && apart <= off); found == nil || better {
			found, near, fits, off = call, rank, can, apart
		}
	}
	return found
}

// rotated is how far apart two events of a call in different files may say that it began:
// some logs have whole seconds.
const rotated = 2 * time.Second

// follows reports whether e can follow before in a log without attempts.
func follows(before, e retry.Event) bool {
	anew := e.Attempt == 1 && e.Resets == before.Resets+1
	next := e.Attempt == before.Attempt+1 && e.Resets == before.Resets || anew
	return (anew || e.Elapsed >= before.Elapsed) && before.Kind == retry.RetryScheduled && (next && e.Kind == retry.RetryScheduled || (next || e.Attempt == before.Attempt) && e.Kind == retry.CallFinished)
}

// close ends a call.
func (c *collector) close(call *Trace, cut string) {
	call.Cut = cmp.Or(call.Cut, cut)
	c.calls--
	c.records -= len(call.Records)
	if open := c.open[call.Key]; len(open) > 1 {
		c.open[call.Key] = slices.DeleteFunc(open, func(o *Trace) bool { return o == call })
	} else {
		delete(c.open, call.Key)
	}
	c.done = c.done || !c.yield(call, nil)
}

// all returns the open calls.
func (c *collector) all() []*Trace { return slices.Concat(slices.Collect(maps.Values(c.open))...) }

// cut ends the nth part of some calls, which have had no event for the longest.
func (c *collector) cut(calls []*Trace, nth int, why string) {
	calls = slices.SortedFunc(slices.Values(calls), func(a, b *Trace) int { return a.turn - b.turn })
	for _, call := range calls[:(len(calls)+nth-1)/nth] {
		c.close(call, why)
	}
}
