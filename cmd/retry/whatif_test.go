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
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// A world is a target that fails with a probability that depends on the time since the
// start. An attempt of the same call at the same time always ends the same way.
type world struct {
	seed  uint64
	calls int
	fails func(since time.Duration) float64
}

// outage returns a target that fails with a probability, from then for so long.
func outage(from, length time.Duration, share float64) func(time.Duration) float64 {
	return func(since time.Duration) float64 {
		if since >= from && since < from+length {
			return share
		}
		return 0.002
	}
}

// run makes 50 calls a second, and returns which succeeded, how many retries there were,
// and the log.
func (w world) run(t *testing.T, p retry.Policy, budget *retry.Budget) (succeeded []bool, retries int, log string) {
	var out bytes.Buffer
	var lock sync.Mutex
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
					if chance < w.fails(since) {
						return errors.New("refused")
					}
					return nil
				})
				lock.Lock()
				defer lock.Unlock()
				succeeded[call] = err == nil
				retries += made - 1
			})
			time.Sleep(20 * time.Millisecond)
		}
		all.Wait()
	})
	return succeeded, retries, out.String()
}

// ask runs whatif -json over a log.
func ask(t *testing.T, log string, p retry.Policy, args ...string) (e estimate) {
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

// Twenty outages, whose calls are then made under the other policy.
func TestWhatifFindsTheTruth(t *testing.T) {
	for i := range 20 {
		pair := [][2]retry.Policy{{quick, patient}, {patient, quick}, {once, patient}, {bounded, quick}, {quick, bounded}}[i%5]
		length := time.Duration(700+650*i) * time.Millisecond
		share := []float64{1, 0.5, 0.8, 1}[i%4]
		t.Run(fmt.Sprintf("%v of %v, %v to %v", share, length, pair[0], pair[1]), func(t *testing.T) {
			w := world{uint64(i), 2000, outage(10*time.Second+time.Duration(i)*37*time.Millisecond, length, share)}
			before, _, log := w.run(t, pair[0], nil)
			after, retries, _ := w.run(t, pair[1], nil)
			saved, lost := 0.0, 0.0
			for i := range before {
				switch {
				case after[i] && !before[i]:
					saved++
				case before[i] && !after[i]:
					lost++
				}
			}
			e := ask(t, log, pair[1])
			t.Logf("saved %v of %v ±%.1f, lost %v of %v ±%.1f, retries %v of %v, extrapolated %.3f", e.Saved, saved, e.SavedError, e.Lost, lost, e.LostError, e.Retries, retries, e.Extrapolated)
			require.Less(t, e.Extrapolated, 0.1)
			assert.InDelta(t, saved, e.Saved, max(0.05*saved, 2*e.SavedError, 0.5), "saved")
			assert.InDelta(t, lost, e.Lost, max(0.05*lost, 2*e.LostError, 0.5), "lost")
			assert.InDelta(t, retries, e.Retries, max(0.05*float64(retries), 2*math.Sqrt(float64(retries))), "retries")
		})
	}
}

// Under its own policy nothing changes.
func TestWhatifOfTheSamePolicy(t *testing.T) {
	w := world{7, 1000, outage(5*time.Second, 3*time.Second, 0.7)}
	for _, p := range []retry.Policy{once, quick, patient, bounded} {
		_, retries, log := w.run(t, p, nil)
		e := ask(t, log, p)
		assert.Zero(t, e.Saved+e.Lost+e.Extrapolated+e.SavedError+e.LostError, p)
		assert.InDelta(t, retries, e.Retries, 0, p)
	}
}
