package retry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// An Error is the error of [Do], [DoValue] and [Once]. It contains the error of the last
// attempt and the reason why the call stopped. [ReasonOf] returns the reason. [Unwrap] returns
// the error that the caller would have got without this package. errors.Is and errors.As find
// both Err and Cause.
//
// If the context ended the call, the Error keeps this context in memory, with all values in it. In
// a test with testing/synctest, read such an Error inside the bubble in which the context was made.
type Error struct {
	Reason Reason // why the call stopped
	Class  string // the class of the last failure; "": the failure has no class

	// Attempts is the count of all attempts that were made. It may exceed the limit of the policy:
	// after an attempt that ran past HealthyAfter, the attempts are counted from 1 again for this
	// limit.
	Attempts int

	// Waited is how long the call waited between attempts, in all. Time that Policy.Wait skipped
	// counts as waited.
	Waited time.Duration

	// Delay is the delay before a retry that the call did not make. For example, if a Budget is
	// empty, Do returns at once, and Delay is the wait that would have followed. If you call Do in
	// a loop of your own, wait for Delay before you call Do again.
	Delay time.Duration

	// Err is the error of the last attempt. It is nil if no attempt was made.
	Err error

	// Cause is an error that says more about why the call stopped than Reason and Err say. It may be
	// the context's error, an error that says that the deadline is too close, the error of the
	// policy's Wait or Enter, the Cause of a [Class], or a [*PolicyError]. If there is nothing more to
	// say, Cause is nil. If the context ended the call, Cause gets the context's error only when you
	// call Cause.Error or Cause.Unwrap.
	Cause error

	// Before is the error of an earlier attempt. It is set if Err is nothing but a timeout or the
	// end of a context. Then Before is the last error that was more than a timeout, such as the 403
	// before a "context deadline exceeded". The cause of a context counts as more, unless it is a
	// timeout or the end of a context itself. A retryhttp.Transport also sets Before if the answer
	// to an earlier request was lost, and the last attempt was refused, got no answer, or was not
	// sent. Then Before is about that earlier request: see "An answer that is lost" in the
	// documentation of retryhttp.Transport. An sse.Stream that cannot go on may set Before to the
	// error of an earlier connection. In all other cases, Before is nil.
	//
	// Before is for people to read: the text of the Error ends with the text of Before. errors.Is
	// and errors.As do not search Before.
	Before error

	facts
}

// The type `facts` contains details that only the text of an Error shows.
type facts struct {
	bound   time.Duration // the limit that was exceeded: MaxRetryAfter or MaxElapsed
	elapsed time.Duration // for ReasonElapsed: the time since the first attempt began
	ranOut  time.Duration // the AttemptTimeout that ended the last attempt; 0: no timeout ended it
	number  int           // the Number of the last attempt, as in a Decision
	empty   *Budget       // for ReasonBudget and ReasonBorrowed: the Budget that was empty

	// For ReasonExhausted, `of` says which limit was reached. If it is above 0, the MaxAttempts of a
	// class was reached, and the class has this many failures. If it is noLimit, the policy sets no
	// limit. If it is 0, the limit of the policy was reached.
	of int
}

// noLimit is the value of facts.of if the policy sets no limit on attempts.
const noLimit = -1

// Error returns one line: the reason, details in brackets, the text of Err, and the text of
// Before.
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
			text = strings.TrimPrefix(text, prefix) // the whole text already starts with this prefix
		}
		b.WriteString(": " + text)
	}
	if e.Before != nil {
		b.WriteString("; before that: " + e.Before.Error())
	}
	return oneLine.Replace(b.String())
}

// Budget returns the empty Budget that stopped the call. It returns nil if the Reason is
// neither ReasonBudget nor ReasonBorrowed.
func (e *Error) Budget() *Budget {
	if e == nil {
		return nil
	}
	return e.empty
}

const prefix = "retry: "

var oneLine = strings.NewReplacer("\r\n", "; ", "\n", "; ", "\r", "; ")

// reasonTexts are the first words of the text of an Error. For an unknown Reason, the text
// starts with the Reason itself.
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
		facts = append(facts, cause.details())
	default:
		facts = append(facts, cause.Error())
	}
	return facts
}

// Unwrap returns Err and Cause, in this order. It leaves out an error that is nil.
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

// A Reason says why a call or a job is retried, or why it is not retried. The zero Reason means
// that nothing was decided. A later version may add a Reason, so a switch needs a default.
//
//   - [ReasonRetry]: a retry follows
//   - [ReasonSuccess]: the attempt did not fail
//   - [ReasonExhausted]: the limit on attempts of the policy, or of the failure's class, is
//     reached
//   - [ReasonNonRetryable]: the policy or the failure's class is NonRetryable
//   - [ReasonPermanent]: [Permanent] has wrapped the error, or a call inside the attempt was
//     invalid
//   - [ReasonRejected]: RetryIf returned false
//   - [ReasonRetryAfter]: a server asks for a longer wait than MaxRetryAfter
//   - [ReasonElapsed]: the retry would start later than MaxElapsed allows
//   - [ReasonDeadline]: the context's deadline has passed, or comes before the retry
//   - [ReasonCanceled]: the context was canceled
//   - [ReasonBudget]: a [Budget] of the policy or of the context is empty
//   - [ReasonBorrowed]: the retries that the caller has lent are used up
//   - [ReasonWait]: the policy's Wait or Enter returned an error
//   - [ReasonInvalid]: the policy, the failure's class, or the call is invalid
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

// ReasonOf returns the Reason of the outermost [Error] in err's tree. If err is nil, it returns
// ReasonSuccess. If the tree contains no Error, it returns "".
func ReasonOf(err error) Reason {
	if err == nil {
		return ReasonSuccess
	}
	if e := outermost(err); e != nil {
		return e.Reason
	}
	return ""
}

// Unwrap returns the error that the caller would have got without this package. Use it for a
// type switch, for ==, for plain logs, and for callers who do not know this package. Unwrap
// looks at the outermost [Error] in err's tree. The first rule that applies to this Error gives
// the result:
//
//   - If the Reason is ReasonInvalid: the *Error itself.
//   - If the context ended the call: the context's cause ([context.Cause]). If the context's
//     deadline was too close for a wait: context.DeadlineExceeded. This rule does not apply if Err
//     is an error of [Permanent]. Then the operation has reported a final result, such as "not
//     found", and Unwrap returns this result even if the context has ended too.
//   - If Err is an Error too, or wraps an Error and no other error: the result of Unwrap for that
//     Error, because a call inside the attempt has failed. This rule does not apply to an Err that
//     wraps a list of errors, such as the result of errors.Join.
//   - If no attempt was made: the *Error itself.
//   - Otherwise: Err, without the wrappers of Permanent, [After] and [NotAttempted] around it.
//
// If the tree of err contains no Error, Unwrap returns err itself. It returns nil only if err
// is nil.
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
	return unwrapped(e.Err)
}

// The function `outermost` returns the outermost Error in err's tree, or nil if the tree contains
// no Error.
func outermost(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// The function `nested` returns err if err is an Error, and otherwise the first Error that err
// wraps. If it reaches an error that wraps a list of errors, it returns nil: Unwrap must not lose
// the other errors of the list.
func nested(err error) *Error {
	for ; err != nil; err = errors.Unwrap(err) {
		if e, ok := err.(*Error); ok {
			return e
		}
	}
	return nil
}

// endedError is the Cause of a call whose context is done. It calls context.Cause only when
// somebody reads the error, because context.Cause takes a lock that all goroutines waiting on
// the context share.
type endedError struct{ ctx context.Context }

func (e *endedError) Error() string {
	err, cause := fmt.Sprint(e.ctx.Err()), fmt.Sprint(context.Cause(e.ctx))
	if cause == err {
		return err
	}
	return err + ": " + cause
}

func (e *endedError) Unwrap() []error { return []error{e.ctx.Err(), context.Cause(e.ctx)} }

// An endedContext is the part of a context that an endedError needs.
type endedContext struct {
	context.Context // canceled with the cause
	err             error
}

func (c endedContext) Err() error { return c.err }

// endOf returns a context that ended as ctx did, but does not hold ctx.
func endOf(ctx context.Context) context.Context {
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(context.Cause(ctx))
	return endedContext{ended, ctx.Err()}
}

// aheadError is the Cause of a call that stopped because the context's deadline comes before
// the next attempt.
type aheadError struct{ left time.Duration }

func (e *aheadError) Error() string {
	return fmt.Sprintf("the context's deadline is too close: %v are left", short(e.left))
}
func (*aheadError) Unwrap() error { return context.DeadlineExceeded }

// errNilContext is the Cause of a call with a nil context, and errNilFunc is the Cause of a call
// with a nil function.
var errNilContext, errNilFunc = errors.New("nil context"), errors.New("nil function")
