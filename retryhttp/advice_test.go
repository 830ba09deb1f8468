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

// readTestdata reads a file of testdata, which is JSON.
func readTestdata(t *testing.T, name string, to any) {
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, to))
}

// The table in advice.json covers unusual headers: several values, an Age, the drafts of RateLimit,
// resets as a number or a date, and headers of more than 128 bytes or 8 elements.
// TestAnswersOfPublicServices covers the usual headers.
func TestAdvice(t *testing.T) {
	var table struct {
		Date   string
		Advice []struct {
			Name          string
			Status        int
			Header        http.Header
			Wait, Vendor  string // the results of AdviceOf and VendorAdvice
			Verdict       retryhttp.Verdict
			VendorVerdict retryhttp.Verdict `json:"vendor_verdict"`
		}
	}
	readTestdata(t, "advice.json", &table)
	require.Len(t, table.Advice, 47)
	for _, tt := range table.Advice {
		t.Run(tt.Name, func(t *testing.T) {
			resp := &http.Response{StatusCode: tt.Status, Header: http.Header{"Date": {table.Date}}}
			maps.Copy(resp.Header, tt.Header)
			rfc, vendor := retryhttp.AdviceOf(resp), retryhttp.VendorAdvice(resp)
			assert.Equal(t, []any{tt.Wait, tt.Verdict}, []any{rfc.Wait.String(), rfc.Verdict})
			assert.Equal(t, []any{tt.Vendor, tt.VendorVerdict}, []any{vendor.Wait.String(), vendor.Verdict})
		})
	}
}

// A Transport waits as long as the server asks for, within the limits of its policy. It calls its
// Advise even for a response without a Request, because an http.RoundTripper need not set this
// field. A Check gets the advice from the method StatusError, or from the function Check if the
// Check passes on the request that it got.
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
		{"a number that overflows to a negative duration in other libraries", 503, "9223372037", nil, nil, fmt.Sprintf(tooLong, "292 years")},
		{"403 and a wait", 403, "7", nil, nil, "2 sent in 7s, 200"},

		{"wrapped by Check", 503, "7", nil, wraps, "2 sent in 7s, 200"},
		{"a Check that returns retry.After", 503, "7", nil, says, "2 sent in 9s, 200"},

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

// The table lists forty answers of public services, taken from their own documentation. It says
// whether each answer is retried, and after which wait.
func TestAnswersOfPublicServices(t *testing.T) {
	var table struct {
		Date    string
		Answers []struct {
			Service, About, Source, Wait string
			Status                       int
			Header                       map[string]string
			Retry                        bool
		}
	}
	readTestdata(t, "answers.json", &table)
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

// In a synctest bubble the clock starts at midnight on Saturday, January 1, 2000. The header Date
// is the server's clock. It may be nine hours ahead, or missing.
func TestRetryAfter(t *testing.T) {
	var table struct {
		Tests []struct {
			Name, Date, Wait string
			Values           []string
		} `json:"retry_after"`
	}
	readTestdata(t, "advice.json", &table)
	require.Len(t, table.Tests, 28)
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range table.Tests {
			resp := &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": tt.Values}}
			if tt.Date != "" {
				resp.Header.Set("Date", tt.Date)
			}
			assert.Equal(t, tt.Wait, retryhttp.AdviceOf(resp).Wait.String(), tt.Name)
			assert.Equal(t, tt.Wait, retryhttp.NewStatusError(resp).RetryAfter().String(), tt.Name)
		}
	})
}

// Whatever a server sends, the wait is never negative, a number of seconds never overflows, and a
// second value can only lengthen the wait.
func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{"", "0", "120", "-1", "9223372036", "9223372037", "18446744073709551616", "1.5",
		"Sat, 01 Jan 2000 00:00:07 GMT", "Saturday, 01-Jan-69 00:00:07 GMT", "Sat Jan  1 00:00:07 2000", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(value, "7", "Sat, 01 Jan 2000 00:00:00 GMT")
	}
	f.Fuzz(func(t *testing.T, one, two, date string) {
		if len(one)+len(two) > 100 || strings.Count(one+two, ",") > 6 {
			t.Skip("AdviceOf reads only the beginning")
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
				want.SetInt64(1) // the header has a wait of 0; a result of 0 would mean that there is no header
			}
			require.Equal(t, want.String(), fmt.Sprint(int64(got)), one)
		}
		// Only with a Date do all calls of `wait` count from the same time.
		if _, err := http.ParseTime(date); err == nil {
			require.Equal(t, max(got, wait(two)), wait(one, two))
		}
	})
}
