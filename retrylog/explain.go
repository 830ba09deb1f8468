package retrylog

import (
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// Explain returns a line for each event that says when and why, for people.
func Explain(records []Record) string {
	var b strings.Builder
	for _, r := range records {
		b.WriteString(r.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// String returns the line of r in [Explain].
func (r Record) String() string {
	e := r.Event
	parts := []string{e.Time.UTC().Format("2006-01-02 15:04:05.000"), fmt.Sprintf("+%v", e.Elapsed.Round(time.Millisecond))}
	if r.Key != "" {
		parts = append(parts, oneLine.Replace(r.Key)+":")
	}
	return strings.Join(append(parts, describe(e)), " ")
}

// describe says what e tells, but for when.
func describe(e retry.Event) string {
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
		return fmt.Sprintf("attempt %d failed after %v: %s", e.Attempt, e.Took, oneLine.Replace(e.Err.Error()))
	case retry.RetryScheduled:
		return fmt.Sprintf("attempt %d is retried in %v, at %s (%s)", e.Attempt, e.Delay, e.Due.UTC().Format("15:04:05.000"), decidedBy(e))
	case retry.Stopped:
		if e.Err != nil {
			return fmt.Sprintf("stopped after %s: %s: %s", executions(e.Attempt), because(e), oneLine.Replace(e.Err.Error()))
		}
		return fmt.Sprintf("stopped after %s: %s", executions(e.Attempt), because(e))
	default:
		return fmt.Sprintf("an event without a kind (%q)", e.Kind)
	}
}

// decidedBy says where the delay of a retry is from.
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
func because(e retry.Event) string {
	switch e.Reason {
	case retry.ReasonSuccess:
		return "it succeeded"
	case retry.ReasonExhausted:
		return "no attempt is left"
	case retry.ReasonNonRetryable:
		return "the policy retries nothing"
	case retry.ReasonPermanent:
		return "the error is permanent"
	case retry.ReasonRejected:
		return "RetryIf says that the error is not worth a retry"
	case retry.ReasonRetryAfter:
		return "the server asks for a longer wait than MaxRetryAfter"
	case retry.ReasonElapsed:
		return "the retry would come later than MaxElapsed"
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
		return fmt.Sprintf("for no reason that is known (%q)", e.Reason)
	}
}

func executions(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

var oneLine = strings.NewReplacer("\r\n", "; ", "\n", "; ", "\r", "; ")
