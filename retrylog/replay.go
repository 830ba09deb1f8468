package retrylog

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/saturate"
	"github.com/goretry/retry/retryflow"
)

// A Call is one call of retry.Do, DoValue or Loop, a task of a pipeline from
// when it is entered until it has stopped, or a job of a queue that reports the
// same events.
type Call struct {
	Key      string
	Task     string // the task of a pipeline that this call ran; "": it is not from a pipeline
	Max      int    // EffectiveMax of its policy
	Attempts []Attempt
	Reason   retry.Reason // why it stopped; 0: the log ends before the call does
	Cause    error        // what stopped it from outside, as in its event; nil: nothing
	Fault    error        // what is wrong with its policy, or the call itself; nil: nothing
	Records  []Record     // the events themselves
}

// An Attempt is one attempt of a [Call], and the retry scheduled after it, or the
// jump of a pipeline.
type Attempt struct {
	Number    int
	Started   time.Time
	Finished  bool // false: the log ends, or the attempt did not return and a queue went on
	Err       error
	Took      time.Duration
	Scheduled bool // a retry was scheduled
	Delay     time.Duration
	Due       time.Time
	Hint      time.Duration // the wait that a server asked for; 0: none
	Seed      uint64        // the seed from which Delay was drawn; 0: it was not drawn
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

// Replay rebuilds the calls of a log, in the order in which they began. Calls
// with different keys may be interleaved. A call whose last event is not
// [retry.Stopped] was cut off by a crash, a panic, or the end of the log; it is
// returned with Reason 0, and a later call may have its key. A call may begin
// with any attempt, because the log may have been rotated, or the job of a queue
// may have returned from the dead letters with the attempts that it has left.
//
// An attempt may be followed by the next one with nothing in between, if it did
// not return, and a queue went on. If it was the last attempt, the queue refuses
// the job: a Stopped without an error follows, which may also stand alone.
//
// A log that cannot have happened is an error that names the line at fault:
// events out of order, an attempt beyond Max, one that began a microsecond or
// more before it was due, a Max that changes within a call, the error of another
// attempt, or a field that its kind of event does not have. The calls up to the
// fault are returned.
//
// A wall clock that goes back is such a fault, too, if Time falls behind Elapsed
// by more than a day from one event to the next. Less can happen when a clock is
// adjusted, or its time zone is corrected. Time may run ahead of Elapsed by any
// amount, because the clock that measures Elapsed can stop while a machine sleeps.
func Replay(records []Record) ([]Call, error) {
	var calls []Call
	running := map[string]int{} // index in calls, by key
	for i, r := range records {
		if r.Line == 0 {
			r.Line = i + 1
		}
		at, ok := running[r.Key]
		var err error
		switch {
		case begins(r.Event, ok):
			c := Call{Key: r.Key, Task: task(r), Max: r.Event.Max}
			if err = c.add(r); err == nil {
				running[r.Key] = len(calls)
				calls = append(calls, c)
			}
		case ok:
			err = calls[at].add(r)
		default:
			err = disorder("no call with this key has begun")
		}
		if err != nil {
			return calls, fmt.Errorf("retrylog: line %d: %s cannot have happened: %w", r.Line, describe(r), err)
		}
		if r.Event.Kind == retry.Stopped {
			delete(running, r.Key)
		}
	}
	return calls, nil
}

// begins reports whether e is the first event of a call; running is whether
// its key has one that has not stopped.
func begins(e retry.Event, running bool) bool {
	return e.Kind == retry.AttemptStarted && (e.Attempt == 1 || !running) || e.Kind == retry.Stopped && e.Attempt == 0 || !running && refusal(e)
}

// disorder returns an error for an event that is out of order.
func disorder(format string, args ...any) error {
	return fmt.Errorf(format+" (calls that run at once, or one within another, need keys of their own: see WithKey)", args...)
}

// add adds the next event to c, or returns why it cannot follow.
func (c *Call) add(r Record) error {
	e := r.Event
	if err := c.follows(r); err != nil {
		return err
	}
	switch e.Kind {
	case retry.AttemptStarted:
		c.Attempts = append(c.Attempts, Attempt{Number: e.Attempt, Started: e.Time})
	case retry.AttemptFinished:
		a := c.last()
		a.Finished, a.Err, a.Took = true, e.Err, e.Took
	case retry.RetryScheduled:
		a := c.last()
		a.Scheduled, a.Delay, a.Due, a.Hint, a.Seed = true, e.Delay, e.Due, e.Hint, e.Seed
	case retry.Stopped:
		c.Reason, c.Cause, c.Fault = e.Reason, e.Cause, faultOf(e)
	}
	c.Records = append(c.Records, r)
	return nil
}

func (c *Call) last() *Attempt { return &c.Attempts[len(c.Attempts)-1] }

// faultOf returns what a Stopped says is wrong with the policy or the call, nil
// if nothing is.
func faultOf(e retry.Event) error {
	switch {
	case faultIsErr(e):
		return e.Err
	case e.Reason == retry.ReasonSuccess, e.Reason == retry.ReasonLeft, e.Reason == retry.ReasonInvalid:
		return e.Cause
	default:
		return nil
	}
}

// faultIsErr reports whether e is from before events had a Cause: its Err is what
// is wrong with the policy or the call, and not what the last attempt failed with.
func faultIsErr(e retry.Event) bool { return e.Reason == retry.ReasonInvalid && e.Cause == nil }

// follows returns why r cannot be the next event of c, or nil if it can.
func (c *Call) follows(r Record) error {
	e := r.Event
	if err := alone(e); err != nil {
		return err
	}
	if err := aloneInPipeline(r); err != nil {
		return err
	}
	if e.Max != c.Max {
		return fmt.Errorf("max is %d, but %d when the call began", e.Max, c.Max)
	}
	if len(c.Records) == 0 {
		return c.startsWith(e)
	}
	previous := c.Records[len(c.Records)-1]
	before := previous.Event
	if err := afterInPipeline(previous, r); err != nil {
		return err
	}
	switch want := after(before, e); {
	case want == 0:
		return disorder("it follows %s", describe(previous))
	case e.Attempt != want:
		return disorder("attempt is %d, but attempt %d comes next", e.Attempt, want)
	case e.Elapsed < before.Elapsed:
		return fmt.Errorf("elapsed is %v, but %v in the event before", e.Elapsed, before.Elapsed)
	case e.Time.Before(before.Time.Add(e.Elapsed - before.Elapsed - clockStep)):
		return fmt.Errorf("time goes back from %s to %s, while elapsed goes on from %v to %v", instant(before.Time), instant(e.Time), before.Elapsed, e.Elapsed)
	}
	switch e.Kind {
	case retry.AttemptStarted:
		// Queues store microseconds. An attempt that is early only by what they cut
		// off is not early.
		if early := saturate.Add(before.Elapsed, before.Delay) - e.Elapsed; early >= time.Microsecond {
			return fmt.Errorf("it began %v before it was due", early)
		}
	case retry.RetryScheduled:
		jumps := directive(r) == retryflow.Jump
		if before.Err == nil && !jumps {
			return errors.New("the attempt did not fail")
		}
		if e.Attempt == c.Max && !jumps {
			return fmt.Errorf("attempt %d is the last that max %d allows", e.Attempt, c.Max)
		}
		return c.failedWith(e.Err)
	case retry.Stopped:
		if done(r) {
			return c.leaves(before, r)
		}
		return c.stops(before, e)
	}
	return nil
}

// clockStep is how far Time may fall behind Elapsed between two events.
const clockStep = 24 * time.Hour

// startsWith returns why a call cannot start with e, or nil if it can.
func (c *Call) startsWith(e retry.Event) error {
	switch {
	case e.Kind != retry.Stopped:
		return nil
	case refusal(e): // of a job whose attempts are in another log
	case e.Reason != retry.ReasonCanceled && e.Reason != retry.ReasonDeadline && e.Reason != retry.ReasonInvalid:
		return errors.New("no attempt has begun")
	case e.Err != nil && !faultIsErr(e):
		return fmt.Errorf("its error is %q, but no attempt has begun", e.Err)
	}
	return nil
}

// failedWith returns why the last attempt of c cannot have failed with err. In
// older logs not all events have an error.
func (c *Call) failedWith(err error) error {
	if last := c.last().Err; err != nil && !sameText(err, last) {
		return fmt.Errorf("its error is %q, but that of the attempt is %s", err, quoted(last))
	}
	return nil
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func quoted(err error) string {
	if err == nil {
		return "none"
	}
	return strconv.Quote(textOf(err))
}

// sameText reports whether a and b are errors with the same text.
func sameText(a, b error) bool { return a != nil && b != nil && textOf(a) == textOf(b) }

// alone returns why e cannot have happened, whatever came before.
func alone(e retry.Event) error {
	switch {
	case e.Time.IsZero():
		return errors.New("it has no time")
	case e.Max < 1 && e.Max != retry.Unlimited:
		return fmt.Errorf("max is %d, and not at least 1, or -1 for unlimited", e.Max)
	case e.Attempt < 1 && e.Kind != retry.Stopped, e.Attempt > e.Max && e.Max != retry.Unlimited:
		return fmt.Errorf("attempt is %d, and max is %d", e.Attempt, e.Max)
	case e.Elapsed < 0:
		return fmt.Errorf("elapsed is %v", e.Elapsed)
	case e.Took < 0: // it may exceed Elapsed, which a queue measures by another clock
		return fmt.Errorf("took is %v", e.Took)
	case e.Took != 0 && e.Kind != retry.AttemptFinished:
		return fmt.Errorf("took is %v, but only %v has one", e.Took, retry.AttemptFinished)
	case (e.Delay != 0 || !e.Due.IsZero() || e.Hint != 0 || e.Seed != 0) && e.Kind != retry.RetryScheduled:
		return fmt.Errorf("only %v has a delay, due, hint or seed", retry.RetryScheduled)
	case e.Hint < 0 || e.Delay < e.Hint:
		return fmt.Errorf("delay is %v, and hint is %v", e.Delay, e.Hint)
	case e.Kind == retry.RetryScheduled && !e.Due.Equal(e.Time.Add(e.Delay)):
		return fmt.Errorf("due is %s, but its delay ends at %s", instant(e.Due), instant(e.Time.Add(e.Delay)))
	case e.Err != nil && e.Kind == retry.AttemptStarted:
		return fmt.Errorf("its error is %q, but %v has none", e.Err, e.Kind)
	case (e.Reason != 0 || e.Cause != nil) && e.Kind != retry.Stopped:
		return fmt.Errorf("only %v has a reason or a cause", retry.Stopped)
	case e.Kind == retry.Stopped:
		return aloneStopped(e)
	}
	return nil
}

// aloneStopped returns why e, a Stopped, cannot have happened.
func aloneStopped(e retry.Event) error {
	switch e.Reason {
	case 0, retry.ReasonRetry:
		return fmt.Errorf("%q is not a reason to stop", e.Reason)
	case retry.ReasonInvalid:
		if faultOf(e) == nil {
			return fmt.Errorf("reason is %v, but neither err nor cause says what is", e.Reason)
		}
	case retry.ReasonSuccess:
		if e.Err != nil {
			return fmt.Errorf("reason is %v, but its error is %q", e.Reason, e.Err)
		}
	case retry.ReasonLeft, retry.ReasonCanceled, retry.ReasonDeadline:
	default:
		if e.Cause != nil {
			return fmt.Errorf("cause is %q, but %v has none", e.Cause, e.Reason)
		}
	}
	return nil
}

// after returns the attempt that an event like e has if it follows before, 0 if
// it cannot.
func after(before, e retry.Event) int {
	switch kind := e.Kind; {
	case before.Kind == retry.AttemptStarted && kind == retry.AttemptFinished,
		before.Kind == retry.AttemptFinished && kind == retry.RetryScheduled,
		before.Kind == retry.AttemptFinished && kind == retry.Stopped,
		before.Kind == retry.AttemptStarted && refusal(e),
		before.Kind == retry.RetryScheduled && kind == retry.Stopped:
		return before.Attempt
	case before.Kind == retry.RetryScheduled && kind == retry.AttemptStarted,
		before.Kind == retry.AttemptStarted && kind == retry.AttemptStarted:
		return before.Attempt + 1
	default:
		return 0
	}
}

// stops returns why e, a Stopped, cannot follow before.
func (c *Call) stops(before, e retry.Event) error {
	switch {
	case before.Kind == retry.RetryScheduled && !betweenAttempts(e.Reason):
		return errors.New("only the context or MaxElapsed can end a call between two attempts")
	case faultIsErr(e):
		return nil
	case before.Kind == retry.AttemptFinished && before.Err == nil && e.Reason != retry.ReasonSuccess:
		return errors.New("the attempt did not fail")
	case before.Err != nil && e.Reason == retry.ReasonSuccess:
		return fmt.Errorf("the attempt failed: %q", before.Err)
	}
	return c.failedWith(e.Err)
}

// refusal reports whether e says that a queue refuses a job that it has handed out
// again: an attempt did not return, and it was the last, or the worker stops.
func refusal(e retry.Event) bool {
	if e.Kind != retry.Stopped || e.Attempt == 0 || e.Err != nil {
		return false
	}
	switch e.Reason {
	case retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonCanceled, retry.ReasonDeadline, retry.ReasonInvalid:
		return true
	default:
		return false
	}
}

// betweenAttempts reports whether a call can stop for reason once a retry has
// been scheduled.
func betweenAttempts(reason retry.Reason) bool {
	return reason == retry.ReasonCanceled || reason == retry.ReasonDeadline || reason == retry.ReasonElapsed
}
