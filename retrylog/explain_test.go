package retrylog_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// Each reason has its own text. A reason that only a newer version has is printed as it is.
func TestExplainEveryReason(t *testing.T) {
	said := map[string]bool{}
	for _, reason := range append(reasons, "bored\nand tired") {
		e := retry.Event{Kind: retry.CallFinished, Attempt: 1, Max: 4, Elapsed: time.Minute, Decision: retry.Decision{Reason: reason}}
		text := retrylog.Record{Event: e}.String()
		assert.True(t, strings.HasPrefix(text, "+1m0s stopped after 1 attempt: "), text)
		assert.Equal(t, slices.Contains([]retry.Reason{retry.ReasonElapsed, retry.ReasonDeadline, retry.ReasonCanceled}, reason), strings.Contains(text, "after 1m0s"), text)
		said[text] = true
	}
	assert.Len(t, said, len(reasons)+1)
	assert.Contains(t, said, "+1m0s stopped after 1 attempt: bored; and tired")
}

// Each event is printed on one line, with its time in UTC. The line says only what the event
// contains.
func TestExplainOneEvent(t *testing.T) {
	at := time.Date(2000, 1, 1, 1, 0, 0, 0, time.FixedZone("CET", 3600))
	scheduled := func(delay, lo, hi, retryAfter time.Duration, seed uint64) retry.Event {
		return retry.Event{Kind: retry.RetryScheduled, Time: at, Attempt: 1, Decision: retry.Decision{Delay: delay, Lo: lo, Hi: hi, RetryAfter: retryAfter, Seed: seed}, Due: at.Add(delay)}
	}
	with := func(e retry.Event, change func(*retry.Event)) retry.Event {
		change(&e)
		return e
	}
	for _, row := range []struct {
		name string
		key  string
		e    retry.Event
		want string
	}{
		{"without a limit", "", retry.Event{Kind: retry.AttemptStarted, Time: at, Attempt: 7, Max: retry.Unlimited}, "attempt 7 started"},
		{"success", "", retry.Event{Kind: retry.AttemptFinished, Time: at, Attempt: 7, Took: time.Second}, "attempt 7 succeeded after 1s"},
		{"failure of several lines", "", retry.Event{Kind: retry.AttemptFinished, Time: at, Attempt: 7, Err: errors.New("a\r\nb\nc\rd")}, "attempt 7 failed after 0s: a; b; c; d"},
		{"fault of several lines", "", retry.Event{Kind: retry.CallFinished, Time: at, Decision: retry.Decision{Reason: retry.ReasonInvalid}, Cause: errors.New("a\nb")}, "stopped after 0 attempts: the policy, a class, or the call is invalid (a; b)"},
		{"fault of a call that succeeded", "", retry.Event{Kind: retry.CallFinished, Time: at, Attempt: 1, Decision: retry.Decision{Reason: retry.ReasonSuccess}, Cause: errors.New("fault")}, "stopped after 1 attempt: it succeeded (fault)"},
		{"an error and a cause", "", retry.Event{Kind: retry.CallFinished, Time: at, Attempt: 2, Decision: retry.Decision{Reason: retry.ReasonCanceled}, Err: errRefused, Cause: context.Canceled}, "stopped after 2 attempts: the caller canceled it after 0s (context canceled): connection refused"},
		{"a retry with its error", "", retry.Event{Kind: retry.RetryScheduled, Time: at, Attempt: 1, Due: at, Err: errRefused}, "attempt 1 is retried in 0s, at 00:00:00.000Z (at once): connection refused"},
		{"characters that a terminal acts on", "\x1b[2J\x00", retry.Event{Kind: retry.AttemptFinished, Time: at, Attempt: 7, Err: errors.New("\u202e\u2066\u200f a\u2028b\u2029c\u0085d\te\x7f\ufeff")},
			`\x1b[2J\x00: attempt 7 failed after 0s: \u202e\u2066\u200f a\u2028b\u2029c\u0085d\te\x7f\ufeff`},
		{"a cause with a character that a terminal acts on", "", retry.Event{Kind: retry.CallFinished, Time: at, Decision: retry.Decision{Reason: retry.ReasonCanceled}, Cause: errors.New("a\x1bb")}, `stopped after 0 attempts: the caller canceled it after 0s (a\x1bb)`},
		{"bytes that are not UTF-8", "\x9b31m", retry.Event{Kind: retry.AttemptStarted, Time: at, Attempt: 1, Max: 2}, "\uFFFD31m: attempt 1 of 2 started"},
		{"letters of all scripts", "Ω", retry.Event{Kind: retry.AttemptFinished, Time: at, Attempt: 7, Err: errors.New("соединение 接続 عربى e\u0301 \\x '")}, "Ω: attempt 7 failed after 0s: соединение 接続 عربى e\u0301 \\x '"},
		{"key of several lines", "a\r\nb", retry.Event{Kind: retry.AttemptStarted, Time: at, Attempt: 1, Max: 2}, "a; b: attempt 1 of 2 started"},
		{"the curve", "", scheduled(time.Second, time.Second, time.Second, 0, 0), "attempt 1 is retried in 1s, at 00:00:01.000Z (by the curve)"},
		{"the curve, without its window", "", scheduled(time.Second, 0, 0, 0, 0), "attempt 1 is retried in 1s, at 00:00:01.000Z (by the curve)"},
		{"the jitter", "", scheduled(time.Second, 0, 2*time.Second, 0, 42), "attempt 1 is retried in 1s, at 00:00:01.000Z (drawn from 0s to 2s with seed 42)"},
		{"a Retry-After", "", scheduled(time.Second, time.Second, time.Second, time.Second, 0), "attempt 1 is retried in 1s, at 00:00:01.000Z (Retry-After is 1s)"},
		{"a Retry-After, and a longer delay of the curve", "", scheduled(2*time.Second, 2*time.Second, 2*time.Second, time.Second, 0), "attempt 1 is retried in 2s, at 00:00:02.000Z (Retry-After is 1s, by the curve)"},
		{"a Retry-After and the jitter", "", scheduled(1063964157, time.Second, 1400*time.Millisecond, time.Second, 42),
			"attempt 1 is retried in 1.063964157s, at 00:00:01.063Z (Retry-After is 1s, drawn from 1s to 1.4s with seed 42)"},
		{"no delay", "", scheduled(0, 0, 0, 0, 0), "attempt 1 is retried in 0s, at 00:00:00.000Z (at once)"},
		{"the curve of a class", "", with(scheduled(time.Second, time.Second, time.Second, 0, 0), func(e *retry.Event) { e.Class = "unauthorized\x1b" }), `attempt 1 is retried in 1s, at 00:00:01.000Z (class "unauthorized\x1b", by the curve)`},
		{"a call that begins anew", "", with(scheduled(time.Second, time.Second, time.Second, 0, 0), func(e *retry.Event) { e.Reset = true }), "the attempt ran past HealthyAfter, so the call begins anew: attempt 1 is retried in 1s, at 00:00:01.000Z (by the curve)"},
		{"the start of an attempt of a call that began anew", "", retry.Event{Kind: retry.AttemptStarted, Time: at, Attempt: 7, Max: 3, Decision: retry.Decision{Number: 2}}, "attempt 7 started, 2 of 3 counted from the last attempt that ran past HealthyAfter"},
		{"a retry of a call that began anew", "", with(scheduled(time.Second, time.Second, time.Second, 0, 0), func(e *retry.Event) { e.Attempt, e.Number = 2, 1 }), "attempt 2 is retried in 1s, at 00:00:01.000Z (by the curve)"},
		{"the end of a call that began anew", "", retry.Event{Kind: retry.CallFinished, Time: at, Attempt: 9, Decision: retry.Decision{Reason: retry.ReasonExhausted, Number: 3, Class: "busy"}, Err: errRefused}, `stopped after 9 attempts, 3 counted from the last attempt that ran past HealthyAfter: no attempt is left (class "busy"): connection refused`},
		{"a class and a cause", "", retry.Event{Kind: retry.CallFinished, Time: at, Attempt: 1, Decision: retry.Decision{Reason: retry.ReasonNonRetryable, Class: "post"}, Cause: errors.New("it may have been processed")}, `stopped after 1 attempt: the failure is not retryable (class "post", it may have been processed)`},
		{"a kind of a newer version", "", retry.Event{Kind: "attempt_paused\n", Time: at, Attempt: 3, Err: errRefused}, "attempt_paused; , attempt 3: connection refused"},
		{"the last attempt of several", "", retry.Event{Kind: retry.CallFinished, Time: at, Attempt: 3, Max: 3, Decision: retry.Decision{Reason: retry.ReasonExhausted}, Err: errRefused}, "stopped after 3 attempts: no attempt is left of 3: connection refused"},
		{"the last attempt of a class", "", retry.Event{Kind: retry.CallFinished, Time: at, Attempt: 2, Max: 3, Decision: retry.Decision{Reason: retry.ReasonExhausted, Class: "busy"}, Err: errRefused}, `stopped after 2 attempts: no attempt is left (class "busy"): connection refused`},
		{"no kind", "", retry.Event{Time: at}, "an event without a kind"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := retrylog.Record{Key: row.key, Event: row.e}
			assert.Equal(t, "2000-01-01 00:00:00.000Z +0s "+row.want, r.String())
			assert.Equal(t, r.String()+"\n", retrylog.Explain([]retrylog.Record{r}))
		})
	}
}

// An error is printed only on the line where it first occurs.
func TestExplainSaysAnErrorOnce(t *testing.T) {
	at := time.Unix(0, 0)
	event := func(key string, kind retry.EventKind, err error) retrylog.Record {
		return retrylog.Record{Key: key, Event: retry.Event{Kind: kind, Time: at, Due: at, Attempt: 1, Max: 2, Err: err, Decision: retry.Decision{Reason: retry.ReasonCanceled}}}
	}
	explain := func(records ...retrylog.Record) string {
		return strings.ReplaceAll(retrylog.Explain(records), "1970-01-01 00:00:00.000Z +0s ", "")
	}
	assert.Equal(t, `a: attempt 1 failed after 0s: connection refused
a: attempt 1 is retried in 0s, at 00:00:00.000Z (at once)
a: stopped after 1 attempt: the caller canceled it after 0s
`, explain(event("a", retry.AttemptFinished, errRefused), event("a", retry.RetryScheduled, errRefused), event("a", retry.CallFinished, errRefused)))
	assert.Equal(t, `a: attempt 1 failed after 0s: connection refused
b: stopped after 1 attempt: the caller canceled it after 0s: connection refused
a: stopped after 1 attempt: the caller canceled it after 0s: connection refused
a: stopped after 1 attempt: the caller canceled it after 0s: another
`, explain(event("a", retry.AttemptFinished, errRefused), event("b", retry.CallFinished, errRefused), event("a", retry.CallFinished, errRefused), event("a", retry.CallFinished, errors.New("another"))))
	assert.Equal(t, `a: attempt 1 of 2 started
a: attempt 1 failed after 0s: connection refused
`, explain(event("a", retry.AttemptStarted, nil), event("a", retry.AttemptFinished, errRefused)))
	assert.Equal(t, "2000-01-01 00:00:01.000Z +1.063s attempt 1 of 2 started", retrylog.Record{Event: retry.Event{
		Kind: retry.AttemptStarted, Time: time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC), Attempt: 1, Max: 2, Elapsed: 1063456789,
	}}.String())
}
