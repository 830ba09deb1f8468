package retrydialect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

func TestArgyllMostAttempts(t *testing.T) {
	for _, maxRetries := range []int{math.MaxInt - 1, math.MaxInt} {
		p, err := retrydialect.Argyll{MaxRetries: maxRetries, Backoff: 1000, BackoffType: "fixed"}.Policy()
		require.NoError(t, err)
		assertAttempts(t, p, math.MaxInt)
	}
}

// A max_retries of 0 is a limit of one attempt, which no job can raise.
func TestArgyllNoRetriesIsALimit(t *testing.T) {
	p, err := retrydialect.Argyll{}.Policy()
	require.NoError(t, err)
	assert.Equal(t, 1, p.ForJob(5).EffectiveMax())
}

// Every error of the transport and every status of 500 and above is retried, and
// nothing else, by a Transport too: whatever the method is and whatever Retry-After
// asks for, after the delays of the block.
func TestArgyllRetryable(t *testing.T) {
	for status := 100; status < 700; status++ {
		assert.Equal(t, status >= 500, retrydialect.ArgyllRetryable(status, nil), status)
		assert.True(t, retrydialect.ArgyllRetryable(status, errors.New("reset")), status)
	}

	policy, err := retrydialect.Argyll{MaxRetries: 3, Backoff: 1000, MaxBackoff: 2000, BackoffType: "exponential"}.Policy()
	require.NoError(t, err)
	policy.AttemptTimeout = time.Minute
	reset := errors.New("connection reset")
	hangs := errors.New("hangs")
	for _, tt := range []struct {
		outcome    string
		status     int // 0: err
		err        error
		retryAfter string
		reason     retry.Reason
		took       time.Duration
	}{
		{"a connection error", 0, reset, "", retry.ReasonExhausted, 5 * time.Second},
		{"a timeout", 0, hangs, "", retry.ReasonExhausted, 4*time.Minute + 5*time.Second},
		{"500", 500, nil, "", retry.ReasonExhausted, 5 * time.Second},
		{"503 that asks for more than MaxRetryAfter", 503, nil, "61", retry.ReasonExhausted, 5 * time.Second},
		{"503 that asks for more than max_backoff", 503, nil, "50", retry.ReasonExhausted, 5 * time.Second},
		{"503 that asks for a date", 503, nil, "Fri, 31 Dec 9999 23:59:59 GMT", retry.ReasonExhausted, 5 * time.Second},
		{"501", 501, nil, "", retry.ReasonExhausted, 5 * time.Second},
		{"429 that asks to wait", 429, nil, "1", retry.ReasonPermanent, 0},
		{"408", 408, nil, "", retry.ReasonPermanent, 0},
		{"200", 200, nil, "", retry.ReasonSuccess, 0},
	} {
		for _, method := range []string{"POST", "GET"} {
			t.Run(method+" "+tt.outcome, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, reason := policy, retry.ReasonSuccess
					p.OnEvent = func(_ context.Context, e retry.Event) {
						if e.Kind == retry.CallFinished {
							reason = e.Reason
						}
					}
					tr := argyllTransport(p)
					var sent []string
					tr.Base = answer(func(req *http.Request) (*http.Response, error) {
						text, err := io.ReadAll(req.Body)
						sent = append(sent, fmt.Sprint(string(text), err))
						if tt.err == hangs {
							<-req.Context().Done()
						}
						return &http.Response{StatusCode: tt.status, Header: http.Header{"Retry-After": {tt.retryAfter}}, Body: http.NoBody}, tt.err
					})
					req, err := http.NewRequestWithContext(t.Context(), method, "http://example.test/step", strings.NewReader("{}"))
					require.NoError(t, err)
					start := time.Now()
					_, _ = tr.RoundTrip(req)
					assert.Equal(t, tt.took, time.Since(start))
					assert.Equal(t, tt.reason, reason)
					want := []string{"{}<nil>"}
					if tt.reason == retry.ReasonExhausted {
						want = []string{want[0], want[0], want[0], want[0]}
					}
					assert.Equal(t, want, sent)
				})
			})
		}
	}
}

type answer func(*http.Request) (*http.Response, error)

func (f answer) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
