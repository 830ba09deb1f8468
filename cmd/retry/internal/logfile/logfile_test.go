package logfile_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/logfile"
	"github.com/goretry/retry/retryflow/flowlog"
	"github.com/goretry/retry/retrylog"
)

var policy = retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.FullJitter}

// logged returns the log of a call that fails twice, in virtual time: its own form, or
// that of a handler of slog.
func logged(t *testing.T, ctx context.Context, handler func(io.Writer) slog.Handler) []string {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		p := policy
		if p.OnEvent = retrylog.NewWriter(&log).OnEvent; handler != nil {
			p.OnEvent = retrylog.Slog(slog.New(handler(&log)))
		}
		n := 0
		require.NoError(t, retry.Do(ctx, p, func(context.Context) error {
			time.Sleep(30 * time.Millisecond)
			if n++; n < 3 {
				return errors.New(`Get "http://x/?a=b c": {"code": 503} kind=x`)
			}
			return nil
		}))
	})
	return strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
}

func level(h func(io.Writer, *slog.HandlerOptions) slog.Handler, options slog.HandlerOptions) func(io.Writer) slog.Handler {
	return func(w io.Writer) slog.Handler { return h(w, &options) }
}

func jsonLines(w io.Writer, o *slog.HandlerOptions) slog.Handler { return slog.NewJSONHandler(w, o) }
func textLines(w io.Writer, o *slog.HandlerOptions) slog.Handler { return slog.NewTextHandler(w, o) }

func asJSON(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// text is what a log says: its calls, their events without their seeds, and what was skipped.
func text(t *testing.T, log *logfile.Log) (calls []string) {
	for c, err := range log.Calls() {
		require.NoError(t, err)
		_, cut, err := c.Replay()
		require.NoError(t, err)
		assert.Equal(t, c.Cut, cut)
		calls = append(calls, c.Key+": "+cut+"\n"+flowlog.Explain(c.Records))
	}
	return calls
}

func of(lines ...string) *logfile.Log {
	return logfile.New(logfile.Open("a.log", strings.NewReader(strings.Join(lines, "\n"))))
}

// Whatever stands before or around a line, its event is read, and others are not.
func TestPrefixes(t *testing.T) {
	ctx := retrylog.WithKey(context.Background(), "order 1")
	debug := slog.HandlerOptions{Level: slog.LevelDebug}
	part := func(s string) (string, string) { return s[:40], s[40:] }
	for form, lines := range map[string][]string{
		"own": logged(t, ctx, nil), "JSON": logged(t, ctx, level(jsonLines, debug)), "text": logged(t, ctx, level(textLines, debug)),
		"JSON, with more": logged(t, ctx, func(w io.Writer) slog.Handler {
			return jsonLines(w, &debug).WithAttrs([]slog.Attr{slog.Any("req", map[string]string{"kind": "x", "id": "{"})})
		}),
		"text, with more": logged(t, ctx, func(w io.Writer) slog.Handler {
			return textLines(w, &debug).WithAttrs([]slog.Attr{slog.String("app", `a "b" c=d`)})
		}),
	} {
		want := text(t, of(lines...))
		require.Len(t, want, 1, form)
		require.Contains(t, want[0], "order 1: attempt 3 succeeded")
		for name, wrap := range map[string]func(s string) string{
			"kubectl --prefix":            func(s string) string { return "[pod/web-5d9c7b8f6-x2x9z/web] " + s },
			"kubectl --timestamps":        func(s string) string { return "2026-11-22T10:00:00.123456789Z " + s },
			"docker compose":              func(s string) string { return "web-1  | " + s },
			"docker compose, with colors": func(s string) string { return "\x1b[36mweb-1  |\x1b[0m " + s },
			"syslog, RFC 3164":            func(s string) string { return "<34>Nov 22 10:00:00 host web[1234]: " + s },
			"syslog, RFC 5424": func(s string) string {
				return `<34>1 2026-11-22T10:00:00.003Z host web 12 ID47 [x@32473 iut="3" kind="y"] ` + "\ufeff" + s
			},
			"Windows": func(s string) string { return s + "\r" },
			"Docker": func(s string) string {
				return `{"log":` + asJSON(s+"\n") + `,"stream":"stdout","time":"2026-11-22T10:00:00.1Z"}`
			},
			"Docker, in parts": func(s string) string {
				a, b := part(s)
				return `{"log":` + asJSON(a) + `,"stream":"stdout"}` + "\n" + `{"log":"x\n","stream":"stderr"}` + "\n" + `{"log":` + asJSON(b+"\n") + `,"stream":"stdout"}`
			},
			"CRI": func(s string) string { return "2026-11-22T10:00:00.123456789Z stdout F " + s },
			"CRI, in parts": func(s string) string {
				a, b := part(s)
				return "2026-11-22T10:00:00.1Z stdout P " + a + "\n2026-11-22T10:00:00.1Z stderr F x\n2026-11-22T10:00:00.1Z stdout F " + b
			},
			"lines of others": func(s string) string {
				return s + "\npanic: x\n" + `{"level":"INFO","msg":"scaling","kind":"Deployment","attempt":3,"max":"3"}` + "\n" +
					`{"ts":1,"message":"kind"}` + "\n{1} {} [] null\ntime=now level=INFO msg=served kind=fast path=/a\n\x00\n" + strings.Repeat("x", 5<<20)
			},
		} {
			t.Run(form+", "+name, func(t *testing.T) {
				var all []string
				for _, line := range lines {
					all = append(all, wrap(line))
				}
				log := of(all...)
				assert.Equal(t, want, text(t, log))
				assert.Zero(t, log.Bad)
				if strings.Contains(name, "others") {
					assert.Equal(t, 6*len(lines), log.Skipped)
				} else if !strings.Contains(name, "parts") {
					assert.Zero(t, log.Skipped+log.Torn)
				}
			})
		}
	}
}

// A line without a time has that of its prefix, or of the wait that it announces.
func TestTimes(t *testing.T) {
	const without = `level=WARN msg="retry scheduled" kind=retry_scheduled attempt=1 max=3 elapsed=0s delay=1s due=2026-11-22T10:00:01.5Z err=x`
	for _, row := range []struct{ line, want string }{
		{without, "10:00:00.5"},
		{"2026-11-22T11:00:00.25+01:00 " + without, "10:00:00.25"},
		{"2026-11-22T10:00:00.25Z stdout F " + without, "10:00:00.25"},
		{"web-1 | 2026-11-22T10:00:00.25Z " + strings.Replace(without, " due=2026-11-22T10:00:01.5Z", "", 1), "10:00:00.25"},
		{"2026/11/22 10:00:00 WARN retry scheduled key=a kind=retry_scheduled attempt=1 max=3 elapsed=0s delay=1s due=2026-11-22T10:00:01Z err=x", "10:00:00"},
	} {
		for r, err := range of(row.line).Records() {
			require.NoError(t, err)
			assert.Equal(t, row.want, r.Event.Time.UTC().Format("15:04:05.999"), row.line)
			assert.Equal(t, r.Event.Time.Add(time.Second), r.Event.Due, row.line)
		}
		assert.Len(t, text(t, of(row.line)), 1)
	}
	for c, err := range of(`level=ERROR msg="gave up" kind=stopped attempt=1 max=3 elapsed=0s reason=deadline err=x`).Calls() {
		require.NoError(t, err)
		_, cut, err := c.Replay()
		require.NoError(t, err)
		assert.Equal(t, "its lines have no time", cut)
	}
}

func zipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.String()
}

// Files are one log in the order of time, also where a call goes on in another.
func TestFiles(t *testing.T) {
	lines := logged(t, retrylog.WithKey(context.Background(), "a"), nil)
	want := text(t, of(lines...))
	join := func(lines []string) io.Reader { return strings.NewReader(strings.Join(lines, "\n")) }
	for name, log := range map[string]*logfile.Log{
		"rotated":    logfile.New(logfile.Open("1", join(lines[4:])), logfile.Open("2", strings.NewReader(zipped(strings.Join(lines[:4], "\n"))))),
		"compressed": of(zipped(strings.Join(lines, "\n")) + zipped("\n")),
	} {
		assert.Equal(t, want, text(t, log), name)
	}
	log := of(zipped(strings.Join(lines, "\n"))[:150])
	for _, err := range log.Records() {
		require.NoError(t, err)
	}
	assert.Equal(t, 1, log.Torn)
	for _, err := range of("\x1f\x8bx").Records() {
		require.ErrorContains(t, err, "a.log: line 0: ")
	}
}

// Calls without keys that run at once are told apart by when they began.
func TestCallsWithoutKeys(t *testing.T) {
	for name, options := range map[string]*slog.HandlerOptions{"own": nil, "DEBUG": {Level: slog.LevelDebug}, "INFO": {}} {
		var log bytes.Buffer
		synctest.Test(t, func(t *testing.T) {
			p := policy
			if p.OnEvent = retrylog.NewWriter(&log).OnEvent; options != nil {
				p.OnEvent = retrylog.Slog(slog.New(slog.NewJSONHandler(&log, options)))
			}
			var all sync.WaitGroup
			for i := range 50 {
				time.Sleep(10 * time.Millisecond)
				all.Go(func() {
					_ = retry.Do(context.Background(), p, func(context.Context) error { return fmt.Errorf("call %d", i) })
				})
			}
			all.Wait()
		})
		calls := text(t, of(strings.Split(log.String(), "\n")...))
		require.Len(t, calls, 50, name)
		for _, call := range calls {
			errs := regexp.MustCompile(`call \d+`).FindAllString(call, -1)
			assert.Len(t, slices.Compact(errs), 1, "the errors of one call:\n"+call)
		}
	}
}

// However many calls are open, and however long one is, a part of the log is held.
func TestBounds(t *testing.T) {
	line := func(key string, kind retry.EventKind, n int) string {
		return fmt.Sprintf(`{"key":%q,"kind":%q,"time":"2000-01-01T00:00:00Z","attempt":%d,"max":-1}`, key, kind, n)
	}
	for name, lines := range map[string]func(i int) string{
		"calls":   func(i int) string { return line(fmt.Sprint(i), retry.AttemptStarted, 1) },
		"no keys": func(int) string { return line("", retry.AttemptStarted, 1) },
		"a call":  func(i int) string { return line("a", retry.AttemptStarted, i+1) },
	} {
		var all []string
		for i := range 50_000 {
			all = append(all, lines(i))
		}
		log := of(all...)
		n, held := 0, 0
		log.Each = func(logfile.Record) {
			held++
			require.LessOrEqual(t, held, 40_001, name)
		}
		for c, err := range log.Calls() {
			require.NoError(t, err)
			n, held = n+len(c.Records), held-len(c.Records)
		}
		assert.Positive(t, log.Dropped, name)
		assert.Equal(t, 50_000, n, name)
	}
}

func FuzzLog(f *testing.F) {
	f.Add([]byte(`{"log":"{\"kind\"","stream":"a"}` + "\n" + `2026-11-22T10:00:00.1Z stdout P {"kind":"stopped"`))
	f.Add([]byte(`{"log":""}` + "\n" + `{"log":"\n"}` + "\n2026-11-22T10:00:00Z stdout F \n"))
	f.Add([]byte("x kind=stopped msg=\"gave up\" attempt=1 max=\"1 err=\"\\\n\x00{\"kind\":\"retry_scheduled\",\"attempt\":1,\"max\":1}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for c, err := range logfile.New(logfile.Open("a", bytes.NewReader(data)), logfile.Open("b", bytes.NewReader(data))).Calls() {
			if err == nil {
				call, _, _ := c.Replay()
				_ = call.Check(policy)
				_ = flowlog.Explain(c.Records)
			}
		}
	})
}
