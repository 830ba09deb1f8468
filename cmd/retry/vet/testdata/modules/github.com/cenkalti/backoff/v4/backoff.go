// Package backoff has the names of github.com/cenkalti/backoff/v4 that the cases and
// retrycenkalti use.
package backoff

import (
	"context"
	"time"
)

type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }

func Permanent(err error) error { return &PermanentError{err} }

type BackOff interface {
	NextBackOff() time.Duration
	Reset()
}

func Retry(func() error, BackOff) error { return nil }

const Stop time.Duration = -1

type Clock interface{ Now() time.Time }

var SystemClock Clock

type ExponentialBackOff struct {
	BackOff
	InitialInterval, MaxInterval, MaxElapsedTime, Stop time.Duration
	RandomizationFactor, Multiplier                    float64
	Clock                                              Clock
}

type ConstantBackOff struct {
	BackOff
	Interval time.Duration
}

type (
	ZeroBackOff struct{ BackOff }
	StopBackOff struct{ BackOff }
)

func NewExponentialBackOff() *ExponentialBackOff { return nil }

func WithContext(b BackOff, _ context.Context) BackOff { return b }

func WithMaxRetries(b BackOff, _ uint64) BackOff { return b }
