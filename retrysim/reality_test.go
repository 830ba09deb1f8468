package retrysim

import (
	"cmp"
	"context"
	"fmt"
	"io"
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

// Real servers on loopback, real clients and real time: the simulation gets the same
// arrivals, and 200 seeds for the rest. It takes minutes in which the machine must do
// nothing else, so only .ci/soak reality runs it.
func TestReality(t *testing.T) {
	if os.Getenv("RETRY_REALITY") == "" {
		t.Skip("set RETRY_REALITY on a machine that does nothing else")
	}
	retries := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: 100 * time.Millisecond}, Jitter: retry.FullJitter, AttemptTimeout: time.Second}
	once := retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second}
	saving, above := retries, retries
	saving.Budget = &retry.Budget{Size: 20, Ratio: 0.1}
	above.AttemptTimeout = 3 * time.Second
	pool := func(rate float64, policy retry.Policy, queue int, cancel Cancel) System {
		return System{
			Services: map[string]Service{
				"web": {Rate: rate, Calls: []Edge{{To: "db", Policy: policy}}},
				"db":  {Workers: 10, Work: 100 * time.Millisecond, Queue: queue, Cancel: cancel},
			},
			Events: []Trigger{{12 * time.Second, 8 * time.Second, "db", Workers, 0}}, Duration: 50 * time.Second,
		}
	}
	docs := pool(280, once, 0, CancelNone)
	docs.edit("db", func(v *Service) { v.Workers = 30 })
	docs.Events[0].At, docs.Events[0].For, docs.Duration = 20*time.Second, 10*time.Second, 3*time.Minute
	down := docs
	down.Duration = 45 * time.Second // then 10,000 connections are open
	chain := pool(24, retries, 0, CancelNone)
	chain.Services["api"] = Service{Calls: chain.Services["web"].Calls}
	chain.edit("web", func(v *Service) { v.Calls = []Edge{{To: "api", Policy: above}} })
	chain.Duration = 90 * time.Second
	cancel := func(name string, v *Service) { v.Cancel = map[string]Cancel{"db": CancelWork}[name] }
	drop := func(name string, v *Service) { v.Cancel = map[string]Cancel{"db": CancelQueue}[name] }
	queue := func(_ string, v *Service) { v.Queue = 8 * v.Workers }
	less := func(_ string, v *Service) { v.each(func(p *retry.Policy) { p.AttemptCap = 1 }) }
	budget := func(_ string, v *Service) {
		v.each(func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 10, Ratio: 0.1} })
	}
	lend := func(name string, v *Service) { v.Lend = map[string]int{"web": 1}[name] }
	rows := []struct {
		name string
		System
		want Verdict
	}{
		{"A 30/s, 2 attempts", pool(30, once, 0, CancelNone), Recovers},
		{"B 60/s, 3 attempts, full jitter", pool(60, retries, 0, CancelNone), StaysDown},
		{"C as B, with a budget", pool(60, saving, 0, CancelNone), Recovers},
		{"D as B, with a queue of 50", pool(60, retries, 50, CancelNone), Recovers},
		{"E as B, and the queue drops what is canceled", pool(60, retries, 0, CancelQueue), StaysDown},
		{"F docs/simulate.md", down, StaysDown},
		{"F, db: cancel: work", docs.with(cancel), Recovers},
		{"F, db: queue: 240", docs.with(queue), Recovers},
		{"F, web -> db: budget", docs.with(budget), Recovers},
		{"F, web -> db: max_attempts: 1", docs.with(less), Recovers},
		{"F, db: cancel: queue", docs.with(drop), StaysDown},
		{"G web -> api -> db", chain, StaysDown},
		{"G, db: cancel: work", chain.with(cancel), Recovers},
		{"G, db: queue: 80", chain.with(queue), Recovers},
		{"G, each call: budget", chain.with(budget), Recovers},
		{"G, web: lend: 1", chain.with(lend), Recovers},
	}
	for _, tc := range rows {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := tc.System
			real, sent := measure(s)

			var recovery, attempts, worked []float64
			for seed := range uint64(200) {
				e := newEngine(s, seed)
				web := &e.services[len(e.services)-1]
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
			assert.Equal(t, tc.want == Recovers, real.Verdict == Recovers, "retry simulate says that it %s", tc.want)
		})
	}
}

// each edits the policies of the calls of v.
func (v *Service) each(edit func(p *retry.Policy)) {
	for i := range v.Calls {
		edit(&v.Calls[i].Policy)
	}
}

const arrivalSeed = 1

func spread(xs []float64) string {
	mean, deviation := moments(xs)
	return fmt.Sprintf("%.1f ± %.1f", mean, deviation)
}

// measure runs s for real: its web are clients in this process, the others servers. It
// returns how many attempts got to db until the end.
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
			p.calls = append(p.calls, func(ctx context.Context) bool { return get(ctx, client, urls[e.To]) })
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

// get reports whether a call is answered well.
func get(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return err == nil && resp.StatusCode == http.StatusOK
}

// A pool is a real service: workers that sleep, and requests that wait for them in
// the order in which they came, as senders to a channel do.
type pool struct {
	Service
	calls   []func(context.Context) bool
	workers chan struct{}
	waiting atomic.Int64
	hangs   sync.RWMutex // locked during the outage
}

// serve reports whether a request was not refused, and neither its calls.
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
	work := time.NewTimer(time.Duration(rand.ExpFloat64() * float64(p.Work)))
	defer work.Stop()
	select {
	case <-work.C:
	case <-caller.Done():
		return false
	}
	return !slices.ContainsFunc(p.calls, func(call func(context.Context) bool) bool { return !call(caller) })
}
