package eventlog

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goretry/retry"
)

// Explain returns a line for each record.
func Explain(records []Record) string {
	var b strings.Builder
	var x Explainer
	for _, r := range records {
		b.WriteString(x.Line(r))
	}
	return b.String()
}

// An Explainer explains one record after the other.
type Explainer struct{ before Record }

// Line returns the line of r, without an error that is already in the line before.
func (x *Explainer) Line(r Record) string {
	said := r.Key == x.before.Key && sameText(r.Event.Err, x.before.Event.Err)
	if x.before = r; said {
		return withoutError(r) + "\n"
	}
	return r.String() + "\n"
}

func withoutError(r Record) string {
	e := r.Event
	b := make([]byte, 0, 160)
	if !e.Time.IsZero() {
		b = e.Time.UTC().AppendFormat(b, "2006-01-02 15:04:05.000Z ")
	}
	b = append(append(b, '+'), e.Elapsed.Round(time.Millisecond).String()...)
	if r.Key != "" {
		b = append(append(append(b, ' '), Printable(r.Key)...), ':')
	}
	return string(append(append(b, ' '), describe(r)...))
}

// describe says what happened, without when and without the error.
func describe(r Record) string {
	text := describeEvent(r.Event)
	if r.Flow != nil {
		text = r.Flow.Describe(text)
	}
	return text
}

func describeEvent(e retry.Event) string {
	switch e.Kind {
	case retry.AttemptStarted:
		if e.Max == retry.Unlimited {
			return fmt.Sprintf("attempt %d started", e.Attempt)
		}
		return fmt.Sprintf("attempt %d of %d started", e.Attempt, e.Max)
	case retry.AttemptFinished:
		if e.Err == nil {
			return fmt.Sprintf("attempt %d succeeded after %v", e.Attempt, e.Took)
		}
		return fmt.Sprintf("attempt %d failed after %v", e.Attempt, e.Took)
	case retry.RetryScheduled:
		text := fmt.Sprintf("attempt %d is retried in %v, at %s (%s)", e.Attempt, e.Delay, Clock(e.Due), from(e))
		if e.Due.IsZero() {
			text = fmt.Sprintf("attempt %d is retried in %v (%s)", e.Attempt, e.Delay, from(e))
		}
		if e.Resets > 0 && e.Attempt == 1 {
			text = fmt.Sprintf("the attempt was healthy, so the call begins anew (reset %d): ", e.Resets) + text
		}
		return text
	case retry.CallFinished:
		text := StoppedAfter(e) + ": " + because(e)
		if facts := factsOf(e); facts != nil {
			text += " (" + strings.Join(facts, ", ") + ")"
		}
		return text
	case "":
		return "an event without a kind"
	default:
		return fmt.Sprintf("%s, attempt %d", Printable(string(e.Kind)), e.Attempt)
	}
}

// Clock returns the time of day.
func Clock(t time.Time) string { return t.UTC().Format("15:04:05.000Z") }

// from says where the delay of a retry comes from.
func from(e retry.Event) string {
	var parts []string
	if e.Class != "" {
		parts = append(parts, "class "+quotedText(e.Class))
	}
	if e.RetryAfter != 0 {
		parts = append(parts, fmt.Sprintf("Retry-After is %v", e.RetryAfter))
	}
	switch {
	case e.Lo < e.Hi:
		parts = append(parts, fmt.Sprintf("drawn from %v to %v with seed %d", e.Lo, e.Hi, e.Seed))
	case e.Delay == 0:
		parts = append(parts, "at once")
	case e.Delay != e.RetryAfter:
		parts = append(parts, "by the curve")
	}
	return strings.Join(parts, ", ")
}

// StoppedAfter says after how many attempts a call stopped.
func StoppedAfter(e retry.Event) string {
	text := fmt.Sprintf("stopped after %d attempts", e.Attempt)
	if e.Attempt == 1 {
		text = "stopped after 1 attempt"
	}
	if e.Resets > 0 {
		text += fmt.Sprintf(" since reset %d", e.Resets)
	}
	return text
}

// factsOf returns what a CallFinished says beside its reason.
func factsOf(e retry.Event) (facts []string) {
	if e.Class != "" {
		facts = append(facts, "class "+quotedText(e.Class))
	}
	if e.Cause != nil {
		facts = append(facts, Printable(textOf(e.Cause)))
	}
	return facts
}

// because says why a call stopped.
func because(e retry.Event) string {
	switch e.Reason {
	case retry.ReasonSuccess:
		return "it succeeded"
	case retry.ReasonExhausted:
		if e.Max > 1 && e.Attempt == e.Max {
			return fmt.Sprintf("no attempt is left of %d", e.Max)
		}
		return "no attempt is left"
	case retry.ReasonNonRetryable:
		return "the failure is not retryable"
	case retry.ReasonPermanent:
		return "the error is permanent"
	case retry.ReasonRejected:
		return "the program does not retry this error"
	case retry.ReasonRetryAfter:
		return "Retry-After is longer than max_retry_after"
	case retry.ReasonElapsed:
		return fmt.Sprintf("after %v, a retry would be later than max_elapsed", e.Elapsed)
	case retry.ReasonDeadline:
		return fmt.Sprintf("after %v, the caller's deadline has passed, or comes before the retry", e.Elapsed)
	case retry.ReasonCanceled:
		return fmt.Sprintf("the caller canceled it after %v", e.Elapsed)
	case retry.ReasonBudget:
		return "the budget has no retry left"
	case retry.ReasonBorrowed:
		return "the caller lent no more retries"
	case retry.ReasonWait:
		return "the wait failed"
	case retry.ReasonInvalid:
		return "the policy, a class, or the call is invalid"
	default:
		return Printable(string(e.Reason))
	}
}

// textOf returns the text of an error, also of a nil pointer whose method Error
// panics: fmt knows these.
func textOf(err error) string { return fmt.Sprint(err) }

func quotedText(text string) string { return `"` + Printable(text) + `"` }

// Printable returns text as one line that a terminal only shows, in the order of
// its characters, without acting on it.
func Printable(text string) string {
	isNot := func(r rune) bool { return !strconv.IsPrint(r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, isNot) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range oneLine.Replace(text) {
		if isNot(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

var oneLine = strings.NewReplacer("\r\n", "; ", "\n", "; ", "\r", "; ")
