package retry

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/goretry/retry/internal/ctxvalue"
	"github.com/goretry/retry/internal/mark"
	"github.com/goretry/retry/internal/saturate"
)

// Do calls fn until fn returns nil, or until p or ctx ends the call.
//
// Do calls fn in the caller's goroutine and does not recover a panic in fn. The context of fn is
// ctx, or a context that ends earlier if p has an AttemptTimeout. Do returns nil as soon as fn
// returns nil, even if ctx has been canceled by then. If the call stops without a success, Do
// returns an [*Error]. A call whose first attempt succeeds allocates nothing, unless p has an
// AttemptTimeout.
//
// The context does not contain the number of the attempt: there is no AttemptFrom(ctx). If fn
// needs this number, count the attempts in a variable outside fn, as in the example
// AttemptNumber. Policy.OnEvent gets the number as Event.Attempt.
//
// If ctx is done when Do is called, fn is not called at all. If ctx is done when an attempt
// returns or during a wait, there is no further attempt. If the next wait would end too late
// for another attempt, Do returns without waiting.
//
// If p is invalid, Do calls fn once. If this attempt fails, the Reason is ReasonInvalid. If ctx
// or fn is nil, fn is not called, and the Reason is ReasonInvalid.
func Do(ctx context.Context, p Policy, fn func(context.Context) error) error {
	// Most functions succeed at once. They do not need the bookkeeping of a call.
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

// The function `run` makes all attempts of Do. If the parameter `failure` is not nil, Do has
// already made the first attempt, and `failure` is the error of this attempt.
func run(ctx context.Context, p *Policy, fn func(context.Context) error, failure error) error {
	var c call
	c.prepare(ctx, p)
	defer c.refund() // gives the tokens back if fn or a function of the policy panics
	if failure != nil {
		c.Attempts, c.number, c.Err = 1, 1, failure
	}
	failed := failure != nil || c.begin(fn) && c.enter() && c.attempt(fn)
	for failed && c.decide() && c.pay() && c.announce() && c.wait() && c.enter() {
		failed = c.attempt(fn)
	}
	return c.stop()
}

// DoValue is [Do] for a function that also returns a value. If DoValue returns an error, the
// value is the zero T.
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

// A call is one call of [Do] or [Once]. Each of its steps (`begin`, `enter`, `attempt`, `decide`,
// `pay`, `announce`, `wait`) reports whether the next step follows. A step that returns false has
// set the Reason and the Cause. Then only the method `stop` is left to call.
type call struct {
	Error // the error that the call returns if it stops now

	ctx   context.Context
	p     Policy
	limit int          // EffectiveMax of p
	fault *PolicyError // why p is invalid; nil: p is valid
	once  bool         // true: this is a call of Once
	reset bool         // true: the last attempt ran past HealthyAfter, so the call begins anew

	start    time.Time            // when the first attempt began; zero: the clock was not read
	took     time.Duration        // how long the last attempt ran
	timedOut bool                 // true: the last error is just a timeout or the end of a context
	skipped  time.Duration        // how much time Wait has skipped in all; see the method `now`
	seed     uint64               // the seed of all delays; 0: not drawn yet
	classes  [maxClasses]failures // in Do: the failures of each class so far
	earlier  map[string]int       // in Once: the earlier failures of each class
	last     Decision             // the decision on the last failure
	decided  time.Time            // when the last decision was made
	payers   *payers              // the Budgets of ctx
	payer    *Budget              // the policy's Budget; nil: the next retry takes none of its tokens
	paid     receipt              // which Budgets gave a token for the next retry
	spent    receipt              // which Budgets gave a token for the last attempt
}

// The method `prepare` stores the arguments of the call and validates the policy.
func (c *call) prepare(ctx context.Context, p *Policy) {
	c.ctx, c.p, c.limit = ctx, *p, p.limit()
	if f := p.faults(); f != nil {
		c.limit, c.fault = 1, &PolicyError{faults: f}
	}
}

// The method `watches` reports whether a call must read the clock or call a function of p even if
// its first attempt succeeds.
func (p *Policy) watches() bool {
	return p.MaxElapsed != 0 || p.HealthyAfter != 0 || p.AttemptTimeout != 0 ||
		p.OnEvent != nil || p.Enter != nil
}

// The method `begin` checks that the first attempt of the call is allowed. A queue may ask Once for
// an attempt above the limit, for example after a worker died in the last attempt. Then `begin`
// sets the number of attempts made to the limit, because the attempt above the limit is not made.
func (c *call) begin(fn func(context.Context) error) bool {
	switch {
	case c.ctx == nil:
		c.ctx = context.Background() // for OnEvent
		return c.stopFor(ReasonInvalid, errNilContext)
	case fn == nil:
		return c.stopFor(ReasonInvalid, errNilFunc)
	case c.ctx.Err() != nil:
		return c.stopByContext()
	case c.limit == Unlimited || c.number < c.limit:
		return true
	case c.p.NonRetryable:
		c.Attempts, c.number = c.limit, c.limit
		return c.stopFor(ReasonNonRetryable, nil)
	default:
		c.Attempts, c.number = c.limit, c.limit
		return c.stopFor(ReasonExhausted, nil)
	}
}

// The method `enter` calls the policy's Enter, which may delay the next attempt or refuse it.
func (c *call) enter() bool {
	if c.p.Enter == nil {
		return true
	}
	c.Waited, c.Delay = saturate.Add(c.Waited, c.Delay), 0
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

// The method `refused` ends the call because the policy's Enter has returned err.
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
		return c.stopFor(e.Reason, e.Cause)
	case c.ctx.Err() != nil:
		return c.stopByContext()
	default:
		return c.stopFor(ReasonWait, err)
	}
}

// The method `attempt` makes the next attempt of the call. It returns true if this attempt fails:
// then the next step is to decide about a retry.
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
		began = c.now() // so that the Took of the event does not include the time that OnEvent needs
	}
	c.spent, c.paid = c.paid, 0 // the retry is made, so `refund` must not give its tokens back
	if !c.timedOut {
		c.Before = c.Err
	}
	var isUnhealthy bool
	c.ranOut, c.Err = execute(c.ctx, c.p.AttemptTimeout, fn)
	c.Err, isUnhealthy = mark.CutUnhealthy(c.Err)
	if c.p.OnEvent != nil || c.p.HealthyAfter > 0 {
		ended := c.now()
		c.took = ended.Sub(began)
		if c.p.OnEvent != nil {
			c.tell(AttemptFinished, ended)
		}
		if c.Err != nil && c.fault == nil && !c.once && c.p.healthy(c.took) && !isUnhealthy {
			c.number, c.reset, c.seed, c.start = 1, true, 0, ended
			c.classes, c.Before = [maxClasses]failures{}, nil
		}
	}
	if c.Err != nil {
		return true
	}
	c.p.Budget.Success()
	c.Class = ""
	return c.stopFor(ReasonSuccess, nil)
}

// The function `next` returns n + 1, or the largest int if n + 1 would overflow. If an attempt is
// made every 10ms, an int of 32 bits overflows within a year.
func next(n int) int { return min(n, math.MaxInt-1) + 1 }

// The function `execute` calls fn with a context that ends after the duration `timeout`. If
// `timeout` is 0 or below, fn gets ctx. If fn failed after the timeout had ended the context, the
// result `ranOut` is `timeout`. In all other cases, `ranOut` is 0.
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

// The method `decide` decides whether a retry follows, and after which delay.
func (c *call) decide() bool {
	d := &c.last
	*d = Decision{Reset: c.reset}
	if c.fault == nil { // the functions of an invalid policy must not be called
		f, ofClass := c.p.ask(c.Err), c.number
		if f.class != nil {
			ofClass = c.failuresOf(f.class.Name)
		}
		if c.timedOut = f.ended; !c.timedOut {
			c.Before = nil
		}
		c.settle(f)
		d.decide(&c.p, f, c.limit, c.number, ofClass, &c.Error)
	}
	if d.Hi != 0 || c.p.MaxElapsed > 0 || c.p.OnEvent != nil {
		elapsed, left := c.clock(d.Hi != 0)
		d.draw(&c.p, c.number, c.seed, elapsed, left, &c.Error)
	}
	if c.Class = d.Class; d.Seed != 0 {
		c.seed = d.Seed
	}
	// Under Once, the deadline of the context ends only this attempt. The job may go on.
	err := c.ctx.Err()
	if err != nil && (!c.once || !errors.Is(err, context.DeadlineExceeded)) {
		return c.stopByContext()
	}
	c.Delay = d.Delay
	return d.Reason == ReasonRetry || c.stopFor(d.Reason, c.Cause)
}

// The method `clock` returns how much time has elapsed, and how much time remains until the
// context's deadline. The second result is saturate.Max if the context has no deadline. If the
// decision does not depend on the time, the method does not read the time. The caller has already
// called the policy's RetryIf, Classify, Backoff and Jitter. So the result `elapsed` includes the
// time that these functions took.
func (c *call) clock(waits bool) (elapsed, left time.Duration) {
	var deadline time.Time
	bounded := false
	if waits && !c.once { // after Once, the retry runs under another context
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

// The method `settle` prepares the Budgets for the next retry. If NotAttempted has wrapped the
// error of the last attempt, `settle` gives the tokens of this attempt back to the Budgets. After
// every attempt, `settle` sets c.payer to the policy's Budget, or to nil if the next retry must not
// take a token from this Budget.
func (c *call) settle(f failure) {
	if f.unmade {
		c.payers.refund(c.payer, c.spent)
	}
	c.payer = c.p.Budget
	if f.class != nil && f.class.SkipBudget {
		c.payer = nil
	}
}

// The method `pay` takes the tokens for the retry out of the Budgets. After an attempt that ran
// past HealthyAfter, it takes nothing.
func (c *call) pay() bool {
	// A call looks for the Budgets of its context only once. With ten failures and a search after each
	// failure, the call would take twice as long.
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
		return c.stopFor(ReasonBorrowed, nil)
	default:
		return c.stopFor(ReasonBudget, nil)
	}
}

// The method `refund` gives the Budgets back the tokens that they gave for a retry that was not
// made.
func (c *call) refund() {
	c.payers.refund(c.payer, c.paid)
	c.paid = 0
}

// The method `announce` calls OnEvent with a RetryScheduled.
func (c *call) announce() bool {
	if c.p.OnEvent != nil {
		c.tell(RetryScheduled, c.decided)
	}
	return true
}

// The method `wait` pauses the call until the delay has passed since the decision.
func (c *call) wait() bool {
	left := c.Delay
	if c.p.OnEvent != nil { // the time that OnEvent took is part of the wait
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
		return c.stopByContext()
	case <-time.After(left):
		return c.ctx.Err() == nil || c.stopByContext() // ctx may have ended together with the wait
	}
}

// waitBy calls the policy's Wait for the rest of the delay.
func (c *call) waitBy(left time.Duration) bool {
	began := c.now()
	skipped, err := c.p.Wait(c.ctx, left)
	c.skipped = saturate.Add(c.skipped, min(max(0, skipped), left))
	now := c.now()
	passed := max(0, now.Sub(began))
	if late := passed - left; late >= 0 && late < time.Millisecond {
		// A Wait that skips time in a test returns after some microseconds. Waited must not include these
		// microseconds, so that a test can expect an exact sum. A call that waits by a timer counts
		// exactly the delay too.
		passed = left
	}
	switch {
	case c.ctx.Err() != nil:
		return c.stopByContext()
	case err != nil:
		return c.stopFor(ReasonWait, err)
	}
	c.Waited, c.Delay = saturate.Add(c.Waited, saturate.Add(c.Delay-left, passed)), 0
	return c.inTime(now, passed > left)
}

// inTime checks that the retry can still begin. The parameter `late` is true if the wait took
// longer than the delay. If `late` is true, inTime checks MaxElapsed and the deadline again.
func (c *call) inTime(now time.Time, late bool) bool {
	if c.ctx.Err() != nil {
		return c.stopByContext()
	}
	deadline, bounded := c.ctx.Deadline()
	switch elapsed := now.Sub(c.start); {
	case !late:
		return true
	case tooLate(c.p.MaxElapsed, elapsed, 0):
		c.bound, c.elapsed = c.p.MaxElapsed, elapsed
		return c.stopFor(ReasonElapsed, nil)
	case bounded && !now.Before(deadline):
		return c.stopFor(ReasonDeadline, &aheadError{})
	default:
		return true
	}
}

// stopByContext stops the call because its context is done.
func (c *call) stopByContext() bool {
	ended := &endedError{c.ctx}
	if c.ctx.Value(ctxvalue.Large{}) != nil {
		ended.ctx = endOf(c.ctx)
	}
	if errors.Is(c.ctx.Err(), context.DeadlineExceeded) {
		return c.stopFor(ReasonDeadline, ended)
	}
	return c.stopFor(ReasonCanceled, ended)
}

// stopFor sets the Reason and the Cause with which the call stops. It returns false, so that a
// step can return the result of stopFor.
func (c *call) stopFor(reason Reason, cause error) bool {
	c.Reason, c.Cause = reason, cause
	return false
}

// The method `stop` calls OnEvent with the CallFinished. It returns the error of the call, or nil
// after a success.
func (c *call) stop() error {
	c.refund()
	switch {
	case c.fault == nil:
	case c.Reason == ReasonSuccess:
		c.Cause = c.fault
	default: // p is invalid, and the call has failed: ReasonInvalid replaces the other Reason
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
	e := c.Error // a pointer into c would move c to the heap
	return &e
}

// The method `tell` calls OnEvent.
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

// The method `now` returns the time on the clock of the call. If the policy's Wait has skipped
// time, as in a test, this clock is ahead of the real clock by the skipped time.
func (c *call) now() time.Time { return time.Now().Add(c.skipped) }
