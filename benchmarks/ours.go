package main

import (
	"context"
	"time"

	"github.com/goretry/retry"
)

// ours is given its policy by value in each call.
var ours = library{name: "retry", module: "github.com/goretry/retry", prepare: func(p plan) calls {
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
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				d = policy.Next(retry.Attempt{Number: attempt}).Delay
			}
			return d
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
		return retry.Policy{MaxAttempts: p.attempts}
	}
	return retry.Policy{
		MaxAttempts: p.attempts,
		Backoff:     retry.Exponential{Base: p.base, Factor: 2},
		MaxDelay:    p.most,
		Jitter:      retry.Proportional(p.jitter),
	}
}

// hourlyPolicy is the plan hourly as a user has it, in a package variable.
var hourlyPolicy = hourly.policy()

// ourWaiters is each way to call ours: what a waiting call holds depends on
// the frames of its callers too.
var ourWaiters = []waiter{
	{"retry-Do", ours.module, func(ctx context.Context, _ int, op opFunc) error {
		return retry.Do(ctx, hourlyPolicy, func(ctx context.Context) error { return op(ctx) })
	}},
	{"retry-Do-literal", ours.module, func(ctx context.Context, _ int, op opFunc) error {
		return retry.Do(ctx, retry.Policy{
			MaxAttempts: 5,
			Backoff:     retry.Exponential{Base: time.Hour, Factor: 2},
			MaxDelay:    24 * time.Hour,
			Jitter:      retry.Proportional(0.2),
		}, func(ctx context.Context) error { return op(ctx) })
	}},
	{"retry-DoValue", ours.module, func(ctx context.Context, _ int, op opFunc) error {
		_, err := retry.DoValue(ctx, hourlyPolicy, func(ctx context.Context) (int, error) { return 42, op(ctx) })
		return err
	}},
	{"retry-DoValue-literal", ours.module, func(ctx context.Context, _ int, op opFunc) error {
		_, err := retry.DoValue(ctx, retry.Policy{
			MaxAttempts: 5,
			Backoff:     retry.Exponential{Base: time.Hour, Factor: 2},
			MaxDelay:    24 * time.Hour,
			Jitter:      retry.Proportional(0.2),
		}, func(ctx context.Context) (int, error) { return 42, op(ctx) })
		return err
	}},
	{"retry-Do-AttemptTimeout", ours.module, func(ctx context.Context, _ int, op opFunc) error {
		policy := hourlyPolicy
		policy.AttemptTimeout = time.Minute
		return retry.Do(ctx, policy, func(ctx context.Context) error { return op(ctx) })
	}},
	{"retry-Do-OnEvent", ours.module, func(ctx context.Context, _ int, op opFunc) error {
		policy := hourlyPolicy
		policy.OnEvent = func(context.Context, retry.Event) {}
		return retry.Do(ctx, policy, func(ctx context.Context) error { return op(ctx) })
	}},
	{"retry-Loop", ours.module, func(ctx context.Context, _ int, op opFunc) (err error) {
		for _, ctx := range retry.Loop(ctx, hourlyPolicy, &err) {
			err = op(ctx)
		}
		return err
	}},
}
