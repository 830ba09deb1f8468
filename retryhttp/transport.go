package retryhttp

import (
	"net/http"
	"net/url"
	"reflect"
	"time"

	"github.com/goretry/retry"
)

// A Transport is an http.RoundTripper that sends each request through another RoundTripper, Base,
// as often as the Policy and a Budget for the target of the request allow. Set Policy, for example
// to retry.Default(): &Transport{} sends each request once, unless the request has a policy from
// [WithPolicy]. A Transport is safe for concurrent use. Do not copy a Transport, and do not change
// its fields while it is in use.
//
// The request's context bounds all attempts of the request and all waits. If a wait would end
// after the deadline of the context, the call ends at once and the last response is returned.
//
// http.Transport itself repeats a request if a connection that it has kept turns out to be closed.
// The repeat is part of one attempt. http.Client follows redirects around the Transport: each
// request of a chain of redirects has all the attempts of the policy.
//
// # What is retried
//
// This table is about requests that are idempotent and whose body can be sent again:
//
//	outcome                            retried Reason, if not          source
//	status below 400                   no      success                 RFC 9110 sections 15.2 to 15.4
//	408 Request Timeout                yes                             RFC 9110 section 15.5.9
//	421 Misdirected Request            yes                             RFC 9110 section 15.5.20
//	425 Too Early                      yes                             RFC 8470 section 5.2
//	429 Too Many Requests              yes                             RFC 6585 section 4
//	403, 413 with a Retry-After        yes                             GitHub's rate limits;
//	                                                                   RFC 9110 section 15.5.14
//	409 Conflict, if the request has   yes                             draft-ietf-httpapi-
//	  an Idempotency-Key: the first                                    idempotency-key-header
//	  request with it is in progress                                   section 2.6, Stripe
//	501, 505: the server cannot do it  no      permanent_error         RFC 9110 sections 15.6.2,
//	                                                                   15.6.6
//	506: it is configured wrongly      no      permanent_error         RFC 2295 section 8.1
//	507: its storage is full, and      no      permanent_error         RFC 4918 section 11.5
//	  only the user may ask again
//	508: the request runs in a circle  no      permanent_error         RFC 5842 section 7.2
//	510: the request lacks something   no      permanent_error         RFC 2774 section 7
//	511: the network wants a login     no      permanent_error         RFC 6585 section 6
//	any other status from 500 to 599   yes                             RFC 9110 section 15.6,
//	                                                                   Cloudflare's 520 to 530
//	any other status: the request must no      permanent_error         RFC 9110 section 15.5; RFC
//	  change, or the server's state                                    4918 section 11 (422 to 424),
//	                                                                   RFC 6585 (428, 431), RFC 7725
//	                                                                   (451)
//	no such host                       yes                             a cluster's start-up order
//	other errors that                  no      permanent_error         package retrynet
//	  retrynet.Permanent knows: bad
//	  certificate, unsupported scheme
//	any other error of Base            yes                             RFC 9110 section 9.2.2
//	AttemptTimeout, no response        yes                             the policy
//	the request's context is done      no      canceled, deadline      the caller
//	Retry-After above MaxRetryAfter    no      retry_after_too_long    the policy
//	later                              no      attempts_exhausted, ... the policy
//
// If a proxy refuses the CONNECT of an https request, net/http returns an error that has the text
// of the status and not its number. So a 407 of such a proxy is retried too. To end the call
// there, let OnProxyConnectResponse of http.Transport return an error marked [retry.Permanent].
//
// # Requests that are not idempotent
//
// The function [Idempotent] says which requests are idempotent: by their method, or by a header
// Idempotency-Key, as in net/http. Any other request, such as a plain POST, is retried only if the
// server cannot have processed it. Otherwise the Reason is not_retryable, and the Cause of the
// error says that the server may have processed the request:
//
//	outcome                            retried  source
//	there was no connection: refused,  yes      net/http/httptrace: no GotConn
//	  DNS, TLS handshake, timeout
//	no header was written to it, and   yes      net/http/httptrace: no WroteHeaders
//	  no timeout or context ended it
//	HTTP/2 REFUSED_STREAM, or GOAWAY   yes      RFC 9113 section 8.7
//	  with an earlier last stream
//	421, 425                           yes      RFC 9110 section 15.5.20, RFC 8470 section 5.2
//	429; 403, 413 with a Retry-After:  yes      RFC 6585 section 4, RFC 9110 sections 15.5.4,
//	  it was refused before the work            15.5.14; client-go, OpenAI's SDK
//	401, 403, 407, 413, with a Check   yes      RFC 9110 sections 15.5.2, 15.5.4, 15.5.8, 15.5.14
//	  that retries them
//	anything else                      no       RFC 9110 section 9.2.2
//
// The first two lines need a Base that reports GetConn, GotConn and WroteHeaders to
// net/http/httptrace, as http.Transport does. With one that reports nothing, every request is
// treated as sent. An idempotent request is traced only if it has an Idempotency-Key and is not a
// GET or HEAD that a Hedge may send twice. If a Transport below, or net/http itself, has sent the
// request again after an answer was lost, no status says that nothing was done.
//
// # An answer that is lost
//
// An idempotent request is sent again if its answer is lost. Then the second answer may be about
// what the first attempt has done: a server stores a PUT with If-None-Match, the connection
// breaks, and the second attempt gets a 412. So if the last answer is a 4xx, and the server may
// have processed an earlier attempt, the Before of the *retry.Error is what that attempt failed
// with: no answer, a 5xx, or an answer that broke off. If net/http itself has repeated a request
// with an Idempotency-Key, because a connection that it had kept broke, Before says that.
//
// If Before is nil, the 4xx is about the state before this call, unless a proxy, or a RoundTripper
// below that is not of this package, has sent the request twice, which the Transport does not
// learn. If a Transport below has made several attempts and got no answer, Before says so, even if
// none of these attempts had a connection. Before is also nil for a GET that net/http has repeated,
// because a GET changes no state. If Check accepts the 4xx, there is no error, and so no Before.
type Transport struct {
	Base http.RoundTripper // sends each attempt; nil: http.DefaultTransport

	// Policy says how often to send a request, and when. Under the zero Policy a request is
	// sent once, and a Hedge below sends no second one. A request can have a policy of its own:
	// see WithPolicy.
	//
	// RetryIf and Classify get what Check returns: a *StatusError, or the error
	// of Base. RetryIf can only reject a retry that Check wants. Do not set RetryIf
	// to retrynet.Transient, which knows no status. Classify is not
	// called for a request that cannot be sent again. The context that OnEvent and Wait get
	// has the values of the request's context.
	//
	// AttemptTimeout limits the time until the headers of the response have
	// arrived and Check has returned. Reading the body of the last response
	// may take longer. AttemptTimeout cancels the context that Base gets; it is not
	// the Deadline of that context.
	//
	// A request that succeeds puts its share into the Budget. So does a failure whose status
	// shows that the server works: every status from 400 to 499 except 408, 421, 425 and 429,
	// unless the response has a Retry-After.
	Policy retry.Policy

	// Budgets returns the Budget for a request whose policy has no Budget. If Budgets returns nil,
	// no Budget limits the retries of that request. Requests to the same target should share a
	// Budget. Budgets is called once for each request.
	//
	// If Budgets is nil, each target gets a
	// Budget{Size: 10, Ratio: 0.1, RefillEvery: 5m, Remember: 1m, Grace: 1s}, so that retries do
	// not prolong an outage. Set Budgets to NoBudgets for a client that waits until a server has
	// started: a single call has only the 10 retries of the Budget. The first retry of a request
	// after a 401 or a 407 without a Retry-After takes nothing from the Budget, and is made even
	// if the Budget is empty.
	//
	// Under retry.Default and this Budget, no request that may be sent again fails because the
	// target was unavailable for a second, on three conditions: the Budget was full, as its Grace
	// defines it, when that second began; no retry had found the Budget empty in the minute
	// before; and the target can answer the retries that follow, next to its usual requests.
	//
	// A target is a scheme, a host and a port, however the URL writes them. Two names of one
	// server are two targets, and so are 127.1 and 127.0.0.1: only a resolver knows that they
	// are the same. A Transport keeps the Budgets of 1,000 targets in a retry.Budgets. All
	// other targets share one Budget.
	Budgets func(*http.Request) *retry.Budget

	// Idempotent reports whether the server may process a request more than
	// once. If it reports false, the request is sent again only if the server cannot have
	// processed it. nil: the function Idempotent.
	Idempotent func(*http.Request) bool

	// Prepare is called before each attempt with the request that is about to
	// be sent, the number of the attempt, and what the attempt before failed
	// with: nil before the first attempt, and what Check returned before a later one. Prepare may
	// change the request, which is a copy of the caller's: it may set headers, sign the request
	// again, or replace a token. If Prepare replaces Body, it must replace GetBody too. The
	// replaced body is closed together with the new one, which may read from it. If Prepare
	// returns an error, the request is not sent and the call fails with that
	// error. nil: the request is sent as it is.
	Prepare func(req *http.Request, attempt int, last error) error

	// Check returns what an attempt failed with: nil if it succeeded, and an
	// error marked retry.Permanent if another attempt cannot do better. Check gets
	// the request of the attempt, as Prepare left it, and either a response or an
	// error. The context of that request ends only with the context of the caller's request, or
	// if AttemptTimeout is over while Check reads the body. In the second case Check is called
	// again, with the error of the timeout. Check cannot turn an error into a success: if it
	// returns nil for an error, that error is final.
	//
	// To keep the server's Retry-After, return or wrap one of these: the StatusError of the
	// Transport, the error of the function Check, or retry.After. If Check reads the body of the
	// response, it must leave a body that reads the same in its place, and close the body that it
	// has replaced. nil: the function Check.
	Check func(*http.Request, *http.Response, error) error

	// Advise reads what a response with a status of 400 or above says about
	// another attempt: how long to wait, and whether another attempt should be made, whatever
	// the status is. The method StatusError and the function Check call Advise, and so does a
	// Hedge. nil: AdviceOf, which reads the header Retry-After. VendorAdvice reads more headers.
	//
	// Advise may read the body. It should limit the bytes that it reads: AttemptTimeout limits
	// only the time. In place of the body that it has read, it must leave a body that reads the
	// same and whose Close closes the first one: the caller may get this response, and Advise may
	// be called twice for it. See the example of Advice.
	Advise func(*http.Response) Advice

	// StallTimeout ends an attempt if a Read of the response's body gets no byte
	// for this long. The Read returns an error that says so. The time between two
	// calls of Read does not count. A connection after a 101 has no such limit. 0 or less: no
	// limit.
	StallTimeout time.Duration

	// Gate holds attempts if their target has asked another caller to wait. Several Transports
	// may share a Gate. nil: no attempt is held.
	Gate *Gate

	// Resume fetches the rest of a body that breaks while it is read, from the byte
	// where the body broke, with Range and If-Range (RFC 9110 section 14). false: reading
	// fails with the error of the body.
	//
	// Resume applies to a GET that has neither a body nor a Range, and is answered by a 200 that
	// has a strong ETag of at most 128 bytes and no Content-Encoding. So Resume sets
	// Accept-Encoding to identity if a GET has no Accept-Encoding. The server must confirm the
	// ETag with each part. Some servers make the ETag from a time and a size, and send the same
	// one for two bodies: compare a digest if that matters. Trailers are lost. A body without a
	// known length that ends with its connection, as in HTTP/1.0, looks complete wherever it is
	// cut off.
	//
	// Each break is a call of its own under the Policy, in the goroutine that reads. Attempt 1
	// of that call is the attempt that broke; Enter is not called for it. A later attempt
	// succeeds with its first byte. After each byte of progress the attempts begin anew, so limit
	// a download by its context. If Budgets is nil, the first retry after 1 KiB or more of
	// progress takes nothing from the Budget. Check and Prepare get these requests too, and
	// Check must accept a 206.
	//
	// If the rest cannot be fetched, or if Resume does not apply, reading ends with a
	// [*BrokenError] that says why, such as "no strong ETag".
	Resume bool

	targets targets
	origin  *Transport // the Transport whose targets a clone uses; nil: the clone's own
}

// NoBudgets is a value for the field Budgets of a [Transport]. It limits no request: only the
// Budget of the request's policy does, if the policy has one.
func NoBudgets(*http.Request) *retry.Budget { return nil }

// RoundTrip sends a request until an attempt succeeds or the policy says to
// stop. It returns the last response, whatever its status, with an unread body.
// Read the body to its end or close it, because this ends the attempt's context.
// If the last attempt failed, [ErrorOf] says why there was no other.
//
// RoundTrip returns an error if the last attempt got no response, if the request's
// context is done, if the call stopped in a wait, or if an attempt failed under an
// invalid policy. errors.As finds a [*retry.Error] in that error, also in the *url.Error that
// http.Client puts around it.
//
// Each attempt sends a copy of req, so that Base and Prepare may change the copy. The copy shares
// the header and the URL of req if nobody changes them: Base is an http.Transport whose Proxy is
// nil or http.ProxyFromEnvironment, the scheme is http or https, and Prepare, Check, Advise and
// Resume are not set. The first attempt sends the Body of req, or what GetBody returns if Body is
// nil. Each later attempt sends what GetBody returns. A request with a Trailer, or with a body and
// no GetBody, is sent once: see [SetBody].
//
// Errors while the caller reads the body are not retried, unless Check has read the body (see
// [WholeBody]) or Resume applies. To retry errors of any other long body, read the body inside
// [retry.Do], with the RetryIf of package retrynet, and without a Transport: the attempts of Do and
// of a Transport would multiply.
//
// The body of each response before the last is read, up to 64 KiB and for at most 100 ms,
// and closed, so that its connection can be used again during the wait. That time is part of the
// wait. If Read does not return although the attempt is canceled, the call goes on, and a goroutine
// lives until Read returns. But the call waits for the Read if Base is an http.Transport and
// closing its connection does not end a Read of the connection. A connection that a DialContext has
// opened through an SSH tunnel may be like that.
//
// If the methods of an error of Base panic, a permanent error takes its place.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if s := stoppedBy(&http.Response{Request: req}); s != nil {
		// The caller sends the Request of a response again, whose context holds that call's error.
		req = req.WithContext(s.of.Context())
	}
	x := &exchange{
		t: t, req: req, policy: t.policyOf(req),
		checks: CheckFunc(t.Check).or(), plain: t.plain(req.URL),
	}
	defer x.end()
	x.budget, x.done = t.budgetOf(x.policy, req)
	return x.answer(x.run(x.attempt))
}

// CloseIdleConnections closes the idle connections of Base. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// policyOf returns the policy under which a request is sent.
func (t *Transport) policyOf(req *http.Request) *retry.Policy {
	if p, ok := req.Context().Value(policyKey{}).(*retry.Policy); ok {
		return p
	}
	return &t.Policy
}

func (t *Transport) idempotent(req *http.Request) bool {
	if t.Idempotent == nil {
		return Idempotent(req)
	}
	return t.Idempotent(req)
}

// plain reports whether Base is an http.Transport that sends a request to u itself, and the user
// has set no function that gets a request or a response of an attempt. Then nobody changes the
// header and the URL of such a request, so attempts may share them with the caller's request. And
// then a Read of a response's body returns soon after its attempt has ended. A protocol of another
// scheme may be registered with an http.Transport: the protocol of http.NewFileTransport writes to
// the URL. A Proxy of the user's own may choose a proxy by a header, and delete the header.
func (t *Transport) plain(u *url.URL) bool {
	base, plain := t.base().(*http.Transport)
	return plain && u != nil && (u.Scheme == "http" || u.Scheme == "https") &&
		(base.Proxy == nil || reflect.ValueOf(base.Proxy).Pointer() == fromEnvironment) &&
		t.Prepare == nil && t.Check == nil && t.Advise == nil && !t.Resume
}

// fromEnvironment is the code of the Proxy of http.DefaultTransport, which changes no request.
var fromEnvironment = reflect.ValueOf(http.ProxyFromEnvironment).Pointer()

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// Clone returns a Transport with the fields of t. The fields of the clone may be changed until the
// clone is used. If Budgets is nil, the clone and t share one Budget for each target.
func (t *Transport) Clone() *Transport {
	origin := t
	if t.origin != nil {
		origin = t.origin
	}
	return &Transport{
		Base:         t.Base,
		Policy:       t.Policy,
		Budgets:      t.Budgets,
		Idempotent:   t.Idempotent,
		Prepare:      t.Prepare,
		Check:        t.Check,
		Advise:       t.Advise,
		StallTimeout: t.StallTimeout,
		Gate:         t.Gate,
		Resume:       t.Resume,
		origin:       origin,
	}
}
