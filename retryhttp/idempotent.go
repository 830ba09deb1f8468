package retryhttp

import (
	"net/http"
	"strings"
)

// Idempotent reports whether processing req twice has the same effect as processing it once. It
// reports true in three cases:
//
//   - The method is GET, HEAD, OPTIONS, TRACE, PUT or DELETE (RFC 9110 section 9.2.2).
//   - The method is a read-only method of another standard: PROPFIND (RFC 4918), REPORT (RFC 3253),
//     SEARCH (RFC 5323) or QUERY (draft-ietf-httpbis-safe-method-w-body).
//   - The request has a header Idempotency-Key or X-Idempotency-Key, in upper or lower case. An
//     empty key does not count. As in net/http, req.Header["Idempotency-Key"] = nil makes a request
//     idempotent without sending the header.
func Idempotent(req *http.Request) bool {
	switch req.Method {
	case http.MethodPut, http.MethodDelete, "PROPFIND", "REPORT", "SEARCH", "QUERY":
		return true
	}
	return isSafe(req) || keyed(req) || hasKey(req) &&
		len(req.Header["Idempotency-Key"])+len(req.Header["X-Idempotency-Key"]) == 0
}

// isSafe reports whether the method of req is one of those that net/http takes for safe. A request
// with a safe method changes no state (RFC 9110 section 9.2.1).
func isSafe(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// hasKey reports whether req has a header for an idempotency key. If req has such a header,
// net/http may repeat req, even if the header has no value.
func hasKey(req *http.Request) bool {
	_, key := req.Header["Idempotency-Key"]
	_, xkey := req.Header["X-Idempotency-Key"]
	return key || xkey
}

// The function `keyed` reports whether req sends an idempotency key. With this key, a server
// recognizes a request that it has already got. net/http does not send a header without a value.
// For such a header, `keyed` returns false, although hasKey returns true.
func keyed(req *http.Request) bool {
	return req != nil && (isKey(valuesOf(req.Header, "Idempotency-Key")) ||
		isKey(valuesOf(req.Header, "X-Idempotency-Key")))
}

// isKey reports whether the values of a header contain a key. A program that has no key may set an
// empty one, for example a gateway that copies the header of its caller.
func isKey(values []string) bool { return strings.TrimSpace(strings.Join(values, "")) != "" }

func isGet(req *http.Request) bool { return req.Method == "" || req.Method == http.MethodGet }
