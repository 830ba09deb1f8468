package retrylog

import (
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// A Call is one call of retry.Do, DoValue or Loop, as its events tell it.
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
	Finished  bool // false: the log ends, or the execution did not return
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
// returned with Reason 0, and a later call may have its key.
//
// A log that cannot have happened is an error that names the line at fault:
// events out of order, an attempt beyond Max, one that began before it was
// due, a Max that changes within a call. The calls up to there are returned.
func Replay(records []Record) ([]Call, error) {
	var calls []Call
	running := map[string]int{} // index in calls, by key
	for i, r := range records {
		if r.Line == 0 {
			r.Line = i + 1
		}
		whole := calls
		at, ok := running[r.Key]
		if begins(r.Event) {
			at, ok = len(calls), true
			calls = append(calls, Call{Key: r.Key, Max: r.Event.Max})
		}
		err := errors.New("it belongs to no call that has begun")
		if ok {
			err = calls[at].add(r)
		}
		if err != nil {
			return whole, fmt.Errorf("retrylog: line %d: %s cannot have happened: %w (calls that run at once, or one within another, need keys of their own: see WithKey)", r.Line, describe(r.Event), err)
		}
		running[r.Key] = at
		if r.Event.Kind == retry.Stopped {
			delete(running, r.Key)
		}
	}
	return calls, nil
}

// begins reports whether e is the first event of a call.
func begins(e retry.Event) bool {
	return e.Kind == retry.AttemptStarted && e.Attempt == 1 || e.Kind == retry.Stopped && e.Attempt == 0
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
	switch {
	case e.Max < 1 && e.Max != retry.Unlimited:
		return fmt.Errorf("its max is %d", e.Max)
	case e.Max != c.Max:
		return fmt.Errorf("its max is %d, that of its call %d", e.Max, c.Max)
	case e.Took < 0: // and beyond Elapsed where a queue measures it by another clock
		return fmt.Errorf("it took %v", e.Took)
	case e.Kind == retry.Stopped && (e.Err != nil) != (e.Reason == retry.ReasonInvalid):
		return fmt.Errorf("its reason is %v, and its error %v", e.Reason, e.Err)
	}
	if len(c.Records) == 0 {
		if e.Kind == retry.Stopped && e.Reason != retry.ReasonCanceled && e.Reason != retry.ReasonDeadline && e.Reason != retry.ReasonInvalid {
			return errors.New("no attempt has begun")
		}
		return nil
	}
	before := c.Records[len(c.Records)-1].Event
	if e.Elapsed < before.Elapsed {
		return fmt.Errorf("%v have elapsed, and %v before", e.Elapsed, before.Elapsed)
	}
	switch want := after(before, e.Kind); {
	case want == 0:
		return fmt.Errorf("it follows %s", describe(before))
	case e.Attempt != want:
		return fmt.Errorf("it is of attempt %d, and attempt %d is next", e.Attempt, want)
	}
	switch e.Kind {
	case retry.AttemptStarted:
		if early := before.Elapsed + before.Delay - e.Elapsed; early > 0 {
			return fmt.Errorf("it was due %v later", early)
		}
	case retry.RetryScheduled:
		if before.Err == nil {
			return errors.New("the attempt did not fail")
		}
		if c.Max != retry.Unlimited && e.Attempt >= c.Max {
			return fmt.Errorf("its max is %d", c.Max)
		}
		if e.Delay < 0 || e.Delay < e.Hint {
			return fmt.Errorf("its delay is %v, and its hint %v", e.Delay, e.Hint)
		}
		if due := e.Time.Add(e.Delay); !e.Due.Equal(due) {
			return fmt.Errorf("it is due %v, and its delay ends %v", e.Due, due)
		}
	case retry.Stopped:
		return stops(before, e)
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
	case before.Kind == retry.RetryScheduled && kind == retry.AttemptStarted:
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
	case before.Kind == retry.AttemptFinished && before.Err != nil && e.Reason == retry.ReasonSuccess:
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
// can stop for that at all.
func (c Call) Check(p retry.Policy) error {
	if len(c.Records) == 0 {
		return nil
	}
	if limit := p.EffectiveMax(); limit != c.Max {
		return fmt.Errorf("retrylog: line %d: max is %d, and the policy says %d", c.Records[0].Line, c.Max, limit)
	}
	for i := 1; i < len(c.Records); i++ {
		failed, e := c.Records[i-1].Event, c.Records[i].Event
		if failed.Kind != retry.AttemptFinished || failed.Err == nil {
			continue
		}
		if err := check(p, failed, e); err != nil {
			return fmt.Errorf("retrylog: line %d: %s, and %w", c.Records[i].Line, describe(e), err)
		}
	}
	return nil
}

// check returns what p says instead of e, the event after one that failed.
func check(p retry.Policy, failed, e retry.Event) error {
	// The decision was taken between the two events: the earlier one has what
	// had elapsed at least.
	a := retry.Attempt{Number: e.Attempt, Err: failed.Err, Elapsed: failed.Elapsed, Seed: max(1, e.Seed)}
	if e.Hint > 0 {
		a.Err = retry.After(e.Hint, failed.Err)
	}
	asked := p
	asked.RetryIf = nil
	d := asked.Next(a)
	switch {
	case e.Kind == retry.RetryScheduled && !d.Retry():
		return fmt.Errorf("the policy says to stop (%v)", d.Reason)
	case e.Kind == retry.RetryScheduled && d.Delay != e.Delay:
		return fmt.Errorf("the policy says in %v", d.Delay)
	case e.Kind == retry.Stopped && !mayStop(p, e.Reason, d.Reason):
		return fmt.Errorf("the policy says %v", d.Reason)
	}
	return nil
}

// mayStop reports whether a call whose policy says this may stop for reason.
func mayStop(p retry.Policy, reason, says retry.Reason) bool {
	unless := says == retry.ReasonRetry || says == retry.ReasonElapsed
	switch reason {
	case retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonInvalid:
		return says == reason
	case retry.ReasonElapsed:
		return unless && p.MaxElapsed > 0
	case retry.ReasonBudget:
		return unless && p.Budget != nil
	case retry.ReasonRejected:
		return p.RetryIf != nil
	default:
		return says != retry.ReasonInvalid
	}
}
