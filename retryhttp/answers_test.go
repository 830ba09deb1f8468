package retryhttp_test

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// The table has forty answers of public services, taken from their own
// documentation, and says whether to retry and after what wait. The module
// httptests compares these results with go-retryablehttp's.
func TestAnswersOfPublicServices(t *testing.T) {
	data, err := os.ReadFile("testdata/answers.json")
	require.NoError(t, err)
	var table struct {
		Date    string
		Answers []struct {
			Service, About, Source string
			Status                 int
			Header                 map[string]string
			Retry                  bool
			Wait                   string
		}
	}
	require.NoError(t, json.Unmarshal(data, &table))
	require.Len(t, table.Answers, 40)
	services := map[string]bool{}
	for _, a := range table.Answers {
		services[a.Service] = true
		assert.NotEmpty(t, a.Source)
		t.Run(a.Service+", "+a.About, func(t *testing.T) {
			answer := response(a.Status)
			answer.Header.Set("Date", table.Date)
			for name, value := range a.Header {
				answer.Header.Set(name, value)
			}
			var seen events
			_, err := (&retryhttp.Transport{
				Base: script(answer), RetryAfter: retryhttp.VendorRetryAfter,
				Policy: retry.Policy{MaxAttempts: 1, OnEvent: seen.add},
			}).RoundTrip(request(t, http.MethodGet))
			require.NoError(t, err)
			failure := seen.stop().Err
			assert.Equal(t, a.Retry, !retry.IsPermanent(failure))
			wait, err := time.ParseDuration(a.Wait)
			require.NoError(t, err)
			assert.Equal(t, wait, retry.RetryAfterOf(failure))
		})
	}
	assert.GreaterOrEqual(t, len(services), 10)
}
