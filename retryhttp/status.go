package retryhttp

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// A StatusError is what an attempt failed with that got an answer. RetryIf,
// Select and the events of the policy see it; the caller of a [Transport] gets
// the response itself.
type StatusError struct {
	StatusCode int
	Header     http.Header // of the response; a copy

	retryAfter time.Duration
}

// NewStatusError returns a response as an error. It takes the time now for
// that of the response where the response has no Date.
func NewStatusError(resp *http.Response) *StatusError {
	return &StatusError{resp.StatusCode, resp.Header.Clone(), retryAfter(resp.Header, time.Now())}
}

// Error returns one line: "retryhttp: 503 Service Unavailable".
func (e *StatusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("retryhttp: %d %s", e.StatusCode, http.StatusText(e.StatusCode)))
}

// HTTPStatusCode returns the status of the response.
func (e *StatusError) HTTPStatusCode() int { return e.StatusCode }

// RetryAfter returns the wait that the server asked for, 0 if none. The loop
// waits no less, and gives up if it is longer than MaxRetryAfter.
//
// It is the Retry-After of the response, RFC 9110 section 10.2.3: seconds, or
// a date in any of the three forms of HTTP, counted from the Date of the
// response, so that it does not matter what our clock says. A date that has
// passed is 0. What is neither is not there. Of several the longest counts: no
// client returns early.
func (e *StatusError) RetryAfter() time.Duration { return e.retryAfter }

// retryAfter returns the wait that a header asks for. Neither arithmetic can
// overflow: the difference of two times stops at the longest duration too.
func retryAfter(h http.Header, now time.Time) (longest time.Duration) {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	for _, value := range h.Values("Retry-After") {
		value = strings.TrimSpace(value)
		if date, err := http.ParseTime(value); err == nil {
			longest = max(longest, date.Sub(now))
			continue
		}
		// Digits alone, as it has to be. The number is 0 if there is none,
		// and the largest if it is out of range.
		n, _ := strconv.ParseUint(value, 10, 64)
		longest = max(longest, saturate.Mul(n, time.Second))
	}
	return longest
}
