package retryhttp

import (
	"net/http"
	"slices"
	"strings"
)

// isTransient reports whether a status alone says that another attempt may succeed. A status from
// 600 on is invalid, and counts as a 5xx (RFC 9110 section 15).
func isTransient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusTooEarly,
		http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported,
		http.StatusVariantAlsoNegotiates, http.StatusInsufficientStorage, http.StatusLoopDetected,
		http.StatusNotExtended, http.StatusNetworkAuthenticationRequired:
		return false
	default:
		return status >= 500
	}
}

// hasCaused reports whether a header of req is the reason for a status, so that another attempt
// with this header gets the same status. The parameter req may be nil.
func hasCaused(req *http.Request, status int) bool {
	switch {
	case req == nil:
		return false
	case status == http.StatusTooEarly: // a gateway must return this 425 (RFC 8470 section 5.2)
		return strings.Join(valuesOf(req.Header, "Early-Data"), "") != ""
	case status == http.StatusGatewayTimeout: // a cache without the answer asked no server
		parts := strings.Split(strings.Join(valuesOf(req.Header, "Cache-Control"), ","), ",")
		return slices.ContainsFunc(parts, func(part string) bool {
			return strings.EqualFold(strings.TrimSpace(part), "only-if-cached")
		})
	default:
		return false
	}
}

// The function `healthy` reports whether the status of a failure shows that the server works. Such
// a failure refills the Budget as a success does. docs/budget.md has the reasons.
func healthy(status int) bool {
	return status >= 400 && status <= 499 && !isTransient(status) && status != statusFull
}

// The function `undone` reports whether a status says that the server has refused the request
// before processing it. Then even a POST may be sent again. A 429 counts because servers check the
// rate limit before they process a request. The function Check retries only some of these statuses,
// and some only with a Retry-After. A user's own Check may retry all these statuses.
func undone(status int) bool {
	switch status {
	case http.StatusUnauthorized, // RFC 9110 section 15.5.2: the request "has not been applied"
		http.StatusForbidden,             // RFC 9110 section 15.5.4: the server "refuses to fulfill it"
		http.StatusProxyAuthRequired,     // RFC 9110 section 15.5.8: a proxy refuses the request
		http.StatusRequestEntityTooLarge, // RFC 9110 section 15.5.14: the server is "refusing to process"
		http.StatusMisdirectedRequest,    // RFC 9110 section 15.5.20
		http.StatusTooEarly,              // RFC 8470 section 5.2
		http.StatusTooManyRequests:       // RFC 6585 section 4
		return true
	default:
		return false
	}
}
