package retrysim

import (
	"fmt"
	"io"
	"math"
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

// A real server on loopback, real clients and real time, five times at once: the
// simulation gets the same arrivals, and 200 seeds for the rest. It takes a minute in
// which the machine must do nothing else, so only .ci/soak reality runs it.
func TestReality(t *testing.T) {
	if os.Getenv("RETRY_REALITY") == "" {
		t.Skip("set RETRY_REALITY on a machine that does nothing else")
	}
	retries := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: 100 * time.Millisecond}, Jitter: retry.FullJitter, AttemptTimeout: time.Second}
	once := retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second}
	db := Service{Workers: 10, Work: 100 * time.Millisecond}
	short, drops := db, db
	short.Queue, drops.Cancel = 50, CancelQueue
	for _, tc := range []struct {
		name   string
		rate   float64
		policy retry.Policy
		size   int // of a budget; 0: none
		db     Service
	}{
		{"A 30/s, 2 attempts", 30, once, 0, db},
		{"B 60/s, 3 attempts, full jitter", 60, retries, 0, db},
		{"C as B, with a budget", 60, retries, 20, db},
		{"D as B, with a queue of 50", 60, retries, 0, short},
		{"E as B, and the queue drops what is canceled", 60, retries, 0, drops},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			policy := func() retry.Policy { // a new Budget each time
				p := tc.policy
				if tc.size > 0 {
					p.Budget = &retry.Budget{Size: tc.size, Ratio: 0.1}
				}
				return p
			}
			s := System{
				Services: map[string]Service{"web": {Rate: tc.rate, Calls: []Edge{{To: "db", Policy: policy()}}}, "db": tc.db},
				Events:   []Trigger{{12 * time.Second, 8 * time.Second, "db", Workers, 0}}, Duration: 50 * time.Second,
			}
			require.NoError(t, s.Validate())
			real := measure(s, policy())

			back := 0
			var recovery, attempts, worked []float64
			for seed := range uint64(200) {
				e := newEngine(s, seed)
				web := &e.services[1]
				web.arrives = newStream(arrivalSeed, "web", "arrivals")
				web.arrival++
				e.scheduleArrival(1)
				require.NoError(t, e.run())
				r := e.result(s)
				s.judge(&r)
				if r.Verdict == Recovers {
					back++
					recovery = append(recovery, r.Recovery.Seconds())
				}
				attempts = append(attempts, float64(r.Services["db"].Requests))
				worked = append(worked, float64(r.Worked))
			}
			t.Logf("real: %v, %d attempts, %d of %d calls work", real.Outcome, real.Services["db"].Requests, real.Worked, real.Calls)
			t.Logf("simulated: %d of 200 recover, after %s s, %s attempts, %s calls work", back, spread(recovery), spread(attempts), spread(worked))
			if real.Verdict == Recovers {
				assert.Positive(t, back, "no simulated run recovers")
			} else {
				assert.Less(t, back, 200, "all simulated runs recover")
			}
		})
	}
}

const arrivalSeed = 1

// spread writes a mean and a standard deviation.
func spread(xs []float64) string {
	if len(xs) == 0 {
		return "-"
	}
	sum, squares := 0.0, 0.0
	for _, x := range xs {
		sum += x
		squares += x * x
	}
	mean := sum / float64(len(xs))
	return fmt.Sprintf("%.1f ± %.1f", mean, math.Sqrt(max(0, squares/float64(len(xs))-mean*mean)))
}

// measure runs s for real: its web are clients in this process, its db a server.
func measure(s System, p retry.Policy) Result {
	n := s.seconds()
	web, db := make([]LoadSecond, n), make([]LoadSecond, n)
	var mu sync.Mutex
	begin := time.Now()
	row := func() *LoadSecond { // of this moment; after the end one that does not count
		if i := int(time.Since(begin) / time.Second); i < n {
			return &db[i]
		}
		return new(LoadSecond)
	}
	pool := &pool{Service: s.Services["db"], works: newStream(arrivalSeed, "db", "work"), free: s.Services["db"].Workers}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		row().Requests++
		mu.Unlock()
		w.WriteHeader(pool.serve(r))
	}))
	defer server.Close()
	outage := s.Events[0]
	time.AfterFunc(outage.At, func() { pool.set(true) })
	time.AfterFunc(outage.At+outage.For, func() { pool.set(false) })
	client := &http.Client{Transport: &retryhttp.Transport{Base: &http.Transport{MaxIdleConnsPerHost: 1000}, Policy: p}}

	var calls sync.WaitGroup
	arrives, at := newStream(arrivalSeed, "web", "arrivals"), int64(0)
	for {
		if at += arrives.exponential(1e9 / s.Services["web"].Rate); at >= int64(s.Duration) {
			break
		}
		came := at
		time.Sleep(time.Until(begin.Add(time.Duration(came))))
		calls.Go(func() {
			ok := false
			if resp, err := client.Get(server.URL); err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				ok = err == nil && resp.StatusCode == http.StatusOK
			}
			mu.Lock()
			defer mu.Unlock()
			call := &web[came/int64(time.Second)]
			call.Calls++
			if ok && time.Since(begin)-time.Duration(came) <= defaultPatience {
				call.Worked++
			}
			row().Queue = int(pool.waiting.Load())
		})
	}
	calls.Wait()
	r := Result{Seconds: make([]Second, n)}
	load := Load{Seconds: db}
	for i := range n {
		load.Requests += db[i].Requests
		r.Calls += web[i].Calls
		r.Worked += web[i].Worked
	}
	r.Services = map[string]Load{"web": {Seconds: web}, "db": load}
	s.judge(&r)
	return r
}

// A pool is a real service: workers that sleep, and requests that wait for them in
// the order in which they came.
type pool struct {
	Service
	works   stream
	mu      sync.Mutex
	free    int
	hangs   bool
	queue   []chan struct{}
	waiting atomic.Int64
}

func (p *pool) serve(r *http.Request) int {
	p.mu.Lock()
	if p.Queue > 0 && len(p.queue) >= p.Queue && (p.hangs || p.free == 0) {
		p.mu.Unlock()
		return http.StatusServiceUnavailable
	}
	turn := make(chan struct{})
	p.queue = append(p.queue, turn)
	work := time.Duration(p.works.exponential(float64(p.Work)))
	p.next()
	p.mu.Unlock()
	var gone <-chan struct{}
	if p.Cancel == CancelQueue {
		gone = r.Context().Done()
	}
	select {
	case <-turn:
	case <-gone:
		p.mu.Lock()
		i := slices.Index(p.queue, turn)
		if i >= 0 {
			p.queue = slices.Delete(p.queue, i, i+1)
		}
		p.waiting.Store(int64(len(p.queue)))
		p.mu.Unlock()
		if i >= 0 {
			return http.StatusServiceUnavailable
		}
		<-turn // it has got a worker meanwhile
	}
	time.Sleep(work)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	p.next()
	return http.StatusOK
}

// next gives the free workers to those who wait. The lock is held.
func (p *pool) next() {
	for p.free > 0 && !p.hangs && len(p.queue) > 0 {
		p.free--
		close(p.queue[0])
		p.queue = p.queue[1:]
	}
	p.waiting.Store(int64(len(p.queue)))
}

func (p *pool) set(hangs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs = hangs
	p.next()
}
