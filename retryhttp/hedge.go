package retryhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
)

// A Hedge is an http.RoundTripper that sends a GET or HEAD a second time if the first answer is
// late. It returns the first successful answer. Put it below a [Transport]:
//
//	client := &http.Client{Transport: &retryhttp.Transport{
//		Policy: retry.Default(),
//		Base:   &retryhttp.Hedge{After: 50 * time.Millisecond},
//	}}
//
// docs/hedge.md has measurements, and says when a Hedge helps. A Hedge is safe for concurrent use.
// Do not copy a Hedge, and do not change its fields while it is in use.
//
// # What is sent twice
//
// A GET or HEAD may be sent twice if it has no body, no Upgrade header and no Trailer. If there is
// a Transport above, its policy must allow a second attempt, and its Idempotent must report true
// for the request. While a [Gate] holds back other attempts, no second request is sent. If the
// first request fails before After has passed, no second request is sent either, because the
// Transport may retry the first.
//
// # Which answer is returned
//
// An answer is successful if its status is below 500 and the function [Check] would not retry it.
// For example, a 200 and a 404 are successful, and a 429, a 503 and a 507 are not. If one of the
// two requests fails, the Hedge waits for the other request. Meanwhile the body of a failed first
// answer is stored, so that its connection is free for the second request. If this body has more
// than 64 KiB, or takes more than 100 ms, the first answer is dropped. If the answer of the first
// request is a 429 or has a Retry-After, the Hedge returns it at once. If both requests fail, the
// Hedge returns the answer of the first, unless the answer of the second asks to wait.
//
// The Hedge cancels the request whose answer is not returned, and discards its response as a
// Transport does.
//
// # What it costs
//
// A second request takes one retry from the Budget for second requests, and one from each Budget of
// the context (see [retry.WithBudget]). If one of these Budgets is empty, no second request is
// sent. A successful answer refills the Budget for second requests by its Ratio, but only if the
// answer arrives before After has passed.
//
// The first request is sent in the goroutine of the caller, and the second request in a new
// goroutine. Base must return when the context of its request is done. The goroutine of the second
// request runs Base, and Transport.Advise and Gate.OnClose for its answer. If one of these
// functions panics in this goroutine, the first request is canceled, and RoundTrip returns a
// permanent error. Any other panic reaches the caller, and cancels both requests. A trace of
// net/http/httptrace gets the events of both requests. Put [LendBudget] below the Hedge, so that
// each of the two requests lends its own retries.
type Hedge struct {
	Base http.RoundTripper // sends both requests; nil: http.DefaultTransport

	// After is the time from the start of the first request to the start of the second. The second
	// request is sent if the headers of the first answer have not arrived by then. Choose a time
	// within which at least 95 % of the answers arrive. If After is 0 or less, no second request is
	// sent.
	After time.Duration

	// Budgets returns the Budget from which second requests are taken. If Budgets returns nil, only
	// the Budgets of the context limit second requests, and every request may be sent twice. Budgets
	// is called once for each request that may be sent twice. Do not return the Budget of a Transport,
	// because each success would refill it twice.
	//
	// If Budgets is nil, each target gets a Budget{Size: 10, Ratio: 0.05, RefillEvery: 5m}. The Hedge
	// keeps the Budgets of up to 1,000 targets, as a Transport does. Because of the Ratio 0.05, every
	// 20 successful answers that arrive before After has passed allow the Hedge to send one more
	// request twice.
	Budgets func(*http.Request) *retry.Budget

	// OnHedge is called once for each second request, before RoundTrip returns. won reports whether
	// RoundTrip returns the answer of the second request. OnHedge is called in the goroutine of
	// RoundTrip, with the context of the request that RoundTrip got. OnHedge may be nil.
	OnHedge func(ctx context.Context, won bool)

	targets targets
	own     sync.Once // sets targets.New once
}

// Hedged reports whether ctx is the context of the second request of a [Hedge]. Call it in the Base
// of the Hedge. In the OnEvent of a policy, Hedged reports whether the answer of the last attempt
// came from a second request. Package retrylog logs this as "hedged".
func Hedged(ctx context.Context) bool { return ctxvalue.Hedged(ctx) }

// CloseIdleConnections closes the idle connections of Base. http.Client calls it.
func (h *Hedge) CloseIdleConnections() { (&Transport{Base: h.Base}).CloseIdleConnections() }

// RoundTrip sends a request. If the answer is late, RoundTrip sends the request a second time.
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

// sentOnce reports whether a request belongs to an attempt that must not be sent twice. It looks
// for the attempt in the context of the request, and does not compare URLs, because a RoundTripper
// in between may have changed the URL. A request that Prepare sends has the same context, but does
// not belong to the attempt. While Prepare runs, to.known is false, so sentOnce returns false for
// such a request.
func sentOnce(req *http.Request) bool {
	a := attemptIn(req.Context())
	return a != nil && a.to.known.Load() && (a.x.needsProof || a.max() == 1)
}

// A race is one call of RoundTrip whose request may be sent twice.
type race struct {
	h       *Hedge
	req     *http.Request
	attempt *attempt      // the attempt that sends req; nil: there is no Transport above
	in      *attempt      // the attempt in the context of req; its request may differ from req
	budget  *retry.Budget // the Budget for second requests; nil: there is no such Budget
	first   leg

	mu     sync.Mutex    // guards the fields below, and "ended" and "freed" of both legs
	second *leg          // the second request; nil: it was not sent
	won    *leg          // the leg whose answer is returned; nil: not known yet
	over   chan struct{} // closed when the second request has ended
}

// A leg is one of the two requests of a race.
type leg struct {
	r      *race
	second bool
	ctx    context.Context // the context of req; the winner's ctx ends with the body of its response
	cancel context.CancelCauseFunc
	req    *http.Request

	resp         *http.Response
	err          error
	ok, asks     bool // ok: the request succeeded; asks: its answer asks to wait
	ended, freed bool // ended: Base has returned; freed: the response is discarded
}

// The function Hedged finds l in ctx and calls this method. The method reports whether ctx is the
// context of a second request.
func (l *leg) Hedged(ctx context.Context) bool { return l.second && l.isFor(ctx) }

// isFor reports whether ctx is the context of l. It reports false for the context of an attempt of
// a Transport below the Hedge.
func (l *leg) isFor(ctx context.Context) bool { return attemptIn(ctx) == l.r.in }

// begin makes the request of a leg and the context of this request.
func (r *race) begin(l *leg) {
	ctx, cancel := context.WithCancelCause(r.req.Context())
	l.r, l.cancel, l.ctx = r, cancel, context.WithValue(ctx, ctxvalue.Hedge{}, l)
	l.req = copyOf(l.ctx, r.req)
}

// hedge sends the second request, unless the first has ended, a Gate holds it back, or a Budget is
// empty.
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
			if l.resp != nil { // Advise or OnClose panicked
				go (&leg{ctx: l.ctx, cancel: l.cancel, resp: l.resp}).free()
			}
			l.resp, l.ok = nil, true
			const text = "retryhttp: panic in the second request of a Hedge, " +
				"in the RoundTripper %T or in a function that reads its answer: %v"
			l.err = retry.Permanent(fmt.Errorf(text, r.h.base(), p))
		}
		r.end(l, l.ok)
		close(r.over)
	}()
	l.send()
	returned = true
}

// join adds the second leg to the race. It returns false if the race is over.
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
		l.err = noResult(base)
	case l.resp.StatusCode < 400:
		l.ok = true
	default:
		l.judge()
	}
}

// judge decides whether an answer with a status of 400 or above is successful, and whether it asks
// to wait. If the answer of a second request asks to wait, judge closes the Gate of the Transport.
func (l *leg) judge() {
	// If there is no Transport above, l.r.req is the caller's own request. The caller may change it
	// after the other leg has won, so l.req is used instead.
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

// settle returns the leg whose answer RoundTrip returns. It is called after the first request has
// ended, if After has passed. If the second request may still succeed, settle waits for it.
func (r *race) settle() *leg {
	best, wins := &r.first, r.first.ok || r.first.asks
	// If the first answer is a failure and the second request is in flight, release stores the body of
	// the first answer. This frees its connection, for which the second request may be waiting.
	kept := wins || !r.hasSecond() || best.release()
	won := r.end(best, wins)
	if won == nil { // the second request may succeed
		select {
		case <-r.over:
			if r.second.asks || !kept {
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

// hasSecond reports whether the second request was sent. If it was not sent, hasSecond makes the
// first leg the winner, so that the second request is not sent later.
func (r *race) hasSecond() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.second == nil {
		r.won = &r.first
	}
	return r.second != nil
}

// release reads the body of a failed answer into memory, so that its connection is free. Otherwise
// the second request may wait for this connection forever, if Base is an http.Transport with
// MaxConnsPerHost. If the body is too long or too slow for discard, release drops the answer and
// returns false.
func (l *leg) release() (kept bool) {
	if !hasText(l.resp) {
		return true
	}
	body := &endedBody{ReadCloser: l.resp.Body}
	l.resp.Body = body
	cancel := func(cause error) {
		// If the body was read to its end, RoundTrip may still return this answer, with the stored body.
		// The context of an answer that is returned must not end before the caller has read or closed the
		// body, so it is not canceled here.
		if !body.ended.Load() {
			l.cancel(cause)
		}
	}
	text := (&attempt{Context: l.ctx, cancel: cancel}).discard(l.resp, discardBytes)
	if !body.ended.Load() {
		l.resp, l.err = nil, errDropped
		return false
	}
	l.resp.Body = io.NopCloser(bytes.NewReader(text))
	return true
}

var errDropped = errors.New("retryhttp: the body of the first answer was too long or too slow to " +
	"store while the second request of a Hedge was in flight")

// An endedBody stores whether a body was read to its end.
type endedBody struct {
	io.ReadCloser
	ended atomic.Bool // atomic, because discard may return while its goroutine still calls Read
}

func (b *endedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended.Store(true)
	}
	return n, err
}

// end is called when the request of l has ended. If no leg has won yet, l wins if the parameter
// `wins` is true or if there is no second leg. end returns the leg that has won, or nil if no leg
// has won yet.
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

// abandon cancels both requests, or discards their answers.
func (r *race) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first.ended, r.won = true, new(leg)
	r.endLosers()
}

// If a leg has won, endLosers ends every other leg. It cancels a request in flight, and discards
// the response of a request that has ended.
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

// free discards the response of a leg that RoundTrip does not return. It runs in a new goroutine
// and recovers a panic of the body, which would otherwise crash the program.
func (l *leg) free() {
	defer func() { _ = recover() }()
	(&attempt{Context: l.ctx, cancel: l.cancel}).discard(l.resp, 0)
}

// answer returns the response or the error of the leg that has won.
func (l *leg) answer() (*http.Response, error) {
	if l.resp == nil {
		l.cancel(nil)
		return nil, l.err
	}
	switch req := l.resp.Request; {
	case req == nil || req == l.req:
		l.resp.Request = l.r.req
	case req.Context().Value(ctxvalue.Hedge{}) == l: // a copy of l.req; see attempt.send
		l.resp.Request = req.WithContext(l.r.req.Context())
	}
	if l.err != nil || l.resp.Body == nil || l.resp.Body == http.NoBody {
		l.cancel(nil)
	} else {
		l.resp.Body = cancelAtEnd(l.resp.Body, l.cancel, new(responseBody))
	}
	return l.resp, l.err
}
