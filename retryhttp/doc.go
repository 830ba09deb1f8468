// Package retryhttp sends HTTP requests again: a [Transport] is an
// http.RoundTripper around any other, with a [retry.Policy].
//
//	client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default()}}
//
// # What is sent again
//
// A request whose attempt failed, where it may and can be sent again, as long
// as the policy allows:
//
//	outcome                            sent again  Reason, if not             who says so
//	status below 400                   no          success                    RFC 9110 sections 15.2 to 15.4
//	408 Request Timeout                yes                                    RFC 9110 section 15.5.9
//	429 Too Many Requests              yes                                    RFC 6585 section 4
//	500 Internal Server Error          yes                                    RFC 9110 section 15.6.1
//	502, 503, 504                      yes                                    RFC 9110 sections 15.6.3 to 15.6.5
//	any other status, 501 and 505 too  no          permanent_error            RFC 9110 sections 15.5, 15.6.2, 15.6.6
//	error of the transport             yes                                    RFC 9110 section 9.2.2
//	one that retrynet.Permanent knows  no          permanent_error            retrynet
//	AttemptTimeout without a response  yes                                    the policy
//	the request's context has ended    no          canceled, deadline         the caller
//	method not idempotent, no key      no          not_retryable              RFC 9110 section 9.2.2, net/http
//	body without GetBody               no          not_retryable              net/http
//	Retry-After beyond MaxRetryAfter   no          retry_after_too_long       RFC 9110 section 10.2.3
//	anything, later                    no          attempts_exhausted, ...    the policy
//
// Check decides otherwise, Idempotent tells which requests may be sent again,
// and the policy's RetryIf can only say no to what Check found worth another
// try. [Argyll] is another preset.
//
// A response is complete, here, once its headers are: a connection that breaks
// while the caller reads the body is an error of that body. To have it sent
// again, read the body within [retry.Do], with the RetryIf of package
// retrynet, and leave it to one of the two: attempts multiply.
//
// http.Transport itself replays a request once in a while, over a new
// connection where one that was kept turns out to be dead. That is part of an
// attempt. http.Client follows redirects around the Transport: each hop is a
// request of its own, with all the attempts of the policy.
//
// # What the caller gets
//
// The last response, whatever its status, as an http.RoundTripper has to, with
// a body that nobody has read. Of each response before it, the body is read
// (64 KiB, 100 ms at most) and closed between the decision and the wait, so
// that its connection is free meanwhile.
//
// Or the error of the last attempt, in a [*retry.Error]; http.Client puts a
// *url.Error around it. [retry.ReasonOf] sees through both, but not through
// what http.Client makes of its own Timeout, which is text alone. That Timeout
// is over all attempts and waits together, and so is a deadline of the
// request's context; a wait that would outlast it is not begun, and the
// response there is is returned. A context is all that ends a wait: the
// deprecated Cancel of a request reaches Base, and nothing between attempts.
//
// How often a request was sent is in the Error, or else in the event that
// tells OnEvent that it stopped: its Attempt is the number, its context the
// request's. The examples show how to read it there, and how to count and to
// trace by the events.
package retryhttp
