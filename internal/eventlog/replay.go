package eventlog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/saturate"
)

// A Call is one call of retry.Do or DoValue, a job of a queue that reports the same events, as
// retry.Once does, or a task of a pipeline from when it is entered until it has stopped.
type Call struct {
	Key      string
	Task     string // the task of a pipeline that this call ran; "": it is not from a pipeline
	Max      int    // EffectiveMax of its policy
	Resets   int    // how often it began anew, by HealthyAfter
	Attempts []Attempt
	Reason   retry.Reason // why it stopped; "": the log ends before the call does
	Cause    error        // what stopped it besides the failure, or what is wrong with its policy, as in its event; nil: nothing
	Records  []Record     // the events themselves
}

// An Attempt is one attempt of a Call, and the retry, or the jump of a task, scheduled after it.
type Attempt struct {
	Number     int // as it started: 1 for the first, 2 for the one after a Reset
	Started    time.Time
	Finished   bool // false: the log ends, or the attempt did not return and a queue went on
	Err        error
	Took       time.Duration
	Reset      bool          // it was healthy, and the call began anew with it, by HealthyAfter
	Scheduled  bool          // a retry was scheduled; the fields below are of it
	Delay      time.Duration // is Draw(Seed, Number, Lo, Hi), with 1 for Number after a Reset
	Due        time.Time
	Lo, Hi     time.Duration
	RetryAfter time.Duration // what the server asked for; 0: nothing
	Seed       uint64        // 0: Delay is not random
	Class      string        // the class of the failure; "": none
}

// Waited returns the sum of the delays between the attempts of c, at most the
// longest duration.
func (c Call) Waited() time.Duration {
	var sum time.Duration
	for _, a := range c.Attempts[:max(0, len(c.Attempts)-1)] {
		sum = saturate.Add(sum, a.Delay)
	}
	return sum
}

// Replay rebuilds the calls of a log, in the order in which they began. After an error it
// returns the calls up to the fault.
func Replay(records []Record) (calls []Call, err error) {
	running := map[string]int{} // index in calls, by key
	for i, r := range records {
		r = r.numbered(i)
		if !known(r.Event.Kind) {
			continue
		}
		index, ok := running[r.Key]
		switch {
		case begins(r.Event, ok):
			c := Call{Key: r.Key, Task: r.task(), Max: r.Event.Max}
			if err = c.add(r); err == nil {
				running[r.Key] = len(calls)
				calls = append(calls, c)
			}
		case ok:
			err = calls[index].add(r)
		default:
			err = disorder("no call with this key has begun")
		}
		if err != nil {
			return calls, &Fault{r, fmt.Errorf("%s cannot have happened: %w", describe(r), err)}
		}
		if r.Event.Kind == retry.CallFinished {
			delete(running, r.Key)
		}
	}
	return calls, nil
}

// task returns the task of a pipeline that r is from, "" if it is not from one.
func (r Record) task() string {
	if r.Flow == nil {
		return ""
	}
	return r.Flow.Task()
}

// jumps reports whether r is from a pipeline, and the rules say to go on with another task.
func (r Record) jumps() bool { return r.Flow != nil && r.Flow.Jumps() }

// known reports whether events of this kind, or none, can be judged. Others are of
// a newer version.
func known(kind retry.EventKind) bool {
	return slices.Contains([]retry.EventKind{"", retry.AttemptStarted, retry.AttemptFinished, retry.RetryScheduled, retry.CallFinished}, kind)
}

// begins reports whether e is the first event of a call; running is whether
// its key has one that has not stopped.
func begins(e retry.Event, running bool) bool {
	return e.Kind == retry.AttemptStarted && (e.Attempt == 1 || !running) || e.Kind == retry.CallFinished && e.Attempt == 0 || !running && refusal(e)
}

// disorder returns an error for an event that is out of order.
func disorder(format string, args ...any) error {
	return fmt.Errorf(format+" (calls that run at once, or one within another, need keys of their own: see WithKey)", args...)
}

// add adds the next event to c, or returns why it cannot follow.
func (c *Call) add(r Record) error {
	if err := c.follows(r); err != nil {
		return err
	}
	switch e := r.Event; e.Kind {
	case retry.AttemptStarted:
		c.Max = e.Max
		c.Attempts = append(c.Attempts, Attempt{Number: e.Attempt, Started: e.Time})
	case retry.AttemptFinished:
		a := c.attempt()
		a.Finished, a.Err, a.Took = true, e.Err, e.Took
	case retry.RetryScheduled:
		a := c.attempt()
		a.Reset = e.Resets > c.Resets
		a.Scheduled, a.Delay, a.Due, a.Lo, a.Hi, a.RetryAfter, a.Seed, a.Class = true, e.Delay, e.Due, e.Lo, e.Hi, e.RetryAfter, e.Seed, e.Class
	case retry.CallFinished:
		if len(c.Attempts) > 0 {
			c.attempt().Reset = c.attempt().Reset || e.Resets > c.Resets
		}
		c.Reason, c.Cause = e.Reason, e.Cause
	}
	c.Resets = r.Event.Resets
	c.Records = append(c.Records, r)
	return nil
}

// last returns the last event of c.
func (c *Call) last() Record { return c.Records[len(c.Records)-1] }

// attempt returns the last attempt of c.
func (c *Call) attempt() *Attempt { return &c.Attempts[len(c.Attempts)-1] }

// follows returns why r cannot be the next event of c, or nil if it can.
func (c *Call) follows(r Record) error {
	e := r.Event
	if err := alone(r); err != nil {
		return err
	}
	if len(c.Records) == 0 {
		return startsWith(e)
	}
	if err := c.inTurn(r); err != nil {
		return err
	}
	before := c.last().Event
	switch scheduled := e.Kind == retry.RetryScheduled; {
	case scheduled && before.Err == nil && !r.jumps():
		return errors.New("the attempt did not fail")
	case scheduled && e.Attempt == c.Max && !r.jumps():
		return fmt.Errorf("attempt %d is the last that max %d allows", e.Attempt, c.Max)
	case scheduled:
		return c.failedWith(e.Err)
	case e.Kind == retry.CallFinished && r.Flow != nil && r.Flow.Done():
		return c.leaves(before, r)
	case e.Kind == retry.CallFinished:
		return c.stops(before, e)
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
	return before.Kind != retry.AttemptFinished && e.Kind == retry.CallFinished && e.Reason == retry.ReasonInvalid && e.Max == e.Attempt+1
}

// inTurn returns why r cannot follow the last event of c: by its limit, its kind, its numbers
// or its times.
func (c *Call) inTurn(r Record) error {
	last := c.last()
	before, e := last.Event, r.Event
	if e.Max != c.Max && !invalidPolicy(before, e) {
		return fmt.Errorf("max is %d, but %d when the call began", e.Max, c.Max)
	}
	if r.task() != last.task() {
		return disorder("its task is %q, but %q in the event before", r.task(), last.task())
	}
	if r.Flow != nil && last.Flow != nil {
		if err := r.Flow.After(last.Flow); err != nil {
			return err
		}
	}
	want, elapsed := following(before, e), before.Elapsed
	switch {
	case want == 0:
		return disorder("it follows %s", describe(last))
	case anew(before, e):
		elapsed = 0
	case e.Resets != before.Resets:
		return fmt.Errorf("resets is %d, but %d in the event before, and only a failed attempt is followed by one more", e.Resets, before.Resets)
	}
	least := elapsed
	if e.Kind == retry.AttemptStarted || refusal(e) {
		least -= clockSkew // another worker of a queue may go on
	}
	switch {
	case e.Attempt != want:
		return disorder("attempt is %d, but attempt %d comes next", e.Attempt, want)
	case e.Kind == retry.AttemptStarted && total(e) != total(before)+1, e.Kind != retry.AttemptStarted && total(e) != total(before):
		return fmt.Errorf("total is %d, but %d in the event before", total(e), total(before))
	case e.Elapsed < least:
		return fmt.Errorf("elapsed is %v, but %v in the event before", e.Elapsed, elapsed)
	case e.Time.Before(before.Time.Add(e.Elapsed - elapsed - clockStep)):
		return fmt.Errorf("time goes back from %s to %s, while elapsed goes on from %v to %v", instant(before.Time), instant(e.Time), elapsed, e.Elapsed)
	}
	return nil
}

// anew reports whether a call begins anew with e, because the attempt that ended in
// before was healthy: that attempt is number 1, and Elapsed counts from its end.
func anew(before, e retry.Event) bool {
	return before.Kind == retry.AttemptFinished && before.Err != nil && e.Resets == before.Resets+1
}

// total returns the Total of e, which one made by hand may leave out.
func total(e retry.Event) int { return cmp.Or(e.Total, e.Attempt) }

// clockStep is how far Time may fall behind Elapsed between two events.
const clockStep = 24 * time.Hour

// startsWith returns why a call cannot start with e, or nil if it can.
func startsWith(e retry.Event) error {
	switch {
	case e.Kind != retry.CallFinished, refusal(e): // refusal: of a job whose attempts are in another log
		return nil
	case !among(e.Reason, retry.ReasonCanceled, retry.ReasonDeadline, retry.ReasonInvalid):
		return errors.New("no attempt has begun")
	case e.Err != nil:
		return fmt.Errorf("its error is %s, but no attempt has begun", quoted(e.Err))
	}
	return nil
}

// failedWith returns why the last attempt of c cannot have failed with err. An
// event may leave its error out, because the AttemptFinished has it.
func (c *Call) failedWith(err error) error {
	switch last := c.attempt().Err; {
	case err == nil || sameText(err, last):
		return nil
	case last == nil:
		return fmt.Errorf("its error is %s, but the attempt did not fail", quoted(err))
	default:
		return fmt.Errorf("its error is %s, but the attempt failed with %s", quoted(err), quoted(last))
	}
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func quoted(err error) string { return strconv.Quote(textOf(err)) }

// sameText reports whether a and b are errors with the same text.
func sameText(a, b error) bool { return a != nil && b != nil && textOf(a) == textOf(b) }

// alone returns why r cannot have happened, whatever came before.
func alone(r Record) error {
	e := r.Event
	switch {
	case e.Time.IsZero():
		return errors.New("it has no time")
	case e.Max < 1 && e.Max != retry.Unlimited:
		return fmt.Errorf("max is %d, and not at least 1, or -1 for unlimited", e.Max)
	case e.Attempt < 1 && e.Kind != retry.CallFinished, e.Attempt > e.Max && e.Max != retry.Unlimited:
		return fmt.Errorf("attempt is %d, and max is %d", e.Attempt, e.Max)
	case e.Resets < 0:
		return fmt.Errorf("resets is %d", e.Resets)
	case e.Resets > 0 && (e.Attempt == 0 || e.Attempt == 1 && (e.Kind == retry.AttemptStarted || e.Kind == retry.AttemptFinished)):
		return fmt.Errorf("resets is %d, and attempt is %d", e.Resets, e.Attempt)
	case total(e) < e.Attempt || e.Resets == 0 && total(e) != e.Attempt:
		return fmt.Errorf("total is %d, and attempt is %d", e.Total, e.Attempt)
	case e.Elapsed < 0:
		return fmt.Errorf("elapsed is %v", e.Elapsed)
	case e.Took < 0: // it may exceed Elapsed, which a queue measures by another clock
		return fmt.Errorf("took is %v", e.Took)
	case e.Took != 0 && e.Kind != retry.AttemptFinished:
		return fmt.Errorf("took is %v, but only %v has one", e.Took, retry.AttemptFinished)
	case e.Err != nil && e.Kind == retry.AttemptStarted:
		return fmt.Errorf("its error is %s, but %v has none", quoted(e.Err), e.Kind)
	case e.Class != "" && e.Kind != retry.RetryScheduled && e.Kind != retry.CallFinished:
		return fmt.Errorf("only %v and %v have a class", retry.RetryScheduled, retry.CallFinished)
	case (e.Reason != "" && (e.Kind != retry.RetryScheduled || !e.Retry()) || e.Cause != nil) && e.Kind != retry.CallFinished:
		return fmt.Errorf("only %v has a reason or a cause", retry.CallFinished)
	}
	err := aloneDelay(e)
	if err == nil && e.Kind == retry.CallFinished {
		err = aloneStopped(e)
	}
	if err == nil && r.Flow != nil {
		err = r.Flow.Alone()
	}
	return err
}

// aloneDelay returns why e cannot have its delay.
func aloneDelay(e retry.Event) error {
	switch {
	case e.Kind != retry.RetryScheduled:
		if e.Delay != 0 || !e.Due.IsZero() || e.Lo != 0 || e.Hi != 0 || e.RetryAfter != 0 || e.Seed != 0 {
			return fmt.Errorf("only %v has a delay, due, lo, hi, retry_after or seed", retry.RetryScheduled)
		}
	case e.RetryAfter < 0 || e.Delay < e.RetryAfter:
		return fmt.Errorf("delay is %v, and retry_after is %v", e.Delay, e.RetryAfter)
	case e.Lo < 0 || e.Hi < e.Lo:
		return fmt.Errorf("lo is %v, and hi is %v", e.Lo, e.Hi)
	case !e.Due.Equal(e.Time.Add(e.Delay)):
		return fmt.Errorf("due is %s, but its delay ends at %s", instant(e.Due), instant(e.Time.Add(e.Delay)))
	case e.Lo != 0 || e.Hi != 0:
		if drawn := retry.Draw(e.Seed, e.Attempt, e.Lo, e.Hi); drawn != e.Delay {
			return fmt.Errorf("delay is %v, but its seed, attempt, lo and hi make %v", e.Delay, drawn)
		}
	}
	return nil
}

// aloneStopped returns why e, a CallFinished, cannot have happened.
func aloneStopped(e retry.Event) error {
	switch mustCause := e.Reason == retry.ReasonInvalid || e.Reason == retry.ReasonWait; {
	case e.Reason == "", e.Reason == retry.ReasonRetry:
		return fmt.Errorf("%q is not a reason to stop", e.Reason)
	case mustCause && e.Cause == nil:
		return fmt.Errorf("reason is %v, but there is no cause", e.Reason)
	case e.Reason == retry.ReasonSuccess && e.Err != nil:
		return fmt.Errorf("reason is %v, but its error is %s", e.Reason, quoted(e.Err))
	case e.Cause != nil && !mustCause && !among(e.Reason, retry.ReasonSuccess, retry.ReasonCanceled, retry.ReasonDeadline, retry.ReasonNonRetryable):
		return fmt.Errorf("cause is %s, but %v has none", quoted(e.Cause), e.Reason)
	}
	return nil
}

// among reports whether a reason to stop is one of these, or of a newer version: why, this one
// cannot know.
func among(reason retry.Reason, of ...retry.Reason) bool {
	return slices.Contains(of, reason) || Reasons[reason] == ""
}

// following returns the attempt that an event like e has if it follows before, 0 if
// it cannot.
func following(before, e retry.Event) int {
	switch kind := e.Kind; {
	case anew(before, e) && kind != retry.AttemptFinished:
		return 1
	case before.Kind == retry.AttemptStarted && kind == retry.AttemptFinished,
		before.Kind == retry.AttemptFinished && kind == retry.RetryScheduled,
		before.Kind == retry.AttemptFinished && kind == retry.CallFinished,
		before.Kind == retry.AttemptStarted && refusal(e),
		before.Kind == retry.RetryScheduled && kind == retry.CallFinished:
		return before.Attempt
	case before.Kind == retry.RetryScheduled && kind == retry.AttemptStarted,
		before.Kind == retry.AttemptStarted && kind == retry.AttemptStarted,
		before.Kind == retry.AttemptFinished && before.Err != nil && kind == retry.AttemptStarted: // the retry was not written
		return before.Attempt + 1
	default:
		return 0
	}
}

// stops returns why e, a CallFinished, cannot follow before.
func (c *Call) stops(before, e retry.Event) error {
	switch {
	case before.Kind == retry.RetryScheduled && !betweenAttempts(e):
		return errors.New("only the context, MaxElapsed or Wait can end a call between two attempts")
	case before.Kind != retry.RetryScheduled && e.Reason == retry.ReasonWait:
		return errors.New("it waits for nothing")
	case before.Kind == retry.AttemptFinished && before.Err == nil && e.Reason != retry.ReasonSuccess:
		return errors.New("the attempt did not fail")
	case before.Err != nil && e.Reason == retry.ReasonSuccess:
		return fmt.Errorf("the attempt failed: %s", quoted(before.Err))
	}
	return c.failedWith(e.Err)
}

// leaves returns why r, the CallFinished of a task that its rules say is done, cannot
// follow before.
func (c *Call) leaves(before retry.Event, r Record) error {
	switch e := r.Event; {
	case e.Reason == retry.ReasonSuccess:
		return nil
	case r.jumps() && slices.Contains([]retry.Reason{retry.ReasonCanceled, retry.ReasonDeadline, retry.ReasonWait}, e.Reason): // in its wait
		return c.failedWith(e.Err)
	case !among(e.Reason, retry.ReasonCanceled, retry.ReasonDeadline, retry.ReasonWait, retry.ReasonNonRetryable, retry.ReasonPermanent):
		return fmt.Errorf("reason is %v, but the rules say that the task is done", e.Reason)
	default:
		return c.stops(before, e) // a function of the rule failed
	}
}

// refusal reports whether e says that a queue refuses a job that it has handed out
// again: an attempt did not return, and it was the last, or the worker stops.
func refusal(e retry.Event) bool {
	return e.Kind == retry.CallFinished && e.Attempt != 0 && e.Err == nil &&
		among(e.Reason, retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonCanceled, retry.ReasonDeadline, retry.ReasonInvalid)
}

// betweenAttempts reports whether e can stop a call whose retry has been scheduled.
func betweenAttempts(e retry.Event) bool {
	if e.Reason == retry.ReasonInvalid {
		return e.Err == nil // a queue has handed the job out again, in an invalid call
	}
	return among(e.Reason, retry.ReasonCanceled, retry.ReasonDeadline, retry.ReasonElapsed, retry.ReasonWait)
}
