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
		{"gives up", []error{errRefused, retry.After(time.Second, errRefused), errRefused}, `level=DEBUG msg="attempt started" key=17 attempt=1 max=3 elapsed_ms=0
level=DEBUG msg="attempt failed" key=17 attempt=1 max=3 elapsed_ms=30 took_ms=30 err="connection refused"
level=WARN msg="retry scheduled" key=17 attempt=1 max=3 elapsed_ms=30 delay_ms=219.325191 due=2000-01-01T00:00:00.249Z err="connection refused"
level=DEBUG msg="attempt started" key=17 attempt=2 max=3 elapsed_ms=249.325191
level=DEBUG msg="attempt failed" key=17 attempt=2 max=3 elapsed_ms=279.325191 took_ms=30 err="connection refused"
level=WARN msg="retry scheduled" key=17 attempt=2 max=3 elapsed_ms=279.325191 delay_ms=1063.964157 due=2000-01-01T00:00:01.343Z hint_ms=1000 err="connection refused"
level=DEBUG msg="attempt started" key=17 attempt=3 max=3 elapsed_ms=1343.289348
level=DEBUG msg="attempt failed" key=17 attempt=3 max=3 elapsed_ms=1373.289348 took_ms=30 err="connection refused"
level=ERROR msg="gave up" key=17 attempt=3 max=3 elapsed_ms=1373.289348 reason=attempts_exhausted err="connection refused"
`},
		{"succeeds after retries", []error{errRefused}, `level=DEBUG msg="attempt started" key=17 attempt=1 max=3 elapsed_ms=0
level=DEBUG msg="attempt failed" key=17 attempt=1 max=3 elapsed_ms=30 took_ms=30 err="connection refused"
level=WARN msg="retry scheduled" key=17 attempt=1 max=3 elapsed_ms=30 delay_ms=219.325191 due=2000-01-01T00:00:00.249Z err="connection refused"
level=DEBUG msg="attempt started" key=17 attempt=2 max=3 elapsed_ms=249.325191
level=DEBUG msg="attempt succeeded" key=17 attempt=2 max=3 elapsed_ms=279.325191 took_ms=30
level=INFO msg="succeeded after retries" key=17 attempt=2 max=3 elapsed_ms=279.325191 reason=success
`},
		{"succeeds at once", nil, `level=DEBUG msg="attempt started" key=17 attempt=1 max=3 elapsed_ms=0
level=DEBUG msg="attempt succeeded" key=17 attempt=1 max=3 elapsed_ms=30 took_ms=30
level=DEBUG msg=succeeded key=17 attempt=1 max=3 elapsed_ms=30 reason=success
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
		retry.ReasonLeft:      "level=INFO msg=left",
		retry.ReasonCanceled:  "level=WARN msg=canceled",
		retry.ReasonDeadline:  `level=ERROR msg="gave up"`,
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
	left := func(ctx context.Context, p retry.Policy) {
		var err error
		for range retry.Loop(ctx, p, &err) {
			err = errRefused
			break
		}
	}
	const retries = `level=WARN msg="retry scheduled" attempt=1 max=3 elapsed_ms=30 delay_ms=219.325191 due=2000-01-01T00:00:00.249Z err="connection refused"
level=WARN msg="retry scheduled" attempt=2 max=3 elapsed_ms=279.325191 delay_ms=345.585663 due=2000-01-01T00:00:00.624Z err="connection refused"
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
			retries + `level=ERROR msg="gave up" attempt=3 max=3 elapsed_ms=654.910854 reason=attempts_exhausted err="connection refused"` + "\n"},
		{"succeeds after retries", context.Background(), policy, do(failing(errRefused, errRefused)),
			retries + `level=INFO msg="succeeded after retries" attempt=3 max=3 elapsed_ms=654.910854 reason=success` + "\n"},
		{"succeeds at once", context.Background(), policy, do(failing()), ""},
		{"canceled before", canceled, policy, do(failing()),
			`level=WARN msg=canceled attempt=0 max=3 elapsed_ms=0 reason=canceled cause="context canceled: shutting down"` + "\n"},
		{"an invalid policy, failed", context.Background(), invalid, do(failing(errRefused)),
			`level=ERROR msg="invalid policy or call" attempt=1 max=1 elapsed_ms=30 reason=invalid err="connection refused" ` + fault + "\n"},
		{"an invalid policy, succeeded", context.Background(), invalid, do(failing()),
			`level=WARN msg="invalid policy or call" attempt=1 max=1 elapsed_ms=30 reason=success ` + fault + "\n"},
		{"an invalid policy, left", context.Background(), invalid, left,
			`level=WARN msg="invalid policy or call" attempt=1 max=1 elapsed_ms=0 reason=left err="connection refused" ` + fault + "\n"},
		{"left", context.Background(), policy, left,
			`level=INFO msg=left attempt=1 max=3 elapsed_ms=0 reason=left err="connection refused"` + "\n"},
		{"a nil function", context.Background(), policy, do(nil),
			`level=ERROR msg="invalid policy or call" attempt=0 max=3 elapsed_ms=0 reason=invalid cause="nil function"` + "\n"},
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
	assert.Equal(t, `{"level":"ERROR","msg":"gave up","key":"\\u2066k\\x00","attempt":1,"max":1,"elapsed_ms":0,"reason":"attempts_exhausted","err":"`+
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
	assert.Equal(t, "level=ERROR msg=\"gave up\" attempt=1 max=1 elapsed_ms=0 reason=attempts_exhausted err=<nil>\n", out.String())
	assert.Contains(t, retrylog.Explain([]retrylog.Record{{Event: e}}), "no attempt is left: <nil>")
}

type driverError struct{ text string }

func (e *driverError) Error() string { return e.text }
