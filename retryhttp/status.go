package retryhttp

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A StatusError is the error of an attempt whose response had a status that Check
// does not accept. RetryIf, Classify, Prepare and the events of the policy get it;
// the caller of a [Transport] gets the response itself, and the StatusError from [Result].
type StatusError struct {
	StatusCode int
	Header     http.Header // of the response; a copy

	// Body is the beginning of the response's body, at most 1 KiB, if [Result] or the Check
	// of [LLM] has read it; otherwise nil. It is what the server says, and may be secret, so
	// the text of the error does not have it. Result sets it in the error that OnEvent got too,
	// so do not read it in another goroutine meanwhile.
	Body []byte

	method  string
	url     url.URL // of the request, without what may be secret
	advice  Advice
	hasBody bool          // Body is not known yet, and the response has it
	of      *http.Request // of the response
}

// NewStatusError returns a response as an error, with the wait that [AdviceOf]
// reads. In a Check, use the StatusError of the [Transport].
func NewStatusError(resp *http.Response) *StatusError {
	return new(Transport).StatusError(resp.Request, resp)
}

// StatusError returns resp as an error, for a Check: with the wait that the Advise
// of t reads, and the method and URL of req, which may be nil.
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
		e.method = cmp.Or(req.Method, http.MethodGet)
		e.url = url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Path: req.URL.Path, RawPath: req.URL.RawPath}
	}
	return e
}

// Error returns one line: "retryhttp: GET https://example.com/orders: 503 Service
// Unavailable". Of the URL it leaves out the user, the query and the fragment, which may be
// secret.
func (e *StatusError) Error() string {
	text := "retryhttp: "
	if e.method != "" {
		text += e.method + " " + e.url.String() + ": "
	}
	return text + strings.TrimSpace(fmt.Sprintf("%d %s", e.StatusCode, http.StatusText(e.StatusCode)))
}

// keep sets the Body of an error that a response to of was made into, if none is set. The error
// of a Check can have the StatusError of another response, such as of a token server.
func (e *StatusError) keep(of *http.Request, text []byte) {
	if e.hasBody && e.of == of {
		e.Body, e.hasBody = append([]byte(nil), text[:min(len(text), keptBytes)]...), false
	}
}

// keptBytes is how much a StatusError keeps of a body.
const keptBytes = 1 << 10

// HTTPStatusCode returns the status of the response.
func (e *StatusError) HTTPStatusCode() int { return e.StatusCode }

// RetryAfter returns the wait that the server asked for, 1ns for a wait of zero; 0 if it
// asked for none. A call gives up if that is longer than MaxRetryAfter.
func (e *StatusError) RetryAfter() time.Duration { return max(0, e.advice.Wait) }
