package httptests

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The test counts which of the forty answers of public services
// go-retryablehttp v0.7.8 handles as documented, with its defaults. It decides
// by the status alone, and reads only Retry-After, in whole seconds, of 429 and
// 503. The tests of retryhttp show that a Transport handles all forty.
func TestAnswersBesideGoRetryablehttp(t *testing.T) {
	data, err := os.ReadFile("../../retryhttp/testdata/answers.json")
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

	var missed []string
	for _, a := range table.Answers {
		want, err := time.ParseDuration(a.Wait)
		require.NoError(t, err)
		answer := &http.Response{StatusCode: a.Status, Header: http.Header{"Date": {table.Date}}}
		for name, value := range a.Header {
			answer.Header.Set(name, value)
		}
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(date))                                           // go-retryablehttp uses the local clock
			again, _ := retryablehttp.DefaultRetryPolicy(t.Context(), answer, nil) // the error only has the status as text
			wait := retryablehttp.DefaultBackoff(0, time.Hour, 0, answer)
			if again != a.Retry || again && wait != want {
				missed = append(missed, a.Service+", "+a.About)
			}
		})
	}
	require.Len(t, table.Answers, 40)
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
