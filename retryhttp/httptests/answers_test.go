package httptests

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// The test counts which of the forty answers of public services
// go-retryablehttp v0.7.8 handles as documented, with its defaults. It decides
// by the status alone, and reads only Retry-After, in whole seconds, of 429 and
// 503.
func TestAnswersBesideGoRetryablehttp(t *testing.T) {
	data, err := os.ReadFile("../testdata/answers.json")
	require.NoError(t, err)
	var table struct {
		Date    string
		Answers []struct {
			Service, About string
			Status         int
			Header         map[string]string
			Retry          bool
			Wait           string
		}
	}
	require.NoError(t, json.Unmarshal(data, &table))
	date, err := http.ParseTime(table.Date)
	require.NoError(t, err)

	ours := 0
	var missed []string // by go-retryablehttp
	for _, a := range table.Answers {
		want, err := time.ParseDuration(a.Wait)
		require.NoError(t, err)
		answer := func() *http.Response {
			header := http.Header{"Date": {table.Date}}
			for name, value := range a.Header {
				header.Set(name, value)
			}
			return &http.Response{StatusCode: a.Status, Header: header, Body: io.NopCloser(strings.NewReader(""))}
		}
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(date)) // go-retryablehttp uses the local clock

			if again, wait := ourVerdict(t, answer()); again == a.Retry && wait == want {
				ours++
			}
			again, _ := retryablehttp.DefaultRetryPolicy(t.Context(), answer(), nil) // the error only has the status as text
			wait := retryablehttp.DefaultBackoff(0, time.Hour, 0, answer())
			if again != a.Retry || again && wait != want {
				missed = append(missed, a.Service+", "+a.About)
			}
		})
	}
	assert.Equal(t, 40, ours)
	assert.Equal(t, []string{
		"GitHub, primary limit, as 403",
		"GitHub, primary limit, as 429",
		"GitHub, secondary limit, as 403",
		"GitLab, too many requests, without Retry-After",
		"OpenAI, rate limit, in milliseconds too",
		"OpenAI, quota used up for good",
		"OpenAI, error that is to stay",
		"OpenAI, conflict that passes",
		"Stripe, key in use",
		"Stripe, error with an effect",
		"Azure, Cosmos DB, request rate too large",
		"Azure, OpenAI, rate limit",
		"Okta, org-wide limit",
		"Cloudflare, limit of the API",
		"Shopify, bucket full",
		"Google, Cloud Storage, request timeout",
		"Reddit, quota used up",
		"Atlassian, quota used up",
	}, missed, "it handles the other 22 as documented")
}

// ourVerdict sends a request once. It returns whether another attempt would
// follow, and the shortest wait before it.
func ourVerdict(t *testing.T, answer *http.Response) (bool, time.Duration) {
	var failure error
	tr := &retryhttp.Transport{
		Base:       roundTrip(func(*http.Request) (*http.Response, error) { return answer, nil }),
		RetryAfter: retryhttp.VendorRetryAfter,
		Policy:     retry.Policy{RetryIf: func(err error) bool { failure = err; return false }},
	}
	req, err := http.NewRequest("GET", "http://example.test/", nil)
	require.NoError(t, err)
	_, err = tr.RoundTrip(req)
	require.NoError(t, err)
	return failure != nil, retry.RetryAfterOf(failure)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
