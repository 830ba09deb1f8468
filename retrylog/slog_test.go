package retrylog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// A retry is one warning with all its facts. The end of a call is one line, and its level depends
// on the reason. The other events have the level Debug.
func TestSlog(t *testing.T) {
	canceled, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("shutting down"))
	const retries = `level=WARN msg="retry scheduled" kind=retry_scheduled attempt=1 max=3 elapsed=30ms delay=219.325191ms due=2000-01-01T00:00:00.249Z lo=160ms hi=240ms seed=42 err="connection refused"
level=WARN msg="retry scheduled" kind=retry_scheduled attempt=2 max=3 elapsed=279.325191ms delay=345.585663ms due=2000-01-01T00:00:00.624Z lo=320ms hi=480ms seed=42 err="connection refused"
`
	const fault = `cause="invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited"`
	invalid := retry.Policy{MaxAttempts: -2}
	for _, row := range []struct {
		name   string
		level  slog.Level
		ctx    context.Context
		policy retry.Policy
		fn     func(context.Context) error
		want   string
	}{
		{"gives up", slog.LevelDebug, retrylog.WithKey(context.Background(), "17"), policy, failing(errRefused, retry.After(time.Second, errRefused), errRefused),
			`level=DEBUG msg="attempt started" key=17 kind=attempt_started attempt=1 max=3 elapsed=0s
level=DEBUG msg="attempt failed" key=17 kind=attempt_finished attempt=1 max=3 elapsed=30ms took=30ms err="connection refused"
level=WARN msg="retry scheduled" key=17 kind=retry_scheduled attempt=1 max=3 elapsed=30ms delay=219.325191ms due=2000-01-01T00:00:00.249Z lo=160ms hi=240ms seed=42 err="connection refused"
level=DEBUG msg="attempt started" key=17 kind=attempt_started attempt=2 max=3 elapsed=249.325191ms
level=DEBUG msg="attempt failed" key=17 kind=attempt_finished attempt=2 max=3 elapsed=279.325191ms took=30ms err="connection refused"
level=WARN msg="retry scheduled" key=17 kind=retry_scheduled attempt=2 max=3 elapsed=279.325191ms delay=1.063964157s due=2000-01-01T00:00:01.343Z lo=1s hi=1.4s retry_after=1s seed=42 err="connection refused"
level=DEBUG msg="attempt started" key=17 kind=attempt_started attempt=3 max=3 elapsed=1.343289348s
level=DEBUG msg="attempt failed" key=17 kind=attempt_finished attempt=3 max=3 elapsed=1.373289348s took=30ms err="connection refused"
level=ERROR msg="gave up" key=17 kind=call_finished attempt=3 max=3 elapsed=1.373289348s reason=attempts_exhausted err="connection refused"
`},
		{"succeeds at once", slog.LevelDebug, context.Background(), policy, failing(), `level=DEBUG msg="attempt started" kind=attempt_started attempt=1 max=3 elapsed=0s
level=DEBUG msg="attempt succeeded" kind=attempt_finished attempt=1 max=3 elapsed=30ms took=30ms
level=DEBUG msg=succeeded kind=call_finished attempt=1 max=3 elapsed=30ms reason=success
`},
		{"gives up", slog.LevelInfo, context.Background(), policy, failing(errRefused, errRefused, errRefused),
			retries + `level=ERROR msg="gave up" kind=call_finished attempt=3 max=3 elapsed=654.910854ms reason=attempts_exhausted err="connection refused"` + "\n"},
		{"succeeds after retries", slog.LevelInfo, context.Background(), policy, failing(errRefused, errRefused),
			retries + `level=INFO msg="succeeded after retries" kind=call_finished attempt=3 max=3 elapsed=654.910854ms reason=success` + "\n"},
		{"succeeds at once", slog.LevelInfo, context.Background(), policy, failing(), ""},
		{"permanent", slog.LevelInfo, context.Background(), policy, failing(retry.Permanent(errRefused)),
			`level=ERROR msg="gave up" kind=call_finished attempt=1 max=3 elapsed=30ms reason=permanent_error err="connection refused"` + "\n"},
		{"canceled before the call", slog.LevelInfo, canceled, policy, failing(),
			`level=WARN msg=canceled kind=call_finished attempt=0 max=3 elapsed=0s reason=canceled cause="context canceled: shutting down"` + "\n"},
		{"an invalid policy, failed", slog.LevelInfo, context.Background(), invalid, failing(errRefused),
			`level=ERROR msg="invalid policy or call" kind=call_finished attempt=1 max=1 elapsed=30ms reason=invalid err="connection refused" ` + fault + "\n"},
		{"an invalid policy, succeeded", slog.LevelInfo, context.Background(), invalid, failing(),
			`level=WARN msg="invalid policy or call" kind=call_finished attempt=1 max=1 elapsed=30ms reason=success ` + fault + "\n"},
		{"a nil function", slog.LevelInfo, context.Background(), policy, nil,
			`level=ERROR msg="invalid policy or call" kind=call_finished attempt=0 max=3 elapsed=0s reason=invalid cause="nil function"` + "\n"},
	} {
		t.Run(fmt.Sprintf("%s, %v", row.name, row.level), func(t *testing.T) {
			var out bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				p := row.policy
				p.OnEvent = retrylog.Slog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: row.level, ReplaceAttr: withoutTime})))
				_ = retry.Do(row.ctx, p, row.fn)
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

// Handlers get an error that wraps the error of the attempt. Its text has no characters that a
// terminal acts on. Each key has one type in a log, and the log can be read back.
func TestSlogErrors(t *testing.T) {
	for _, row := range []struct {
		name string
		err  error
		json string
	}{
		{"plain", errRefused, "connection refused"},
		{"a json.Marshaler", marshaler{errRefused}, "connection refused"},
		{"a LogValuer", valuer{errRefused}, "connection refused"},
		{"characters that a terminal acts on", fmt.Errorf("\x1b[2J\u202e\n\u0085: %w", errRefused), `\\x1b[2J\\u202e; \\u0085: connection refused`},
		{"a nil pointer, whose Error panics", (*driverError)(nil), "<nil>"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out bytes.Buffer
			got := map[string]any{}
			log := retrylog.Slog(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				got[a.Key] = a.Value.Any()
				return withoutTime(nil, a)
			}})))
			e := retry.Event{Kind: retry.CallFinished, Attempt: 1, Max: 1, Decision: retry.Decision{Reason: retry.ReasonCanceled, Class: "\x1b"}, Err: row.err, Cause: row.err}
			log(retrylog.WithKey(context.Background(), "\u2066k\x00"), e)
			assert.Equal(t, `{"level":"WARN","msg":"canceled","key":"\\u2066k\\x00","kind":"call_finished","attempt":1,"max":1,"elapsed":"0s","class":"\\x1b","reason":"canceled","err":"`+
				row.json+`","cause":"`+row.json+`"}`+"\n", out.String())
			for _, key := range []string{"err", "cause"} {
				assert.ErrorIs(t, got[key].(error), row.err)
			}
			assert.Contains(t, retrylog.Explain([]retrylog.Record{{Event: e}}), strings.ReplaceAll(row.json, `\\`, `\`))
		})
	}
}

type marshaler struct{ error }

func (marshaler) MarshalJSON() ([]byte, error) { return []byte(`{"code":7}`), nil }

type valuer struct{ error }

func (valuer) LogValue() slog.Value { return slog.GroupValue(slog.Int("code", 7)) }

type driverError struct{ text string }

func (e *driverError) Error() string { return e.text }

func TestSlogNilIsTheDefaultLogger(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	p := retry.Policy{OnEvent: retrylog.Slog(nil)}
	require.Error(t, retry.Do(context.Background(), p, failing(errRefused)))
	assert.Contains(t, out.String(), "gave up")
}
