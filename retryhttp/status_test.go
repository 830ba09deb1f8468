package retryhttp_test

import (
	"fmt"
	"math"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryhttp"
)

const longest = time.Duration(math.MaxInt64)

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

// The text names the request and contains nothing that may be secret.
func TestStatusError(t *testing.T) {
	for _, tt := range []struct{ method, url, want string }{
		{"GET", "http://example.test/orders/17", "retryhttp: GET http://example.test/orders/17: 503 Service Unavailable"},
		{"", "http://example.test", "retryhttp: GET http://example.test: 503 Service Unavailable"},
		{"POST", "https://user:secret@example.test:8443/a%2Fb/%20c?token=secret#secret", "retryhttp: POST https://example.test:8443/a%2Fb/%20c: 503 Service Unavailable"},
		{"PUT", "https://token@[::1]:8080/?", "retryhttp: PUT https://[::1]:8080/: 503 Service Unavailable"},
	} {
		u, err := url.Parse(tt.url)
		require.NoError(t, err)
		req := &http.Request{Method: tt.method, URL: u}
		resp := asksToWait(503, 2)
		resp.Request = req
		e := retryhttp.NewStatusError(resp)
		u.Host, req.Method = "another.test", "PATCH"
		resp.Header.Set("Retry-After", "9")
		assert.EqualError(t, e, tt.want)
		assert.NotContains(t, fmt.Sprintf("%v %+v %s", e, e, e), "secret")
		assert.Equal(t, 503, e.HTTPStatusCode())
		assert.Equal(t, "2", e.Header.Get("Retry-After"), "the header is a copy")
	}
	assert.EqualError(t, retryhttp.NewStatusError(&http.Response{StatusCode: 503, Request: &http.Request{}}), "retryhttp: 503 Service Unavailable")
	assert.EqualError(t, &retryhttp.StatusError{StatusCode: 599}, "retryhttp: 599")
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
