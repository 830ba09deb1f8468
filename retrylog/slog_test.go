package retrylog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

func TestSlogGolden(t *testing.T) {
	for _, row := range []struct {
		name string
		errs []error
		want string
	}{
		{"gives up", []error{errRefused, retry.After(time.Second, errRefused), errRefused}, `level=DEBUG msg="attempt started" key=17 kind=attempt_started attempt=1 max=3 elapsed=0s
level=DEBUG msg="attempt failed" key=17 kind=attempt_finished attempt=1 max=3 elapsed=30ms took=30ms err="connection refused"
level=WARN msg="retry scheduled" key=17 kind=retry_scheduled attempt=1 max=3 elapsed=30ms delay=219.325191ms due=2000-01-01T00:00:00.249Z lo=160ms hi=240ms seed=42 err="connection refused"
level=DEBUG msg="attempt started" key=17 kind=attempt_started attempt=2 max=3 elapsed=249.325191ms
level=DEBUG msg="attempt failed" key=17 kind=attempt_finished attempt=2 max=3 elapsed=279.325191ms took=30ms err="connection refused"
level=WARN msg="retry scheduled" key=17 kind=retry_scheduled attempt=2 max=3 elapsed=279.325191ms delay=1.063964157s due=2000-01-01T00:00:01.343Z lo=1s hi=1.4s retry_after=1s seed=42 err="connection refused"
level=DEBUG msg="attempt started" key=17 kind=attempt_started attempt=3 max=3 elapsed=1.343289348s
level=DEBUG msg="attempt failed" key=17 kind=attempt_finished attempt=3 max=3 elapsed=1.373289348s took=30ms err="connection refused"
level=ERROR msg="gave up" key=17 kind=stopped attempt=3 max=3 elapsed=1.373289348s reason=attempts_exhausted err="connection refused"
`},
		{"succeeds after retries", []error{errRefused}, `level=DEBUG msg="attempt started" key=17 kind=attempt_started attempt=1 max=3 elapsed=0s
level=DEBUG msg="attempt failed" key=17 kind=attempt_finished attempt=1 max=3 elapsed=30ms took=30ms err="connection refused"
level=WARN msg="retry scheduled" key=17 kind=retry_scheduled attempt=1 max=3 elapsed=30ms delay=219.325191ms due=2000-01-01T00:00:00.249Z lo=160ms hi=240ms seed=42 err="connection refused"
level=DEBUG msg="attempt started" key=17 kind=attempt_started attempt=2 max=3 elapsed=249.325191ms
level=DEBUG msg="attempt succeeded" key=17 kind=attempt_finished attempt=2 max=3 elapsed=279.325191ms took=30ms
level=INFO msg="succeeded after retries" key=17 kind=stopped attempt=2 max=3 elapsed=279.325191ms reason=success
`},
		{"succeeds at once", nil, `level=DEBUG msg="attempt started" key=17 kind=attempt_started attempt=1 max=3 elapsed=0s
level=DEBUG msg="attempt succeeded" key=17 kind=attempt_finished attempt=1 max=3 elapsed=30ms took=30ms
level=DEBUG msg=succeeded key=17 kind=stopped attempt=1 max=3 elapsed=30ms reason=success
`},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withoutTime}))
			synctest.Test(t, func(t *testing.T) {
				p := policy
				p.OnEvent = retrylog.Slog(logger)
				_ = retry.Do(retrylog.WithKey(context.Background(), "17"), p, failing(row.errs...))
			})
			assert.Equal(t, row.want, out.String())
		})
	}
}

func TestSlogLevelsOfOtherEnds(t *testing.T) {
	for reason, want := range map[retry.Reason]string{
		retry.ReasonCanceled:  "level=WARN msg=canceled",
		retry.ReasonDeadline:  `level=ERROR msg="gave up"`,
		retry.ReasonWait:      `level=ERROR msg="gave up"`,
		retry.ReasonInvalid:   `level=ERROR msg="invalid policy or call"`,
		retry.ReasonPermanent: `level=ERROR msg="gave up"`,
	} {
		var out bytes.Buffer
		retrylog.Slog(slog.New(slog.NewTextHandler(&out, nil)))(context.Background(), retry.Event{Kind: retry.Stopped, Reason: reason})
		assert.Contains(t, out.String(), want)
	}
}

// At the level of production a call logs one line for each retry, with
// everything known about it, and one line at its end.
func TestSlogSaysOneLineForARetryAndOneAtTheEnd(t *testing.T) {
	canceled, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("shutting down"))
	const retries = `level=WARN msg="retry scheduled" kind=retry_scheduled attempt=1 max=3 elapsed=30ms delay=219.325191ms due=2000-01-01T00:00:00.249Z lo=160ms hi=240ms seed=42 err="connection refused"
level=WARN msg="retry scheduled" kind=retry_scheduled attempt=2 max=3 elapsed=279.325191ms delay=345.585663ms due=2000-01-01T00:00:00.624Z lo=320ms hi=480ms seed=42 err="connection refused"
`
	const fault = `cause="invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited"`
	invalid := retry.Policy{MaxAttempts: -2}
	do := func(fn func(context.Context) error) func(context.Context, retry.Policy) {
		return func(ctx context.Context, p retry.Policy) { _ = retry.Do(ctx, p, fn) }
	}
	for _, row := range []struct {
		name   string
		ctx    context.Context
		policy retry.Policy
		call   func(context.Context, retry.Policy)
		want   string
	}{
		{"gives up", context.Background(), policy, do(failing(errRefused, errRefused, errRefused)),
			retries + `level=ERROR msg="gave up" kind=stopped attempt=3 max=3 elapsed=654.910854ms reason=attempts_exhausted err="connection refused"` + "\n"},
		{"succeeds after retries", context.Background(), policy, do(failing(errRefused, errRefused)),
			retries + `level=INFO msg="succeeded after retries" kind=stopped attempt=3 max=3 elapsed=654.910854ms reason=success` + "\n"},
		{"succeeds at once", context.Background(), policy, do(failing()), ""},
		{"canceled before", canceled, policy, do(failing()),
			`level=WARN msg=canceled kind=stopped attempt=0 max=3 elapsed=0s reason=canceled cause="context canceled: shutting down"` + "\n"},
		{"an invalid policy, failed", context.Background(), invalid, do(failing(errRefused)),
			`level=ERROR msg="invalid policy or call" kind=stopped attempt=1 max=1 elapsed=30ms reason=invalid err="connection refused" ` + fault + "\n"},
		{"an invalid policy, succeeded", context.Background(), invalid, do(failing()),
			`level=WARN msg="invalid policy or call" kind=stopped attempt=1 max=1 elapsed=30ms reason=success ` + fault + "\n"},
		{"a nil function", context.Background(), policy, do(nil),
			`level=ERROR msg="invalid policy or call" kind=stopped attempt=0 max=3 elapsed=0s reason=invalid cause="nil function"` + "\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				p := row.policy
				p.OnEvent = retrylog.Slog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: withoutTime})))
				row.call(row.ctx, p)
			})
			assert.Equal(t, row.want, out.String())
		})
	}
}

// withoutTime is a ReplaceAttr that removes the time of a line.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// An error that contains terminal control characters is escaped, and can still
// be examined.
func TestSlogEscapes(t *testing.T) {
	evil := fmt.Errorf("\x1b[2J\u202e\n\u0085: %w", errRefused)
	var out bytes.Buffer
	var got any
	log := retrylog.Slog(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "err" {
			got = a.Value.Any()
		}
		return withoutTime(nil, a)
	}})))
	ctx := retrylog.WithKey(context.Background(), "\u2066k\x00")
	log(ctx, retry.Event{Kind: retry.Stopped, Attempt: 1, Max: 1, Reason: retry.ReasonExhausted, Err: evil, Cause: evil})
	const escaped = `\\x1b[2J\\u202e; \\u0085: connection refused`
	assert.Equal(t, `{"level":"ERROR","msg":"gave up","key":"\\u2066k\\x00","kind":"stopped","attempt":1,"max":1,"elapsed":"0s","reason":"attempts_exhausted","err":"`+
		escaped+`","cause":"`+escaped+`"}`+"\n", out.String())
	assert.ErrorIs(t, got.(error), errRefused)
}

// Handlers get the error itself, so that they can examine it.
func TestSlogKeepsTheError(t *testing.T) {
	var got any
	logger := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "err" {
			got = a.Value.Any()
		}
		return a
	}}))
	require.Error(t, retry.Do(context.Background(), retry.Policy{OnEvent: retrylog.Slog(logger)}, failing(errRefused)))
	assert.Equal(t, errRefused, got)
}

// An error that would log itself as something else is logged by its text, and can
// still be examined: a log has one type for each key, and can be read back.
func TestSlogLogsErrorsAsText(t *testing.T) {
	for name, err := range map[string]error{"a marshaler": marshaler{errRefused}, "a value": valuer{errRefused}} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			var got any
			logger := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == "err" {
					got = a.Value.Any()
				}
				return a
			}}))
			require.Error(t, retry.Do(context.Background(), retry.Policy{OnEvent: retrylog.Slog(logger)}, failing(err)))
			records, readErr := retrylog.Read(&out)
			require.NoError(t, readErr)
			assert.EqualError(t, records[0].Event.Err, "connection refused")
			assert.ErrorIs(t, got.(error), err)
		})
	}
}

type marshaler struct{ error }

func (marshaler) MarshalJSON() ([]byte, error) { return []byte(`{"code":7}`), nil }

type valuer struct{ error }

func (valuer) LogValue() slog.Value { return slog.GroupValue(slog.Int("code", 7)) }

// The JSON lines of slog, between others of the program, are a log: the same calls
// are replayed from them as from the lines of a Writer.
func TestSlogLinesAreALog(t *testing.T) {
	unauthorized := errors.New("401")
	canceled, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("shutting down"))
	classes := policy
	classes.MaxAttempts, classes.Classify = 9, func(err error) *retry.Class {
		if errors.Is(err, unauthorized) {
			return &retry.Class{Name: "unauthorized", Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(7), Jitter: retry.FullJitter}}
		}
		return nil
	}
	refused := classes
	refused.Classify = func(error) *retry.Class {
		return &retry.Class{Name: "post", Policy: &retry.Policy{NonRetryable: true}, Cause: errors.New("it may have been processed")}
	}
	healthy := retry.Policy{MaxAttempts: 2, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.FullJitter, HealthyAfter: time.Millisecond}
	exact := policy
	exact.ExactRetryAfter = true
	waits := policy
	waits.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, errors.New("no link") }
	for _, row := range []struct {
		name   string
		ctx    context.Context
		policy retry.Policy
		errs   []error
		reason retry.Reason
	}{
		{"success", context.Background(), policy, nil, retry.ReasonSuccess},
		{"retries", context.Background(), policy, []error{errRefused, errRefused}, retry.ReasonSuccess},
		{"Retry-After", context.Background(), policy, []error{retry.After(time.Second+1, errRefused), retry.After(time.Second, errRefused)}, retry.ReasonSuccess},
		{"exactly", context.Background(), exact, []error{retry.After(11*time.Millisecond, errRefused)}, retry.ReasonSuccess},
		{"delays of nanoseconds, and of hours", context.Background(), retry.Policy{MaxAttempts: 4, Backoff: retry.Schedule{1, 999_999_999, 99*time.Hour + 1}}, []error{errRefused, errRefused, errRefused}, retry.ReasonSuccess},
		{"classes", context.Background(), classes, []error{errRefused, unauthorized, errRefused, unauthorized}, retry.ReasonExhausted},
		{"a class that is not retried", context.Background(), refused, []error{errRefused}, retry.ReasonNonRetryable},
		{"long life", context.Background(), healthy, []error{errRefused, errRefused, errRefused}, retry.ReasonSuccess},
		{"a Wait that fails", context.Background(), waits, []error{errRefused}, retry.ReasonWait},
		{"invalid", context.Background(), retry.Policy{MaxAttempts: -2}, []error{errRefused}, retry.ReasonInvalid},
		{"canceled", canceled, policy, nil, retry.ReasonCanceled},
		{"an empty error", context.Background(), policy, []error{errors.New("")}, retry.ReasonSuccess},
	} {
		t.Run(row.name, func(t *testing.T) {
			var lines, logged bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				logger := slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true})).With("app", "shop")
				w, onEvent := retrylog.NewWriter(&lines), retrylog.Slog(logger)
				p := row.policy
				p.OnEvent = func(ctx context.Context, e retry.Event) {
					w.OnEvent(ctx, e)
					onEvent(ctx, e)
				}
				_ = retry.Do(retrylog.WithKey(row.ctx, "17"), p, failing(row.errs...))
			})
			want, got := replay(t, lines.String()), replay(t, logged.String())
			require.Len(t, want, 1)
			assert.Equal(t, row.reason, want[0].Reason)
			assert.Equal(t, inUTC(want), inUTC(got))
			assert.NoError(t, got[0].Check(row.policy))
			for _, a := range got[0].Attempts {
				if a.Scheduled {
					number := a.Number
					if a.Reset {
						number = 1
					}
					assert.Equal(t, a.Delay, retry.Draw(a.Seed, number, a.Lo, a.Hi))
				}
			}
			assert.Equal(t, row.name == "long life", got[0].Resets > 0)
		})
	}
}

// inUTC returns calls with all times in UTC.
func inUTC(calls []retrylog.Call) []retrylog.Call {
	for i := range calls {
		for j := range calls[i].Attempts {
			a := &calls[i].Attempts[j]
			a.Started, a.Due = a.Started.UTC(), a.Due.UTC()
		}
		for j := range calls[i].Records {
			e := &calls[i].Records[j].Event
			e.Time, e.Due = e.Time.UTC(), e.Due.UTC()
		}
	}
	return calls
}

// Slog's time is the time of the event, also where a Wait skips.
func TestSlogTellsTheTimeOfTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := policy
		p.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) { return d, nil }
		p.OnEvent = retrylog.Slog(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		_ = retry.Do(context.Background(), p, failing(errRefused, errRefused, errRefused))
		calls := replay(t, out.String())
		assert.Equal(t, calls[0].Attempts[0].Due, calls[0].Attempts[1].Started)
	})
}

func TestSlogNilIsTheDefaultLogger(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	p := retry.Policy{OnEvent: retrylog.Slog(nil)}
	require.Error(t, retry.Do(context.Background(), p, failing(errRefused)))
	assert.Contains(t, out.String(), "gave up")
}

// Logging a nil pointer to an error type, returned as an error, must not crash
// the program.
func TestSlogSurvivesErrorsThatPanic(t *testing.T) {
	var out bytes.Buffer
	log := retrylog.Slog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: withoutTime})))
	e := retry.Event{Kind: retry.Stopped, Attempt: 1, Max: 1, Reason: retry.ReasonExhausted, Err: (*driverError)(nil)}
	log(context.Background(), e)
	assert.Equal(t, "level=ERROR msg=\"gave up\" kind=stopped attempt=1 max=1 elapsed=0s reason=attempts_exhausted err=<nil>\n", out.String())
	assert.Contains(t, retrylog.Explain([]retrylog.Record{{Event: e}}), "no attempt is left: <nil>")
}

type driverError struct{ text string }

func (e *driverError) Error() string { return e.text }
