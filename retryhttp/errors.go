package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/harmless"
)

// An unsentError is the error of an attempt whose request was not given to Base. It is final, and
// Check does not get it.
type unsentError struct{ error }

// A timeoutError is the error of an attempt that AttemptTimeout ended.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("retryhttp: no response within AttemptTimeout (%v)", e.after)
}
func (*timeoutError) Timeout() bool        { return true }
func (*timeoutError) Temporary() bool      { return true }
func (*timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// A netError is a net.Error around an error that has a timeout somewhere inside. The *url.Error of
// http.Client calls Timeout only on the error directly inside, so that error must have the method.
type netError struct{ error }

func (e netError) Unwrap() error { return e.error }
func (netError) Timeout() bool   { return true }
func (netError) Temporary() bool { return true }

// asNetError returns err as a net.Error if it is a timeout. It returns err unchanged if a method of
// err panics, which may happen with an error of Check.
func asNetError(err error) error {
	return harmless.Or(err, func() error {
		var timeout interface{ Timeout() bool }
		late := func() bool { return errors.As(err, &timeout) && timeout.Timeout() }
		reason := retry.ReasonOf(err)
		if reason == retry.ReasonDeadline || reason != retry.ReasonCanceled && late() {
			return netError{err}
		}
		return err
	})
}

// checked returns err, or a permanent error if one of the methods of err panics that this package
// and package retry will call. The methods of a nil pointer to an error type often panic.
func checked(err error) error {
	panicked := harmless.Ask("retryhttp", err, func(err error) {
		var timeout interface{ Timeout() bool }
		_ = errors.As(err, &timeout) && timeout.Timeout()
		_ = retry.IsPermanent(err)
		_ = retry.RetryAfterOf(err)
		refused(err)
	})
	if panicked != nil {
		return retry.Permanent(panicked)
	}
	return err
}
