package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// A world is a target that fails with a probability that depends on the call and on the
// time since the start. The same call at the same time always ends the same way.
type world struct {
	seed  uint64
	calls int
	fails func(call int, since time.Duration) float64
}

// outage returns a target that fails with a probability, from then for so long.
func outage(from, length time.Duration, share float64) func(int, time.Duration) float64 {
	return func(_ int, since time.Duration) float64 {
		if since >= from && since < from+length {
			return share
		}
		return 0.002
	}
}

// run makes 50 calls a second, and returns which succeeded, how many retries there were,
// and the log.
func (w world) run(t *testing.T, p retry.Policy, budget *retry.Budget) (succeeded []bool, made int64, log string) {
	var out bytes.Buffer
	var retries atomic.Int64
	succeeded = make([]bool, w.calls)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p.OnEvent, p.Budget = retrylog.NewWriter(&out).OnEvent, budget
		var all sync.WaitGroup
		for call := range w.calls {
			p := p
			p.Source = rand.NewPCG(w.seed, uint64(call)).Uint64
			all.Go(func() {
				made := 0
				err := retry.Do(retrylog.WithKey(t.Context(), fmt.Sprint("call-", call)), p, func(context.Context) error {
					made++
					since := time.Since(start)
					chance := rand.New(rand.NewPCG(w.seed+uint64(call)<<20, uint64(since))).Float64()
					time.Sleep(5 * time.Millisecond)
					if chance < w.fails(call, since) {
						return errors.New("refused")
					}
					return nil
				})
				succeeded[call] = err == nil
				retries.Add(int64(made - 1))
			})
			time.Sleep(20 * time.Millisecond)
		}
		all.Wait()
	})
	return succeeded, retries.Load(), out.String()
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
)

// Twenty outages, whose calls are then made under the other policy. Under their own
// nothing changes. Of 40 numbers, two may be off by more than two standard errors.
func TestWhatifFindsTheTruth(t *testing.T) {
	beyond := 0
	for i := range 20 {
		pair := [][2]retry.Policy{{quick, patient}, {patient, quick}, {once, patient}, {bounded, quick}, {quick, bounded}}[i%5]
		length, share := time.Duration(700+450*i)*time.Millisecond, []float64{1, 0.5, 0.8, 1}[i%4]
		t.Run(fmt.Sprintf("%v of %v, %v to %v", share, length, pair[0], pair[1]), func(t *testing.T) {
			w := world{uint64(i), 1200, outage(4*time.Second+time.Duration(i)*37*time.Millisecond, length, share)}
			before, _, log := w.run(t, pair[0], nil)
			after, retries, _ := w.run(t, pair[1], nil)
			saved, lost := 0.0, 0.0
			for i := range before {
				if after[i] && !before[i] {
					saved++
				} else if before[i] && !after[i] {
					lost++
				}
			}
			if i < 5 {
				same := ask(t, log, pair[0])
				assert.Zero(t, same["saved"]+same["lost"]+same["extrapolated"]+same["saved_error"]+same["lost_error"])
			}
			e := ask(t, log, pair[1])
			require.Less(t, e["extrapolated"], 0.1)
			for name, truth := range map[string]float64{"saved": saved, "lost": lost} {
				off, limit := math.Abs(truth-e[name]), max(0.05*truth, 2*e[name+"_error"], 2)
				assert.LessOrEqual(t, off, 1.5*limit, "%s: %v", name, truth)
				if off > limit {
					beyond++
				}
			}
			assert.InDelta(t, retries, e["retries"], max(0.05*float64(retries), 2*math.Sqrt(float64(retries))), "retries")
		})
	}
	assert.LessOrEqual(t, beyond, 2)
}

// A budget that is shared denies about as many retries as the real one.
func TestWhatifBudget(t *testing.T) {
	w := world{3, 1000, outage(4*time.Second, 8*time.Second, 1)}
	_, _, log := w.run(t, quick, nil)
	_, free, _ := w.run(t, patient, nil)
	for _, size := range []int{20, 200, 2000} {
		_, retries, _ := w.run(t, patient, &retry.Budget{Size: size, Ratio: 0.1})
		e := ask(t, log, patient, "-budget", fmt.Sprint(size), "-ratio", "0.1")
		assert.InDelta(t, retries, e["retries"], max(10, 0.05*float64(retries)), size)
		short := size < 1000
		assert.Equal(t, []bool{short, short, short}, []bool{e["denied_by_budget"] > 0, e["lowest_budget"] == 0, e["retries"] < 0.8*float64(free)}, size)
	}
}

// What cannot be estimated is refused, and what is left out or doubtful is said.
func TestWhatifSays(t *testing.T) {
	w := world{5, 400, outage(6*time.Second, time.Hour, 1)}
	_, _, endless := w.run(t, once, nil)
	w.fails = outage(3*time.Second, time.Second, 1)
	_, _, short := w.run(t, quick, nil)
	const info = `level=WARN msg="retry scheduled" kind=retry_scheduled attempt=1 max=3 elapsed=0s delay=1s due=2026-11-22T10:00:01.5Z err=x`
	lines := strings.SplitAfter(short, "\n")
	w.fails = func(call int, _ time.Duration) float64 { return float64((call % 10) / 9) }
	_, _, own := w.run(t, quick, nil)
	t.Chdir(write(t, map[string]string{
		"endless.log": endless, "short.log": short, "info.log": info, "cut.log": strings.Join(lines[:len(lines)-2], ""), "own.log": own, "empty.log": "",
		"slow.yaml": "{max_attempts: 3, backoff: {type: fixed, base: 30s}}", "same.yaml": "{max_attempts: 3, backoff: {type: fixed, base: 300ms}, jitter: equal}",
		"never.yaml": "{max_attempts: 3, retryable: false}", "brief.yaml": "{max_attempts: 1, attempt_timeout: 1ms}",
	}))
	for name, row := range map[string]struct {
		policy, log, want string
		status            int
	}{
		"beyond the log":         {"slow.yaml", "endless.log", "endless.log:1: there is no estimate: 100% of the retries are extrapolated, and at most 30% may be", found},
		"above level Debug":      {"same.yaml", "info.log", "info.log:1: there is no whole call with its attempts, which slog has at level Debug", found},
		"nothing":                {"same.yaml", "empty.log", "empty.log:1: there is no whole call with its attempts", found},
		"standard input":         {"same.yaml", "-", "a log is read more than once: write the name of a file", misuse},
		"the same":               {"same.yaml", "short.log", "400 calls: 0 saved, 0 lost; 0% extrapolated", ok},
		"no retries":             {"never.yaml", "short.log", "most retries in a second  68        0", ok},
		"a timeout that is less": {"brief.yaml", "short.log", "succeeded                 371       0", ok},
		"a call that is cut":     {"same.yaml", "cut.log", "Left out: 1 call that", ok},
		"errors of the calls":    {"same.yaml", "own.log", "Some errors belong to their calls", ok},
	} {
		stdout, stderr, status := tool("", "whatif", "-policy", row.policy, row.log)
		assert.Equal(t, row.status, status, name+stderr)
		assert.Contains(t, stdout+stderr, row.want, name)
		for line := range strings.Lines(stdout) {
			assert.LessOrEqual(t, len(line), 81, line)
		}
	}
}
