// Package retryhttp retries HTTP requests. [Transport] wraps any
// http.RoundTripper and sends a request again, as a [retry.Policy] says, when
// the connection fails or the server is overloaded:
//
//	client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default()}}
//
// # What is retried
//
// An attempt that failed is followed by another one if its outcome is worth it,
// if the request may be carried out twice, if its body can be sent again, and if
// the policy allows it.
//
// Worth another attempt, or not:
//
//	outcome                            retried  Reason, if not             who says so
//	status below 400                   no       success                    RFC 9110 sections 15.2 to 15.4
//	408 Request Timeout                yes                                 RFC 9110 section 15.5.9
//	421 Misdirected Request            yes                                 RFC 9110 section 15.5.20
//	425 Too Early                      yes                                 RFC 8470 section 5.2
//	429 Too Many Requests              yes                                 RFC 6585 section 4
//	403, 413, the server asks to wait  yes                                 GitHub's rate limits; RFC 9110 section 15.5.14
//	501, 505                           no       permanent_error            RFC 9110 sections 15.6.2, 15.6.6
//	any other status from 500 to 599   yes                                 RFC 9110 section 15.6, Cloudflare's 520 to 530
//	any other status                   no       permanent_error            RFC 9110 section 15.5
//	a proxy refuses CONNECT, with a    no       permanent_error            net/http
//	  standard reason phrase or none
//	errors that retrynet.Permanent     no       permanent_error            package retrynet
//	  knows: no such host, bad cert
//	any other error of Base            yes                                 RFC 9110 section 9.2.2
//	AttemptTimeout, no response        yes                                 the policy
//	the request's context has ended    no       canceled, deadline         the caller
//	the server asks to wait longer     no       retry_after_too_long       the policy
//	  than MaxRetryAfter
//	later                              no       attempts_exhausted, ...    the policy
//
// A request may be carried out twice if it is idempotent: by its method (RFC
// 9110 section 9.2.2), or by a header Idempotency-Key as in net/http. Any other
// request, such as a plain POST, is retried only if the server cannot have
// carried it out; otherwise the Reason is not_retryable:
//
//	outcome                            retried  who says so
//	there was no connection: refused,  yes      net/http/httptrace: no GotConn
//	  DNS, TLS handshake, timeout
//	no header was written to it, and   yes      net/http/httptrace: no WroteHeaders
//	  the attempt was not canceled
//	HTTP/2 REFUSED_STREAM, or GOAWAY   yes      RFC 9113 section 8.7
//	  with an earlier last stream
//	421, 425                           yes      RFC 9110 section 15.5.20, RFC 8470 section 5.2
//	401, with a Check that retries it  yes      RFC 9110 section 15.5.2
//	anything else                      no       RFC 9110 section 9.2.2
//
// The first two lines need a Base that reports to net/http/httptrace, as
// http.Transport does; with any other Base every request counts as sent. A
// request that is idempotent is not traced.
//
// A body can be sent again if the request has a GetBody. http.NewRequest sets it
// for a bytes.Buffer, bytes.Reader and strings.Reader; [SetBody] does for files
// and streams. Without one the Reason is not_retryable.
//
// The fields Check and Idempotent of a Transport decide otherwise. The policy's
// RetryIf can reject what Check found worth another attempt. [Argyll] is another
// preset.
//
// The last response is returned, whatever its status, as http.Client does: a
// caller checks both. A request's context bounds all its attempts and waits, and
// its error says why they stopped. http.Client.Timeout bounds them too, but
// net/http may then replace the error by one of its own, whose Reason is none.
//
// An attempt ends when the response headers arrive; errors while reading the body
// are not retried. To retry those too, read the body inside [retry.Do], with the
// RetryIf of package retrynet, and without a Transport: attempts would multiply.
//
// http.Transport itself repeats a request when a connection that it kept turns
// out to be dead. That is part of one attempt. http.Client follows redirects
// around the Transport: each hop is a request of its own, with all the attempts
// of the policy.
//
// # What the caller gets
//
// The last response, whatever its status, with an unread body: an
// http.RoundTripper does not judge. Or the error of the last attempt, in a
// [*retry.Error]; http.Client puts a *url.Error around it. [retry.ReasonOf] and
// [retry.LastError] see through both, but not through what http.Client makes of
// its own Timeout, which is text alone. That Timeout covers all attempts and
// waits together, as a deadline of the request's context does: a wait that would
// outlast it does not begin, and the last response is returned. Only a
// context ends a wait; the deprecated Cancel of a request reaches Base alone.
//
// # Responses that are discarded
//
// The body of each response before the last is read, up to 64 KiB and for at
// most 100 ms, and closed, so that its connection is free during the wait. That
// time is part of the wait, not on top of it. One goroutine reads the body and
// then closes it, so a Base may pool its readers. After 90 ms the attempt is
// canceled; a Base whose body heeds neither the context nor the time keeps that
// goroutine until its Read returns, while the call goes on after 100 ms. The
// body of the last response is read and closed by the caller alone, and its
// context ends with it: read it or close it.
//
// # Numbers, headers and spans of attempts
//
// Transport.Prepare changes each attempt's request: it sets headers, signs
// again or puts in a new token. [AttemptOf] returns the number of the attempt to
// any RoundTripper below the Transport. With OpenTelemetry's otelhttp, one span
// for each attempt that has the attribute http.request.resend_count takes a
// RoundTripper inside it:
//
//	type resendCount struct{ base http.RoundTripper }
//
//	func (r resendCount) RoundTrip(req *http.Request) (*http.Response, error) {
//		if n := retryhttp.AttemptOf(req.Context()); n > 1 {
//			span := trace.SpanFromContext(req.Context())
//			span.SetAttributes(semconv.HTTPRequestResendCount(n - 1))
//		}
//		return r.base.RoundTrip(req)
//	}
//
//	&retryhttp.Transport{Base: otelhttp.NewTransport(resendCount{http.DefaultTransport}), Policy: policy}
//
// How often a request was sent in all is in the Error, or else in the Stopped
// event that OnEvent gets, whose context has the values of the request's. The
// examples show how to read it there, and how to count and trace by the events.
package retryhttp
