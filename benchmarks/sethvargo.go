package main

import (
	"context"
	"time"

	sethvargoretry "github.com/sethvargo/go-retry"
)

// sethvargo has a Backoff that keeps the state of a call, so each call builds
// its own. An error is final unless the operation marks it.
var sethvargo = library{name: "sethvargo", module: "github.com/sethvargo/go-retry", prepare: func(p plan) calls {
	retries := uint64(p.attempts - 1)
	return calls{
		run: func(ctx context.Context, n int, op opFunc) (err error) {
			operation := func(ctx context.Context) error { return sethvargoretry.RetryableError(op(ctx)) }
			for range n {
				err = sethvargoretry.Do(ctx, sethvargoretry.WithMaxRetries(retries, p.sethvargo()), operation)
			}
			return err
		},
		value: func(ctx context.Context, n int, op valueFunc) (v int, err error) {
			operation := func(ctx context.Context) (int, error) {
				v, err := op(ctx)
				return v, sethvargoretry.RetryableError(err)
			}
			for range n {
				v, err = sethvargoretry.DoValue(ctx, sethvargoretry.WithMaxRetries(retries, p.sethvargo()), operation)
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				b := p.sethvargo()
				for range attempt {
					d, _ = b.Next()
				}
			}
			return d
		},
	}
}}

// sethvargo returns the delays without a limit. For no delay it cannot use
// NewConstant(0), which panics.
func (p plan) sethvargo() sethvargoretry.Backoff {
	if p.base == 0 {
		return sethvargoretry.BackoffFunc(func() (time.Duration, bool) { return 0, false })
	}
	b := sethvargoretry.WithCappedDuration(p.most, sethvargoretry.NewExponential(p.base))
	return sethvargoretry.WithJitterPercent(uint64(100*p.jitter), b)
}
