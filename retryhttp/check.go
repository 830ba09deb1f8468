package retryhttp

import (
	"errors"
	"net"
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynet"
)

// Idempotent reports whether processing req twice has the same effect as processing it once. It
// reports true in three cases:
//
//   - The method is GET, HEAD, OPTIONS, TRACE, PUT or DELETE (RFC 9110 section 9.2.2).
//   - The method is a read-only method of another standard: PROPFIND (RFC 4918), REPORT (RFC 3253),
//     SEARCH (RFC 5323) or QUERY (draft-ietf-httpbis-safe-method-w-body).
//   - The request has a header Idempotency-Key or X-Idempotency-Key. As in net/http,
//     req.Header["Idempotency-Key"] = nil makes a request idempotent without sending the header.
func Idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace,
		http.MethodPut, http.MethodDelete, "PROPFIND", "REPORT", "SEARCH", "QUERY":
		return true
	}
	return hasKey(req)
}

// hasKey reports whether req has a header for an idempotency key. If it does, net/http may repeat
// the request, even if the header has no value.
func hasKey(req *http.Request) bool {
	_, key := req.Header["Idempotency-Key"]
	_, xkey := req.Header["X-Idempotency-Key"]
	return key || xkey
}

// keyed reports whether req sends an idempotency key. With this key, a server recognizes a request
// that it has already got. net/http does not send a header without a value. For such a header,
// keyed returns false, although hasKey returns true.
func keyed(req *http.Request) bool {
	return req != nil &&
		(len(req.Header["Idempotency-Key"]) > 0 || len(req.Header["X-Idempotency-Key"]) > 0)
}

// Check is the default Check of a [Transport]. It follows the table in the documentation of
// Transport. The Verdict in the [Advice] of a response overrules its status.
//
// If you call Check in a Check of your own, pass the request that your function gets. Check uses
// this request to find the Advise of the Transport. If you pass another request, or nil, Check uses
// [AdviceOf].
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

// judged returns e. If another attempt would fail too, judged wraps e with retry.Permanent. It
// decides by the status, by the Advice, and by the idempotency key of req.
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
// Transport has sent req, AdviceOf gives the advice.
func statusErrorOf(req *http.Request, resp *http.Response) *StatusError {
	if a := attemptOf(req); a != nil {
		return a.x.t.StatusError(req, resp)
	}
	return new(Transport).StatusError(req, resp)
}

// noSuchHost reports whether err says that a host name does not exist. In a cluster, the name of a
// service may not exist before the service has started.
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

// healthy reports whether the status of a failure shows that the server works. Such a failure
// refills the Budget as a success does. docs/budget.md has the reasons.
func healthy(status int) bool {
	return status >= 400 && status <= 499 && !passes(status)
}

// A CheckFunc is a function for the field Check of a [Transport].
type CheckFunc func(req *http.Request, resp *http.Response, err error) error

// orDefault returns c. If c is nil, it returns the function Check.
func (c CheckFunc) orDefault() CheckFunc {
	if c == nil {
		return Check
	}
	return c
}
