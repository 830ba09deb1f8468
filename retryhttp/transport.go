package retryhttp

import (
	"cmp"
	"net/http"
	"net/url"
	"reflect"
	"time"

	"github.com/goretry/retry"
)

// A Transport is an http.RoundTripper that sends each request through another RoundTripper, Base.
// It retries failed attempts as long as the Policy and the Budget of the request's target allow.
// Set Policy, for example to retry.Default(). Without a Policy each request is sent once, unless
// its context has a policy of its own: see [WithPolicy]. A Transport is safe for concurrent use. Do
// not copy a Transport, and do not change its fields while it is in use.
//
// The request's context limits the total time of all attempts and waits of the request. If the next
// wait would end after the context's deadline, the Transport does not wait: it returns the last
// response or error at once. The deprecated field Cancel of a request ends only the current
// attempt.
//
// http.Transport itself repeats a request if the server has closed the idle connection that it was
// sent on. Such a repeat does not count as an attempt. http.Client follows redirects above the
// Transport, so each request in a chain of redirects gets all attempts of the policy. The Jar of
// http.Client gets only the cookies of the last response of each request, not those of the
// responses before it.
//
// # What is retried
//
// This table applies to idempotent requests whose body, if any, can be sent again:
//
//	outcome                            retried Reason, if not          source
//	status below 400                   no      success                 RFC 9110 sections 15.2 to 15.4
//	408 Request Timeout                yes                             RFC 9110 section 15.5.9
//	421 Misdirected Request            yes                             RFC 9110 section 15.5.20
//	425 Too Early, unless the request  yes                             RFC 8470 section 5.2
//	  has the header Early-Data
//	429 Too Many Requests              yes                             RFC 6585 section 4
//	403, 413 with a Retry-After        yes                             GitHub's rate limits;
//	                                                                   RFC 9110 section 15.5.14
//	409 Conflict, if the request has   yes                             draft-ietf-httpapi-
//	  an Idempotency-Key: the first                                    idempotency-key-header
//	  request with this key is running                                   section 2.6, Stripe
//	501, 505: the server lacks support no      permanent_error         RFC 9110 sections 15.6.2,
//	                                                                   15.6.6
//	506: the server is misconfigured   no      permanent_error         RFC 2295 section 8.1
//	507: the storage is full, and      no      permanent_error         RFC 4918 section 11.5
//	  only the user may ask again
//	508: the request runs in a circle  no      permanent_error         RFC 5842 section 7.2
//	510: the request lacks something   no      permanent_error         RFC 2774 section 7
//	511: the network wants a login     no      permanent_error         RFC 6585 section 6
//	504, if the request's header       no      permanent_error         RFC 9111 section 5.2.1.7
//	  Cache-Control has only-if-cached:
//	  the answer is not in the cache
//	any other status from 500 on       yes                             RFC 9110 sections 15, 15.6,
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
//	an error of Prepare or GetBody     no      not_retryable           the request was not sent
//	AttemptTimeout, no response        yes                             the policy
//	the request's context is done      no      canceled, deadline      the caller
//	Retry-After above MaxRetryAfter    no      retry_after_too_long    the policy
//	a limit of the policy is reached   no      attempts_exhausted, ... the policy
//
// If a proxy refuses the CONNECT of an https request, net/http returns an error with the text of
// the status, without its number. So the Transport cannot recognize a 407 of such a proxy, and
// retries it. To prevent these retries, set OnProxyConnectResponse of http.Transport to a function
// that returns a [retry.Permanent] error for a 407.
//
// # Requests that are not idempotent
//
// The function [Idempotent] says which requests are idempotent. It looks at the method and at the
// header Idempotency-Key. net/http does the same, with two exceptions: it accepts an empty key, and
// may repeat a request with such a key, and it does not see a key in lower case. A request that is
// not idempotent, such as a POST without this header, is retried only if the server cannot have
// processed it. Otherwise the Reason is not_retryable, and the Cause of the error says that the
// server may have processed the request. If the request can be sent only once anyway, for example
// because its body has no GetBody, the Cause says only this. The table lists when a request that is
// not idempotent is retried:
//
//	outcome                            retried  source
//	there was no connection: refused,  yes      net/http/httptrace: no GotConn
//	  DNS, TLS handshake, timeout
//	no header was written, and the     yes      net/http/httptrace: no WroteHeaders
//	  request was neither canceled nor
//	  timed out
//	HTTP/2 REFUSED_STREAM, or GOAWAY   yes      RFC 9113 section 8.7
//	  with an earlier last stream
//	421; 425 without Early-Data        yes      RFC 9110 section 15.5.20, RFC 8470 section 5.2
//	429; 403, 413 with a Retry-After:  yes      RFC 6585 section 4, RFC 9110 sections 15.5.4,
//	  refused before being processed            15.5.14; client-go, OpenAI's SDK
//	401, 403, 407, 413, with a Check   yes      RFC 9110 sections 15.5.2, 15.5.4, 15.5.8, 15.5.14
//	  that retries them
//	anything else                      no       RFC 9110 section 9.2.2
//
// The first two lines of the table need a Base that reports GetConn, GotConn and WroteHeaders to
// net/http/httptrace, as http.Transport does, but not for a protocol that you have set in its
// TLSNextProto. If Base reports nothing, every request counts as sent to the server. If Base sends
// other requests, for example to fetch a token, it must not send them in the context of the
// request, because the trace would mistake them for the request. The same holds for requests that
// the Prepare of a Transport below sends, and for requests that a function of the http.Transport,
// such as DialContext or GetProxyConnectHeader, sends in the context that it gets. An idempotent
// GET, HEAD, OPTIONS or TRACE is traced only if it has a body, or if it has an Idempotency-Key and
// is not a GET or HEAD that a Hedge could send twice.
//
// If net/http itself or a Transport below has repeated the request, and the server may have
// processed the request before the repeat, not even a 429 is retried.
//
// Set an Idempotency-Key in the request before the call. A key that Prepare sets does not make the
// request idempotent, because Idempotent gets the request of the caller. A Base must not add a key,
// because net/http would then repeat the request, and the Transport would not notice the repeat.
//
// If a Read of the request's body fails, net/http returns the error of the Read, and the Transport
// takes it for an error of the connection. So a body that comes from another server must wrap its
// errors with fmt.Errorf and %v. Otherwise an HTTP/2 error of that server could look like a
// refusal of this request.
//
// Over HTTP/2, net/http repeats requests that the server has refused before processing them. It
// also repeats a request after an RST_STREAM with PROTOCOL_ERROR, although this error does not
// prove that the server has not processed the request. The Transport does not see such repeats, and
// treats the request as if it had been sent once. net/http does not limit the number of such
// repeats: a faulty server can make a client send one attempt hundreds of times a second.
// AttemptTimeout and the context of the request end the repeats. If they end net/http's wait before
// a repeat over HTTP/2, the request counts as sent, because the trace does not show the refusal.
//
// If net/http gets no connection for a repeat, the request counts as sent to the server. There is
// one exception: Base is an http.Transport, alone or below LendBudget, and the repeat itself proves
// that no server has processed the request. Apart from a PROTOCOL_ERROR, this is so if the broken
// connection spoke HTTP/2 over TLS, or if net/http had not written the whole header to it. It is
// also so for a request without an Idempotency-Key that is not a GET, HEAD, OPTIONS or TRACE.
//
// # An answer that is lost
//
// An idempotent request is sent again if its answer is lost. Then the first attempt may be the
// cause of the second answer. Example: a server stores a PUT with If-None-Match, the connection
// breaks, and the second attempt gets a 412. So the field Before of the *retry.Error is the error
// of an earlier attempt if two conditions hold:
//   - The server may have processed the earlier attempt. Such an attempt got no answer, a 408, a
//     5xx, or an answer below 400 that Check rejected, for example because the body broke off.
//   - The last attempt was refused, got no answer, or was not sent. A refusal is a 4xx, or another
//     answer whose error is permanent, such as a 507. An answer below 400 that Check rejects is
//     also a refusal if RetryIf or Classify forbids a retry, unless the earlier attempt got an
//     answer below 400 too. A GET, HEAD, OPTIONS or TRACE that got no answer does not count,
//     because these methods change no state. An attempt is not sent if Prepare or GetBody fails, or
//     if the Gate or the policy's Enter refuses the attempt. The error of the call then contains
//     the error of the previous attempt, so Before does not repeat it. But if Enter returns a
//     *retry.Error with an Err, this Err replaces the error of the previous attempt, and Before may
//     be the error of the previous attempt.
//
// If several attempts of a call fulfil the first condition, the earlier attempt is the first of
// them without a status from 400 on, or else the first of them. But an attempt that got no answer
// comes last if Base reports nothing about it to net/http/httptrace, and reports about others: an
// open circuit breaker in Base, for example, sends nothing. If the earlier attempt ended by a
// timeout without a status, and the error of the call contains another such timeout, of the last
// attempt or of the attempt before it, then Before is not set to the earlier timeout, which would
// say no more.
//
// An attempt that got no connection was not processed. If the attempt was not traced, the Transport
// knows this only from the error, and the error of a TLS handshake does not show it.
//
// A 408 counts because the timeouts of some frameworks send a 408 after a handler has begun its
// work. Fiber and tower-http are examples.
//
// net/http itself repeats a request with an Idempotency-Key if an idle connection breaks. If this
// repeat is refused or gets no answer, the field Before says that net/http has repeated the
// request. http.Client follows a redirect with a new call of RoundTrip. If the new request has the
// same method, Before of the new call also names an answer that was lost before the redirect.
//
// If the last answer is a 4xx and Before is nil, no earlier attempt has caused the 4xx. There are
// four exceptions:
//   - A proxy, net/http after a PROTOCOL_ERROR, a RoundTripper above, or a RoundTripper below that
//     is not of this package, may have sent the request twice, and the Transport cannot know it.
//   - A server may have answered with a 4xx other than 408 although it has processed the request,
//     and Check may have retried this 4xx. An example is the 499 of a handler that was canceled.
//   - A Transport below may have made several attempts, and its Check may have accepted the 4xx.
//   - net/http may have repeated a GET, HEAD, OPTIONS or TRACE that was not traced, or a Hedge may
//     have sent a GET or HEAD twice. Before ignores that, because these methods change no state.
//
// If Check accepts the 4xx, there is no *retry.Error, and so no Before. If a Transport below has
// made several attempts and got no answer, Before is the error of that Transport. This error
// describes only the last of these attempts, so Before is set even if none of them had a
// connection, unless the request was traced.
//
// # A server that stops reading
//
// If a server stops reading an upload over HTTP/2, net/http waits, and holds a lock of the
// connection. Each Read of a response's body on this connection then waits for the lock. Neither
// AttemptTimeout nor StallTimeout nor a context ends such a Read. This is so for a Read of the
// caller, and for a Read of a Check such as [WholeBody]. To limit the wait, set
// HTTP2.WriteByteTimeout of http.Transport. When a Transport discards a response, it does not wait
// for such a Read. A Read may wait in the same way while net/http reads the next bytes of the
// request's body, for example from a pipe. To end this wait, close the pipe.
//
// Over HTTP/1 with TLS, net/http closes the connection to end a request whose context has ended. If
// the server has stopped reading, the Close of the connection writes an alert for up to 5 s, and
// the request ends after that. Over HTTP/1, net/http also waits for a Read of the request's body,
// and no context ends this wait.
type Transport struct {
	// Base sends the request of each attempt. If Base is nil, http.DefaultTransport is used. The
	// program may have set http.DefaultTransport to this Transport, or to a RoundTripper of this
	// package above this Transport. Then the value that http.DefaultTransport had at the start of
	// the program is used instead. If http.DefaultTransport is a RoundTripper of another package
	// that contains this Transport, set Base. Otherwise the Transport would call itself without
	// end.
	Base http.RoundTripper

	// Policy says how often to send a request, and when. Under the zero Policy each request is sent
	// once, even by a Hedge below the Transport. A request can have a policy of its own: see
	// WithPolicy.
	//
	// RetryIf and Classify get the error that Check returns, which is usually a *StatusError or the
	// error of Base. RetryIf can only reject retries: RetryIf is not called for an error that Check
	// has marked as permanent. Do not set RetryIf to retrynet.Transient, because it would reject
	// every *StatusError. Classify is not called for a request that cannot be sent again. The
	// context that OnEvent and Wait get has the values of the request's context. The error in the
	// event CallFinished lacks two details of the returned error: a Before that names a lost
	// answer, and a Cause that names Budgets.
	//
	// AttemptTimeout limits the time of an attempt until the headers of the response have arrived and
	// Check has returned. It does not limit the time in which the caller reads the body of the last
	// response. When AttemptTimeout has passed, the context that Base gets is done. The method
	// Deadline of this context does not report AttemptTimeout.
	//
	// Each success adds the Ratio of the Budget to the Budget. A failure also adds the Ratio if its
	// status shows that the server works. Such statuses are 400 to 499 except 408, 421, 425, 429
	// and 498, if the response has no Retry-After.
	Policy retry.Policy

	// Budgets returns the Budget for a request whose policy has no Budget. If Budgets returns nil,
	// no Budget limits the retries of that request. Requests to the same target should share a
	// Budget. Budgets is called once for each request.
	//
	// If Budgets is nil, each target gets a
	// Budget{Size: 10, Ratio: 0.1, RefillEvery: 5m, Remember: 1m, Grace: 1s}, so that retries do not
	// prolong an outage. A call that retries while a server is starting uses up the 10 retries of this
	// Budget in a short time. For such calls, set Budgets to NoBudgets. The first retry of a request
	// after a 401 or a 407 takes nothing from the Budget, unless the response has a Retry-After. This
	// retry is made even if the Budget is empty.
	//
	// If a target is unavailable for up to a second, no request that may be sent again fails under
	// retry.Default and this Budget, on three conditions:
	//
	//   - The Budget was full when the target became unavailable. The Grace of retry.Budget defines
	//     "full".
	//   - In the minute before the target became unavailable, no retry had found the Budget empty.
	//   - When the target is available again, it can answer the retries in addition to its usual
	//     requests.
	//
	// If a host vanishes without closing its connections, each of the idle connections to it fails
	// one attempt of a request that net/http does not repeat, such as a PUT. So let
	// MaxIdleConnsPerHost of http.Transport, which is 2 by default, be less than MaxAttempts.
	//
	// A target is a scheme, a host and a port. Upper case in a host and an explicit default port make
	// no difference. Two names of one server are two targets. 127.1 and 127.0.0.1 are also two
	// targets, because only a resolver knows that they are the same address. A Transport keeps the
	// Budgets of 1,000 targets in a retry.Budgets. All other targets share one Budget.
	Budgets func(*http.Request) *retry.Budget

	// Idempotent reports whether a request is idempotent, that is, whether the server may process it
	// twice. If Idempotent reports false, the request is sent again only if the server cannot have
	// processed it. If Idempotent is nil, the function Idempotent decides.
	Idempotent func(*http.Request) bool

	// Prepare is called before each attempt. It gets the request that is about to be sent, the
	// number of the attempt, and the error that Check returned for the previous attempt. In the
	// first attempt, the number is 1 and the error is nil. The request is a copy of the caller's
	// request. Prepare may change it: set headers, sign the request again, or replace a token.
	// Prepare is also called for the request of a redirect, so compare its host before you set a
	// token. If Prepare replaces Body, it must replace GetBody too. The new body may read from the
	// old body, which is closed after the new body. If Prepare returns an error, the request is not
	// sent, and the call fails with this error. The Reason is ReasonNonRetryable, or
	// ReasonPermanent if the error is one of retry.Permanent. After ReasonNonRetryable, a loop or a
	// queue around the call may make another call. But if AttemptTimeout has passed when Prepare
	// returns, and the error is nil or the error of the context, the attempt fails with a timeout.
	// If Prepare is nil, each request is sent unchanged.
	Prepare func(req *http.Request, attempt int, last error) error

	// Check decides whether an attempt has failed, and returns the error of a failed attempt. It
	// returns nil if the attempt succeeded, and a retry.Permanent error if another attempt would
	// fail too. Check gets the request of the attempt, as Prepare and Base left it, and either a
	// response or an error of Base. Check cannot turn an error into a success. If it returns nil
	// for an error, the error counts as permanent.
	//
	// While Check runs, the context of its request is done in two cases. Either the context of the
	// caller's request is done, or a timeout has passed while Check was reading the body:
	// StallTimeout, AttemptTimeout, or the 1s that LLM allows for the body of an error. After such
	// a timeout, the method Err of this context returns context.DeadlineExceeded. Err of a context
	// that was made from this context may return context.Canceled then. After AttemptTimeout, Check
	// is called again, with the error of the timeout and a context that is not done.
	//
	// To keep the server's Retry-After, return or wrap an error that was returned by
	// Transport.StatusError, by the function Check of this package, or by retry.After. If Check reads
	// the body of the response, Check must put a new body with the same bytes in its place. The old
	// body must be closed, by Check or by the Close of the new body. If Check is nil, the function
	// Check decides.
	Check func(*http.Request, *http.Response, error) error

	// Advise reads the advice in a response with a status of 400 or above: how long to wait before
	// another attempt, and whether to make another attempt. The Verdict in the Advice overrules the
	// status of the response. Advise is called by the method StatusError, by the function Check and by
	// a Hedge. If Advise is nil, AdviceOf reads the header Retry-After. VendorAdvice reads more
	// headers.
	//
	// Advise may read the body of the response. It should limit the number of bytes that it reads,
	// because AttemptTimeout limits only the time. If Advise has read the body, it must put a new
	// body with the same bytes in its place. The reason is that the caller may get the response,
	// and that Advise may be called twice for a response. The Close of the new body must close the
	// old body. See the example of Advice. Do not send a request in Advise, because it gets no
	// context that ends with AttemptTimeout.
	Advise func(*http.Response) Advice

	// StallTimeout ends an attempt if a Read of the response's body gets no byte for this long. The
	// Read returns an error that names StallTimeout. The time between two calls of Read does not
	// count, unless the first call has returned neither a byte nor an error. StallTimeout does not
	// limit the connection after a 101 Switching Protocols. If StallTimeout is 0 or less, a Read
	// may wait without limit.
	StallTimeout time.Duration

	// Gate holds back attempts if an earlier response of their target has asked to wait. Several
	// Transports may share a Gate. If Gate is nil, no attempt is held back.
	Gate *Gate

	// Resume is about a body that breaks off while the caller reads it. If Resume is true, the
	// Transport fetches the missing bytes with the headers Range and If-Range (RFC 9110 section 14).
	// If Resume is false, a Read of the body returns the error unchanged.
	//
	// Resume applies to a GET that has neither a body nor a Range header. The response must be a 200
	// that has a strong ETag of at most 128 bytes and no Content-Encoding. Therefore a GET without an
	// Accept-Encoding is sent with Accept-Encoding: identity. A server that stores a compressed body
	// may ignore this header, and then the caller reads the compressed bytes. The server must send the
	// same ETag with each part. Some servers compute the ETag from a time and a size, so two different
	// bodies may have the same ETag. If this matters, compare a digest of the body. The Trailer of the
	// response is lost. A body of unknown length that ends with its connection, as in HTTP/1.0, looks
	// complete even if it was cut off.
	//
	// Each time the body breaks off, the missing bytes are fetched in a new call under the Policy,
	// in the goroutine that reads the body. Attempt 1 of this call is the attempt whose body broke
	// off, so the Enter of the Policy is not called for attempt 1, although OnEvent gets its
	// events. A later attempt succeeds when its first byte arrives. When the body breaks off again,
	// the attempts are counted from 1 again, so limit the time of a whole download by its context.
	// If Budgets is nil, the first retry after 1 KiB or more of progress takes nothing from the
	// Budget of the target. Check and Prepare are also called for the requests for missing bytes,
	// and Check must accept a 206. A redirect of such a request is not followed. Check also gets
	// the error with which the body broke off. The request that Check gets with this error is the
	// first request for the missing bytes, as it is before Prepare.
	//
	// If Resume does not apply, if the missing bytes cannot be fetched, or if the context of the
	// request ends, Read returns a [*BrokenError]. Its text says why, for example "no strong ETag".
	Resume bool

	targets targets
	origin  *Transport // a clone uses the targets of `origin`; nil: t uses its own targets
}

// RoundTrip sends a request until an attempt succeeds or the policy says to stop. It returns the
// last response, whatever its status, with an unread body. Read the body to its end or close it:
// this releases the context of the attempt. Over HTTP/2, close even the body of a response without
// content, such as a 204 or the answer to a HEAD. A server may send a success without a body before
// it has read the whole body of the request. Over HTTP/2 the upload then goes on, and the context
// ends after it. But if Base itself sends the request twice, or does not report to
// net/http/httptrace, the upload may end at the success. If the last attempt failed, [ErrorOf] says
// why there was no further attempt.
//
// RoundTrip returns an error and no response in four cases:
//
//   - The last attempt got no response, or AttemptTimeout passed while Check was reading the body
//     of the response.
//   - The last attempt failed, and the request's context is done.
//   - The call stopped during a wait, or the Enter of the policy or the Gate refused an attempt.
//   - An attempt failed under an invalid policy.
//
// errors.As finds a [*retry.Error] in this error. It also finds the *retry.Error in the *url.Error
// that http.Client returns.
//
// Each attempt sends a copy of req, so that Base and Prepare may change the copy. The copy shares
// the header and the URL of req if nothing can change them, that is, if three conditions hold:
//
//   - Base is an http.Transport whose Proxy is nil or http.ProxyFromEnvironment, and whose
//     DialTLSContext and DialTLS are nil.
//   - The scheme is http or https.
//   - None of Prepare, Check, Advise and Resume is set.
//
// The first attempt sends the Body of req, or what GetBody returns if Body is nil. Each later
// attempt sends what GetBody returns. Two bodies of GetBody must not share the position of a file,
// because net/http may go on reading the body of an attempt after its answer. A request with a
// Trailer, or with a body and no GetBody, is sent once: see [SetBody]. A request to a host of more
// than 1,024 bytes is sent once too. No valid name is that long, and http.Transport could spend
// seconds in each attempt to encode the name.
//
// If the body breaks off while the caller reads it, the request is not retried. Only Resume can
// fetch the missing bytes then. With a Check that reads the whole body, the attempt fails instead
// and can be retried: see [WholeBody]. For a body that is too long for WholeBody, send the request
// and read the body inside [retry.Do], and get the response with [Result]: then a 503 is retried,
// and a 404 is not. Send this request without a Transport, because the attempts of Do and of the
// Transport would multiply.
//
// RoundTrip reads and closes the body of each response before the last, so that its connection can
// be used again. It reads at most 64 KiB, for at most 100 ms. This time is part of the wait before
// the retry. If a Read hangs although its attempt is canceled, the call goes on, and a goroutine
// lives until the Read returns. Then the goroutine closes the body. If the body comes from
// [http.ReadResponse], its Close reads the rest of the body, without a limit.
//
// There are two exceptions over HTTP/1, in which the call may wait for the Read. Both need an
// [http.Transport] as Base:
//   - The http.Transport has a DialContext or Dial of the user's own, the scheme is http, and
//     closing a connection that this function returned does not end a Read of the connection. A
//     connection through an SSH tunnel may be like this.
//   - The user has registered a protocol for http or https with the http.Transport (see
//     [http.Transport.RegisterProtocol]), and the body of a response of this protocol ignores the
//     context of the request.
//
// If Base returns an error, and a method of this error panics, a permanent error takes its place.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = withoutStopInfo(req)
	x := &exchange{
		t: t, req: req, policy: t.policyOf(req),
		checks: CheckFunc(t.Check).orDefault(), plain: t.plain(req.URL),
	}
	defer x.cleanUp()
	x.budget, x.done = t.budgetOf(x.policy, req)
	return x.answer(x.run(x.attempt))
}

// CloseIdleConnections closes the idle connections of Base. http.Client calls it.
func (t *Transport) CloseIdleConnections() { closeIdleConnections(t.base()) }

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

// The method `plain` reports whether two things hold: Base is an http.Transport that sends a
// request to u without a registered protocol, and no function of the user gets the request or the
// response of an attempt. If so, nothing changes the header and the URL of an attempt's request, so
// all attempts may share the header and the URL of the caller's request. Also, over HTTP/1 without
// TLS, a Read of a response's body returns soon after its attempt has ended, with the two
// exceptions that RoundTrip names.
//
// A protocol that is registered with an http.Transport for another scheme may change the URL, as
// the protocol of http.NewFileTransport does. A Proxy of the user's own gets the request, and may
// choose the proxy by a header and delete this header. If a DialTLSContext or DialTLS of the user's
// own makes a connection, net/http may not report that the connection has TLS.
func (t *Transport) plain(u *url.URL) bool {
	base, plain := t.base().(*http.Transport)
	return plain && u != nil && (u.Scheme == "http" || u.Scheme == "https") &&
		//lint:ignore SA1019 users may still set DialTLS
		base.DialTLSContext == nil && base.DialTLS == nil &&
		(base.Proxy == nil || reflect.ValueOf(base.Proxy).Pointer() == fromEnvironment) &&
		t.Prepare == nil && t.Check == nil && t.Advise == nil && !t.Resume
}

// fromEnvironment is the address of the code of http.ProxyFromEnvironment. Go cannot compare two
// functions, but it can compare these addresses. http.ProxyFromEnvironment does not change the
// request, and is the Proxy of http.DefaultTransport.
var fromEnvironment = reflect.ValueOf(http.ProxyFromEnvironment).Pointer()

func (t *Transport) base() http.RoundTripper { return baseOf(t.Base, t) }

// root returns the Transport of which t and its clones are clones.
func (t *Transport) root() *Transport { return cmp.Or(t.origin, t) }

// Clone returns a copy of t. You may change the fields of the copy before its first use. If Budgets
// is nil, the clone and t share one Budget for each target. If http.DefaultTransport is t, set the
// Base of the copy. Without a Base, the copy would send its requests through t, and the attempts of
// both would multiply.
func (t *Transport) Clone() *Transport {
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
		origin:       t.root(),
	}
}
