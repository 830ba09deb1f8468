package retrylog

import (
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/saturate"
)

// A Call is one call of retry.Do, DoValue or Loop, or a job of a queue that
// tells the same events, as these tell it.
type Call struct {
	Key      string
	Max      int // EffectiveMax of its policy
	Attempts []Attempt
	Reason   retry.Reason // why it stopped; 0: the log ends before the call does
	Fault    error        // what was wrong with its policy; nil: nothing
	Records  []Record     // the events themselves
}

// An Attempt is one execution of a [Call], and the retry that was scheduled
// after it.
type Attempt struct {
	Number    int
	Started   time.Time
	Finished  bool // false: the log ends, or the execution did not return and a queue went on
	Err       error
	Took      time.Duration
	Scheduled bool // whether a retry was
	Delay     time.Duration
	Due       time.Time
	Hint      time.Duration // what a server asked for; 0: nothing
	Seed      uint64        // what drew Delay; 0: nothing was drawn
}

// Waited returns the sum of the delays between the attempts of c.
func (c Call) Waited() time.Duration {
	var sum time.Duration
	for _, a := range c.Attempts[:max(0, len(c.Attempts)-1)] {
		sum += a.Delay
	}
	return sum
}

// Replay rebuilds the calls of a log, in the order in which they began. Calls
// of different keys may be interleaved. A call whose last event is not that it
// stopped was cut off, by a crash, a panic, or the end of the log; it is
// returned with Reason 0, and a later call may have its key. A call may begin
// with any attempt, for the log may have been rotated, or the job of a queue
// have come back from the dead letters with the attempts that it has left. And
// an attempt may be followed by the next with nothing between the two: its
// execution did not return, and a queue went on.
//
// A log that cannot have happened is an error that names the line at fault:
// events out of order, an attempt beyond Max, one that began a microsecond or
// more before it was due, a Max that changes within a call, an event that has
// what its kind has not. The calls up to there are returned.
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
			c := Call{Key: r.Key, Max: r.Event.Max}
			if err = c.add(r); err == nil {
				running[r.Key] = len(calls)
				calls = append(calls, c)
			}
		case ok:
			err = calls[at].add(r)
		default:
			err = disorder("it belongs to no call that has begun")
		}
		if err != nil {
			return calls, fmt.Errorf("retrylog: line %d: %s cannot have happened: %w", r.Line, describe(r.Event), err)
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
	return e.Kind == retry.AttemptStarted && (e.Attempt == 1 || !running) || e.Kind == retry.Stopped && e.Attempt == 0
}

// disorder returns an error for an event that is out of order.
func disorder(format string, args ...any) error {
	return fmt.Errorf(format+" (calls that run at once, or one within another, need keys of their own: see WithKey)", args...)
}

// add adds the next event to c, or says why it cannot be that.
func (c *Call) add(r Record) error {
	e := r.Event
	if err := c.follows(e); err != nil {
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
		c.Reason, c.Fault = e.Reason, e.Err
	}
	c.Records = append(c.Records, r)
	return nil
}

func (c *Call) last() *Attempt { return &c.Attempts[len(c.Attempts)-1] }

// follows returns why e cannot be the next event of c, or nil if it can.
func (c *Call) follows(e retry.Event) error {
	if err := alone(e); err != nil {
		return err
	}
	if e.Max != c.Max {
		return fmt.Errorf("its max is %d, that of its call %d", e.Max, c.Max)
	}
	if len(c.Records) == 0 {
		if e.Kind == retry.Stopped && e.Reason != retry.ReasonCanceled && e.Reason != retry.ReasonDeadline && e.Reason != retry.ReasonInvalid {
			return errors.New("no attempt has begun")
		}
		return nil
	}
	before := c.Records[len(c.Records)-1].Event
	switch want := after(before, e.Kind); {
	case want == 0:
		return disorder("it follows %s", describe(before))
	case e.Attempt != want:
		return disorder("it is of attempt %d, and attempt %d is next", e.Attempt, want)
	case e.Elapsed < before.Elapsed:
		return fmt.Errorf("%v have elapsed, and %v before", e.Elapsed, before.Elapsed)
	}
	switch e.Kind {
	case retry.AttemptStarted:
		// Queues keep microseconds: what they cut off is not early.
		if early := saturate.Add(before.Elapsed, before.Delay) - e.Elapsed; early >= time.Microsecond {
			return fmt.Errorf("it was due %v later", early)
		}
	case retry.RetryScheduled:
		if before.Err == nil {
			return errors.New("the attempt did not fail")
		}
		if e.Attempt == c.Max {
			return fmt.Errorf("its max is %d", c.Max)
		}
	case retry.Stopped:
		return stops(before, e)
	}
	return nil
}

// alone returns why e cannot have happened, whatever came before.
func alone(e retry.Event) error {
	switch {
	case e.Time.IsZero():
		return errors.New("it has no time")
	case e.Max < 1 && e.Max != retry.Unlimited:
		return fmt.Errorf("its max is %d", e.Max)
	case e.Attempt < 1 && e.Kind != retry.Stopped, e.Attempt > e.Max && e.Max != retry.Unlimited:
		return fmt.Errorf("its attempt is %d, and its max %d", e.Attempt, e.Max)
	case e.Elapsed < 0:
		return fmt.Errorf("%v have elapsed", e.Elapsed)
	case e.Took < 0: // and beyond Elapsed where a queue measures it by another clock
		return fmt.Errorf("it took %v", e.Took)
	case e.Took != 0 && e.Kind != retry.AttemptFinished:
		return fmt.Errorf("it took %v, and only %v does", e.Took, retry.AttemptFinished)
	case (e.Delay != 0 || !e.Due.IsZero() || e.Hint != 0 || e.Seed != 0) && e.Kind != retry.RetryScheduled:
		return fmt.Errorf("only %v has a delay, due, hint or seed", retry.RetryScheduled)
	case e.Hint < 0 || e.Delay < e.Hint:
		return fmt.Errorf("its delay is %v, and its hint %v", e.Delay, e.Hint)
	case e.Kind == retry.RetryScheduled && !e.Due.Equal(e.Time.Add(e.Delay)):
		return fmt.Errorf("it is due %v, and its delay ends %v", e.Due, e.Time.Add(e.Delay))
	case e.Reason != 0 && e.Kind != retry.Stopped:
		return fmt.Errorf("its reason is %v, and only %v has one", e.Reason, retry.Stopped)
	case e.Kind != retry.AttemptFinished && (e.Err != nil) != (e.Reason == retry.ReasonInvalid):
		return fmt.Errorf("its reason is %v, and its error %v", e.Reason, e.Err)
	}
	return nil
}

// after returns the attempt that an event of a kind has if it follows before,
// 0 if it cannot.
func after(before retry.Event, kind retry.EventKind) int {
	switch {
	case before.Kind == retry.AttemptStarted && kind == retry.AttemptFinished,
		before.Kind == retry.AttemptFinished && kind == retry.RetryScheduled,
		before.Kind == retry.AttemptFinished && kind == retry.Stopped,
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
func stops(before, e retry.Event) error {
	interrupted := e.Reason == retry.ReasonCanceled || e.Reason == retry.ReasonDeadline
	switch {
	case e.Reason == 0 || e.Reason == retry.ReasonRetry:
		return fmt.Errorf("%q is no reason to stop", e.Reason)
	case before.Kind == retry.RetryScheduled && !interrupted:
		return errors.New("only its context ends a call between two attempts")
	case before.Kind == retry.AttemptFinished && before.Err == nil && e.Reason != retry.ReasonSuccess && e.Reason != retry.ReasonInvalid:
		return errors.New("the attempt did not fail")
	case before.Err != nil && e.Reason == retry.ReasonSuccess:
		return fmt.Errorf("the attempt failed: %w", before.Err)
	}
	return nil
}

// Check decides once more what p says after each attempt of c, and returns an
// error that names the first line that p would not have written: a retry with
// the same seed and hint must have the same reason and delay, and a call that
// stopped for the count or the policy itself must stop for it again.
//
// What a log does not keep cannot be checked: errors are texts in it, without
// marks, so RetryIf is not asked, Select sees the text, and a stop as permanent,
// rejected, asked to wait too long or too late is taken at its word where p
// can stop for that at all. So is a call that was not valid before its first
// attempt, or by what that attempt failed with: a nil context or function, a
// Loop whose body assigns nothing.
func (c Call) Check(p retry.Policy) error {
	if len(c.Records) == 0 {
		return nil
	}
	if limit := p.EffectiveMax(); limit != c.Max {
		return fmt.Errorf("retrylog: line %d: max is %d, and the policy says %d", c.Records[0].Line, c.Max, limit)
	}
	var before retry.Event
	for _, r := range c.Records {
		if err := check(p, before, r.Event); err != nil {
			return fmt.Errorf("retrylog: line %d: %s, and %w", r.Line, describe(r.Event), err)
		}
		before = r.Event
	}
	return nil
}

// check returns what p says instead of e, the event after before.
func check(p retry.Policy, before, e retry.Event) error {
	asked := p
	asked.RetryIf = nil
	// The decision was taken between the two events: the earlier one has what
	// had elapsed at least. A seed of 0 would be drawn from Source.
	d := asked.Next(retry.Attempt{Number: e.Attempt, Err: retry.After(e.Hint, before.Err), Elapsed: before.Elapsed, Seed: max(1, e.Seed)})
	switch {
	case e.Kind == retry.RetryScheduled && !d.Retry():
		return fmt.Errorf("the policy says to stop (%v)", d.Reason)
	case e.Kind == retry.RetryScheduled && d.Delay != e.Delay:
		return fmt.Errorf("the policy says in %v", d.Delay)
	case e.Reason == retry.ReasonInvalid && (before.Kind == 0 || before.Err != nil && before.Err.Error() == e.Err.Error()):
		return nil
	case e.Kind == retry.Stopped && !mayStop(p, e.Reason, d.Reason):
		return fmt.Errorf("the policy says %v", d.Reason)
	}
	return nil
}

// mayStop reports whether a call whose policy says this may stop for reason.
func mayStop(p retry.Policy, reason, says retry.Reason) bool {
	goesOn := says == retry.ReasonRetry || says == retry.ReasonElapsed // as far as the count goes
	switch reason {
	case retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonInvalid:
		return says == reason
	case retry.ReasonRetryAfter:
		return goesOn || says == reason // by an error that is not from a log, and has its mark
	case retry.ReasonElapsed:
		return goesOn && p.MaxElapsed > 0
	case retry.ReasonBudget:
		return goesOn && p.Budget != nil
	case retry.ReasonRejected:
		return says != retry.ReasonInvalid && p.RetryIf != nil
	default:
		return says != retry.ReasonInvalid
	}
}
