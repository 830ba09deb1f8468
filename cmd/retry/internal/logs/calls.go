package logs

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// These constants limit what Files keeps in memory about calls that are open, which means that
// their end has not been read yet. If a limit is exceeded, Files closes a quarter of the calls to
// which the limit applies: it marks them as incomplete, passes them to the function of Each, and
// forgets them. It chooses the calls that had no event for the longest time.
const (
	mostRecords = 20_000   // limit on the events of all open calls
	mostAlike   = 200      // limit on the open calls with one key, or without a key
	mostBytes   = 16 << 20 // limit on the bytes in the texts of all open calls
)

// Each reads the files, and calls the function `each` once for each call in them. It calls `each`
// when the log shows the end of the call, or when it stops waiting for this end. The calls that are
// still open at the end of the log come last. The function `each` must not keep its Trace, because
// the memory of the Trace is used again for another call. The method Each returns an error only if
// a file cannot be read.
func (l *Files) Each(each func(*Trace)) error {
	l.open, l.each = map[string][]*Trace{}, each
	r, err := l.next()
	for ; err == nil; r, err = l.next() {
		l.collect(r)
	}
	l.closeOldest(l.openCalls(), 1, "the log lacks its end")
	if err == io.EOF {
		return nil
	}
	return err
}

// collect adds an event to its call. If the event ends the call, `collect` closes the call.
func (l *Files) collect(r event) {
	call := l.find(&r)
	if call == nil && !isKnown(r.Event.Kind) {
		return
	}
	if call != nil && r.Key != "" && (startsCall(r.Event) ||
		r.Logged && r.Event.Attempt == 1 && !call.CanAdd(r.Record)) {
		l.close(call, "the log lacks its end: the next call with the same key has begun")
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
		l.Dropped += l.closeOldest(alike, 4, "too many calls were open at once")
	case l.records > mostRecords, l.bytes > mostBytes:
		l.Dropped += l.closeOldest(l.openCalls(), 4, "too many calls were open at once")
	}
}

// isKnown reports whether this version of the program knows a kind of event. The log of a newer
// version may contain other kinds.
func isKnown(kind retry.EventKind) bool {
	switch kind {
	case retry.AttemptStarted, retry.AttemptFinished, retry.RetryScheduled, retry.CallFinished:
		return true
	}
	return false
}

// startsCall reports whether e can only be the first event of a call.
func startsCall(e retry.Event) bool {
	return e.Kind == retry.AttemptStarted && e.Attempt == 1 ||
		e.Kind == retry.CallFinished && e.Attempt == 0
}

// begin adds a new call to the open calls. The parameter r is the first event of the call in the
// log.
func (l *Files) begin(r *event) *Trace {
	call := l.closed
	if l.closed = nil; call == nil {
		call = &Trace{}
	}
	*call = Trace{
		Call: retrylog.Call{
			Key: r.Key, Records: call.Records[:0], Attempts: call.Attempts[:0],
		},
		origins: call.origins[:0],
	}
	began := r.Event.Time.Add(-r.Event.Elapsed)
	lost := began.Before(r.file.first) || l.Torn+l.Bad > 0 || l.Dropped > 0
	if lost && !call.CanAdd(r.Record) {
		call.Cut = headless
	}
	l.open[r.Key] = append(l.open[r.Key], call)
	return call
}

// find returns the open call to which the event r belongs. It returns nil if r begins a call. Only
// open calls with the key of r are considered.
//
// If r has a key, `find` prefers a call whose last event has the same source and file. If there is
// no such call, r may belong to a job whose next attempt another process makes, or to a call that
// continues in another file after a rotation. In these two cases, r must be a possible next event
// of the call.
//
// If r has no key, the call must have the source of r, and r must be a possible next event of the
// call.
//
// If several calls are possible, `find` returns the call whose start best fits the time and the
// Elapsed of r.
func (l *Files) find(r *event) (found *Trace) {
	e := &r.Event
	if r.foreign || r.Key == "" && startsCall(*e) {
		return nil
	}
	best, closest := 0, time.Duration(0)
	for _, call := range l.open[r.Key] {
		before := call.Last()
		source, last := call.lastOrigin()
		apart := (e.Time.Sub(before.Time) - (e.Elapsed - before.Elapsed)).Abs()
		here, rank := source == r.Source, 0
		switch {
		case r.Key != "" && here && last.file == r.file, r.Key == "" && here && call.CanAdd(r.Record):
			rank = 2
		case r.Key != "" && (e.Attempt > before.Attempt || here && apart < startTolerance) &&
			call.CanAdd(r.Record):
			rank = 1
		}
		if rank > best || rank > 0 && rank == best && apart <= closest {
			found, best, closest = call, rank, apart
		}
	}
	return found
}

// startTolerance is the largest accepted difference between the start times that two events imply
// for the same call. An event implies that its call started at the time of the event minus the
// Elapsed of the event. The difference can be above 0, because some logs have times in whole
// seconds.
const startTolerance = 2 * time.Second

// close removes a call from the open calls and passes it to the function of Each. The parameter
// `cut` says why the log does not show the end of the call. It is "" if the log shows the end.
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
	l.closed = call
}

func (l *Files) openCalls() []*Trace {
	return slices.Concat(slices.Collect(maps.Values(l.open))...)
}

// closeOldest closes some of the open calls in a list, and returns how many calls it has closed. It
// closes the calls that had no event for the longest time: the whole list if nth is 1, a quarter of
// the list if nth is 4.
func (l *Files) closeOldest(calls []*Trace, nth int, why string) int {
	calls = slices.SortedFunc(slices.Values(calls), func(a, b *Trace) int { return a.turn - b.turn })
	calls = calls[:(len(calls)+nth-1)/nth]
	for _, call := range calls {
		l.close(call, why)
	}
	return len(calls)
}
