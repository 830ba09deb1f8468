// Package backoff has the names of the real one that can be rewritten.
package backoff

import (
	"context"
	"time"
)

const (
	Stop                       time.Duration = -1
	DefaultMultiplier                        = 1.5
	DefaultRandomizationFactor               = 0.5
)

type BackOff interface {
	NextBackOff() time.Duration
	Reset()
}

type ExponentialBackOff struct {
	InitialInterval, MaxInterval, MaxElapsedTime, Stop time.Duration
	RandomizationFactor, Multiplier                    float64
}

func (*ExponentialBackOff) NextBackOff() time.Duration { return 0 }
func (*ExponentialBackOff) Reset()                     {}

type StopBackOff struct{}

func (*StopBackOff) NextBackOff() time.Duration { return Stop }
func (*StopBackOff) Reset()                     {}

type ExponentialBackOffOpts func(*ExponentialBackOff)

func WithMaxElapsedTime(d time.Duration) ExponentialBackOffOpts                  { return nil }
func NewExponentialBackOff(opts ...ExponentialBackOffOpts) *ExponentialBackOff   { return nil }
func NewConstantBackOff(d time.Duration) BackOff                                 { return nil }
func WithContext(b BackOff, ctx context.Context) BackOff                         { return b }
func WithMaxRetries(b BackOff, n uint64) BackOff                                 { return b }
func Permanent(err error) error                                                  { return err }
func Retry(op func() error, b BackOff) error                                     { return op() }
func RetryNotify(op func() error, b BackOff, n func(error, time.Duration)) error { return op() }
func RetryWithData[T any](op func() (T, error), b BackOff) (T, error)            { return op() }
