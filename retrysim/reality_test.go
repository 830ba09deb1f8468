package retrysim

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// A real server on loopback, real clients and real time, five times at once: the
// simulation gets the same arrivals, and 200 seeds for the rest. It takes a minute in
// which the machine must do nothing else, so only .ci/soak reality runs it.
func TestReality(t *testing.T) {
	if os.Getenv("RETRY_REALITY") == "" {
		t.Skip("set RETRY_REALITY on a machine that does nothing else")
	}
	retries := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: 100 * time.Millisecond}, Jitter: retry.FullJitter, AttemptTimeout: time.Second}
	once := retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second}
	saving := retries
	saving.Budget = &retry.Budget{Size: 20, Ratio: 0.1}
	for _, tc := range []struct {
		name   string
		rate   float64
		policy retry.Policy
		queue  int
		cancel Cancel
	}{
		{"A 30/s, 2 attempts", 30, once, 0, CancelNone},
		{"B 60/s, 3 attempts, full jitter", 60, retries, 0, CancelNone},
		{"C as B, with a budget", 60, saving, 0, CancelNone},
		{"D as B, with a queue of 50", 60, retries, 50, CancelNone},
		{"E as B, and the queue drops what is canceled", 60, retries, 0, CancelQueue},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := System{
				Services: map[string]Service{
					"web": {Rate: tc.rate, Calls: []Edge{{To: "db", Policy: tc.policy}}},
					"db":  {Workers: 10, Work: 100 * time.Millisecond, Queue: tc.queue, Cancel: tc.cancel},
				},
				Events: []Trigger{{12 * time.Second, 8 * time.Second, "db", Workers, 0}}, Duration: 50 * time.Second,
			}
			real, sent := measure(s)

			var recovery, attempts, worked []float64
			for seed := range uint64(200) {
				e := newEngine(s, seed)
				web := &e.services[1]
				web.arrives = newStream(arrivalSeed, "web", "arrivals")
				web.arrival++
				e.scheduleArrival(web)
				r, err := s.goOn(e)
				require.NoError(t, err)
				if r.Outcome.Verdict == Recovers {
					recovery = append(recovery, r.Outcome.Recovery.Seconds())
				}
				attempts = append(attempts, float64(r.Services["db"].Requests))
				worked = append(worked, float64(r.Outcome.Worked))
			}
			t.Logf("real: %v, %d attempts, %d of %d calls work", real, sent, real.Worked, real.Calls)
			t.Logf("simulated: %d of 200 recover, after %s s, %s attempts, %s calls work", len(recovery), spread(recovery), spread(attempts), spread(worked))
			if real.Verdict == Recovers {
				assert.NotEmpty(t, recovery, "no simulated run recovers")
			} else {
				assert.Less(t, len(recovery), 200, "all simulated runs recover")
			}
		})
	}
}

const arrivalSeed = 1

func spread(xs []float64) string {
	mean, deviation := moments(xs)
	return fmt.Sprintf("%.1f ± %.1f", mean, deviation)
}

// measure runs s for real: its web are clients in this process, its db a server. It
// returns how many attempts there were until the end.
func measure(s System) (Outcome, int64) {
	begin, r := time.Now(), Result{Seconds: make([]Second, s.seconds())}
	rows := make([]LoadSecond, s.seconds())
	var attempts atomic.Int64
	pool := &pool{Service: s.Services["db"], workers: make(chan struct{}, s.Services["db"].Workers)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if time.Since(begin) < s.Duration {
			attempts.Add(1)
		}
		if !pool.serve(r.Context()) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Config.Close() // server.Close would wait for requests whose callers gave up
	outage := s.Events[0]
	time.AfterFunc(outage.At, pool.hangs.Lock)
	time.AfterFunc(outage.At+outage.For, pool.hangs.Unlock)
	client := &http.Client{Transport: &retryhttp.Transport{Base: &http.Transport{MaxIdleConnsPerHost: 1000}, Policy: s.Services["web"].Calls[0].Policy, Budgets: retryhttp.NoBudgets}}

	var calls sync.WaitGroup
	var mu sync.Mutex
	arrives := newStream(arrivalSeed, "web", "arrivals")
	gap := func() time.Duration { return time.Duration(arrives.exponential(1e9 / s.Services["web"].Rate)) }
	for at := gap(); at < s.Duration; at += gap() {
		time.Sleep(time.Until(begin.Add(at)))
		row := &rows[at/time.Second]
		row.Calls++
		r.Outcome.Calls++
		calls.Go(func() {
			resp, err := client.Get(server.URL)
			if err != nil {
				return
			}
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			if err == nil && resp.StatusCode == http.StatusOK && time.Since(begin)-at <= defaultPatience {
				row.Worked++
				r.Outcome.Worked++
			}
		})
	}
	calls.Wait()
	r.Services = map[string]Load{"web": {Seconds: rows}}
	s.judge(&r)
	return r.Outcome, attempts.Load()
}

// A pool is a real service: workers that sleep, and requests that wait for them in
// the order in which they came, as senders to a channel do.
type pool struct {
	Service
	workers chan struct{}
	waiting atomic.Int64
	hangs   sync.RWMutex // locked during the outage
}

// serve reports whether a request was not refused.
func (p *pool) serve(caller context.Context) bool {
	if waiting := p.waiting.Add(1); p.Queue > 0 && int(waiting) > p.Queue {
		p.waiting.Add(-1)
		return false
	}
	p.workers <- struct{}{}
	defer func() { <-p.workers }()
	p.hangs.RLock()
	p.waiting.Add(-1)
	p.hangs.RUnlock()
	if p.Cancel == CancelQueue && caller.Err() != nil {
		return false
	}
	time.Sleep(time.Duration(rand.ExpFloat64() * float64(p.Work)))
	return true
}
