package retry

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/goretry/retry/internal/saturate"
	"github.com/goretry/retry/internal/twice"
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
	if twice.On && ctx != nil && fn != nil {
		fn = p.lossy(ctx, fn)
	}
	// A goroutine keeps the small stack that it was born with only while the frames
	// down to the select stay small: what lives across a wait is in the call, and
	// everything else is done in functions that have returned by then. That is also
	// why Do is one function: the copy of p among its arguments is the only one.
	var c *call
	if fn != nil && ctx != nil && p.MaxElapsed == 0 && p.HealthyAfter == 0 && p.OnEvent == nil {
		// Most calls succeed at once, without a clock or a watcher, and need no
		// call. ctx.Err has an if of its own: in the one above its answer would
		// be stored and tested again.
		if ctx.Err() == nil {
			var err error
			if p.AttemptTimeout > 0 {
				err = execute(ctx, p.AttemptTimeout, fn)
			} else {
				err = fn(ctx)
			}
			if err == nil {
				p.Budget.Success()
				return nil
			}
			c = newCall(&p, err)
		}
	}
	if c == nil {
		if c = p.first(ctx, fn); c == nil {
			return nil
		}
		if c.Reason != "" {
			return &c.Error
		}
	}
	for c.retries(ctx, &p, nil, nil) {
		switch {
		case p.OnEvent != nil && !c.announce(ctx, &p):
			return &c.Error
		case p.Wait != nil:
			if !c.waitBy(ctx, &p) {
				return &c.Error
			}
		case c.sleep() > 0:
			done, wake := c.wait(ctx)
			select {
			case <-done:
				c.interrupted(ctx, &p)
				return &c.Error
			case <-wake:
				// Both may have come at once.
				if ctx.Err() != nil {
					c.interrupted(ctx, &p)
					return &c.Error
				}
			}
		}
		if c.attempt(ctx, &p, fn) {
			return nil
		}
	}
	return &c.Error
}

// lossy returns fn for a build with the tag retrytwice, which loses the answers of
// some attempts that succeed: fn runs again, in the same attempt, where p would try
// again. A call that began anew by HealthyAfter has fewer attempts than are counted
// here, and is repeated less often.
func (p Policy) lossy(ctx context.Context, fn func(context.Context) error) func(context.Context) error {
	retries := func(attempt int, elapsed time.Duration) (after time.Duration, ok bool) {
		for l := payersOf(WithBudget(ctx, p.Budget)); l != nil; l = l.outer {
			if l.budget.Left() == 0 {
				return 0, false
			}
		}
		d := p.Next(Attempt{Number: attempt, Err: twice.Lost{}, Elapsed: elapsed, Seed: 1}) // with a Seed, nothing is drawn from Source
		return d.Delay, d.Retry()
	}
	again := func(ctx context.Context) error { return execute(ctx, p.AttemptTimeout, fn) }
	return twice.Lossy(ctx, retries, fn, again)
}

// DoValue is [Do] for a function that returns a value. The value is the zero
// T if there is an error. A nil fn is an error after one attempt (ReasonInvalid).
func DoValue[T any](ctx context.Context, p Policy, fn func(context.Context) (T, error)) (v T, err error) {
	// The inliner allows 80 units: this takes them all, with a return without
	// operands. So Do learns from the closure that there is no fn.
	err = Do(ctx, p, func(ctx context.Context) error {
		if fn == nil {
			return errNoFunc
		}
		value, err := fn(ctx)
		if err == nil {
			v = value
		}
		return err
	})
	if twice.On && err != nil {
		v = *new(T) // its success was lost
	}
	return
}

// first makes the first attempt of a call with a clock or a watcher. It returns
// nil if that succeeds, and a call that has stopped if it cannot begin.
func (p *Policy) first(ctx context.Context, fn func(context.Context) error) *call {
	switch {
	case ctx == nil || fn == nil || ctx.Err() != nil:
		return p.cannotBegin(ctx, fn)
	case p.OnEvent == nil:
		return p.failed(p.timeFirst(ctx, fn))
	default:
		limit, _ := p.judge()
		return p.failed(p.watchFirst(ctx, fn, limit))
	}
}

// cannotBegin returns a call that has stopped without an attempt.
//
//go:noinline
func (p *Policy) cannotBegin(ctx context.Context, fn func(context.Context) error) *call {
	c := newCall(p, nil)
	c.Attempts, c.start = 0, time.Now()
	c.refuse(ctx, p, fn)
	return c
}

// failed returns a call whose first attempt failed with err, nil if it did not
// fail. The call counts from start on: if the attempt was healthy, that is its end.
//
//go:noinline
func (p *Policy) failed(start time.Time, healthy bool, err error) *call {
	if err == nil {
		return nil
	}
	c := newCall(p, err)
	if c.start = start; healthy {
		c.anew(start)
	}
	return c
}

// timeFirst makes the first attempt of a call with a clock.
func (p *Policy) timeFirst(ctx context.Context, fn func(context.Context) error) (start time.Time, healthy bool, err error) {
	start = time.Now()
	if err = execute(ctx, p.AttemptTimeout, fn); err == nil {
		p.Budget.Success()
	} else if p.HealthyAfter > 0 {
		if ended := time.Now(); p.healthy(ended.Sub(start)) {
			return ended, true, err
		}
	}
	return start, false, err
}

// watchFirst makes the first attempt of a call with a watcher. What it knows is in
// the Event: a call would be as much again on a stack that should stay small.
//
//go:noinline
func (p *Policy) watchFirst(ctx context.Context, fn func(context.Context) error, limit int) (start time.Time, healthy bool, err error) {
	start = time.Now()
	e := Event{Kind: AttemptStarted, Time: start, Attempt: 1, Max: limit}
	p.OnEvent(ctx, e)
	began := time.Now()
	before := began.Sub(start) // the time that OnEvent took is not fn's
	if p.AttemptTimeout > 0 {
		err = execute(ctx, p.AttemptTimeout, fn)
	} else {
		err = fn(ctx)
	}
	e.Kind, e.Time, e.Err = AttemptFinished, time.Now(), err
	e.Elapsed = e.Time.Sub(start)
	e.Took = e.Elapsed - before
	p.OnEvent(ctx, e)
	if err == nil {
		p.Budget.Success()
		e.Kind, e.Time, e.Took, e.Reason, e.Cause = Stopped, time.Now(), 0, ReasonSuccess, p.faults().err()
		e.Elapsed = e.Time.Sub(start)
		p.OnEvent(ctx, e)
	} else if p.healthy(e.Took) {
		return e.Time, true, err
	}
	return start, false, err
}

// A call is what one call of Do knows from one attempt to the next. It is also
// the error that the call ends with, so that both are one allocation. A field
// more puts it into the next size class, which every waiting call pays for.
type call struct {
	Error
	limit int       // EffectiveMax
	seed  uint64    // of all its delays; 0: not drawn yet
	start time.Time // of the first attempt; zero without a clock or a watcher
}

// newCall returns a call whose first attempt failed with err. Inlined, it would
// give Do a larger frame.
//
//go:noinline
func newCall(p *Policy, err error) *call {
	c := new(call)
	c.Attempts, c.Err = 1, err
	c.judge(p)
	return c
}

// judge sets the limit of c, and its Cause to what is wrong with p.
func (c *call) judge(p *Policy) {
	limit, f := p.judge()
	c.limit, c.Cause = limit, f.err()
}

// An invalidCall is the Cause of a call that cannot be made.
type invalidCall string

func (e invalidCall) Error() string { return string(e) }

var (
	errNilContext error = invalidCall("nil context")
	errNilFunc    error = invalidCall("nil function")

	// errNoFunc is what an attempt of DoValue fails with that has no function. It is
	// the Err of its AttemptFinished, and nothing else.
	errNoFunc error = invalidCall("nil function: pass one to DoValue")
)

// refuse stops a call that cannot begin.
func (c *call) refuse(ctx context.Context, p *Policy, fn func(context.Context) error) {
	switch {
	case ctx == nil:
		c.stop(context.Background(), p, ReasonInvalid, errNilContext)
	case fn == nil:
		c.stop(ctx, p, ReasonInvalid, errNilFunc)
	default:
		c.ended(ctx, p)
	}
}

// attempt makes the next attempt, after the wait for it, and reports whether it
// succeeded. Inlined, it would give Do a larger frame.
//
//go:noinline
func (c *call) attempt(ctx context.Context, p *Policy, fn func(context.Context) error) bool {
	if c.Delay != 0 {
		c.Waited, c.Delay = saturate.Add(c.Waited, c.Delay), 0
	}
	switch {
	case p.OnEvent != nil || p.HealthyAfter > 0:
		c.watch(ctx, p, fn)
	case p.AttemptTimeout > 0:
		c.Attempts = next(c.Attempts)
		c.Err = execute(ctx, p.AttemptTimeout, fn)
	default:
		c.Attempts = next(c.Attempts)
		c.Err = fn(ctx)
	}
	if c.Err != nil {
		return false
	}
	p.Budget.Success()
	c.Class = ""
	c.stop(ctx, p, ReasonSuccess, nil)
	return true
}

// started reports that the next attempt begins.
func (c *call) started(ctx context.Context, p *Policy, now time.Time) {
	c.tell(ctx, p, &Event{Kind: AttemptStarted, Attempt: next(c.Attempts), Time: now})
}

// next returns the number after n, or the largest one: 32 bits are used up
// within a year by an attempt each 10ms.
func next(n int) int { return min(n, math.MaxInt-1) + 1 }

// restarted reports that a retry begins, which has been paid for.
func (c *call) restarted(ctx context.Context, p *Policy) {
	made := false
	defer c.refundUnless(&made, p)
	c.started(ctx, p, c.now())
	made = true
}

// execute calls fn with a context that ends after timeout, if there is one.
func execute(ctx context.Context, timeout time.Duration, fn func(context.Context) error) error {
	if timeout <= 0 {
		return fn(ctx)
	}
	ctx, cancel := context.WithDeadlineCause(ctx, time.Now().Add(timeout), nil) // WithTimeout, with a frame less
	defer cancel()
	return fn(ctx)
}

// watch runs fn once, and reports how long it ran: to OnEvent, which did not
// run meanwhile, and to c, which it may begin anew.
func (c *call) watch(ctx context.Context, p *Policy, fn func(context.Context) error) {
	if p.OnEvent != nil && c.Err != nil { // a retry; else the caller has told it
		c.restarted(ctx, p)
	}
	c.Attempts = next(c.Attempts)
	began := c.now()
	c.Err = execute(ctx, p.AttemptTimeout, fn)
	ended := c.now()
	took := ended.Sub(began)
	if p.OnEvent != nil {
		c.tell(ctx, p, &Event{Kind: AttemptFinished, Attempt: c.Attempts, Time: ended, Err: c.Err, Took: took})
	}
	if c.Err != nil && p.healthy(took) {
		c.anew(ended)
	}
}

// anew begins c anew with its last attempt, which was healthy and has ended.
func (c *call) anew(ended time.Time) {
	c.Attempts, c.seed, c.start = 1, 0, ended
	c.Resets++
	if c.rare != nil {
		c.rare.classes = nil
	}
}

// retries decides what to do after an attempt that failed with c.Err, pays for a
// retry, and reports whether there is one, after c.Delay; otherwise c has stopped.
// once is the Attempt of [Once], which gets the decision: its retry is made
// elsewhere, so the context's deadline does not bound it.
func (c *call) retries(ctx context.Context, p *Policy, once *Attempt, d *Decision) bool {
	if c.Attempts == 1 && c.Err == errNoFunc {
		c.Err = nil
		return c.stop(ctx, p, ReasonInvalid, errNilFunc)
	}
	var v verdict
	if c.Cause == nil {
		v.decide(p, c.limit, c.Attempts, c.Err, c.seed, once, c)
	}
	if v.Hi != 0 || p.MaxElapsed > 0 || p.OnEvent != nil {
		c.draw(ctx, p, &v, once != nil)
	}
	if p.Classify != nil {
		c.Class = v.Class
	}
	if d != nil {
		*d = v.Decision
	}

	if err := ctx.Err(); err != nil && (once == nil || !errors.Is(err, context.DeadlineExceeded)) {
		return c.ended(ctx, p)
	}
	if c.Attempts == 1 || once != nil { // once a call: ten failures that ask the context each time take twice as long
		if l := payersOf(ctx); l != nil {
			c.aside().payers = l
		}
	}
	c.Delay = v.Delay
	switch {
	case v.Reason != ReasonRetry:
		if once != nil && once.Classes == nil {
			v.of = 0 // it is not known how many of them were of the class
		}
		return c.stopFor(ctx, p, &v)
	case (p.Budget != nil || c.payers() != nil) && !c.pays(ctx, p): // most calls have no Budget
		return false
	case p.OnEvent != nil:
		c.scheduled(&v)
	}
	return true
}

// draw draws the delay of v. All other functions of p have returned: one reading
// of the clock judges MaxElapsed and the deadline, and makes Due.
func (c *call) draw(ctx context.Context, p *Policy, v *verdict, once bool) {
	var deadline time.Time
	bounded := false
	if v.Hi != 0 && !once {
		deadline, bounded = ctx.Deadline()
	}
	elapsed, left := time.Duration(0), saturate.Max
	if bounded || p.MaxElapsed > 0 || p.OnEvent != nil {
		v.now = c.now()
		elapsed = v.now.Sub(c.start)
	}
	if bounded {
		left = deadline.Sub(v.now)
	}
	v.draw(p, c.Attempts, elapsed, left)
	if v.Seed != 0 {
		c.seed = v.Seed
	}
	if v.Reason == ReasonRetry && bounded && left <= v.Delay {
		v.Reason, v.left = ReasonDeadline, left
	}
}

// failuresOf counts one more failure of a named class, and returns how many there
// are; tooMany if the name is one too many.
func (c *call) failuresOf(class string) int {
	r := c.aside()
	for i := range r.classes {
		if f := &r.classes[i]; f.class == class {
			f.number = next(f.number)
			return f.number
		}
	}
	switch len(r.classes) {
	case 0:
		r.classes = r.few[:0]
	case maxClasses:
		return tooMany
	}
	r.classes = append(r.classes, failures{class, 1})
	return 1
}

// scheduled keeps the event of a retry for announce, which Do calls itself: the
// stack of a call that waits would grow if it was called from here.
//
//go:noinline
func (c *call) scheduled(v *verdict) {
	c.aside().event = &Event{
		Kind: RetryScheduled, Attempt: c.Attempts, Time: v.now, Err: c.Err, Class: v.Class,
		Delay: v.Delay, Due: v.now.Add(v.Delay), Lo: v.Lo, Hi: v.Hi, RetryAfter: v.RetryAfter, Seed: v.Seed,
	}
}

// announce reports a retry to OnEvent, whose time is part of the wait: that ends
// at Due. Where it took longer, the retry is judged once more.
//
//go:noinline
func (c *call) announce(ctx context.Context, p *Policy) bool {
	c.tellPaid(ctx, p)
	if ctx.Err() != nil {
		return c.interrupted(ctx, p)
	}
	now := c.now()
	left := c.rare.event.Due.Sub(now)
	c.rare.spent = c.Delay - max(0, left)
	return left >= 0 || c.stillInTime(ctx, p, now)
}

// stillInTime judges once more a retry whose wait took longer than its delay.
func (c *call) stillInTime(ctx context.Context, p *Policy, now time.Time) bool {
	deadline, bounded := ctx.Deadline()
	switch {
	case tooLate(p.MaxElapsed, now.Sub(c.start), 0):
		c.refund(p)
		return c.late(ctx, p, now)
	case bounded && !now.Before(deadline):
		c.refund(p)
		return c.tooClose(ctx, p, 0)
	default:
		return true
	}
}

// sleep returns what is left of Delay when the wait begins.
func (c *call) sleep() time.Duration {
	if c.rare == nil {
		return c.Delay
	}
	return c.Delay - c.rare.spent
}

// wait returns what ends the wait for the next attempt: the context or a timer,
// which needs no Stop since Go 1.23, where no asynctimerchan=1 is set. Inlined, it
// would give Do a larger frame.
//
//go:noinline
func (c *call) wait(ctx context.Context) (done <-chan struct{}, wake <-chan time.Time) {
	return ctx.Done(), time.After(c.sleep())
}

// waitBy waits by p.Wait, and reports whether the retry follows.
//
//go:noinline
func (c *call) waitBy(ctx context.Context, p *Policy) bool {
	began, sleep := c.now(), c.sleep()
	err := c.skips(ctx, p, sleep)
	now := c.now()
	passed := max(0, now.Sub(began))
	if late := passed - sleep; late >= 0 && late < time.Millisecond {
		passed = sleep // as with the package's own timer, and in a test the time that skipping takes does not show
	}
	switch {
	case ctx.Err() != nil:
		return c.interrupted(ctx, p)
	case err != nil:
		c.refund(p)
		return c.stop(ctx, p, ReasonWait, err)
	}
	c.Waited, c.Delay = saturate.Add(c.Waited, saturate.Add(c.Delay-sleep, passed)), 0
	return passed <= sleep || c.stillInTime(ctx, p, now)
}

// skips calls p.Wait, and puts the clock of c ahead by what it skipped.
func (c *call) skips(ctx context.Context, p *Policy, sleep time.Duration) error {
	made := false
	defer c.refundUnless(&made, p)
	skipped, err := p.Wait(ctx, sleep)
	made = true
	if skipped = min(max(0, skipped), sleep); skipped != 0 {
		c.aside().skipped = saturate.Add(c.aside().skipped, skipped)
	}
	return err
}

// now reads the clock of c, on which waits that were skipped have passed.
func (c *call) now() time.Time {
	now := time.Now()
	if c.rare != nil && c.rare.skipped != 0 {
		now = now.Add(c.rare.skipped)
	}
	return now
}

// free reports whether the next retry takes nothing from a Budget: it follows an
// attempt that was healthy.
func (c *call) free() bool { return c.Attempts == 1 && c.Resets > 0 }

// payers returns the Budgets of the context.
func (c *call) payers() *payers {
	if c.rare == nil {
		return nil
	}
	return c.rare.payers
}

// pays takes a retry out of each Budget, and reports whether they allowed it;
// otherwise c has stopped.
func (c *call) pays(ctx context.Context, p *Policy) bool {
	if c.free() {
		return true
	}
	switch empty := c.payers().take(p.Budget); {
	case empty == nil:
		return true
	case empty.Borrowed:
		return c.stop(ctx, p, ReasonBorrowed, nil)
	default:
		return c.stop(ctx, p, ReasonBudget, nil)
	}
}

// refund gives back what a retry took that is not made.
func (c *call) refund(p *Policy) {
	if c.free() {
		return
	}
	c.payers().putBack(1, nil)
	if !c.payers().has(p.Budget, nil) {
		p.Budget.Refund()
	}
}

// refundUnless gives back what a retry took that is not made, because a function
// panicked between the payment and the retry. It is deferred.
func (c *call) refundUnless(made *bool, p *Policy) {
	if !*made {
		c.refund(p)
	}
}

// late stops c because a retry would start later than MaxElapsed allows.
func (c *call) late(ctx context.Context, p *Policy, now time.Time) bool {
	c.aside().bound, c.aside().elapsed = p.MaxElapsed, now.Sub(c.start)
	return c.stop(ctx, p, ReasonElapsed, nil)
}

// tooClose stops c because its context's deadline leaves less than the wait.
func (c *call) tooClose(ctx context.Context, p *Policy, left time.Duration) bool {
	return c.stop(ctx, p, ReasonDeadline, &aheadError{max(0, left)})
}

// interrupted stops c between two attempts.
func (c *call) interrupted(ctx context.Context, p *Policy) bool {
	c.refund(p)
	return c.ended(ctx, p)
}

// ended stops c because its context is done.
func (c *call) ended(ctx context.Context, p *Policy) bool {
	reason := ReasonCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		reason = ReasonDeadline
	}
	return c.stop(ctx, p, reason, &endedError{ctx})
}

// stopFor stops c for what its policy says about the failure.
func (c *call) stopFor(ctx context.Context, p *Policy, v *verdict) bool {
	switch v.Reason {
	case ReasonElapsed:
		return c.late(ctx, p, v.now)
	case ReasonDeadline:
		return c.tooClose(ctx, p, v.left)
	case ReasonRetryAfter:
		c.aside().bound = p.maxRetryAfter()
		if v.class != nil && v.class.Policy != nil {
			c.aside().bound = v.class.Policy.maxRetryAfter()
		}
	case ReasonExhausted:
		if v.of != 0 && v.Class != "" {
			c.aside().of = v.of
		}
	}
	return c.stop(ctx, p, v.Reason, v.cause)
}

// stop ends c and returns false. Where c has a Cause already, that is an invalid
// policy: it goes before every reason but success.
func (c *call) stop(ctx context.Context, p *Policy, reason Reason, cause error) bool {
	switch fault, invalid := c.Cause.(*policyError); {
	case !invalid:
		c.Cause = cause
	case reason != ReasonSuccess:
		reason = ReasonInvalid
		fault.also = cause
	}
	if reason == ReasonExhausted && p.declared() == 0 {
		c.withoutLimit()
	}
	c.Reason = reason
	if p.OnEvent != nil {
		c.tell(ctx, p, &Event{Kind: Stopped, Attempt: c.Attempts, Time: c.now(), Err: c.Err, Cause: c.Cause, Reason: reason, Class: c.Class})
	}
	return false
}

// tellPaid reports the retry that is scheduled, which has been paid for.
func (c *call) tellPaid(ctx context.Context, p *Policy) {
	made := false
	defer c.refundUnless(&made, p)
	c.tell(ctx, p, c.rare.event)
	made = true
}

// tell fills in what every event says, and calls OnEvent.
func (c *call) tell(ctx context.Context, p *Policy, e *Event) {
	e.Max, e.Resets, e.Elapsed = c.limit, c.Resets, e.Time.Sub(c.start)
	p.OnEvent(ctx, *e)
}
