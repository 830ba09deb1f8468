package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/harmless"
)

// unsentError is what a request failed with before it reached Base. It is final,
// and Check does not see it.
type unsentError struct{ error }

// timeoutError is what an attempt fails with after AttemptTimeout.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("retryhttp: no response within AttemptTimeout (%v)", e.after)
}
func (*timeoutError) Timeout() bool        { return true }
func (*timeoutError) Temporary() bool      { return true }
func (*timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// netError is a net.Error of what is a timeout inside. The *url.Error of http.Client asks
// the error that it holds, and no further.
type netError struct{ error }

func (e netError) Unwrap() error { return e.error }
func (netError) Timeout() bool   { return true }
func (netError) Temporary() bool { return true }

// asNetError returns err as a net.Error if it is a timeout, but not if one of its methods
// panics, which an error that Check made may do.
func asNetError(err error) error {
	return harmless.Or(err, func() error {
		var timeout interface{ Timeout() bool }
		switch reason := retry.ReasonOf(err); {
		case reason == retry.ReasonDeadline, reason != retry.ReasonCanceled && errors.As(err, &timeout) && timeout.Timeout():
			return netError{err}
		default:
			return err
		}
	})
}

// checked returns err, unless one of the methods that will be called panics: then
// it returns a permanent error that says so. A nil pointer to an error type that
// was returned as an error does this.
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
