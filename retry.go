package retry

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// Do calls fn until it succeeds, or until p says to stop.
//
// fn is called in the caller's goroutine; a panic in it is not recovered. Its
// context is ctx, or one that ends earlier if p has an AttemptTimeout. Do
// returns nil as soon as fn does, even if ctx has been canceled by then.
// Otherwise it returns an [*Error].
//
// If ctx is done when Do is called, fn is not called at all. If ctx is done when
// an attempt returns or during a wait, there is no further attempt. If no attempt
// could follow a wait, Do returns at once.
//
// If p is invalid, Do still calls fn once; if that fails, the Reason is
// ReasonInvalid. A nil ctx or fn is also ReasonInvalid, and fn is not called.
func Do(ctx context.Context, p Policy, fn func(context.Context) error) error {
	// Most calls succeed at once, and need no call.
	if ctx == nil || fn == nil || p.watches() || ctx.Err() != nil {
		return run(ctx, &p, fn, nil)
	}
	err := fn(ctx)
	if err == nil {
		p.Budget.Success()
		return nil
	}
	return run(ctx, &p, fn, err)
}

// run is Do from the first attempt on, or from its failure on if that is not nil.
func run(ctx context.Context, p *Policy, fn func(context.Context) error, failure error) error {
	var c call
	c.prepare(ctx, p)
	defer c.refund() // of a retry that a panic prevents
	if failure != nil {
		c.Attempts, c.number, c.Err = 1, 1, failure
	}
	failed := failure != nil || c.begin(fn) && c.enter() && c.attempt(fn)
	for failed && c.decide() && c.pay() && c.announce() && c.wait() && c.enter() {
		failed = c.attempt(fn)
	}
	return c.stop()
}

// DoValue is [Do] for a function that returns a value. The value is the zero
// T if there is an error.
func DoValue[T any](
	ctx context.Context, p Policy, fn func(context.Context) (T, error),
) (v T, err error) {
	if fn == nil {
		return v, Do(ctx, p, nil)
	}
	err = Do(ctx, p, func(ctx context.Context) error {
		value, err := fn(ctx)
		if err == nil {
			v = value
		}
		return err
	})
	return v, err
}

// A call is one call of [Do] or [Once]. Each of its steps (begin, enter, attempt, decide,
// pay, announce, wait) reports whether the next step follows. If not, it has set the
// Reason and the Cause, and what is left to do is to stop.
type call struct {
	Error // what the call returns if it stops now

	ctx   context.Context
	p     Policy
	limit int          // EffectiveMax of p
	fault *PolicyError // what is wrong with p; nil: nothing
	once  bool         // it is a call of Once
	reset bool         // the last attempt ran past HealthyAfter, so the call begins anew

	start    time.Time            // of the first attempt; zero without a clock
	took     time.Duration        // the last attempt
	timedOut bool                 // it failed with a mere timeout or the end of a context
	skipped  time.Duration        // by Wait, which the clock is ahead by
	seed     uint64               // of all delays; 0: not drawn yet
	classes  [maxClasses]failures // so far
	earlier  map[string]int       // the same for Once
	last     Decision             // on the last failure
	decided  time.Time            // when that was
	payers   *payers              // the Budgets of ctx
	payer    *Budget              // the policy's, nil where the retry takes nothing from it
	paid     receipt              // what the Budgets gave for a retry that is still to come
	spent    receipt              // what they gave for the last attempt
}

// prepare notes what the call is made with, and judges the policy.
func (c *call) prepare(ctx context.Context, p *Policy) {
	c.ctx, c.p, c.limit = ctx, *p, p.limit()
	if f := p.faults(); f != nil {
		c.limit, c.fault = 1, &PolicyError{faults: f}
	}
}

// watches reports whether a call of p does more than to call a function.
func (p *Policy) watches() bool {
	return p.MaxElapsed != 0 || p.HealthyAfter != 0 || p.AttemptTimeout != 0 ||
		p.OnEvent != nil || p.Enter != nil
}

// Why a call cannot be made.
var errNilContext, errNilFunc = errors.New("nil context"), errors.New("nil function")

// begin checks that there can be an attempt. A queue may ask Once for one more than the
// limit: that it hands a job out again and again is no attempt.
func (c *call) begin(fn func(context.Context) error) bool {
	switch {
	case c.ctx == nil:
		c.ctx = context.Background() // for OnEvent
		return c.ends(ReasonInvalid, errNilContext)
	case fn == nil:
		return c.ends(ReasonInvalid, errNilFunc)
	case c.ctx.Err() != nil:
		return c.ended()
	case c.limit == Unlimited || c.number < c.limit:
		return true
	case c.p.NonRetryable:
		c.Attempts, c.number = c.limit, c.limit
		return c.ends(ReasonNonRetryable, nil)
	default:
		c.Attempts, c.number = c.limit, c.limit
		return c.ends(ReasonExhausted, nil)
	}
}

// enter asks the policy's Enter whether the next attempt may begin.
func (c *call) enter() bool {
	if c.p.Enter == nil {
		return true
	}
	c.Waited, c.Delay = saturate.Add(c.Waited, c.Delay), 0 // the wait is over
	began := c.now()
	if c.start.IsZero() {
		c.start = began
	}
	err := c.p.Enter(c.ctx, Event{
		Kind: AttemptStarted, Time: began, Elapsed: began.Sub(c.start), Max: c.limit,
		Attempt: next(c.Attempts), Decision: Decision{Number: next(c.number)},
	})
	if err != nil {
		return c.refused(err)
	}
	now := c.now()
	return c.inTime(now, now.Sub(began) >= time.Millisecond)
}

// refused ends the call because Enter returned an error.
func (c *call) refused(err error) bool {
	e, is := err.(*Error)
	switch {
	case is && e != nil && e.Reason != "" && e.Reason != ReasonSuccess && e.Reason != ReasonRetry:
		number := c.number
		c.Delay, c.facts = e.Delay, e.facts
		c.number = number
		if e.Err != nil {
			c.Err = e.Err
		}
		return c.ends(e.Reason, e.Cause)
	case c.ctx.Err() != nil:
		return c.ended()
	default:
		return c.ends(ReasonWait, err)
	}
}

// attempt makes the next attempt. The call goes on if that fails.
func (c *call) attempt(fn func(context.Context) error) bool {
	c.Waited, c.Delay = saturate.Add(c.Waited, c.Delay), 0
	c.Attempts, c.number, c.reset = next(c.Attempts), next(c.number), false
	var began time.Time
	if c.p.watches() {
		if began = c.now(); c.start.IsZero() {
			c.start = began
		}
	}
	if c.p.OnEvent != nil {
		c.tell(AttemptStarted, began)
		began = c.now() // the time that OnEvent took is not fn's
	}
	c.spent, c.paid = c.paid, 0 // and paid stays so if fn panics
	if !c.timedOut {
		c.Before = c.Err
	}
	c.ranOut, c.Err = execute(c.ctx, c.p.AttemptTimeout, fn)
	if c.p.OnEvent != nil || c.p.HealthyAfter > 0 {
		ended := c.now()
		c.took = ended.Sub(began)
		if c.p.OnEvent != nil {
			c.tell(AttemptFinished, ended)
		}
		if c.Err != nil && c.fault == nil && !c.once && c.p.healthy(c.took) {
			c.number, c.reset, c.seed, c.start = 1, true, 0, ended
			c.classes, c.Before = [maxClasses]failures{}, nil
		}
	}
	if c.Err != nil {
		return true
	}
	c.p.Budget.Success()
	c.Class = ""
	return c.ends(ReasonSuccess, nil)
}

// next returns the number after n, or the largest one: 32 bits are used up
// within a year by an attempt each 10ms.
func next(n int) int { return min(n, math.MaxInt-1) + 1 }

// execute calls fn with a context that ends after timeout, if there is one. It
// returns how long fn had, if it failed when that time was up.
func execute(
	ctx context.Context, timeout time.Duration, fn func(context.Context) error,
) (ranOut time.Duration, err error) {
	if timeout <= 0 {
		return 0, fn(ctx)
	}
	attempt, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err = fn(attempt); err != nil && attempt.Err() != nil && ctx.Err() == nil {
		ranOut = timeout
	}
	return ranOut, err
}

// decide decides whether to try again, and after which delay.
func (c *call) decide() bool {
	d := &c.last
	*d = Decision{Reset: c.reset}
	if c.fault == nil { // no function of an invalid policy is called
		f, of := c.p.ask(c.Err), c.number
		if f.class != nil {
			of = c.failuresOf(f.class.Name)
		}
		if c.timedOut = f.ended; !c.timedOut {
			c.Before = nil
		}
		c.settle(f)
		d.decide(&c.p, f, c.limit, c.number, of, &c.Error)
	}
	if d.Hi != 0 || c.p.MaxElapsed > 0 || c.p.OnEvent != nil {
		elapsed, left := c.clock(d.Hi != 0)
		d.draw(&c.p, c.number, c.seed, elapsed, left, &c.Error)
	}
	if c.Class = d.Class; d.Seed != 0 {
		c.seed = d.Seed
	}
	// A deadline bounds an attempt of Once, not the job.
	err := c.ctx.Err()
	if err != nil && (!c.once || !errors.Is(err, context.DeadlineExceeded)) {
		return c.ended()
	}
	c.Delay = d.Delay
	return d.Reason == ReasonRetry || c.ends(d.Reason, c.Cause)
}

// clock reads the clock for a decision, once all functions of the policy but Source
// have returned, if the decision depends on it: how much time has elapsed, and what the
// context's deadline leaves for a wait (saturate.Max: all the time).
func (c *call) clock(waits bool) (elapsed, left time.Duration) {
	var deadline time.Time
	bounded := false
	if waits && !c.once { // the retry of Once is made elsewhere
		deadline, bounded = c.ctx.Deadline()
	}
	if bounded || c.p.MaxElapsed > 0 || c.p.OnEvent != nil {
		c.decided = c.now()
		elapsed = c.decided.Sub(c.start)
	}
	if bounded {
		return elapsed, deadline.Sub(c.decided)
	}
	return elapsed, saturate.Max
}

// failuresOf returns how many failures of a class there are with the last one, which
// it counts; of all where there are too many names.
func (c *call) failuresOf(class string) int {
	switch {
	case class == "":
		return c.number
	case c.once:
		return failuresOf(class, c.earlier, c.number)
	}
	for i := range c.classes {
		f := &c.classes[i]
		if f.number == 0 {
			f.class = class
		}
		if f.class == class {
			f.number = next(f.number)
			return f.number
		}
	}
	return c.number
}

// failures counts those of one class.
type failures struct {
	class  string
	number int
}

// settle gives back what the Budgets gave for an attempt that did nothing, and notes
// whether the policy's Budget has to give the next retry.
func (c *call) settle(f failure) {
	if f.unmade {
		c.payers.refund(c.payer, c.spent)
	}
	c.payer = c.p.Budget
	if f.class != nil && f.class.SkipBudget {
		c.payer = nil
	}
}

// pay takes the retry out of the Budgets. The retry after a healthy attempt takes nothing.
func (c *call) pay() bool {
	// Once a call: ten failures that ask the context each time take twice as long.
	if c.number == 1 || c.once {
		c.payers = payersOf(c.ctx)
	}
	if c.reset || c.payers == nil && c.payer == nil {
		return true
	}
	c.paid, c.empty = c.payers.take(c.payer, c.number)
	switch {
	case c.empty == nil:
		return true
	case c.empty.Borrowed:
		return c.ends(ReasonBorrowed, nil)
	default:
		return c.ends(ReasonBudget, nil)
	}
}

// refund gives back what was paid for a retry that is not made.
func (c *call) refund() {
	c.payers.refund(c.payer, c.paid)
	c.paid = 0
}

// announce reports the retry.
func (c *call) announce() bool {
	if c.p.OnEvent != nil {
		c.tell(RetryScheduled, c.decided)
	}
	return true
}

// wait waits until the delay has passed since the decision.
func (c *call) wait() bool {
	left := c.Delay
	if c.p.OnEvent != nil { // the time that it took is part of the wait
		now := c.now()
		left -= now.Sub(c.decided)
		if !c.inTime(now, left < 0) {
			return false
		}
		left = max(0, left)
	}
	switch {
	case c.p.Wait != nil:
		return c.waitBy(left)
	case left == 0:
		return true
	}
	select {
	case <-c.ctx.Done():
		return c.ended()
	case <-time.After(left):
		return c.ctx.Err() == nil || c.ended() // both may have come at once
	}
}

// waitBy waits by the policy's Wait.
func (c *call) waitBy(left time.Duration) bool {
	began := c.now()
	skipped, err := c.p.Wait(c.ctx, left)
	c.skipped = saturate.Add(c.skipped, min(max(0, skipped), left))
	now := c.now()
	passed := max(0, now.Sub(began))
	if late := passed - left; late >= 0 && late < time.Millisecond {
		// As with the package's own timer. In a test the time that skipping takes does
		// not show.
		passed = left
	}
	switch {
	case c.ctx.Err() != nil:
		return c.ended()
	case err != nil:
		return c.ends(ReasonWait, err)
	}
	c.Waited, c.Delay = saturate.Add(c.Waited, saturate.Add(c.Delay-left, passed)), 0
	return c.inTime(now, passed > left)
}

// inTime checks that the retry can still begin, where late says that the wait took
// longer than the delay.
func (c *call) inTime(now time.Time, late bool) bool {
	if c.ctx.Err() != nil {
		return c.ended()
	}
	deadline, bounded := c.ctx.Deadline()
	switch elapsed := now.Sub(c.start); {
	case !late:
		return true
	case tooLate(c.p.MaxElapsed, elapsed, 0):
		c.bound, c.elapsed = c.p.MaxElapsed, elapsed
		return c.ends(ReasonElapsed, nil)
	case bounded && !now.Before(deadline):
		return c.ends(ReasonDeadline, &aheadError{})
	default:
		return true
	}
}

// ended ends the call because its context is done.
func (c *call) ended() bool {
	if errors.Is(c.ctx.Err(), context.DeadlineExceeded) {
		return c.ends(ReasonDeadline, &endedError{c.ctx})
	}
	return c.ends(ReasonCanceled, &endedError{c.ctx})
}

// ends notes why the call does not go on.
func (c *call) ends(reason Reason, cause error) bool {
	c.Reason, c.Cause = reason, cause
	return false
}

// stop returns the error of the call, nil after a success, and reports it.
func (c *call) stop() error {
	c.refund()
	switch {
	case c.fault == nil:
	case c.Reason == ReasonSuccess:
		c.Cause = c.fault
	default: // an invalid policy goes before every other reason
		c.fault.also = c.Cause
		c.Reason, c.Cause = ReasonInvalid, c.fault
	}
	if c.Reason == ReasonExhausted && c.p.declared() == 0 {
		c.of = noLimit
	}
	if c.p.OnEvent != nil {
		c.tell(CallFinished, c.now())
	}
	if c.Reason == ReasonSuccess {
		return nil
	}
	e := c.Error // c stays on the stack
	return &e
}

// tell reports an event to OnEvent.
func (c *call) tell(kind EventKind, at time.Time) {
	if c.start.IsZero() { // no attempt was made
		c.start = at
	}
	e := Event{
		Kind: kind, Time: at, Elapsed: at.Sub(c.start),
		Attempt: c.Attempts, Max: c.limit, Decision: Decision{Number: c.number},
	}
	switch kind {
	case AttemptFinished:
		e.Err, e.Took = c.Err, c.took
	case RetryScheduled:
		e.Err, e.Decision, e.Due = c.Err, c.last, at.Add(c.last.Delay)
	case CallFinished:
		e.Err, e.Class, e.Reason, e.Cause = c.Err, c.Class, c.Reason, c.Cause
		e.Reset = c.reset
	}
	c.p.OnEvent(c.ctx, e)
}

// now reads the clock of the call, on which waits that were skipped have passed.
func (c *call) now() time.Time { return time.Now().Add(c.skipped) }
