// Package retryhttp retries HTTP requests. [Transport] wraps any
// http.RoundTripper and sends a request again, as a [retry.Policy] says, when
// the connection fails or the server is overloaded:
//
//	client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default()}}
//
// GET, HEAD, OPTIONS, TRACE, PUT and DELETE are retried on network errors, 408,
// 421, 425, 429 and 5xx. A POST or PATCH is retried only if the server cannot have
// processed it, or if it has a header Idempotency-Key.
//
// The last response is returned, whatever its status: check it as usual. [ErrorOf]
// says why it was the last. Bound a request with its context, not with
// http.Client.Timeout, whose error hides the reason.
//
// # What is retried
//
// A failed attempt is retried if the failure looks temporary, the request is
// idempotent, its body can be sent again, and the policy allows it.
//
//	outcome                            retried  Reason, if not             source
//	status below 400                   no       success                    RFC 9110 sections 15.2 to 15.4
//	408 Request Timeout                yes                                 RFC 9110 section 15.5.9
//	421 Misdirected Request            yes                                 RFC 9110 section 15.5.20
//	425 Too Early                      yes                                 RFC 8470 section 5.2
//	429 Too Many Requests              yes                                 RFC 6585 section 4
//	403, 413 with a Retry-After        yes                                 GitHub's rate limits; RFC 9110 section 15.5.14
//	501, 505                           no       permanent_error            RFC 9110 sections 15.6.2, 15.6.6
//	any other status from 500 to 599   yes                                 RFC 9110 section 15.6, Cloudflare's 520 to 530
//	any other status                   no       permanent_error            RFC 9110 section 15.5
//	a proxy refuses CONNECT with 429,  yes                                 as in a response
//	  500, 502, 503 or 504
//	a proxy refuses it otherwise, with no       permanent_error            net/http
//	  a standard reason phrase or none
//	no such host                       yes                                 the start-up order of a cluster
//	other errors that                  no       permanent_error            package retrynet
//	  retrynet.Permanent knows: bad
//	  certificate, unsupported scheme
//	any other error of Base            yes                                 RFC 9110 section 9.2.2
//	AttemptTimeout, no response        yes                                 the policy
//	the request's context is done      no       canceled, deadline         the caller
//	Retry-After above MaxRetryAfter    no       retry_after_too_long       the policy
//	later                              no       attempts_exhausted, ...    the policy
//
// A request is idempotent by its method (RFC 9110 section 9.2.2), or by a header
// Idempotency-Key as in net/http. Any other request, such as a plain POST, is
// retried only if the server cannot have processed it. Otherwise the Reason is
// not_retryable, and its Cause says so:
//
//	outcome                            retried  source
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
// http.Transport does. With any other Base, every request is treated as sent. An
// idempotent request is not traced.
//
// A body can be sent again if the request has a GetBody. http.NewRequest sets it
// for a bytes.Buffer, bytes.Reader and strings.Reader; [SetBody] does for files
// and streams. Without one the Reason is not_retryable too.
//
// A [Gate] holds all requests to a target that has asked one of them to wait, and
// Transport.Resume fetches the rest of a download that breaks.
//
// The fields Check and Idempotent of a Transport decide otherwise, and the
// policy's RetryIf can reject what Check wants to retry. With [WholeBody] or
// [FirstEvent] as Check, a body that breaks off or a stream that begins with an
// error is a failed attempt too. [LLM] is a preset for the APIs of language models.
package retryhttp
