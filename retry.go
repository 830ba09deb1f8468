package retry

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/goretry/retry/internal/hook"
	"github.com/goretry/retry/internal/saturate"
)

// Do calls fn until it succeeds, or until p says to stop.
//
// fn is called in the caller's goroutine; a panic in it is not recovered. Its
// context is ctx, or one that ends earlier if p has an AttemptTimeout. Do
// returns nil as soon as fn does, even if ctx has been canceled by then.
// Otherwise it returns an [*Error].
//
// fn is not called at all if ctx has ended before, and never again once it has.
// That also ends the wait between two attempts. If waiting would be pointless
// because no attempt could follow, Do returns at once.
//
// If p is invalid, Do still calls fn once; if that fails, the Reason is
// ReasonInvalid. A nil ctx or fn is also ReasonInvalid, and nothing is called.
func Do(ctx context.Context, p Policy, fn func(context.Context) error) error {
	return p.do(ctx, fn)
}

// DoValue is [Do] for a function that returns a value. The value is the zero
// T if there is an error. A nil fn counts as one failed attempt, unless ctx has
// ended before.
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

// Loop is [Do] for a range statement: each iteration is one attempt, with its
// number and its context. After each iteration Loop reads *err: nil ends the
// loop, anything else is a failed attempt, and when no attempt may follow, *err
// becomes an [*Error].
//
//	var err error
//	for attempt, ctx := range retry.Loop(ctx, policy, &err) {
//		err = call(ctx, attempt)
//	}
//
// The body must assign the variable that err points to. If the first iteration
// leaves it unassigned, typically because := shadowed it, the loop stops with
// ReasonInvalid. A later iteration that leaves it unassigned failed with the
// error of the one before. Until the first iteration assigns it, the variable
// holds an error that says so. Loops inside one another need variables of their
// own.
//
// A body that leaves the loop early, by break, return, goto or panic, leaves
// *err as it assigned it; as it was before the loop, if it has not yet.
// Ranging over a Loop with a nil err panics.
func Loop(ctx context.Context, p Policy, err *error) iter.Seq2[int, context.Context] {
	return func(yield func(int, context.Context) bool) { loop(ctx, &p, err, yield) }
}

func loop(ctx context.Context, p *Policy, err *error, yield func(int, context.Context) bool) {
	if err == nil {
		panic("retry: nil err in Loop: write retry.Loop(ctx, policy, &err), and assign err in the body")
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
var errUnassigned = errors.New("the body of the Loop did not assign its error variable: assign it with =, := declares another")

// A final tells do that no attempt may follow, from the functions that DoValue
// and Loop give it. It travels as an error because a second result of fn would
// cost every attempt of Do, and a field of the call would need one before the
// first attempt, which is what makes a success allocate.
type final struct {
	err    error // what the attempt failed with
	reason Reason
	cause  error
}

func (*final) Error() string { return "the last attempt" }

// do calls fn until p says to stop. A goroutine keeps the small stack that
// it was born with only while the frames down to this select stay small: what
// lives across a wait is in the call, and everything else is done in
// functions that have returned by then.
func (p *Policy) do(ctx context.Context, fn func(context.Context) error) error {
	var c *call
	if fn != nil && ctx != nil && p.MaxElapsed == 0 && p.AttemptTimeout == 0 && p.OnEvent == nil {
		// Most calls succeed at once, without a clock or a watcher, and need no
		// call. ctx.Err has an if of its own: in the one above its answer would
		// be stored and tested again.
		if ctx.Err() == nil {
			err := fn(ctx)
			if err == nil {
				p.Budget.Put()
				return nil
			}
			c = newCall(p, err)
		}
	}
	if c == nil {
		if c = p.first(ctx, fn); c == nil {
			return nil
		}
	}
	for c.Reason == 0 && c.retries(ctx, p) {
		if c.sleep > 0 {
			done, wake := c.wait(ctx)
			select {
			case <-done:
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
		if c.attempt(ctx, p, fn) {
			return nil
		}
	}
	return &c.Error
}

// first makes the first attempt of a call with a clock or a watcher. It returns
// nil if that succeeds, and a call that has stopped if it cannot begin.
func (p *Policy) first(ctx context.Context, fn func(context.Context) error) *call {
	var c call // on the stack: a success allocates nothing
	ready := ctx != nil && fn != nil && ctx.Err() == nil
	if !ready || p.OnEvent != nil {
		c.judge(p)
	}
	if p.MaxElapsed > 0 || p.OnEvent != nil {
		c.start = time.Now()
	}
	if job, ok := p.Source.(job); ok {
		c.resume(job)
	}
	switch {
	case ctx == nil:
		c.stop(context.Background(), p, ReasonInvalid, errNilContext)
	case fn == nil:
		c.stop(ctx, p, ReasonInvalid, errNilFunc)
	case !ready:
		c.ended(ctx, p)
	case c.usedUp(ctx, p):
	case c.attempt(ctx, p, fn):
		return nil
	case p.OnEvent == nil:
		c.judge(p)
	}
	failed := c
	return &failed
}

// A call is what one call of do knows from one attempt to the next. It is also
// the error that the call ends with, so that both are one allocation. A field
// more puts it into the next size class, which every waiting call pays for.
type call struct {
	Error
	limit  int           // EffectiveMax
	seed   uint64        // of all its delays; 0: not drawn yet
	start  time.Time     // of the first attempt; zero without a clock or a watcher
	sleep  time.Duration // what is left of Delay when the wait begins
	payers *payers       // the Budgets of the context
	hooked bool          // the context has a hook.BeforeWait
}

// A job is the Source of a policy whose call is one attempt of a job that a
// queue keeps: package retryjob has one, and sets OnEvent with it. The call
// begins where the job stands. It makes one attempt at most, and where another
// may follow it does not wait but stops with ReasonRetry.
type job interface {
	Source
	Begun(hook.Mark) (attempts int, first time.Time) // that were made before, and when the first began
	Decided(hook.Mark, Decision)                     // after a failure, by the policy alone
}

// resume makes c go on where job stands.
func (c *call) resume(job job) {
	c.Attempts, c.start = job.Begun(hook.Mark{})
}

// usedUp stops c if a job has no attempt left, as when a worker died in its
// last one, and reports whether it did.
func (c *call) usedUp(ctx context.Context, p *Policy) bool {
	if c.Attempts == 0 || c.limit == Unlimited || c.Attempts < c.limit {
		return false
	}
	c.Attempts = c.limit // that the queue hands it out again and again is no attempt
	reason := ReasonExhausted
	if p.NonRetryable {
		reason = ReasonNonRetryable
	}
	c.stop(ctx, p, reason, nil)
	return true
}

// newCall returns a call whose first attempt failed with err. Inlined, it would
// give do a larger frame.
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
	if c.Cause = f.err(); c.Cause != nil {
		c.limit = 1
		return
	}
	c.limit, c.noLimit = limit, p.limit() == 0
}

var (
	errNilContext = errors.New("nil context")
	errNilFunc    = errors.New("nil function")
)

// attempt makes the next attempt, after the wait for it, and reports whether it
// succeeded. Inlined, it would give do a larger frame.
//
//go:noinline
func (c *call) attempt(ctx context.Context, p *Policy, fn func(context.Context) error) bool {
	c.Waited, c.Delay = saturate.Add(c.Waited, c.Delay), 0
	c.Attempts++
	switch {
	case p.OnEvent != nil:
		c.Err = c.watch(ctx, p, fn)
	case p.AttemptTimeout > 0:
		c.Err = execute(ctx, p.AttemptTimeout, fn)
	default:
		c.Err = fn(ctx)
	}
	if c.Err != nil {
		return false
	}
	p.Budget.Put()
	c.stop(ctx, p, ReasonSuccess, nil)
	return true
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

// retries decides what follows an attempt that failed with c.Err, and reports
// whether that is another one, after c.sleep.
func (c *call) retries(ctx context.Context, p *Policy) bool {
	var d Decision
	switch last, ok := c.Err.(*final); {
	case ok:
		c.Err = last.err
		return c.stop(ctx, p, last.reason, last.cause)
	case c.Cause == nil:
		c.bound, c.Cause = d.decide(p, c.limit, c.Attempts, c.Err, c.seed)
	}
	job, isJob := p.Source.(job)
	if isJob {
		job.Decided(hook.Mark{}, d)
	}
	// A deadline bounds the attempt of a job, not the job.
	if err := ctx.Err(); err != nil && !(isJob && errors.Is(err, context.DeadlineExceeded)) {
		return c.ended(ctx, p)
	}
	if c.Attempts == 1 || isJob {
		c.look(ctx)
	}

	// The user's functions have returned: one reading of the clock judges
	// MaxElapsed and the deadline, and makes Due.
	var deadline, now time.Time
	bounded := false
	if d.Delay > 0 && !isJob {
		deadline, bounded = ctx.Deadline()
	}
	if bounded || p.MaxElapsed > 0 || p.OnEvent != nil || c.hooked {
		now = c.now(p)
		d.within(p.MaxElapsed, now.Sub(c.start))
	}
	c.Delay, c.sleep = d.Delay, p.slept(d.Delay)
	if d.Seed != 0 {
		c.seed = d.Seed
	}
	switch {
	case d.Reason == ReasonElapsed:
		return c.late(ctx, p, now)
	case d.Reason != ReasonRetry:
		return c.stop(ctx, p, d.Reason, nil)
	case bounded && deadline.Sub(now) <= d.Delay:
		return c.tooClose(ctx, p, deadline.Sub(now))
	case !c.pays(p):
		return c.stop(ctx, p, ReasonBudget, nil)
	case isJob:
		return c.handBack(ctx, p, &d, now)
	case p.OnEvent != nil || c.hooked:
		return c.schedule(ctx, p, &d, now)
	default:
		return true
	}
}

// handBack ends the call of a job that may be attempted again, which its queue
// does. Inlined, it would give retries a larger frame.
//
//go:noinline
func (c *call) handBack(ctx context.Context, p *Policy, d *Decision, now time.Time) bool {
	c.Reason = ReasonRetry
	c.guard(p, func() { c.announce(ctx, p, d, now) })
	return false
}

// look finds what the context says about the retries of c, once a call: ten
// failures that ask it each time take twice as long.
func (c *call) look(ctx context.Context) {
	if _, free := ctx.(hook.NoRetry); !free {
		c.payers = payersOf(ctx)
	}
	_, c.hooked = ctx.(hook.BeforeWait)
}

// wait returns what ends the wait for the next attempt: the context or a timer,
// which needs no Stop since Go 1.23, where no asynctimerchan=1 is set. Inlined, it
// would give do a larger frame.
//
//go:noinline
func (c *call) wait(ctx context.Context) (done <-chan struct{}, wake <-chan time.Time) {
	return ctx.Done(), time.After(c.sleep)
}

// pays takes a retry out of each Budget, if there is any: most calls have none,
// and save two calls for each failure.
func (c *call) pays(p *Policy) bool {
	return c.payers == nil && p.Budget == nil || c.payers.take(p.Budget)
}

// slept returns what is slept of a wait: nothing if p skips its waits.
func (p *Policy) slept(d time.Duration) time.Duration {
	if p.skipsWaits() {
		return 0
	}
	return d
}

func (p *Policy) skipsWaits() bool {
	_, skips := p.Source.(hook.NoWait)
	return skips
}

// now reads the clock of c, on which waits that are skipped have passed.
func (c *call) now(p *Policy) time.Time {
	now := time.Now()
	if p.skipsWaits() {
		now = now.Add(c.Waited)
	}
	return now
}

// refund gives back what a retry took that is not made.
func (c *call) refund(p *Policy) {
	c.payers.untake(nil)
	if !c.payers.has(p.Budget, nil) {
		p.Budget.untake()
	}
}

// guard calls a function between the payment for a retry and the retry. If it
// panics, the payment is given back.
func (c *call) guard(p *Policy, f func()) {
	returned := false
	defer func() {
		if !returned {
			c.refund(p)
		}
	}()
	f()
	returned = true
}

// schedule reports a retry and does what the context asks for before the wait.
// Both are part of it: it ends at Due. Where they took longer, the retry is
// judged once more.
func (c *call) schedule(ctx context.Context, p *Policy, d *Decision, now time.Time) bool {
	due := now.Add(d.Delay)
	c.guard(p, func() {
		if p.OnEvent != nil {
			c.announce(ctx, p, d, now)
		}
		if context, ok := ctx.(hook.BeforeWait); ok {
			context.BeforeWait(hook.Mark{})
		}
	})
	if ctx.Err() != nil {
		return c.interrupted(ctx, p)
	}
	now = c.now(p)
	if c.sleep = due.Sub(now); c.sleep >= 0 {
		c.sleep = p.slept(c.sleep)
		return true
	}
	deadline, bounded := ctx.Deadline()
	switch {
	case tooLate(p.MaxElapsed, now.Sub(c.start), 0):
		c.refund(p)
		return c.late(ctx, p, now)
	case bounded && !now.Before(deadline):
		c.refund(p)
		return c.tooClose(ctx, p, 0)
	}
	return true
}

// announce reports a retry to OnEvent.
func (c *call) announce(ctx context.Context, p *Policy, d *Decision, now time.Time) {
	c.tell(ctx, p, Event{Kind: RetryScheduled, Time: now, Err: c.Err, Delay: d.Delay, Due: now.Add(d.Delay), Hint: d.Hint, Seed: d.Seed})
}

// late stops c because a retry would start later than MaxElapsed allows.
func (c *call) late(ctx context.Context, p *Policy, now time.Time) bool {
	c.bound, c.elapsed = p.MaxElapsed, now.Sub(c.start)
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

// ended stops c because its context has ended.
func (c *call) ended(ctx context.Context, p *Policy) bool {
	reason := ReasonCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		reason = ReasonDeadline
	}
	return c.stop(ctx, p, reason, &endedError{ctx})
}

// stop ends c and returns false. Where c has a Cause already, that is an
// invalid policy: it goes before every reason but those of an attempt that
// needed no retry.
func (c *call) stop(ctx context.Context, p *Policy, reason Reason, cause error) bool {
	switch fault := c.Cause; {
	case fault == nil:
		c.Cause = cause
	case reason == ReasonSuccess || reason == ReasonLeft:
	case cause == nil:
		reason = ReasonInvalid
	default:
		reason = ReasonInvalid
		c.Cause = errors.Join(fault, cause)
	}
	c.Reason = reason
	if p.OnEvent != nil {
		c.tell(ctx, p, Event{Kind: Stopped, Time: c.now(p), Err: c.Err, Cause: c.Cause, Reason: reason})
	}
	return false
}

// watch makes an attempt and reports it to OnEvent.
func (c *call) watch(ctx context.Context, p *Policy, fn func(context.Context) error) error {
	switch _, isJob := p.Source.(job); {
	case isJob: // no attempt before this one began it, and none has paid for it
		c.tell(ctx, p, Event{Kind: AttemptStarted, Time: c.now(p)})
	case c.Attempts == 1:
		c.tell(ctx, p, Event{Kind: AttemptStarted, Time: c.start})
	default:
		c.guard(p, func() { c.tell(ctx, p, Event{Kind: AttemptStarted, Time: c.now(p)}) })
	}
	began := c.now(p) // the time that OnEvent took is not fn's
	err := execute(ctx, p.AttemptTimeout, fn)
	ended := c.now(p)
	e := Event{Kind: AttemptFinished, Time: ended, Err: err, Took: ended.Sub(began)}
	if last, ok := err.(*final); ok {
		if e.Err = last.err; last.reason == ReasonInvalid {
			e.Err = last.cause // nothing was called, or nothing assigned
		}
	}
	c.tell(ctx, p, e)
	return err
}

// tell fills in what every event says, and calls OnEvent.
func (c *call) tell(ctx context.Context, p *Policy, e Event) {
	e.Attempt = c.Attempts
	e.Max = c.limit
	e.Elapsed = e.Time.Sub(c.start)
	p.OnEvent(ctx, e)
}
