package retryhttp

import (
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
)

// LendBudget returns a RoundTripper that sends requests through `base`, and lends retries to the
// server of each request. It takes these retries from the Budgets of the request's context (see
// [retry.WithBudget]). The parameter `limit` is the largest number of retries that it lends for one
// request. The header Retry-Budget of the request contains the number of lent retries, and the
// server reads it with [BorrowBudget]. If a Budget is empty, the header is 0, and the server must
// not retry.
//
//	client := &http.Client{Transport: &retryhttp.Transport{
//		Base:   retryhttp.LendBudget(http.DefaultTransport, 3),
//		Policy: policy,
//	}}
//
// The response reports how many of the lent retries were spent, and the unspent retries go back
// into the Budgets. If the response has no report, all lent retries go back. If there is no
// response, lent retries go back only if the server certainly has not processed the request. No
// retry goes back if `base` may have sent the request twice, because the report is only about the
// second time. There is one exception: if an http.Transport has sent the request again because a
// server refused it, the unspent retries go back.
//
// If the request may be sent again, LendBudget keeps one retry in each Budget, so that this client
// can retry the request. Example: the Budget of a GET has 3 retries. The first attempt lends 2 of
// them, and its connection breaks. The second attempt uses the last retry, so the Budget is empty.
//
// Put LendBudget below a [Transport]. Then each attempt lends what is left in the Budgets. Above a
// Transport, all attempts would lend the same retries, so the number of lent retries would limit
// nothing. Put LendBudget below a [Hedge] too. Above a Hedge, LendBudget could change the header of
// the request while the Hedge copies it, and the program could crash. A request is sent unchanged
// if its context has no Budget, or if a redirect has led to another scheme or host. After a
// redirect, a Prepare that changes the host has the same effect. Do not use LendBudget for servers
// of other organizations, because the header tells them how many retries are left.
//
// net/http itself repeats a request if the server has closed the idle connection that the request
// was sent on. Each repeat would lend the same retries again, so LendBudget prevents these repeats.
// The request fails instead, and a Transport above retries it and counts the retry. If there are
// several such idle connections, each of them may fail one attempt.
//
// To prevent the repeats of a POST, LendBudget writes the header names Idempotency-Key and
// X-Idempotency-Key in lower case. Then net/http does not find these headers and does not repeat
// the POST, and for the server they are the same headers. To prevent the repeats of a GET,
// LendBudget sets an empty body and a GetBody that fails after an HTTP/1 connection has broken, if
// one of two conditions holds:
//   - All earlier answers of the host came over HTTP/1.
//   - The host has not answered yet, and the scheme is http.
//
// Otherwise LendBudget sets no empty body, because over HTTP/2 an empty body looks like a body of
// unknown length. Over HTTP/2, net/http repeats a request only if the server has refused the
// request before processing it. If a request to such a host gets an idle HTTP/1 connection with
// TLS, LendBudget sets the header Retry-Budget to 0 before the header is sent. LendBudget cannot
// change the header if `base` has copied it, as some RoundTrippers for tracing do.
//
// If `base` is nil, LendBudget sends requests as a Transport without a Base does. If `limit` is
// below 1, the header Retry-Budget is always 0.
func LendBudget(base http.RoundTripper, limit int) http.RoundTripper {
	return &lender{inner: base, limit: limit}
}

// lentName and spentName are the headers for lent retries. docs/budget.md defines their values.
// Package retrygrpc sends the same values in gRPC metadata.
const (
	// lentName is a header of a request. Its value is how many retries the server may make, together
	// with all servers that it calls.
	lentName = "Retry-Budget"
	// spentName is a header of a response. Its value is how many retries the server and the servers
	// below it have made.
	spentName = "Retry-Budget-Spent"
)

// A lender is the RoundTripper that LendBudget returns.
type lender struct {
	inner http.RoundTripper // sends the requests; nil: see baseOf
	limit int
	mu    sync.Mutex
	http1 map[host]bool // whether all answers of a host came over HTTP/1
}

// CloseIdleConnections closes the idle connections of `base`. http.Client calls it.
func (l *lender) CloseIdleConnections() { closeIdleConnections(l.base()) }

func (l *lender) base() http.RoundTripper { return baseOf(l.inner, l) }

// RoundTrip sends a request and lends retries to its server. It puts back the retries that the
// server has not spent.
func (l *lender) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL == nil || ledAway(req) {
		return l.base().RoundTrip(req)
	}
	ctx, to := req.Context(), hostOf(req.URL)
	first, hedged := ctx.Value(ctxvalue.Hedge{}).(*raceRequest)
	again := attemptOf(req).mayBeRepeated() || hedged && !first.second && first.isFor(ctx)
	lent, back := retry.LendBudget(ctx, l.limit, again)
	if lent == retry.Unlimited { // there is no Budget
		resp, err := l.base().RoundTrip(req)
		if err == nil && resp != nil {
			l.learn(to, resp.ProtoMajor)
		}
		return resp, err
	}

	var sent evidence
	header := cloneHeader(req.Header)
	header.Set(lentName, strconv.Itoa(lent))
	http1 := l.expectsHTTP1(to)
	out := req.WithContext(ctx)
	out.Header = header
	sent.forbidRepeats(out, http1)
	trace := sent.trace(l.base(), out)
	gotConn := trace.GotConn
	trace.GotConn = func(info httptrace.GotConnInfo) {
		gotConn(info)
		conn, _ := info.Conn.(*tls.Conn)
		if !http1 && info.Reused && overHTTP1(conn) { // an idle HTTP/1 connection
			header.Set(lentName, "0")
		}
	}
	out = out.WithContext(httptrace.WithClientTrace(ctx, trace))

	resp, err := l.base().RoundTrip(out) // if it panics, the lent retries are not given back
	switch {
	case err != nil:
		if !sent.mayBeDone(checked(err), ctx.Err() != nil) {
			back(lent)
		}
	case resp != nil:
		l.learn(to, resp.ProtoMajor)
		if resp.Header.Values("Age") != nil { // the report of a cached answer is about another request
			resp.Header.Del(spentName)
		}
		// If the request was sent twice, the report does not include the retries that were spent
		// after the first time. If http.Transport has sent the request again because a server
		// refused it, that server has spent no retry.
		twice := sent.wrote.Load() > 1 && !repeatsSafely(l.base())
		if !twice && sent.repeated(resp) == nil {
			back(unspentOf(resp.Header.Values(spentName), lent))
		}
		resp.Header.Del(spentName) // the report is for the lender, not for the caller
		if resp.Request == nil || resp.Request == out {
			resp.Request = req
		}
	}
	return resp, err
}

// unspentOf returns how many of the lent retries go back to the lender, according to the values of
// the response's header spentName. Without a value, all lent retries go back. There are several
// values if the server has passed on the report of another server and added its own report. The
// server's own report includes the retries of all servers below it, so the greatest value counts.
// If a value is not a number, no retry goes back.
func unspentOf(values []string, lent int) int {
	spent := 0
	for _, value := range values {
		n, ok := number(value, lent)
		if !ok {
			return 0
		}
		spent = max(spent, n)
	}
	return lent - spent
}

// expectsHTTP1 reports whether all answers of a host came over HTTP/1. Before the first answer, it
// reports true for http, because HTTP/2 without TLS is rare. For https it reports false. This does
// no harm, because the first request to a host gets a new connection, and net/http does not repeat
// a request on a new connection.
func (l *lender) expectsHTTP1(h host) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	only, known := l.http1[h]
	return only || !known && h.scheme != "https"
}

// The method `learn` stores the protocol of an answer that has come from a host. If 1,000 hosts are
// stored, `learn` deletes all of them before it stores a new host.
func (l *lender) learn(h host, protocol int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	only, known := l.http1[h]
	switch {
	case known && (protocol < 2 || !only), h.tooLong():
		return
	case l.http1 == nil, !known && len(l.http1) == 1000:
		l.http1 = map[host]bool{}
	}
	// The strings of h are parts of the URL, and would keep the whole URL in memory. So h is cloned.
	l.http1[h.clone()] = protocol < 2
}

// ledAway reports whether a redirect has led req to another scheme or host, even if a later
// redirect has led back. It also reports true if it cannot know, because a response in the chain
// has no Request.
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

// The function `number` parses a text, which must consist only of digits. If the value of the text
// is above `limit`, the result n is `limit`.
func number(text string, limit int) (n int, ok bool) {
	for i := range len(text) {
		digit := int(text[i]) - '0'
		if digit < 0 || digit > 9 {
			return 0, false
		}
		if digit > limit || n > (limit-digit)/10 {
			n = limit
		} else {
			n = n*10 + digit
		}
	}
	return n, text != ""
}
