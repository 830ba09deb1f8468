package retry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// An Error is the error type returned by [Do], [DoValue] and [Once]. It holds
// the last error and the reason for stopping. [ReasonOf] returns the reason,
// [LastError] the last error by itself, and [Plain] what a caller without this
// library expects; errors.Is and errors.As find both what failed and what stopped
// the call.
//
// The Error of a call that was canceled keeps the context, and with it the
// values of a request, alive for as long as you keep the Error. In a test with
// testing/synctest, read it inside the bubble of its context.
type Error struct {
	Reason Reason
	Class  string // the class of the last failure; "": none

	Attempts int           // attempts that were made, since the last reset
	Resets   int           // how often the call began anew, by HealthyAfter
	Waited   time.Duration // sum of all delays that passed or that a Wait skipped, those before a reset too

	// Delay is the delay that was chosen but not fully waited, such as the one before
	// a retry that a Budget did not allow. A caller that calls again in a loop of its
	// own should first wait this long: with an empty Budget, Do returns at once.
	Delay time.Duration

	// Err is what the last attempt failed with; nil if none was made.
	Err error

	// Cause is what stopped the call besides the failure itself: the context's error,
	// a deadline too close to wait, an error of the policy's Wait, the Cause of a
	// [Class], or what is wrong with the policy; otherwise nil. The context is checked
	// for its error and cause only when you read them.
	Cause error

	rare *rare // nil in most calls
}

// A rare is what few calls need, so that the others do not pay for it: all of it
// is one object.
type rare struct {
	noLimit bool          // for ReasonExhausted: the policy sets no limit
	bound   time.Duration // MaxRetryAfter for ReasonRetryAfter, MaxElapsed for ReasonElapsed
	elapsed time.Duration // for ReasonElapsed, since the first attempt began
	of      int           // for ReasonExhausted by a class: how many failures it had

	event   *Event        // the RetryScheduled that OnEvent gets next
	spent   time.Duration // how much of Delay OnEvent took
	payers  *payers       // the Budgets of the context
	skipped time.Duration // by the policy's Wait, so far
	classes []failures    // the classes that have failed, in order
	few     [2]failures   // the array of classes at first: most calls have one or two
	valid   *Policy       // the policy of a class that was judged last
}

// failures counts those of one class.
type failures struct {
	class  string
	number int
}

// aside returns the rare part of e, which it makes where there is none.
func (e *Error) aside() *rare {
	if e.rare == nil {
		e.rare = new(rare)
	}
	return e.rare
}

// noLimit is the rare part of most calls without a limit, one for all: a call
// without a retry needs no second object.
var noLimit = &rare{noLimit: true}

// withoutLimit notes that the policy sets no limit.
func (e *Error) withoutLimit() {
	if e.rare == nil {
		e.rare = noLimit
	}
	if e.rare != noLimit {
		e.rare.noLimit = true
	}
}

// Error returns one line: the reason, the facts in brackets, and last what the
// last attempt failed with.
func (e *Error) Error() string {
	if e == nil {
		return "<nil>"
	}
	return "retry: " + e.text()
}

// text returns the text of e without its prefix, which is there once even where a
// call was made inside another.
func (e *Error) text() string {
	var b strings.Builder
	b.WriteString(e.reasonText())
	if e.Attempts == 0 {
		b.WriteString(" before the first attempt")
	} else {
		b.WriteString(" after " + attemptsText(e.Attempts))
	}
	if facts := e.facts(); facts != nil {
		b.WriteString(" (" + strings.Join(facts, ", ") + ")")
	}
	switch inner := e.Err.(type) {
	case nil:
	case *Error:
		b.WriteString(": ")
		if inner == nil {
			b.WriteString(inner.Error())
		} else {
			b.WriteString(inner.text())
		}
	default:
		b.WriteString(": " + inner.Error())
	}
	return oneLine.Replace(b.String())
}

var oneLine = strings.NewReplacer("\r\n", "; ", "\n", "; ", "\r", "; ")

func (e *Error) reasonText() string {
	switch e.Reason {
	case ReasonRetry:
		return "trying again"
	case ReasonExhausted:
		if e.rare != nil && e.rare.noLimit {
			return "gave up"
		}
		return "attempts exhausted"
	case ReasonNonRetryable:
		return "not retryable"
	case ReasonPermanent:
		return "permanent error"
	case ReasonRejected:
		return "rejected by RetryIf"
	case ReasonRetryAfter:
		return "gave up"
	case ReasonElapsed:
		return "out of time"
	case ReasonDeadline:
		if _, ahead := e.Cause.(*aheadError); ahead {
			return "deadline too close"
		}
		return "deadline exceeded"
	case ReasonCanceled:
		return "canceled"
	case ReasonBudget:
		return "retry budget exhausted"
	case ReasonBorrowed:
		return "borrowed retry budget exhausted"
	case ReasonWait:
		return "the wait failed"
	case ReasonInvalid:
		if _, call := e.Cause.(invalidCall); call {
			return "invalid call"
		}
		return "invalid policy"
	default:
		return "stopped"
	}
}

func (e *Error) facts() (facts []string) {
	say := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	if e.Waited > 0 {
		say("%v waited", short(e.Waited))
	}
	switch e.Resets { // the attempts are those since the last one, the waits are all
	case 0:
	case 1:
		say("1 reset")
	default:
		say("%d resets", e.Resets)
	}
	var rare rare
	if e.rare != nil {
		rare = *e.rare
	}
	switch e.Reason {
	case ReasonExhausted:
		switch {
		case rare.noLimit:
			say("no limit is set, so there is no retry")
		case rare.of > 0:
			say("%d of %q", rare.of, e.Class)
		}
	case ReasonRetryAfter:
		say("Retry-After is %v, MaxRetryAfter is %v", e.Delay, rare.bound)
	case ReasonElapsed:
		if rare.elapsed > rare.bound {
			say("%v have passed, MaxElapsed is %v", short(rare.elapsed), rare.bound)
		} else {
			say("the next delay of %v would exceed MaxElapsed %v", short(e.Delay), rare.bound)
		}
	case ReasonRetry, ReasonDeadline, ReasonCanceled, ReasonBudget, ReasonBorrowed, ReasonWait:
		if e.Delay > 0 {
			say("the next delay is %v", short(e.Delay))
		}
	}
	switch cause := e.Cause.(type) {
	case nil:
	case *aheadError:
		say("%v are left", short(cause.left))
	case *policyError:
		facts = append(facts, cause.what())
	default:
		facts = append(facts, cause.Error())
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
// ReasonSuccess if err is nil, and "" if there is none.
func ReasonOf(err error) Reason {
	if err == nil {
		return ReasonSuccess
	}
	if e := outermost(err); e != nil {
		return e.Reason
	}
	return ""
}

// LastError returns what the last attempt failed with, for type switches, ==
// and plain logs: the Err of the outermost [Error] in err's tree, without the
// marks of [Permanent] and [After] around it. If no attempt was made, it returns
// the error of the context that stopped the call, or else the Cause. If a call was
// made inside another, it returns the *Error of the inner one. It returns err itself
// if there is no Error in it. It is nil only if err is nil.
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

// Plain returns the error that a caller expects who does not know this library: the
// cause of the context if that ended the call, and otherwise [LastError]. So the next layer
// does not retry a 503 that was a cancellation. If the context's deadline was too
// close to wait, it is context.DeadlineExceeded. If a call was made inside
// another, it is what Plain returns for the innermost one, without what wraps that. An
// error that does not come from a call stays as it is: Plain then removes no mark of
// [Permanent]. It is nil only if err is nil.
func Plain(err error) error {
	e := outermost(err)
	if e == nil {
		return err
	}
	switch cause := e.Cause.(type) {
	case *endedError:
		return context.Cause(cause.ctx)
	case *aheadError:
		return context.DeadlineExceeded
	}
	if inner := nested(e.Err); inner != nil {
		return Plain(inner)
	}
	return LastError(err)
}

// outermost returns the outermost Error in err's tree, nil if there is none.
func outermost(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// endedError is the Cause of a call whose context is done. It asks the context
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
