package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/preview"
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

// The numbers of writeLog's two calls.
const numbers = `2 calls, 1 gave up, from 2000-01-01 00:00:00Z to 2000-01-01 00:00:02Z.
1 succeeded, 0 canceled, 0 without an end in the log.
2 calls had 4 retries. The longest wait was 741.564879ms (2000-01-01 00:00:00Z, a).
Budgets denied a retry to 0 calls.

CALLS  REASON              CLASS  COMMONEST ERROR
1      attempts_exhausted  -      refused (1)

Gave up in each minute:
2000-01-01 00:00Z  ######################################## 1
`

// From a file the numbers come first, and from a pipe they come last.
func TestExplain(t *testing.T) {
	log := writeLog(t)
	records, err := retrylog.Read(strings.NewReader(log))
	require.NoError(t, err)
	require.Len(t, records, 18)
	a, b := retrylog.Explain(records[:9]), retrylog.Explain(records[9:])
	failed := strings.Replace(b, "is left of 3\n", "is left of 3: refused\n", 1) // each line of it has its cause
	assert.Equal(t, a+b+"\n"+numbers, succeed(t, log, "explain"))
	assert.Equal(t, a+b+"\n"+numbers, succeed(t, log, "explain", "-"))
	t.Chdir(write(t, map[string]string{"a.log": log, "bad.log": "x\n" + log + `{"kind":"att`}))
	assert.Equal(t, numbers+"\n"+a+b, succeed(t, "", "explain", "a.log"))
	assert.Equal(t, numbers+"\n"+failed, succeed(t, "", "explain", "-failed", "a.log"))
	assert.Equal(t, failed+"\n"+numbers, succeed(t, log, "explain", "-failed"))
	assert.Contains(t, succeed(t, strings.ReplaceAll(log, "{", "web-1 | {"), "explain"), "Z +0s web-1 b: attempt 1 of 3 started\n")

	only := strings.NewReplacer("2 calls, 1", "1 call, 1", "00:00:00Z to", "00:00:01Z to", "1 succeeded", "0 succeeded", "2 calls had 4", "1 call had 2", "00:00:00Z, a", "00:00:01Z, b").Replace(numbers)
	for _, key := range []string{"b", "b*"} {
		assert.Equal(t, only+"\n"+b, succeed(t, "", "explain", "-key", key, "a.log"))
		assert.Equal(t, b+"\n"+only, succeed(t, log, "explain", "-key", key))
	}
	assert.Equal(t, numbers+"\n"+a+b, succeed(t, "", "explain", "-key", "*", "a.log"))
	assert.Equal(t, only+"\n"+b, succeed(t, "", "explain", "-since", "2000-01-01T00:00:02Z", "a.log"))
	assert.Equal(t, strings.Replace(numbers, "calls.\n\n", "calls.\nSkipped 1 line of something else.\nCut off: 1 line.\n\n", 1)+"\n"+a+b, succeed(t, "", "explain", "bad.log"))
}

// What explain and check refuse. They read logs in the same way.
func TestNoLog(t *testing.T) {
	t.Chdir(write(t, map[string]string{"a.log": writeLog(t), "foreign.log": "x\ny\n", "policy.yaml": logPolicy, "broken.yaml": "jitter: 2"}))
	const none, check = "there is no call that -key and -since select\n", "check -policy policy.yaml "
	for _, test := range []struct {
		args, want string
		status     int
	}{
		{"explain -key c a.log", "a.log:1: " + none, 1},
		{"explain -since 1h a.log", "a.log:1: " + none, 1},
		{"explain", "standard input:1: there is no event\n", 1},
		{"explain foreign.log", "foreign.log:1: there is no event of a retry in 2 lines\n", 1},
		{"explain nowhere.log", "retry explain: open nowhere.log: ", 2},
		{"explain a.log nowhere.log", "retry explain: open nowhere.log: ", 2},
		{"explain -since noon a.log", `retry explain: invalid value "noon" for flag -since: write a duration such as 90m, or a time such as `, 2},
		{"explain -f a.log a.log", "retry explain: -f follows one file: write one\n", 2},
		{"explain -f", "retry explain: -f follows one file: write one\n", 2},
		{check + "foreign.log", "foreign.log:1: there is no event of a retry in 2 lines\n", 1},
		{check + "-key c a.log", "a.log:1: " + none, 1},
		{"check -policy broken.yaml a.log", "broken.yaml:1: jitter is 2", 1},
		{"check a.log", "retry check: there is no policy: write -policy ", 2},
		{"check -policy nowhere.yaml a.log", "retry check: open nowhere.yaml: ", 2},
		{check + "nowhere.log", "retry check: open nowhere.log: ", 2},
		{"check -policy -", "retry check: the policy and the log cannot both be standard input", 2},
		{check + "-from x a.log", "retry check: invalid value \"x\" for flag -from", 2},
	} {
		_, stderr, status := tool("", strings.Fields(test.args)...)
		assert.Equal(t, test.status, status, test.args)
		assert.True(t, strings.HasPrefix(stderr, test.want), stderr)
	}
}

// For programs both orders have the same keys.
func TestExplainJSON(t *testing.T) {
	log := writeLog(t)
	t.Chdir(write(t, map[string]string{"a.log": log}))
	const want = `{"calls": 2, "succeeded": 1, "gave_up": 1, "canceled": 0, "without_end": 0, "without_key": 0, "retried": 2, "retries": 4, "denied_by_budget": 0,
		"longest_wait": {"key": "a", "time": "2000-01-01T00:00:00Z", "wait": "741.564879ms"}, "skipped_lines": 0, "cut_off_lines": 0, "dropped": 0,
		"reasons": [{"reason": "attempts_exhausted", "count": 1, "error": "refused", "error_count": 1}],
		"gave_up_at": [{"time": "2000-01-01T00:00:00Z", "seconds": 60, "gave_up": 1}], "calls_list": [%s
		{"key": "b", "file": "%s", "line": 10, "began": "2000-01-01T00:00:01.061385664Z", "ended": "2000-01-01T00:00:02.122771328Z", "attempts": 3,
		"waited": "1.061385664s", "reason": "attempts_exhausted", "error": "refused"}]}`
	const first = `{"key": "a", "file": "%s", "line": 1, "began": "2000-01-01T00:00:00Z", "ended": "2000-01-01T00:00:01.061385664Z", "attempts": 3, "waited": "1.061385664s", "reason": "success"},`
	assert.JSONEq(t, fmt.Sprintf(want, fmt.Sprintf(first, "a.log"), "a.log"), succeed(t, "", "explain", "-json", "a.log"))
	assert.JSONEq(t, fmt.Sprintf(want, fmt.Sprintf(first, "standard input"), "standard input"), succeed(t, log, "explain", "-json"))
	assert.JSONEq(t, fmt.Sprintf(want, "", "a.log"), succeed(t, "", "explain", "-json", "-failed", "a.log"))
}

// The size of the summary has a limit, whatever the log has.
func TestSummary(t *testing.T) {
	var log strings.Builder
	stopped := func(n int, at time.Time, reason, class, err string) {
		for range n {
			fmt.Fprintf(&log, `{"kind":"stopped","time":%q,"attempt":1,"max":1,"reason":%q,"class":%q,"err":%q}`+"\n", at.Format(time.RFC3339), reason, class, err)
		}
	}
	at := time.Date(2000, 1, 1, 0, 0, 30, 0, time.UTC)
	stopped(2, at, "deadline", "busy", "HTTP 500")
	stopped(3, at.Add(time.Minute), "deadline", "busy", "HTTP 503")
	stopped(1, at.Add(time.Minute), "deadline", "", "\u202e")
	stopped(2, at, "canceled", "", "HTTP 503")
	stopped(1, at.Add(-time.Minute), "budget_exhausted", "", strings.Repeat("x", 300))
	stopped(1, at.Add(2*time.Minute), string(retry.ReasonBorrowed), "", "late")
	out := succeed(t, log.String(), "explain")
	_, out, _ = strings.Cut(out, "\n\n")
	assert.True(t, strings.HasPrefix(out, `10 calls, 8 gave up, from 1999-12-31 23:59:30Z to 2000-01-01 00:02:30Z.
0 succeeded, 2 canceled, 0 without an end in the log.
0 calls had 0 retries.
Budgets denied a retry to 2 calls.
The log has no attempts (its level is above DEBUG), so calls that succeeded at
once are not in it.
10 calls have no key, so those that ran at the same time may be mixed up.

CALLS  REASON`), out)
	assert.Regexp(t, `\n5 +deadline +busy +HTTP 503 \(3\)\n`, out)
	assert.Regexp(t, `\n1 +deadline +- +\\u202e \(1\)\n`, out)
	assert.Contains(t, out, "-      "+strings.Repeat("x", 200)+"... (1)\n")
	assert.Contains(t, out, "Gave up in each minute:\n1999-12-31 23:59Z  ########## 1\n2000-01-01 00:00Z  #################### 2\n2000-01-01 00:01Z  ######################################## 4\n2000-01-01 00:02Z  ########## 1\n")

	for _, row := range []struct {
		name string
		step time.Duration
		n    int
		want string
	}{
		{"an hour", time.Minute, 60, "minute"}, {"more", time.Minute, 61, "10 minutes"}, {"two days", time.Hour, 48, "minute"}, {"a month", time.Hour, 720, "day"},
		{"years", 24 * time.Hour, 9000, "1,000 days"},
	} {
		log.Reset()
		for i := range row.n {
			stopped(1, at.Add(time.Duration(i)*row.step), fmt.Sprint("reason ", i), "", fmt.Sprint(i))
		}
		out := succeed(t, log.String(), "explain", "-failed", "-json")
		var got summary
		require.NoError(t, json.Unmarshal([]byte(out), &got))
		sum := 0
		for _, m := range got.Minutes {
			sum += m.GaveUp
		}
		assert.Equal(t, row.n, sum, row.name)
		assert.LessOrEqual(t, len(got.Minutes), mostBars)
		assert.LessOrEqual(t, len(got.Reasons), mostReasons+1)
		assert.Contains(t, succeed(t, log.String(), "explain", "-failed"), "Gave up in each "+row.want+":", row.name)
	}
}

// An observer is an output that calls a function with all that it has.
type observer struct {
	bytes.Buffer
	see func(all string)
}

func (o *observer) Write(b []byte) (int, error) {
	n, err := o.Buffer.Write(b)
	o.see(o.String())
	return n, err
}

// An interrupt ends reading a file that grows, and the numbers come.
func TestExplainInterrupt(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot interrupt itself")
	}
	log := writeLog(t)
	t.Chdir(write(t, map[string]string{"a.log": log[:1700]}))
	grown, err := os.OpenFile("a.log", os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	out := &observer{see: func(all string) {
		switch {
		case strings.HasSuffix(all, "b: stopped after 3 attempts: no attempt is left of 3\n"):
			require.NoError(t, self.Signal(os.Interrupt))
		case strings.Contains(all, "b: attempt 1 of 3 started") && grown != nil:
			_, err = grown.WriteString(log[1700:])
			require.NoError(t, errors.Join(err, grown.Close()))
			grown = nil
		}
	}}
	require.Zero(t, run(&streams{ctx: t.Context(), out: out, err: io.Discard}, []string{"explain", "-f", "a.log"}))
	assert.True(t, strings.HasSuffix(out.String(), "\n"+numbers), out)
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// On a terminal each event has a color: red for a failure, others for retries
// and successes.
func TestExplainColors(t *testing.T) {
	log := writeLog(t)
	plain := succeed(t, log, "explain")
	var out bytes.Buffer
	require.Zero(t, run(&streams{ctx: context.Background(), in: strings.NewReader(log), out: &out, err: io.Discard, colors: true}, []string{"explain"}))
	var colors []string
	colored := regexp.MustCompile("(?m)^\x1b\\[(\\d+)m([^\x1b]+)\x1b\\[0m$")
	for _, line := range colored.FindAllStringSubmatch(out.String(), -1) {
		colors = append(colors, line[1])
	}
	assert.Equal(t, plain, colored.ReplaceAllString(out.String(), "$2"))
	assert.Equal(t, "90 31 33 90 31 33 90 32 32 90 31 33 90 31 33 90 31 31", strings.Join(colors, " "))
}

func TestCheck(t *testing.T) {
	log := writeLog(t)
	const sound = "all as decided by 3 attempts, exponential 1s x2, full jitter\n2 calls: 2 checked, 0 skipped, 0 stopped by code\n"
	t.Chdir(write(t, map[string]string{"policy.yaml": logPolicy, "config.yaml": "services: {pay: {retry: " + logPolicy + "}}", "retries.log": log}))
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
		{"cannot have happened", logPolicy, strings.Join(lines[:9], "") + lines[10], `^standard input:10: .*cannot have happened: no call with this key has begun.*\n1 call not as decided by .*\n2 calls: 2 checked, `},
		{"cannot have happened, without an end", logPolicy, log + lines[0] + lines[2], `^standard input:20: .*cannot have happened: .*\n1 call not as decided by .*\n3 calls: 3 checked, `},
		{"another delay, without an end", "{max_attempts: 3, backoff: {type: exponential, base: 2s}, jitter: full}", strings.Join(lines[:3], ""), `^standard input:3: .*\n1 call not as decided by .*\n1 call: 1 checked, `},
		{"cannot be read", logPolicy, log + strings.Replace(lines[0], `"max":3`, `"max":"3"`, 1), `^standard input:19: retry: invalid event: max is .*\n0 lines cut off, 1 that cannot be read\nall as decided by .*\n2 calls: 2 checked, `},
		{"without a kind", logPolicy, log + strings.Replace(lines[0], `"kind"`, `"sort"`, 1), `^standard input:19: the event has no kind: `},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, status := tool(test.log, "check", "-policy", filepath.Join(write(t, map[string]string{"p.yaml": test.policy}), "p.yaml"))
			assert.Equal(t, 1, status)
			assert.Empty(t, stderr)
			assert.Regexp(t, test.want, stdout)
		})
	}
}

// checked runs check on a log, which must list these lines and count so many calls as
// checked, skipped, and stopped by code.
func checked(t *testing.T, policy, log, listed string, calls [3]int) {
	t.Helper()
	var p retry.Policy
	require.NoError(t, yaml.Unmarshal([]byte(policy), &p))
	verdict, want := "all as decided by", 0
	if calls[0]+calls[2] == 0 {
		verdict, want = "none compared with", 1
	}
	stdout, stderr, status := tool(log, "check", "-policy", filepath.Join(write(t, map[string]string{"p.yaml": policy}), "p.yaml"))
	assert.Equal(t, fmt.Sprintf("%s%s %v\n%s: %s checked, %d skipped, %d stopped by code\n", listed, verdict, p,
		counted(calls[0]+calls[1]+calls[2], "call"), preview.Thousands(calls[0]), calls[1], calls[2]), stdout)
	assert.Empty(t, stderr)
	assert.Equal(t, want, status)
}

// A program may add functions to the policy of a file. What they decided is counted,
// and is no fault.
func TestCheckCode(t *testing.T) {
	const policy = "{max_attempts: 3, backoff: {type: fixed, base: 1m}}"
	failure := errors.New("refused")
	for _, test := range []struct {
		name  string
		add   func(p *retry.Policy)
		err   error
		calls [3]int
		list  string
	}{
		{"nothing", func(*retry.Policy) {}, failure, [3]int{1}, ""},
		{"RetryIf", func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } }, failure, [3]int{0, 0, 1}, "stopped by code: standard input:1: rejected: refused\n"},
		{"Permanent", func(*retry.Policy) {}, retry.Permanent(failure), [3]int{0, 0, 1}, "stopped by code: standard input:1: permanent_error: refused\n"},
		{"After", func(*retry.Policy) {}, retry.After(time.Hour, failure), [3]int{1}, ""},
		{"a class that stops", func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class {
				return &retry.Class{Policy: &retry.Policy{NonRetryable: true}, Cause: failure}
			}
		}, failure, [3]int{0, 0, 1}, "stopped by code: standard input:1: not_retryable: refused\n"},
		{"a class with delays of its own", func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class {
				return &retry.Class{Name: "slow", Policy: &retry.Policy{Backoff: retry.Fixed(time.Hour)}}
			}
		}, failure, [3]int{0, 1}, "skipped: standard input:1: a class of the program decided\n"},
		{"Wait", func(p *retry.Policy) {
			p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, nil }
		}, failure, [3]int{1}, ""},
		{"Wait that fails", func(p *retry.Policy) {
			p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, failure }
		}, failure, [3]int{0, 0, 1}, "stopped by code: standard input:1: wait_failed: refused\n"},
		{"Budget", func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 1} }, failure, [3]int{1}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var logs [5]bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				var p retry.Policy
				require.NoError(t, yaml.Unmarshal([]byte(policy), &p))
				test.add(&p)
				debug := &slog.HandlerOptions{Level: slog.LevelDebug}
				each := []func(context.Context, retry.Event){retrylog.NewWriter(&logs[0]).OnEvent}
				for _, h := range []slog.Handler{slog.NewJSONHandler(&logs[1], debug), slog.NewTextHandler(&logs[2], debug), slog.NewJSONHandler(&logs[3], nil), slog.NewTextHandler(&logs[4], nil)} {
					each = append(each, retrylog.Slog(slog.New(h)))
				}
				p.OnEvent = func(ctx context.Context, e retry.Event) {
					for _, log := range each {
						log(ctx, e)
					}
				}
				require.Error(t, retry.Do(t.Context(), p, func(context.Context) error { return test.err }))
			})
			for i := range logs {
				checked(t, policy, logs[i].String(), test.list, test.calls)
			}
			assert.Equal(t, succeed(t, logs[0].String(), "explain"), succeed(t, logs[1].String(), "explain"))
			assert.Equal(t, succeed(t, logs[0].String(), "explain"), succeed(t, logs[2].String(), "explain"))
		})
	}
}

// What is not compared is named, the first ten calls of it: what is cut, and what follows
// the rules of a pipeline.
func TestCheckNames(t *testing.T) {
	var events bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		p := retryflow.Pipeline{
			Tasks:   []retryflow.Task{{Label: "fetch", Run: func(context.Context, retryflow.State) retryflow.Outcome { return retryflow.Outcome{} }}},
			OnEvent: flowlog.NewWriter(&events).OnPipelineEvent,
		}
		require.NoError(t, p.Run(retrylog.WithKey(t.Context(), "c"), nil))
	})
	pipeline, log := events.String(), writeLog(t)
	assert.Contains(t, succeed(t, pipeline, "explain"), "task fetch: ")
	lines := strings.SplitAfter(log, "\n")
	from := func(first, end int) string { return strings.Join(lines[first:end], "") }
	const rules = "c: it follows the rules of a pipeline\n"
	for _, test := range []struct {
		name, log, listed string
		calls             [3]int
	}{
		{"many", strings.Repeat(from(0, 9), 1234), "", [3]int{1234}},
		{"a beginning", from(4, 19), "1: a: its beginning is not in the log\n", [3]int{1, 1}},
		{"an end", from(0, 13), "10: b: its end is not in the log\n", [3]int{1, 1}},
		{"a middle", from(0, 4) + lines[4][:50] + "\n" + from(5, 19), "1: a: one of its lines is cut off\n1 line cut off, 0 that cannot be read\n", [3]int{1, 1}},
		{"crashes", strings.Repeat(lines[0], 12) + log, strings.Repeat("%d: a: its end is not in the log: the next call with its key has begun\n", 10) + "and 2 more\n", [3]int{2, 12}},
		{"a pipeline", pipeline, "1: " + rules, [3]int{0, 1}},
		{"pipelines with others", log + pipeline + pipeline, "19: " + rules + "22: " + rules, [3]int{2, 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			listed := regexp.MustCompile(`(?m)^(\d+|%d): `).ReplaceAllString(test.listed, "skipped: standard input:$1: ")
			for i := 1; strings.Contains(listed, "%d"); i++ {
				listed = strings.Replace(listed, "%d", fmt.Sprint(i), 1)
			}
			checked(t, logPolicy, test.log, strings.Replace(listed, "and 2 more", "skipped: and 2 more", 1), test.calls)
		})
	}
}

// elsewhere says where the log of an example or an adapter is that has none of its name.
var elsewhere = map[string]string{
	"retryasynq": "asynq", "retrynats": "nats", "retryriver": "river", "retryamqp": "rabbitmq", // which are examples of them
	"herd": "a simulation", "outage": "a simulation", "mail": "the work of the queues", "pagination": "a pipeline, which check skips",
	"config": "it only reads policies", "faults": "it is found wrong", "retryvet": "a linter",
}

// Logs that examples, packages and adapters wrote in their own tests are correct, under
// each prefix, and wherever a rotation or a crash cuts them. None is forgotten.
func TestCheckCorrectLogs(t *testing.T) {
	for _, pattern := range []string{"../../adapters/retry*/*.go", "../../examples/*/*.go", "../../examples/*/*/*.go"} {
		sources, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, sources)
		for _, source := range sources {
			name := filepath.Base(filepath.Dir(source))
			if _, err := os.Stat("testdata/logs/" + name + ".log"); err != nil {
				assert.NotEmpty(t, elsewhere[name], "%s: record its log in testdata/logs, or say here why it has none", name)
			}
		}
	}
	logs, err := filepath.Glob("testdata/logs/*.log")
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	for _, name := range logs {
		policy := strings.TrimSuffix(name, ".log") + ".json"
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		t.Run(filepath.Base(name), func(t *testing.T) {
			out := succeed(t, "", "check", "-policy", policy, name)
			assert.Regexp(t, `(?m)^all as decided by `, out)
			lines := strings.SplitAfter(string(data), "\n")
			for source, prefix := range map[string]string{
				"web-1": "web-1  | ", "pod/web/web": "[pod/web/web] ", "host web[1234]": "<34>Nov 22 10:00:00 host web[1234]: ", "host web 12": "<34>1 2026-11-22T10:00:00.003Z host web 12 - - ",
			} {
				prefixed := succeed(t, prefix+strings.Join(lines, prefix), "check", "-policy", policy)
				assert.Equal(t, strings.ReplaceAll(out, name, "standard input"), strings.NewReplacer(source+" ", "", source+": ", "").Replace(prefixed))
			}
			for i, line := range lines {
				for _, cut := range []string{strings.Join(lines[i:], ""), strings.Join(lines[:i], "") + line[:len(line)/2], strings.Join(lines[:i], "") + line[:len(line)/2] + "\n" + strings.Join(lines[min(i+1, len(lines)):], "")} {
					out, _, _ := tool(cut, "check", "-policy", policy)
					assert.NotRegexp(t, `(?m)^standard input:`, out, "line %d", i+1)
				}
			}
		})
	}
}

// What Replay and Check find in a log with a changed field, check does too.
func TestCheckFindsEachChange(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(writeLog(t), "\n"), "\n")
	t.Chdir(write(t, map[string]string{"p.yaml": logPolicy}))
	wait := func(context.Context, time.Duration) (time.Duration, error) { return 0, nil } // which a program may have
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.FullJitter, Wait: wait}
	wrong := func(log string) bool {
		records, err := retrylog.Read(strings.NewReader(log))
		calls, replayed := retrylog.Replay(records)
		err = errors.Join(err, replayed)
		for _, c := range calls {
			err = errors.Join(err, c.Check(p))
		}
		return err != nil
	}
	others := strings.Fields(`null "x" "7" 7 -1 1 2 "1ms" "30h" "2000-01-01T00:00:09Z" "1990-01-01T00:00:00Z" "success" "stopped" "retry_scheduled"`)
	changed, found := 0, 0
	for i, line := range lines {
		for _, value := range regexp.MustCompile(`:("[^"]*"|\d+)`).FindAllStringSubmatchIndex(line, -1) {
			for _, other := range others {
				log := strings.Join(lines[:i], "\n") + "\n" + line[:value[2]] + other + line[value[3]:] + "\n" + strings.Join(lines[i+1:], "\n")
				if changed++; wrong(log) {
					found++
					stdout, _, status := tool(log, "check", "-policy", "p.yaml")
					assert.Equal(t, 1, status, "line %d, %s for %s\n%s", i+1, other, line[value[2]:value[3]], stdout)
				}
			}
		}
	}
	assert.Greater(t, found, changed/2)
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
	// The goroutine that waits for signals never ends, and so must not begin in a bubble.
	_, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	stop()
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
