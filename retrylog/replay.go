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

// Replay rebuilds the calls of a log, in the order in which the calls began. Calls with
// different keys may be interleaved.
//
// If the last event of a call is not [retry.CallFinished], a crash, a panic or the end of the log
// has cut off the call. Replay returns such a call without a Reason. A later call may have the
// same key. A call may start with any attempt: the log may have been rotated, or a job may have
// come back from the dead letters with some attempts left.
//
// After a crash or a panic, a log may lack the end of an attempt, or the retry after it. If a
// queue then delivers the job again, the next event is the AttemptStarted of the next attempt.
// If the limit allows no further attempt, the job is refused: the next event is a CallFinished
// without an error. This CallFinished may also be the only event of a call.
//
// Replay skips events of an unknown kind, and treats an unknown reason as a stop. Unknown kinds
// and reasons come from a newer version.
//
// If a log contains an event that cannot have happened, Replay returns a [LineError] for its
// line, and the calls so far. These events cannot have happened:
//
//   - an event out of order
//   - a Number above Max, or a Max that changes in a call
//   - a Delay that is not Draw(Seed, Number, Lo, Hi)
//   - an error that differs from the error in the event before, although both events are about the
//     same attempt
//   - a field that events of this kind do not have
//   - a Time that falls behind Elapsed by more than a day between two events
//
// Time may advance up to a day less than Elapsed, because a clock may be adjusted or its time
// zone corrected. Time may advance by any amount more than Elapsed, because the clock that
// measures Elapsed can stop while a machine sleeps.
//
// The workers of a queue measure the Elapsed of a job with their own clocks. The clock of the
// next worker may be up to a second behind. So Elapsed may go back by up to a second between two
// attempts. Replay allows this in all calls, because a log does not say whether a call is a job.
func Replay(records []Record) (calls []Call, err error) {
	running := map[string]int{} // for the key of each running call: the index of the call in calls
	for i, r := range records {
		r.Line = cmp.Or(r.Line, i+1) // a record without a Line gets its position
		index, ok := running[r.Key]
		if e := r.Event; e.Kind != "" && !isKnown(e.Kind) {
			continue
		}
		var before *Record
		if ok && !isFirst(r.Event, true) {
			before = calls[index].lastRecord()
		}
		if err := r.checkNext(before); err != nil {
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

// clockSkew is how far the clocks of a queue's workers may differ. See Replay and Check.
const clockSkew = time.Second

// isFirst reports whether e is the first event of a call. running says whether a call with the
// same key is in progress.
func isFirst(e retry.Event, running bool) bool {
	return e.Kind == retry.AttemptStarted && (e.Attempt == 1 || !running) ||
		e.Kind == retry.CallFinished && e.Attempt == 0 || !running && refusal(e)
}

// refusal reports whether e is the refusal of a job that a queue has delivered again. A job is
// refused if the last attempt that its limit allows did not return, or if the worker is shutting
// down.
func refusal(e retry.Event) bool {
	return e.Kind == retry.CallFinished && e.Attempt != 0 && e.Err == nil && hasBit(e, refused)
}

// isUnseen reports whether the log lacks an attempt between the events previous and r, because
// the level of the logger was above Debug.
func isUnseen(previous, r *Record) bool {
	b, e := previous.Event, r.Event
	return r.Logged && b.Kind == retry.RetryScheduled && (e.Kind == retry.RetryScheduled ||
		e.Kind == retry.CallFinished && e.Attempt != b.Attempt)
}

// expected returns the Attempt and the Number that r must have if it follows previous, and the
// smallest Elapsed that it may have. ok reports whether an event of this kind can follow
// previous.
func expected(previous, r *Record) (want retry.Event, ok bool) {
	b, e := previous.Event, r.Event
	hidden, failed := isUnseen(previous, r), b.Kind == retry.AttemptFinished && b.Err != nil
	want = retry.Event{Attempt: b.Attempt, Elapsed: b.Elapsed}
	want.Number = number(b)
	switch starts := e.Kind == retry.AttemptStarted; {
	case hidden, starts && (failed || b.Kind != retry.AttemptFinished): // RetryScheduled is optional
		want.Attempt++
		want.Number++
	case b.Kind == retry.AttemptStarted && (e.Kind == retry.AttemptFinished || refusal(e)),
		b.Kind == retry.AttemptFinished && slices.Contains(each[2:], e.Kind),
		b.Kind == retry.RetryScheduled && e.Kind == retry.CallFinished:
	default:
		return want, false
	}
	// The attempt ran past HealthyAfter. So it has Number 1, and Elapsed is measured from its end.
	if (hidden || failed) && e.Reset {
		want.Number, want.Elapsed = 1, 0
	}
	return want, true
}

// number returns the Number of e. If Number is 0, as in an event made by hand, it returns
// Attempt.
func number(e retry.Event) int { return cmp.Or(e.Number, e.Attempt) }

// clockStep is how far Time may fall behind Elapsed between two events.
const clockStep = 24 * time.Hour

// checkNext returns an error if r cannot be the next event of a call. previous is the event
// before r, or nil if r is the first event.
func (r *Record) checkNext(previous *Record) error {
	err := r.checkAlone()
	if err == nil {
		err = r.checkInTurn(previous)
	}
	if err != nil {
		return fmt.Errorf("%s cannot have happened: %w", describe(*r), err)
	}
	return nil
}

// checkAlone returns an error if r cannot have happened, whatever happened before it.
func (r *Record) checkAlone() error {
	e, bare := r.Event, r.bare()
	for _, f := range fields {
		if !slices.Contains(f.kinds, e.Kind) && !f.isZero(&bare) {
			return fmt.Errorf("%q has no %s", e.Kind, f.key)
		}
	}
	drawn, ends := retry.Draw(e.Seed, number(e), e.Lo, e.Hi), e.Time.Add(e.Delay)
	switch {
	case e.Time.IsZero():
		return errors.New("the event has no time")
	case e.Number < 0, e.Number > e.Attempt, e.Reset && number(e) != 1:
		return fmt.Errorf("attempt is %d, number is %d, and reset is %t", e.Attempt, e.Number, e.Reset)
	case e.Max < 1 && e.Max != retry.Unlimited, number(e) > e.Max && e.Max != retry.Unlimited:
		return fmt.Errorf("number is %d, and max is %d", number(e), e.Max)
	case e.Took < 0, e.Elapsed < 0: // Took may exceed Elapsed, because they may come from two clocks
		return fmt.Errorf("took is %v, and elapsed is %v", e.Took, e.Elapsed)
	case e.RetryAfter < 0, e.Delay < e.RetryAfter:
		return fmt.Errorf("delay is %v, and retry_after is %v", e.Delay, e.RetryAfter)
	case e.Lo < 0, e.Hi < e.Lo:
		return fmt.Errorf("lo is %v, and hi is %v", e.Lo, e.Hi)
	case e.Hi != 0 && drawn != e.Delay:
		return fmt.Errorf("delay is %v, but its seed, number, lo and hi make %v", e.Delay, drawn)
	case e.Kind == retry.RetryScheduled && e.Due.Sub(ends).Abs() > clockSkew:
		// A log may contain times in whole seconds.
		return fmt.Errorf("due is %s, but the delay ends at %s", instant(e.Due), instant(ends))
	case e.Kind == retry.CallFinished && (e.Reason == "" || e.Retry()):
		return fmt.Errorf("%q is not a reason to stop", e.Reason)
	case e.Cause == nil && reasons[e.Reason].bits&mustCause != 0:
		return fmt.Errorf("reason is %v, but there is no cause", e.Reason)
	case e.Cause != nil && !hasBit(e, mayCause|mustCause):
		return fmt.Errorf("cause is %s, but %v has no cause", quoted(e.Cause), e.Reason)
	case e.Err != nil && e.Reason == retry.ReasonSuccess:
		return fmt.Errorf("reason is %v, but err is %s", e.Reason, quoted(e.Err))
	}
	return nil
}

// checkFirst returns an error if r cannot be the first event of a call. A logger above level
// Debug writes no attempts, so its first event may be a retry or the end of the call.
func (r *Record) checkFirst() error {
	switch e := r.Event; {
	case !isFirst(e, false) && (!r.Logged || !slices.Contains(each[2:], e.Kind)):
		return disorder("no call with this key has begun")
	case e.Attempt < 1 && e.Kind != retry.CallFinished:
		return fmt.Errorf("attempt is %d", e.Attempt)
	case e.Attempt == 0 && !hasBit(e, unbegun):
		return errors.New("no attempt has begun")
	case e.Attempt == 0 && e.Err != nil:
		return fmt.Errorf("err is %s, but no attempt has begun", quoted(e.Err))
	}
	return nil
}

// checkInTurn returns an error if r cannot follow previous because of its kind, its numbers, its
// times or its error.
func (r *Record) checkInTurn(previous *Record) error {
	if previous == nil {
		return r.checkFirst()
	}
	b, e := previous.Event, r.Event
	want, ok := expected(previous, r)
	ends := e.Kind == retry.CallFinished && !isUnseen(previous, r)
	success := e.Reason == retry.ReasonSuccess
	waits := b.Kind == retry.RetryScheduled
	// After a queue delivered the job again, the call had a nil context or function.
	redelivered := e.Reason == retry.ReasonInvalid && e.Err == nil
	least := want.Elapsed
	if e.Kind == retry.AttemptStarted || refusal(e) {
		least -= clockSkew // the clock of the next worker may differ
	}
	switch {
	case !ok:
		return disorder("it follows %s", describe(*previous))
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
		return fmt.Errorf("max is %d, so no retry can follow number %d", e.Max, number(e))
	case ends && waits && !hasBit(e, waiting) && !redelivered:
		return errors.New(
			"only the caller, a limit of time or the wait can end a call between two attempts")
	case ends && !waits && e.Reason == retry.ReasonWait:
		return errors.New("a wait failed, but no retry was scheduled")
	case ends && success && b.Err != nil:
		return fmt.Errorf("the attempt failed: %s", quoted(b.Err))
	case b.Kind == retry.AttemptFinished && b.Err == nil &&
		(e.Kind == retry.RetryScheduled || ends && !success):
		return errors.New("the attempt did not fail")
	case e.Err == nil, b.Err == nil && b.Kind != retry.AttemptFinished, isUnseen(previous, r),
		e.Kind == retry.AttemptFinished:
		// An event may leave out its error, because the AttemptFinished contains it.
	case !sameText(e.Err, b.Err):
		return fmt.Errorf("err is %s, but %s in the event before", quoted(e.Err), quoted(b.Err))
	}
	return nil
}

// invalidPolicy reports whether Max may differ between previous and e because the policy became
// invalid. With an invalid policy, a queue still makes one attempt. Max is then the number of
// this attempt.
func invalidPolicy(previous, e retry.Event) bool {
	if e.Kind == retry.AttemptStarted {
		return e.Max == e.Attempt
	}
	return previous.Kind != retry.AttemptFinished && e.Kind == retry.CallFinished &&
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
