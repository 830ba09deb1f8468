package eventlog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/goretry/retry"
)

// A Call is as package retrylog describes it.
type Call struct {
	Key      string
	Max      int // EffectiveMax of its policy
	Attempts []Attempt
	Reason   retry.Reason // why it stopped; "": the log ends before the call does
	Cause    error        // what stopped it besides the failure, or what is wrong with its policy, as in its event; nil: nothing
	Records  []Record     // the events themselves
}

// An Attempt is one attempt of a Call, and the retry scheduled after it.
type Attempt struct {
	Attempt  int // 1 for the first attempt of the call
	Started  time.Time
	Finished bool // false: the log ends, or the attempt did not return and a queue went on
	Err      error
	Took     time.Duration

	// The decision to try again after it; Retry() is false if there is none. Number and Reset are
	// always set.
	retry.Decision
	Due time.Time
}

// Replay rebuilds the calls of a log, as package retrylog describes it.
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
			return calls, &Fault{r, err}
		}
		if before == nil {
			index = len(calls)
			calls = append(calls, Call{Key: r.Key})
		}
		calls[index].add(r)
		if running[r.Key] = index; r.Event.Kind == retry.CallFinished {
			delete(running, r.Key)
		}
	}
	return calls, nil
}

// add adds the next event to c, whether it can follow or not.
func (c *Call) add(r Record) {
	e, n, first := r.Event, len(c.Attempts), len(c.Records) == 0
	begun := n > 0 && !c.Attempts[n-1].Finished
	switch {
	case e.Kind == retry.AttemptStarted:
		c.Attempts = append(c.Attempts, Attempt{Attempt: e.Attempt, Started: e.Time})
		c.Max = e.Max
	case e.Kind == retry.AttemptFinished && !begun, // its start is not in the log
		r.logged && first && e.Attempt > 0 && !refusal(e), r.logged && !first && unseen(c.last(), &r):
		c.Attempts = append(c.Attempts, Attempt{Attempt: e.Attempt, Finished: true, Err: e.Err})
	}
	if n = len(c.Attempts); n > 0 {
		a := &c.Attempts[n-1]
		reset := a.Reset || e.Reset
		switch e.Kind {
		case retry.AttemptFinished:
			a.Finished, a.Err, a.Took = true, e.Err, e.Took
		case retry.RetryScheduled:
			a.Decision, a.Due = e.Decision, e.Due
			a.Reason = retry.ReasonRetry
		}
		a.Number, a.Reset = number(e), reset
	}
	if e.Kind == retry.CallFinished {
		c.Reason, c.Cause = e.Reason, e.Cause
	}
	c.Max = cmp.Or(c.Max, e.Max)
	c.Records = append(c.Records, r)
}

// last returns the last event of c.
func (c *Call) last() *Record { return &c.Records[len(c.Records)-1] }

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
	return r.logged && b.Kind == retry.RetryScheduled && (e.Kind == retry.RetryScheduled ||
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
		b.Kind == retry.AttemptFinished && (e.Kind == retry.RetryScheduled || e.Kind == retry.CallFinished),
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
	switch drawn := retry.Draw(e.Seed, number(e), e.Lo, e.Hi); {
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
	case e.Kind == retry.RetryScheduled && e.Due.Sub(e.Time.Add(e.Delay)).Abs() > clockSkew: // a text may leave that out of a time
		return fmt.Errorf("due is %s, but its delay ends at %s", instant(e.Due), instant(e.Time.Add(e.Delay)))
	case e.Kind == retry.CallFinished && (e.Reason == "" || e.Retry()):
		return fmt.Errorf("%q is not a reason to stop", e.Reason)
	case e.Cause == nil && Reasons[e.Reason].can&mustCause != 0:
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
	case !begins(e, false) && !(r.logged && (e.Kind == retry.RetryScheduled || e.Kind == retry.CallFinished)):
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
	ends, success := e.Kind == retry.CallFinished && !unseen(before, r), e.Reason == retry.ReasonSuccess
	waits := b.Kind == retry.RetryScheduled
	handedOut := e.Reason == retry.ReasonInvalid && e.Err == nil // again by a queue, in an invalid call
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
		return fmt.Errorf("time goes back from %s to %s, while elapsed goes on from %v to %v", instant(b.Time), instant(e.Time), want.Elapsed, e.Elapsed)
	case e.Kind == retry.RetryScheduled && number(e) == b.Max:
		return fmt.Errorf("number %d is the last that max %d allows", number(e), e.Max)
	case ends && waits && !can(e, waiting) && !handedOut:
		return errors.New("only the caller, a limit of time or the wait can end a call between two attempts")
	case ends && !waits && e.Reason == retry.ReasonWait:
		return errors.New("it waits for nothing")
	case ends && success && b.Err != nil:
		return fmt.Errorf("the attempt failed: %s", quoted(b.Err))
	case b.Kind == retry.AttemptFinished && b.Err == nil && (e.Kind == retry.RetryScheduled || ends && !success):
		return errors.New("the attempt did not fail")
	case e.Err == nil, b.Err == nil && b.Kind != retry.AttemptFinished, unseen(before, r), e.Kind == retry.AttemptFinished:
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
	return fmt.Errorf(format+" (calls that run at once, or one within another, need keys of their own)", args...)
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func quoted(err error) string { return strconv.Quote(textOf(err)) }

// sameText reports whether a and b are errors with the same text.
func sameText(a, b error) bool { return a != nil && b != nil && textOf(a) == textOf(b) }
