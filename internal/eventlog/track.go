package eventlog

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// How much a collector holds. Calls beyond it are cut short, the one first that has had
// no event for the longest.
const (
	mostRecords = 20_000
	mostAlike   = 200      // calls with the same key, or without one
	mostBytes   = 16 << 20 // of the texts of its records
	mostText    = 4 << 10  // of each text; the rest is not read
)

// A Trace is what files have of a call. Its Attempts are as its events say, even if these cannot
// have happened.
type Trace struct {
	Call
	Cut string // why it is not whole; "": it is

	turn int // when its last event came, counted in events
}

const headless = "its beginning is not in the log" // if a call is Cut so, there is no more to say

// Last returns the last event of t.
func (t *Trace) Last() *retry.Event { return &t.last().Event }

// Stopped reports whether t has an end.
func (t *Trace) Stopped() bool { return t.Last().Kind == retry.CallFinished }

// From returns where t is from: its source, or its file where no prefix says one.
func (t *Trace) From() string { return cmp.Or(t.Records[0].source, t.Records[0].file.name) }

// Foreign reports whether t is a line of Envoy's access log.
func (t *Trace) Foreign() bool { return t.Records[0].foreign }

// Judge is as of the Call, if it can be replayed. If the log is cut so that this cannot be done,
// cut says how. It also says it if only the end is missing.
func (t *Trace) Judge(p retry.Policy) (byCode []Record, cut string, err error) {
	first := &t.Records[0]
	switch {
	case first.foreign:
		return nil, "an access log has no decisions", nil
	case first.task != "":
		return nil, "it follows the rules of a pipeline", nil
	case t.Cut == headless:
		return nil, t.Cut, nil
	case first.logged && first.Event.Time.IsZero():
		return nil, "its lines have no time", nil
	}
	calls, err := Replay(t.Records)
	switch {
	case err == nil:
		byCode, err = Judge(calls[0], p)
	case t.last().torn > first.torn: // between two of its events
		return nil, "one of its lines is cut off, or cannot be read", nil
	}
	return byCode, t.Cut, err
}

// Each calls a function with each call of the files, in the order in which they end, and at last
// with those that have not ended. An error comes from reading a file.
func (l *Files) Each(each func(*Trace)) error {
	l.open, l.each = map[string][]*Trace{}, each
	r, err := l.next()
	for ; err == nil; r, err = l.next() {
		l.collect(r)
	}
	l.cut(l.all(), 1, "its end is not in the log")
	if err == io.EOF {
		return nil
	}
	return err
}

// collect adds the next event to its call.
func (l *Files) collect(r Record) {
	call := l.find(&r)
	if call == nil && !known(r.Event.Kind) {
		return
	}
	if call != nil && r.Key != "" && (begins(r.Event, true) || r.logged && r.Event.Attempt == 1 && !fits(call, &r)) {
		l.close(call, "its end is not in the log: the next call with its key has begun")
		call = nil
	}
	if call == nil {
		call = l.begin(&r)
	}
	l.Events++
	call.turn = l.Events
	call.add(r)
	l.records++
	l.bytes += r.bytes()
	switch alike := l.open[r.Key]; {
	case r.Event.Kind == retry.CallFinished:
		l.close(call, "")
	case len(alike) > mostAlike:
		l.Dropped += l.cut(alike, 4, "too many calls were open at once")
	case l.records > mostRecords, l.bytes > mostBytes:
		l.Dropped += l.cut(l.all(), 4, "too many calls were open at once")
	}
}

// begin begins a call with r.
func (l *Files) begin(r *Record) *Trace {
	call := &Trace{Call: Call{Key: r.Key}}
	began := r.Event.Time.Add(-r.Event.Elapsed)
	if r.starts() != nil && (began.Before(r.file.first) || l.Torn+l.Bad > 0 || l.Dropped > 0) {
		call.Cut = headless
	}
	l.open[r.Key] = append(l.open[r.Key], call)
	return call
}

// find returns the open call that r is from, nil if it begins one. With a key it is the
// one of the same source and file. If there is none, it is a job whose next attempt is made
// elsewhere, or a call that began at the same time and goes on in a file after a rotation.
// Without keys it is a call of the same source in which r can be next. Among these it takes
// the one whose events agree best on when it began.
func (l *Files) find(r *Record) (found *Trace) {
	e := &r.Event
	if r.foreign || r.Key == "" && begins(*e, true) {
		return nil
	}
	best, closest := 0, time.Duration(0)
	for _, call := range l.open[r.Key] {
		before, last := call.Last(), call.last()
		apart := (e.Time.Sub(before.Time) - (e.Elapsed - before.Elapsed)).Abs()
		here, can, rank := last.source == r.source, fits(call, r), 0
		switch {
		case r.Key == "" && here && can, r.Key != "" && here && last.file == r.file:
			rank = 2
		case r.Key != "" && can && (e.Attempt > before.Attempt || here && apart < rotated):
			rank = 1
		}
		if rank > best || rank > 0 && rank == best && apart <= closest {
			found, best, closest = call, rank, apart
		}
	}
	return found
}

// rotated is how far apart two events of a call in different files may say that it began:
// some logs have whole seconds.
const rotated = 2 * time.Second

// fits reports whether r can be the next event of a call, by its numbers.
func fits(t *Trace, r *Record) bool {
	e := r.Event
	want, ok := next(t.last(), r)
	later := e.Elapsed >= want.Elapsed || !r.logged || t.Last().Kind != retry.RetryScheduled
	return ok && later && e.Attempt == want.Attempt && number(e) == want.Number
}

// shorten cuts the texts of r that are longer than mostText.
func (r *Record) shorten() {
	e := &r.Event
	for _, text := range []*string{&r.Key, &r.source, &r.task, &e.Class, (*string)(&e.Kind), (*string)(&e.Reason)} {
		*text = shortened(*text)
	}
	for _, err := range []*error{&e.Err, &e.Cause} {
		if text := ""; *err != nil {
			if text = (*err).Error(); len(text) > mostText {
				*err = errors.New(shortened(text))
			}
		}
	}
}

func shortened(text string) string {
	if len(text) <= mostText {
		return text
	}
	return strings.ToValidUTF8(text[:mostText], "") + "..."
}

// bytes returns how many bytes the texts of r have.
func (r *Record) bytes() int {
	e := &r.Event
	n := len(r.Key) + len(r.source) + len(r.task) + len(e.Class) + len(e.Kind) + len(e.Reason)
	for _, err := range []error{e.Err, e.Cause} {
		if err != nil {
			n += len(err.Error())
		}
	}
	return n
}

// close ends a call.
func (l *Files) close(call *Trace, cut string) {
	call.Cut = cmp.Or(call.Cut, cut)
	l.records -= len(call.Records)
	for i := range call.Records {
		l.bytes -= call.Records[i].bytes()
	}
	l.open[call.Key] = slices.DeleteFunc(l.open[call.Key], func(o *Trace) bool { return o == call })
	if len(l.open[call.Key]) == 0 {
		delete(l.open, call.Key)
	}
	l.each(call)
}

// all returns the open calls.
func (l *Files) all() []*Trace { return slices.Concat(slices.Collect(maps.Values(l.open))...) }

// cut ends the nth part of some calls, which have had no event for the longest, and returns how
// many these are.
func (l *Files) cut(calls []*Trace, nth int, why string) int {
	calls = slices.SortedFunc(slices.Values(calls), func(a, b *Trace) int { return a.turn - b.turn })
	calls = calls[:(len(calls)+nth-1)/nth]
	for _, call := range calls {
		l.close(call, why)
	}
	return len(calls)
}
