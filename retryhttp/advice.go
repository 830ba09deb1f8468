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
	Wait    time.Duration // how long to wait before it; 0 or below: not said
	Verdict Verdict
}

// A Verdict says whether there should be another attempt. Any value but Again and
// Never is treated as Unsaid.
type Verdict string

const (
	Unsaid Verdict = ""      // the status decides
	Again  Verdict = "again" // whatever the status is
	Never  Verdict = "never" // whatever the status is
)

// AdviceOf is the Advise of a [Transport] that has no other. It reads the header
// Retry-After, RFC 9110 section 10.2.3: seconds, which may have a fraction, or a date in
// one of the three forms of HTTP, also with UTC or +0000 for GMT. The wait for a date is
// measured from the Date of the response, so that the server's clock decides and
// not ours. The Age of the response, which is time spent in a cache, is subtracted.
// A wait of 0, and a date that has passed, is a Wait of 1ns: under RetryAfterExact the
// next attempt then follows after 10ms. Anything else is ignored. If there are several values,
// the longest wait applies.
//
// After 403 and 413 a valid Retry-After is a Verdict of Again: it says that the
// condition is temporary, RFC 9110 section 15.5.14.
//
// Of each header, the first 128 bytes and 8 elements are read.
func AdviceOf(resp *http.Response) Advice {
	wait, ok := retryAfter(resp)
	return said(resp, wait, ok)
}

// said returns the advice of a response that does or does not ask to wait. A wait of 0 can
// be told from none. A 403 and a 413 that ask to wait stand for what is temporary.
func said(resp *http.Response, wait time.Duration, ok bool) (advice Advice) {
	if ok {
		advice.Wait = max(1, wait)
	}
	if ok && (resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusRequestEntityTooLarge) {
		advice.Verdict = Again
	}
	return advice
}

// VendorAdvice is an Advise for a [Transport] that also reads the headers that
// vendors have added. The first of these lines that is there gives the wait:
//
//	Retry-After-Ms, X-Ms-Retry-After-Ms        milliseconds        OpenAI, Azure
//	Retry-After                                see AdviceOf        RFC 9110 section 10.2.3
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
// As with AdviceOf, 403 and 413 with a wait are Again. X-Should-Retry and
// Stripe-Should-Retry overrule that: true is Again, false is Never.
func VendorAdvice(resp *http.Response) Advice {
	wait, ok := milliseconds(resp)
	if !ok {
		wait, ok = retryAfter(resp)
	}
	if !ok {
		wait, ok = reset(resp)
	}
	advice := said(resp, wait, ok)
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

// What a header says is read from this much of it. A peer can send megabytes, and
// neither a deadline nor AttemptTimeout would end reading them.
const (
	headerBytes    = 128
	headerElements = 8
)

func cut(value string) string { return value[:min(len(value), headerBytes)] }

// first returns the first value of a header.
func first(resp *http.Response, name string) string { return cut(resp.Header.Get(name)) }

// list returns the values of a header as one list, with commas.
func list(resp *http.Response, name string) string { return cut(strings.Join(resp.Header[name], ",")) }

// retryAfter returns the longest wait of the header Retry-After, and whether it
// has a valid one.
func retryAfter(resp *http.Response) (longest time.Duration, ok bool) {
	rest := list(resp, "Retry-After")
	for i := 0; i < headerElements && rest != ""; i++ {
		// A list has commas, and most dates have one.
		one, afterOne, _ := strings.Cut(rest, ",")
		two, afterTwo, _ := strings.Cut(afterOne, ",")
		wait, valid := decimal(one, time.Second)
		if wait = aged(resp, wait); !valid {
			wait, valid = until(resp, one)
		}
		if !valid {
			if wait, valid = until(resp, one+","+two); valid {
				afterOne = afterTwo
			}
		}
		longest, ok, rest = max(longest, wait), ok || valid, afterOne
	}
	return longest, ok
}

// milliseconds returns the longest wait of the headers that count in them.
func milliseconds(resp *http.Response) (longest time.Duration, ok bool) {
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		wait, valid := decimal(first(resp, name), time.Millisecond)
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
	members := strings.SplitN(list(resp, "Ratelimit"), ",", headerElements+1)
	for _, member := range members[:min(len(members), headerElements)] {
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
	for _, prefix := range [...]string{"Ratelimit-", "X-Ratelimit-", "X-Rate-Limit-"} {
		add(first(resp, prefix+"Remaining"), first(resp, prefix+"Reset"))
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
	case wait >= aTime:
		if wait == saturate.Max {
			wait, _ = decimal(value, time.Millisecond)
		}
		return untilTime(resp, time.Unix(0, 0).Add(wait)), true
	default:
		return aged(resp, wait), true
	}
}

// aged subtracts from a wait what the response has spent in caches, RFC 9111
// section 5.1.
func aged(resp *http.Response, wait time.Duration) time.Duration {
	age, _ := decimal(first(resp, "Age"), time.Second)
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
	if made, err := http.ParseTime(first(resp, "Date")); err == nil {
		return aged(resp, max(0, t.Sub(made)))
	}
	return max(0, time.Until(t))
}
