package retryhttp

import (
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynet"
)

// Idempotent reports whether processing req twice has the same effect as once:
// GET, HEAD, OPTIONS, TRACE, PUT and DELETE (RFC 9110 section 9.2.2), and any
// method with a header Idempotency-Key or X-Idempotency-Key. As in net/http,
// req.Header["Idempotency-Key"] = nil says so of a request, and is not sent.
func Idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	_, key := req.Header["Idempotency-Key"]
	_, xkey := req.Header["X-Idempotency-Key"]
	return key || xkey
}

// Check is the Check of a [Transport] that has no other. It retries every status
// from 500 to 599 except 501 and 505, the statuses 408, 421, 425 and 429, 403 and
// 413 with a Retry-After, and every error of the transport. Permanent are the
// errors that retrynet.Permanent knows, and a proxy's refusal of CONNECT, if its
// reason phrase is a standard one or none. So is any other status of 400 and
// above. The RetryAfter of the Transport can overrule the status.
//
// To keep the server's Retry-After, a custom Check returns or wraps the error of
// this function, NewStatusError(resp), or [retry.After].
func Check(req *http.Request, resp *http.Response, err error) error {
	switch {
	case err != nil && (retrynet.Permanent(err) || proxyRefused(req, err)):
		return retry.Permanent(err)
	case err != nil:
		return err
	case resp.StatusCode < 400:
		return nil
	}
	e := NewStatusError(resp)
	if e.retryAfter >= 0 && (e.again || passes(resp.StatusCode)) {
		return e
	}
	return retry.Permanent(e)
}

// passes reports whether a status alone says that another attempt may succeed.
func passes(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	default:
		return status >= 500 && status <= 599
	}
}

// healthy reports whether a status that is a failure shows a server that works.
func healthy(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	default:
		return status >= 400 && status <= 499
	}
}

// Argyll returns a Transport that retries what Argyll does, which calls every
// step with POST: all statuses of 500 and above and all errors of the transport,
// whatever the method, as long as the body can be sent again. All statuses from
// 400 to 499 are permanent, including 408 and 429.
func Argyll(p retry.Policy) *Transport {
	return &Transport{
		Policy:     p,
		Idempotent: func(*http.Request) bool { return true },
		Check: func(_ *http.Request, resp *http.Response, err error) error {
			switch {
			case err != nil:
				return err
			case resp.StatusCode >= 500:
				return NewStatusError(resp)
			case resp.StatusCode >= 400:
				return retry.Permanent(NewStatusError(resp))
			default:
				return nil
			}
		},
	}
}
