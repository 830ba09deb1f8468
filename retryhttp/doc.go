// Package retryhttp retries HTTP requests. [Transport] wraps any
// http.RoundTripper and sends a request again, according to a [retry.Policy], when
// the connection fails or the server is overloaded:
//
//	client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default()}}
//
// GET, HEAD, OPTIONS, TRACE, PUT, DELETE and the read-only methods of [Idempotent] are retried
// after network errors, after 408, 421, 425 and 429, and after each 5xx that may pass. A POST or
// PATCH is retried only if it has a header Idempotency-Key, or if the server cannot have
// processed it, as after a 429.
//
// The last response is returned, whatever its status: check its status as usual. [ErrorOf] says
// why this response was the last, and [Result] turns it into an error. Bound a request with its
// context, not with http.Client.Timeout, whose error can hide the reason.
//
// A request with a body is sent again only if it has a GetBody. http.NewRequest sets GetBody for a
// bytes.Buffer, bytes.Reader and strings.Reader. [SetBody] sets it for files and streams. A
// request without GetBody is sent once, and the Reason is not_retryable.
//
// The package has three groups of types and functions, and its files have the same groups:
//
//   - The Transport (transport.go) and the way of a request through it (exchange.go, attempt.go).
//     [Check] and [Advice] decide what is retried, [LLM] is a preset for the APIs of language
//     models, and a [Gate] holds all requests to a target that has asked one of them to wait.
//   - Bodies (body_*.go): SetBody prepares the body of a request. [WholeBody] and [FirstEvent]
//     make a Check that fails if the body of a response breaks off, or if a stream starts with an
//     error.
//   - RoundTrippers above and below. Transport.Resume (resume.go) gives the caller a body that
//     fetches the rest of a download that broke. Below the Transport, a [Hedge] sends a GET a
//     second time if its answer is late, and [LendBudget] lends retries to the server, which
//     takes them with [BorrowBudget].
//
// Package sse, in the folder below, reads streams of events that go on after a break.
package retryhttp
