package retryhttp

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// RetryAfter is the RetryAfter of a [Transport] that has no other. It reads the
// header of that name, RFC 9110 section 10.2.3: seconds, also 1.5, or a date in
// one of the three forms of HTTP, also with UTC or +0000 for GMT. The wait for a
// date is measured from the Date of the response, so that the server's clock
// decides and not ours. The Age of the response, which is time spent in a cache,
// is subtracted. A date that has passed is 0, and anything else is ignored. If
// there are several values, the longest wait applies.
//
// A valid Retry-After asks for another attempt after 403 and 413: it says that
// the condition is temporary, RFC 9110 section 15.5.14.
func RetryAfter(resp *http.Response) (wait time.Duration, again bool) {
	wait, ok := retryAfter(resp)
	return wait, ok && temporary(resp.StatusCode)
}

// VendorRetryAfter is a RetryAfter for a [Transport] that also reads the headers
// that vendors have added. The first of these lines that is there gives the
// wait:
//
//	Retry-After-Ms, X-Ms-Retry-After-Ms        milliseconds        OpenAI, Azure
//	Retry-After                                see RetryAfter      RFC 9110 section 10.2.3
//	RateLimit: "default";r=0;t=30              seconds             draft-ietf-httpapi-ratelimit-headers-10
//	RateLimit: remaining=0, reset=30           seconds             the same, draft 07
//	RateLimit-Reset, X-RateLimit-Reset,        seconds, or a time  the same, draft 06; GitHub, GitLab, Okta
//	X-Rate-Limit-Reset
//
// A reset is read only where the quota is used up: Remaining is 0, or is missing
// and the status is 429. If there are several, the longest wait applies. The value
// is a number of seconds, or a time: a date, or seconds or milliseconds since
// 1970, which differ in size.
//
// As with RetryAfter, 403 and 413 with a wait are retried.
// X-Should-Retry and Stripe-Should-Retry, where they are true or false, overrule
// the status.
func VendorRetryAfter(resp *http.Response) (wait time.Duration, again bool) {
	wait, ok := milliseconds(resp)
	if !ok {
		wait, ok = retryAfter(resp)
	}
	if !ok {
		wait, ok = reset(resp)
	}
	again = ok && temporary(resp.StatusCode)
	for _, name := range [...]string{"X-Should-Retry", "Stripe-Should-Retry"} {
		switch resp.Header.Get(name) {
		case "true":
			again = true
		case "false":
			return -1, false
		}
	}
	return wait, again
}

// temporary reports whether a status stands for a condition that is temporary if
// the server asks to wait.
func temporary(status int) bool {
	return status == http.StatusForbidden || status == http.StatusRequestEntityTooLarge
}

// retryAfter returns the longest wait of the header Retry-After, and whether it
// has a valid one.
func retryAfter(resp *http.Response) (longest time.Duration, ok bool) {
	for _, value := range resp.Header["Retry-After"] {
		for value != "" {
			// A list has commas, and most dates have one.
			first, rest, _ := strings.Cut(value, ",")
			second, afterSecond, _ := strings.Cut(rest, ",")
			wait, valid := seconds(resp, first)
			if !valid {
				wait, valid = until(resp, first)
			}
			if !valid {
				if wait, valid = until(resp, first+","+second); valid {
					rest = afterSecond
				}
			}
			longest, ok, value = max(longest, wait), ok || valid, rest
		}
	}
	return longest, ok
}

// milliseconds returns the longest wait of the headers that count in them.
func milliseconds(resp *http.Response) (longest time.Duration, ok bool) {
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		wait, valid := decimal(resp.Header.Get(name), time.Millisecond)
		longest, ok = max(longest, aged(resp, wait)), ok || valid
	}
	return longest, ok
}

// reset returns when the last of the quotas that are used up is filled again.
func reset(resp *http.Response) (longest time.Duration, ok bool) {
	add := func(remaining, value string) {
		if remaining == "" && resp.StatusCode == http.StatusTooManyRequests {
			remaining = "0"
		}
		if left, valid := decimal(remaining, time.Second); !valid || left > 0 {
			return
		}
		wait, valid := resetWait(resp, value)
		longest, ok = max(longest, wait), ok || valid
	}
	var remaining, value string
	for _, header := range resp.Header["Ratelimit"] {
		for member := range strings.SplitSeq(header, ",") {
			if strings.Contains(member, `"`) { // a policy and its parameters; without, the members belong together
				remaining, value = "", ""
			}
			for parameter := range strings.SplitSeq(member, ";") {
				switch name, v, _ := strings.Cut(strings.TrimSpace(parameter), "="); name {
				case "r", "remaining":
					remaining = v
				case "t", "reset":
					value = v
				}
			}
			add(remaining, value)
		}
	}
	for _, prefix := range [...]string{"Ratelimit-", "X-Ratelimit-", "X-Rate-Limit-"} {
		add(resp.Header.Get(prefix+"Remaining"), resp.Header.Get(prefix+"Reset"))
	}
	return longest, ok
}

// resetWait reads a number of seconds, or a time. As a number of seconds, what is
// taken for a time would be 31 years, or more than a duration can hold.
func resetWait(resp *http.Response, value string) (time.Duration, bool) {
	const aTime = 1e9 * time.Second
	wait, ok := decimal(value, time.Second)
	switch {
	case !ok:
		if date, err := time.Parse(time.RFC3339, value); err == nil {
			return untilTime(resp, date), true
		}
		return until(resp, value)
	case wait == saturate.Max:
		wait, _ = decimal(value, time.Millisecond)
		return untilTime(resp, time.Unix(0, 0).Add(wait)), true
	case wait >= aTime:
		return untilTime(resp, time.Unix(0, 0).Add(wait)), true
	default:
		return aged(resp, wait), true
	}
}

// seconds reads a number of seconds from when the response was made.
func seconds(resp *http.Response, value string) (time.Duration, bool) {
	wait, ok := decimal(value, time.Second)
	return aged(resp, wait), ok
}

// aged subtracts from a wait what the response has spent in caches, RFC 9111
// section 5.1.
func aged(resp *http.Response, wait time.Duration) time.Duration {
	age, _ := decimal(resp.Header.Get("Age"), time.Second)
	return max(0, wait-age)
}

// decimal reads a number of units, digits with a fraction or without. What is too
// long for a duration is the longest.
func decimal(value string, unit time.Duration) (time.Duration, bool) {
	whole, fraction, fractional := strings.Cut(strings.TrimSpace(value), ".")
	if !digits(whole) || fractional && !digits(fraction) {
		return 0, false
	}
	n, _ := strconv.ParseUint(whole, 10, 64) // the largest, where it is out of range
	wait := saturate.Mul(n, unit)
	if fractional {
		billionths, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
		wait = saturate.Add(wait, time.Duration(billionths)*unit/time.Second)
	}
	return wait, true
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// until reads a date, in a form of HTTP or one that servers send instead.
func until(resp *http.Response, value string) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if utc, ok := strings.CutSuffix(value, " UTC"); ok {
		value = utc + " GMT"
	}
	date, err := http.ParseTime(value)
	if err != nil {
		date, err = time.Parse(time.RFC1123Z, value)
	}
	if err != nil {
		return 0, false
	}
	return untilTime(resp, date), true
}

// untilTime returns how long it is until t, by the server's clock where the
// response tells it. A difference of times that is too long is the longest.
func untilTime(resp *http.Response, t time.Time) time.Duration {
	if made, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		return aged(resp, max(0, t.Sub(made)))
	}
	return max(0, time.Until(t))
}
