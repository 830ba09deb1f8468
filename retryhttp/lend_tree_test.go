package retryhttp_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// A fate is what happens to one request or to its answer.
type fate int

const (
	arrives  fate = iota
	refused       // no connection
	lost          // the answer is lost
	stripped      // a proxy removes the report from the answer
	bare          // a proxy removes the header from the request
)

// A service is a server in a tree. It calls the services below it, and answers 503 if one of these
// calls fails. Its first fields say how the service above calls it.
type service struct {
	tree           *tree
	attempts       int // the MaxAttempts of the service above
	lends, borrows int // the limits of LendBudget and BorrowBudget
	timeout, hedge time.Duration
	fates          []fate // the fates of the requests, in their order

	below    []*service
	parallel bool
	takes    time.Duration
	outcomes []int // the statuses of the answers, in their order; 0: the connection breaks

	used, arrivals atomic.Int64
}

// A tree contains all services that a request reaches, and counts the retries.
type tree struct {
	plain   bool           // no retries are lent
	serving sync.WaitGroup // the handlers that run
	retries atomic.Int64
}

// The method `call` calls s, as the service above does.
func (s *service) call(ctx context.Context) bool {
	tr := &retryhttp.Transport{Base: s, Policy: retry.Policy{MaxAttempts: s.attempts, Backoff: retry.Fixed(time.Millisecond), AttemptTimeout: s.timeout}}
	if !s.tree.plain {
		tr.Base = retryhttp.LendBudget(s, s.lends)
		if s.hedge > 0 {
			tr.Base = &retryhttp.Hedge{Base: tr.Base, After: s.hedge, Budgets: retryhttp.NoBudgets}
		}
	}
	_, err := retryhttp.Result(tr.RoundTrip(httptest.NewRequestWithContext(ctx, "GET", "http://service/", nil)))
	return err == nil
}

// RoundTrip takes the part of the network: the next fate in the list happens to the request.
func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	f := s.fates[int(s.used.Add(1)-1)%len(s.fates)]
	if retryhttp.Hedged(req.Context()) || retryhttp.AttemptOf(req.Context()) > 1 {
		s.tree.retries.Add(1)
	}
	switch f {
	case refused:
		return traced("asks", func(*http.Request) (*http.Response, error) { return nil, errReset })(req)
	case bare:
		req = req.Clone(req.Context())
		req.Header.Del("Retry-Budget")
	}
	resp, err := traced("asks got wrote", s.inMemory)(req)
	switch {
	case err != nil, f == lost:
		return nil, cmp.Or(err, errReset)
	case f == stripped:
		resp.Header.Del("Retry-Budget-Spent")
	}
	return resp, nil
}

// The method inMemory calls the handler without a network. As in net/http, the handler's context is
// canceled if the client goes away.
func (s *service) inMemory(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.Background())
	rec, done := httptest.NewRecorder(), make(chan any, 1)
	s.tree.serving.Go(func() {
		defer cancel()
		defer func() { done <- recover() }()
		h := http.Handler(s)
		if !s.tree.plain {
			h = retryhttp.BorrowBudget(s, s.borrows)
		}
		h.ServeHTTP(rec, req.Clone(ctx))
	})
	select {
	case panicked := <-done:
		if panicked != nil {
			return nil, errReset
		}
		return rec.Result(), nil
	case <-req.Context().Done():
		cancel()
		return nil, req.Context().Err()
	}
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := s.outcomes[int(s.arrivals.Add(1)-1)%len(s.outcomes)]
	select {
	case <-time.After(s.takes):
	case <-r.Context().Done():
	}
	var failed atomic.Bool
	var calls sync.WaitGroup
	for _, next := range s.below {
		if call := func() { failed.CompareAndSwap(false, !next.call(r.Context())) }; s.parallel {
			calls.Go(call)
		} else if !failed.Load() {
			call()
		}
	}
	calls.Wait()
	switch {
	case failed.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case status == 0:
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(status)
	}
}

// The method `grow` adds a random service with up to depth layers below it.
func (t *tree) grow(r *rand.Rand, depth int) *service {
	some := func(unit time.Duration, n int) time.Duration { return time.Duration(max(0, r.IntN(2*n)-n)) * unit }
	s := &service{
		tree: t, attempts: 1 + r.IntN(4), lends: r.IntN(6), borrows: r.IntN(6), parallel: r.IntN(2) == 0,
		takes: some(ms/4, 20), timeout: some(ms, 10), hedge: some(ms/2, 8),
	}
	for range 1 + r.IntN(6) {
		s.fates = append(s.fates, fate(max(0, r.IntN(13)-10)))
		s.outcomes = append(s.outcomes, []int{200, 200, 503, 503, 0}[r.IntN(5)])
	}
	for range r.IntN(4) * min(1, depth) {
		s.below = append(s.below, t.grow(r, depth-1))
	}
	return s
}

// In a random tree, the retries of all services and the retries left in the request's Budget are
// together at most the Size of the Budget. With RETRY_LONG, the test checks 10,000 trees.
func TestBudgetBoundsTheTreeOfARequest(t *testing.T) {
	t.Parallel()
	trees := int64(1000)
	if os.Getenv("RETRY_LONG") != "" {
		trees = 10_000
	}
	var retries, bounds int64
	for seed := int64(0); seed < trees && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 26))
			tr, budget := &tree{}, &retry.Budget{Size: r.IntN(7)}
			ctx := retry.WithBudget(t.Context(), budget)
			if r.IntN(6) == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(40))*ms)
				defer cancel()
			}
			tr.grow(r, 1+r.IntN(3)).call(ctx)
			time.Sleep(time.Hour) // some services go on although nobody waits for their answer
			synctest.Wait()
			n := tr.retries.Load()
			assert.LessOrEqual(t, n+int64(budget.Left()), int64(budget.Size), "tree %d", seed)
			retries += n
			if n > 0 && n == int64(budget.Size) {
				bounds++
			}
		})
	}
	assert.Greater(t, retries, trees, "a tree has more than one retry on average")
	assert.Greater(t, bounds, trees/20, "more than one tree in 20 uses up its Budget")
}

// A client calls the server A, A calls the server B, and B calls a third server, the leaf. Each
// call has four attempts, and the client has a Budget of 3. The test counts the calls that reach
// the leaf, with and without LendBudget.
func TestBudgetOverThreeLayers(t *testing.T) {
	page, err := os.ReadFile("../docs/budget.md")
	require.NoError(t, err)
	for _, row := range []struct {
		name         string
		ab, leaf     fate             // the fate of the requests to A and B, and of the requests to the leaf
		takes        time.Duration    // how long the leaf takes
		timeouts     [3]time.Duration // the AttemptTimeouts of the client, A and B
		calls        int              // how many calls the client makes at the same time
		unbounded    bool             // the client's context has no Budget
		plain, lease int64
	}{
		{"the leaf says 503", arrives, arrives, 0, [3]time.Duration{}, 1, false, 64, 4},
		{"a proxy removes the report, which is the response header `Retry-Budget-Spent`", stripped, stripped, 0, [3]time.Duration{}, 1, false, 64, 8},
		{"a proxy removes the lease, which is the request header `Retry-Budget`", bare, bare, 0, [3]time.Duration{}, 1, false, 64, 64},
		{"every answer of A and B is lost", lost, arrives, 0, [3]time.Duration{}, 1, false, 64, 4},
		{"the leaf hangs; the attempt timeouts of the client, A and B are 450, 150 and 50 ms", arrives, arrives, time.Hour, [3]time.Duration{450 * ms, 150 * ms, 50 * ms}, 1, false, 36, 4},
		{"the leaf hangs; each attempt timeout is 50 ms", arrives, arrives, time.Hour, [3]time.Duration{50 * ms, 50 * ms, 50 * ms}, 1, false, 4, 2},
		{"the client makes ten calls in parallel", arrives, arrives, 0, [3]time.Duration{}, 10, false, 208, 13},
		{"the outermost client sets no budget", arrives, arrives, 0, [3]time.Duration{}, 1, true, 64, 16},
	} {
		assert.Contains(t, string(page), fmt.Sprintf("\n| %s | %d | **%d** |\n", row.name, row.plain, row.lease))
		for plain, want := range map[bool]int64{true: row.plain, false: row.lease} {
			t.Run(fmt.Sprintf("%s, without %v", row.name, plain), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tr := &tree{plain: plain}
					leaf := &service{tree: tr, attempts: 4, lends: 3, borrows: 3, timeout: row.timeouts[2], fates: []fate{row.leaf}, outcomes: []int{503}, takes: row.takes}
					top := leaf
					for _, timeout := range []time.Duration{row.timeouts[1], row.timeouts[0]} {
						top = &service{tree: tr, attempts: 4, lends: 3, borrows: 3, timeout: timeout, fates: []fate{row.ab}, outcomes: []int{200}, below: []*service{top}}
					}
					ctx := t.Context()
					if !row.unbounded {
						ctx = retry.WithBudget(ctx, &retry.Budget{Size: 3})
					}
					for range row.calls {
						tr.serving.Go(func() { top.call(ctx) })
					}
					tr.serving.Wait()
					require.Equal(t, want, leaf.arrivals.Load())
				})
			})
		}
	}
}
