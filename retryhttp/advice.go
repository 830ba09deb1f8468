package retryhttp

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// Advice is what a response says about another attempt. The zero Advice says nothing.
type Advice struct {
	Wait    time.Duration // how long to wait before another attempt; 0 or less: no wait is given
	Verdict Verdict
}

// A Verdict says whether another attempt should be made. Any value but Again and
// Never is treated as Unsaid.
type Verdict string

const (
	Unsaid Verdict = ""      // the status decides whether another attempt is made
	Again  Verdict = "again" // another attempt should be made, whatever the status is
	Never  Verdict = "never" // no other attempt should be made, whatever the status is
)

// AdviceOf is the function that a [Transport] calls if its field Advise is nil. It reads the header
// Retry-After (RFC 9110 section 10.2.3). The value of the header is a number of seconds or a date.
// A number may have a fraction. A date has one of the three formats of HTTP. It may end with UTC
// instead of GMT. A date in the first format may also end with +0000, for example "Sun, 06 Nov 1994
// 08:49:37 +0000". Any other value is ignored. If there are several values, the longest wait
// applies.
//
// The wait until a date is measured from the Date of the response, so both times come from the
// server's clock. The Age of the response is subtracted from the wait, because the response has
// spent this time in a cache. If the wait is 0, or the date has passed, the field Wait of the
// Advice is 1ns. If the RetryAfter of the policy is RetryAfterExact, the next attempt then follows
// after 10ms.
//
// If a 403 or 413 has a valid Retry-After, the Verdict is Again, because this header says that the
// condition is temporary (RFC 9110 section 15.5.14).
//
// AdviceOf reads the first 128 bytes and the first 8 elements of a header.
func AdviceOf(resp *http.Response) Advice {
	wait, ok := retryAfter(resp)
	return toAdvice(resp, wait, ok)
}

// toAdvice returns the advice of a response. If ok is false, the response does not ask for a wait,
// and the advice is empty. A wait of 0 becomes 1ns, because 0 would mean that no wait is given. The
// Verdict for a 403 or 413 is Again.
func toAdvice(resp *http.Response, wait time.Duration, ok bool) (advice Advice) {
	if !ok {
		return advice
	}
	advice.Wait = max(1, wait)
	switch resp.StatusCode {
	case http.StatusForbidden, http.StatusRequestEntityTooLarge:
		advice.Verdict = Again
	}
	return advice
}

// VendorAdvice is a function for the field Advise of a [Transport]. Besides Retry-After it reads
// the headers of several vendors. If the response has several of these headers, the first row of
// the table that applies gives the wait. The last three rows, which are about quotas, count as one
// row:
//
//	Retry-After-Ms, X-Ms-Retry-After-Ms  milliseconds        OpenAI, Azure
//	Retry-After                          see AdviceOf        RFC 9110 section 10.2.3
//	RateLimit: "default";r=0;t=30        seconds             draft-ietf-httpapi-ratelimit-
//	                                                         headers-10
//	RateLimit: remaining=0, reset=30     seconds             the same, draft 07
//	RateLimit-Reset, X-RateLimit-Reset,  seconds, or a time  the same, draft 06; GitHub,
//	  X-Rate-Limit-Reset                                     GitLab, Okta
//
// The last three rows of the table are about quotas. The reset of a quota (`t`, `reset`, or a
// header whose name ends in Reset) says when the quota is filled again. It is read only if the
// quota is used up. A quota is used up if the number of remaining requests (`r`, `remaining`, or a
// header whose name ends in Remaining) is 0. If this number is missing, a quota counts as used up
// if the status is 429. If several quotas are used up, the longest wait applies. The value of a
// reset is a date or a number. A number is a number of seconds to wait, or the seconds or
// milliseconds since 1970: the size of the number decides.
//
// The Verdict for a 403 or 413 with a wait is Again, as in AdviceOf. The Verdict is Never if the
// header Idempotent-Replayed of Stripe is true: the server has stored this answer for the
// idempotency key of the request, and would send it again. The headers X-Should-Retry and
// Stripe-Should-Retry overrule the Verdict: true means Again, and false means Never.
func VendorAdvice(resp *http.Response) Advice {
	wait, ok := milliseconds(resp)
	if !ok {
		wait, ok = retryAfter(resp)
	}
	if !ok {
		wait, ok = reset(resp)
	}
	advice := toAdvice(resp, wait, ok)
	if first(resp, "Idempotent-Replayed") == "true" {
		advice.Verdict = Never
	}
	for _, name := range [...]string{"X-Should-Retry", "Stripe-Should-Retry"} {
		switch first(resp, name) {
		case "true":
			advice.Verdict = Again
		case "false":
			return Advice{advice.Wait, Never}
		}
	}
	return advice
}

// headerBytes and headerElements limit how much of a header is read. A server can send megabytes,
// and parsing them would not stop at a deadline or at AttemptTimeout.
const (
	headerBytes    = 128
	headerElements = 8
)

// The function `cut` returns the first headerBytes bytes of a header's value.
func cut(value string) string { return value[:min(len(value), headerBytes)] }

// The function `first` returns the first value of a header.
func first(resp *http.Response, name string) string { return cut(resp.Header.Get(name)) }

// The function `list` returns all values of a header as one list, separated by commas.
func list(resp *http.Response, name string) string {
	return cut(strings.Join(resp.Header[name], ","))
}

// retryAfter returns the longest wait in the header Retry-After. ok is false if the header has no
// valid value.
func retryAfter(resp *http.Response) (longest time.Duration, ok bool) {
	rest := list(resp, "Retry-After")
	for i := 0; i < headerElements && rest != ""; i++ {
		// Commas separate the values, but most dates also contain a comma.
		one, afterOne, _ := strings.Cut(rest, ",")
		two, afterTwo, _ := strings.Cut(afterOne, ",")
		wait, valid := decimal(one, time.Second)
		if wait = aged(resp, wait); !valid {
			wait, valid = untilDate(resp, one)
		}
		if !valid {
			if wait, valid = untilDate(resp, one+","+two); valid {
				afterOne = afterTwo
			}
		}
		longest, ok, rest = max(longest, wait), ok || valid, afterOne
	}
	return longest, ok
}

// milliseconds returns the longest wait in the headers that count milliseconds. ok is false if
// these headers have no valid value.
func milliseconds(resp *http.Response) (longest time.Duration, ok bool) {
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		wait, valid := decimal(first(resp, name), time.Millisecond)
		longest, ok = max(longest, aged(resp, wait)), ok || valid
	}
	return longest, ok
}

// The function `reset` returns the time until all used-up quotas are filled again. ok is false if
// no quota is used up.
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
	members := strings.SplitN(list(resp, "Ratelimit"), ",", headerElements+1)
	for _, member := range members[:min(len(members), headerElements)] {
		if strings.ContainsAny(member, `";`) { // in draft 10 of RateLimit, each member is a quota
			add(remaining, value)
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
	}
	add(remaining, value) // in draft 07, all members together are one quota
	for _, prefix := range [...]string{"Ratelimit-", "X-Ratelimit-", "X-Rate-Limit-"} {
		add(first(resp, prefix+"Remaining"), first(resp, prefix+"Reset"))
	}
	return longest, ok
}

// resetWait reads a value that says when a quota is filled again, such as the value of the header
// RateLimit-Reset. It returns the time until the quota is filled again. A number below 1e9 is a
// number of seconds to wait. A larger number would be a wait of more than 31 years, so it is a time
// since 1970, in seconds. If a time.Duration cannot hold so many seconds, resetWait reads the
// number as milliseconds since 1970.
func resetWait(resp *http.Response, value string) (time.Duration, bool) {
	const aTime = 1e9 * time.Second
	wait, ok := decimal(value, time.Second)
	switch {
	case !ok:
		if date, err := time.Parse(time.RFC3339, value); err == nil {
			return untilTime(resp, date), true
		}
		return untilDate(resp, value)
	case wait >= aTime:
		if wait == saturate.Max {
			wait, _ = decimal(value, time.Millisecond)
		}
		return untilTime(resp, time.Unix(0, 0).Add(wait)), true
	default:
		return aged(resp, wait), true
	}
}

// The function `aged` subtracts the Age of the response from a wait. The Age is the time that the
// response has spent in caches (RFC 9111 section 5.1).
func aged(resp *http.Response, wait time.Duration) time.Duration {
	age, _ := decimal(first(resp, "Age"), time.Second)
	return max(0, wait-age)
}

// The function `decimal` reads a decimal number, such as 12 or 1.5, and multiplies it by `unit`. If
// the result is too long for a duration, `decimal` returns the longest duration.
func decimal(value string, unit time.Duration) (time.Duration, bool) {
	whole, fraction, fractional := strings.Cut(strings.TrimSpace(value), ".")
	if !digits(whole) || fractional && !digits(fraction) {
		return 0, false
	}
	n, _ := strconv.ParseUint(whole, 10, 64) // if the number is too large, n is the largest uint64
	wait := saturate.Mul(n, unit)
	if fractional {
		billionths, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
		wait = saturate.Add(wait, time.Duration(billionths)*unit/time.Second)
	}
	return wait, true
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// untilDate reads a date and returns the time from now to this date. The date has one of the
// formats of HTTP, or ends with UTC or +0000 instead of GMT.
func untilDate(resp *http.Response, value string) (time.Duration, bool) {
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

// untilTime returns the time from now to t. If the response has a Date, untilTime returns the time
// from this Date to t, minus the Age of the response. If the result is too long for a duration,
// untilTime returns the longest duration.
func untilTime(resp *http.Response, t time.Time) time.Duration {
	if made, err := http.ParseTime(first(resp, "Date")); err == nil {
		return aged(resp, max(0, t.Sub(made)))
	}
	return max(0, time.Until(t))
}
