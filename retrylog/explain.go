package retrylog

import (
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/printable"
)

// Explain returns a text for people to read. It has one line for each event, which says what
// happened, when (in UTC) and why. If the line before has the same error, Explain leaves the
// error out. Line breaks become "; ". Control characters, and characters that change the
// direction of text, are escaped: "\x1b", "\u202e". The text of an unknown kind or reason is the
// kind or reason itself.
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

// String returns the line of r in the text of [Explain], with its error.
func (r Record) String() string { return r.line(true) }

func (r Record) line(withError bool) string {
	e := r.Event
	text := "+" + e.Elapsed.Round(time.Millisecond).String() + " "
	if !e.Time.IsZero() {
		text = e.Time.UTC().Format("2006-01-02 15:04:05.000Z ") + text
	}
	if of := printable.Line(strings.TrimSpace(r.Source + " " + r.Key)); of != "" {
		text += of + ": "
	}
	text += describe(r)
	if withError && e.Err != nil {
		text += ": " + printable.Line(textOf(e.Err))
	}
	return text
}

// describe returns what happened, without the time and without the error.
func describe(r Record) string {
	e, text, attempt := r.Event, "", fmt.Sprintf("attempt %d", r.Event.Attempt)
	if r.Task != "" {
		text = "task " + printable.Line(r.Task) + ": "
	}
	if e.Kind == retry.RetryScheduled && e.Reset {
		text += "the attempt was healthy, so the call begins anew: "
	}
	switch {
	case e.Kind == retry.AttemptStarted && e.Max == retry.Unlimited:
		text += attempt + " started"
	case e.Kind == retry.AttemptStarted && number(e) < e.Attempt:
		text += fmt.Sprintf("%s started, %d of %d from the last healthy attempt on",
			attempt, e.Number, e.Max)
	case e.Kind == retry.AttemptStarted:
		text += fmt.Sprintf("%s of %d started", attempt, e.Max)
	case e.Kind == retry.AttemptFinished && e.Err == nil:
		text += fmt.Sprintf("%s succeeded after %v", attempt, e.Took)
	case e.Kind == retry.AttemptFinished:
		text += fmt.Sprintf("%s failed after %v", attempt, e.Took)
	case e.Kind == retry.RetryScheduled:
		due := e.Due.UTC().Format("15:04:05.000Z")
		text += fmt.Sprintf("%s is retried in %v, at %s", attempt, e.Delay, due) + facts(e)
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

// facts returns how the delay of a retry was computed, or the class and cause of a CallFinished.
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

// stoppedAfter returns how many attempts a call made before it stopped, as text.
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

// because returns why a call stopped, as text.
func because(e retry.Event) string {
	if e.Reason == retry.ReasonExhausted && e.Max > 1 && number(e) == e.Max {
		return fmt.Sprintf("no attempt is left of %d", e.Max)
	}
	if reason, ok := reasons[e.Reason]; ok {
		return strings.Replace(reason.means, "ELAPSED", e.Elapsed.String(), 1)
	}
	return printable.Line(string(e.Reason))
}

// textOf returns the text of an error. fmt.Sprint survives a nil pointer whose method Error
// panics.
func textOf(err error) string { return fmt.Sprint(err) }
