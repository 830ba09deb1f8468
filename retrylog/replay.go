package retrylog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/goretry/retry"
)

// Replay rebuilds the calls of a log, in the order in which they began. Calls
// with different keys may be interleaved. A call whose last event is not
// [retry.CallFinished] was cut off by a crash, a panic, or the end of the log; it is
// returned without a Reason, and a later call may have its key. A call may begin
// with any attempt, because the log may have been rotated, or the job of a queue
// may have returned from the dead letters with the attempts that it has left.
//
// An attempt that did not succeed may be followed by the next one with nothing in
// between: it did not return, or a crash or a panic kept its retry out of the log, and
// a queue went on. If an attempt that did not return was the last one, the queue
// refuses the job: a CallFinished without an error follows, which may also stand alone.
//
// Replay skips events of a kind that it does not know, and takes a reason that it
// does not know for a stop: they are from a newer version.
//
// A log that cannot have happened is a [LineError] that names the line at fault:
// events out of order, a Number beyond Max, a delay that does not follow from the
// Seed, Number, Lo and Hi beside it, a Max that changes within a call, the error of
// another attempt, or a field that its kind of event does not have. The calls up to
// the fault are returned.
//
// A wall clock that goes back is such a fault, too, if Time falls behind Elapsed by
// more than a day from one event to the next. A smaller step can happen when a clock
// is adjusted, or its time zone is corrected. Time may run ahead of Elapsed by any
// amount, because the clock that measures Elapsed can stop while a machine sleeps.
//
// The Elapsed of a job is measured by the clock of the worker that has it. The clock of
// the next worker may be up to a second behind, and a log does not say whether it is
// of a job: so Elapsed may go back by a second between two attempts.
func Replay(records []Record) (calls []Call, err error) {
	running := map[string]int{} // index in calls, by key
	for i, r := range records {
		r.Line = cmp.Or(r.Line, i+1) // the one that it would be written on
		index, ok := running[r.Key]
		if e := r.Event; e.Kind != "" && !known(e.Kind) {
			continue
		}
		var before *Record
		if ok && !begins(r.Event, true) {
			before = calls[index].last()
		}
		if err := r.follows(before); err != nil {
			return calls, &LineError{r, err}
		}
		if before == nil {
			index = len(calls)
			calls = append(calls, Call{Key: r.Key})
		}
		calls[index].Add(r)
		if running[r.Key] = index; r.Event.Kind == retry.CallFinished {
			delete(running, r.Key)
		}
	}
	return calls, nil
}

// clockSkew is how far the clocks of a queue's workers may differ: Elapsed of a job is
// by the clock of the worker that has it, and a log does not say whether it is of a
// job. The docs of Replay and Check say so.
const clockSkew = time.Second

// begins reports whether e is the first event of a call; running is whether
// its key has one that has not stopped.
func begins(e retry.Event, running bool) bool {
	return e.Kind == retry.AttemptStarted && (e.Attempt == 1 || !running) ||
		e.Kind == retry.CallFinished && e.Attempt == 0 || !running && refusal(e)
}

// refusal reports whether e says that a queue refuses a job that it has handed out
// again: an attempt did not return, and it was the last, or the worker stops.
func refusal(e retry.Event) bool {
	return e.Kind == retry.CallFinished && e.Attempt != 0 && e.Err == nil && can(e, refused)
}

// unseen reports whether there was an attempt between two events, of a logger whose level is above
// Debug.
func unseen(before, r *Record) bool {
	b, e := before.Event, r.Event
	return r.Logged && b.Kind == retry.RetryScheduled && (e.Kind == retry.RetryScheduled ||
		e.Kind == retry.CallFinished && e.Attempt != b.Attempt)
}

// next returns the numbers of an event like r if it follows before, and whether it can. Elapsed is
// the least that it has.
func next(before, r *Record) (want retry.Event, ok bool) {
	b, e := before.Event, r.Event
	hidden, failed := unseen(before, r), b.Kind == retry.AttemptFinished && b.Err != nil
	want = retry.Event{Attempt: b.Attempt, Elapsed: b.Elapsed}
	want.Number = number(b)
	switch starts := e.Kind == retry.AttemptStarted; {
	case hidden, starts && (failed || b.Kind != retry.AttemptFinished): // or the retry was not written
		want.Attempt++
		want.Number++
	case b.Kind == retry.AttemptStarted && (e.Kind == retry.AttemptFinished || refusal(e)),
		b.Kind == retry.AttemptFinished && slices.Contains(each[2:], e.Kind),
		b.Kind == retry.RetryScheduled && e.Kind == retry.CallFinished:
	default:
		return want, false
	}
	// The attempt was healthy: it has number 1, and Elapsed counts from its end.
	if (hidden || failed) && e.Reset {
		want.Number, want.Elapsed = 1, 0
	}
	return want, true
}

// number returns the Number of e, which an event made by hand may leave out.
func number(e retry.Event) int { return cmp.Or(e.Number, e.Attempt) }

// clockStep is how far Time may fall behind Elapsed between two events.
const clockStep = 24 * time.Hour

// follows returns why r cannot come after before in a call; nil: it is the first.
func (r *Record) follows(before *Record) error {
	err := r.alone()
	if err == nil {
		err = r.inTurn(before)
	}
	if err != nil {
		return fmt.Errorf("%s cannot have happened: %w", describe(*r), err)
	}
	return nil
}

// alone returns why r cannot have happened, whatever came before.
func (r *Record) alone() error {
	e, bare := r.Event, r.bare()
	for _, f := range fields {
		if !slices.Contains(f.kinds, e.Kind) && !f.isZero(&bare) {
			return fmt.Errorf("%q has no %s", e.Kind, f.key)
		}
	}
	drawn, ends := retry.Draw(e.Seed, number(e), e.Lo, e.Hi), e.Time.Add(e.Delay)
	switch {
	case e.Time.IsZero():
		return errors.New("it has no time")
	case e.Number < 0, e.Number > e.Attempt, e.Reset && number(e) != 1:
		return fmt.Errorf("attempt is %d, number is %d, and reset is %t", e.Attempt, e.Number, e.Reset)
	case e.Max < 1 && e.Max != retry.Unlimited, number(e) > e.Max && e.Max != retry.Unlimited:
		return fmt.Errorf("number is %d, and max is %d", number(e), e.Max)
	case e.Took < 0, e.Elapsed < 0: // Took may exceed Elapsed, which a queue measures by another clock
		return fmt.Errorf("took is %v, and elapsed is %v", e.Took, e.Elapsed)
	case e.RetryAfter < 0, e.Delay < e.RetryAfter:
		return fmt.Errorf("delay is %v, and retry_after is %v", e.Delay, e.RetryAfter)
	case e.Lo < 0, e.Hi < e.Lo:
		return fmt.Errorf("lo is %v, and hi is %v", e.Lo, e.Hi)
	case e.Hi != 0 && drawn != e.Delay:
		return fmt.Errorf("delay is %v, but its seed, number, lo and hi make %v", e.Delay, drawn)
	case e.Kind == retry.RetryScheduled && e.Due.Sub(ends).Abs() > clockSkew:
		// A text may have whole seconds.
		return fmt.Errorf("due is %s, but its delay ends at %s", instant(e.Due), instant(ends))
	case e.Kind == retry.CallFinished && (e.Reason == "" || e.Retry()):
		return fmt.Errorf("%q is not a reason to stop", e.Reason)
	case e.Cause == nil && reasons[e.Reason].can&mustCause != 0:
		return fmt.Errorf("reason is %v, but there is no cause", e.Reason)
	case e.Cause != nil && !can(e, mayCause|mustCause):
		return fmt.Errorf("cause is %s, but %v has none", quoted(e.Cause), e.Reason)
	case e.Err != nil && e.Reason == retry.ReasonSuccess:
		return fmt.Errorf("reason is %v, but its error is %s", e.Reason, quoted(e.Err))
	}
	return nil
}

// starts returns why a call cannot start with r. A logger above level Debug has no attempts.
func (r *Record) starts() error {
	switch e := r.Event; {
	case !begins(e, false) && (!r.Logged || !slices.Contains(each[2:], e.Kind)):
		return disorder("no call with this key has begun")
	case e.Attempt < 1 && e.Kind != retry.CallFinished:
		return fmt.Errorf("attempt is %d", e.Attempt)
	case e.Attempt == 0 && !can(e, unbegun):
		return errors.New("no attempt has begun")
	case e.Attempt == 0 && e.Err != nil:
		return fmt.Errorf("its error is %s, but no attempt has begun", quoted(e.Err))
	}
	return nil
}

// inTurn returns why r cannot follow before: by its kind, its numbers, its times, or its error.
func (r *Record) inTurn(before *Record) error {
	if before == nil {
		return r.starts()
	}
	b, e := before.Event, r.Event
	want, ok := next(before, r)
	ends := e.Kind == retry.CallFinished && !unseen(before, r)
	success := e.Reason == retry.ReasonSuccess
	waits := b.Kind == retry.RetryScheduled
	// A queue has handed the job out again, in an invalid call.
	handedOut := e.Reason == retry.ReasonInvalid && e.Err == nil
	least := want.Elapsed
	if e.Kind == retry.AttemptStarted || refusal(e) {
		least -= clockSkew // another worker of a queue may go on
	}
	switch {
	case !ok:
		return disorder("it follows %s", describe(*before))
	case e.Max != b.Max && !invalidPolicy(b, e):
		return fmt.Errorf("max is %d, but %d in the event before", e.Max, b.Max)
	case e.Attempt != want.Attempt:
		return disorder("attempt is %d, but attempt %d comes next", e.Attempt, want.Attempt)
	case number(e) != want.Number:
		return fmt.Errorf("number is %d, but %d comes next", number(e), want.Number)
	case ends && waits && e.Reset != b.Reset:
		return fmt.Errorf("reset is %t, but %t in the event before", e.Reset, b.Reset)
	case e.Elapsed < least:
		return fmt.Errorf("elapsed is %v, but %v in the event before", e.Elapsed, want.Elapsed)
	case e.Time.Before(b.Time.Add(e.Elapsed - want.Elapsed - clockStep)):
		return fmt.Errorf("time goes back from %s to %s, while elapsed goes on from %v to %v",
			instant(b.Time), instant(e.Time), want.Elapsed, e.Elapsed)
	case e.Kind == retry.RetryScheduled && number(e) == b.Max:
		return fmt.Errorf("number %d is the last that max %d allows", number(e), e.Max)
	case ends && waits && !can(e, waiting) && !handedOut:
		return errors.New(
			"only the caller, a limit of time or the wait can end a call between two attempts")
	case ends && !waits && e.Reason == retry.ReasonWait:
		return errors.New("it waits for nothing")
	case ends && success && b.Err != nil:
		return fmt.Errorf("the attempt failed: %s", quoted(b.Err))
	case b.Kind == retry.AttemptFinished && b.Err == nil &&
		(e.Kind == retry.RetryScheduled || ends && !success):
		return errors.New("the attempt did not fail")
	case e.Err == nil, b.Err == nil && b.Kind != retry.AttemptFinished, unseen(before, r),
		e.Kind == retry.AttemptFinished:
		// An event may leave its error out, because the AttemptFinished has it.
	case !sameText(e.Err, b.Err):
		return fmt.Errorf("its error is %s, but %s in the event before", quoted(e.Err), quoted(b.Err))
	}
	return nil
}

// invalidPolicy reports whether e may have another Max than before. A queue that has
// been given an invalid policy still makes the attempt in hand, which is then the
// last one allowed.
func invalidPolicy(before, e retry.Event) bool {
	if e.Kind == retry.AttemptStarted {
		return e.Max == e.Attempt
	}
	return before.Kind != retry.AttemptFinished && e.Kind == retry.CallFinished &&
		e.Reason == retry.ReasonInvalid && e.Max == e.Attempt+1
}

// disorder returns an error for an event that is out of order.
func disorder(format string, args ...any) error {
	const hint = " (calls that run at once, or one within another, need keys of their own)"
	return fmt.Errorf(format+hint, args...)
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func quoted(err error) string { return strconv.Quote(textOf(err)) }

// sameText reports whether a and b are errors with the same text.
func sameText(a, b error) bool { return a != nil && b != nil && textOf(a) == textOf(b) }
