package main

import (
	"context"
	"time"

	sethvargoretry "github.com/sethvargo/go-retry"
)

// sethvargo has a Backoff that keeps the state of a call, so each call builds
// its own. An error is final unless the operation marks it.
var sethvargo = library{name: "sethvargo", module: "github.com/sethvargo/go-retry", prepare: func(p plan) calls {
	build := func() sethvargoretry.Backoff {
		// There is no constant for no delay: NewConstant(0) panics.
		b := sethvargoretry.Backoff(sethvargoretry.BackoffFunc(func() (time.Duration, bool) { return 0, false }))
		if p.base > 0 {
			b = sethvargoretry.NewExponential(p.base)
			b = sethvargoretry.WithCappedDuration(p.most, b)
			b = sethvargoretry.WithJitterPercent(uint64(100*p.jitter), b)
		}
		return sethvargoretry.WithMaxRetries(uint64(p.attempts-1), b)
	}
	return calls{
		run: func(ctx context.Context, n int, op func(context.Context) error) (err error) {
			operation := func(ctx context.Context) error { return sethvargoretry.RetryableError(op(ctx)) }
			for range n {
				err = sethvargoretry.Do(ctx, build(), operation)
			}
			return err
		},
		value: func(ctx context.Context, n int, op func(context.Context) (int, error)) (v int, err error) {
			operation := func(ctx context.Context) (int, error) {
				v, err := op(ctx)
				return v, sethvargoretry.RetryableError(err)
			}
			for range n {
				v, err = sethvargoretry.DoValue(ctx, build(), operation)
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				b := build()
				for range attempt {
					d, _ = b.Next()
				}
			}
			return d
		},
	}
}}
