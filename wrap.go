package retry

import (
	"context"
	"errors"
	"time"
)

// Permanent marks err as not worth retrying: the call stops with ReasonPermanent,
// and so does every call around it that gets the error back. The text stays as it
// was, and errors.Is and errors.As see through the mark. Permanent of nil is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// NotAttempted marks err as the failure of an attempt that did nothing: it had to stop before
// its request was sent, for example because no credentials could be had. The retry that
// the Budgets gave for this attempt is given back. The attempt still counts, and is retried
// like any other. An inner call's mark has no effect on the outer call. NotAttempted
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

// IsPermanent reports whether err is marked by [Permanent], in any place where
// errors.As would look, or by an inner call that was invalid. [Policy.Next]
// reads errors in the same way; this function is for queues and wrappers.
func IsPermanent(err error) bool {
	return marks(err).permanent
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// After marks err with the wait that a server asked for. The delay is at least d,
// and a d longer than MaxRetryAfter ends the call. Any error that has a method
// RetryAfter() time.Duration does the same; the outermost one in err's tree
// applies. A d of zero or less has no effect. After of nil is nil.
//
// Without a Jitter the wait is d, or the delay of the policy if that is longer.
// With a Jitter, it is drawn from d to d plus the width of the jitter window for d
// (at most MaxDelay), so clients do not return at once: under FullJitter a d of 1m
// becomes up to 2m, under Proportional(0.2) up to 1m24s. That spread never ends a
// call that has time for d itself: it is cut to what is left of MaxElapsed, and to
// half of what d leaves of the context's deadline, because the attempt needs time
// too. A d of 1ns, as which retryhttp passes on a wait of zero, is not cut: above it there
// is only the curve.
//
// Policy.RetryAfter can change this: see [RetryAfterMode].
func After(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &afterError{err, d}
}

// RetryAfterOf returns the wait that err asks for, as [After] describes; 0 if it
// asks for none. [Policy.Next] reads errors in the same way; this function is
// for queues and wrappers.
func RetryAfterOf(err error) time.Duration {
	return marks(err).retryAfter
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

// marks returns what an error's tree is marked with, walked in the order of
// errors.As. Not by errors.As itself: its target would be moved to the heap,
// and its reflection would double the stack of a call that waits.
func marks(err error) (m marked) {
	switch err.(type) {
	case retryAfterer, asker, wrapper, multiWrapper, timeouter, iser:
		m.read(err, false, false)
	default:
		m.said = err != context.Canceled
	}
	return m
}

type marked struct {
	permanent  bool
	unmade     bool // NotAttempted marks it, and not one of an inner call
	said       bool // a branch of the tree is more than a timeout or the end of a context
	retryAfter time.Duration
}

// read reads the tree of err. ended says that what wraps err is a timeout, and inner that
// it is the failure of an inner call.
func (m *marked) read(err error, ended, inner bool) {
	for {
		switch e := err.(type) {
		case *permanentError:
			m.permanent = true
		case *unmadeError:
			m.unmade = m.unmade || !inner
		case *Error:
			inner = true
			// Of an inner call only what it failed with binds, not what
			// stopped it. But an invalid policy stays invalid.
			if e == nil {
				m.said = true
				return
			}
			m.permanent = m.permanent || e.Reason == ReasonInvalid
			if err = e.Err; err == nil {
				_, is := e.Cause.(*endedError)
				m.said = m.said || !is
				return
			}
			continue
		}
		ended = ended || isEnd(err)
		if e, ok := err.(retryAfterer); ok && m.retryAfter <= 0 {
			m.retryAfter = max(0, e.RetryAfter())
		}
		if e, ok := err.(asker); ok {
			m.ask(e)
		}
		switch e := err.(type) {
		case wrapper:
			err = e.Unwrap()
		case multiWrapper:
			for _, err := range e.Unwrap() {
				m.read(err, ended, inner)
			}
			return
		default:
			m.said = m.said || !ended
			return
		}
	}
}

// isEnd reports whether err itself is a timeout or the end of a context.
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

// ask asks an error that hides what it wraps behind a method As.
func (m *marked) ask(err asker) {
	var e *Error
	if err.As(&e) {
		m.read(e, false, true)
	}
	var p *permanentError
	if err.As(&p) {
		m.permanent = true
	}
	var r retryAfterer
	if m.retryAfter <= 0 && err.As(&r) && r != nil {
		m.retryAfter = max(0, r.RetryAfter())
	}
}

// nested returns the Error that err is, or wraps alone: of a tree with branches
// nothing may get lost.
func nested(err error) *Error {
	for ; err != nil; err = errors.Unwrap(err) {
		if e, ok := err.(*Error); ok {
			return e
		}
	}
	return nil
}
