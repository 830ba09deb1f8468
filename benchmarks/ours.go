package main

import (
	"bytes"
	"context"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// ours is this library. It gets its policy by value in each call.
var ours = library{name: "retry", module: "github.com/goretry/retry", duties: true, classes: true, prepare: func(p plan) calls {
	policy := p.policy()
	return calls{
		run: func(ctx context.Context, n int, op opFunc) (err error) {
			operation := func(ctx context.Context) error { return op(ctx) }
			for range n {
				err = retry.Do(ctx, policy, operation)
			}
			return err
		},
		value: func(ctx context.Context, n int, op valueFunc) (v int, err error) {
			operation := func(ctx context.Context) (int, error) { return op(ctx) }
			for range n {
				v, err = retry.DoValue(ctx, policy, operation)
			}
			return v, err
		},
		once: func(ctx context.Context, n int, op opFunc) (err error) {
			operation := func(ctx context.Context) error { return op(ctx) }
			for range n {
				_, err = retry.Once(ctx, policy, retry.Attempt{Number: 1}, operation)
			}
			return err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				d = policy.Next(retry.Attempt{Number: attempt}).Delay
			}
			return d
		},
		read: func(log []byte) (events int, err error) {
			records, err := retrylog.Read(bytes.NewReader(log))
			return len(records), err
		},
		decide: func(n, attempt int) (d time.Duration) {
			for range n {
				decision := policy.Next(retry.Attempt{Number: attempt, Err: errFailed, Elapsed: time.Second, Seed: 42})
				if decision.Retry() {
					d = decision.Delay
				}
			}
			return d
		},
	}
}}

func (p plan) policy() retry.Policy {
	if p.base == 0 {
		policy := retry.Policy{MaxAttempts: p.attempts}
		if p.classes {
			policy.Classify = classify
		}
		return policy
	}
	policy := retry.Policy{
		MaxAttempts:    p.attempts,
		Backoff:        retry.Exponential{Base: p.base, Factor: 2},
		MaxDelay:       p.most,
		Jitter:         retry.Proportional(p.jitter),
		MaxElapsed:     p.within,
		AttemptTimeout: p.timeout,
	}
	if p.watched {
		policy.OnEvent = func(_ context.Context, e retry.Event) { step(e.Attempt, e.Elapsed) }
	}
	return policy
}

// refused is the class of errFailed.
var refused = &retry.Class{Name: "refused", MaxAttempts: noDelay.attempts}

func classify(err error) *retry.Class {
	if err == errFailed {
		return refused
	}
	return nil
}

// hourlyPolicy is the plan hourly in a package variable, where a user would have it.
var hourlyPolicy = hourly.policy()

// Policies that differ from it in one field, where a user would have them, too.
var (
	hourlyAttemptTimeout = hourlyWith(func(p *retry.Policy) { p.AttemptTimeout = time.Minute })
	hourlyOnEvent        = hourlyWith(func(p *retry.Policy) { p.OnEvent = func(context.Context, retry.Event) {} })
)

func hourlyWith(change func(*retry.Policy)) retry.Policy {
	p := hourlyPolicy
	change(&p)
	return p
}

// ourWaiters lists ways to call this library that hold more or less memory.
var ourWaiters = []waiter{
	{"retry-Do", ours.module, waitUnder(hourlyPolicy)},
	{"retry-Do-deep", ours.module, deep(waitUnder(hourlyPolicy))},
	{"retry-Do-AttemptTimeout", ours.module, waitUnder(hourlyAttemptTimeout)},
	{"retry-Do-OnEvent", ours.module, waitUnder(hourlyOnEvent)},
}

func waitUnder(policy retry.Policy) func(context.Context, int, opFunc) error {
	return func(ctx context.Context, _ int, op opFunc) error {
		return retry.Do(ctx, policy, func(ctx context.Context) error { return op(ctx) })
	}
}
