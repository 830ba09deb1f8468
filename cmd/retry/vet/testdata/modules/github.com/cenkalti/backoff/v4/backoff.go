// Package backoff has the names of github.com/cenkalti/backoff/v4 that the cases use.
package backoff

import (
	"context"
	"time"
)

type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }

func Permanent(err error) error { return &PermanentError{err} }

type BackOff interface{ NextBackOff() time.Duration }

func Retry(func() error, BackOff) error { return nil }

func NewExponentialBackOff() BackOff { return nil }

func WithContext(b BackOff, _ context.Context) BackOff { return b }
