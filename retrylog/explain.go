package retrylog

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goretry/retry"
)

// Explain returns readable text: a line for each event that says what happened,
// when and why. It leaves out an error that is already in the line before. Line
// breaks become "; ". Other control characters, and those that change the
// direction of text, are escaped: "\x1b", "\u202e".
func Explain(records []Record) string {
	var b strings.Builder
	for i, r := range records {
		line := r.String()
		if i > 0 && r.Key == records[i-1].Key && sameText(r.Event.Err, records[i-1].Event.Err) {
			line = r.withoutError()
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// String returns the line of r in [Explain], with its error.
func (r Record) String() string {
	if r.Event.Err == nil {
		return r.withoutError()
	}
	return r.withoutError() + ": " + printable(textOf(r.Event.Err))
}

func (r Record) withoutError() string {
	e := r.Event
	parts := []string{e.Time.UTC().Format("2006-01-02 15:04:05.000"), fmt.Sprintf("+%v", e.Elapsed.Round(time.Millisecond))}
	if r.Key != "" {
		parts = append(parts, printable(r.Key)+":")
	}
	return strings.Join(append(parts, describe(r)), " ")
}

// describe says what happened, without when and without the error.
func describe(r Record) string {
	if r.Flow != nil {
		return describeFlow(*r.Flow)
	}
	return describeEvent(r.Event)
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
		return fmt.Sprintf("attempt %d is retried in %v, at %s (%s)", e.Attempt, e.Delay, e.Due.UTC().Format("15:04:05.000"), decidedBy(e))
	case retry.Stopped:
		text := fmt.Sprintf("stopped after %s: %s", attempts(e.Attempt), because(e.Reason))
		if e.Cause != nil {
			text += " (" + printable(textOf(e.Cause)) + ")"
		}
		return text
	default:
		return fmt.Sprintf("an event without a kind (%q)", e.Kind)
	}
}

// decidedBy says where the delay of a retry comes from.
func decidedBy(e retry.Event) string {
	switch {
	case e.Delay == 0:
		return "at once"
	case e.Delay == e.Hint:
		return "as the server asks"
	}
	from := "by the curve"
	if e.Seed != 0 {
		from = fmt.Sprintf("drawn with seed %d", e.Seed)
	}
	if e.Hint != 0 {
		return fmt.Sprintf("the server asks for %v, %s", e.Hint, from)
	}
	return from
}

// because says why a call stopped.
func because(reason retry.Reason) string {
	switch reason {
	case retry.ReasonSuccess:
		return "it succeeded"
	case retry.ReasonExhausted:
		return "no attempt is left"
	case retry.ReasonNonRetryable:
		return "the policy forbids retries"
	case retry.ReasonPermanent:
		return "the error is permanent"
	case retry.ReasonRejected:
		return "RetryIf said no"
	case retry.ReasonRetryAfter:
		return "the server asks for a longer wait than MaxRetryAfter"
	case retry.ReasonElapsed:
		return "the retry would start later than MaxElapsed allows"
	case retry.ReasonDeadline:
		return "the context's deadline has passed, or comes before the retry"
	case retry.ReasonCanceled:
		return "the context was canceled"
	case retry.ReasonBudget:
		return "the budget has no retry left"
	case retry.ReasonInvalid:
		return "the policy, or the call, is not valid"
	case retry.ReasonLeft:
		return "the body of the loop was left"
	default:
		return fmt.Sprintf("unknown reason %q", reason)
	}
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

// textOf returns the text of an error, also of a nil pointer whose method Error
// panics: fmt knows these.
func textOf(err error) string { return fmt.Sprint(err) }

// printable returns text as one line that a terminal only shows, in the order of
// its characters, without acting on it.
func printable(text string) string {
	text = oneLine.Replace(text)
	isNot := func(r rune) bool { return !strconv.IsPrint(r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, isNot) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isNot(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

var oneLine = strings.NewReplacer("\r\n", "; ", "\n", "; ", "\r", "; ")
