package retry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// An Error is the error type returned by [Do], [DoValue] and [Once]. It holds
// the last error and the reason for stopping. [ReasonOf] returns the reason, and
// [Unwrap] what a caller without this package would have got; errors.Is and errors.As
// find both what failed and what stopped the call.
//
// The Error of a call that was canceled keeps the context, and with it the
// values of a request, alive for as long as you keep the Error. In a test with
// testing/synctest, read it inside the bubble of its context.
type Error struct {
	Reason Reason
	Class  string // the class of the last failure; "": none

	// Attempts is how many attempts were made in all. Under HealthyAfter it may exceed the
	// limit of the policy, which counts only from the last healthy attempt on.
	Attempts int

	// Waited is the sum of all delays that passed or that a Wait skipped, before a reset too.
	Waited time.Duration

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

	// Before is what an earlier attempt failed with, the latest that says more than
	// Err, where Err is nothing but a timeout or the end of a context: the 403 before a
	// "context deadline exceeded". A retryhttp.Transport also sets it after a 4xx: there it is
	// what an attempt failed with that may have been processed. Otherwise nil. It is for
	// people: the text of the Error ends with it, and errors.Is and errors.As do not look into
	// it.
	Before error

	facts
}

// facts are what the text of an Error says beside its fields.
type facts struct {
	bound   time.Duration // MaxRetryAfter for ReasonRetryAfter, MaxElapsed for ReasonElapsed
	elapsed time.Duration // for ReasonElapsed, since the first attempt began
	ranOut  time.Duration // AttemptTimeout, if that ended the last attempt; 0: it did not
	number  int           // of the last attempt, where the last healthy attempt has number 1
	empty   *Budget       // for ReasonBudget and ReasonBorrowed
	of      int           // for ReasonExhausted by a class: its failures; or noLimit
}

// noLimit is the number of a ReasonExhausted for which the policy sets no limit.
const noLimit = -1

// Error returns one line: the reason, the facts in brackets, what the last attempt
// failed with, and Before.
func (e *Error) Error() string {
	if e == nil {
		return "<nil>"
	}
	var b strings.Builder
	b.WriteString(prefix + e.reasonText())
	if e.Attempts == 0 {
		b.WriteString(" before the first attempt")
	} else {
		b.WriteString(" after " + plural(e.Attempts, "attempt"))
	}
	if facts := e.factTexts(); facts != nil {
		b.WriteString(" (" + strings.Join(facts, ", ") + ")")
	}
	if e.Err != nil {
		text := e.Err.Error()
		if _, inner := e.Err.(*Error); inner {
			text = strings.TrimPrefix(text, prefix) // it is there once
		}
		b.WriteString(": " + text)
	}
	if e.Before != nil {
		b.WriteString("; before that: " + e.Before.Error())
	}
	return oneLine.Replace(b.String())
}

// Budget returns the empty Budget that stopped the call, for ReasonBudget and ReasonBorrowed, and
// otherwise nil.
func (e *Error) Budget() *Budget {
	if e == nil {
		return nil
	}
	return e.empty
}

const prefix = "retry: "

var oneLine = strings.NewReplacer("\r\n", "; ", "\n", "; ", "\r", "; ")

// reasonTexts are how the text of an Error begins. For a Reason that is not here it
// begins with that.
var reasonTexts = map[Reason]string{
	"":                 "stopped",
	ReasonRetry:        "trying again",
	ReasonExhausted:    "attempts exhausted",
	ReasonNonRetryable: "not retryable",
	ReasonPermanent:    "permanent error",
	ReasonRejected:     "rejected by RetryIf",
	ReasonRetryAfter:   "gave up",
	ReasonElapsed:      "out of time",
	ReasonDeadline:     "deadline exceeded",
	ReasonBudget:       "retry budget exhausted",
	ReasonBorrowed:     "borrowed retry budget exhausted",
	ReasonWait:         "the wait failed",
	ReasonInvalid:      "invalid policy",
}

func (e *Error) reasonText() string {
	_, ahead := e.Cause.(*aheadError)
	text, known := reasonTexts[e.Reason]
	switch {
	case e.Reason == ReasonDeadline && ahead:
		return "deadline too close"
	case e.Cause == errNilContext || e.Cause == errNilFunc:
		return "invalid call"
	case e.Reason == ReasonExhausted && e.of == noLimit:
		return "gave up"
	case known:
		return text
	default:
		return string(e.Reason)
	}
}

func (e *Error) factTexts() (facts []string) {
	say := func(format string, args ...any) {
		facts = append(facts, fmt.Sprintf(format, saturate.Texts(args)...))
	}
	if e.Waited > 0 {
		say("%v waited", short(e.Waited))
	}
	if e.number > 0 && e.number < e.Attempts {
		say("%d count, because attempt %d ran past HealthyAfter",
			e.number, e.Attempts-e.number+1)
	}
	if e.ranOut > 0 {
		say("attempt %d ran out of its %v", e.Attempts, e.ranOut)
	}
	switch e.Reason {
	case ReasonExhausted:
		switch {
		case e.of == noLimit:
			say("no limit is set, so there is no retry")
		case e.of > 0 && e.Class != "":
			say("%d of %q", e.of, e.Class)
		}
	case ReasonRetryAfter:
		say("Retry-After is %v, MaxRetryAfter is %v", e.Delay, e.bound)
	case ReasonElapsed:
		if e.elapsed > e.bound {
			say("%v have passed, MaxElapsed is %v", short(e.elapsed), e.bound)
		} else {
			say("the next delay of %v would exceed MaxElapsed %v",
				short(e.Delay), e.bound)
		}
	case ReasonRetry, ReasonDeadline, ReasonCanceled, ReasonWait:
		if e.Delay > 0 {
			say("the next delay is %v", short(e.Delay))
		}
	case ReasonBudget, ReasonBorrowed:
		if e.Delay > 0 {
			say("a retry would have waited %v", short(e.Delay))
		}
		if e.empty != nil && e.empty.Name != "" {
			if say("for %s", e.empty.Name); e.Cause != nil {
				facts[len(facts)-1] += fmt.Sprintf("; %v", e.Cause)
			}
			return facts
		}
	}
	switch cause := e.Cause.(type) {
	case nil:
	case *aheadError:
		say("%v are left", short(cause.left))
	case *PolicyError:
		facts = append(facts, cause.what())
	default:
		facts = append(facts, cause.Error())
	}
	return facts
}

// short returns d rounded to the digits that a person reads.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(time.Microsecond)
	}
	return saturate.Text(d)
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

// A Reason says why an operation is, or is not, attempted again. The zero Reason
// is none. More may be added: a switch needs a default.
//
//   - [ReasonRetry]: try again
//   - [ReasonSuccess]: it did not fail
//   - [ReasonExhausted]: all attempts that the policy, or the failure's class, allows were made
//   - [ReasonNonRetryable]: the policy, or the failure's class, is NonRetryable
//   - [ReasonPermanent]: the error is marked by [Permanent], or an inner call was invalid
//   - [ReasonRejected]: RetryIf said no
//   - [ReasonRetryAfter]: a server asks for a longer wait than MaxRetryAfter
//   - [ReasonElapsed]: the retry would start later than MaxElapsed allows
//   - [ReasonDeadline]: the context's deadline has passed, or would before the retry
//   - [ReasonCanceled]: the context was canceled
//   - [ReasonBudget]: a [Budget], of the policy or the context, has no retry left
//   - [ReasonBorrowed]: the same, of a Budget that is Borrowed: the caller lent no more
//   - [ReasonWait]: the policy's Wait returned an error
//   - [ReasonInvalid]: the policy, a class, or the call is invalid
type Reason string

const (
	ReasonRetry        Reason = "retry"
	ReasonSuccess      Reason = "success"
	ReasonExhausted    Reason = "attempts_exhausted"
	ReasonNonRetryable Reason = "not_retryable"
	ReasonPermanent    Reason = "permanent_error"
	ReasonRejected     Reason = "rejected"
	ReasonRetryAfter   Reason = "retry_after_too_long"
	ReasonElapsed      Reason = "elapsed"
	ReasonDeadline     Reason = "deadline"
	ReasonCanceled     Reason = "canceled"
	ReasonBudget       Reason = "budget_exhausted"
	ReasonBorrowed     Reason = "borrowed_budget_exhausted"
	ReasonWait         Reason = "wait_failed"
	ReasonInvalid      Reason = "invalid"
)

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

// Unwrap returns what the caller would have got without this package, for type
// switches, ==, plain logs, and callers who do not know it:
//
//   - If the context ended the call: its cause ([context.Cause]). If the context's
//     deadline was too close to wait: context.DeadlineExceeded.
//   - Otherwise the Err of the outermost [Error] in err's tree, without the marks of
//     [Permanent] and [After] around it. If that Err is itself the Error of a call, or
//     wraps one alone: what Unwrap returns for the innermost.
//   - If Err is marked by Permanent, it goes before the context: an operation may
//     cancel its own context and say "not found".
//   - If the Reason is ReasonInvalid, or no attempt was made and no context ended the
//     call: the *Error itself.
//
// An error without an Error in its tree stays as it is. The result is nil only if err
// is.
func Unwrap(err error) error {
	e := outermost(err)
	switch {
	case e == nil:
		return err
	case e.Reason == ReasonInvalid:
		return e
	}
	if !IsPermanent(e.Err) {
		switch cause := e.Cause.(type) {
		case *endedError:
			return context.Cause(cause.ctx)
		case *aheadError:
			return context.DeadlineExceeded
		}
	}
	if inner := nested(e.Err); inner != nil {
		return Unwrap(inner)
	}
	if e.Err == nil {
		return e
	}
	return unmarked(e.Err)
}

func unmarked(err error) error {
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
