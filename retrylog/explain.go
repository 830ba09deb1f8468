package retrylog

import (
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/printable"
)

// Explain describes events for people to read. Each event gets one line, which says what
// happened, when (in UTC) and why. The error is left out if the line before is about the same
// call and the same error. Line breaks become "; ". Explain escapes control characters (as
// "\x1b") and characters that change the direction of text (as "\u202e"). It prints an unknown
// kind or reason unchanged.
func Explain(records []Record) string {
	text, before := make([]byte, 0, 128*len(records)), Record{}
	for _, r := range records {
		said := r.Key == before.Key && sameText(r.Event.Err, before.Event.Err)
		text = append(r.appendLine(text, !said), '\n')
		before = r
	}
	return string(text)
}

// appendLine appends the line that describes r to `text`. Appending saves allocations when a log is
// long.
func (r *Record) appendLine(text []byte, withError bool) []byte {
	e := &r.Event
	if !e.Time.IsZero() {
		text = e.Time.UTC().AppendFormat(text, "2006-01-02 15:04:05.000Z ")
	}
	text = append(text, '+')
	text = append(text, e.Elapsed.Round(time.Millisecond).String()...)
	text = append(text, ' ')
	if of := printable.Line(strings.TrimSpace(r.Source + " " + r.Key)); of != "" {
		text = append(append(text, of...), ": "...)
	}
	text = r.describe(text)
	if withError && e.Err != nil {
		text = append(append(text, ": "...), printable.Line(textOf(e.Err))...)
	}
	return text
}

// describe returns a part of the line that Explain writes for r: the part that says what happened,
// without the time and the error.
func describe(r Record) string { return string(r.describe(nil)) }

func (r *Record) describe(text []byte) []byte {
	e := &r.Event
	if r.Task != "" {
		text = append(append(append(text, "task "...), printable.Line(r.Task)...), ": "...)
	}
	if e.Kind == retry.RetryScheduled && e.Reset {
		text = append(text, "the attempt ran past HealthyAfter, so the call begins anew: "...)
	}
	switch e.Kind {
	case retry.AttemptStarted, retry.AttemptFinished, retry.RetryScheduled:
		text = appendNumber(text, "attempt ", e.Attempt)
	}
	switch {
	case e.Kind == retry.AttemptStarted && e.Max == retry.Unlimited:
		text = append(text, " started"...)
	case e.Kind == retry.AttemptStarted && number(*e) < e.Attempt:
		text = appendNumber(text, " started, ", e.Number)
		text = append(appendNumber(text, " of ", e.Max), countedFrom...)
	case e.Kind == retry.AttemptStarted:
		text = append(appendNumber(text, " of ", e.Max), " started"...)
	case e.Kind == retry.AttemptFinished && e.Err == nil:
		text = append(append(text, " succeeded after "...), e.Took.String()...)
	case e.Kind == retry.AttemptFinished:
		text = append(append(text, " failed after "...), e.Took.String()...)
	case e.Kind == retry.RetryScheduled:
		text = append(append(text, " is retried in "...), e.Delay.String()...)
		text = appendFacts(e.Due.UTC().AppendFormat(text, ", at 15:04:05.000Z"), e)
	case e.Kind == retry.CallFinished:
		text = append(appendStopped(text, e), ": "...)
		text = appendFacts(append(text, stopReason(e)...), e)
	case e.Kind == "":
		text = append(text, "an event without a kind"...)
	default:
		text = appendNumber(append(text, printable.Line(string(e.Kind))...), ", attempt ", e.Attempt)
	}
	if r.Hedged {
		text = append(text, ", by a second request"...)
	}
	return text
}

func appendNumber(text []byte, before string, n int) []byte {
	return strconv.AppendInt(append(text, before...), int64(n), 10)
}

// appendFacts appends details in parentheses: the class, the cause, the Retry-After, and how the
// delay of a retry was computed.
func appendFacts(text []byte, e *retry.Event) []byte {
	begin := len(text)
	next := func() { // begins the next fact
		if len(text) == begin {
			text = append(text, " ("...)
		} else {
			text = append(text, ", "...)
		}
	}
	if e.Class != "" {
		next()
		text = append(append(append(text, `class "`...), printable.Line(e.Class)...), '"')
	}
	if e.RetryAfter != 0 {
		next()
		text = append(append(text, "Retry-After is "...), e.RetryAfter.String()...)
	}
	switch {
	case e.Cause != nil:
		next()
		text = append(text, printable.Line(textOf(e.Cause))...)
	case e.Kind == retry.CallFinished:
	case e.Lo < e.Hi:
		next()
		text = append(append(text, "drawn from "...), e.Lo.String()...)
		text = append(append(text, " to "...), e.Hi.String()...)
		text = strconv.AppendUint(append(text, " with seed "...), e.Seed, 10)
	case e.Delay == 0:
		next()
		text = append(text, "at once"...)
	case e.Delay != e.RetryAfter:
		next()
		text = append(text, "by the curve"...)
	}
	if len(text) > begin {
		text = append(text, ')')
	}
	return text
}

// An attempt that ran past HealthyAfter counts as the first attempt of a call that begins anew: the
// Number of the next attempt is 2. In such a call, Explain writes countedFrom after the Number.
const countedFrom = " counted from the last attempt that ran past HealthyAfter"

// appendStopped appends how many attempts a call made before it stopped.
func appendStopped(text []byte, e *retry.Event) []byte {
	text = append(appendNumber(text, "stopped after ", e.Attempt), " attempt"...)
	if e.Attempt != 1 {
		text = append(text, 's')
	}
	if number(*e) < e.Attempt {
		text = append(appendNumber(text, ", ", e.Number), countedFrom...)
	}
	return text
}
