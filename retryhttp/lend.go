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
	"github.com/goretry/retry/internal/ctxvalue"
)

// LendBudget returns a RoundTripper that sends requests through base, and lends retries to the
// server of each request. It takes them from the Budgets of the request's context (see
// [retry.WithBudget]), and lends at most as many as the parameter most says. The header
// Retry-Budget of the request says how many retries are lent. The server takes them with
// [BorrowBudget]. If none are left, the header is 0, and no service below retries.
//
//	client := &http.Client{Transport: &retryhttp.Transport{
//		Base:   retryhttp.LendBudget(http.DefaultTransport, 3),
//		Policy: policy,
//	}}
//
// The retries that the response does not report as spent go back into the Budgets. If the response
// has no report, all of them go back. If there is no response, none go back, unless the server
// certainly has not processed the request. If the request may be sent again, one retry is not lent,
// so that the request can be retried here. Example: a GET under a Budget of 3 whose connection
// breaks twice leaves nothing in the Budget: 2 retries were lent, and 1 was made here.
//
// Put LendBudget below a [Transport], so that each attempt is lent what is left at that moment.
// Around a Transport, all attempts would carry the same lease, and the lease would limit nothing. A
// request is sent unchanged if its context has no Budget, or if a redirect has led it to another
// scheme or host. Do not use LendBudget for other people's servers, which would learn how many
// retries are left.
//
// net/http itself repeats a request if a connection that it has kept turns out to be closed. Each
// repeat would carry the whole lease, so net/http is kept from repeating. The request fails
// instead, and a Transport above retries it and counts the retry. For this, base gets the names
// Idempotency-Key and X-Idempotency-Key in lower case. If a host has answered over HTTP/2 alone, an
// HTTP/1 connection to it that another client has kept carries a lease of 0. This needs a base that
// does not copy the header: a base that traces may copy it.
//
// A nil base is http.DefaultTransport. If the parameter most is below 1, each request carries
// a lease of 0 retries.
func LendBudget(base http.RoundTripper, most int) http.RoundTripper {
	return &lender{under: Transport{Base: base}, most: most}
}

// A lender is the RoundTripper of LendBudget.
type lender struct {
	under Transport // its Base is set, and only its methods for the Base are used
	most  int

	mu    sync.Mutex
	http2 map[host]bool // true for a host whose answers all came over HTTP/2, else false
}

// CloseIdleConnections closes the idle connections of base. http.Client calls it.
func (l *lender) CloseIdleConnections() { l.under.CloseIdleConnections() }

// RoundTrip sends a request with a lease, and takes back what the server has not spent.
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
		if http2 && info.Reused && overHTTP1(info.Conn) { // another client has kept the connection
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
		if resp.Header.Values("Age") != nil { // a cached answer reports about another request
			resp.Header.Del(spentName)
		}
		if sent.wrote.Load() <= 1 {
			back(unspentOf(resp.Header.Values(spentName), lent))
		}
		resp.Header.Del(spentName) // the report is for the lender, not for the caller
		if resp.Request == nil || resp.Request == out {
			resp.Request = req
		}
	}
	return resp, err
}

// onlyHTTP2 reports whether a host has answered, and all its answers came over HTTP/2.
func (l *lender) onlyHTTP2(h host) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.http2[h]
}

// learn remembers over which protocol a host has answered. If it already knows 1,000 hosts, it
// forgets all of them before it learns a new host.
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
	l.http2[h.clone()] = protocol == 2 // clone, because a key must not keep the request's URL
}

// overHTTP1 reports whether a connection with TLS speaks HTTP/1. It reports false for a connection
// without TLS, which speaks the same protocol as all other such connections of its http.Transport.
func overHTTP1(conn net.Conn) bool {
	c, ok := conn.(*tls.Conn)
	return ok && c.ConnectionState().NegotiatedProtocol != "h2"
}

var errRepeat = errors.New("retryhttp: a connection that was kept has broken, " +
	"and net/http may not repeat a request that has been lent retries")

// only keeps net/http from repeating req after its header has been written.
//
// net/http repeats a request with an Idempotency-Key, if the name of the header is in canonical
// form. Therefore this function writes the name in lower case. net/http also repeats a GET, HEAD,
// OPTIONS or TRACE that has no body, or whose GetBody returns a body. Therefore this function lets
// GetBody fail after the header has been written. It also gives a request without a body an empty
// body, of which HTTP/1 sends nothing.
//
// Over HTTP/2 an empty body would hide from the server that the request has none, and a proxy
// could not send the request again. There it is not needed: net/http repeats only requests that no
// server has processed.
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
			req.TransferEncoding = []string{"identity"} // otherwise a TRACE is sent in chunks
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

// ledAway reports whether redirects have led req to another scheme or host, even if a later
// redirect has led it back. It also reports true if this is not known, because a response has no
// Request.
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
