package retryhttp

import (
	"errors"
	"net"
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynet"
)

// Idempotent reports whether processing req twice has the same effect as processing it once. It
// reports true for
//
//   - GET, HEAD, OPTIONS, TRACE, PUT and DELETE (RFC 9110 section 9.2.2);
//   - the read-only methods of other standards: PROPFIND (RFC 4918), REPORT (RFC 3253), SEARCH
//     (RFC 5323) and QUERY (draft-ietf-httpbis-safe-method-w-body);
//   - any method with a header Idempotency-Key or X-Idempotency-Key. As in net/http,
//     req.Header["Idempotency-Key"] = nil makes a request idempotent, and is not sent.
func Idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace,
		http.MethodPut, http.MethodDelete, "PROPFIND", "REPORT", "SEARCH", "QUERY":
		return true
	}
	return hasKey(req)
}

// hasKey reports whether req has a header by which net/http takes it for idempotent, so that
// net/http may repeat it.
func hasKey(req *http.Request) bool {
	_, key := req.Header["Idempotency-Key"]
	_, xkey := req.Header["X-Idempotency-Key"]
	return key || xkey
}

// keyed reports whether req sends a key, by which a server recognizes a request that it has got
// before. A header without a value makes hasKey true and keyed false.
func keyed(req *http.Request) bool {
	return req != nil &&
		(len(req.Header["Idempotency-Key"]) > 0 || len(req.Header["X-Idempotency-Key"]) > 0)
}

// Check is the default Check of a [Transport]. It decides as the table of Transport says. The
// Advice of a response can overrule its status.
//
// If you call Check in a Check of your own, pass the request that your function gets: by it, Check
// finds the Advise of the Transport. For another request, or nil, Check uses [AdviceOf].
func Check(req *http.Request, resp *http.Response, err error) error {
	switch {
	case err != nil && retrynet.Permanent(err) && !noSuchHost(err):
		return retry.Permanent(err)
	case err != nil:
		return err
	case resp.StatusCode < 400:
		return nil
	}
	return statusErrorOf(req, resp).judged(req)
}

// judged returns e, marked as permanent if another attempt cannot do better, according to the
// status, the Advice, and the key of req.
func (e *StatusError) judged(req *http.Request) error {
	again := passes(e.StatusCode) || e.StatusCode == http.StatusConflict && keyed(req)
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

// statusErrorOf returns resp as an error, with the advice of the Transport that has sent req. If no
// Transport has sent req, the advice is that of AdviceOf.
func statusErrorOf(req *http.Request, resp *http.Response) *StatusError {
	if a := attemptOf(req); a != nil {
		return a.x.t.StatusError(req, resp)
	}
	return new(Transport).StatusError(req, resp)
}

// noSuchHost reports whether err is about a name that does not exist. In a cluster,
// a service that has not started yet may have no name.
func noSuchHost(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// passes reports whether a status alone says that another attempt may succeed.
func passes(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusTooEarly,
		http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported,
		http.StatusVariantAlsoNegotiates, http.StatusInsufficientStorage, http.StatusLoopDetected,
		http.StatusNotExtended, http.StatusNetworkAuthenticationRequired:
		return false
	default:
		return status >= 500 && status <= 599
	}
}

// healthy reports whether the status of a failure shows that the server works, so that the attempt
// puts a share into the Budget. docs/budget.md has the reasons.
func healthy(status int) bool {
	return status >= 400 && status <= 499 && !passes(status)
}

// A CheckFunc is a function for the field Check of a [Transport].
type CheckFunc func(req *http.Request, resp *http.Response, err error) error

// or returns c, or the function Check if c is nil.
func (c CheckFunc) or() CheckFunc {
	if c == nil {
		return Check
	}
	return c
}
