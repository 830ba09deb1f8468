package retryhttp_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

const longest = time.Duration(math.MaxInt64)

// A header is read as the RFC says and as vendors use it. TestAnswersOfPublicServices has
// the plain forms.
func TestAdvice(t *testing.T) {
	const date = "Sun, 22 Nov 2026 12:00:00 GMT" // 1795348800
	const unsaid, again, never = retryhttp.Unsaid, retryhttp.Again, retryhttp.Never
	for _, tt := range []struct {
		name          string
		status        int
		header        http.Header
		rfc, vendor   time.Duration
		again, vAgain retryhttp.Verdict
	}{
		{"nothing", 503, nil, 0, 0, unsaid, unsaid},

		// Age, RFC 9111 section 5.1.
		{"seconds, in a cache for a while", 503, http.Header{"Retry-After": {"60"}, "Age": {"20"}}, 40 * time.Second, 40 * time.Second, unsaid, unsaid},
		{"seconds, in a cache for longer", 503, http.Header{"Retry-After": {"60"}, "Age": {"90"}}, 1, 1, unsaid, unsaid},
		{"a date, in a cache for a while", 503, http.Header{"Retry-After": {"Sun, 22 Nov 2026 12:01:00 GMT"}, "Age": {"20"}}, 40 * time.Second, 40 * time.Second, unsaid, unsaid},
		{"the first date there is, in a cache for a while", 503, http.Header{"Retry-After": {"Sat, 01 Jan 0000 00:00:00 GMT"}, "Age": {"20"}}, 1, 1, unsaid, unsaid},
		{"milliseconds, in a cache for a while", 503, http.Header{"Retry-After-Ms": {"1500"}, "Age": {"1"}}, 0, 500 * time.Millisecond, unsaid, unsaid},

		// A wait also makes a 403 and a 413 retryable.
		{"403 and nonsense", 403, http.Header{"Retry-After": {"soon"}}, 0, 0, unsaid, unsaid},
		{"413 and a wait", 413, http.Header{"Retry-After": {"60"}}, time.Minute, time.Minute, again, again},

		// No more than 128 bytes and 8 elements of each header.
		{"the eighth of a list", 503, http.Header{"Retry-After": {"1,1,1,1,1,1,1,60,90"}}, time.Minute, time.Minute, unsaid, unsaid},
		{"a date is one element", 503, http.Header{"Retry-After": {strings.Repeat("1,", 6) + "Sun, 22 Nov 2026 12:00:30 GMT,60,90"}}, time.Minute, time.Minute, unsaid, unsaid},
		{"the eighth line", 503, http.Header{"Retry-After": {"1", "1", "1", "1", "1", "1", "1", "60", "90"}}, time.Minute, time.Minute, unsaid, unsaid},
		{"the last byte", 503, http.Header{"Retry-After": {strings.Repeat(" ", 126) + "60"}}, time.Minute, time.Minute, unsaid, unsaid},
		{"a byte too many", 503, http.Header{"Retry-After": {strings.Repeat(" ", 127) + "60"}}, 6 * time.Second, 6 * time.Second, unsaid, unsaid},
		{"bytes of several lines", 503, http.Header{"Retry-After": {strings.Repeat(" ", 125) + "1", "60"}}, 6 * time.Second, 6 * time.Second, unsaid, unsaid},
		{"the eighth quota", 429, http.Header{"Ratelimit": {`r=0,,,,,,,t=60,t=90`}}, 0, time.Minute, unsaid, unsaid},
		{"the last byte of a quota", 429, http.Header{"X-Ratelimit-Reset": {strings.Repeat("0", 126) + "60"}}, 0, time.Minute, unsaid, unsaid},
		{"a byte too many of a quota", 429, http.Header{"X-Ratelimit-Reset": {strings.Repeat("0", 127) + "60"}}, 0, 6 * time.Second, unsaid, unsaid},

		// Milliseconds.
		{"both", 429, http.Header{"X-Ms-Retry-After-Ms": {"1500"}, "Retry-After-Ms": {"2500"}}, 0, 2500 * time.Millisecond, unsaid, unsaid},
		{"seconds, if the milliseconds are invalid", 429, http.Header{"Retry-After-Ms": {"-1"}, "Retry-After": {"2"}}, 2 * time.Second, 2 * time.Second, unsaid, unsaid},

		// RateLimit, as the drafts define it.
		{"draft 10, something left", 429, http.Header{"Ratelimit": {`"default";r=5;t=30`}}, 0, 0, unsaid, unsaid},
		{"draft 10, several", 429, http.Header{"Ratelimit": {`"second";r=0;t=1, "day";r=0;t=3600, "hour";r=9;t=7200`}}, 0, time.Hour, unsaid, unsaid},
		{"draft 10, with a key", 429, http.Header{"Ratelimit": {`"default"; r=0; t=30; pk=:cHNzdA==:`}}, 0, 30 * time.Second, unsaid, unsaid},
		{"draft 10, what one has left is not of the next", 429, http.Header{"Ratelimit": {`"second";r=5;t=1, "hour";t=30`}}, 0, 30 * time.Second, unsaid, unsaid},
		{"draft 10, without a time", 429, http.Header{"Ratelimit": {`"default";r=0`}}, 0, 0, unsaid, unsaid},
		{"draft 07", 429, http.Header{"Ratelimit": {"limit=100, remaining=0, reset=30"}}, 0, 30 * time.Second, unsaid, unsaid},
		{"draft 06", 429, http.Header{"Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"30"}}, 0, 30 * time.Second, unsaid, unsaid},
		{"a healthy quota and a failing server", 503, http.Header{"Ratelimit": {`"default";r=50;t=30`}, "X-Ratelimit-Reset": {"30"}}, 0, 0, unsaid, unsaid},

		// X-RateLimit-Reset, as a number or a time.
		{"seconds", 429, http.Header{"X-Ratelimit-Reset": {"87"}}, 0, 87 * time.Second, unsaid, unsaid},
		{"milliseconds since 1970", 429, http.Header{"X-Ratelimit-Reset": {"1795348860250"}}, 0, time.Minute + 250*time.Millisecond, unsaid, unsaid},
		{"the longest number of seconds", 429, http.Header{"X-Ratelimit-Reset": {"999999999"}}, 0, 999999999 * time.Second, unsaid, unsaid},
		{"one more, which is a time", 429, http.Header{"X-Ratelimit-Reset": {"1000000000"}}, 0, 1, unsaid, unsaid},
		{"the last time in seconds", 429, http.Header{"X-Ratelimit-Reset": {"9223372036"}}, 0, 9223372036*time.Second - 1795348800*time.Second, unsaid, unsaid},
		{"one more, which is milliseconds", 429, http.Header{"X-Ratelimit-Reset": {"9223372037"}}, 0, 1, unsaid, unsaid},
		{"nonsense", 429, http.Header{"X-Ratelimit-Reset": {"6m0s"}}, 0, 0, unsaid, unsaid},
		{"more than a duration can hold", 429, http.Header{"X-Ratelimit-Reset": {"99999999999999999999"}}, 0, longest - 1795348800*time.Second, unsaid, unsaid},
		{"several: the longest", 429, http.Header{"X-Rate-Limit-Reset": {"5"}, "X-Ratelimit-Reset": {"9"}}, 0, 9 * time.Second, unsaid, unsaid},
		{"something left", 429, http.Header{"X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"87"}}, 0, 0, unsaid, unsaid},
		{"less than nothing left", 429, http.Header{"X-Ratelimit-Remaining": {"-1"}, "X-Ratelimit-Reset": {"87"}}, 0, 0, unsaid, unsaid},
		{"403, not for the quota", 403, http.Header{"X-Ratelimit-Reset": {"87"}}, 0, 0, unsaid, unsaid},
		{"403 for the quota, which is filled by now", 403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1795348800"}}, 0, 1, unsaid, again},

		// X-Should-Retry.
		{"it should not", 503, http.Header{"X-Should-Retry": {"false"}, "Retry-After": {"5"}}, 5 * time.Second, 5 * time.Second, unsaid, never},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := &http.Response{StatusCode: tt.status, Header: http.Header{"Date": {date}}}
			maps.Copy(resp.Header, tt.header)
			assert.Equal(t, retryhttp.Advice{Wait: tt.rfc, Verdict: tt.again}, retryhttp.AdviceOf(resp))
			assert.Equal(t, retryhttp.Advice{Wait: tt.vendor, Verdict: tt.vAgain}, retryhttp.VendorAdvice(resp))
		})
	}
}

// A Transport waits as long as the server asks for, within the bounds of its
// policy. It asks its Advise for each response, also one without a Request, which
// http.RoundTripper does not require. A Check has the result by the StatusError of
// the Transport, and by the function Check for the request that it gets.
func TestAdviseOfATransport(t *testing.T) {
	read := func(wait time.Duration, verdict retryhttp.Verdict) func(*http.Response) retryhttp.Advice {
		return func(*http.Response) retryhttp.Advice { return retryhttp.Advice{Wait: wait, Verdict: verdict} }
	}
	seven, again, never := read(7*time.Second, retryhttp.Unsaid), read(0, retryhttp.Again), read(0, retryhttp.Never)
	var tr *retryhttp.Transport
	fails := func(failure func(*http.Request, *http.Response) error) retryhttp.CheckFunc {
		return func(req *http.Request, resp *http.Response, err error) error {
			if resp.StatusCode == 200 {
				return err
			}
			return failure(req, resp)
		}
	}
	derives := func(req *http.Request, resp *http.Response, err error) error {
		return retryhttp.Check(req.Clone(req.Context()), resp, err)
	}
	forgets := func(_ *http.Request, resp *http.Response, err error) error { return retryhttp.Check(nil, resp, err) }
	always := fails(func(req *http.Request, resp *http.Response) error { return tr.StatusError(req, resp) })
	wraps := fails(func(_ *http.Request, resp *http.Response) error {
		return fmt.Errorf("busy: %w", retryhttp.NewStatusError(resp))
	})
	says := fails(func(*http.Request, *http.Response) error { return retry.After(9*time.Second, errReset) })
	const tooLong = "1 sent, 503: gave up after 1 attempt (Retry-After is %s, MaxRetryAfter is 1m0s): 503 Service Unavailable"
	const final = "1 sent, 503: permanent error after 1 attempt: 503 Service Unavailable"
	for _, tt := range []struct {
		name       string
		status     int
		retryAfter string
		read       func(*http.Response) retryhttp.Advice
		check      retryhttp.CheckFunc
		want       string
	}{
		{"seconds", 503, "30", nil, nil, "2 sent in 30s, 200"},
		{"none", 503, "", nil, nil, "2 sent in 1s, 200"},
		{"longer than a minute", 503, "61", nil, nil, fmt.Sprintf(tooLong, "1m1s")},
		{"a number that overflows to a negative duration in other libraries", 503, "9223372037", nil, nil, fmt.Sprintf(tooLong, longest)},
		{"403 and a wait", 403, "7", nil, nil, "2 sent in 7s, 200"},

		{"wrapped by Check", 503, "7", nil, wraps, "2 sent in 7s, 200"},
		{"said by Check", 503, "7", nil, says, "2 sent in 9s, 200"},

		{"advised", 503, "", seven, nil, "2 sent in 7s, 200"},
		{"advised, for a Check that calls Check", 503, "", seven, retryhttp.Check, "2 sent in 7s, 200"},
		{"advised, for a Check that calls Check with a copy", 503, "", seven, derives, "2 sent in 7s, 200"},
		{"advised, for a Check with StatusError", 404, "", seven, always, "2 sent in 7s, 200"},
		{"not advised, for a Check with StatusError", 404, "5", nil, always, "2 sent in 5s, 200"},
		{"a Check that calls Check without the request", 503, "5", seven, forgets, "2 sent in 5s, 200"},
		{"a Check with NewStatusError", 404, "5", seven, failing, "2 sent in 5s, 200"},
		{"advised against", 503, "", never, nil, final},
		{"advised against, for a Check that calls Check", 503, "", never, retryhttp.Check, final},
		{"advised", 404, "", again, nil, "2 sent in 1s, 200"},
		{"advised, for a Check that calls Check", 404, "", again, retryhttp.Check, "2 sent in 1s, 200"},
		{"an unknown verdict", 503, "", read(0, "perhaps"), nil, "2 sent in 1s, 200"},
		{"a wait below 0", 503, "", read(-7*time.Second, retryhttp.Again), nil, "2 sent in 1s, 200"},
	} {
		bubble(t, fmt.Sprint(tt.name, ", ", tt.status), func(t *testing.T) {
			tr = &retryhttp.Transport{Check: tt.check, Advise: tt.read, Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}}
			assert.Equal(t, tt.want, ask(t, tr, request(t, "GET"), response(tt.status, "Retry-After", tt.retryAfter), 200))
		})
	}
}

// The table has forty answers of public services, taken from their own
// documentation, and says whether to retry and after what wait.
func TestAnswersOfPublicServices(t *testing.T) {
	data, err := os.ReadFile("testdata/answers.json")
	require.NoError(t, err)
	var table struct {
		Date    string
		Answers []struct {
			Service, About, Source, Wait string
			Status                       int
			Header                       map[string]string
			Retry                        bool
		}
	}
	require.NoError(t, json.Unmarshal(data, &table))
	require.Len(t, table.Answers, 40)
	for _, a := range table.Answers {
		t.Run(a.Service+", "+a.About, func(t *testing.T) {
			resp := response(a.Status, "Date", table.Date)
			for name, value := range a.Header {
				resp.Header.Set(name, value)
			}
			because := retryhttp.ErrorOf(send(t, &retryhttp.Transport{Base: script(resp), Advise: retryhttp.VendorAdvice}))
			var status *retryhttp.StatusError
			require.ErrorAs(t, because, &status)
			assert.Equal(t, []any{a.Retry, a.Wait}, []any{retry.ReasonOf(because) != retry.ReasonPermanent, status.RetryAfter().String()})
			assert.NotEmpty(t, a.Source)
		})
	}
}

// In a synctest bubble the clock starts at midnight on Saturday, January 1,
// 2000.
func TestRetryAfter(t *testing.T) {
	const (
		ours  = "Sat, 01 Jan 2000 00:00:00 GMT"
		fast  = "Sat, 01 Jan 2000 09:00:00 GMT" // a server whose clock is nine hours ahead
		epoch = "Thu, 01 Jan 1970 00:00:00 GMT"
	)
	tests := []struct {
		name, date string
		values     []string
		want       time.Duration
	}{
		{"absent", "", nil, 0},
		{"empty", "", []string{""}, 0},

		{"space around", "", []string{" 5\t"}, 5 * time.Second},
		{"seconds do not look at the Date", fast, []string{"5"}, 5 * time.Second},

		{"a fraction", "", []string{"1.5"}, 1500 * time.Millisecond},
		{"a fraction of nine digits", "", []string{"0.123456789"}, 123456789},
		{"a fraction of more than nine digits", "", []string{"0.1234567891"}, 123456789},
		{"the most seconds and a fraction", "", []string{"9223372036.9"}, longest},
		{"a fraction without an end", "", []string{"1."}, 0},
		{"a fraction without a beginning", "", []string{".5"}, 0},

		{"a list", "", []string{"1, 3"}, 3 * time.Second},
		{"a list with an invalid entry", "", []string{"soon, 3, -9"}, 3 * time.Second},
		{"a list with a date first", "", []string{"Sat, 01 Jan 2000 00:00:07 GMT, 5"}, 7 * time.Second},

		{"negative", "", []string{"-5"}, 0},
		{"not ASCII digits", "", []string{"٥"}, 0},

		{"IMF-fixdate", "", []string{"Sat, 01 Jan 2000 00:00:07 GMT"}, 7 * time.Second},
		{"RFC 850", "", []string{"Saturday, 01-Jan-00 00:00:07 GMT"}, 7 * time.Second},
		{"asctime", "", []string{"Sat Jan  1 00:00:07 2000"}, 7 * time.Second},
		{"a Date of another form", "Saturday, 01-Jan-00 09:00:00 GMT", []string{"Sat Jan  1 09:00:07 2000"}, 7 * time.Second},
		{"a clock that was never set", epoch, []string{"Thu, 01 Jan 1970 00:00:07 GMT"}, 7 * time.Second},
		{"an invalid Date", "yesterday", []string{"Sat, 01 Jan 2000 00:00:07 GMT"}, 7 * time.Second},
		{"a date that has passed", "", []string{epoch}, 1},
		{"a date that has passed, by the server's clock", fast, []string{"Sat, 01 Jan 2000 08:00:00 GMT"}, 1},
		{"the last date there is", "", []string{"Fri, 31 Dec 9999 23:59:59 GMT"}, longest},
		{"UTC for GMT", "", []string{"Sat, 01 Jan 2000 00:00:07 UTC"}, 7 * time.Second},
		{"+0000 for GMT", "", []string{"Sat, 01 Jan 2000 00:00:07 +0000"}, 7 * time.Second},
		{"another zone by its name", "", []string{"Sat, 01 Jan 2000 00:00:07 CET"}, 0},

		{"twice: the longer", "", []string{"5", "9"}, 9 * time.Second},
	}
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, ours, time.Now().UTC().Format(http.TimeFormat))
		for _, tt := range tests {
			h := http.Header{"Retry-After": tt.values}
			if tt.date != "" {
				h.Set("Date", tt.date)
			}
			resp := &http.Response{StatusCode: 503, Header: h}
			assert.Equal(t, tt.want, retryhttp.AdviceOf(resp).Wait, tt.name)
			assert.Equal(t, tt.want, retryhttp.NewStatusError(resp).RetryAfter(), tt.name)
		}
	})
}

// Whatever a server sends, the wait is never negative, seconds are read as in
// arithmetic of any size, and a second value can only lengthen the wait.
func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{"", "0", "120", "-1", "9223372036", "9223372037", "18446744073709551616", "1.5",
		"Sat, 01 Jan 2000 00:00:07 GMT", "Saturday, 01-Jan-69 00:00:07 GMT", "Sat Jan  1 00:00:07 2000", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(value, "7", "Sat, 01 Jan 2000 00:00:00 GMT")
	}
	f.Fuzz(func(t *testing.T, one, two, date string) {
		if len(one)+len(two) > 100 || strings.Count(one+two, ",") > 6 {
			t.Skip("longer than what is read")
		}
		wait := func(values ...string) time.Duration {
			resp := &http.Response{Header: http.Header{"Retry-After": values, "Date": {date}}}
			return retryhttp.NewStatusError(resp).RetryAfter()
		}
		got := wait(one)
		require.GreaterOrEqual(t, got, time.Duration(0), one)
		if digits := strings.TrimSpace(one); digits != "" && strings.Trim(digits, "0123456789") == "" {
			want, ok := new(big.Int).SetString(digits, 10)
			require.True(t, ok)
			want.Mul(want, big.NewInt(int64(time.Second)))
			if want.Cmp(big.NewInt(math.MaxInt64)) > 0 {
				want.SetInt64(math.MaxInt64)
			}
			if want.Sign() == 0 {
				want.SetInt64(1) // said, and not none
			}
			require.Equal(t, want.String(), fmt.Sprint(int64(got)), one)
		}
		if _, err := http.ParseTime(date); err == nil { // otherwise each of the readings would use a different now
			require.Equal(t, max(got, wait(two)), wait(one, two))
		}
	})
}
