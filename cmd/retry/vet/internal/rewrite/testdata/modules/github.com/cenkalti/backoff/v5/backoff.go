// Package backoff has the names of the real one that can be rewritten.
package backoff

import (
	"context"
	"time"
)

type BackOff interface{ NextBackOff() time.Duration }

type ExponentialBackOff struct{ InitialInterval time.Duration }

func (*ExponentialBackOff) NextBackOff() time.Duration { return 0 }

type RetryOption func()

func NewExponentialBackOff() *ExponentialBackOff          { return nil }
func WithBackOff(b BackOff) RetryOption                   { return nil }
func WithMaxTries(n uint) RetryOption                     { return nil }
func WithMaxElapsedTime(d time.Duration) RetryOption      { return nil }
func WithNotify(n func(error, time.Duration)) RetryOption { return nil }
func Permanent(err error) error                           { return err }
func Retry[T any](ctx context.Context, op func() (T, error), opts ...RetryOption) (T, error) {
	return op()
}
