package logfile

import (
	"cmp"
	"io"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
)

// How much a collector holds. Calls beyond it are cut short, the one first that has had
// no event for the longest.
const (
	mostOpen    = 10_000
	mostRecords = 40_000
	mostAlike   = 200 // calls with the same key, or without one
)

// A Call is a call of a log.
type Call struct {
	Origin  // of its first event: the next attempt of a job may be made elsewhere
	Records []Record
	Cut     string // why it is not whole; "": it is

	sparse bool // all is from slog, and has no attempts
	turn   int  // when its last event came, counted in events
}

const headless = "its beginning is not in the log" // if a call is Cut so, there is no more to say

// Last returns the last event of c.
func (c *Call) Last() *retry.Event { return &c.last().Event }

func (c *Call) last() *Record { return &c.Records[len(c.Records)-1] }

// From returns where c is from: its source, or its file where no prefix says one.
func (c *Call) From() string { return cmp.Or(c.Source, c.Records[0].File.Name) }

// Stopped reports whether c has an end.
func (c *Call) Stopped() bool { return c.Last().Kind == retry.CallFinished }

// Replay rebuilds c, as package eventlog does. If the log is cut so that this cannot be
// done, cut says how, and the result has no records. It also says it if only the end is
// missing. The line of an event is its place in c.Records, from 1: files may have the same lines.
func (c *Call) Replay() (call eventlog.Call, cut string, err error) {
	first := &c.Records[0]
	switch {
	case first.Foreign:
		return call, "an access log has no decisions", nil
	case c.Cut == headless:
		return call, c.Cut, nil
	case first.logged && first.Event.Time.IsZero():
		return call, "its lines have no time", nil
	case c.sparse && c.Last().Resets > 0:
		return call, "it began anew, and the log has no attempts", nil
	}
	calls, err := eventlog.Replay(c.Whole())
	switch {
	case err != nil && c.last().torn > first.torn: // between two of its events
		return call, "one of its lines is cut off", nil
	case len(calls) > 0:
		call = calls[0]
	}
	return call, c.Cut, err
}

// Whole returns the events of c, with the attempts that slog leaves out above level Debug.
func (c *Call) Whole() (all []eventlog.Record) {
	if c.Records[0].Foreign {
		return []eventlog.Record{c.Records[0].Record}
	}
	waited := 0 // the attempt whose retry was scheduled last
	for i, r := range c.Records {
		r.Line = i + 1
		e := r.Event
		if c.sparse && e.Attempt > 0 && (e.Kind == retry.RetryScheduled || e.Attempt != waited) {
			attempt := r.Record
			attempt.Event = retry.Event{Kind: retry.AttemptStarted, Time: e.Time, Attempt: e.Attempt, Max: e.Max, Resets: e.Resets, Elapsed: e.Elapsed}
			all = append(all, attempt)
			attempt.Event.Kind, attempt.Event.Err = retry.AttemptFinished, e.Err
			all = append(all, attempt)
		}
		if waited = 0; e.Kind == retry.RetryScheduled {
			waited = e.Attempt
		}
		all = append(all, r.Record)
	}
	return all
}

// A collector puts the events of a log together to calls.
type collector struct {
	log     *Log
	open    map[string][]*Call // by key
	calls   int                // that are open
	records int                // of these
	yield   func(*Call, error) bool
	done    bool // yield wants no more
}

// Calls yields the calls of the log in the order in which they end, and at last those
// that have not ended. An error comes from reading a file, and comes last.
func (l *Log) Calls() iter.Seq2[*Call, error] {
	return func(yield func(*Call, error) bool) {
		c := &collector{log: l, open: map[string][]*Call{}, yield: yield}
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
	var call *Call
	if !r.Foreign {
		call = c.find(&r)
	}
	if !eventlog.Known(r.Event.Kind) && call == nil {
		return
	}
	if call != nil && r.Key != "" && begins(call, r.Event) {
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
func (c *collector) begin(r *Record) *Call {
	e := r.Event
	call := &Call{Origin: r.Origin(), Records: make([]Record, 0, 6), sparse: r.logged}
	first := eventlog.Begins(e, false) || r.logged && (e.Kind == retry.RetryScheduled || e.Kind == retry.CallFinished)
	if !first && (e.Time.Add(-e.Elapsed).Before(r.File.first) || c.log.Torn > 0 || c.log.Dropped > 0) {
		call.Cut = headless
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

// find returns the open call that r is from, nil if it begins one. With a key it is the
// one of the same source and file. If there is none, it is a job whose next attempt is made
// elsewhere, or a call that began at the same time and goes on in a file after a rotation.
// Without keys it is the one of the same source in which r can be next and that began at the
// same time.
func (c *collector) find(r *Record) (found *Call) {
	e := &r.Event
	if r.Key == "" && eventlog.Begins(*e, true) {
		return nil
	}
	near, fits, off := 0, false, time.Duration(0)
	for _, call := range c.open[r.Key] {
		before, last, rank := call.Last(), call.last(), 0
		switch {
		case last.Source != r.Source:
		case r.Key != "" && last.File != r.File:
			rank = 1
		default:
			rank = 2
		}
		can := !call.sparse && eventlog.Next(*before, *e) == e.Attempt || call.sparse && follows(*before, *e)
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
func (c *collector) close(call *Call, cut string) {
	call.Cut = cmp.Or(call.Cut, cut)
	c.calls--
	c.records -= len(call.Records)
	if open := c.open[call.Key]; len(open) > 1 {
		c.open[call.Key] = slices.DeleteFunc(open, func(o *Call) bool { return o == call })
	} else {
		delete(c.open, call.Key)
	}
	c.done = c.done || !c.yield(call, nil)
}

// all returns the open calls.
func (c *collector) all() []*Call { return slices.Concat(slices.Collect(maps.Values(c.open))...) }

// cut ends the nth part of some calls, which have had no event for the longest.
func (c *collector) cut(calls []*Call, nth int, why string) {
	calls = slices.SortedFunc(slices.Values(calls), func(a, b *Call) int { return a.turn - b.turn })
	for _, call := range calls[:(len(calls)+nth-1)/nth] {
		c.close(call, why)
	}
}
