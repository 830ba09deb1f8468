package retryhttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/printable"
)

// A StatusError is the error of an attempt if Check does not accept the status of its response.
// RetryIf, Classify, Prepare and OnEvent get the StatusError. The caller of a [Transport] gets the
// response, and can call [Result] to get the StatusError.
type StatusError struct {
	StatusCode int

	// Header is the header of the response. It is not a copy. If a [Transport] returns the response,
	// the response gets a copy, so the caller may change the header of the response.
	Header http.Header

	// Body is the beginning of the response's body, at most 1 KiB. It is set by [Result], by the
	// Check of [LLM], and by a Read of a download under Transport.Resume that fails with a
	// [BrokenError]. Otherwise it is nil. Result and the Read do not set it if the call ended in a
	// wait, because the response is discarded before each wait. The text of the error does not
	// contain Body, which comes from the server and may be secret. OnEvent may get the StatusError
	// before Result or the Read sets Body, so do not read Body in another goroutine while Result or
	// the Read runs.
	Body []byte

	method  string
	url     url.URL // the URL of the request, without user, query and fragment
	advice  Advice
	unpaid  string      // the code or words that say that the account cannot pay; "": none
	hasBody bool        // true while Body is not set and can still be read from the response
	request weakRequest // the Request of the response
}

// A weakRequest lets the memory of a request be freed. The caller may keep a StatusError for long,
// and the request may have a large body.
type weakRequest = weak.Pointer[http.Request]

// NewStatusError returns resp as an error, with the wait that [AdviceOf] reads from its
// Retry-After. In a Check, use the method StatusError of the [Transport] instead.
func NewStatusError(resp *http.Response) *StatusError {
	return new(Transport).StatusError(resp.Request, resp)
}

// StatusError returns resp as an error. Use it in a Check. The error has the wait that the Advise
// of t reads from resp, and the method and URL of req. If req is nil, the text of the error has no
// method and no URL.
func (t *Transport) StatusError(req *http.Request, resp *http.Response) *StatusError {
	advise := t.Advise
	if advise == nil {
		advise = AdviceOf
	}
	e := &StatusError{
		StatusCode: resp.StatusCode, Header: resp.Header,
		advice: advise(resp), hasBody: true, request: weak.Make(resp.Request),
	}
	if req != nil && req.URL != nil {
		u := req.URL
		e.method = printable.Method(req.Method)
		e.url = url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	}
	return e
}

// statusErrorOf returns resp as an error, with the advice of the Transport that has sent req. If no
// Transport has sent req, AdviceOf gives the advice.
func statusErrorOf(req *http.Request, resp *http.Response) *StatusError {
	if a := attemptOf(req); a != nil {
		return a.x.t.StatusError(req, resp)
	}
	return new(Transport).StatusError(req, resp)
}

// The method `judged` returns e if another attempt may succeed, and otherwise retry.Permanent(e).
// It decides by the status, by the Advice, and by the headers of req.
func (e *StatusError) judged(req *http.Request) error {
	again := isTransient(e.StatusCode) && !hasCaused(req, e.StatusCode) ||
		e.StatusCode == http.StatusConflict && keyed(req)
	switch e.advice.Verdict {
	case Again:
		again = true
	case Never:
		again = false
	}
	if again {
		return e
	}
	return retry.Permanent(e)
}

// Error returns one line: "retryhttp: GET https://example.com/orders: 503 Service Unavailable". The
// line does not contain the user, the query and the fragment of the URL, because they may be
// secret. If the Check of [LLM] found that the account cannot pay, the line ends with the reason,
// such as "(the account cannot pay: insufficient_quota)".
func (e *StatusError) Error() string {
	text := "retryhttp: "
	if e.method != "" {
		text += e.method + " " + printable.URL(&e.url) + ": "
	}
	status := fmt.Sprintf("%d %s", e.StatusCode, http.StatusText(e.StatusCode))
	return text + strings.TrimSpace(status) + unpaidText(e.unpaid)
}

// isOf reports whether one of `requests` is the Request of the response of e.
func (e *StatusError) isOf(requests ...*http.Request) bool {
	return slices.ContainsFunc(requests, func(req *http.Request) bool {
		return e.request == weak.Make(req)
	})
}

// The method `keep` sets the Body of e to the first keptBytes of `text`. It does nothing if Body is
// already set. It also does nothing if e is the error of another response, such as the response of
// a token server. The parameter `text` is the beginning of the body of a response. A Check may have
// replaced the Request of this response. The parameter `requests` contains the present Request and
// all earlier ones.
func (e *StatusError) keep(text []byte, requests ...*http.Request) {
	if !e.isOf(requests...) {
		return
	}
	bodies.Lock()
	defer bodies.Unlock()
	if e.hasBody {
		e.Body, e.hasBody = append([]byte(nil), text[:min(len(text), keptBytes)]...), false
	}
}

// bodies guards the fields Body and hasBody of all StatusErrors. Several calls of Result may share
// a StatusError: a RoundTripper above the Transport may send equal requests once, and give a copy
// of the response to each caller.
var bodies sync.Mutex

// forgetBody prevents the method `keep` from setting the Body of the StatusError in the parameter
// `failure`. It is called before the response of this StatusError is discarded. A Check may return
// the same error again for a later attempt, and then the Body must not come from the later
// response. The method `keep` alone could not prevent this: it recognizes a response by the field
// Request, and the responses of a call usually have the same Request. A Check may have replaced the
// Request of the discarded response. The parameter `requests` contains the present Request and all
// earlier ones.
func forgetBody(failure error, requests ...*http.Request) {
	if e := statusErrorIn(failure); e != nil && e.isOf(requests...) {
		bodies.Lock()
		defer bodies.Unlock()
		e.hasBody = false
	}
}

// statusErrorIn returns the StatusError in err, or nil. Most failures are a StatusError that is not
// wrapped, and then statusErrorIn allocates nothing.
func statusErrorIn(err error) *StatusError {
	if e, ok := err.(*StatusError); ok {
		return e
	}
	var e *StatusError
	_ = errors.As(err, &e) // if err has no StatusError, e stays nil
	return e
}

// keptBytes is the largest length of the Body of a StatusError.
const keptBytes = 1 << 10

// HTTPStatusCode returns the status of the response.
func (e *StatusError) HTTPStatusCode() int { return e.StatusCode }

// RetryAfter returns the wait that the server asked for. It returns 0 if the server did not ask for
// a wait, and 1ns if it asked for a wait of 0. A call gives up if the wait is longer than
// MaxRetryAfter.
func (e *StatusError) RetryAfter() time.Duration { return max(0, e.advice.Wait) }
