package retryhttp

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A StatusError is the error of an attempt whose response had a status that Check
// does not accept. RetryIf, Classify, Prepare and the events of the policy get the StatusError.
// The caller of a [Transport] gets the response, and the StatusError from [Result].
type StatusError struct {
	StatusCode int
	Header     http.Header // a copy of the response's header

	// Body is the beginning of the response's body, at most 1 KiB, if [Result] or the Check
	// of [LLM] has read it; otherwise nil. The body comes from the server and may be secret, so
	// the text of the error does not contain it. Result sets Body in the error that OnEvent got
	// too, so do not read it in another goroutine at that time.
	Body []byte

	method  string
	url     url.URL // of the request, without its user, query and fragment
	advice  Advice
	hasBody bool          // the body was not read yet, and may be read from the response
	of      *http.Request // the Request of the response
}

// NewStatusError returns a response as an error, with the wait that [AdviceOf]
// reads from it. In a Check, use the method StatusError of the [Transport].
func NewStatusError(resp *http.Response) *StatusError {
	return new(Transport).StatusError(resp.Request, resp)
}

// StatusError returns resp as an error, for a Check. The error has the wait that the Advise
// of t reads, and the method and URL of req. A nil req is allowed: the error then names no request.
func (t *Transport) StatusError(req *http.Request, resp *http.Response) *StatusError {
	advise := t.Advise
	if advise == nil {
		advise = AdviceOf
	}
	e := &StatusError{
		StatusCode: resp.StatusCode, Header: resp.Header.Clone(),
		advice: advise(resp), hasBody: true, of: resp.Request,
	}
	if req != nil && req.URL != nil {
		u := req.URL
		e.method = cmp.Or(req.Method, http.MethodGet)
		e.url = url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	}
	return e
}

// Error returns one line: "retryhttp: GET https://example.com/orders: 503 Service
// Unavailable". The line leaves out the user, the query and the fragment of the URL, which may be
// secret.
func (e *StatusError) Error() string {
	text := "retryhttp: "
	if e.method != "" {
		text += e.method + " " + e.url.String() + ": "
	}
	return text + strings.TrimSpace(fmt.Sprintf("%d %s", e.StatusCode, http.StatusText(e.StatusCode)))
}

// keep sets the Body of an error to the first keptBytes of text, if it is not set yet and the error
// was made of a response to of. The error of a Check can have the StatusError of another response,
// such as the response of a token server.
func (e *StatusError) keep(of *http.Request, text []byte) {
	if e.of == of && e.hasBody { // in this order: calls at a time may return one error
		e.Body, e.hasBody = append([]byte(nil), text[:min(len(text), keptBytes)]...), false
	}
}

// lose notes in the error of a response to of, which is about to be discarded, that its body cannot
// be read any more. A Check may return this error again, for an attempt whose response has another
// body.
func lose(failure error, of *http.Request) {
	e, is := failure.(*StatusError)
	if !is {
		is = errors.As(failure, &e)
	}
	if is && e.of == of && e.hasBody {
		e.hasBody = false
	}
}

// keptBytes is the largest length of the Body of a StatusError.
const keptBytes = 1 << 10

// HTTPStatusCode returns the status of the response.
func (e *StatusError) HTTPStatusCode() int { return e.StatusCode }

// RetryAfter returns the wait that the server asked for: 1ns if it asked for a wait of zero, and 0
// if it asked for none. A call gives up if the wait is longer than MaxRetryAfter.
func (e *StatusError) RetryAfter() time.Duration { return max(0, e.advice.Wait) }
