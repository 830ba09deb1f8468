package retryhttp

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
)

// A Hedge is an http.RoundTripper that sends a GET or HEAD a second time if its answer is
// late, and returns the answer that succeeds first. Put it below a [Transport]:
//
//	client := &http.Client{Transport: &retryhttp.Transport{
//		Policy: retry.Default(),
//		Base:   &retryhttp.Hedge{After: 50 * time.Millisecond},
//	}}
//
// docs/hedge.md has measurements, and says when a Hedge helps and when it does not. A Hedge is safe
// for concurrent use. Do not copy a Hedge, and do not change its fields while it is in use.
//
// # What is sent twice
//
// A GET or HEAD without a body, without a Trailer and without an Upgrade is sent twice if the
// Transport above may send it again: its policy allows a second attempt, and Transport.Idempotent
// allows it. While a [Gate] holds other attempts, no second request is sent. If the first request
// fails before After, no second request is sent either: the Transport may try again.
//
// # Which answer is returned
//
// An answer succeeds if its status is below 500 and the function [Check] would not retry it. So a
// 200 and a 404 succeed, and a 503 and a 507 do not. If one request fails, the other may still
// succeed. If both fail, the answer of the first request is returned, unless only the answer of
// the second asks to wait. If the answer of the first request asks to wait, by a 429 or a
// Retry-After, that answer is returned at once.
//
// The request whose answer is not returned is canceled, and its response is discarded, as a
// Transport discards a response.
//
// # What it costs
//
// A second request takes a retry out of the Budget for second requests, and out of each Budget of
// the context (see [retry.WithBudget]). If one of these Budgets is empty, the first request goes
// on alone. Only a successful answer that arrives before After puts a share back.
//
// The goroutine of the caller sends the first request. A new goroutine sends the second. Base must
// return when the context of its request is done. If Base panics in the second request, or if
// Transport.Advise or Gate.OnClose panics over its answer, the first request is canceled, and both
// fail with a permanent error. Any other panic reaches the caller, and ends both requests. A trace
// of net/http/httptrace sees both requests at the same time. Put [LendBudget] below the Hedge, so
// that both requests get a lease.
type Hedge struct {
	Base http.RoundTripper // sends both requests; nil: http.DefaultTransport

	// After is how long the first request may take until its headers arrive. Then the
	// second request is sent. Choose a time within which at least 95 % of the answers arrive. 0 or
	// less: no second request is sent.
	After time.Duration

	// Budgets returns the Budget that pays for second requests. If it returns nil, only the
	// Budgets of the context limit them, and half of all requests may be second requests. Budgets
	// is called once for each request that may be sent twice. Do not return the Budget of a
	// Transport: each success would put two shares into it.
	//
	// nil: a Budget{Size: 10, Ratio: 0.05, RefillEvery: 5m} for each target, kept as a
	// Transport keeps the Budgets of its targets. The Ratio of 0.05 allows one second request for
	// 20 answers that arrive before After.
	Budgets func(*http.Request) *retry.Budget

	// OnHedge is called once for each second request, when it is known which answer is
	// returned. won: the answer of the second request is returned. OnHedge is called before
	// RoundTrip returns, in the same goroutine, with the context that RoundTrip got. nil: nothing
	// is called.
	OnHedge func(ctx context.Context, won bool)

	targets targets
	own     sync.Once // sets the Budget that targets make
}

// Hedged reports whether ctx is the context of the second request of a [Hedge], as Base
// gets that context. In the OnEvent of a policy, Hedged reports whether the answer of the last
// attempt came from a second request. Package retrylog logs this as "hedged".
func Hedged(ctx context.Context) bool { return ctxvalue.Hedged(ctx) }

// Hedged reports to the function Hedged whether a second request has answered the last attempt.
func (x *exchange) Hedged(ctx context.Context) bool { return x.hedged.Load() && x.of(ctx) }

// CloseIdleConnections closes the idle connections of Base. http.Client calls it.
func (h *Hedge) CloseIdleConnections() { (&Transport{Base: h.Base}).CloseIdleConnections() }

// RoundTrip sends a request, and sends it a second time if the answer is late.
func (h *Hedge) RoundTrip(req *http.Request) (*http.Response, error) {
	if h.After <= 0 || !hedgeable(req) {
		return h.base().RoundTrip(req)
	}
	budget, done := h.budgetOf(req)
	defer done()
	r := &race{h: h, req: req, attempt: attemptOf(req), in: attemptIn(req.Context()), budget: budget}
	first := &r.first
	r.begin(first)
	late := time.AfterFunc(h.After, r.hedge)
	var won *leg
	defer func() {
		if won == nil { // Base or OnHedge has panicked
			r.abandon()
		}
	}()
	first.send()
	switch {
	case !late.Stop():
		won = r.settle()
	case first.ok:
		r.budget.Success()
		fallthrough
	default:
		won = r.end(first, true)
	}
	return won.answer()
}

func (h *Hedge) base() http.RoundTripper { return (&Transport{Base: h.Base}).base() }

func (h *Hedge) budgetOf(req *http.Request) (budget *retry.Budget, done func()) {
	if h.Budgets != nil {
		return h.Budgets(req), func() {}
	}
	h.own.Do(func() {
		h.targets.New = func(key string) *retry.Budget {
			return &retry.Budget{Name: key, Size: 10, Ratio: 0.05, RefillEvery: 5 * time.Minute}
		}
	})
	return h.targets.budgetOf(req.URL)
}

// hedgeable reports whether a request may be sent a second time while the first is in flight.
func hedgeable(req *http.Request) bool {
	_, upgrade := req.Header["Upgrade"]
	return (isGet(req) || req.Method == http.MethodHead) && req.URL != nil &&
		(req.Body == nil || req.Body == http.NoBody) && req.Trailer == nil && !upgrade &&
		!sentOnce(req)
}

// sentOnce reports whether a request is part of an attempt that must not be made twice. A request
// in the context of the attempt may be part of it even if its URL is another: Base may have changed
// the URL. A request that Prepare sends is not part of the attempt.
func sentOnce(req *http.Request) bool {
	a := attemptIn(req.Context())
	return a != nil && a.to.known.Load() && (a.x.once || a.max() == 1)
}

// A race is a request that may be sent twice.
type race struct {
	h       *Hedge
	req     *http.Request
	attempt *attempt      // the attempt that sends this request; nil: no Transport is above
	in      *attempt      // the attempt in whose context req is made: attempt, or of another request
	budget  *retry.Budget // pays for the second request; nil: no Budget but those of the context
	first   leg

	mu     sync.Mutex    // guards the fields below, and the fields ended and freed of both legs
	second *leg          // nil: the second request was not sent
	won    *leg          // its answer is returned; nil: not known yet
	over   chan struct{} // closed when the second request has ended
}

// A leg is one of the two requests of a race.
type leg struct {
	r      *race
	second bool
	ctx    context.Context // of req; if the leg wins, it lives until the body has been read
	cancel context.CancelCauseFunc
	req    *http.Request

	resp         *http.Response
	err          error
	ok, asks     bool // the request succeeded; its answer asks to wait
	ended, freed bool // the request has returned; its response is discarded
}

// Hedged reports to the function Hedged, which finds l in ctx, whether ctx is of a second request.
func (l *leg) Hedged(ctx context.Context) bool { return l.second && l.of(ctx) }

// of reports whether ctx is the context of l, and not of an attempt further down in that context.
func (l *leg) of(ctx context.Context) bool { return attemptIn(ctx) == l.r.in }

// begin makes the request of a leg, with a context of its own.
func (r *race) begin(l *leg) {
	ctx, cancel := context.WithCancelCause(r.req.Context())
	l.r, l.cancel, l.ctx = r, cancel, context.WithValue(ctx, ctxvalue.Hedge{}, l)
	l.req = copyOf(l.ctx, r.req)
}

// hedge sends the second request, if the first is still in flight and the Budgets pay for it.
func (r *race) hedge() {
	ctx := retry.WithBudget(r.req.Context(), r.budget)
	if ctx.Err() != nil || r.attempt != nil && r.attempt.x.gate.holds() {
		return
	}
	switch lent, back := retry.LendBudget(ctx, 1, false); {
	case lent == 0:
		return
	case !r.join():
		back(lent)
		return
	}
	l, returned := r.second, false
	defer func() {
		if p := recover(); !returned { // nil: runtime.Goexit
			if l.resp != nil { // Advise or OnClose has panicked
				go (&leg{ctx: l.ctx, cancel: l.cancel, resp: l.resp}).free()
			}
			l.resp, l.ok = nil, true
			const text = "retryhttp: panic in the second request of a Hedge, " +
				"by the RoundTripper %T or by what reads its answer: %v"
			l.err = retry.Permanent(fmt.Errorf(text, r.h.base(), p))
		}
		r.end(l, l.ok)
		close(r.over)
	}()
	l.send()
	returned = true
}

// join adds a second leg to the race, unless the race is over.
func (r *race) join() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.won != nil {
		return false
	}
	r.over, r.second = make(chan struct{}), &leg{second: true}
	r.begin(r.second)
	return true
}

// send sends the request of a leg, and decides whether its answer succeeded.
func (l *leg) send() {
	base := l.r.h.base()
	l.resp, l.err = base.RoundTrip(l.req)
	switch {
	case l.err != nil:
	case l.resp == nil:
		l.err = neither(base)
	case l.resp.StatusCode < 400:
		l.ok = true
	default:
		l.judge()
	}
}

// judge decides whether a response with a status of 400 or above succeeded, and whether it asks to
// wait. If the answer of a second request asks to wait, it closes the Gate of the Transport.
func (l *leg) judge() {
	// Without an attempt, l.r.req is the caller's, who may change it when the other leg has won.
	t, a, req := new(Transport), l.r.attempt, l.req
	if a != nil {
		t, req = a.x.t, l.r.req
	}
	status, failure := l.resp.StatusCode, t.StatusError(req, l.resp).judged(req)
	l.asks = status == http.StatusTooManyRequests || retry.RetryAfterOf(failure) > 0
	l.ok = status < 500 && retry.IsPermanent(failure) && !passes(status)
	if l.second && l.asks && a != nil && a.x.gate != nil {
		a.x.gate.learn(status, failure)
	}
}

// settle returns the leg whose answer is returned, after the first request has returned and a
// second may have been sent. It waits for the second if that may still succeed.
func (r *race) settle() *leg {
	best := &r.first
	won := r.end(best, best.ok || best.asks)
	if won == nil { // the second request may succeed
		select {
		case <-r.over:
			if r.second.asks {
				best = r.second
			}
		case <-r.req.Context().Done():
		}
		won = r.end(best, true)
	}
	if r.attempt != nil && won.second {
		r.attempt.x.hedged.Store(true)
	}
	if r.h.OnHedge != nil && r.second != nil {
		r.h.OnHedge(r.req.Context(), won.second)
	}
	return won
}

// end notes that a request has ended. If wins is set and no leg has won yet, l wins; so it does if
// no second request was sent. end returns the leg that has won, nil if none has yet.
func (r *race) end(l *leg, wins bool) (won *leg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.ended = true
	if r.won == nil && (wins || r.second == nil) {
		r.won = l
	}
	r.endLosers()
	return r.won
}

// abandon ends both requests. The answer of neither is returned.
func (r *race) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first.ended, r.won = true, new(leg)
	r.endLosers()
}

// endLosers cancels each request that has lost and has not ended. If the request has ended with a
// response, it discards the response.
func (r *race) endLosers() {
	for _, lost := range [...]*leg{&r.first, r.second} {
		switch {
		case r.won == nil || lost == nil || lost == r.won:
		case !lost.ended || lost.resp == nil:
			lost.cancel(nil)
		case !lost.freed:
			lost.freed = true
			go lost.free()
		}
	}
}

// free discards the response of a request that lost. It runs in a goroutine of its own, where a
// panic of the body would crash the program.
func (l *leg) free() {
	defer func() { _ = recover() }()
	(&attempt{Context: l.ctx, cancel: l.cancel}).discard(l.resp, 0)
}

// answer returns what RoundTrip returns: the response or the error of the leg that won.
func (l *leg) answer() (*http.Response, error) {
	if l.resp == nil {
		l.cancel(nil)
		return nil, l.err
	}
	switch of := l.resp.Request; {
	case of == nil || of == l.req:
		l.resp.Request = l.r.req
	case of.Context().Value(ctxvalue.Hedge{}) == l: // a copy of l.req: see send of an attempt
		l.resp.Request = of.WithContext(l.r.req.Context())
	}
	if l.err != nil || l.resp.Body == nil || l.resp.Body == http.NoBody {
		l.cancel(nil)
	} else {
		l.resp.Body = endedBy(l.resp.Body, l.cancel, new(body))
	}
	return l.resp, l.err
}
