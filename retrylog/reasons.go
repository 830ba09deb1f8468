package retrylog

import (
	"fmt"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/printable"
)

// These bits say when a call can stop for a reason, and whether its CallFinished event has a Cause.
const (
	unbegun   = 1 << iota // a call can stop for this reason before its first attempt
	waiting               // a call can stop for this reason during a wait
	refused               // a job that a queue delivers again can be refused for this reason
	mayCause              // an event with this reason may have a Cause
	mustCause             // an event with this reason always has a Cause
)

// The variable `reasons` lists the reasons to stop that this version knows. The field `text` is
// what Explain writes for the reason.
var reasons = map[retry.Reason]struct {
	text string
	bits int
}{
	retry.ReasonSuccess:      {"it succeeded", mayCause},
	retry.ReasonExhausted:    {"no attempt is left", refused},
	retry.ReasonNonRetryable: {"the failure is not retryable", refused | mayCause},
	retry.ReasonPermanent:    {"the error is permanent", 0},
	retry.ReasonRejected:     {"the program does not retry this error", 0},
	retry.ReasonRetryAfter:   {"Retry-After is longer than max_retry_after", 0},
	retry.ReasonElapsed:      {"after ELAPSED, a retry would be later than max_elapsed", waiting},
	retry.ReasonDeadline: {
		"after ELAPSED, the caller's deadline has passed, or comes before the retry",
		unbegun | waiting | refused | mayCause,
	},
	retry.ReasonCanceled: {
		"the caller canceled it after ELAPSED",
		unbegun | waiting | refused | mayCause,
	},
	retry.ReasonBudget:   {"the budget has no retry left", 0},
	retry.ReasonBorrowed: {"the caller lent no more retries", 0},
	retry.ReasonWait:     {"the wait failed", waiting | mustCause},
	retry.ReasonInvalid: {
		"the policy, a class, or the call is invalid",
		unbegun | refused | mustCause,
	},
}

// hasBit reports whether the reason of e has at least one of the bits. It returns true for an
// unknown reason, because a newer version has written it.
func hasBit(e retry.Event, bits int) bool {
	reason, known := reasons[e.Reason]
	return !known || reason.bits&bits != 0
}

// stopReason returns a text that says why a call stopped.
func stopReason(e *retry.Event) string {
	if e.Reason == retry.ReasonExhausted && e.Max > 1 && number(*e) == e.Max {
		return fmt.Sprintf("no attempt is left of %d", e.Max)
	}
	if reason, ok := reasons[e.Reason]; ok {
		return strings.Replace(reason.text, "ELAPSED", e.Elapsed.String(), 1)
	}
	return printable.Line(string(e.Reason))
}
