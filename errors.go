package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// An Error is how [Do], [DoValue] and [Loop] fail: what the last execution
// failed with, and why it was the last. [ReasonOf] says why; errors.Is and
// errors.As find both what failed and what stopped the call from outside.
type Error struct {
	Reason   Reason
	Attempts int           // executions that ran
	Waited   time.Duration // sum of the delays slept, to their end
	Delay    time.Duration // the delay decided and not slept, or not to its end

	// Err is what the last execution failed with; nil if none ran.
	Err error

	// Cause is what stopped the call from outside, else nil: the context,
	// whose error and cause are asked for when Cause is, its deadline that
	// lies ahead (and so has no cause yet), or what is wrong with the policy.
	Cause error

	noLimit       bool          // the policy sets none, which makes it one execution
	maxRetryAfter time.Duration // what the wait that a server asked for is longer than
}

// Error returns one line: the reason, the facts, and last what the last
// execution failed with.
func (e *Error) Error() string {
	if e == nil {
		return "<nil>"
	}
	var b strings.Builder
	b.WriteString("retry: " + cmp.Or(strings.ReplaceAll(e.Reason.String(), "_", " "), "stopped"))
	if e.Attempts == 0 {
		b.WriteString(" before the first attempt")
	} else {
		b.WriteString(" after " + attempts(e.Attempts))
	}
	if facts := e.facts(); facts != nil {
		b.WriteString(" (" + strings.Join(facts, ", ") + ")")
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return oneLine.Replace(b.String())
}

var oneLine = strings.NewReplacer("\r\n", "; ", "\n", "; ", "\r", "; ")

func (e *Error) facts() (facts []string) {
	if e.Waited > 0 {
		facts = append(facts, fmt.Sprint(short(e.Waited), " waited"))
	}
	switch e.Reason {
	case ReasonExhausted:
		if e.noLimit {
			facts = append(facts, "the policy sets no limit")
		}
	case ReasonRetryAfter:
		facts = append(facts, fmt.Sprintf("the server asks for %v, MaxRetryAfter is %v", e.Delay, e.maxRetryAfter))
	case ReasonElapsed:
		facts = append(facts, fmt.Sprintf("the next delay of %v would pass MaxElapsed", short(e.Delay)))
	case ReasonDeadline, ReasonCanceled, ReasonBudget:
		if e.Delay > 0 {
			facts = append(facts, fmt.Sprint("the next delay is ", short(e.Delay)))
		}
	}
	if e.Cause != nil {
		facts = append(facts, e.Cause.Error())
	}
	return facts
}

// short returns d rounded to the digits that a person reads.
func short(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(time.Microsecond)
	default:
		return d
	}
}

// Unwrap returns Err and then Cause, each if there is one.
func (e *Error) Unwrap() []error {
	var errs []error
	if e != nil && e.Err != nil {
		errs = append(errs, e.Err)
	}
	if e != nil && e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	return errs
}

// ReasonOf returns the Reason of the outermost [Error] in err's tree;
// ReasonSuccess if err is nil, and 0 if there is none.
func ReasonOf(err error) Reason {
	if err == nil {
		return ReasonSuccess
	}
	var e *Error
	if errors.As(err, &e) && e != nil {
		return e.Reason
	}
	return 0
}

// endedError is the Cause of a call whose context has ended. It asks the
// context only when it is asked itself: context.Cause takes a lock that every
// waiter on one context shares.
type endedError struct{ ctx context.Context }

func (e *endedError) Error() string {
	err, cause := fmt.Sprint(e.ctx.Err()), fmt.Sprint(context.Cause(e.ctx))
	if cause == err {
		return err
	}
	return err + ": " + cause
}

func (e *endedError) Unwrap() []error { return []error{e.ctx.Err(), context.Cause(e.ctx)} }

// aheadError is the Cause of a call whose context has a deadline that comes
// before the next execution.
type aheadError struct{}

func (aheadError) Error() string { return "the context's deadline comes first" }
func (aheadError) Unwrap() error { return context.DeadlineExceeded }

// Permanent marks an error as one that no retry can mend: the call stops with
// ReasonPermanent, and so does every call around it that gets the error back.
// The text stays that of err, and errors.Is and errors.As see through the
// mark. Permanent of nil is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// After marks an error with the wait that a server asked for: no retry comes
// before d, and none comes at all if d is longer than MaxRetryAfter. Any error
// that has a method RetryAfter() time.Duration says the same; of several the
// outermost counts. Zero or less says nothing. After of nil is nil.
func After(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &afterError{err, d}
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
)

// marks returns what an error's tree is marked with, walked in the order of
// errors.As. Not by errors.As itself: its target would be moved to the heap,
// and its reflection would double the stack of a call that waits.
func marks(err error) (permanent bool, hint time.Duration) {
	switch err.(type) {
	case retryAfterer, asker, wrapper, multiWrapper:
		var m marked
		m.read(err)
		return m.permanent, m.hint
	default:
		return false, 0
	}
}

type marked struct {
	permanent bool
	hint      time.Duration
}

func (m *marked) read(err error) {
	for {
		switch e := err.(type) {
		case *permanentError:
			m.permanent = true
		case *Error:
			// Of an inner call only what it failed with binds, not what
			// stopped it; but a policy that is invalid remains so.
			if e == nil {
				return
			}
			m.permanent = m.permanent || e.Reason == ReasonInvalid
			err = e.Err
			continue
		}
		if e, ok := err.(retryAfterer); ok && m.hint <= 0 {
			m.hint = max(0, e.RetryAfter())
		}
		if e, ok := err.(asker); ok {
			m.ask(e)
		}
		switch e := err.(type) {
		case wrapper:
			err = e.Unwrap()
		case multiWrapper:
			for _, err := range e.Unwrap() {
				m.read(err)
			}
			return
		default:
			return
		}
	}
}

// ask asks an error that hides what it wraps behind a method As.
func (m *marked) ask(err asker) {
	var e *Error
	if err.As(&e) {
		m.read(e)
	}
	var p *permanentError
	if err.As(&p) {
		m.permanent = true
	}
	var r retryAfterer
	if m.hint <= 0 && err.As(&r) && r != nil {
		m.hint = max(0, r.RetryAfter())
	}
}
