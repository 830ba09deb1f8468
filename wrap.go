package retry

import (
	"context"
	"errors"
	"time"
)

// Permanent wraps err so that it is not retried. The call stops with ReasonPermanent, and so
// does every call around it whose function returns the error. The text of err is unchanged,
// and errors.Is and errors.As find err. Permanent of nil is nil.
//
// There is no Retryable for the opposite: an error that is not Permanent is retried, unless
// RetryIf rejects it.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// NotAttempted wraps the error of an attempt that did nothing. Such an attempt stopped before
// it sent its request, for example because it got no credentials. The Budgets get back the
// retry that they gave for this attempt. The attempt still counts and is retried like any
// other attempt. NotAttempted in an inner call has no effect on the outer call. NotAttempted
// of nil is nil.
func NotAttempted(err error) error {
	if err == nil {
		return nil
	}
	return &unmadeError{err}
}

type unmadeError struct{ err error }

func (e *unmadeError) Error() string { return e.err.Error() }
func (e *unmadeError) Unwrap() error { return e.err }

// IsPermanent reports whether [Permanent] has wrapped err or any error in its tree. It also
// returns true for the error of an inner call with ReasonInvalid. [Policy.Next] reads errors
// in the same way. IsPermanent is for queues and for code around this package.
func IsPermanent(err error) bool {
	return inspect(err).permanent
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// After wraps err with d, the wait that a server asked for. The delay is at least d. If d is
// longer than MaxRetryAfter, the call stops with ReasonRetryAfter. A d of zero or less has no
// effect. After of nil is nil. Any error with a method RetryAfter() time.Duration works like
// After. If several errors in a tree ask for a wait, the outermost error applies.
//
// Without a Jitter the wait is d, or the delay of the curve if that delay is longer. With a
// Jitter, the wait is drawn from a window that starts at d. The window is as wide as the
// jitter window for d, and at most MaxDelay wide, so clients do not return together. For a d
// of 1m, FullJitter gives up to 2m, and Proportional(0.2) up to 1m24s.
//
// Jitter never ends a call that has time for d itself. The window ends at MaxElapsed if
// MaxElapsed comes earlier. After d, the window takes at most half of the time until the
// context's deadline, because the attempt needs time too. retryhttp passes on a Retry-After of
// zero as a d of 1ns. The window is then the window of the curve and is not cut.
//
// Policy.RetryAfter can change this: see [RetryAfterMode].
func After(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &afterError{err, d}
}

// RetryAfterOf returns the wait that err asks for, see [After]. It returns 0 if err asks for
// no wait. [Policy.Next] reads errors in the same way. RetryAfterOf is for queues and for code
// around this package.
func RetryAfterOf(err error) time.Duration {
	return inspect(err).retryAfter
}

type afterError struct {
	err error
	d   time.Duration
}

func (e *afterError) Error() string             { return e.err.Error() }
func (e *afterError) Unwrap() error             { return e.err }
func (e *afterError) RetryAfter() time.Duration { return e.d }

type (
	retryAfterer interface{ RetryAfter() time.Duration }
	asker        interface{ As(any) bool }
	wrapper      interface{ Unwrap() error }
	multiWrapper interface{ Unwrap() []error }
	timeouter    interface{ Timeout() bool }
	iser         interface{ Is(error) bool }
)

// inspect returns what the tree of err tells the loop. It walks the tree in the order of
// errors.As, but without errors.As: that would move its target to the heap, and its
// reflection would double the stack of a call that waits.
func inspect(err error) (in inspected) {
	switch err.(type) {
	case retryAfterer, asker, wrapper, multiWrapper, timeouter, iser:
		in.read(err, false, false)
	default:
		in.said = err != context.Canceled
	}
	return in
}

type inspected struct {
	permanent  bool
	unmade     bool // NotAttempted wraps the error, outside of inner calls
	said       bool // a branch of the tree says more than a timeout or the end of a context
	retryAfter time.Duration
}

// read reads the tree of err. ended says that an error around err is a timeout or the end of a
// context. inner says that err is the failure of an inner call.
func (in *inspected) read(err error, ended, inner bool) {
	for {
		switch e := err.(type) {
		case *permanentError:
			in.permanent = true
		case *unmadeError:
			in.unmade = in.unmade || !inner
		case *Error:
			inner = true
			// The outer call goes by the last error of the inner call, not by the reason why
			// the inner call stopped. An invalid policy is the exception: it stays invalid.
			if e == nil {
				in.said = true
				return
			}
			in.permanent = in.permanent || e.Reason == ReasonInvalid
			if err = e.Err; err == nil {
				_, is := e.Cause.(*endedError)
				in.said = in.said || !is
				return
			}
			continue
		}
		ended = ended || isEnd(err)
		if e, ok := err.(retryAfterer); ok && in.retryAfter <= 0 {
			in.retryAfter = max(0, e.RetryAfter())
		}
		if e, ok := err.(asker); ok {
			in.ask(e)
		}
		switch e := err.(type) {
		case wrapper:
			err = e.Unwrap()
		case multiWrapper:
			for _, err := range e.Unwrap() {
				in.read(err, ended, inner)
			}
			return
		default:
			in.said = in.said || !ended
			return
		}
	}
}

// isEnd reports whether err itself, without its tree, is a timeout or the end of a context.
func isEnd(err error) bool {
	if err == context.Canceled || err == context.DeadlineExceeded {
		return true
	}
	if e, ok := err.(timeouter); ok && e.Timeout() {
		return true
	}
	e, ok := err.(iser)
	return ok && (e.Is(context.Canceled) || e.Is(context.DeadlineExceeded))
}

// ask asks an error whose method As finds errors that its method Unwrap does not return.
func (in *inspected) ask(err asker) {
	var e *Error
	if err.As(&e) {
		in.read(e, false, true)
	}
	var p *permanentError
	if err.As(&p) {
		in.permanent = true
	}
	var r retryAfterer
	if in.retryAfter <= 0 && err.As(&r) && r != nil {
		in.retryAfter = max(0, r.RetryAfter())
	}
}

// nested returns err if err is an Error, or the first Error that err wraps. It stops where
// the tree of err has branches, because Unwrap must not lose the other branches.
func nested(err error) *Error {
	for ; err != nil; err = errors.Unwrap(err) {
		if e, ok := err.(*Error); ok {
			return e
		}
	}
	return nil
}
