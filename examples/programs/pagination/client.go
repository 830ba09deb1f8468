package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retrynet"
)

// A page is a response of the server.
type page struct {
	Items []string `json:"items"`
	Next  int      `json:"next"` // the number of the next page; 0: this is the last
}

// A statusError is a response that is not a page.
type statusError struct {
	code   int
	status string
}

func (e *statusError) Error() string { return "the server says " + e.status }

func isRateLimit(err error) bool { return codeOf(err) == http.StatusTooManyRequests }

// isTransient reports whether a failure of the server or of the connection may be
// gone in the next attempt.
func isTransient(err error) bool { return codeOf(err) >= 500 || retrynet.Transient(err) }

func codeOf(err error) int {
	var status *statusError
	if errors.As(err, &status) {
		return status.code
	}
	return 0
}

// A client fetches pages.
type client struct{ url string }

// fetch gets the page whose number is in the state. Its outcome has that
// number, and the headers for the rules to read.
func (c *client) fetch(ctx context.Context, s retryflow.State) retryflow.Outcome {
	number := s["page"].(int)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s?page=%d", c.url, number), nil)
	if err != nil {
		return retryflow.Outcome{Result: number, Err: err}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return retryflow.Outcome{Result: number, Err: err}
	}
	defer resp.Body.Close()
	o := retryflow.Outcome{Result: number, Data: map[string]any{"headers": resp.Header}}
	if resp.StatusCode != http.StatusOK {
		o.Err = &statusError{resp.StatusCode, resp.Status}
		return o
	}
	var p page
	if o.Err = json.NewDecoder(resp.Body).Decode(&p); o.Err == nil {
		s["fetched"] = p
	}
	return o
}

// unsaid is the wait if a server asks for one but does not say how long, or not in
// a form that can be read.
const unsaid = time.Second

// retryAfter returns the wait that the server asks for, from the header that some
// servers send with milliseconds, or from Retry-After of RFC 9110, which has seconds
// or a date. MaxDelay bounds it, however long it is.
func retryAfter(o retryflow.Outcome) (time.Duration, error) {
	headers, _ := o.Data["headers"].(http.Header)
	if ms, err := strconv.ParseUint(headers.Get("Retry-After-Ms"), 10, 32); err == nil {
		return time.Duration(ms) * time.Millisecond, nil
	}
	text := headers.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second, nil
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(date)), nil
	}
	return unsaid, nil
}
