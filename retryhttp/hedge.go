package retryhttp

import (
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
// A GET or HEAD may be sent twice if it has no body, no Upgrade header and no Trailer, and a host
// of at most 1,024 bytes. If there is a Transport above, its policy must allow a second attempt,
// and its Idempotent must report true for the request. This also holds for a request that a Check
// sends in the context of the request that it gets. While a [Gate] holds back other attempts, no
// second request is sent. If the first request fails within the duration After, no second request
// is sent either, because the Transport may retry the first request. Both requests have the headers
// that Prepare has set. If a server accepts a signature only once, because of a nonce, sign in the
// Base of the Hedge. Otherwise the server refuses the second request, and the Hedge returns this
// answer.
//
// The Hedge recognizes a request of the Transport by its method and URL. A RoundTripper between the
// Transport and the Hedge may change the URL. Then the Hedge uses neither the Gate nor the Advise
// of the Transport, and [Hedged] reports false in OnEvent.
//
// # Which answer is returned
//
// An answer is successful if three conditions hold:
//   - The status is below 500, and is not 408, 421, 425 or 429.
//   - The function [Check] would not retry the request after this answer.
//   - If the status is below 400, a Transport below the Hedge has not given up on the answer.
//
// For example, a 200 and a 404 are successful, and a 429, a 503 and a 507 are not.
//
// An answer asks to wait if it is a 429, or if its status is 400 or above and Advise finds a wait.
// A Hedge does not call the Check of the Transport, so a wait that only this Check finds does not
// count. The Check of [LLM] finds such waits in a body.
//
// If the answer of the first request asks to wait, the Hedge returns it at once. If the first
// request fails in another way, or if the second request fails, the Hedge waits for the other
// request. Meanwhile the Hedge stores the body of the failed answer, so that its connection is free
// for the other request. If this body has more than 64 KiB, or takes more than 90 ms, the failed
// answer is dropped. There is one exception: if the second answer asks to wait, it is kept, and its
// body breaks off.
//
// If both requests fail, the Hedge returns the answer of the first request, unless this answer was
// dropped, or the answer of the second request asks to wait. If the AttemptTimeout of a Transport
// ends the first request, the attempt fails with a timeout, even if the second request has got a
// failed answer.
//
// The Hedge cancels the request whose answer is not returned. If this answer has already arrived,
// the Hedge discards it as a Transport does.
//
// # What it costs
//
// A second request takes one retry from the Budget for second requests, and one from each Budget of
// the context (see [retry.WithBudget]). If one of these Budgets is empty, no second request is
// sent. A successful answer of the first request adds the Ratio of the Budget for second requests
// to this Budget, but only if the answer arrives within the duration After.
//
// The first request is sent in the goroutine of the caller, and the second request in a new
// goroutine. Base must return when the context of its request is done. The new goroutine calls
// Base. To judge the answer, it also calls Transport.Advise and Gate.OnClose. To store the body of
// a failed answer, it calls Read and Close of the body. If one of these functions panics there, the
// first request is canceled, and RoundTrip returns a permanent error. There are two exceptions:
//   - If RoundTrip has already returned the first answer, the panic is ignored.
//   - If the body of an answer panics while the Hedge discards this answer, the panic is ignored.
//
// Any other panic reaches the caller, and cancels both requests.
//
// A trace of net/http/httptrace gets the events of both requests. Put [LendBudget] below the Hedge,
// so that each of the two requests lends its own retries.
type Hedge struct {
	Base http.RoundTripper // sends both requests; nil: see the Base of a Transport

	// After is the time from the start of the first request to the start of the second. The second
	// request is sent if the headers of the first answer have not arrived by then. Choose a time
	// within which at least 95 % of the answers arrive. If After is 0 or less, no second request is
	// sent.
	After time.Duration

	// Budgets returns the Budget from which each second request takes a retry. If Budgets returns nil,
	// only the Budgets of the context limit second requests, and every request may be sent twice.
	// Budgets is called once for each request that may be sent twice. Do not return the Budget of a
	// Transport, because each success would refill it twice.
	//
	// If Budgets is nil, each target gets a Budget{Size: 10, Ratio: 0.05, RefillEvery: 5m}. The Hedge
	// keeps the Budgets of up to 1,000 targets, as a Transport does. With the Ratio of 0.05, every 20
	// successful answers that arrive within the duration After put one retry back into the Budget,
	// which is enough for one second request.
	Budgets func(*http.Request) *retry.Budget

	// OnHedge is called once for each second request, before RoundTrip returns. `won` reports whether
	// RoundTrip returns the answer of the second request. OnHedge is called in the goroutine of
	// RoundTrip, with the context of the request that RoundTrip got. OnHedge may be nil.
	OnHedge func(ctx context.Context, won bool)

	targets targets
	own     sync.Once // sets targets.New once
}

// Hedged reports whether ctx is the context of the second request of a [Hedge]. Call it in the Base
// of the Hedge. In the OnEvent of a policy, Hedged reports whether the answer of the last attempt
// came from a second request. Package retrylog logs this as "hedged". If the Base of a Hedge is
// another Hedge, only the second request of the outer Hedge counts in OnEvent.
func Hedged(ctx context.Context) bool { return ctxvalue.Hedged(ctx) }

// CloseIdleConnections closes the idle connections of Base. http.Client calls it.
func (h *Hedge) CloseIdleConnections() { closeIdleConnections(h.base()) }

// RoundTrip sends a request. If the answer is late, RoundTrip sends the request a second time.
func (h *Hedge) RoundTrip(req *http.Request) (*http.Response, error) {
	if h.After <= 0 || !hedgeable(req) {
		return h.base().RoundTrip(req)
	}
	req = withoutStopInfo(req)
	budget, done := h.budgetOf(req)
	defer done()
	r := &race{h: h, req: req, attempt: attemptOf(req), budget: budget}
	r.ctx, r.in = req.Context(), attemptIn(req.Context())
	first := &r.first
	r.begin(first)
	late := time.AfterFunc(h.After, r.hedge)
	var won *raceRequest
	defer func() {
		if won == nil { // Base, Advise, the body of the answer, or OnHedge has panicked
			r.abandon()
		}
	}()
	first.send()
	inTime := late.Stop() // before `judge`, because Advise may take long to read a body
	first.judge()
	switch {
	case !inTime:
		won = r.settle()
	case first.ok:
		r.budget.Success()
		fallthrough
	default:
		won = r.end(first, true)
	}
	if r.attempt != nil {
		r.attempt.x.hedged.Store(won.second)
	}
	return won.answer()
}

func (h *Hedge) base() http.RoundTripper { return baseOf(h.Base, h) }

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
	return (isGet(req) || req.Method == http.MethodHead) &&
		req.URL != nil && !hasLongHost(req) &&
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
	req     *http.Request   // the caller may change it as soon as RoundTrip has returned
	ctx     context.Context // the context of req, which `hedge` may need later
	attempt *attempt        // the attempt that sends req; nil: there is no Transport above
	in      *attempt        // the attempt in the context of req; its request may differ from req
	budget  *retry.Budget   // the Budget for second requests; nil: there is no such Budget
	first   raceRequest

	// mu guards the fields below, and the fields `failed`, `ended` and `freed` of both requests.
	mu     sync.Mutex
	second *raceRequest  // the second request; nil: it was not sent
	won    *raceRequest  // the request whose answer is returned; nil: not known yet
	over   chan struct{} // closed when the second request has ended
}

// A raceRequest is one of the two requests of a race, together with its answer.
type raceRequest struct {
	r      *race
	second bool
	ctx    context.Context // the context of req; if resp is returned, ctx ends with its body
	cancel context.CancelCauseFunc
	req    *http.Request

	resp         *http.Response
	err          error
	ok, asks     bool // ok: the request succeeded; asks: the answer asks to wait
	failed       bool // Base has returned a failure; `release` may still be reading its body
	ended, freed bool // ended: the answer is complete; freed: the response is discarded
}

// The function Hedged finds q in ctx and calls this method. The method reports whether ctx is the
// context of a second request.
func (q *raceRequest) Hedged(ctx context.Context) bool { return q.second && q.isFor(ctx) }

// isFor reports whether ctx is the context of q. It reports false for the context of an attempt of
// a Transport below the Hedge.
func (q *raceRequest) isFor(ctx context.Context) bool { return attemptIn(ctx) == q.r.in }

// begin sets the field `req` of q, and the context of req.
func (r *race) begin(q *raceRequest) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	q.r, q.cancel, q.ctx = r, cancel, context.WithValue(ctx, ctxvalue.Hedge{}, q)
	q.req = copyOf(q.ctx, r.req)
	if q.second {
		q.req.Response = copyOfChain(q.req.Response)
	}
}

// copyOfChain copies the redirects that have led to a request. LendBudget reads these redirects. A
// second request may reach LendBudget after RoundTrip has returned, when the caller may change its
// own requests.
func copyOfChain(resp *http.Response) *http.Response {
	if resp == nil || resp.Request == nil {
		return resp
	}
	out := *resp
	out.Request = copyOf(resp.Request.Context(), resp.Request)
	out.Request.Response = copyOfChain(resp.Request.Response)
	return &out
}

// hedge sends the second request, unless the first request has ended, a Gate holds back requests,
// or a Budget is empty.
func (r *race) hedge() {
	if r.ctx.Err() != nil || r.attempt != nil && r.attempt.x.gate.holds() || !r.join() {
		return
	}
	q, returned := r.second, false
	defer func() {
		if p := recover(); !returned { // nil: runtime.Goexit
			if q.resp != nil { // Advise, OnClose or the body has panicked
				go (&raceRequest{ctx: q.ctx, cancel: q.cancel, resp: q.resp}).free()
			}
			q.resp, q.ok = nil, true
			const text = "retryhttp: panic in the second request of a Hedge, " +
				"in the RoundTripper %T or in a function that reads its answer: %v"
			q.err = retry.Permanent(fmt.Errorf(text, r.h.base(), p))
		}
		r.end(q, q.ok)
		close(r.over)
	}()
	q.send()
	if q.judge(); !q.ok && r.fails(q) {
		q.release()
	}
	returned = true
}

// join adds the second request to the race, and takes one retry from each Budget. It returns false
// if the race is over, or if a Budget is empty. The lock is held while the retries are taken.
// Otherwise the race could end in this time, and the retries would have to be put back. Until then,
// the Transport could find an empty Budget.
func (r *race) join() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.won != nil {
		return false
	}
	if lent, _ := retry.LendBudget(retry.WithBudget(r.ctx, r.budget), 1, false); lent == 0 {
		return false
	}
	r.over, r.second = make(chan struct{}), &raceRequest{second: true}
	r.begin(r.second)
	return true
}

// send sends the request.
func (q *raceRequest) send() {
	base := q.r.h.base()
	q.resp, q.err = base.RoundTrip(q.req)
	if q.resp == nil && q.err == nil {
		q.err = noResult(base)
	}
}

// judge decides whether the request succeeded, and whether its answer asks to wait. If the answer
// of a second request asks to wait, `judge` closes the Gate of the Transport.
func (q *raceRequest) judge() {
	switch {
	case q.err != nil:
		return
	case q.resp.StatusCode < 400:
		q.ok = ErrorOf(q.resp) == nil // not nil: the Check of a Transport below has rejected it
		return
	}
	t, a := new(Transport), q.r.attempt
	if a != nil {
		t = a.x.t
	}
	if hasText(q.resp) && t.StallTimeout > 0 { // Advise may read the body
		q.resp.Body = (&attempt{Context: q.ctx, cancel: q.cancel, x: a.x}).watched(q.resp.Body)
	}
	// StatusError gets q.req and not q.r.req, because the caller may change q.r.req as soon as the
	// other request has won.
	status, failure := q.resp.StatusCode, t.StatusError(q.req, q.resp).judged(q.req)
	q.asks = status == http.StatusTooManyRequests || retry.RetryAfterOf(failure) > 0
	q.ok = status < 500 && retry.IsPermanent(failure) && !isTransient(status)
	if q.second && q.asks && a != nil && a.x.gate != nil {
		a.x.gate.learnEarly(status, failure)
	}
}

// settle returns the request whose answer RoundTrip returns. RoundTrip calls `settle` if the first
// request took longer than the duration After. If the second request may still succeed, `settle`
// waits for it.
func (r *race) settle() *raceRequest {
	best, wins := &r.first, r.first.ok || r.first.asks
	kept := true
	switch {
	case wins:
	case r.fails(best):
		kept = best.release()
	default:
		// There is no second request, or the second request has ended or failed. If it has failed,
		// `release` may still be reading the body of its answer.
		wins = r.second == nil || !r.second.asks
	}
	won := r.end(best, wins)
	if won == nil { // the second request was sent
		select {
		case <-r.over:
		case <-r.ctx.Done():
		}
		// If the context has ended the second request, the second request has no answer.
		answered := r.secondHasEnded() && (r.second.resp != nil || r.ctx.Err() == nil)
		switch {
		case answered && (r.second.asks || !kept):
			best = r.second
		case !answered && !kept:
			best.err = asNetError(fmt.Errorf("%w (and then %w)", best.err, context.Cause(r.ctx)))
		}
		won = r.end(best, true)
	}
	if r.h.OnHedge != nil && r.second != nil {
		r.h.OnHedge(r.ctx, won.second)
	}
	return won
}

// The method `fails` is called when the request q has failed. It reports whether the other request
// is in flight. If q is the first request and the second was not sent, `fails` makes q the winner,
// so that no second request is sent later.
func (r *race) fails(q *raceRequest) (otherInFlight bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.failed = true
	other := &r.first
	if q == other {
		other = r.second
	}
	if other == nil {
		r.won = q
	}
	return r.won == nil && !other.failed && !other.ended
}

// secondHasEnded reports whether the second request, which was sent, has ended.
func (r *race) secondHasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.second.ended
}

// release reads the body of a failed answer into memory, so that its connection is free. Otherwise
// the other request may wait for this connection forever, if Base is an http.Transport with
// MaxConnsPerHost. If the body is too long or too slow for `discard`, `release` returns false. Then
// the body breaks off if the answer asks to wait. Otherwise `release` drops the answer.
func (q *raceRequest) release() (kept bool) {
	if !hasText(q.resp) {
		return true
	}
	body := &endedBody{ReadCloser: q.resp.Body}
	q.resp.Body = body
	cancel := func(cause error) {
		// If the body was read to its end, RoundTrip may still return this answer, with the stored body.
		// The context of an answer that is returned must not end before the caller has read or closed the
		// body, so this function does not cancel the context.
		if body.end.CompareAndSwap(nil, &bodyEnd{size: -1}) {
			q.cancel(cause)
		}
	}
	text := (&attempt{Context: q.ctx, cancel: cancel}).discard(q.resp, discardBytes)
	// `discard` may return at the moment when its goroutine reads the last bytes. Then the body has
	// been read to its end, but these bytes are missing in the variable `text`.
	end := body.end.Load()
	kept = end.size == int64(len(text))
	switch {
	case kept:
		q.resp.Body = &readBody{beginning: text, err: end.err, ReadCloser: http.NoBody}
	case q.asks:
		q.resp.Body = &readBody{beginning: text, err: errDropped, ReadCloser: http.NoBody}
	default:
		q.resp, q.err = nil, errDropped
	}
	return kept
}

var errDropped = errors.New("retryhttp: the body of a failed answer was too long or too slow to " +
	"store while the other request of a Hedge was in flight")

// An endedBody stores how a body has ended.
type endedBody struct {
	io.ReadCloser
	read int64 // how many bytes were read

	// end is nil until the body has ended. It is atomic, because `discard` may return while its
	// goroutine still calls Read.
	end atomic.Pointer[bodyEnd]
}

// A bodyEnd is the end of a body.
type bodyEnd struct {
	size int64 // the number of bytes in the body; -1: the request was canceled before the end
	err  error // io.EOF, or the error with which the body broke off
}

func (b *endedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err != nil {
		b.end.CompareAndSwap(nil, &bodyEnd{b.read, err})
	}
	return n, err
}

// end is called when the request q has ended. If neither request has won yet, q wins if the
// parameter `wins` is true or if there is no second request. The result is the request that has
// won, or nil if neither request has won yet.
func (r *race) end(q *raceRequest, wins bool) (won *raceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.ended = true
	if r.won == nil && (wins || r.second == nil) {
		r.won = q
	}
	r.endLosers()
	return r.won
}

// abandon cancels both requests, or discards their answers.
func (r *race) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first.ended, r.won = true, new(raceRequest)
	r.endLosers()
}

// If a request has won, endLosers ends every other request. It cancels a request that is in flight,
// and discards the response of a request that has ended.
func (r *race) endLosers() {
	for _, lost := range [...]*raceRequest{&r.first, r.second} {
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

// free discards a response that RoundTrip does not return. It runs in a new goroutine and recovers
// a panic of the body, which would otherwise crash the program.
func (q *raceRequest) free() {
	defer func() { _ = recover() }()
	(&attempt{Context: q.ctx, cancel: q.cancel}).discard(q.resp, 0)
}

// answer returns the response or the error of the request that has won.
func (q *raceRequest) answer() (*http.Response, error) {
	if q.resp == nil {
		q.cancel(nil)
		return nil, q.err
	}
	q.setRequest()
	if q.err != nil || q.resp.Body == nil || q.resp.Body == http.NoBody {
		q.cancel(nil)
	} else {
		q.resp.Body = cancelAtEnd(q.resp.Body, q.cancel, q.cancel, new(responseBody))
	}
	return q.resp, q.err
}

// setRequest sets the Request of the response to the request that RoundTrip got, as attempt.send
// does. If a Transport below has given up on the response, ErrorOf and Result find its stopInfo in
// the new Request too.
func (q *raceRequest) setRequest() {
	stop := stopInfoOf(q.resp)
	if stop != nil {
		q.resp.Request = stop.original
	}
	switch req := q.resp.Request; {
	case req == nil || req == q.req:
		q.resp.Request = q.r.req
	case req.Context().Value(ctxvalue.Hedge{}) == q: // a copy of q.req; see attempt.send
		q.resp.Request = req.WithContext(q.r.ctx)
	}
	if stop != nil {
		q.resp.Request = stop.addTo(q.resp.Request)
	}
}
