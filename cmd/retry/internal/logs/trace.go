package logs

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// How much Files hold. Calls beyond it are cut short, the one first that has had no event for the
// longest.
const (
	mostRecords = 20_000
	mostAlike   = 200      // calls with the same key, or without one
	mostBytes   = 16 << 20 // of the texts of its records
)

// A Trace is what files have of a call. Its Attempts are as its events say, even if these cannot
// have happened.
type Trace struct {
	retrylog.Call
	Cut string // why it is not whole; "": it is

	origins []origin // of the Records
	turn    int      // when its last event came, counted in events
}

// headless is the Cut of a call whose start is missing. There is no more to say about it.
const headless = "its beginning is not in the log"

// Last returns the last event of t.
func (t *Trace) Last() *retry.Event { return &t.Records[len(t.Records)-1].Event }

// last returns where the last event of t is from.
func (t *Trace) last() (source string, from origin) {
	n := len(t.Records) - 1
	return t.Records[n].Source, t.origins[n]
}

// Stopped reports whether t has an end.
func (t *Trace) Stopped() bool { return t.Last().Kind == retry.CallFinished }

// From returns where t is from: its source, or its file where no prefix says one.
func (t *Trace) From() string { return cmp.Or(t.Records[0].Source, t.File()) }

// File returns the name of the file of the first event.
func (t *Trace) File() string { return t.origins[0].file.name }

// Foreign reports whether t is a line of Envoy's access log.
func (t *Trace) Foreign() bool { return t.origins[0].foreign }

// Compare compares t with a policy. If t cannot be compared, or has no end, cut says why. The
// records in byCode are those of [retrylog.Call.ByCode].
func (t *Trace) Compare(p retry.Policy) (byCode []retrylog.Record, cut string, fault *Fault) {
	first := &t.Records[0]
	switch {
	case t.Foreign():
		return nil, "an access log has no decisions", nil
	case first.Task != "":
		return nil, "it follows the rules of a pipeline", nil
	case t.Cut == headless:
		return nil, t.Cut, nil
	case first.Logged && first.Event.Time.IsZero():
		return nil, "its lines have no time", nil
	}
	_, last := t.last()
	calls, err := retrylog.Replay(t.Records)
	switch {
	case err == nil:
		byCode, err = calls[0].ByCode(p), calls[0].Check(p)
	case last.torn > t.origins[0].torn: // between two of its events
		return nil, "one of its lines is cut off, or cannot be read", nil
	}
	return byCode, t.Cut, t.fault(err)
}

// fault returns an error about a record of t with the file of that record; nil if there is none.
func (t *Trace) fault(err error) *Fault {
	var wrong *retrylog.LineError
	if !errors.As(err, &wrong) {
		return nil
	}
	at := slices.IndexFunc(t.Records, func(r retrylog.Record) bool {
		return r.Line == wrong.Record.Line && r.Event.Time.Equal(wrong.Record.Event.Time)
	})
	return &Fault{t.origins[at].file.name, wrong.Record.Source, wrong.Record.Line, wrong.Err}
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
func (l *Files) collect(r event) {
	call := l.find(&r)
	if call == nil && !known(r.Event.Kind) {
		return
	}
	if call != nil && r.Key != "" && (begins(r.Event) ||
		r.Logged && r.Event.Attempt == 1 && !call.CanAdd(r.Record)) {
		l.close(call, "its end is not in the log: the next call with its key has begun")
		call = nil
	}
	if call == nil {
		call = l.begin(&r)
	}
	l.Events++
	call.turn = l.Events
	call.Add(r.Record)
	call.origins = append(call.origins, r.origin)
	l.records++
	l.bytes += bytesOf(&r.Record)
	switch alike := l.open[r.Key]; {
	case r.Event.Kind == retry.CallFinished:
		l.close(call, "")
	case len(alike) > mostAlike:
		l.Dropped += l.cut(alike, 4, "too many calls were open at once")
	case l.records > mostRecords, l.bytes > mostBytes:
		l.Dropped += l.cut(l.all(), 4, "too many calls were open at once")
	}
}

// known reports whether calls have events of this kind. Other kinds are of a newer version.
func known(kind retry.EventKind) bool {
	switch kind {
	case retry.AttemptStarted, retry.AttemptFinished, retry.RetryScheduled, retry.CallFinished:
		return true
	}
	return false
}

// begins reports whether e begins a call, whatever came before it.
func begins(e retry.Event) bool {
	return e.Kind == retry.AttemptStarted && e.Attempt == 1 ||
		e.Kind == retry.CallFinished && e.Attempt == 0
}

// begin begins a call with r.
func (l *Files) begin(r *event) *Trace {
	const usual = 3 // a call that succeeds at once
	call := &Trace{
		Call:    retrylog.Call{Key: r.Key, Records: make([]retrylog.Record, 0, usual)},
		origins: make([]origin, 0, usual),
	}
	began := r.Event.Time.Add(-r.Event.Elapsed)
	lost := began.Before(r.file.first) || l.Torn+l.Bad > 0 || l.Dropped > 0
	if lost && !call.CanAdd(r.Record) {
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
func (l *Files) find(r *event) (found *Trace) {
	e := &r.Event
	if r.foreign || r.Key == "" && begins(*e) {
		return nil
	}
	best, closest := 0, time.Duration(0)
	for _, call := range l.open[r.Key] {
		before := call.Last()
		source, last := call.last()
		apart := (e.Time.Sub(before.Time) - (e.Elapsed - before.Elapsed)).Abs()
		here, rank := source == r.Source, 0
		switch {
		case r.Key != "" && here && last.file == r.file, r.Key == "" && here && call.CanAdd(r.Record):
			rank = 2
		case r.Key != "" && (e.Attempt > before.Attempt || here && apart < rotated) &&
			call.CanAdd(r.Record):
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

// bytesOf returns how many bytes the texts of r have.
func bytesOf(r *retrylog.Record) int {
	e := &r.Event
	n := len(r.Key) + len(r.Source) + len(r.Task) + len(e.Class) + len(e.Kind) + len(e.Reason)
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
		l.bytes -= bytesOf(&call.Records[i])
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
