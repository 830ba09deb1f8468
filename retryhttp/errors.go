package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/harmless"
)

// An unsentError is the error of an attempt whose request was not passed to Base. It ends the call,
// and Check does not get it.
type unsentError struct{ error }

// A pastError wraps an error that must not decide about a call around this call: it is permanent
// only for this call, or its wait is over. errors.Is and errors.As find the errors in it, except
// for a *retry.Error and for the target of an interface. The functions of package retry find no
// mark of retry.Permanent, and only the wait of the pastError.
type pastError struct {
	error
	wait time.Duration
}

func (e pastError) RetryAfter() time.Duration { return e.wait }

func (e pastError) Is(target error) bool { return errors.Is(e.error, target) }

func (e pastError) As(target any) bool {
	switch t := reflect.TypeOf(target).Elem(); {
	case t.Kind() == reflect.Interface, t == markType, t == reflect.TypeFor[*retry.Error]():
		return false
	default:
		return errors.As(e.error, target)
	}
}

var markType = reflect.TypeOf(retry.Permanent(io.EOF)) // this type is not exported

// A timeoutError is the error of an attempt that AttemptTimeout ended.
type timeoutError struct {
	after  time.Duration
	status int // the status of a response that Check did not judge in time; 0: there was none
}

func (e *timeoutError) Error() string {
	if e.status != 0 {
		return fmt.Sprintf("retryhttp: a response with the status %d has arrived, "+
			"but Check did not end within AttemptTimeout (%v)", e.status, e.after)
	}
	return fmt.Sprintf("retryhttp: no response within AttemptTimeout (%v)", e.after)
}
func (*timeoutError) Timeout() bool        { return true }
func (*timeoutError) Temporary() bool      { return true }
func (*timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// A netError wraps a timeout. The *url.Error of http.Client calls Timeout only on the error that it
// wraps directly, so a netError must have the method Timeout.
type netError struct{ error }

func (e netError) Unwrap() error { return e.error }
func (netError) Timeout() bool   { return true }
func (netError) Temporary() bool { return true }

// asNetError returns err as a net.Error if err is a timeout. If a method of err panics, asNetError
// returns err unchanged. Errors that a Check returns may have such a method.
func asNetError(err error) error {
	return harmless.Or(err, func() error {
		reason := retry.ReasonOf(err)
		if reason == retry.ReasonDeadline || reason != retry.ReasonCanceled && isTimeout(err) {
			return netError{err}
		}
		return err
	})
}

// isTimeout reports whether err, or an error that it wraps, is a timeout.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// The function `checked` calls the methods of err that this package and package retry need. If one
// of these methods panics, `checked` returns a permanent error. Otherwise it returns err. The
// methods of a nil pointer to an error type often panic.
func checked(err error) error {
	panicked := harmless.Ask("retryhttp", err, func(err error) {
		isTimeout(err)
		_ = retry.IsPermanent(err)
		_ = retry.RetryAfterOf(err)
		refused(err)
	})
	if panicked != nil {
		return retry.Permanent(panicked)
	}
	return err
}
