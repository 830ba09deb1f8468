package retrysim

import (
	"cmp"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// testdata/reality.json lists systems and their verdicts. On an idle machine, .ci/soak
// reality also runs each system for real, for minutes: servers on loopback, real clients and
// real time. It then simulates 200 runs with the same arrivals, for comparison.
func TestReality(t *testing.T) {
	var rows []struct {
		Name   string
		Want   Verdict
		System json.RawMessage
	}
	readRows(t, "testdata/reality.json", &rows)
	for _, tc := range rows {
		t.Run(tc.Name, func(t *testing.T) {
			t.Parallel()
			s := system(t, string(tc.System))
			r, err := Run(s, 1)
			require.NoError(t, err)
			assert.Equal(t, tc.Want, r.Outcome.Verdict)
			if os.Getenv("RETRY_REALITY") == "" {
				return
			}
			real, sent := measure(s)
			assert.Equal(t, tc.Want, real.Verdict)
			t.Logf("real: %v, %d attempts, %d of %d calls work", real, sent, real.Worked, real.Calls)
			got := map[string][]float64{}
			for seed := range uint64(200) {
				e := newEngine(s, seed)
				web := &e.services[len(e.services)-1]
				web.arrives = newStream(arrivalSeed, "web", "arrivals")
				web.arrival++
				e.scheduleArrival(web)
				r, err := s.goOn(e)
				require.NoError(t, err)
				if r.Outcome.Verdict == Recovers {
					got["recovery"] = append(got["recovery"], r.Outcome.Recovery.Seconds())
				}
				got["attempts"] = append(got["attempts"], float64(r.Services["db"].Requests))
				got["worked"] = append(got["worked"], float64(r.Outcome.Worked))
			}
			for name, xs := range got {
				mean, deviation := moments(xs)
				t.Logf("%s in %d simulated runs: %.1f ± %.1f", name, len(xs), mean, deviation)
			}
		})
	}
}

const arrivalSeed = 1

// The function `measure` runs s for real. The service web of s consists of clients in this process,
// and each other service is a server. The number in the result is how many attempts reached db
// before the run ended.
func measure(s System) (Outcome, int64) {
	begin, r := time.Now(), Result{Seconds: make([]Second, s.seconds())}
	rows := make([]LoadSecond, s.seconds())
	var attempts atomic.Int64
	order, _ := s.order()
	urls, pools := map[string]string{}, map[string]*pool{}
	for _, name := range slices.Backward(order) {
		p := &pool{Service: s.Services[name], workers: make(chan struct{}, s.Services[name].Workers)}
		pools[name] = p
		for _, e := range p.Calls {
			var base http.RoundTripper = &http.Transport{MaxIdleConnsPerHost: 1000}
			if s.Services["web"].Lend > 0 {
				base = retryhttp.LendBudget(base, s.Services["web"].Lend)
			}
			client := &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: e.Policy, Budgets: retryhttp.NoBudgets}}
			p.calls = append(p.calls, func(ctx context.Context) bool {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, urls[e.To], nil)
				if err != nil {
					return false
				}
				resp, err := client.Do(req)
				return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
			})
		}
		server := httptest.NewServer(retryhttp.BorrowBudget(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name == "db" && time.Since(begin) < s.Duration {
				attempts.Add(1)
			}
			if !p.serve(r.Context()) {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}), cmp.Or(s.Services["web"].Lend, 1<<20)))
		defer server.Config.Close() // server.Close would wait for requests whose callers gave up
		urls[name] = server.URL
	}
	outage := s.Events[0]
	time.AfterFunc(outage.At, pools["db"].hangs.Lock)
	time.AfterFunc(outage.At+outage.For, pools["db"].hangs.Unlock)

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
			ctx := context.Background()
			if lend := s.Services["web"].Lend; lend > 0 {
				ctx = retry.WithBudget(ctx, &retry.Budget{Size: lend})
			}
			worked := pools["web"].serve(ctx)
			mu.Lock()
			defer mu.Unlock()
			if worked && time.Since(begin)-at <= defaultPatience {
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

// A pool is a real service. Its workers sleep. Its requests wait for a worker in the order of
// arrival, as senders to a channel do.
type pool struct {
	Service
	calls   []func(context.Context) bool
	workers chan struct{}
	waiting atomic.Int64
	hangs   sync.RWMutex // locked during the outage
}

// The method `serve` handles a request. It returns false if the request, or one of the calls that
// the request makes, was refused.
func (p *pool) serve(caller context.Context) bool {
	if p.Workers > 0 {
		if waiting := p.waiting.Add(1); p.Queue > 0 && int(waiting) > p.Queue {
			p.waiting.Add(-1)
			return false
		}
		p.workers <- struct{}{}
		defer func() { <-p.workers }()
		p.hangs.RLock()
		p.waiting.Add(-1)
		p.hangs.RUnlock()
		if p.Cancel != "" && p.Cancel != CancelNone && caller.Err() != nil {
			return false
		}
	}
	if p.Cancel != CancelWork {
		caller = context.WithoutCancel(caller)
	}
	select {
	case <-time.After(time.Duration(rand.ExpFloat64() * float64(p.Work))):
	case <-caller.Done():
		return false
	}
	return !slices.ContainsFunc(p.calls, func(call func(context.Context) bool) bool { return !call(caller) })
}
