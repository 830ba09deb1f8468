package retryhttp

import (
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynet"
)

// Idempotent reports whether req may be sent again without having two
// effects: GET, HEAD, OPTIONS, TRACE, PUT and DELETE may (RFC 9110 section
// 9.2.2), and any method with a header Idempotency-Key or X-Idempotency-Key.
// As in net/http, a header that is there and has no value counts, and is not
// sent: req.Header["Idempotency-Key"] = nil says that this request may.
func Idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	_, key := req.Header["Idempotency-Key"]
	_, xkey := req.Header["X-Idempotency-Key"]
	return key || xkey
}

// Check is the Check of a [Transport] that has no other. Worth another try are
// the statuses 408, 429, 500, 502, 503 and 504, and every error of the
// transport but those that retrynet.Permanent knows. Any other status of 400
// and above is marked [retry.Permanent].
//
// A Check of one's own that is to keep the server's Retry-After returns or
// wraps NewStatusError(resp), or [retry.After]; one that replaces the body of
// the response closes the body it replaces.
func Check(_ *http.Request, resp *http.Response, err error) error {
	switch {
	case retrynet.Permanent(err):
		return retry.Permanent(err)
	case err != nil:
		return err
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return NewStatusError(resp)
	}
	if resp.StatusCode >= 400 {
		return retry.Permanent(NewStatusError(resp))
	}
	return nil
}

// Argyll returns a Transport that tries again what Argyll does, which calls
// every step with POST: all statuses of 500 and above and all errors of the
// transport, whatever the method, as long as the body can be sent again. All
// statuses from 400 to 499 are permanent, 408 and 429 included.
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
