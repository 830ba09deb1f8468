package eventlog

import (
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/printable"
)

// Explain returns a line for each record, without an error that is already in the line before.
func Explain(records []Record) string {
	var b strings.Builder
	before := Record{}
	for _, r := range records {
		said := r.Key == before.Key && sameText(r.Event.Err, before.Event.Err)
		b.WriteString(r.line(!said) + "\n")
		before = r
	}
	return b.String()
}

// String returns the line of r in the text of retrylog's Explain, with its error.
func (r Record) String() string { return r.line(true) }

func (r Record) line(withError bool) string {
	e := r.Event
	text := "+" + e.Elapsed.Round(time.Millisecond).String() + " "
	if !e.Time.IsZero() {
		text = e.Time.UTC().Format("2006-01-02 15:04:05.000Z ") + text
	}
	if of := printable.Line(strings.TrimSpace(r.source + " " + r.Key)); of != "" {
		text += of + ": "
	}
	text += describe(r)
	if withError && e.Err != nil {
		text += ": " + printable.Line(textOf(e.Err))
	}
	return text
}

// describe says what happened, without when and without the error.
func describe(r Record) string {
	e, text, attempt := r.Event, "", fmt.Sprintf("attempt %d", r.Event.Attempt)
	if r.task != "" {
		text = "task " + printable.Line(r.task) + ": "
	}
	if e.Kind == retry.RetryScheduled && e.Reset {
		text += "the attempt was healthy, so the call begins anew: "
	}
	switch {
	case e.Kind == retry.AttemptStarted && e.Max == retry.Unlimited:
		text += attempt + " started"
	case e.Kind == retry.AttemptStarted && number(e) < e.Attempt:
		text += fmt.Sprintf("%s started, %d of %d from the last healthy attempt on", attempt, e.Number, e.Max)
	case e.Kind == retry.AttemptStarted:
		text += fmt.Sprintf("%s of %d started", attempt, e.Max)
	case e.Kind == retry.AttemptFinished && e.Err == nil:
		text += fmt.Sprintf("%s succeeded after %v", attempt, e.Took)
	case e.Kind == retry.AttemptFinished:
		text += fmt.Sprintf("%s failed after %v", attempt, e.Took)
	case e.Kind == retry.RetryScheduled:
		text += fmt.Sprintf("%s is retried in %v, at %s", attempt, e.Delay, e.Due.UTC().Format("15:04:05.000Z")) + facts(e)
	case e.Kind == retry.CallFinished:
		text += stoppedAfter(e) + ": " + because(e) + facts(e)
	case e.Kind == "":
		text += "an event without a kind"
	default:
		text += printable.Line(string(e.Kind)) + ", " + attempt
	}
	if r.Hedged {
		text += ", by a second request"
	}
	return text
}

// facts says where the delay of a retry comes from, or what a CallFinished says beside its reason.
func facts(e retry.Event) string {
	var facts []string
	if e.Class != "" {
		facts = append(facts, `class "`+printable.Line(e.Class)+`"`)
	}
	if e.RetryAfter != 0 {
		facts = append(facts, fmt.Sprintf("Retry-After is %v", e.RetryAfter))
	}
	switch {
	case e.Cause != nil:
		facts = append(facts, printable.Line(textOf(e.Cause)))
	case e.Kind == retry.CallFinished:
	case e.Lo < e.Hi:
		facts = append(facts, fmt.Sprintf("drawn from %v to %v with seed %d", e.Lo, e.Hi, e.Seed))
	case e.Delay == 0:
		facts = append(facts, "at once")
	case e.Delay != e.RetryAfter:
		facts = append(facts, "by the curve")
	}
	if facts == nil {
		return ""
	}
	return " (" + strings.Join(facts, ", ") + ")"
}

// stoppedAfter says after how many attempts a call stopped.
func stoppedAfter(e retry.Event) string {
	text := fmt.Sprintf("stopped after %d attempts", e.Attempt)
	if e.Attempt == 1 {
		text = "stopped after 1 attempt"
	}
	if number(e) < e.Attempt {
		text += fmt.Sprintf(", %d from the last healthy attempt on", e.Number)
	}
	return text
}

// because says why a call stopped.
func because(e retry.Event) string {
	if e.Reason == retry.ReasonExhausted && e.Max > 1 && number(e) == e.Max {
		return fmt.Sprintf("no attempt is left of %d", e.Max)
	}
	if reason, ok := Reasons[e.Reason]; ok {
		return strings.Replace(reason.means, "ELAPSED", e.Elapsed.String(), 1)
	}
	return printable.Line(string(e.Reason))
}

// What a reason to stop allows, as bits.
const (
	unbegun   = 1 << iota // the call can end before its first attempt
	waiting               // in a wait
	refused               // where a queue refuses a job that it has handed out again
	mayCause              // there may be a cause
	mustCause             // there is one
)

// Reasons are those to stop that this version knows.
var Reasons = map[retry.Reason]struct {
	means string
	can   int
}{
	retry.ReasonSuccess:      {"it succeeded", mayCause},
	retry.ReasonExhausted:    {"no attempt is left", refused},
	retry.ReasonNonRetryable: {"the failure is not retryable", refused | mayCause},
	retry.ReasonPermanent:    {"the error is permanent", 0},
	retry.ReasonRejected:     {"the program does not retry this error", 0},
	retry.ReasonRetryAfter:   {"Retry-After is longer than max_retry_after", 0},
	retry.ReasonElapsed:      {"after ELAPSED, a retry would be later than max_elapsed", waiting},
	retry.ReasonDeadline: {"after ELAPSED, the caller's deadline has passed, or comes before the retry",
		unbegun | waiting | refused | mayCause},
	retry.ReasonCanceled: {"the caller canceled it after ELAPSED", unbegun | waiting | refused | mayCause},
	retry.ReasonBudget:   {"the budget has no retry left", 0},
	retry.ReasonBorrowed: {"the caller lent no more retries", 0},
	retry.ReasonWait:     {"the wait failed", waiting | mustCause},
	retry.ReasonInvalid:  {"the policy, a class, or the call is invalid", unbegun | refused | mustCause},
}

// can reports whether the reason of e allows one of these. What one of a newer version allows,
// this one cannot know.
func can(e retry.Event, what int) bool {
	reason, known := Reasons[e.Reason]
	return !known || reason.can&what != 0
}

// textOf returns the text of an error, also of a nil pointer whose method Error
// panics: fmt knows these.
func textOf(err error) string { return fmt.Sprint(err) }
