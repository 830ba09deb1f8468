package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// The numbers can be compared only if every client sends the same requests.
func TestEveryClientDoesTheSame(t *testing.T) {
	for _, c := range httpClients {
		for failures, sent := range map[int]int{0: 1, 2: 3, 3: 4} {
			script := &answers{failures: failures}
			client := &http.Client{Transport: c.prepare(script)}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.test", nil)
			require.NoError(t, err)
			for n := 1; n <= 2; n++ {
				status, text, err := get(client, req)
				require.NoError(t, err)
				assert.Equal(t, []any{http.StatusOK, "hello", n * sent}, []any{status, text, script.n}, c.name)
			}
		}
	}
}

// A CheckRetry function of go-retryablehttp first looks at the error of the context. It works as a
// Check without a change, because the context of the attempt is not done when Check is called.
func TestCheckRetryOfRetryablehttpWorksAsACheck(t *testing.T) {
	for name, checkRetry := range map[string]retryablehttp.CheckRetry{
		"default": retryablehttp.DefaultRetryPolicy, "with the error": retryablehttp.ErrorPropagatedRetryPolicy,
	} {
		script := &answers{failures: 2}
		server := httptest.NewServer(script)
		client := &http.Client{Transport: &retryhttp.Transport{
			Base: server.Client().Transport, Policy: retry.Policy{MaxAttempts: httpAttempts, AttemptTimeout: time.Minute}, //retry:vet-ignore policyliteral no waits are measured
			Check: func(req *http.Request, resp *http.Response, err error) error {
				switch again, failure := checkRetry(req.Context(), resp, err); {
				case again && err == nil:
					return retryhttp.NewStatusError(resp)
				case again:
					return err
				default:
					return retry.Permanent(failure)
				}
			},
		}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		status, text, err := get(client, req)
		require.NoError(t, err)
		assert.Equal(t, []any{http.StatusOK, "hello", 3}, []any{status, text, script.n}, name)
		server.Close()
	}
}
