package logs_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/logs"
	"github.com/goretry/retry/retrylog"
)

var policy = retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.FullJitter}

// written is how one of our logs is written.
type written func(io.Writer) func(context.Context, retry.Event)

func own(w io.Writer) func(context.Context, retry.Event) { return retrylog.NewWriter(w).OnEvent }

// slogged is how slog writes a log, as JSON or text.
func slogged(text bool, level slog.Level, attrs ...slog.Attr) written {
	return func(w io.Writer) func(context.Context, retry.Event) {
		options := &slog.HandlerOptions{Level: level}
		if text {
			return retrylog.Slog(slog.New(slog.NewTextHandler(w, options).WithAttrs(attrs)))
		}
		return retrylog.Slog(slog.New(slog.NewJSONHandler(w, options).WithAttrs(attrs)))
	}
}

// logged returns the log of a call that fails twice, in virtual time.
func logged(t *testing.T, key string, how written) []string {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		p := policy
		p.OnEvent = how(&log)
		n := 0
		require.NoError(t, retry.Do(retrylog.WithKey(t.Context(), key), p, func(context.Context) error {
			time.Sleep(30 * time.Millisecond)
			if n++; n < 3 {
				return errors.New(`Get "http://x/?a=b c": {"code": 503} kind=x`)
			}
			return nil
		}))
	})
	return strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
}

// text is what a log says: its calls, and their events without their seeds.
func text(t *testing.T, log *logs.Files, source ...string) (calls []string) {
	require.NoError(t, log.Each(func(c *logs.Trace) {
		_, cut, fault := c.Compare(policy)
		require.Nil(t, fault)
		assert.Equal(t, c.Cut, cut)
		call := c.Key + ": " + cut + "\n"
		for _, r := range c.Records {
			from := r.Source
			assert.Equal(t, sourceOf(c), from)
			if len(source) > 0 {
				assert.Equal(t, source[0], from)
			}
			call += strings.Replace(retrylog.Explain([]retrylog.Record{r}), strings.TrimSpace(from+" "+r.Key), r.Key, 1)
		}
		calls = append(calls, call)
	}))
	return calls
}

// only returns the one call of a log.
func only(t *testing.T, log *logs.Files) (call *logs.Trace) {
	require.NoError(t, log.Each(func(c *logs.Trace) {
		require.Nil(t, call)
		call = c
	}))
	require.NotNil(t, call)
	return call
}

func sourceOf(c *logs.Trace) string {
	return c.Records[0].Source
}

func of(lines ...string) *logs.Files {
	return files(strings.NewReader(strings.Join(lines, "\n")))
}

func files(all ...io.Reader) *logs.Files {
	log := &logs.Files{}
	for _, in := range all {
		log.Add("a.log", in)
	}
	return log
}

// Whatever stands before or around a line, its event is read, and others are not.
func TestPrefixes(t *testing.T) {
	type row struct{ source, before, after string }
	rows := map[string]row{
		"kubectl --prefix":            {"pod/web-5d9c7b8f6-x2x9z/web", "[pod/web-5d9c7b8f6-x2x9z/web] ", ""},
		"kubectl --timestamps":        {"", "2026-11-22T10:00:00.123456789Z ", ""},
		"docker compose":              {"web-1", "web-1  | ", ""},
		"docker compose, with colors": {"web-1", "\x1b[36mweb-1  |\x1b[0m ", ""},
		"syslog, RFC 3164":            {"host web[1234]", "<34>Nov 22 10:00:00 host web[1234]: ", ""},
		"journalctl":                  {"host web[1234]", "Nov  2 10:00:00 host web[1234]: ", ""},
		"journalctl -o short-precise": {"host web[1234]", "Nov 22 10:00:00.123456 host web[1234]: ", ""},
		"journalctl -o short-iso":     {"host web[1234]", "2026-11-22T10:00:00+0000 host web[1234]: ", ""},
		"journalctl -o json":          {"node-1", "", ""},
		"Fluent Bit":                  {"web-1", "", ""},
		"syslog, RFC 5424":            {"host web 12", `<34>1 2026-11-22T10:00:00.003Z host web 12 ID47 [x@32473 iut="3" kind="y"] ` + "\ufeff", ""},
		"Windows":                     {"", "", "\r"},
		"Docker":                      {},
		"Docker, to journald":         {"node-1", "", ""},
		"journald, by syslog":         {"node-1", "", ""},
		"Fluent Bit, with a stream":   {},
		"Filebeat":                    {"web-1", "", ""},
		"Vector":                      {"web-1", "", ""},
		"CRI, kubectl --prefix":       {"pod/web-1/web", "[pod/web-1/web] 2026-11-22T10:00:00.1Z stderr F ", ""},
		"CRI":                         {"", "2026-11-22T10:00:00.1Z stdout F ", ""},
		"lines of others": {"", "", "\npanic: x\n" + `{"level":"INFO","msg":"scaling","kind":"Deployment","attempt":3,"max":"3"}` + "\n" +
			`{"ts":1,"message":"kind"}` + "\n2026/11/22 10:00:00 [DEBUG] GET http://x: retrying in 1s (4 left)\n2026/11/22 10:00:00 WARN retry err=refused in=1s\n{1} {} [] null\ntime=now level=INFO msg=served kind=fast path=/a\n\x00"},
	}
	for form, how := range map[string]written{
		"own": own, "JSON": slogged(false, slog.LevelDebug), "text": slogged(true, slog.LevelDebug),
		"JSON, with more": slogged(false, slog.LevelDebug, slog.Any("req", map[string]string{"kind": "x", "id": "{"})),
		"text, with more": slogged(true, slog.LevelDebug, slog.String("app", `a "b" c=d`)),
	} {
		lines := logged(t, "order 1", how)
		want := text(t, of(lines...))
		require.Len(t, want, 1, form)
		require.Contains(t, want[0], "order 1: attempt 3 succeeded")
		for name, row := range rows {
			t.Run(form+", "+name, func(t *testing.T) {
				var all []string
				for _, s := range lines {
					switch name {
					case "Docker":
						s = fmt.Sprintf(`{"log":%q,"stream":"stdout","time":"2026-11-22T10:00:00.1Z"}`, s+"\n")
					case "journalctl -o json":
						s = fmt.Sprintf(`{"__REALTIME_TIMESTAMP":"1795341600100000","_HOSTNAME":"node-1","_TRANSPORT":"stdout","MESSAGE":%q}`, s)
					case "Docker, to journald":
						s = fmt.Sprintf(`{"__CURSOR":"s=1","_HOSTNAME":"node-1","_TRANSPORT":"journal","CONTAINER_ID":"4f1","PRIORITY":"6","MESSAGE":%q}`, s)
					case "journald, by syslog":
						s = fmt.Sprintf(`{"_TRANSPORT":"syslog","MESSAGE":%q,"_HOSTNAME":"node-1"}`, s)
					case "Fluent Bit, with a stream":
						s = fmt.Sprintf(`{"date":1795341600.1,"stream":"stderr","_p":"F","log":%q}`, s)
					case "Filebeat":
						s = fmt.Sprintf(`{"@timestamp":"2026-11-22T10:00:00.1Z","log":{"offset":7,"file":{"path":"/x"}},"message":%q,"stream":"stdout",`+
							`"input":{"type":"container"},"agent":{"type":"filebeat","name":"x"},"kubernetes":{"pod":{"name":"x"},"host":"web-1"}}`, s)
					case "Vector":
						s = fmt.Sprintf(`{"file":"/x","kubernetes":{"pod_name":"web-1"},"message":%q,"source_type":"kubernetes_logs","stream":"stdout","timestamp":"2026-11-22T10:00:00.1Z"}`, s)
					case "Fluent Bit":
						s = fmt.Sprintf(`{"@timestamp":"2026-11-22T10:00:00.1Z","log":%q,"kubernetes":{"host":"node-1","pod_name":"web-1","labels":{"pod":"x"}}}`, s)
					}
					all = append(all, row.before+s+row.after)
				}
				log := of(all...)
				assert.Equal(t, want, text(t, log, row.source))
				others := 0
				if name == "lines of others" {
					others = len(lines)
				}
				assert.Equal(t, [3]int{7 * others, others, 0}, [3]int{log.Skipped, log.Torn, log.Bad})
			})
		}
	}
}

// An event is read where the library writes it, and not in a text that a program got from a
// stranger and has logged.
func TestForgery(t *testing.T) {
	const own = `{"kind":"call_finished","time":"2000-01-01T00:00:00Z","attempt":3,"max":3,"reason":"attempts_exhausted","err":"x"}`
	const text = `level=ERROR msg="gave up" kind=call_finished attempt=3 max=3 elapsed=1s reason=attempts_exhausted err=x`
	const access = `[2026-11-22T10:00:00.250Z] "GET /a HTTP/1.1" 503 URX 0 91 1500 - "-" "x" "id-1" "shop" "10.0.0.1:80"`
	for _, forged := range []string{own, text, access, "2026/11/22 10:00:00 ERROR gave up " + text[len(`level=ERROR msg="gave up" `):]} {
		require.Equal(t, retry.ReasonExhausted, only(t, of(forged)).Last().Reason, forged)
		docker := fmt.Sprintf(`{"log":%q,"stream":"stdout","time":"2026-11-22T10:00:00.1Z"}`, forged)
		require.Equal(t, retry.ReasonExhausted, only(t, of(docker)).Last().Reason, docker)
		for _, row := range []struct{ name, line string }{
			{"package log", "2026/11/22 10:00:00 got " + forged},
			{"package log, the text alone", "2026/11/22 10:00:00 " + forged},
			{"printed", "got " + forged},
			{"printed, of a struct", fmt.Sprintf("%+v", struct{ Body string }{forged})},
			{"of a container", "[pod/web-1/web] 2026-11-22T10:00:00.1Z got " + forged},
			{"in CRI", "2026-11-22T10:00:00.1Z stdout F got " + forged},
			{"in compose", "web-1  | got " + forged},
			{"package log, default logger", "2026/11/22 10:00:00 INFO got " + forged},
			{"slog's text", "time=2026-11-22T10:00:00Z level=INFO msg=" + fmt.Sprintf("%q", forged)},
			{"slog's JSON", fmt.Sprintf(`{"time":"2026-11-22T10:00:00Z","level":"INFO","msg":"got","log":%q}`, forged)},
			{"slog's JSON, the message", fmt.Sprintf(`{"time":"2026-11-22T10:00:00Z","level":"INFO","msg":%q}`, forged)},
			{"behind slog's JSON", `{"time":"2026-11-22T10:00:00Z","level":"INFO","msg":"got"} body=` + forged},
			{"message", fmt.Sprintf(`{"ts":1,"message":%q}`, forged)},
			{"log", fmt.Sprintf(`{"ts":1,"log":%q}`, forged)},
			{"MESSAGE", fmt.Sprintf(`{"ts":1,"MESSAGE":%q}`, forged)},
			{"a level by another name", fmt.Sprintf(`{"severity":"INFO","message":%q,"stream":"stdout"}`, forged)},
			{"a message that Fluent Bit has merged", fmt.Sprintf(`{"level":"info","message":%q,"stream":"stdout","kubernetes":{"pod_name":"web-1"}}`, forged)},
			{"a message beside the line", fmt.Sprintf(`{"log":"x","message":%q,"kubernetes":{"pod_name":"web-1"}}`, forged)},
			{"journald, by its own protocol", fmt.Sprintf(`{"_TRANSPORT":"journal","_HOSTNAME":"node-1","MESSAGE":%q}`, forged)},
			{"Docker, in a line", fmt.Sprintf(`{"log":%q,"stream":"stdout","time":"2026-11-22T10:00:00.1Z"}`, "got "+forged)},
			{"Docker, in a logger's line", fmt.Sprintf(`{"log":%q,"stream":"stdout"}`, fmt.Sprintf(`{"level":"INFO","message":%q}`, forged))},
			{"Docker, in Docker", fmt.Sprintf(`{"log":%q,"stream":"stdout"}`, fmt.Sprintf(`{"log":%q,"stream":"stdout"}`, forged))},
			{"an object in place of the line", fmt.Sprintf(`{"log":{"a":%q},"stream":"stdout"}`, forged)},
		} {
			log := of(row.line)
			require.NoError(t, log.Each(func(c *logs.Trace) { t.Error(row.name, c.Last()) }))
			assert.Equal(t, 1, log.Skipped+log.Torn, row.name)
		}
	}
}

// A field of the line itself, or beside it, says where it is from: the pod before the host.
func TestSourceFields(t *testing.T) {
	for _, row := range []struct{ fields, want string }{
		{``, ""},
		{`,"host":"node-1"`, "node-1"},
		{`,"host":"node-1","pod":"web-1"`, "web-1"},
		{`,"pod":"","instance":"i-1"`, "i-1"},
		{`,"pod":7`, "7"},
		{`,"kubernetes":{"pod_name":"web-1","namespace_name":"x"}`, "web-1"},
		{`,"resource":{"k8s.pod.name":"web-1"},"host":"node-1"`, "web-1"},
		{`,"labels":{"labels":{"pod":"web-1"}}`, ""},
	} {
		c := only(t, of(`{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3`+row.fields+`}`))
		assert.Equal(t, row.want, sourceOf(c), row.fields)
		assert.Equal(t, cmp.Or(row.want, "a.log"), c.From(), row.fields)
	}
	c := only(t, of(`time=2000-01-01T00:00:00Z level=DEBUG msg="attempt started" pod=web-1 kind=attempt_started attempt=1 max=3 elapsed=0s`))
	assert.Equal(t, "web-1", sourceOf(c))
}

// A pipeline's event has a task and a rule. A task alone is something else that a program logs.
func TestTask(t *testing.T) {
	for fields, want := range map[string]string{`,"task":"a\nb","rule":-1`: "task a; b: attempt 1 of 3 started", `,"task":"a"`: "attempt 1 of 3 started", `,"rule":1`: "attempt 1 of 3 started"} {
		c := only(t, of(`{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3`+fields+`}`))
		assert.Equal(t, "2000-01-01 00:00:00.000Z +0s "+want, c.Records[0].String())
		_, cut, fault := c.Compare(policy)
		require.Nil(t, fault)
		assert.Equal(t, strings.HasPrefix(want, "task"), cut == "it follows the rules of a pipeline", cut)
	}
}

// A line without a time has that of its prefix, or of the wait that it announces.
func TestTimes(t *testing.T) {
	defer func(local *time.Location) { time.Local = local }(time.Local)
	time.Local = time.FixedZone("", 3600) // which Go's package log writes
	const without = `level=WARN msg="retry scheduled" kind=retry_scheduled attempt=1 max=3 elapsed=0s delay=1s due=2026-11-22T10:00:01.5Z err=x`
	for _, row := range []struct{ line, want string }{
		{without, "10:00:00.5"},
		{"2026-11-22T11:00:00.25+01:00 " + without, "10:00:00.25"},
		{"web-1 | 2026-11-22T10:00:00.25Z " + strings.Replace(without, " due=2026-11-22T10:00:01.5Z", "", 1), "10:00:00.25"},
		{"2026/11/22 10:00:00 WARN retry scheduled key=a kind=retry_scheduled attempt=1 max=3 elapsed=0s delay=1s due=2026-11-22T09:00:01.25Z err=x", "09:00:00"},
	} {
		e := only(t, of(row.line)).Last()
		assert.Equal(t, row.want, e.Time.UTC().Format("15:04:05.999"), row.line)
		assert.WithinDuration(t, e.Time.Add(time.Second), e.Due, time.Second, row.line)
	}
	_, cut, fault := only(t, of(`level=ERROR msg="gave up" kind=call_finished attempt=1 max=3 elapsed=0s reason=deadline err=x`)).Compare(policy)
	require.Nil(t, fault)
	assert.Equal(t, "its lines have no time", cut)
}

// Files are one log in the order of time, also where a call goes on in another.
func TestFiles(t *testing.T) {
	lines := logged(t, "a", own)
	want := text(t, of(lines...))
	join := func(lines []string) io.Reader { return strings.NewReader(strings.Join(lines, "\n")) }
	assert.Equal(t, want, text(t, files(join(lines[4:]), join(lines[:4]))))
	err := files(join(lines), iotest.ErrReader(errors.New("disk"))).Each(func(*logs.Trace) {})
	require.EqualError(t, err, "a.log: line 1: disk")
}

// A sourced writer writes lines that a prefix says the source of to a log that others
// write too.
type sourced struct {
	io.Writer
	log    *sync.Mutex
	prefix string
}

func (w sourced) Write(line []byte) (int, error) {
	w.log.Lock()
	defer w.log.Unlock()
	return io.WriteString(w.Writer, w.prefix+string(line))
}

// Calls that run at once are told apart by when they began if they have no keys, and by
// their sources if they have the same key.
func TestCallsAtOnce(t *testing.T) {
	for _, row := range []struct {
		name, key, prefix string
		how               written
	}{
		{"own", "", "", own}, {"DEBUG", "", "", slogged(false, slog.LevelDebug)}, {"INFO", "", "", slogged(false, slog.LevelInfo)},
		{"pods", "a", "[pod/web-%d/web] ", own}, {"services at INFO", "a", "web-%d | ", slogged(true, slog.LevelInfo)}, {"without keys", "", "web-%d | ", own},
	} {
		var log bytes.Buffer
		synctest.Test(t, func(t *testing.T) {
			var all sync.WaitGroup
			var mu sync.Mutex
			for i := range 50 {
				time.Sleep(10 * time.Millisecond)
				all.Go(func() {
					p := policy
					p.OnEvent = row.how(sourced{&log, &mu, strings.ReplaceAll(row.prefix, "%d", fmt.Sprint(i))})
					err := fmt.Errorf("call %d", i)
					if row.prefix != "" && i%2 > 0 {
						err = retry.Permanent(err) // so that its end could be that of a call elsewhere
					}
					_ = retry.Do(retrylog.WithKey(t.Context(), row.key), p, func(context.Context) error { return err })
				})
			}
			all.Wait()
		})
		calls := text(t, of(strings.Split(log.String(), "\n")...))
		require.Len(t, calls, 50, row.name)
		for _, call := range calls {
			errs := regexp.MustCompile(`call \d+`).FindAllString(call, -1)
			assert.Len(t, slices.Compact(errs), 1, "the errors of one call:\n"+call)
		}
	}
	// The next attempt of a job may be made elsewhere.
	for last, how := range map[int]written{3: own, 1: slogged(false, slog.LevelInfo)} {
		lines := logged(t, "a", how)
		for i := range lines {
			lines[i] = "web-1 | " + lines[i]
			if i >= len(lines)-last {
				lines[i] = strings.Replace(lines[i], "1", "2", 1)
			}
		}
		c := only(t, of(lines...))
		assert.Len(t, c.Records, len(lines))
		assert.Contains(t, c.Records[0].String(), " web-1 a: ")
	}
}

// However many calls are open, and however long one is, a part of the log is held.
func TestBounds(t *testing.T) {
	for line, most := range map[string]int{`"key":"%[1]d","attempt":1`: 20_001, `"attempt":1`: 201, `"key":"a","attempt":1%05[1]d`: 20_001} {
		var all []string
		for i := range 50_000 {
			all = append(all, fmt.Sprintf(`{"kind":"attempt_started","time":"2000-01-01T00:00:00.%05[1]dZ","max":-1,`+line+`}`, i))
		}
		log := of(all...)
		n := 0
		require.NoError(t, log.Each(func(c *logs.Trace) {
			require.LessOrEqual(t, log.Events-n, most, line)
			n += len(c.Records)
		}))
		assert.Positive(t, log.Dropped, line)
		assert.Equal(t, 50_000, n, line)
	}
}

// However long the texts of open calls are, a part of the log is held.
func TestBoundsInBytes(t *testing.T) {
	const started, failed = `{"key":"%d%s","kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":4}`,
		`{"key":"%d%s","kind":"attempt_finished","time":"2000-01-01T00:00:00Z","attempt":1,"max":4,"err":"%s"}`
	const text = `level=DEBUG msg="attempt started" pad=%[2]s key=%[1]d kind=attempt_started attempt=1 max=3 elapsed=0s`
	long := strings.Repeat("x", 1<<20)
	for _, row := range []struct {
		name    string
		calls   int
		line    func(i int) string
		dropped bool
	}{
		{"errors", 50, func(i int) string {
			return fmt.Sprintf(started, i, "") + "\n" + fmt.Sprintf(failed, i, "", long)
		}, false},
		{"keys", 50, func(i int) string { return fmt.Sprintf(started, i, long) }, false},
		{"many keys and errors", 5000, func(i int) string { return fmt.Sprintf(failed, i, long[:4000], long[:4000]) }, true},
		{"lines of text", 50, func(i int) string { return fmt.Sprintf(text, i, long) }, false},
		{"a line of many events", 1, func(int) string { return strings.Repeat(fmt.Sprintf(started, 1, ""), 50_000) }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			in, out := io.Pipe()
			go func() {
				for i := range row.calls {
					_, _ = io.WriteString(out, row.line(i)+"\n")
				}
				_ = out.Close()
			}()
			log, calls, held := files(in), 0, uint64(0)
			require.NoError(t, log.Each(func(c *logs.Trace) {
				if calls++; calls == 1 { // all that are open
					var memory runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&memory)
					held = memory.HeapAlloc
				}
				assert.LessOrEqual(t, len(c.Key), 5000)
				if err := c.Last().Err; err != nil {
					assert.LessOrEqual(t, len(err.Error()), 5000)
				}
			}))
			assert.Less(t, held, uint64(40<<20))
			assert.Equal(t, row.dropped, log.Dropped > 0)
			assert.GreaterOrEqual(t, calls, row.calls)
		})
	}
}

// An event of which a value cannot be read, because the log was read in another encoding, is
// counted, and no line that is cut off.
func TestUnreadable(t *testing.T) {
	const own = `{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3,"elapsed":"30%s"}`
	const text = `level=DEBUG msg="attempt started" kind=attempt_started attempt=1 max=3 elapsed=30%s`
	for _, line := range []string{own, text, `{"level":"DEBUG","msg":"attempt started",` + own[1:]} {
		assert.Len(t, only(t, of(fmt.Sprintf(line, "\u00b5s"))).Records, 1)
		for _, unit := range []string{"\u00c2\u00b5s", "\xb5s", "\ufffds", "\u252c\u00e1s"} {
			log := of(fmt.Sprintf(line, unit))
			require.NoError(t, log.Each(func(*logs.Trace) { t.Error(unit) }))
			assert.Equal(t, [3]int{1, 0, 1}, [3]int{log.Skipped, log.Torn, log.Bad}, line)
			assert.ErrorContains(t, log.First.Err, "elapsed is ")
		}
	}
	log := of(fmt.Sprintf(text, ""))
	require.NoError(t, log.Each(func(*logs.Trace) { t.Error("it is cut off") }))
	assert.Equal(t, [3]int{0, 1, 0}, [3]int{log.Skipped, log.Torn, log.Bad})
}

// Which file has its newest line first. Lines that change places do not make it so.
func TestNewestFirst(t *testing.T) {
	lines := func(seconds ...int) io.Reader {
		log := ""
		for _, second := range seconds {
			log += fmt.Sprintf(`{"kind":"call_finished","time":"2000-01-01T00:00:%02dZ","attempt":1,"max":3,"reason":"success"}`, second) + "\n"
		}
		return strings.NewReader(log)
	}
	for _, row := range []struct {
		name  string
		files []io.Reader
		want  string
	}{
		{"none", nil, ""},
		{"one line", []io.Reader{lines(1)}, ""},
		{"in order", []io.Reader{lines(1, 2, 3, 4, 5)}, ""},
		{"at the same time", []io.Reader{lines(1, 1, 1, 1, 1)}, ""},
		{"two lines that changed places", []io.Reader{lines(2, 1)}, ""},
		{"two pods, one after the other", []io.Reader{lines(4, 5, 1, 2)}, ""},
		{"reversed, three lines", []io.Reader{lines(3, 2, 1)}, "a.log"},
		{"reversed, with some at the same time", []io.Reader{lines(3, 3, 2, 2, 1)}, "a.log"},
		{"reversed, with lines that changed places", []io.Reader{lines(9, 8, 6, 7, 5, 4)}, "a.log"},
		{"the second file", []io.Reader{lines(1, 2, 3), lines(3, 2, 1)}, "a.log"},
	} {
		log := files(row.files...)
		require.NoError(t, log.Each(func(*logs.Trace) {}))
		assert.Equal(t, row.want, log.NewestFirst(), row.name)
	}
}

// A line of 4 MiB is read in time that is linear in its length: no step copies the rest of it.
// A copy of it for each of 700,000 words would be more than 1 TB, and one for each of 9,990 objects
// within each other would be 40 GB.
func TestLongLine(t *testing.T) {
	nested := func(key, end string, depth int) string {
		return strings.Repeat(`{"stream":"stdout",`+key, depth) + `"` + strings.Repeat("x", 3<<20) + `"` + strings.Repeat("}"+end, depth)
	}
	quoted := strings.Repeat("x", 1<<20)
	for range 12 {
		quoted = fmt.Sprintf(`{"stream":"stdout","log":%q}`, quoted)
	}
	for _, line := range []string{nested(`"log":`, "", 9990), nested(`"kubernetes":`, "", 9990), nested(`"log":[`, "]", 4990), quoted} {
		require.Equal(t, len(line) > 3<<20, line != quoted)
		assert.Less(t, allocated(t, line), uint64(200<<20), line[:30])
	}
	for _, word := range []string{`{"labels":`, `"pod":"x",`, `[2026-11-22T10:00:00Z] "`, `x="" `, `x=1 `, `level=x `, `x="\"" `, `key="a" `, `{"kind": `} {
		line := strings.Repeat(word, (4<<20)/len(word)-100) + `level=WARN msg="attempt started" kind=attempt_started attempt=1 max=3 elapsed=0s`
		assert.Less(t, allocated(t, line), uint64(200<<20), word)
	}
}

// allocated returns how many bytes are allocated to read a line.
func allocated(t *testing.T, line string) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, of(line).Each(func(*logs.Trace) {}))
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The line behind one that is about as long as a line may be is read.
func TestBehindALongLine(t *testing.T) {
	const most, buffer = 4 << 20, 64 << 10
	for _, length := range []int{most - 1, most, most + 1, most + buffer - 1, most + buffer, most + buffer + 1, 2 * most} {
		c := only(t, of(strings.Repeat("x", length), `{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}`))
		assert.Len(t, c.Records, 1, length)
	}
}

func FuzzLog(f *testing.F) {
	f.Add([]byte(`{"log":"{\"kind\"","stream":"a"}` + "\n" + `2026-11-22T10:00:00.1Z stdout P {"kind":"call_finished"`))
	f.Add([]byte(`{"log":""}` + "\n" + `{"log":"\n"}` + "\n2026-11-22T10:00:00Z stdout F \n"))
	f.Add([]byte(`{"MESSAGE":"{\"kind\":1}","labels":{"pod":"a"}}` + "\n" + `{"start_time":"2026-11-22T10:00:00Z","response_flags":"URX","duration":1e9,"attempts":-1}`))
	f.Add([]byte("x kind=call_finished msg=\"gave up\" attempt=1 max=\"1 err=\"\\\n\x00{\"kind\":\"retry_scheduled\",\"attempt\":1,\"max\":1}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = files(bytes.NewReader(data), bytes.NewReader(data)).Each(func(c *logs.Trace) {
			_, _, _ = c.Compare(policy)
		})
	})
}
