package retrysim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// startAttempt starts an attempt of the call that the request r is making to another service.
func (e *engine) startAttempt(r *request) {
	to := r.edge()
	r.sent, r.paid = e.now, false
	r.gen++
	e.tell(r, retry.Event{Kind: retry.AttemptStarted})
	lent := int32(retry.Unlimited)
	if r.left >= 0 {
		lent = r.left
		if to.limit < 0 || int(r.attempt) < to.limit { // keeps one retry, lends the others
			lent = max(0, lent-1)
		}
		r.left -= lent
	}
	down, err := e.admit(to.to, lent, r)
	if err != nil {
		r.left += max(0, lent)
		e.attempted(r, err)
		return
	}
	r.down = down
	gen := r.gen
	e.enter(down)
	// If the gen of r has changed, the attempt has already ended.
	if timeout := int64(to.policy.AttemptTimeout); timeout > 0 && r.gen == gen {
		at := e.now + min(timeout, math.MaxInt64-e.now)
		if to.timeouts = append(to.timeouts, entry{at, r, gen}); len(to.timeouts) == 1 {
			e.push(at, evTimeout, r.index, uint32(r.step))
		}
	}
}

// timeOut ends the attempts of an edge that have lasted as long as its AttemptTimeout.
func (e *engine) timeOut(v *service, step uint32) {
	for to := &v.edges[step]; len(to.timeouts) > 0; to.timeouts = to.timeouts[1:] {
		switch first := to.timeouts[0]; {
		case first.r.gen != first.gen: // the attempt has already ended
		case first.at > e.now:
			e.push(first.at, evTimeout, v.index, step)
			return
		default:
			e.abandon(first.r.down)
			e.attempted(first.r, ErrTimeout)
		}
	}
}

// attempted ends an attempt of the call that the request r is making. The parameter `err` is nil if
// the attempt succeeded.
func (e *engine) attempted(r *request, err error) {
	r.gen++
	r.down = nil
	took := time.Duration(e.now - r.sent)
	e.tell(r, retry.Event{Kind: retry.AttemptFinished, Err: err, Took: took})
	if err == nil {
		if b := r.edge().budget; b != nil {
			b.success(r.client, e.now)
		}
		success := retry.Decision{Reason: retry.ReasonSuccess}
		e.tell(r, retry.Event{Kind: retry.CallFinished, Decision: success})
		r.step++
		e.proceed(r)
		return
	}
	if d := e.decide(r, err); d >= 0 {
		e.schedule(int64(d), evRetry, r)
		return
	}
	e.answer(r, ErrFailed)
}

// The method `decide` returns the delay before the next attempt of a call. The delay is negative if
// there is no next attempt.
func (e *engine) decide(r *request, err error) time.Duration {
	p := &r.edge().policy
	took := time.Duration(e.now - r.sent)
	timedOut := p.AttemptTimeout > 0 && took >= p.AttemptTimeout
	if p.HealthyAfter > 0 && took >= p.HealthyAfter && !timedOut {
		r.seed = 0 // after an attempt past HealthyAfter, delays are drawn from a new seed
	}
	a := retry.Attempt{
		Number: int(r.attempt), Err: err,
		Took: took, Elapsed: time.Duration(e.now - r.called), Seed: r.seed,
	}
	d := p.Next(a)
	r.seed = cmp.Or(d.Seed, r.seed)
	if d.Reset {
		r.before += r.attempt - 1
		r.attempt, r.called = 1, e.now
	}
	if d.Retry() && !d.Reset && !e.pay(r) {
		d.Reason = retry.ReasonBudget
	}
	if !d.Retry() {
		e.tell(r, retry.Event{
			Kind: retry.CallFinished, Err: err,
			Decision: retry.Decision{Reason: d.Reason, Reset: d.Reset},
		})
		return -1
	}
	e.tell(r, retry.Event{
		Kind: retry.RetryScheduled, Err: err, Decision: d, Due: e.time().Add(d.Delay),
	})
	r.attempt++
	return d.Delay
}

// pay takes a retry out of the Budget that was lent to r, if there is one, and out of the Budget in
// the Policy of the call that r is making. It reports whether both Budgets allow the retry.
func (e *engine) pay(r *request) (allowed bool) {
	if r.left == 0 {
		return false
	}
	allowed = true
	if b := r.edge().budget; b != nil {
		allowed, r.paid = b.take(r.client, e.now, int(r.attempt))
	}
	if allowed && r.left > 0 {
		r.left--
	}
	return allowed
}

// The method `tell` passes an event of a call to the OnEvent of the call's policy. The key of the
// call consists of the name of the calling service and the number of the call: "web-17" is the 17th
// call of web.
func (e *engine) tell(r *request, ev retry.Event) {
	to := r.edge()
	if to.policy.OnEvent == nil {
		return
	}
	ev.Time, ev.Elapsed = e.time(), time.Duration(e.now-r.called)
	ev.Attempt, ev.Number, ev.Max = int(r.before+r.attempt), int(r.attempt), to.limit
	key := fmt.Sprintf("%s-%d", r.name, r.call)
	to.policy.OnEvent(retrylog.WithKey(context.Background(), key), ev)
}
