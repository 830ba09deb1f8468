// Package retryhttp retries HTTP requests. [Transport] wraps any
// http.RoundTripper and sends a request again, according to a [retry.Policy], when
// the connection fails or the server is overloaded:
//
//	client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default()}}
//
// GET, HEAD, OPTIONS, TRACE, PUT, DELETE and the other HTTP methods for which [Idempotent] returns
// true are retried after most network errors, after a 408, 421, 425 or 429, and after most 5xx. For
// example, a 503 is retried and a 501 is not. A table in the documentation of [Transport] lists all
// statuses. A POST or PATCH is retried if it has an Idempotency-Key header. Without this header, it
// is retried only if the server cannot have processed it, for example after a 429.
//
// You get the response of the last attempt, whatever its status. Check the status as usual.
// [ErrorOf] says why there was no further attempt. [Result] turns a failed response into an error.
// To limit the time of a request with all its attempts, use its context. Do not use
// http.Client.Timeout, because its error can hide the reason.
//
// A request with a body is sent again only if it has a GetBody. http.NewRequest sets GetBody for a
// bytes.Buffer, bytes.Reader and strings.Reader. [SetBody] sets GetBody for files and streams. A
// request with a body and no GetBody is sent once. If it fails, and another attempt could have
// succeeded, the Reason is not_retryable.
//
// The package has four parts:
//
//   - The Transport is in transport.go, and the steps of a request are in exchange.go and
//     attempt.go. [Check] and [Advice] decide what is retried. [LLM] returns a Transport for the
//     APIs of language models. A [Gate] holds back all requests to a server that has answered one
//     of them with a 429 and a Retry-After.
//   - The code for bodies is in body_*.go. [SetBody] prepares the body of a request. [WholeBody]
//     and [FirstEvent] return a Check that also reads the body of a response. The attempt fails if
//     the body breaks off, or if a stream of events starts with an error.
//   - The code for downloads is in resume.go. If Transport.Resume is set and the body of a response
//     breaks off, the Transport fetches the missing bytes.
//   - Two RoundTrippers belong below the Transport. A [Hedge] sends a GET a second time if its
//     answer is late. [LendBudget] lets the server of a request use retries of the caller's Budget
//     for its own calls. The server takes these retries with [BorrowBudget].
//
// Package retryhttp/sse reads streams of server-sent events, and connects again after a connection
// is lost.
package retryhttp
