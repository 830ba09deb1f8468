package retry

import (
	"context"
	"time"
)

// Permanent wraps err so that the operation is not retried. The call stops with ReasonPermanent. If
// a call runs inside another call, and the function of the outer call returns this error, the outer
// call stops too. The text of err is unchanged, and errors.Is and errors.As find err.
// Permanent(nil) is nil.
//
// There is no function Retryable for the opposite. An error that is not Permanent is retried,
// unless RetryIf rejects it.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// NotAttempted wraps the error of an attempt that sent nothing, for example because it got no
// credentials. The Budgets get back the retry that they gave for this attempt. The attempt still
// counts, and it is retried like any other attempt. If a call runs inside another call, a
// NotAttempted error of the inner call has no effect on the Budgets of the outer call.
// NotAttempted(nil) is nil.
func NotAttempted(err error) error {
	if err == nil {
		return nil
	}
	return &unmadeError{err}
}

type unmadeError struct{ err error }

func (e *unmadeError) Error() string { return e.err.Error() }
func (e *unmadeError) Unwrap() error { return e.err }

// IsPermanent reports whether [Permanent] has wrapped err, or an error that err wraps. It also
// returns true for an [Error] with ReasonInvalid, such as the error of an invalid call inside the
// attempt. [Policy.Next] reads errors in the same way. IsPermanent is for queues and for other code
// that decides about retries without [Do].
func IsPermanent(err error) bool {
	return inspect(err).permanent
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// After wraps err with d, the wait that a server asked for. The delay is then at least d. If d is
// longer than MaxRetryAfter, the call stops with ReasonRetryAfter. A d of zero or less has no
// effect. After(d, nil) is nil. An error with a method RetryAfter() time.Duration works in the same
// way. If several errors in a tree ask for a wait, the wait of the outermost of them applies.
//
// Without a Jitter, the delay is d, or the delay of the curve if this delay is longer. With a
// Jitter, the delay is drawn from a window that starts at d, so that clients do not return
// together. This window is as wide as the jitter window of d, but not wider than MaxDelay. For a d
// of 1m, FullJitter gives delays of up to 2m, and Proportional(0.2) of up to 1m24s.
//
// If a call has time for d itself, the jitter that is added to d never makes the delay too long
// for the call. The window takes at most half of the time between d and MaxElapsed, or the
// context's deadline if it comes earlier, because a wait may end late, and the attempt needs time
// too. For a Retry-After of zero, retryhttp passes a d of 1ns. Then the delay is drawn as if there
// were no Retry-After.
//
// Policy.RetryAfter can change these rules: see [RetryAfterMode].
func After(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &afterError{err, d}
}

// RetryAfterOf returns the wait that err asks for: see [After]. It returns 0 if err asks for no
// wait. [Policy.Next] reads errors in the same way. RetryAfterOf is for queues and for other
// code that decides about retries without [Do].
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

// The function `unwrapped` returns err without the wrappers of this package around it.
func unwrapped(err error) error {
	for {
		switch e := err.(type) {
		case *permanentError:
			err = e.err
		case *afterError:
			err = e.err
		case *unmadeError:
			err = e.err
		default:
			return err
		}
	}
}

type (
	retryAfterer interface{ RetryAfter() time.Duration }
	asker        interface{ As(any) bool }
	wrapper      interface{ Unwrap() error }
	multiWrapper interface{ Unwrap() []error }
	timeouter    interface{ Timeout() bool }
	iser         interface{ Is(error) bool }
)

// The function `inspect` searches err and all errors that err wraps. It returns what these errors
// ask of a call, such as no retry, or a wait. It visits the errors in the order of errors.As. It
// does not use errors.As, which would move its target to the heap, and whose reflection would
// double the stack of a waiting call.
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
	unmade     bool // true: NotAttempted has wrapped an error of this call, not of a call inside it
	said       bool // true: the tree has an error that is neither a timeout nor the end of a context
	retryAfter time.Duration
}

// The method `read` inspects err and all errors that err wraps. The parameter `timedOut` is true if
// an error that wraps err is a timeout or the end of a context. The parameter `inner` is true if
// err is in the Error of a call inside this call.
func (in *inspected) read(err error, timedOut, inner bool) {
	for {
		switch e := err.(type) {
		case *permanentError:
			in.permanent = true
		case *unmadeError:
			in.unmade = in.unmade || !inner
		case *Error:
			inner, timedOut = true, false // an error that wraps e may have the method Timeout of e.Err
			// The outer call decides by the last error of the inner call, and not by the Reason of the
			// inner call. ReasonInvalid is the exception: the error of an invalid call is permanent.
			if e == nil {
				in.said = true
				return
			}
			in.permanent = in.permanent || e.Reason == ReasonInvalid
			// The text of e contains the text of Before, which may be only a timeout too.
			in.said = in.said || e.Before != nil && inspect(e.Before).said
			if err = e.Err; err == nil {
				_, is := e.Cause.(*endedError)
				in.said = in.said || !is
				return
			}
			continue
		}
		timedOut = timedOut || isEnd(err)
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
				in.read(err, timedOut, inner)
			}
			return
		default:
			in.said = in.said || !timedOut
			return
		}
	}
}

// isEnd reports whether err itself, without the errors that it wraps, is a timeout or the end of a
// context.
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

// The method `ask` inspects the errors that only the method As of err finds, because the method
// Unwrap of err does not return them.
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
