package main

import (
	"context"
	"time"

	backoff4 "github.com/cenkalti/backoff/v4"
	backoff5 "github.com/cenkalti/backoff/v5"
	backoff7 "github.com/cenkalti/backoff/v7"
)

// A BackOff of cenkalti's keeps the state of a call, so each call builds its
// own. Its limit of 15 minutes is off: the plan has none.

var cenkalti4 = library{name: "cenkalti-v4", module: "github.com/cenkalti/backoff/v4", prepare: func(p plan) calls {
	exponential := func() *backoff4.ExponentialBackOff {
		return backoff4.NewExponentialBackOff(
			backoff4.WithInitialInterval(p.base),
			backoff4.WithMultiplier(2),
			backoff4.WithRandomizationFactor(p.jitter),
			backoff4.WithMaxInterval(p.most),
			backoff4.WithMaxElapsedTime(0),
		)
	}
	build := func(ctx context.Context) backoff4.BackOff {
		var b backoff4.BackOff = &backoff4.ZeroBackOff{}
		if p.base > 0 {
			b = exponential()
		}
		return backoff4.WithContext(backoff4.WithMaxRetries(b, uint64(p.attempts-1)), ctx)
	}
	return calls{
		run: func(ctx context.Context, n int, op func(context.Context) error) (err error) {
			operation := func() error { return op(ctx) }
			for range n {
				err = backoff4.Retry(operation, build(ctx))
			}
			return err
		},
		value: func(ctx context.Context, n int, op func(context.Context) (int, error)) (v int, err error) {
			operation := func() (int, error) { return op(ctx) }
			for range n {
				v, err = backoff4.RetryWithData(operation, build(ctx))
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				b := exponential()
				for range attempt {
					d = b.NextBackOff()
				}
			}
			return d
		},
	}
}}

// cenkalti5 and cenkalti7 have the form with a value only.
var cenkalti5 = library{name: "cenkalti-v5", module: "github.com/cenkalti/backoff/v5", prepare: func(p plan) calls {
	exponential := func() *backoff5.ExponentialBackOff {
		b := backoff5.NewExponentialBackOff()
		b.InitialInterval = p.base
		b.Multiplier = 2
		b.RandomizationFactor = p.jitter
		b.MaxInterval = p.most
		return b
	}
	build := func() backoff5.BackOff {
		if p.base > 0 {
			return exponential()
		}
		return &backoff5.ZeroBackOff{}
	}
	return calls{
		run: func(ctx context.Context, n int, op func(context.Context) error) (err error) {
			operation := func() (struct{}, error) { return struct{}{}, op(ctx) }
			for range n {
				_, err = backoff5.Retry(ctx, operation,
					backoff5.WithBackOff(build()), backoff5.WithMaxTries(uint(p.attempts)), backoff5.WithMaxElapsedTime(0))
			}
			return err
		},
		value: func(ctx context.Context, n int, op func(context.Context) (int, error)) (v int, err error) {
			operation := func() (int, error) { return op(ctx) }
			for range n {
				v, err = backoff5.Retry(ctx, operation,
					backoff5.WithBackOff(build()), backoff5.WithMaxTries(uint(p.attempts)), backoff5.WithMaxElapsedTime(0))
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				b := exponential()
				for range attempt {
					d = b.NextBackOff()
				}
			}
			return d
		},
	}
}}

var cenkalti7 = library{name: "cenkalti-v7", module: "github.com/cenkalti/backoff/v7", prepare: func(p plan) calls {
	exponential := func() *backoff7.ExponentialBackOff {
		b := backoff7.NewExponentialBackOff()
		b.InitialInterval = p.base
		b.Multiplier = 2
		b.RandomizationFactor = p.jitter
		b.MaxInterval = p.most
		return b
	}
	build := func() backoff7.BackOff {
		if p.base > 0 {
			return exponential()
		}
		return &backoff7.ZeroBackOff{}
	}
	return calls{
		run: func(ctx context.Context, n int, op func(context.Context) error) (err error) {
			operation := func() (struct{}, error) { return struct{}{}, op(ctx) }
			for range n {
				_, err = backoff7.Retry(ctx, operation,
					backoff7.WithBackOff(build()), backoff7.WithMaxTries(uint(p.attempts)), backoff7.WithMaxElapsedTime(0))
			}
			return err
		},
		value: func(ctx context.Context, n int, op func(context.Context) (int, error)) (v int, err error) {
			operation := func() (int, error) { return op(ctx) }
			for range n {
				v, err = backoff7.Retry(ctx, operation,
					backoff7.WithBackOff(build()), backoff7.WithMaxTries(uint(p.attempts)), backoff7.WithMaxElapsedTime(0))
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				b := exponential()
				for range attempt {
					d = b.NextBackOff()
				}
			}
			return d
		},
	}
}}
