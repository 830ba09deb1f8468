// Package retryhttp retries HTTP requests. [Transport] wraps any
// http.RoundTripper and sends a request again, as a [retry.Policy] says, when
// the connection fails or the server is overloaded:
//
//	client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default()}}
//
// GET, HEAD, OPTIONS, TRACE, PUT, DELETE and methods that only read are retried on network
// errors, 408, 421, 425, 429 and the 5xx that may pass. A POST or PATCH is retried only if the
// server cannot have processed it, as after a 429, or if it has a header Idempotency-Key.
//
// The last response is returned, whatever its status: check it as usual. [ErrorOf] says why it
// was the last, and [Result] makes an error of it. Bound a request with its context, not with
// http.Client.Timeout, whose error can hide the reason.
//
// A body can be sent again if the request has a GetBody. http.NewRequest sets it for a
// bytes.Buffer, bytes.Reader and strings.Reader; [SetBody] does for files and streams. Without
// it the request is sent once, and the Reason is not_retryable.
//
// A [Gate] holds all requests to a target that has asked one of them to wait, and
// Transport.Resume fetches the rest of a download that breaks. A [Hedge] sends a GET a
// second time when its answer is late.
//
// With [WholeBody] or [FirstEvent] as Check, a body that breaks off or a stream that
// begins with an error is a failed attempt too. [LLM] is a preset for the APIs of
// language models. Package sse, below this one, reads streams that go on after a break.
package retryhttp
