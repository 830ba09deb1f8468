package retryhttp

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
)

// LendBudget returns a RoundTripper that sends requests through base, and lends each
// of them up to most of the retries that the Budgets of its context have left, see
// [retry.WithBudget] and [BorrowBudget]. The header Retry-Budget of the request says
// how many: 0 if none are left, and then no service below retries.
//
//	client := &http.Client{Transport: &retryhttp.Transport{
//		Base:   retryhttp.LendBudget(http.DefaultTransport, 3),
//		Policy: policy,
//	}}
//
// What the response does not report as spent goes back, all of it if there is no report.
// If no response comes, all of it has been spent, unless it is certain that nothing was
// sent. If the request may be sent again, one retry stays here. So a GET under a Budget of
// 3 whose connection breaks twice leaves nothing: 2 were lent, and 1 was its own retry.
//
// Put it below a [Transport], so that each attempt gets what is left then: around one, all
// attempts get the same lease, which bounds nothing. A request whose context has no Budget,
// and one that a redirect led to another scheme or host, is sent as it is. Do not use it
// for other people's servers, which would learn the number.
//
// net/http repeats a request by itself if a connection that it kept turns out to be dead.
// Each repeat would carry the whole lease, so the request fails instead: a Transport tries
// again, and counts that. base gets the name of an Idempotency-Key in lower case, for which
// net/http would repeat the request. To a host that has only ever answered over HTTP/2, an
// HTTP/1 connection that another client has kept carries a lease of 0, unless base copies the
// header, as one that traces may.
//
// A nil base is http.DefaultTransport. If most is below 1, every request is lent 0.
func LendBudget(base http.RoundTripper, most int) http.RoundTripper {
	return &lender{under: Transport{Base: base}, most: most}
}

// A lender has a Transport for its base alone.
type lender struct {
	under Transport
	most  int

	mu    sync.Mutex
	http2 map[host]bool // those that have answered: over HTTP/2 alone
}

// CloseIdleConnections closes those of base. http.Client calls it.
func (l *lender) CloseIdleConnections() { l.under.CloseIdleConnections() }

func (l *lender) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL == nil || ledAway(req) {
		return l.under.base().RoundTrip(req)
	}
	ctx := req.Context()
	limit := attemptOf(req).max()
	first, hedged := ctx.Value(ctxvalue.Hedge{}).(*leg)
	again := limit == retry.Unlimited || AttemptOf(ctx) < limit ||
		hedged && !first.second && first.of(ctx)
	lent, back := retry.LendBudget(ctx, l.most, again)
	if lent == retry.Unlimited {
		return l.under.base().RoundTrip(req)
	}

	var sent evidence
	header := cloneHeader(req.Header)
	header.Set(lentName, strconv.Itoa(lent))
	to := hostOf(req.URL)
	http2 := l.onlyHTTP2(to)
	trace := sent.trace()
	trace.GotConn = func(info httptrace.GotConnInfo) {
		sent.got.Store(true)
		if http2 && info.Reused && overHTTP1(info.Conn) { // another client has kept it
			header.Set(lentName, "0")
		}
	}
	out := req.WithContext(httptrace.WithClientTrace(ctx, trace))
	out.Header = header
	sent.only(out, http2)

	resp, err := l.under.base().RoundTrip(out) // if it panics, the lease is spent
	switch {
	case err != nil:
		if !sent.mayBeDone(checked(err), ctx.Err() != nil) {
			back(lent)
		}
	case resp != nil:
		l.learn(to, resp.ProtoMajor)
		if resp.Header.Values("Age") != nil { // out of a cache: its report is about another request
			resp.Header.Del(spentName)
		}
		if sent.wrote.Load() <= 1 {
			back(unspentOf(resp.Header.Values(spentName), lent))
		}
		resp.Header.Del(spentName) // it was for us
		if resp.Request == nil || resp.Request == out {
			resp.Request = req
		}
	}
	return resp, err
}

// onlyHTTP2 reports whether all answers of a host came over HTTP/2.
func (l *lender) onlyHTTP2(h host) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.http2[h]
}

// learn remembers over which protocol a host has answered. When there are 1,000, it forgets
// them all.
func (l *lender) learn(h host, protocol int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	only, known := l.http2[h]
	switch {
	case known && (protocol == 2 || !only), h.tooLong():
		return
	case l.http2 == nil, !known && len(l.http2) == 1000:
		l.http2 = map[host]bool{}
	}
	l.http2[h.clone()] = protocol == 2 // a key that is there is replaced, with its URL
}

// overHTTP1 reports whether a connection with TLS speaks HTTP/1. One without TLS speaks
// the same protocol as all others of its http.Transport.
func overHTTP1(conn net.Conn) bool {
	c, ok := conn.(*tls.Conn)
	return ok && c.ConnectionState().NegotiatedProtocol != "h2"
}

var errRepeat = errors.New("retryhttp: a connection that was kept has broken, " +
	"and net/http may not repeat a request that has been lent retries")

// only keeps net/http from repeating req once its header has been written. It repeats what
// has an Idempotency-Key, whose name it knows in one form alone, and a GET, HEAD, OPTIONS
// or TRACE: without a body, or with what GetBody returns. So one without a body gets an
// empty one, of which HTTP/1 sends nothing. Over HTTP/2, where net/http repeats only what no
// server has processed, that would hide from the server that there is none, and a proxy
// there could not send the request again.
func (e *evidence) only(req *http.Request, http2 bool) {
	for _, key := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := req.Header[key]; ok {
			delete(req.Header, key)
			req.Header[strings.ToLower(key)] = values
		}
	}
	getBody := req.GetBody
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		if !http2 && (req.Body == nil || req.Body == http.NoBody) {
			getBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil }
			req.Body, _ = getBody()
			req.TransferEncoding = []string{"identity"} // else a TRACE would be sent in chunks
		}
	}
	if getBody == nil {
		return
	}
	req.GetBody = func() (io.ReadCloser, error) {
		if e.wrote.Load() > 0 {
			return nil, errRepeat
		}
		return getBody()
	}
}

// ledAway reports whether redirects led req to another scheme or host, from which it
// may have come back since, or may have: base does not say which request it answered.
func ledAway(req *http.Request) bool {
	for req.Response != nil {
		before := req.Response.Request
		if before == nil || req.URL == nil || before.URL == nil ||
			req.URL.Scheme != before.URL.Scheme || req.URL.Host != before.URL.Host {
			return true
		}
		req = before
	}
	return false
}

// BorrowBudget returns a handler that calls h with a context that has a Budget of
// most retries, or of fewer if the header Retry-Budget of the request says so: the
// total for this process and those that it lends to with [LendBudget].
//
//	mux.Handle("/orders/", retryhttp.BorrowBudget(orders, 3))
//
// If the header was there, the response says in Retry-Budget-Spent how many were
// made. That header leaves with the status, and what is left then goes back to the
// client: h has no retries after it has begun to write, or taken over the connection.
// A retry that is denied because the client lent too few has the Reason
// [retry.ReasonBorrowed].
//
// If there are several headers, the lowest applies, and one that is not a number is
// 0: a client can lower the number of its own retries, and nothing else. If most is
// below 1, there are none.
//
// Put http.TimeoutHandler inside, not around it: its response has no report. For work
// that outlives the request, and for a batch of many calls, use another context.
func BorrowBudget(h http.Handler, most int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, loan := borrow(r.Context(), r.Header.Values(lentName), most)
		if loan.asked() {
			r := &reporter{ResponseWriter: w, loan: loan}
			defer r.report() // after a panic too: a handler around this one may answer
			w = r
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// A reporter writes the report of a loan before the final header.
type reporter struct {
	http.ResponseWriter
	loan     *loan
	reported bool
}

func (r *reporter) report() {
	if !r.reported {
		r.reported = true
		r.Header().Set(spentName, r.loan.close())
	}
}

func (r *reporter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		r.report()
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *reporter) Write(p []byte) (int, error) {
	r.report()
	return r.ResponseWriter.Write(p)
}

// ReadFrom is for io.Copy, so that the kernel can copy a file.
func (r *reporter) ReadFrom(from io.Reader) (int64, error) {
	r.report()
	return io.Copy(r.ResponseWriter, from)
}

// FlushError is for http.ResponseController, which would else flush what r wraps.
func (r *reporter) FlushError() error {
	r.report()
	return http.NewResponseController(r.ResponseWriter).Flush()
}

func (r *reporter) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush and Hijack are for handlers that look for them. Where the ResponseWriter inside has
// none, Flush does nothing, and Hijack fails.
func (r *reporter) Flush() { _ = r.FlushError() }

func (r *reporter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.report()
	}
	return conn, rw, err
}
