package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

const logPolicy = "{max_attempts: 3, backoff: {type: exponential, base: 1s}, jitter: full}"

// Call a fails twice and then succeeds, and call b fails three times, under logPolicy.
//
//go:embed testdata/two.log
var twoCalls string

// The size of the summary has a limit, whatever the log has.
func TestSummaryHasALimit(t *testing.T) {
	for _, row := range []struct {
		step time.Duration
		n    int
		want string
	}{
		{time.Second, 60, "second"}, {time.Second, 61, "5 seconds"}, {time.Minute, 60, "minute"}, {time.Minute, 61, "2 minutes"},
		{time.Hour, 60, "hour"}, {time.Hour, 720, "day"}, {24 * time.Hour, 9000, "1,000 days"},
	} {
		var log strings.Builder
		for i := range row.n {
			at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * row.step)
			fmt.Fprintf(&log, `{"kind":"call_finished","time":%q,"attempt":1,"max":1,"reason":"reason %d","err":"error %[2]d"}`+"\n", at.Format(time.RFC3339), i)
		}
		var got summary
		require.NoError(t, json.Unmarshal([]byte(succeed(t, log.String(), "explain", "-json")), &got))
		sum := 0
		for _, bar := range got.Strip {
			sum += bar.GaveUp
		}
		assert.Equal(t, row.n, sum, row.want)
		assert.LessOrEqual(t, len(got.Strip), mostBars)
		assert.LessOrEqual(t, len(got.Reasons), mostGroups+1)
		text := succeed(t, log.String(), "explain")
		assert.Contains(t, text, "\nIN EACH "+strings.ToUpper(row.want)+" ")
		assert.NotContains(t, text, "\n...\n", row.want)
	}
}

// The commonest error is found however many others there are, and is not counted too often.
func TestCommonestError(t *testing.T) {
	line := `{"kind":"call_finished","attempt":1,"max":1,"reason":"deadline","err":"%s"}` + "\n"
	for _, row := range []struct{ before, common, after, least int }{{1000, 1000, 0, 990}, {0, 1000, 1000, 990}, {500, 100, 500, 90}, {100, 9, 100, 9}, {mostErrors, 0, 0, 1}} {
		var log strings.Builder
		for i := range row.before + row.after + 1 {
			if i == row.before {
				log.WriteString(strings.Repeat(fmt.Sprintf(line, "common"), row.common))
			}
			fmt.Fprintf(&log, line, fmt.Sprint("dial tcp 10.0.0.1:", i))
		}
		var got summary
		require.NoError(t, json.Unmarshal([]byte(succeed(t, log.String(), "explain", "-json")), &got))
		commonest := got.Reasons[0].Commonest
		assert.Equal(t, row.common > 0, commonest.Error == "common", "%v: %s", row, commonest.Error)
		assert.Equal(t, row.before+row.after >= mostErrors, commonest.AtLeast, row)
		assert.True(t, row.least <= commonest.Count && commonest.Count <= max(1, row.common), "%v: %d", row, commonest.Count)
	}
	var many tally
	for i := range 10 * mostErrors {
		many.add(fmt.Errorf("error %d", i))
		assert.LessOrEqual(t, len(many.counts), mostErrors)
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

// From a pipe that does not end, each call is printed when it has ended. An interrupt ends the
// reading, and the numbers come.
func TestExplainInterrupt(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot interrupt itself")
	}
	in, grows, err := os.Pipe()
	require.NoError(t, err)
	_, err = io.WriteString(grows, twoCalls)
	require.NoError(t, err)
	out := &observer{see: func(all string) {
		if strings.HasSuffix(all, "b: stopped after 3 attempts: no attempt is left of 3\n") {
			require.NoError(t, self.Signal(os.Interrupt))
		}
	}}
	require.Zero(t, run(&streams{ctx: t.Context(), in: in, out: out, err: io.Discard}, []string{"explain"}))
	assert.Contains(t, out.String(), "left of 3\n\n2 calls, 1 gave up, ")
	require.NoError(t, errors.Join(grows.Close(), in.Close()))
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A program may add functions to the policy of a file. What they decided is counted,
// and is no fault.
func TestCheckCode(t *testing.T) {
	const policy = "{max_attempts: 3, backoff: {type: fixed, base: 1m}}"
	const checked, skipped, byCode = "1 checked, 0 skipped, 0", "0 checked, 1 skipped, 0", "0 checked, 0 skipped, 1"
	failure := errors.New("refused")
	classify := func(c retry.Class) func(error) *retry.Class { return func(error) *retry.Class { return &c } }
	wait := func(err error) func(context.Context, time.Duration) (time.Duration, error) {
		return func(context.Context, time.Duration) (time.Duration, error) { return 0, err }
	}
	for _, test := range []struct {
		name         string
		code         retry.Policy
		err          error
		listed, want string
	}{
		{"nothing", retry.Policy{}, failure, "", checked},
		{"RetryIf", retry.Policy{RetryIf: func(error) bool { return false }}, failure, "stopped by code: rejected: 1 call\n", byCode},
		{"Permanent", retry.Policy{}, retry.Permanent(failure), "stopped by code: permanent_error: 1 call\n", byCode},
		{"After", retry.Policy{}, retry.After(time.Hour, failure), "", checked},
		{"a class that stops", retry.Policy{Classify: classify(retry.Class{NonRetryable: true, Cause: failure})}, failure,
			"stopped by code: not_retryable: 1 call\n", byCode},
		{"a class with delays of its own", retry.Policy{Classify: classify(retry.Class{Name: "slow", Backoff: retry.Fixed(time.Hour)})}, failure,
			"skipped: a class of the program decided: 1 call\n", skipped},
		{"Wait", retry.Policy{Wait: wait(nil)}, failure, "", checked},
		{"Wait that fails", retry.Policy{Wait: wait(failure)}, failure, "stopped by code: wait_failed: 1 call\n", byCode},
		{"Budget", retry.Policy{Budget: &retry.Budget{Size: 1}}, failure, "", checked},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(write(t, map[string]string{"p.yaml": policy}))
			var logs [5]bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				p := test.code
				p.MaxAttempts, p.Backoff = 3, retry.Fixed(time.Minute)
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
			verdict, status := "none compared with", ok
			switch test.want {
			case checked:
				verdict = "all as decided by"
			case skipped:
				status = found
			}
			for i := range logs {
				stdout, stderr, got := tool(logs[i].String(), "explain", "-policy", "p.yaml")
				assert.Equal(t, test.listed+verdict+" 3 attempts, fixed 1m0s\n1 call: "+test.want+" stopped by code\n", reportOf(stdout))
				assert.Empty(t, stderr)
				assert.Equal(t, status, got)
			}
			assert.Equal(t, succeed(t, logs[0].String(), "explain"), succeed(t, logs[1].String(), "explain"))
			assert.Equal(t, succeed(t, logs[0].String(), "explain"), succeed(t, logs[2].String(), "explain"))
		})
	}
}

// elsewhere says where the log of an example or an adapter is that has none of its name.
var elsewhere = map[string]string{
	"retryasynq": "asynq", "retrynats": "nats", "retryriver": "river", "retryamqp": "rabbitmq", // which are examples of them
	"pictures": "a simulation", "budgets": "a simulation", "mail": "the work of the queues",
	"config": "it only reads policies", "retryvet": "a linter", "retryrpc": "in those of the adapters that use it",
}

// reportOf returns how calls compare with a policy.
func reportOf(out string) string {
	_, report, _ := strings.Cut(out, " attempts a call\n")
	return strings.TrimSpace(report) + "\n"
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
			out := reportOf(succeed(t, "", "explain", "-policy", policy, name))
			assert.Regexp(t, `(?m)^all as decided by `, out)
			lines := strings.SplitAfter(string(data), "\n")
			for source, prefix := range map[string]string{
				"web-1": "web-1  | ", "pod/web/web": "[pod/web/web] ", "host web[1234]": "<34>Nov 22 10:00:00 host web[1234]: ", "host web 12": "<34>1 2026-11-22T10:00:00.003Z host web 12 - - ",
			} {
				prefixed := reportOf(succeed(t, prefix+strings.Join(lines, prefix), "explain", "-policy", policy))
				assert.Equal(t, strings.ReplaceAll(out, name, "standard input"), strings.NewReplacer(source+" ", "", source+": ", "").Replace(prefixed))
			}
			for i, line := range lines {
				for _, cut := range []string{strings.Join(lines[i:], ""), strings.Join(lines[:i], "") + line[:len(line)/2], strings.Join(lines[:i], "") + line[:len(line)/2] + "\n" + strings.Join(lines[min(i+1, len(lines)):], "")} {
					out, _, _ := tool(cut, "explain", "-policy", policy)
					assert.NotRegexp(t, `(?m)^standard input:`, out, "line %d", i+1)
				}
			}
		})
	}
}

// Of the changes of one field of a log, explain finds those after which the log cannot have
// happened, or is not by the policy.
func TestCheckFindsEachChange(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(twoCalls, "\n"), "\n")
	t.Chdir(write(t, map[string]string{"p.yaml": logPolicy}))
	others := strings.Fields(`null "x" "7" 7 -1 1 2 "1ms" "30h" "2000-01-01T00:00:09Z" "1990-01-01T00:00:00Z" "success" "call_finished" "retry_scheduled"`)
	changed, found := 0, 0
	for i, line := range lines {
		for _, value := range regexp.MustCompile(`:("[^"]*"|\d+)`).FindAllStringSubmatchIndex(line, -1) {
			for _, other := range others {
				log := strings.Join(lines[:i], "\n") + "\n" + line[:value[2]] + other + line[value[3]:] + "\n" + strings.Join(lines[i+1:], "\n")
				_, _, status := tool(log, "explain", "-policy", "p.yaml")
				found += status
				changed++
			}
		}
	}
	assert.GreaterOrEqual(t, found*100, changed*92) // the others change a key, a time, or nothing
}
