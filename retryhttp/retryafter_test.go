package retryhttp_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// A header is read as the RFC says and as vendors use it.
func TestWaits(t *testing.T) {
	const date = "Sun, 22 Nov 2026 12:00:00 GMT" // 1795348800
	for _, tt := range []struct {
		name          string
		status        int
		header        http.Header
		rfc, vendor   time.Duration
		again, vAgain bool
	}{
		{"nothing", 503, nil, 0, 0, false, false},

		// Age, RFC 9111 section 5.1.
		{"seconds, in a cache for a while", 503, http.Header{"Retry-After": {"60"}, "Age": {"20"}}, 40 * time.Second, 40 * time.Second, false, false},
		{"seconds, in a cache for longer", 503, http.Header{"Retry-After": {"60"}, "Age": {"90"}}, 0, 0, false, false},
		{"a date, in a cache for a while", 503, http.Header{"Retry-After": {"Sun, 22 Nov 2026 12:01:00 GMT"}, "Age": {"20"}}, 40 * time.Second, 40 * time.Second, false, false},
		{"an invalid Age", 503, http.Header{"Retry-After": {"60"}, "Age": {"-20"}}, time.Minute, time.Minute, false, false},
		{"an endless Age", 503, http.Header{"Retry-After": {"60"}, "Age": {"99999999999999999999"}}, 0, 0, false, false},
		{"milliseconds, in a cache for a while", 503, http.Header{"Retry-After-Ms": {"1500"}, "Age": {"1"}}, 0, 500 * time.Millisecond, false, false},

		// A wait also makes a 403 and a 413 retryable.
		{"403", 403, nil, 0, 0, false, false},
		{"403 and a wait", 403, http.Header{"Retry-After": {"60"}}, time.Minute, time.Minute, true, true},
		{"403 and no more wait", 403, http.Header{"Retry-After": {"0"}}, 0, 0, true, true},
		{"403 and nonsense", 403, http.Header{"Retry-After": {"soon"}}, 0, 0, false, false},
		{"413 and a wait", 413, http.Header{"Retry-After": {"60"}}, time.Minute, time.Minute, true, true},
		{"413 and a vendor's wait", 413, http.Header{"Retry-After-Ms": {"60"}}, 0, 60 * time.Millisecond, false, true},
		{"404 and a wait", 404, http.Header{"Retry-After": {"60"}}, time.Minute, time.Minute, false, false},

		// Milliseconds.
		{"milliseconds", 429, http.Header{"Retry-After-Ms": {"1500"}}, 0, 1500 * time.Millisecond, false, false},
		{"milliseconds of Azure", 429, http.Header{"X-Ms-Retry-After-Ms": {"1500"}}, 0, 1500 * time.Millisecond, false, false},
		{"both", 429, http.Header{"X-Ms-Retry-After-Ms": {"1500"}, "Retry-After-Ms": {"2500"}}, 0, 2500 * time.Millisecond, false, false},
		{"a fraction of a millisecond", 429, http.Header{"Retry-After-Ms": {"0.5"}}, 0, 500 * time.Microsecond, false, false},
		{"milliseconds before seconds", 429, http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"2"}}, 2 * time.Second, 1500 * time.Millisecond, false, false},
		{"seconds, if the milliseconds are invalid", 429, http.Header{"Retry-After-Ms": {"-1"}, "Retry-After": {"2"}}, 2 * time.Second, 2 * time.Second, false, false},
		{"too many milliseconds", 429, http.Header{"Retry-After-Ms": {"99999999999999999999"}}, 0, longest, false, false},

		// RateLimit, as the drafts define it.
		{"draft 10", 429, http.Header{"Ratelimit": {`"default";r=0;t=30`}}, 0, 30 * time.Second, false, false},
		{"draft 10, something left", 429, http.Header{"Ratelimit": {`"default";r=5;t=30`}}, 0, 0, false, false},
		{"draft 10, several", 429, http.Header{"Ratelimit": {`"second";r=0;t=1, "day";r=0;t=3600, "hour";r=9;t=7200`}}, 0, time.Hour, false, false},
		{"draft 10, several lines", 429, http.Header{"Ratelimit": {`"second";r=0;t=1`, `"day";r=0;t=3600`}}, 0, time.Hour, false, false},
		{"draft 10, with a key", 429, http.Header{"Ratelimit": {`"default"; r=0; t=30; pk=:cHNzdA==:`}}, 0, 30 * time.Second, false, false},
		{"draft 10, without a time", 429, http.Header{"Ratelimit": {`"default";r=0`}}, 0, 0, false, false},
		{"draft 10, nonsense", 429, http.Header{"Ratelimit": {`;;,"",=,r=,t=x`}}, 0, 0, false, false},
		{"draft 07", 429, http.Header{"Ratelimit": {"limit=100, remaining=0, reset=30"}}, 0, 30 * time.Second, false, false},
		{"draft 07, something left", 429, http.Header{"Ratelimit": {"limit=100, remaining=50, reset=30"}}, 0, 0, false, false},
		{"draft 06", 429, http.Header{"Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"30"}}, 0, 30 * time.Second, false, false},
		{"Retry-After takes precedence", 429, http.Header{"Ratelimit": {`"default";r=0;t=30`}, "Retry-After": {"3"}}, 3 * time.Second, 3 * time.Second, false, false},
		{"a healthy quota and a failing server", 503, http.Header{"Ratelimit": {`"default";r=50;t=30`}, "X-Ratelimit-Reset": {"30"}}, 0, 0, false, false},

		// X-RateLimit-Reset, as a number or a time.
		{"seconds", 429, http.Header{"X-Ratelimit-Reset": {"87"}}, 0, 87 * time.Second, false, false},
		{"seconds with a fraction", 429, http.Header{"X-Ratelimit-Reset": {"0.5"}}, 0, 500 * time.Millisecond, false, false},
		{"seconds since 1970", 429, http.Header{"X-Ratelimit-Reset": {"1795348860"}}, 0, time.Minute, false, false},
		{"with a fraction", 429, http.Header{"X-Ratelimit-Reset": {"1795348860.25"}}, 0, time.Minute + 250*time.Millisecond, false, false},
		{"milliseconds since 1970", 429, http.Header{"X-Ratelimit-Reset": {"1795348860250"}}, 0, time.Minute + 250*time.Millisecond, false, false},
		{"a time that has passed", 429, http.Header{"X-Ratelimit-Reset": {"1795348000"}}, 0, 0, false, false},
		{"ISO 8601", 429, http.Header{"X-Ratelimit-Reset": {"2026-11-22T12:01:00Z"}}, 0, time.Minute, false, false},
		{"a date of HTTP", 429, http.Header{"X-Ratelimit-Reset": {"Sun, 22 Nov 2026 12:01:00 GMT"}}, 0, time.Minute, false, false},
		{"negative", 429, http.Header{"X-Ratelimit-Reset": {"-5"}}, 0, 0, false, false},
		{"nonsense", 429, http.Header{"X-Ratelimit-Reset": {"6m0s"}}, 0, 0, false, false},
		{"more than a duration can hold", 429, http.Header{"X-Ratelimit-Reset": {"99999999999999999999"}}, 0, longest - 1795348800*time.Second, false, false},
		{"infinity", 429, http.Header{"X-Ratelimit-Reset": {"inf"}}, 0, 0, false, false},
		{"Okta's name", 429, http.Header{"X-Rate-Limit-Reset": {"1795348860"}}, 0, time.Minute, false, false},
		{"several: the longest", 429, http.Header{"X-Rate-Limit-Reset": {"5"}, "X-Ratelimit-Reset": {"9"}}, 0, 9 * time.Second, false, false},
		{"something left", 429, http.Header{"X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"87"}}, 0, 0, false, false},
		{"nothing left, with a point", 429, http.Header{"X-Ratelimit-Remaining": {"0.0"}, "X-Ratelimit-Reset": {"87"}}, 0, 87 * time.Second, false, false},
		{"less than nothing left", 429, http.Header{"X-Ratelimit-Remaining": {"-1"}, "X-Ratelimit-Reset": {"87"}}, 0, 0, false, false},
		{"403, not for the quota", 403, http.Header{"X-Ratelimit-Reset": {"87"}}, 0, 0, false, false},
		{"403 for the quota", 403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"87"}}, 0, 87 * time.Second, false, true},
		{"403 for the quota, which is filled by now", 403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1795348800"}}, 0, 0, false, true},

		// X-Should-Retry.
		{"it should", 409, http.Header{"X-Should-Retry": {"true"}}, 0, 0, false, true},
		{"it should, after a wait", 409, http.Header{"X-Should-Retry": {"true"}, "Retry-After": {"5"}}, 5 * time.Second, 5 * time.Second, false, true},
		{"it should not", 503, http.Header{"X-Should-Retry": {"false"}, "Retry-After": {"5"}}, 5 * time.Second, -1, false, false},
		{"Stripe's name", 409, http.Header{"Stripe-Should-Retry": {"true"}}, 0, 0, false, true},
		{"maybe", 409, http.Header{"X-Should-Retry": {"maybe"}}, 0, 0, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			header := tt.header.Clone()
			if header == nil {
				header = http.Header{}
			}
			header.Set("Date", date)
			resp := &http.Response{StatusCode: tt.status, Header: header}
			wait, again := retryhttp.RetryAfter(resp)
			assert.Equal(t, tt.rfc, wait)
			assert.Equal(t, tt.again, again)
			wait, again = retryhttp.VendorRetryAfter(resp)
			assert.Equal(t, tt.vendor, wait)
			assert.Equal(t, tt.vAgain, again)
		})
	}
}

// A Transport calls its RetryAfter for each response, and each Check that uses
// NewStatusError or the function Check gets the result.
func TestRetryAfterOfATransport(t *testing.T) {
	read := func(wait time.Duration, again bool) func(*http.Response) (time.Duration, bool) {
		return func(*http.Response) (time.Duration, bool) { return wait, again }
	}
	wraps := func(req *http.Request, resp *http.Response, err error) error { return retryhttp.Check(req, resp, err) }
	always := func(_ *http.Request, resp *http.Response, err error) error {
		if err != nil || resp.StatusCode == 200 {
			return err
		}
		return retryhttp.NewStatusError(resp)
	}
	for _, tt := range []struct {
		name   string
		status int
		read   func(*http.Response) (time.Duration, bool)
		check  func(*http.Request, *http.Response, error) error
		sent   int
		hint   time.Duration
	}{
		{"a wait", 503, read(time.Millisecond, false), nil, 2, time.Millisecond},
		{"a wait, for a Check that calls Check", 503, read(time.Millisecond, false), wraps, 2, time.Millisecond},
		{"a wait, for a Check with NewStatusError", 404, read(time.Millisecond, false), always, 2, time.Millisecond},
		{"no other attempt", 503, read(-1, true), nil, 1, 0},
		{"no other attempt, for a Check that calls Check", 503, read(-1, false), wraps, 1, 0},
		{"another attempt", 404, read(0, true), nil, 2, 0},
		{"another attempt, for a Check that calls Check", 404, read(0, true), wraps, 2, 0},
		{"nothing", 404, read(0, false), nil, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen events
			base := script(tt.status, 200)
			tr := &retryhttp.Transport{Base: base, Check: tt.check, RetryAfter: tt.read, Policy: retry.Policy{MaxAttempts: 2, OnEvent: seen.add}}
			resp, err := tr.RoundTrip(request(t, "GET"))
			require.NoError(t, err)
			assert.Len(t, base.sent, tt.sent)
			assert.NotNil(t, resp.Request)
			if tt.sent == 2 {
				assert.Equal(t, tt.hint, seen.of(retry.RetryScheduled)[0].RetryAfter)
			}
		})
	}
}

// A server that asks for a wait with 403 or 413 gets the request again after it.
func TestStatusesThatNeedAWait(t *testing.T) {
	for _, status := range []int{403, 413} {
		for wait, sent := range map[string]int{"7": 2, "": 1} {
			t.Run(fmt.Sprintf("%d after %q", status, wait), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					failed := response(status)
					failed.Header.Set("Retry-After", wait)
					base := script(failed, 200)
					start := time.Now()
					resp, err := (&retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}}).RoundTrip(request(t, "GET"))
					require.NoError(t, err)
					assert.Len(t, base.sent, sent)
					if sent == 2 {
						assert.Equal(t, 200, resp.StatusCode)
						assert.GreaterOrEqual(t, time.Since(start), 7*time.Second)
					} else {
						assert.Equal(t, status, resp.StatusCode)
						assert.Zero(t, time.Since(start))
					}
				})
			})
		}
	}
}

// A Base may leave Request unset in its response, because http.RoundTripper
// does not require it.
func TestRetryAfterOfAResponseWithoutARequest(t *testing.T) {
	n := 0
	tr := &retryhttp.Transport{
		Base: bareRoundTrip(func(*http.Request) (*http.Response, error) {
			if n++; n > 1 {
				return response(200), nil
			}
			return response(404), nil
		}),
		RetryAfter: func(*http.Response) (time.Duration, bool) { return 0, true },
		Policy:     retry.Policy{MaxAttempts: 2},
	}
	req := request(t, "GET")
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	assert.Same(t, req, resp.Request)
}

type bareRoundTrip func(*http.Request) (*http.Response, error)

func (f bareRoundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
