package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/flowlog"
	"github.com/goretry/retry/retrylog"
)

const logPolicy = "{max_attempts: 3, backoff: {type: exponential, base: 1s}, jitter: full}"

// writeLog returns the log of two calls. Call a fails twice and then succeeds,
// and call b fails three times.
func writeLog(t *testing.T) string {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.FullJitter, Source: func() uint64 { return 42 }}
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
	const sound = "all as decided by 3 attempts, exponential 1s x2, full jitter\n2 calls: 2 checked, 0 skipped, 0 stopped by code\n"
	dir := write(t, map[string]string{
		"policy.yaml": logPolicy, "config.yaml": "services: {pay: {retry: " + logPolicy + "}}",
		"broken.yaml": "jitter: 2", "retries.log": log,
	})
	t.Chdir(dir)
	assert.Equal(t, sound, succeed(t, log, "check", "-policy", "policy.yaml"))
	assert.Equal(t, sound, succeed(t, "", "check", "-policy", "config.yaml", "-at=services.pay.retry", "retries.log"))
	assert.Equal(t, sound, succeed(t, logPolicy, "check", "-policy", "-", "retries.log"))
	assert.Equal(t, "all as decided by 3 attempts, exponential 1s x2, full jitter\n1 call: 1 checked, 0 skipped, 0 stopped by code\n",
		succeed(t, log, "check", "-policy", "policy.yaml", "-key", "a"))

	lines := strings.SplitAfter(log, "\n")
	for _, test := range []struct{ name, policy, log, want string }{
		{"another delay", "{max_attempts: 3, backoff: {type: exponential, base: 2s}, jitter: full}", log,
			`^standard input:3: .*\n2 calls not as decided by 3 attempts, exponential 2s x2, full jitter\n2 calls: 2 checked, 0 skipped, 0 stopped by code\n$`},
		{"a later delay", "{max_attempts: 3, backoff: {type: linear, base: 1s}, jitter: full, max_delay: 1s}", log, `^standard input:6: .*\n2 calls not `},
		{"another limit", "{max_attempts: 4, backoff: {type: exponential, base: 1s}, jitter: full}", log, `^standard input:1: .*\n2 calls not `},
		{"one call of two", logPolicy, strings.Join(lines[:9], "") + strings.ReplaceAll(strings.Join(lines[9:12], ""), `"max":3`, `"max":4`), `^standard input:10: .*\n1 call not as decided by .*\n2 calls: 2 checked, `},
		{"cannot have happened", logPolicy, strings.Join(lines[:9], "") + lines[10], `^standard input:10: .*cannot have happened.*\nas far as it can be read, all as decided by .*\n1 call: `},
		{"cut off", logPolicy, strings.Join(lines[:12], "") + `{"kind":"`, `^standard input:13: the log is cut off\nas far as it can be read, all as decided by .*\n2 calls: `},
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

// checked runs check on a log with a policy, which must print this.
func checked(t *testing.T, policy, log, want string, status int) {
	t.Helper()
	file := filepath.Join(write(t, map[string]string{"p.yaml": policy}), "p.yaml")
	stdout, stderr, got := tool(log, "check", "-policy", file)
	assert.Equal(t, want, stdout)
	assert.Empty(t, stderr)
	assert.Equal(t, status, got)
}

// The calls of a pipeline follow rules, so check compares only the others.
func TestCheckPipeline(t *testing.T) {
	plain, events := writeLog(t), bytes.Buffer{}
	synctest.Test(t, func(t *testing.T) {
		p := retryflow.Pipeline{
			Tasks:   []retryflow.Task{{Label: "fetch", Run: func(context.Context, retryflow.State) retryflow.Outcome { return retryflow.Outcome{} }}},
			OnEvent: flowlog.NewWriter(&events).OnPipelineEvent,
		}
		require.NoError(t, p.Run(retrylog.WithKey(t.Context(), "c"), nil))
	})
	assert.Contains(t, succeed(t, events.String(), "explain"), "task fetch: ")
	const by = "by 3 attempts, exponential 1s x2, full jitter\n"
	for _, test := range []struct {
		name, policy, log, want string
		status                  int
	}{
		{"alone", logPolicy, events.String(), "none compared with 3 attempts, exponential 1s x2, full jitter\n1 call: 0 checked, 1 skipped, 0 stopped by code\n", 1},
		{"with others", logPolicy, plain + events.String() + events.String(), "all as decided " + by + "4 calls: 2 checked, 2 skipped, 0 stopped by code\n", 0},
		{"with others that differ", "max_attempts: 4", events.String() + plain,
			"standard input:4: max is 3, and the policy says 4\n2 calls not as decided by 4 attempts\n3 calls: 2 checked, 1 skipped, 0 stopped by code\n", 1},
		{"cut off", logPolicy, events.String() + plain + "{",
			"standard input:22: the log is cut off\nas far as it can be read, all as decided " + by + "3 calls: 2 checked, 1 skipped, 0 stopped by code\n", 1},
	} {
		t.Run(test.name, func(t *testing.T) { checked(t, test.policy, test.log, test.want, test.status) })
	}
}

// A program may add functions to the policy of a file. What they decided is counted,
// and is no fault.
func TestCheckCode(t *testing.T) {
	const policy = "{max_attempts: 3, backoff: {type: fixed, base: 1m}}"
	failure := errors.New("refused")
	for _, test := range []struct {
		name string
		add  func(p *retry.Policy)
		err  error
		want string
	}{
		{"nothing", func(*retry.Policy) {}, failure, "1 checked, 0 skipped, 0"},
		{"RetryIf", func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } }, failure, "0 checked, 0 skipped, 1"},
		{"Permanent", func(*retry.Policy) {}, retry.Permanent(failure), "0 checked, 0 skipped, 1"},
		{"After", func(*retry.Policy) {}, retry.After(time.Hour, failure), "1 checked, 0 skipped, 0"},
		{"a class that stops", func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class {
				return &retry.Class{Policy: &retry.Policy{NonRetryable: true}, Cause: failure}
			}
		}, failure, "0 checked, 0 skipped, 1"},
		{"a class with delays of its own", func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class {
				return &retry.Class{Name: "slow", Policy: &retry.Policy{Backoff: retry.Fixed(time.Hour)}}
			}
		}, failure, "0 checked, 1 skipped, 0"},
		{"Wait", func(p *retry.Policy) {
			p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, nil }
		}, failure, "1 checked, 0 skipped, 0"},
		{"Wait that fails", func(p *retry.Policy) {
			p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, failure }
		}, failure, "0 checked, 0 skipped, 1"},
		{"Budget", func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 1} }, failure, "1 checked, 0 skipped, 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log, lines bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				var p retry.Policy
				require.NoError(t, yaml.Unmarshal([]byte(policy), &p))
				test.add(&p)
				write, slogger := retrylog.NewWriter(&log), retrylog.Slog(slog.New(slog.NewJSONHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug})))
				p.OnEvent = func(ctx context.Context, e retry.Event) { write.OnEvent(ctx, e); slogger(ctx, e) }
				require.Error(t, retry.Do(t.Context(), p, func(context.Context) error { return test.err }))
			})
			want, status := "all as decided by 3 attempts, fixed 1m0s\n1 call: "+test.want+" stopped by code\n", 0
			if strings.Contains(test.want, "1 skipped") {
				want, status = strings.Replace(want, "all as decided by", "none compared with", 1), 1
			}
			checked(t, policy, log.String(), want, status)
			checked(t, policy, lines.String(), want, status)
			assert.Equal(t, succeed(t, log.String(), "explain"), succeed(t, lines.String(), "explain"))
		})
	}
}

func TestCheckCounts(t *testing.T) {
	line, _, _ := strings.Cut(writeLog(t), "\n")
	checked(t, logPolicy, strings.Repeat(line+"\n", 1234), "all as decided by 3 attempts, exponential 1s x2, full jitter\n"+
		"1,234 calls: 1,234 checked, 0 skipped, 0 stopped by code\n", 0)
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
