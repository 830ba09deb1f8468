package retryhttp

import (
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
	"github.com/goretry/retry/internal/logkey"
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
	first, hedged := ctx.Value(logkey.Hedge{}).(*leg)
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
