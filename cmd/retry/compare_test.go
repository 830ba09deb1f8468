package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// A program may add functions to the policy of a file. If these functions decide the retries of a call,
// the call is counted separately and does not differ from the policy.
func TestCompareCountsDecisionsOfCode(t *testing.T) {
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
			verdict, status := "no call could be compared with the policy", ok
			switch test.want {
			case checked:
				verdict = "all checked calls follow the policy"
			case skipped:
				status = found
			}
			for i := range logs {
				stdout, stderr, got := tool(logs[i].String(), "explain", "-policy", "p.yaml")
				assert.Equal(t, test.listed+"the policy: 3 attempts, fixed 1m0s\n"+verdict+"\n1 call: "+test.want+" stopped by code\n", reportOf(stdout))
				assert.Empty(t, stderr)
				assert.Equal(t, status, got)
			}
			assert.Equal(t, succeed(t, logs[0].String(), "explain"), succeed(t, logs[1].String(), "explain"))
			assert.Equal(t, succeed(t, logs[0].String(), "explain"), succeed(t, logs[2].String(), "explain"))
		})
	}
}

// elsewhere maps each example or adapter without a log of its own to the log with its events, or to the
// reason why there is no log.
var elsewhere = map[string]string{
	"retryasynq": "asynq", "retrynats": "nats", "retryriver": "river", "retryamqp": "rabbitmq", // these logs are of examples that use the adapter
	"pictures": "a simulation", "budgets": "a simulation", "mail": "the work of the queues",
	"retryrpc": "retrygrpc and retryconnect",
	"config":   "it only reads policies", "retryvet": "a linter",
}

// reportOf returns the comparison of explain -policy, without its first line.
func reportOf(out string) string {
	_, report, _ := strings.Cut(out, " attempts a call\n")
	return strings.TrimSpace(report) + "\n"
}

// The logs that examples, packages and adapters write in their own tests follow their policies. The
// logs also follow their policies if each line has a prefix, and wherever a rotation or a crash
// cuts a log. Each example and adapter has a log, or a reason why it has none.
func TestCompareAcceptsCorrectLogs(t *testing.T) {
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
			assert.Regexp(t, `(?m)^all checked calls follow the policy$`, out)
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

// Explain finds a change of a single field in a log, if the changed log is impossible or does not
// follow the policy.
func TestCompareFindsEachChange(t *testing.T) {
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
	// The changes that explain does not find affect only a key or a time, or have no effect.
	assert.GreaterOrEqual(t, found*100, changed*92)
}
