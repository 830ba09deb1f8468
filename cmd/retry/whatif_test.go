package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
	"github.com/goretry/retry/retrysim"
)

// An outage is a target of 50 calls a second that fails from 8s on for so long: all the
// time, or with gaps of which 16 are in a second. A failure takes 150ms.
type outage struct {
	seed   uint64
	length time.Duration
	share  float64
}

// run simulates the outage, and returns which calls succeeded, how many retries there
// were, and the log.
func (o outage) run(t *testing.T, p retry.Policy) (succeeded map[string]bool, retries int, log string) {
	var out bytes.Buffer
	w := retrylog.NewWriter(&out)
	succeeded = map[string]bool{}
	p.OnEvent = func(ctx context.Context, e retry.Event) {
		w.OnEvent(ctx, e)
		switch e.Kind {
		case retry.CallFinished:
			succeeded[retrylog.Key(ctx)] = e.Reason == retry.ReasonSuccess
		case retry.RetryScheduled:
			retries++
		}
	}
	s := retrysim.System{Duration: 8*time.Second + o.length + 12*time.Second, Services: map[string]retrysim.Service{
		"web":  {Rate: 50, Calls: []retrysim.Edge{{To: "db", Policy: p}}},
		"db":   {Work: 150 * time.Millisecond, Distribution: retrysim.Fixed, Calls: []retrysim.Edge{{To: "disk"}}},
		"disk": {},
	}}
	const period = 62500 * time.Microsecond
	for at := time.Duration(0); at < o.length; at += period {
		s.Events = append(s.Events, retrysim.Trigger{At: 8*time.Second + at, For: time.Duration(o.share * float64(period)), Service: "disk", Change: retrysim.Fail, Value: 1})
	}
	r, err := retrysim.Run(s, o.seed)
	require.NoError(t, err)
	require.Equal(t, retrysim.Recovers, r.Outcome.Verdict, "else there is another run, whose events come too")
	return succeeded, retries, out.String()
}

// ask runs whatif -json over a log.
func ask(t *testing.T, log string, p retry.Policy, args ...string) (e map[string]float64) {
	t.Helper()
	policy, err := json.Marshal(p)
	require.NoError(t, err)
	dir := write(t, map[string]string{"retries.log": log, "new.json": string(policy)})
	out := succeed(t, "", append([]string{"whatif", "-json", "-policy", filepath.Join(dir, "new.json"), filepath.Join(dir, "retries.log")}, args...)...)
	require.NoError(t, json.Unmarshal([]byte(out), &e))
	return e
}

var (
	once    = retry.Policy{MaxAttempts: 1}
	quick   = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(300 * time.Millisecond), Jitter: retry.EqualJitter}
	patient = retry.Policy{MaxAttempts: 6, Backoff: retry.Exponential{Base: 400 * time.Millisecond}, Jitter: retry.FullJitter}
	bounded = retry.Policy{MaxElapsed: 3 * time.Second, Backoff: retry.Exponential{Base: 100 * time.Millisecond}, MaxDelay: time.Second, Jitter: retry.Proportional(0.2)}
	healthy = retry.Policy{MaxAttempts: 2, HealthyAfter: 100 * time.Millisecond, Backoff: retry.Fixed(500 * time.Millisecond), Jitter: retry.FullJitter}
)

// Twenty outages, whose calls are then made under the other policy. Under their own
// nothing changes. Of 40 numbers, two may be off by more than two standard errors.
func TestWhatifFindsTheTruth(t *testing.T) {
	beyond := 0
	for i := range 20 {
		pair := [][2]retry.Policy{{quick, patient}, {patient, quick}, {once, patient}, {bounded, quick}, {quick, healthy}}[i%5]
		o := outage{uint64(i), time.Duration(700+450*i) * time.Millisecond, []float64{1, 0.5, 0.8, 1}[i%4]}
		t.Run(fmt.Sprintf("%v, %v to %v", o, pair[0], pair[1]), func(t *testing.T) {
			before, _, log := o.run(t, pair[0])
			after, retries, _ := o.run(t, pair[1])
			truth := map[string]float64{"saved": 0, "lost": 0}
			for key := range before {
				if after[key] && !before[key] {
					truth["saved"]++
				} else if before[key] && !after[key] {
					truth["lost"]++
				}
			}
			if i < 5 {
				same := ask(t, log, pair[0])
				assert.Zero(t, same["saved"]+same["lost"]+same["extrapolated"]+same["saved_error"]+same["lost_error"])
			}
			e := ask(t, log, pair[1])
			require.Less(t, e["extrapolated"], 0.1)
			for name, truth := range truth {
				off, limit := math.Abs(truth-e[name]), max(0.05*truth, 2*e[name+"_error"], 2)
				assert.LessOrEqual(t, off, 1.5*limit, "%s: %v", name, truth)
				if off > limit {
					beyond++
				}
			}
			assert.InDelta(t, retries, e["retries"], 3*math.Sqrt(float64(retries)+e["retries"]), "retries")
		})
	}
	assert.LessOrEqual(t, beyond, 2)
}

// A budget that is shared denies about as many retries as the real one.
func TestWhatifBudget(t *testing.T) {
	o := outage{3, 8 * time.Second, 1}
	_, _, log := o.run(t, quick)
	_, free, _ := o.run(t, patient)
	for _, size := range []int{20, 200, 2000} {
		p := patient
		p.Budget = &retry.Budget{Size: size, Ratio: 0.1}
		_, retries, _ := o.run(t, p)
		e := ask(t, log, patient, "-budget", fmt.Sprint(size), "-ratio", "0.1")
		assert.InDelta(t, retries, e["retries"], max(10, 0.05*float64(retries)), size)
		short := size < 1000
		assert.Equal(t, []bool{short, short, short}, []bool{e["denied_by_budget"] > 0, e["lowest_budget"] < 1, e["retries"] < 0.8*float64(free)}, size)
	}
}

// What cannot be estimated is refused, and what is left out is said.
func TestWhatifSays(t *testing.T) {
	_, _, log := outage{5, time.Second, 1}.run(t, quick)
	const info = `level=WARN msg="retry scheduled" kind=retry_scheduled attempt=1 max=3 elapsed=0s delay=1s due=2026-11-22T10:00:01.5Z err=x`
	lines := strings.SplitAfter(log, "\n")
	asked, err := os.ReadFile("testdata/asked.log") // a call whose server asks for a wait of 2s
	require.NoError(t, err)
	t.Chdir(write(t, map[string]string{
		"short.log": log, "info.log": info, "cut.log": strings.Join(lines[:len(lines)/2], ""), "empty.log": "", "asked.log": string(asked),
		"slow.yaml": "{max_attempts: 3, backoff: {type: fixed, base: 30s}}", "same.yaml": "{max_attempts: 3, backoff: {type: fixed, base: 300ms}, jitter: equal}",
		"never.yaml": "{max_attempts: 3, retryable: false}", "brief.yaml": "{max_attempts: 1, attempt_timeout: 1ms}",
		"plain.yaml": "{max_attempts: 3}", "hasty.yaml": "{max_attempts: 3, max_retry_after: 1s}",
	}))
	for name, row := range map[string]struct {
		args, want string
		status     int
	}{
		"beyond the log":         {"slow.yaml short.log", "short.log:1: there is no estimate: 100% of the retries are extrapolated, and at most 30% may be", found},
		"above level Debug":      {"same.yaml info.log", "info.log:1: there is no whole call with its attempts, which slog has at level Debug", found},
		"nothing":                {"same.yaml empty.log", "empty.log:1: there is no whole call with its attempts", found},
		"standard input":         {"same.yaml -", "a log is read more than once: write the name of a file", misuse},
		"no such key":            {"same.yaml -key db* short.log", "short.log:1: there is no whole call", found},
		"the same":               {"same.yaml short.log", " calls: 0 saved, 0 lost; 0% extrapolated", ok},
		"a key":                  {"same.yaml -key web-17 short.log", "1 call: 0 saved, 0 lost; 0% extrapolated", ok},
		"since the end":          {"never.yaml -since 1970-01-01T00:00:12Z short.log", "\n0 retries, ", ok},
		"no retries":             {"never.yaml short.log", "\n0 retries, at most 0 in a second; a call waits 0s on average", ok},
		"a timeout that is less": {"brief.yaml short.log", "1,304 lost", ok},
		"a call that is cut":     {"same.yaml cut.log", "\nleft out: ", ok},
		"a Retry-After":          {"plain.yaml asked.log", "a call waits 2s on average", ok},
		"one that is too long":   {"hasty.yaml asked.log", "1 call: 0 saved, 1 lost; 0% extrapolated", ok},
	} {
		stdout, stderr, status := tool("", append([]string{"whatif", "-policy"}, strings.Fields(row.args)...)...)
		assert.Equal(t, row.status, status, name+stderr)
		assert.Contains(t, stdout+stderr, row.want, name)
		assertNarrow(t, stdout)
	}
	w := whatifs{streams: &streams{}, seconds: map[int64]*second{}, most: 10}
	assert.EqualError(t, w.run([]string{"short.log"}), "there are calls in more than 10 seconds: choose fewer with -since or -key")
}
