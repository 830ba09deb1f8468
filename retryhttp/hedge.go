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
// docs/hedge.md has measurements, and says when it helps and when it does not. It is safe for
// concurrent use. Do not copy it, nor change its fields while it is in use.
//
// # What is sent twice
//
// A GET or HEAD without a body and without an Upgrade, if the Transport may send it again: its
// policy allows a second attempt, Transport.Idempotent allows it, and there is no Trailer. It is
// not sent twice while a [Gate] holds other attempts. If the first request fails before After,
// there is no second one: the Transport may try again.
//
// # Which answer is returned
//
// An answer succeeds if its status is below 500, and the function [Check] would not retry it: a
// 200 or a 404, and no 503 or 507. If one request fails, the other may still succeed. If neither
// does, the answer of the first is returned, unless only the second asks to wait. If the first
// asks to wait, by a 429 or a Retry-After, its answer is returned at once.
//
// The other request is canceled, and its response is discarded as a Transport does.
//
// # What it costs
//
// A second request takes a retry out of its own Budget and out of each Budget of the
// context (see [retry.WithBudget]). If one of them is empty, the first request goes on
// alone. Only an answer before After puts its share back.
//
// The goroutine of the caller sends the first request, and a new one the second. Base must
// return when the context of its request is done. If it panics in the second request, or what
// reads the answer does (Transport.Advise, Gate.OnClose), the first is canceled, and both fail
// with a permanent error. Any other panic is the caller's, and ends both requests. A trace of
// net/http/httptrace sees both requests at the same time. [LendBudget] belongs below, so that both get a lease.
type Hedge struct {
	Base http.RoundTripper // sends both requests; nil: http.DefaultTransport

	// After is how long the first request may take until its headers arrive. Then the
	// second is sent. Choose what 95 % or more of the answers stay below. 0 or less: never.
	After time.Duration

	// Budgets returns the Budget of the second requests, nil for none: then half of all
	// requests may be second ones. It is called once for each request that may be sent
	// twice. Do not return the Budget of a Transport, which would get each success twice.
	//
	// nil: a Budget{Size: 10, Ratio: 0.05, RefillEvery: 5m} for each scheme and host, kept
	// as the Transport keeps those of its Budgets. 0.05 is one for 20 answers in time.
	Budgets func(*http.Request) *retry.Budget

	// OnHedge is called once for each second request, when it is known which answer is
	// returned: won says that it is the one of the second. It is called before RoundTrip
	// returns, in the same goroutine, with the context that RoundTrip got. nil: not called.
	OnHedge func(ctx context.Context, won bool)

	targets targets
	own     sync.Once // sets what targets begin with
}

// Hedged reports whether ctx is the context of a second request of a [Hedge], as Base
// gets it. In the OnEvent of a policy it reports whether the answer of the last attempt
// is the one of its second request, which package retrylog logs as "hedged".
func Hedged(ctx context.Context) bool { return ctxvalue.Hedged(ctx) }

// Hedged is for the function.
func (x *exchange) Hedged(context.Context) bool { return x.hedged.Load() }

// CloseIdleConnections closes those of Base. http.Client calls it.
func (h *Hedge) CloseIdleConnections() { (&Transport{Base: h.Base}).CloseIdleConnections() }

// RoundTrip sends a request, and if its answer is late a second one like it.
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

// hedgeable reports whether a request may be sent a second time while the first is under way.
func hedgeable(req *http.Request) bool {
	_, upgrade := req.Header["Upgrade"]
	return (isGet(req) || req.Method == http.MethodHead) && (req.Body == nil || req.Body == http.NoBody) &&
		req.URL != nil && !upgrade && !sentOnce(req)
}

// A race is a request that may be sent twice.
type race struct {
	h       *Hedge
	req     *http.Request
	attempt *attempt      // of the Transport above; nil: there is none
	in      *attempt      // in whose context the request is made: of the same, or of another request
	budget  *retry.Budget // of second requests
	first   leg

	mu     sync.Mutex    // guards what is below, and ended and freed of both requests
	second *leg          // nil: it was not sent
	won    *leg          // whose answer is returned; nil: not known yet
	over   chan struct{} // closed when the second has ended
}

// A leg is one of the two requests.
type leg struct {
	r      *race
	second bool
	ctx    context.Context // lives until the body has been read, if it wins
	cancel context.CancelCauseFunc
	req    *http.Request

	resp         *http.Response
	err          error
	ok, asks     bool // it succeeded; the server asks to wait
	ended, freed bool
}

// Hedged is for the function, which finds l in ctx.
func (l *leg) Hedged(ctx context.Context) bool { return l.second && l.of(ctx) }

// of reports whether ctx is the one of l, and not of a call further down.
func (l *leg) of(ctx context.Context) bool { return attemptIn(ctx) == l.r.in }

func (r *race) begin(l *leg) {
	ctx, cancel := context.WithCancelCause(r.req.Context())
	l.r, l.cancel, l.ctx = r, cancel, context.WithValue(ctx, ctxvalue.Hedge{}, l)
	l.req = copyOf(l.ctx, r.req)
}

// hedge pays for the second request and sends it, if the first is still under way.
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
			const text = "retryhttp: panic in the second request of a Hedge, by the RoundTripper %T or by what reads its answer: %v"
			l.err = retry.Permanent(fmt.Errorf(text, r.h.base(), p))
		}
		r.end(l, l.ok)
		close(r.over)
	}()
	l.send()
	returned = true
}

// holds reports whether the gate holds other attempts.
func (p *passage) holds() bool { return p != nil && !p.pauses.Last(p.key).Over(time.Now()) }

// join adds the second request, unless the race is over.
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

// judge decides what a response that failed is worth.
func (l *leg) judge() {
	t, a := new(Transport), l.r.attempt
	if a != nil {
		t = a.x.t
	}
	status, failure := l.resp.StatusCode, t.StatusError(l.r.req, l.resp).judged(l.r.req)
	l.asks = status == http.StatusTooManyRequests || retry.RetryAfterOf(failure) > 0
	l.ok = status < 500 && retry.IsPermanent(failure) && !passes(status)
	if l.second && l.asks && a != nil && a.x.gate != nil {
		a.x.gate.learn(status, failure)
	}
}

// settle returns the request whose answer is returned, if there may be a second one.
func (r *race) settle() *leg {
	best := &r.first
	won := r.end(best, best.ok || best.asks)
	if won == nil { // the second may succeed
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

// end says that a request has ended, and whether its answer is the one that is returned if
// none is yet. It returns the request whose answer is, nil while both may be.
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

// abandon ends both requests, and returns the answer of neither.
func (r *race) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first.ended, r.won = true, new(leg)
	r.endLosers()
}

// endLosers cancels each request that has lost, or frees it if it has ended.
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

// free discards the response of the request that lost. No caller waits for it, or would get
// the panic of its body.
func (l *leg) free() {
	defer func() { _ = recover() }()
	(&attempt{Context: l.ctx, cancel: l.cancel}).discard(l.resp, 0)
}

// answer returns what RoundTrip does.
func (l *leg) answer() (*http.Response, error) {
	if l.resp == nil {
		l.cancel(nil)
		return nil, l.err
	}
	if l.resp.Request == nil || l.resp.Request == l.req {
		l.resp.Request = l.r.req
	}
	if l.err != nil || l.resp.Body == nil || l.resp.Body == http.NoBody {
		l.cancel(nil)
	} else {
		l.resp.Body = endedBy(l.resp.Body, l.cancel, new(body))
	}
	return l.resp, l.err
}
