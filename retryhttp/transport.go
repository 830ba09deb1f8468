package retryhttp

import (
	"net/http"
	"time"

	"github.com/goretry/retry"
)

// A Transport is an http.RoundTripper that sends a request through another one,
// as often as its Policy and a Budget for its target allow. Set Policy, such as to
// retry.Default(): &Transport{} sends each request once, and only a request with [WithPolicy]
// again. A Transport is safe for concurrent use. Do not copy it, nor change its fields while
// it is in use.
//
// The request's context bounds all its attempts and waits, and the error says why
// they stopped. A deadline that comes before the end of a wait ends the call at once, and
// the last response is returned.
//
// http.Transport itself repeats a request when a connection that it kept turns
// out to be dead. That is part of one attempt. http.Client follows redirects
// around the Transport: each hop is a request with all the attempts of the policy.
//
// # What is retried
//
// If the request is idempotent and its body can be sent again:
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
// If a proxy refuses the CONNECT of an https request, net/http makes an error of the text of its
// status alone, so a 407 of a proxy is retried too. To end the call there, let
// OnProxyConnectResponse of http.Transport return an error marked [retry.Permanent].
//
// # Requests that are not idempotent
//
// A request is idempotent by its method, as the function [Idempotent] says, or by a header
// Idempotency-Key as in net/http. Any other request, such as a plain POST, is
// retried only if the server cannot have processed it. Otherwise the Reason is
// not_retryable, and its Cause says so:
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
// An idempotent request is sent again when its answer is lost, and then the server may answer
// to what the first attempt has done: a PUT with If-None-Match is stored, its connection
// breaks, and the second attempt gets a 412. So where the last answer is a 4xx, and an earlier
// attempt may have been processed, the Before of the *retry.Error is what that attempt failed
// with: no answer, a 5xx, or an answer that broke off. net/http repeats a request with an
// Idempotency-Key by itself if a connection that it kept breaks: then Before says so. If Before
// is nil, the 4xx is about the state that the caller found, unless a proxy has sent the request
// twice, which nobody here learns. A GET changes no state, and if net/http repeats it, Before is
// nil too. A Check that accepts the 4xx leaves no error, and so
// no Before.
type Transport struct {
	Base http.RoundTripper // sends each attempt; nil: http.DefaultTransport

	// Policy says how often to send a request, and when. The zero Policy sends
	// it once, under a Hedge too. A request can have a policy of its own: see WithPolicy.
	//
	// RetryIf and Classify get what Check returns: a *StatusError, or the error
	// of Base. RetryIf can only reject what Check wants to retry; do not set it
	// to retrynet.Transient, which knows no status. Classify is not
	// called for a request that cannot be sent again. OnEvent and Wait get a
	// context with the values of the request's.
	//
	// AttemptTimeout limits the time until the headers of the response have
	// arrived and Check has returned; reading the body of the final response
	// may take longer. The context that Base gets is canceled by it, and does
	// not have it as its Deadline.
	//
	// A request that succeeds puts its share into the Budget. So does a failure
	// that shows a healthy server: every status from 400 to 499 except 408, 421, 425,
	// 429, and those with a Retry-After.
	Policy retry.Policy

	// Budgets returns the Budget of a request whose policy has none, nil for none.
	// Requests to one target should share one. It is called once for each request.
	//
	// nil: a Budget{Size: 10, Ratio: 0.1, RefillEvery: 5m, Remember: 1m, Grace: 1s} for each
	// target, so that retries do not keep an outage alive. A blip of a second loses no request
	// that may be sent again, under retry.Default, if the Budget was full when the blip began,
	// as its Grace means it, no retry had found the Budget empty for a minute, and the target
	// can answer the retries that come after the blip, next to its usual requests. A call alone
	// has 10 retries: one that waits for a server needs NoBudgets. The first retry of a request
	// after a 401 or a 407 without a Retry-After takes nothing from the Budget, and is made
	// even if the Budget is empty.
	// NoBudgets: none.
	//
	// A target is a scheme, a host and a port, however they are written. Names that only a
	// resolver knows to be the same are several: 127.1 and 127.0.0.1, two names of one server.
	// A Transport keeps the Budgets of 1,000 targets in a retry.Budgets; all other targets
	// share one Budget.
	Budgets func(*http.Request) *retry.Budget

	// Idempotent reports whether the server may process a request more than
	// once. If not, the request is sent again only when the server cannot have
	// processed it. nil: the function Idempotent.
	Idempotent func(*http.Request) bool

	// Prepare is called before each attempt with the request that is about to
	// be sent, the number of the attempt, and what the attempt before failed
	// with: nil before the first, and then what Check returned. It may
	// change the request, which is a copy of the caller's: set headers, sign it
	// again, or replace a token; if it replaces Body, GetBody too. The body that
	// it replaces is closed with the new one, which may read from it. If it
	// returns an error, the request is not sent and the call fails with that
	// error. nil: the request is sent as it is.
	Prepare func(req *http.Request, attempt int, last error) error

	// Check returns what an attempt failed with: nil if it succeeded, and an
	// error marked retry.Permanent if another attempt cannot do better. It gets
	// the request of the attempt, as Prepare left it, and either a response or an
	// error. The context of that request ends only if the caller has gone, or by AttemptTimeout
	// while Check reads: then Check is called again, with that error. Check cannot
	// turn an error into a success: nil for an error is treated as permanent.
	//
	// To keep the server's Retry-After, return or wrap the StatusError of the
	// Transport, what the function Check returns, or retry.After. A Check that
	// reads the body of the response must replace it by one that reads the same,
	// and close the one it replaces. nil: the function Check.
	Check func(*http.Request, *http.Response, error) error

	// Advise reads what a response with a status of 400 or above says about
	// another attempt: how long to wait, and whether there should be one, whatever
	// the status is. The method StatusError and the function Check ask it, and a Hedge does.
	// nil: AdviceOf, which reads the header Retry-After. VendorAdvice reads more.
	//
	// It may read the body, of which it should bound the bytes: AttemptTimeout alone bounds the
	// time. It must replace the body by one that reads the same, and that closes the one it
	// replaces, because the caller may get this response, and because Advise may be asked twice:
	// see the example of Advice.
	Advise func(*http.Response) Advice

	// StallTimeout ends an attempt when a Read of its response's body gets no byte
	// for this long; the Read returns an error that says so. The time between two
	// calls of Read does not count, and a connection after 101 has no such limit. 0
	// or less: no limit.
	StallTimeout time.Duration

	// Gate holds attempts whose target has asked another caller to wait. Share one
	// among Transports. nil: none.
	Gate *Gate

	// Resume fetches the rest of a body that breaks while it is read, from the byte
	// where it broke, with Range and If-Range (RFC 9110 section 14). false: reading
	// fails with the error of the body.
	//
	// It applies to a 200 with a strong ETag of at most 128 bytes and without a
	// Content-Encoding, in answer to a GET without a body or a Range of its own. A GET
	// without Accept-Encoding therefore asks for identity. The server must confirm the ETag
	// with each part. One made of a time and a size can still lie: compare a digest if it
	// matters.
	//
	// Each break is a call of its own under the Policy, in the goroutine that reads:
	// attempt 1 is what broke, for which Enter is not called, and an attempt succeeds with its
	// first byte. Attempts
	// begin anew after each byte of progress, so bound a download by its context. If Budgets
	// is nil, a break after 1 KiB or more of progress takes nothing from the Budget. Check
	// and Prepare see these requests too, and Check must accept a 206. If the rest cannot be
	// fetched, or Resume does not apply, reading ends with a [*BrokenError] that says why, such
	// as "no strong ETag". Trailers are lost. A body whose length is not known, and that ends
	// with its connection as in HTTP/1.0, looks whole wherever it is cut.
	Resume bool

	targets targets
	origin  *Transport // whose targets a clone uses; nil: its own
}

// NoBudgets is the Budgets of a [Transport] whose requests have no Budget besides the one of
// their policy, as in a test of a server that always fails.
func NoBudgets(*http.Request) *retry.Budget { return nil }

// RoundTrip sends a request until an attempt succeeds or the policy says to
// stop. It returns the last response, whatever its status, with an unread body.
// Read it or close it: the attempt's context ends with it. [ErrorOf] says why a
// response that failed was the last.
//
// RoundTrip returns an error if the last attempt got no response, if the request's
// context is done, if the call stopped in a wait, or if an attempt failed under an
// invalid policy. errors.As finds a [*retry.Error] in it, also in the *url.Error that
// http.Client puts around it.
//
// Each attempt sends a copy of req, so that Base and Prepare may change it. If Base is an
// http.Transport, which changes nothing, the copy shares the header and the URL of req. The first
// sends the body, or what GetBody returns if there is none, each later one what GetBody
// returns. A request with a Trailer, or a body without GetBody, is sent once: see [SetBody].
//
// Errors while reading the body are not retried, unless Check reads it (see [WholeBody])
// or Resume applies. To retry those of any other long body, read it inside [retry.Do],
// with the RetryIf of package retrynet, and without a Transport: attempts would multiply.
//
// The body of each response before the last is read, up to 64 KiB and for at most 100 ms,
// and closed, so that its connection is free during the wait. That time is part of the
// wait. If Read ignores that the attempt is canceled, the call goes on, and a goroutine
// lives until Read returns.
//
// An error of Base whose own methods panic is replaced by a permanent one.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if s := stoppedBy(&http.Response{Request: req}); s != nil {
		// The caller sends the Request of a response again, whose context holds that call's error.
		req = req.WithContext(s.of.Context())
	}
	x := &exchange{t: t, req: req, policy: t.policyOf(req), checks: CheckFunc(t.Check).or(), plain: t.plain()}
	defer x.end()
	x.budget, x.done = t.budgetOf(x.policy, req)
	return x.answer(x.run(x.attempt))
}

// CloseIdleConnections closes those of Base. http.Client calls it.
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

// budgetOf returns the Budget of a request. If the user has set none, it is the Budget of
// the request's target, and done ends its use; otherwise done is nil.
func (t *Transport) budgetOf(p *retry.Policy, req *http.Request) (b *retry.Budget, done func()) {
	switch {
	case p.Budget != nil:
		return p.Budget, nil
	case t.Budgets != nil:
		return t.Budgets(req), nil
	case req.URL == nil:
		return nil, nil // Base says what is wrong with it
	default:
		of := &t.targets
		if t.origin != nil {
			of = &t.origin.targets
		}
		return of.budgetOf(req.URL)
	}
}

func (t *Transport) idempotent(req *http.Request) bool {
	if t.Idempotent == nil {
		return Idempotent(req)
	}
	return t.Idempotent(req)
}

// plain reports whether only http.Transport gets the requests of attempts, and nobody but this
// package their responses before the last one. Then nobody changes the header of a request,
// which attempts share with the caller's, and a Read of a body ends with its attempt.
func (t *Transport) plain() bool {
	_, plain := t.base().(*http.Transport)
	return plain && t.Prepare == nil && t.Check == nil && t.Advise == nil && !t.Resume
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}
