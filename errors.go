package retry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// An Error is the error type returned by [Do], [DoValue] and [Loop]. It holds
// the last error and the reason for stopping. [ReasonOf] returns the reason,
// [LastError] the last error by itself; errors.Is and errors.As find both what
// failed and what stopped the call from outside.
//
// The Error of a call that was canceled keeps the context, and with it the
// values of a request, alive for as long as you keep the Error. In a test with
// testing/synctest, read it inside the bubble of its context.
type Error struct {
	Reason  Reason
	noLimit bool // the policy has no limit, which makes one attempt

	Attempts int           // attempts that were made
	Waited   time.Duration // sum of the delays slept to their end
	Delay    time.Duration // the delay decided and not slept, or not to its end

	// Err is what the last attempt failed with; nil if none was made.
	Err error

	// Cause is the external reason: the context's error, a deadline too close
	// to wait, or an invalid policy; otherwise nil. It asks the context for its
	// error and cause only when you ask for them.
	Cause error

	bound   time.Duration // MaxRetryAfter for ReasonRetryAfter, MaxElapsed for ReasonElapsed
	elapsed time.Duration // for ReasonElapsed, since the first attempt began
}

// reasonTexts are the words for each Reason in the text of an Error.
var reasonTexts = [...]string{
	0:                  "stopped",
	ReasonRetry:        "trying again",
	ReasonSuccess:      "stopped",
	ReasonExhausted:    "attempts exhausted",
	ReasonNonRetryable: "gave up",
	ReasonPermanent:    "permanent error",
	ReasonRejected:     "not retryable",
	ReasonRetryAfter:   "gave up",
	ReasonElapsed:      "out of time",
	ReasonDeadline:     "deadline exceeded",
	ReasonCanceled:     "canceled",
	ReasonBudget:       "retry budget exhausted",
	ReasonInvalid:      invalidPolicyText,
	ReasonLeft:         "left",
}

// Error returns one line: the reason, the facts in brackets, and last what the
// last attempt failed with.
func (e *Error) Error() string {
	if e == nil {
		return "<nil>"
	}
	var b strings.Builder
	b.WriteString("retry: " + e.reasonText())
	if e.Attempts == 0 {
		b.WriteString(" before the first attempt")
	} else {
		b.WriteString(" after " + attemptsText(e.Attempts))
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

func (e *Error) reasonText() string {
	if _, ahead := e.Cause.(*aheadError); ahead {
		return "deadline too close"
	}
	if e.Reason == ReasonInvalid && e.Cause != nil && !strings.HasPrefix(e.Cause.Error(), invalidPolicyText) {
		return "invalid call"
	}
	if int(e.Reason) < len(reasonTexts) {
		return reasonTexts[e.Reason]
	}
	return reasonTexts[0]
}

func (e *Error) facts() (facts []string) {
	say := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	if e.Waited > 0 {
		say("%v waited", short(e.Waited))
	}
	switch e.Reason {
	case ReasonExhausted:
		if e.noLimit {
			say("the policy sets no limit")
		}
	case ReasonNonRetryable:
		say("the policy forbids retries")
	case ReasonRejected:
		say("RetryIf said no")
	case ReasonRetryAfter:
		say("the server asks for %v, MaxRetryAfter is %v", e.Delay, e.bound)
	case ReasonElapsed:
		if e.elapsed > e.bound {
			say("%v have passed, MaxElapsed is %v", short(e.elapsed), e.bound)
		} else {
			say("the next delay of %v would exceed MaxElapsed %v", short(e.Delay), e.bound)
		}
	case ReasonRetry, ReasonDeadline, ReasonCanceled, ReasonBudget:
		if e.Delay > 0 {
			say("the next delay is %v", short(e.Delay))
		}
	}
	switch ahead, ok := e.Cause.(*aheadError); {
	case ok:
		say("%v are left", short(ahead.left))
	case e.Cause != nil:
		facts = append(facts, strings.TrimPrefix(strings.TrimPrefix(e.Cause.Error(), invalidPolicyText+": "), invalidPolicyText+" "))
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
	if e := outermost(err); e != nil {
		return e.Reason
	}
	return 0
}

// LastError returns what the last attempt failed with, for type switches, ==
// and plain logs: the Err of the outermost [Error] in err's tree, without the
// marks of [Permanent] and [After] around it. If no attempt was made, it returns
// the error of the context that stopped the call, or else the Cause. Where a
// call was made inside another, it returns the *Error of the inner one. It
// returns err itself if there is no Error in it. It is nil only if err is nil.
func LastError(err error) error {
	e := outermost(err)
	if e == nil {
		return err
	}
	ended, stopped := e.Cause.(*endedError)
	switch {
	case e.Err != nil:
		return unmarked(e.Err)
	case stopped:
		return ended.ctx.Err()
	case e.Cause != nil:
		return e.Cause
	default:
		return err
	}
}

func unmarked(err error) error {
	for {
		switch e := err.(type) {
		case *permanentError:
			err = e.err
		case *afterError:
			err = e.err
		default:
			return err
		}
	}
}

// outermost returns the outermost Error in err's tree, nil if there is none.
func outermost(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// endedError is the Cause of a call whose context has ended. It asks the context
// for nothing until someone reads it: context.Cause takes a lock that every
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
// before the next attempt.
type aheadError struct{ left time.Duration }

func (e *aheadError) Error() string {
	return fmt.Sprintf("the context's deadline is too close: %v are left", short(e.left))
}
func (*aheadError) Unwrap() error { return context.DeadlineExceeded }

// Permanent marks err as not worth retrying: the call stops with
// ReasonPermanent, and so does every call around it that gets the error back.
// The text stays that of err, and errors.Is and errors.As see through the
// mark. Permanent of nil is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err is marked by [Permanent], in any place where
// errors.As would look, or by an inner call that was invalid. This is what
// [Policy.Next] reads from it; it is here for queues and wrappers.
func IsPermanent(err error) bool {
	permanent, _ := marks(err)
	return permanent
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// After marks err with the wait that a server asked for. No retry comes before
// d, and none comes at all if d is longer than MaxRetryAfter. Any error that has
// a method RetryAfter() time.Duration does the same; of several the outermost
// counts. A d of zero or less has no effect. After of nil is nil.
//
// Without a Jitter the wait is d, or the delay of the policy if that is longer.
// With one it is spread upwards by the width of the jitter's window at d, at
// most MaxDelay if that is set, so that clients do not return together: under
// FullJitter a d of 1m becomes up to 2m, under Proportional(0.2) up to 1m24s.
func After(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &afterError{err, d}
}

// RetryAfterOf returns the wait that err asks for, as [After] describes; 0 if it
// asks for none. This is what [Policy.Next] reads from it; it is here for queues
// and wrappers.
func RetryAfterOf(err error) time.Duration {
	_, hint := marks(err)
	return hint
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
			// stopped it. But an invalid policy stays invalid.
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
