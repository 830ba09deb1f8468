package retry

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// Do executes fn until it succeeds, or until p says to stop.
//
// fn is called in the caller's goroutine; a panic in it is not recovered. Its
// context is ctx, which ends early if p has an AttemptTimeout. Do returns nil
// if fn does, even if ctx has ended meanwhile, and else an [*Error]. fn does
// not run at all if ctx has ended before; it never runs again once ctx has
// ended, which also ends the sleep between two executions. A sleep that no
// execution can follow is not begun.
//
// A policy that is not valid executes fn once, and Do returns nil if it
// succeeds; if not, that is ReasonInvalid. So is a nil ctx or fn, which executes
// nothing.
func Do(ctx context.Context, p Policy, fn func(context.Context) error) error {
	return p.do(ctx, fn)
}

// DoValue is [Do] for a function that returns a value. The value is the zero
// T where there is an error. A nil fn is noticed in place of its first
// execution, which counts as one that failed; a context that has ended before
// goes first.
func DoValue[T any](ctx context.Context, p Policy, fn func(context.Context) (T, error)) (v T, err error) {
	// The inliner allows 80 units: this takes them all, with do a method and a
	// return without operands, and what does not fit is in the closure.
	err = p.do(ctx, func(ctx context.Context) error {
		if fn == nil {
			return &final{reason: ReasonInvalid, cause: errNilFunc}
		}
		value, err := fn(ctx)
		if err == nil {
			v = value
		}
		return err
	})
	return
}

// Loop is [Do] for a range statement, whose body is executed once a turn with
// the number of the attempt and its context. After each turn it reads *err:
// nil ends the loop, anything else failed, and when no turn may follow *err
// becomes an [*Error].
//
//	var err error
//	for attempt, ctx := range retry.Loop(ctx, policy, &err) {
//		err = call(ctx, attempt)
//	}
//
// The body must assign the variable that err points to. If the first turn
// does not, for it declared another with :=, the loop ends with ReasonInvalid;
// a later turn that does not failed with the error of the turn before. Until
// the first turn assigns it, the variable holds an error that says so.
//
// A body that leaves the loop early, by break, return, goto or panic, leaves
// *err as it assigned it; as it was before the loop, if it has not yet.
// Ranging over a Loop with a nil err panics.
func Loop(ctx context.Context, p Policy, err *error) iter.Seq2[int, context.Context] {
	return func(yield func(int, context.Context) bool) { loop(ctx, &p, err, yield) }
}

func loop(ctx context.Context, p *Policy, err *error, yield func(int, context.Context) bool) {
	if err == nil {
		panic("retry: Loop needs a pointer to the error that its body assigns: write retry.Loop(ctx, policy, &err)")
	}
	turn, left := 0, false
	stopped := p.do(ctx, func(ctx context.Context) error {
		before := *err
		restore := func() {
			if *err == errUnassigned {
				*err = before
			}
		}
		defer restore()

		if turn++; turn == 1 {
			*err = errUnassigned
		}
		left = !yield(turn, ctx)
		switch {
		case left:
			restore()
			if *err == nil {
				return nil
			}
			return &final{err: *err, reason: ReasonLeft}
		case *err == errUnassigned:
			return &final{reason: ReasonInvalid, cause: errUnassigned}
		default:
			return *err
		}
	})
	if !left {
		*err = stopped
	}
}

// errUnassigned is what the error variable of a Loop holds until its body
// assigns it.
var errUnassigned = errors.New("the body of the Loop has not assigned its error variable: assign it with =, for := declares another")

// final is what Loop and DoValue tell do where no execution may follow.
type final struct {
	err    error // what the last one failed with
	reason Reason
	cause  error
}

func (*final) Error() string { return "the last execution" }

// do executes fn until p says to stop. A goroutine keeps the small stack that
// it was born with only while the frames down to this select stay small: what
// lives across a sleep is in the call, and everything else is done in
// functions that have returned by then.
func (p *Policy) do(ctx context.Context, fn func(context.Context) error) error {
	var c *call // nil while nothing has failed and nobody watches
	if fn != nil && ctx != nil && p.MaxElapsed|p.AttemptTimeout == 0 && p.OnEvent == nil {
		// Most calls succeed at once, and need no call where nobody watches:
		// each branch counts here. ctx.Err has an if of its own: in the one
		// above its answer would be stored and tested again.
		if ctx.Err() == nil {
			err := fn(ctx)
			if err == nil {
				p.Budget.Put()
				return nil
			}
			c = newCall(p, 1, err)
		}
	}
	if c == nil {
		c = begin(ctx, p, fn)
		if c.Reason != 0 {
			return &c.Error
		}
	}
	for c.Attempts == 0 || c.retries(ctx, p) {
		if c.Delay > 0 {
			c.done = ctx.Done()
			// It needs no Stop since Go 1.23, where no asynctimerchan=1 is set.
			wake := time.After(c.Delay)
			select {
			case <-c.done:
				c.interrupted(ctx, p)
				return &c.Error
			case <-wake:
				// Both may have come at once.
				if ctx.Err() != nil {
					c.interrupted(ctx, p)
					return &c.Error
				}
			}
		}
		c.Attempts++
		switch {
		case p.OnEvent != nil:
			c.Err = c.watch(ctx, p, fn)
		case p.AttemptTimeout > 0:
			c.Err = execute(ctx, p.AttemptTimeout, fn)
		default:
			c.Err = fn(ctx)
		}
		if c.Err == nil {
			p.Budget.Put()
			c.succeeded(ctx, p)
			return nil
		}
	}
	return &c.Error
}

// execute calls fn with a context that ends after timeout, if there is one.
func execute(ctx context.Context, timeout time.Duration, fn func(context.Context) error) error {
	if timeout <= 0 {
		return fn(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return fn(ctx)
}

// A call is what one call of do knows from one execution to the next. It is
// also the error that the call ends with, so that both are one allocation.
type call struct {
	Error
	limit int             // EffectiveMax
	seed  uint64          // of all its delays; 0: not drawn yet
	start time.Time       // of the first execution; zero if nobody asks
	done  <-chan struct{} // what ends its sleep; as a variable it would make the frame of do larger
}

// newCall returns a call whose Cause is what is wrong with p.
func newCall(p *Policy, attempts int, err error) *call {
	c := &call{limit: 1}
	c.Attempts, c.Err = attempts, err
	limit, f := p.judge()
	if c.Cause = f.err(); c.Cause == nil {
		c.limit = limit
		c.noLimit = p.limit() == 0
	}
	return c
}

// begin returns a call whose clock runs, or one that has stopped before it
// executed anything.
func begin(ctx context.Context, p *Policy, fn func(context.Context) error) *call {
	c := newCall(p, 0, nil)
	c.start = time.Now()
	switch {
	case ctx == nil:
		c.stop(context.Background(), p, ReasonInvalid, errNilContext)
	case fn == nil:
		c.stop(ctx, p, ReasonInvalid, errNilFunc)
	case ctx.Err() != nil:
		c.ended(ctx, p)
	}
	return c
}

var (
	errNilContext = errors.New("the context is nil: write context.Background() where there is none")
	errNilFunc    = errors.New("the function to execute is nil")
)

// retries decides what follows an execution that failed with c.Err, and
// reports whether that is another one, after c.Delay.
func (c *call) retries(ctx context.Context, p *Policy) bool {
	c.Waited, c.Delay = saturate.Add(c.Waited, c.Delay), 0
	if last, ok := c.Err.(*final); ok {
		c.Err = last.err
		return c.stop(ctx, p, last.reason, last.cause)
	}
	var r ruling
	if c.Cause == nil {
		elapsed := time.Duration(0)
		if p.MaxElapsed > 0 {
			elapsed = time.Since(c.start)
		}
		r.decide(p, c.limit, c.Attempts, c.Err, elapsed, c.seed)
		c.Cause = r.fault
	}
	if ctx.Err() != nil {
		return c.ended(ctx, p)
	}
	c.Delay = r.Delay
	if r.seed != 0 {
		c.seed = r.seed
	}
	switch {
	case r.Reason != ReasonRetry:
		c.maxRetryAfter = r.maxHint
		return c.stop(ctx, p, r.Reason, nil)
	case r.Delay > 0 && passesDeadline(ctx, r.Delay):
		return c.stop(ctx, p, ReasonDeadline, aheadError{})
	case !p.Budget.Take():
		return c.stop(ctx, p, ReasonBudget, nil)
	}
	if p.OnEvent != nil {
		c.scheduled(ctx, p, r.hint, r.seed)
		if ctx.Err() != nil {
			return c.interrupted(ctx, p)
		}
	}
	return true
}

// passesDeadline reports whether ctx will have ended after d.
func passesDeadline(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= d
}

// succeeded stops c because an execution did not fail. Inlined, it would give
// do a larger frame: that of stop's arguments.
//
//go:noinline
func (c *call) succeeded(ctx context.Context, p *Policy) { c.stop(ctx, p, ReasonSuccess, nil) }

// interrupted stops c between two executions.
func (c *call) interrupted(ctx context.Context, p *Policy) bool {
	p.Budget.untake()
	return c.ended(ctx, p)
}

// ended stops c because its context has ended.
func (c *call) ended(ctx context.Context, p *Policy) bool {
	reason := ReasonCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		reason = ReasonDeadline
	}
	return c.stop(ctx, p, reason, &endedError{ctx})
}

// stop ends c and returns false. Where c has a Cause already, that is an
// invalid policy, which goes before every other reason.
func (c *call) stop(ctx context.Context, p *Policy, reason Reason, cause error) bool {
	c.Reason = reason
	switch {
	case c.Cause == nil:
		c.Cause = cause
	case cause == nil:
		c.Reason = ReasonInvalid
	default:
		c.Reason = ReasonInvalid
		c.Cause = errors.Join(c.Cause, cause)
	}
	if p.OnEvent != nil {
		c.stopped(ctx, p)
	}
	return false
}

// watch executes fn and tells OnEvent of it.
func (c *call) watch(ctx context.Context, p *Policy, fn func(context.Context) error) error {
	began := time.Now()
	if c.Attempts == 1 {
		began = c.start
	}
	c.tell(ctx, p, Event{Kind: AttemptStarted, Time: began})
	began = time.Now() // the time that OnEvent took is not fn's
	err := execute(ctx, p.AttemptTimeout, fn)
	e := Event{Kind: AttemptFinished, Time: time.Now(), Err: err}
	e.Took = e.Time.Sub(began)
	if last, ok := err.(*final); ok {
		if e.Err = last.err; last.reason == ReasonInvalid {
			e.Err = last.cause // nothing was executed, or nothing assigned
		}
	}
	c.tell(ctx, p, e)
	return err
}

// scheduled tells OnEvent of a retry.
func (c *call) scheduled(ctx context.Context, p *Policy, hint time.Duration, seed uint64) {
	now := time.Now()
	c.tell(ctx, p, Event{Kind: RetryScheduled, Time: now, Delay: c.Delay, Due: now.Add(c.Delay), Hint: hint, Seed: seed})
}

// stopped tells OnEvent that c is over.
func (c *call) stopped(ctx context.Context, p *Policy) {
	e := Event{Kind: Stopped, Time: time.Now(), Reason: c.Reason}
	if c.Reason == ReasonInvalid {
		e.Err = c.Cause
	}
	c.tell(ctx, p, e)
}

// tell fills in what every event says, and calls OnEvent.
func (c *call) tell(ctx context.Context, p *Policy, e Event) {
	e.Attempt = c.Attempts
	e.Max = c.limit
	e.Elapsed = e.Time.Sub(c.start)
	p.OnEvent(ctx, e)
}
