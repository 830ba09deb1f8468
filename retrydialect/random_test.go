package retrydialect_test

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/goretry/retry"
)

// nearGRPC draws a policy near the boundary of what a gRPC service config can
// express, so that many are accepted, and most of the others refused for one
// field.
func nearGRPC(r *rand.Rand) retry.Policy {
	p := retry.Policy{Backoff: backoff(r), Jitter: retry.Proportional(0.2)}
	limit(r, &p, 2+r.IntN(4), 1, 6, 7, retry.Unlimited)
	if seldom(r) {
		p.Jitter = pick[retry.Jitter](r, nil, retry.FullJitter, retry.EqualJitter,
			retry.Proportional(math.Nextafter(0.2, 0)), retry.Proportional(math.Nextafter(0.2, 1)), retry.Proportional(r.Float64()))
	}
	if plan := p.Plan(10); len(plan) > 0 && r.IntN(2) == 0 {
		longest := plan[len(plan)-1].Hi
		p.MaxDelay = pick(r, longest-1, longest, max(longest, longest+1), 1+time.Duration(r.Int64N(max(1, int64(longest)))), 2*(longest/2))
	}
	unsayable(r, &p)
	return p
}

// nearTemporal draws one near the boundary of what Temporal can express.
func nearTemporal(r *rand.Rand) retry.Policy {
	p := retry.Policy{Backoff: backoff(r)}
	limit(r, &p, pick(r, retry.Unlimited, 1, 2+r.IntN(10), 2+r.IntN(1000)), math.MaxInt32, math.MaxInt)
	if seldom(r) {
		p.Jitter = pick[retry.Jitter](r, retry.FullJitter, retry.EqualJitter, retry.Proportional(0), retry.Proportional(r.Float64()))
	}
	const century = 100 * 365 * 24 * time.Hour
	switch {
	case r.IntN(4) > 0 && p.Backoff != nil:
		first := max(1, p.Backoff.Delay(1))
		p.MaxDelay = pick(r, first-1, first, max(first, first+1), 1+time.Duration(r.Int64N(int64(first))), 100*min(first, century), anyDuration(r))
	case seldom(r):
		p.MaxDelay = pick(r, century-1, century, century+1)
	}
	unsayable(r, &p)
	return p
}

// limit sets a limit of n attempts, seldom one of the others, in one of the
// ways that there are.
func limit(r *rand.Rand, p *retry.Policy, n int, others ...int) {
	if seldom(r) {
		n = pick(r, others...)
	}
	switch way := r.IntN(4); {
	case n <= 1 || way == 0:
		p.MaxAttempts = n
	case way == 1:
		p.MaxRetries = n - 1
	case way == 2:
		p.MaxAttempts, p.AttemptCap = retry.Unlimited, n
	default:
		p.MaxAttempts, p.MaxRetries = n, n+r.IntN(3)
	}
	p.NonRetryable = r.IntN(64) == 0
}

func backoff(r *rand.Rand) retry.Backoff {
	base := anyDuration(r)
	if seldom(r) {
		return pick[retry.Backoff](r, nil, retry.Linear(base), retry.Fibonacci(base), retry.Schedule{base, 2 * (base / 2)},
			retry.Fixed(0), retry.BackoffFunc(func(int) time.Duration { return base }))
	}
	if r.IntN(4) == 0 {
		return retry.Fixed(base)
	}
	return retry.Exponential{Base: base, Factor: pick(r, 0, 1, math.Nextafter(1, 2), 1.1, 1.5, 2, 3, 10, 1+9*r.Float64())}
}

// anyDuration draws one from 1ns to 100 years, short ones as often as long ones.
func anyDuration(r *rand.Rand) time.Duration {
	d := time.Duration(math.Exp(r.Float64() * math.Log(100*365*24*float64(time.Hour))))
	return pick(r, d, d.Round(time.Millisecond)+time.Millisecond)
}

// unsayable sets, now and then, a field that no target has a place for.
func unsayable(r *rand.Rand, p *retry.Policy) {
	for _, set := range []func(){
		func() { p.MaxRetryAfter = anyDuration(r) },
		func() { p.ExactRetryAfter = true },
		func() { p.MaxElapsed = anyDuration(r) },
		func() { p.AttemptTimeout = anyDuration(r) },
		func() { p.RetryIf = func(error) bool { return true } },
		func() { p.HealthyAfter = time.Millisecond + anyDuration(r)/2 },
		func() { p.Classify = func(error) *retry.Class { return nil } },
		func() { p.Budget = &retry.Budget{Size: 10, Ratio: 0.1} },
		func() { p.OnEvent = func(context.Context, retry.Event) {} },
	} {
		if r.IntN(50) == 0 {
			set()
		}
	}
}

func seldom(r *rand.Rand) bool { return r.IntN(8) == 0 }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
