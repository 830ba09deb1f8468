package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retrylog"
)

const logPolicy = "{max_attempts: 3, backoff: {type: exponential, base: 1s}, jitter: full}"

type fixedSource uint64

func (s fixedSource) Uint64() uint64 { return uint64(s) }

// writeLog returns the log of two calls. Call a fails twice and then succeeds,
// and call b fails three times.
func writeLog(t *testing.T) string {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.FullJitter, Source: fixedSource(42)}
		p.OnEvent = retrylog.NewWriter(&log).OnEvent
		for _, key := range []string{"a", "b"} {
			n := 0
			_ = retry.Do(retrylog.WithKey(t.Context(), key), p, func(context.Context) error {
				if n++; n < 3 || key == "b" {
					return errors.New("refused")
				}
				return nil
			})
		}
	})
	return log.String()
}

func TestExplain(t *testing.T) {
	log := writeLog(t)
	records, err := retrylog.Read(strings.NewReader(log))
	require.NoError(t, err)
	require.Len(t, records, 18)
	want := retrylog.Explain(records)
	assert.Equal(t, want, succeed(t, log, "explain"))
	assert.Equal(t, want, succeed(t, log, "explain", "-"))
	file := filepath.Join(write(t, map[string]string{"retries.log": log}), "retries.log")
	assert.Equal(t, want, succeed(t, "", "explain", file))
	assert.Equal(t, retrylog.Explain(records[9:]), succeed(t, log, "explain", "-key", "b"))

	// The complete lines are explained, and the incomplete one is reported with
	// its number.
	stdout, stderr, status := tool(log+`{"kind":"att`, "explain")
	assert.Equal(t, 1, status)
	assert.Equal(t, want, stdout)
	assert.Equal(t, "standard input:19: the log is cut off\n", stderr)
	stdout, stderr, status = tool("\n"+log+"{}\n"+log, "explain")
	assert.Equal(t, 1, status)
	assert.Equal(t, want, stdout)
	assert.True(t, strings.HasPrefix(stderr, "standard input:20: "), stderr)
	_, stderr, status = tool(log, "explain", "-key", "c")
	assert.Equal(t, 1, status)
	assert.Equal(t, "standard input:1: there is no event with the key \"c\"\n", stderr)
	_, stderr, status = tool("", "explain")
	assert.Equal(t, 1, status)
	assert.Equal(t, "standard input:1: there is no event\n", stderr)

	_, stderr, status = tool("", "explain", "nowhere.log")
	assert.Equal(t, 2, status)
	assert.True(t, strings.HasPrefix(stderr, "retry explain: open nowhere.log: "), stderr)
	_, stderr, status = tool("", "explain", "a", "b")
	assert.Equal(t, 2, status)
	assert.True(t, strings.HasPrefix(stderr, "retry explain: there are 2 files: write one\n"), stderr)
}

// On a terminal each event has a color: red for a failure, others for retries
// and successes.
func TestExplainColors(t *testing.T) {
	log := writeLog(t)
	plain := succeed(t, log, "explain")
	var out bytes.Buffer
	require.Zero(t, run(&streams{ctx: context.Background(), in: strings.NewReader(log), out: &out, err: io.Discard, colors: true}, []string{"explain"}))
	var colors []string
	uncolored := ""
	for line := range strings.Lines(out.String()) {
		color, rest, ok := strings.Cut(line, "m")
		require.True(t, ok && strings.HasSuffix(rest, "\x1b[0m\n"), line)
		colors = append(colors, strings.TrimPrefix(color, "\x1b["))
		uncolored += strings.TrimSuffix(rest, "\x1b[0m\n") + "\n"
	}
	assert.Equal(t, plain, uncolored)
	assert.Equal(t, "90 31 33 90 31 33 90 32 32 90 31 33 90 31 33 90 31 31", strings.Join(colors, " "))
}

func TestCheck(t *testing.T) {
	log := writeLog(t)
	const sound = "2 calls, 18 events: all as decided by 3 attempts, exponential 1s x2, full jitter\n"
	dir := write(t, map[string]string{
		"policy.yaml": logPolicy, "config.yaml": "services: {pay: {retry: " + logPolicy + "}}",
		"broken.yaml": "jitter: 2", "retries.log": log,
	})
	t.Chdir(dir)
	assert.Equal(t, sound, succeed(t, log, "check", "-policy", "policy.yaml"))
	assert.Equal(t, sound, succeed(t, "", "check", "-policy", "config.yaml", "-at=services.pay.retry", "retries.log"))
	assert.Equal(t, sound, succeed(t, logPolicy, "check", "-policy", "-", "retries.log"))
	assert.Equal(t, "1 call, 9 events: all as decided by 3 attempts, exponential 1s x2, full jitter\n",
		succeed(t, log, "check", "-policy", "policy.yaml", "-key", "a"))

	lines := strings.SplitAfter(log, "\n")
	for _, test := range []struct{ name, policy, log, want string }{
		{"another delay", "{max_attempts: 3, backoff: {type: exponential, base: 2s}, jitter: full}", log,
			`^standard input:3: .*\n2 calls, 18 events: 2 calls not as decided by 3 attempts, exponential 2s x2, full jitter\n$`},
		{"a later delay", "{max_attempts: 3, backoff: {type: linear, base: 1s}, jitter: full, max_delay: 1s}", log, `^standard input:6: .*\n.*: 2 calls not `},
		{"another limit", "{max_attempts: 4, backoff: {type: exponential, base: 1s}, jitter: full}", log, `^standard input:1: .*\n.*: 2 calls not `},
		{"one call of two", logPolicy, strings.Join(lines[:11], "") + strings.Replace(lines[11], `"seed":"`, `"seed":"9`, 1), `^standard input:12: .*\n2 calls, 12 events: 1 call not as decided by `},
		{"cannot have happened", logPolicy, strings.Join(lines[:9], "") + lines[10], `^standard input:10: .*cannot have happened.*\n1 call, 10 events: as far as it can be read, all as decided by `},
		{"cut off", logPolicy, strings.Join(lines[:12], "") + `{"kind":"`, `^standard input:13: the log is cut off\n2 calls, 12 events: as far as it can be read, all as decided by `},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, status := tool(test.log, "check", "-policy", filepath.Join(write(t, map[string]string{"p.yaml": test.policy}), "p.yaml"))
			assert.Equal(t, 1, status)
			assert.Empty(t, stderr)
			assert.Regexp(t, test.want, stdout)
		})
	}

	for _, test := range []struct {
		name, stdin, want string
		status            int
		args              []string
	}{
		{"not a log", "x\n", "standard input:1: ", 1, []string{"-policy", "policy.yaml"}},
		{"no events", "", "standard input:1: there is no event\n", 1, []string{"-policy", "policy.yaml"}},
		{"no such key", log, "standard input:1: there is no event with the key \"c\"\n", 1, []string{"-policy", "policy.yaml", "-key", "c"}},
		{"a policy with a fault", log, "broken.yaml:1: jitter is 2", 1, []string{"-policy", "broken.yaml"}},
		{"no policy", log, "retry check: there is no policy: write -policy ", 2, nil},
		{"no such policy", log, "retry check: open nowhere.yaml: ", 2, []string{"-policy", "nowhere.yaml"}},
		{"no such log", "", "retry check: open nowhere.log: ", 2, []string{"-policy", "policy.yaml", "nowhere.log"}},
		{"both standard input", log, "retry check: the policy and the log cannot both be standard input", 2, []string{"-policy", "-"}},
		{"unknown dialect", log, "retry check: -from is \"x\"", 2, []string{"-policy", "policy.yaml", "-from", "x"}},
		{"two logs", log, "retry check: there are 2 files", 2, []string{"-policy", "policy.yaml", "a", "b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, status := tool(test.stdin, append([]string{"check"}, test.args...)...)
			assert.Equal(t, test.status, status)
			assert.Empty(t, stdout)
			assert.True(t, strings.HasPrefix(stderr, test.want), stderr)
		})
	}
}

// The calls of a pipeline follow rules, so check compares only the others.
func TestCheckPipeline(t *testing.T) {
	plain, events := writeLog(t), bytes.Buffer{}
	synctest.Test(t, func(t *testing.T) {
		p := retryflow.Pipeline{
			Tasks:   []retryflow.Task{{Label: "fetch", Run: func(context.Context, retryflow.State) retryflow.Outcome { return retryflow.Outcome{} }}},
			OnEvent: retrylog.NewWriter(&events).OnPipelineEvent,
		}
		require.NoError(t, p.Run(retrylog.WithKey(t.Context(), "c"), nil))
	})
	const limit, fault = "max_attempts: 4", `task "fetch" is part of a pipeline, whose rules decide instead of a policy`
	for _, test := range []struct{ name, policy, log, want string }{
		{"alone", logPolicy, events.String(), "standard input:1: " + fault + "\n1 call, 3 events: none compared with 3 attempts, exponential 1s x2, full jitter\n"},
		{"with others", logPolicy, plain + events.String() + events.String(), "standard input:19: " + fault +
			"\n4 calls, 24 events: all except 2 calls of a pipeline as decided by 3 attempts, exponential 1s x2, full jitter\n"},
		{"with others that differ", limit, events.String() + plain, "standard input:1: " + fault +
			"\nstandard input:4: max is 3, and the policy says 4\n3 calls, 21 events: 2 calls not as decided by 4 attempts\n"},
		{"cut off", logPolicy, events.String() + plain + "{", "standard input:1: " + fault + "\nstandard input:22: the log is cut off" +
			"\n3 calls, 21 events: as far as it can be read, all except 1 call of a pipeline as decided by 3 attempts, exponential 1s x2, full jitter\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, status := tool(test.log, "check", "-policy", filepath.Join(write(t, map[string]string{"p.yaml": test.policy}), "p.yaml"))
			assert.Equal(t, 1, status)
			assert.Empty(t, stderr)
			assert.Equal(t, test.want, stdout)
		})
	}
	assert.Contains(t, succeed(t, plain+events.String(), "check", "-policy", filepath.Join(write(t, map[string]string{"p.yaml": logPolicy}), "p.yaml"), "-key", "a"),
		"1 call, 9 events: all as decided by ")
}

// slowReader takes a second for each read.
type slowReader struct{ r io.Reader }

func (s slowReader) Read(b []byte) (int, error) {
	time.Sleep(time.Second)
	return s.r.Read(b[:min(len(b), 1<<20)])
}

// On a terminal the progress of reading a long log is shown, and nothing for a
// short one.
func TestProgress(t *testing.T) {
	log := writeLog(t)
	long := strings.NewReader(strings.Repeat(log, 2<<20/len(log)+1))
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		require.Zero(t, run(&streams{ctx: context.Background(), in: slowReader{long}, out: io.Discard, err: &errs, shown: true}, []string{"explain"}))
		assert.Contains(t, errs.String(), "\r1 MiB read\r")
		assert.Regexp(t, "\r2 MiB read\r\x1b\\[K$", errs.String())

		p := &progress{r: slowReader{strings.NewReader(strings.Repeat("x", 3<<20))}, out: &errs, size: 4 << 20}
		_, err := p.Read(make([]byte, 1<<20))
		require.NoError(t, err)
		assert.True(t, strings.HasSuffix(errs.String(), "\r1 MiB read, 25%"), errs.String())
	})
	var errs bytes.Buffer
	require.Zero(t, run(&streams{ctx: context.Background(), in: strings.NewReader(log), out: io.Discard, err: &errs, shown: true}, []string{"explain"}))
	assert.Empty(t, errs.String())
}
