package program

import (
	"context"
	"time"

	avast "github.com/avast/retry-go/v4"
	backoff5 "github.com/cenkalti/backoff/v5"
	"github.com/sethvargo/go-retry"
)

func fifth(ctx context.Context, options ...backoff5.RetryOption) (int, error) {
	n, err := backoff5.Retry(ctx, func() (int, error) { return 1, ping(ctx) },
		backoff5.WithMaxTries(3), backoff5.WithNotify(func(error, time.Duration) {}))
	if err == nil {
		return n, nil
	}
	return backoff5.Retry(ctx, func() (int, error) { return 1, backoff5.Permanent(errGone) }, options...)
}

func attempts(ctx context.Context) error {
	err := avast.Do(func() error { return ping(ctx) }, avast.Context(ctx), avast.Attempts(3), avast.Delay(time.Second),
		avast.DelayType(avast.FixedDelay), avast.LastErrorOnly(true), avast.OnRetry(func(uint, error) {}))
	if err != nil {
		return err
	}
	return avast.Do(func() error { return ping(ctx) }, avast.DelayType(avast.RandomDelay))
}

type locker struct{ lock retry.Backoff }

func newLocker(n uint64) *locker {
	return &locker{
		lock: retry.WithMaxRetries(n, retry.WithJitterPercent(25, retry.NewConstant(time.Second))),
	}
}

func (l *locker) take(ctx context.Context) error {
	b := retry.NewFibonacci(time.Second)
	b = retry.WithMaxRetries(3, b)
	if err := retry.Do(ctx, b, ping); err != nil {
		return retry.Do(ctx, l.lock, func(ctx context.Context) error { return retry.RetryableError(ping(ctx)) })
	}
	return retry.Do(ctx, retry.WithJitter(time.Second, retry.NewConstant(time.Second)), ping)
}
