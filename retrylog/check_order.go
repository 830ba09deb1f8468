package retrylog

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// checkNext returns an error if r cannot be the next event of a call. `previous` is the event
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
			return fmt.Errorf("%s is set, but an event of the kind %q has no %s", f.key, e.Kind, f.key)
		}
	}
	drawn, ends := retry.Draw(e.Seed, number(e), e.Lo, e.Hi), e.Time.Add(e.Delay)
	switch {
	case e.Time.IsZero():
		return errors.New("the event has no time")
	case e.Number < 0, e.Number > e.Attempt, e.Reset && number(e) != 1:
		return fmt.Errorf("attempt is %d, number is %d, and reset is %t: "+
			"number must be from 0 to attempt, and 1 if reset is true", e.Attempt, e.Number, e.Reset)
	case e.Max < 1 && e.Max != retry.Unlimited, number(e) > e.Max && e.Max != retry.Unlimited:
		return fmt.Errorf("number is %d, and max is %d: "+
			"max must be 1 or more and not below number (-1 means unlimited)", number(e), e.Max)
	case e.Took < 0, e.Elapsed < 0: // Took may exceed Elapsed, because they may come from two clocks
		return fmt.Errorf("took is %v, and elapsed is %v: neither may be negative", e.Took, e.Elapsed)
	case e.RetryAfter < 0, e.Delay < e.RetryAfter:
		return fmt.Errorf("delay is %v, and retry_after is %v: "+
			"neither may be negative, and delay must not be less than retry_after", e.Delay, e.RetryAfter)
	case e.Lo < 0, e.Hi < e.Lo:
		return fmt.Errorf("lo is %v, and hi is %v: "+
			"lo must not be negative, and hi must not be less than lo", e.Lo, e.Hi)
	case e.Hi != 0 && drawn != e.Delay:
		return fmt.Errorf("delay is %v, but the seed, number, lo and hi of the event give %v",
			e.Delay, drawn)
	case e.Kind == retry.RetryScheduled && e.Due.Sub(ends).Abs() > clockSkew:
		// A small difference is allowed, because a log may contain times in whole seconds.
		return fmt.Errorf("due is %s, but the delay ends at %s", instant(e.Due), instant(ends))
	case e.Kind == retry.CallFinished && (e.Reason == "" || e.Retry()):
		return fmt.Errorf("reason is %q, which is not a reason to stop", e.Reason)
	case e.Cause == nil && reasons[e.Reason].bits&mustCause != 0:
		return fmt.Errorf("reason is %v, but the event has no cause", e.Reason)
	case e.Cause != nil && !hasBit(e, mayCause|mustCause):
		return fmt.Errorf("cause is %s, but the reason %v never has a cause", quoted(e.Cause), e.Reason)
	case e.Err != nil && e.Reason == retry.ReasonSuccess:
		return fmt.Errorf("reason is %v, but err is %s", e.Reason, quoted(e.Err))
	}
	return nil
}

// checkInTurn returns an error if r cannot follow the event `previous` because of its kind, its
// numbers, its times or its error.
func (r *Record) checkInTurn(previous *Record) error {
	if previous == nil {
		return r.checkFirst()
	}
	b, e := previous.Event, r.Event
	want, ok := expected(previous, r)
	ends := e.Kind == retry.CallFinished && !isUnseen(previous, r)
	success := e.Reason == retry.ReasonSuccess
	waits := b.Kind == retry.RetryScheduled
	// nilArgument is true if the call ended because its context or its function was nil. Such a call
	// makes no attempt. But if a queue delivered a job again, the events before this end of the call
	// can be about attempts of an earlier delivery.
	nilArgument := e.Reason == retry.ReasonInvalid && e.Err == nil
	least := want.Elapsed
	if e.Kind == retry.AttemptStarted || refusal(e) {
		least -= clockSkew // the clock of the next worker may be behind
	}
	switch {
	case !ok:
		return disorder("it follows %s", describe(*previous))
	case e.Max != b.Max && !maxMayDiffer(b, e):
		return fmt.Errorf("max is %d, but %d in the event before", e.Max, b.Max)
	case e.Attempt != want.Attempt:
		return disorder("attempt is %d, but attempt %d comes next", e.Attempt, want.Attempt)
	case number(e) != want.Number:
		return fmt.Errorf("number is %d, but number %d comes next", number(e), want.Number)
	case ends && waits && e.Reset != b.Reset:
		return fmt.Errorf("reset is %t, but %t in the event before", e.Reset, b.Reset)
	case e.Elapsed < least:
		return fmt.Errorf("elapsed goes back from %v to %v", want.Elapsed, e.Elapsed)
	case e.Time.Before(b.Time.Add(e.Elapsed - want.Elapsed - clockStep)):
		return fmt.Errorf("time goes back from %s to %s, while elapsed goes on from %v to %v",
			instant(b.Time), instant(e.Time), want.Elapsed, e.Elapsed)
	case e.Kind == retry.RetryScheduled && number(e) == b.Max:
		return fmt.Errorf("max is %d, so no retry can follow the attempt with number %d",
			e.Max, number(e))
	case ends && waits && !hasBit(e, waiting) && !nilArgument:
		return fmt.Errorf("reason is %v, but a call can end between two attempts only if "+
			"the caller cancels it, a time limit is reached, or the wait fails", e.Reason)
	case ends && !waits && e.Reason == retry.ReasonWait:
		return errors.New("a wait failed, but no retry was scheduled")
	case ends && success && b.Err != nil:
		return fmt.Errorf("reason is success, but the last attempt failed: %s", quoted(b.Err))
	case b.Kind == retry.AttemptFinished && b.Err == nil &&
		(e.Kind == retry.RetryScheduled || ends && !success):
		return errors.New("the last attempt succeeded, so the call must end with the reason success")
	case e.Err == nil, b.Err == nil && b.Kind != retry.AttemptFinished, isUnseen(previous, r),
		e.Kind == retry.AttemptFinished:
		// In these cases, the errors of the two events may differ. An event may leave out the error of
		// its attempt, because the AttemptFinished event of the same attempt contains the error. An
		// AttemptFinished event contains the error of a new attempt. If the log lacks an attempt, the
		// next event contains the error of this attempt.
	case !sameText(e.Err, b.Err):
		return fmt.Errorf("err is %s, but %s in the event before", quoted(e.Err), quoted(b.Err))
	}
	return nil
}

// From one event of a call to the next, Time may advance less than Elapsed does. clockStep is the
// largest difference that is allowed.
const clockStep = 24 * time.Hour

// checkFirst returns an error if r cannot be the first event of a call. A logger above level
// Debug writes no attempts, so its first event may be a retry or the end of the call.
func (r *Record) checkFirst() error {
	switch e := r.Event; {
	case !isFirst(e, false) && (!r.Logged || !slices.Contains(each[2:], e.Kind)):
		return disorder("no call with this key has begun")
	case e.Attempt < 1 && e.Kind != retry.CallFinished:
		return fmt.Errorf("attempt is %d, but the attempts of a call are numbered from 1", e.Attempt)
	case e.Attempt == 0 && !hasBit(e, unbegun):
		return fmt.Errorf("attempt is 0, but the reason %v can end a call only after an attempt",
			e.Reason)
	case e.Attempt == 0 && e.Err != nil:
		return fmt.Errorf("err is %s, but no attempt has begun", quoted(e.Err))
	}
	return nil
}

// isFirst reports whether e is the first event of a call. The parameter `running` says whether a
// call with the same key is in progress.
func isFirst(e retry.Event, running bool) bool {
	return e.Kind == retry.AttemptStarted && (e.Attempt == 1 || !running) ||
		e.Kind == retry.CallFinished && e.Attempt == 0 || !running && refusal(e)
}

// refusal reports whether e is the refusal of a job that a queue has delivered again. A job is
// refused if the last attempt that the limit of the job allows did not return, or if the worker is
// shutting down.
func refusal(e retry.Event) bool {
	return e.Kind == retry.CallFinished && e.Attempt != 0 && e.Err == nil && hasBit(e, refused)
}

// isUnseen reports whether the log lacks an attempt between the events `previous` and r, because
// the level of the logger was above Debug.
func isUnseen(previous, r *Record) bool {
	b, e := previous.Event, r.Event
	return r.Logged && b.Kind == retry.RetryScheduled && (e.Kind == retry.RetryScheduled ||
		e.Kind == retry.CallFinished && e.Attempt != b.Attempt)
}

// expected returns the Attempt and the Number that r must have if r follows the event `previous`,
// and the smallest Elapsed that r may have. The result `ok` reports whether an event of this kind
// can follow `previous`.
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
	// If Reset is true, the last attempt ran past HealthyAfter, and the call began anew: this attempt
	// now counts as the first attempt, and has the Number 1. Elapsed is measured from the end of this
	// attempt.
	if (hidden || failed) && e.Reset {
		want.Number, want.Elapsed = 1, 0
	}
	return want, true
}

// maxMayDiffer reports whether Max may differ between `previous` and e because the policy became
// invalid. With an invalid policy, a queue still makes one attempt. Max is then the number of
// this attempt.
func maxMayDiffer(previous, e retry.Event) bool {
	if e.Kind == retry.AttemptStarted {
		return e.Max == e.Attempt
	}
	return previous.Kind != retry.AttemptFinished && e.Kind == retry.CallFinished &&
		e.Reason == retry.ReasonInvalid && e.Max == e.Attempt+1
}

// disorder returns an error for an event that is out of order.
func disorder(format string, args ...any) error {
	const hint = " (calls that run at the same time, or inside another call, need different keys)"
	return fmt.Errorf(format+hint, args...)
}
