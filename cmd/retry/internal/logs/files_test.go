package logs_test

import (
	"bytes"
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

// written returns the OnEvent that writes a log.
type written func(io.Writer) func(context.Context, retry.Event)

func own(w io.Writer) func(context.Context, retry.Event) { return retrylog.NewWriter(w).OnEvent }

// slogged writes a log with slog, as JSON or text.
func slogged(text bool, level slog.Level) written {
	return func(w io.Writer) func(context.Context, retry.Event) {
		options := &slog.HandlerOptions{Level: level}
		if text {
			return retrylog.Slog(slog.New(slog.NewTextHandler(w, options)))
		}
		return retrylog.Slog(slog.New(slog.NewJSONHandler(w, options)))
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

// text returns the calls of a log as text, with their events, but without seeds.
func text(t *testing.T, log *logs.Files) (calls []string) {
	require.NoError(t, log.Each(func(c *logs.Trace) {
		_, cut, fault := c.Compare(policy)
		require.Nil(t, fault)
		assert.Equal(t, c.Cut, cut)
		call := c.Key + ": " + cut + "\n"
		for _, r := range c.Records {
			from := r.Source
			assert.Equal(t, sourceOf(c), from)
			call += strings.Replace(retrylog.Explain([]retrylog.Record{r}), strings.TrimSpace(from+" "+r.Key), r.Key, 1)
		}
		calls = append(calls, call)
	}))
	return calls
}

// The function `only` returns the only call in a log.
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

// A line of Envoy's access log inside a text that a program logged is not a call. A stranger may
// have sent the text.
func TestForgery(t *testing.T) {
	const access = `[2026-11-22T10:00:00.250Z] "GET /a HTTP/1.1" 503 URX 0 91 1500 - "-" "x" "id-1" "shop" "10.0.0.1:80"`
	docker := func(line string) string { return fmt.Sprintf(`{"log":%q,"stream":"stdout"}`, line) }
	logger := func(line string) string { return fmt.Sprintf(`{"level":"INFO","message":%q}`, line) }
	for _, line := range []string{access, docker(access), "web-1 | " + access} {
		require.Equal(t, retry.ReasonExhausted, only(t, of(line)).Last().Reason, line)
	}
	for _, line := range []string{
		"got " + access, "2026/11/22 10:00:00 " + access, docker("got " + access), logger(access),
		docker(logger(access)), docker(docker(access)), fmt.Sprintf(`{"log":{"a":%q},"stream":"stdout"}`, access),
	} {
		log := of(line)
		require.NoError(t, log.Each(func(c *logs.Trace) { t.Error(line, c.Last()) }))
		assert.Equal(t, 1, log.Skipped, line)
	}
}

// The source of a call is the source of its first event. If this event has no source, it is the
// file.
func TestSourceIsTheFirstSourceOrTheFile(t *testing.T) {
	const line = `{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}`
	for prefix, want := range map[string]string{"": "a.log", "web-1  | ": "web-1"} {
		c := only(t, of(prefix+line))
		assert.Equal(t, want, c.From())
		assert.Equal(t, "a.log", c.File())
	}
}

// A call that cannot be compared with a policy says why.
func TestCallThatCannotBeComparedSaysWhy(t *testing.T) {
	for line, want := range map[string]string{
		`{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3,"task":"a","rule":-1}`:             "a pipeline decided its retries",
		`level=ERROR msg="gave up" kind=call_finished attempt=1 max=3 elapsed=0s reason=deadline err=x`:                 "its lines have no time",
		`[2026-11-22T10:00:00.250Z] "GET /a HTTP/1.1" 503 URX 0 91 1500 - "-" "x" "id-1" "shop" "10.0.0.1:80"`:          "an access log has no decisions",
		`{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}`:                                  "the log lacks its end",
		`{"kind":"attempt_fin` + "\n" + `{"kind":"attempt_finished","time":"2000-01-01T00:00:00Z","attempt":2,"max":3}`: "the log lacks its start",
	} {
		by, cut, fault := only(t, of(line)).Compare(policy)
		require.Nil(t, fault)
		assert.Empty(t, by)
		assert.Equal(t, want, cut)
	}
}

// A fault names the file of its event, even if the call continues in another file.
func TestFaultNamesTheFileOfItsEvent(t *testing.T) {
	log := &logs.Files{}
	log.Add("a.log", strings.NewReader(`{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}`))
	log.Add("b.log", strings.NewReader("web-1 | \n"+`{"kind":"attempt_finished","time":"2000-01-01T00:00:01Z","attempt":1,"max":3,"elapsed":"1s","took":"-1s"}`))
	_, _, fault := only(t, log).Compare(policy)
	require.NotNil(t, fault)
	assert.Equal(t, "b.log", fault.File)
	assert.Equal(t, 2, fault.Line)
	assert.ErrorContains(t, fault.Err, "took is -1s")
}

// Files are merged by time, and a call may continue in another file.
func TestFilesAreMergedByTime(t *testing.T) {
	lines := logged(t, "a", own)
	want := text(t, of(lines...))
	join := func(lines []string) io.Reader { return strings.NewReader(strings.Join(lines, "\n")) }
	assert.Equal(t, want, text(t, files(join(lines[4:]), join(lines[:4]))))
	err := files(join(lines), iotest.ErrReader(errors.New("disk"))).Each(func(*logs.Trace) {})
	require.EqualError(t, err, "a.log: line 1: disk")
}

// A sourced writer puts the source as a prefix before each line. Several writers can write to the same
// log.
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

// Calls that run at the same time are told apart. Without keys, their starts differ. With the same key,
// their sources differ.
func TestCallsAtTheSameTimeAreToldApart(t *testing.T) {
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
						err = retry.Permanent(err) // the last event of such a call could also end another call
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
	// Another process may make the next attempt of a job.
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

// Files keep a bounded number of events, however many calls are open, and however long a call is.
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

// Files keep a bounded number of bytes, however long the texts of open calls are.
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
				if calls++; calls == 1 { // all calls are still open
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

// An event with an unreadable value is counted as unreadable, not as cut off. A value is
// unreadable, for example, if the log is in another encoding.
func TestUnreadableEventsAreCounted(t *testing.T) {
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

// NewestFirst finds a file whose lines are reversed. A file in which some lines changed places is
// not reversed.
func TestNewestFirstFindsAReversedFile(t *testing.T) {
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
