package retryhttp_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func asksToWait(status, seconds int) *http.Response {
	resp := response(status)
	if seconds > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(seconds))
	}
	return resp
}

// closed returns a Gate that a request has closed for 10 s.
func closed(t *testing.T) *retryhttp.Gate {
	gate := new(retryhttp.Gate)
	send(t, &retryhttp.Transport{Base: script(asksToWait(429, 10)), Gate: gate})
	return gate
}

func assertHeld(t *testing.T, wait, held time.Duration) {
	t.Helper()
	assert.GreaterOrEqual(t, held, wait)
	assert.LessOrEqual(t, held, wait+wait/4)
}

// What closes the gate, for how long, and for whom.
func TestGateCloses(t *testing.T) {
	type edit func(*http.Request)
	to := func(target string) edit {
		return func(req *http.Request) { req.URL, _ = url.Parse(target); req.Host = req.URL.Host }
	}
	host := func(host string) edit { return func(req *http.Request) { req.Host = host } }
	auth := func(values ...string) edit { return func(req *http.Request) { req.Header["Authorization"] = values } }
	key := func(name, value string) edit { return func(req *http.Request) { req.Header.Set(name, value) } }
	busy := func(failure error) *retryhttp.Transport {
		return &retryhttp.Transport{Check: func(_ *http.Request, resp *http.Response, _ error) error {
			if resp.StatusCode == 429 {
				return failure
			}
			return nil
		}}
	}
	with := func(gate *retryhttp.Gate) *retryhttp.Transport { return &retryhttp.Transport{Gate: gate} }
	const s = time.Second
	for _, tt := range []struct {
		name            string
		tr              *retryhttp.Transport
		status, seconds int
		first, second   edit
		held            time.Duration // the second request, at least; 0: not at all
	}{
		{"429", nil, 429, 10, nil, nil, 10 * s},
		{"429 that does not say how long", nil, 429, 0, nil, nil, 0},
		{"403 with a wait", nil, 403, 10, nil, nil, 10 * s},
		{"403 without", nil, 403, 0, nil, nil, 0},
		{"413 with a wait", nil, 413, 10, nil, nil, 0},
		{"503", nil, 503, 10, nil, nil, 0},
		{"503 with Unavailable", with(&retryhttp.Gate{Unavailable: true}), 503, 10, nil, nil, 10 * s},
		{"500 with Unavailable", with(&retryhttp.Gate{Unavailable: true}), 500, 10, nil, nil, 0},
		{"a wait that Check has found", busy(retry.After(3*s, errors.New("busy"))), 429, 0, nil, nil, 3 * s},
		{"a 429 that Check takes for a success", busy(nil), 429, 10, nil, nil, 0},

		{"a day", nil, 429, 86400, nil, nil, time.Minute},
		{"a day, Max below 0", with(&retryhttp.Gate{Max: -1}), 429, 86400, nil, nil, time.Minute},
		{"a day, Max", with(&retryhttp.Gate{Max: 5 * s}), 429, 86400, nil, nil, 5 * s},
		{"shorter than Max", with(&retryhttp.Gate{Max: time.Hour}), 429, 10, nil, nil, 10 * s},

		{"another path", nil, 429, 10, nil, to("http://example.test/x?y"), 10 * s},
		{"the host in capitals", nil, 429, 10, nil, to("http://EXAMPLE.test/"), 10 * s},
		{"another host", nil, 429, 10, nil, to("http://other.test/"), 0},
		{"another port", nil, 429, 10, nil, to("http://example.test:8080/"), 0},
		{"another scheme", nil, 429, 10, nil, to("https://example.test/"), 0},
		{"another Host at the same address", nil, 429, 10, host("mallory.test"), host("alice.test"), 0},
		{"no Host but that of the URL", nil, 429, 10, nil, host(""), 10 * s},
		{"the same token", nil, 429, 10, auth("a"), auth("a"), 10 * s},
		{"another token", nil, 429, 10, auth("a"), auth("b"), 0},
		{"no token", nil, 429, 10, auth("a"), nil, 0},
		{"a second token", nil, 429, 10, auth("a"), auth("a", "b"), 0},
		{"another API key", nil, 429, 10, key("X-Api-Key", "a"), key("X-Api-Key", "b"), 0},
		{"another key of Azure", nil, 429, 10, key("Api-Key", "a"), key("Api-Key", "b"), 0},
		{"no URL", nil, 429, 10, nil, func(req *http.Request) { req.URL = nil }, 0},
		{"a Key of its own", with(&retryhttp.Gate{Key: func(*http.Request) string { return "k" }}), 429, 10, nil, to("http://other.test/"), 10 * s},
		{"no key", with(&retryhttp.Gate{Key: func(*http.Request) string { return "" }}), 429, 10, nil, nil, 0},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tr := cmp.Or(tt.tr, new(retryhttp.Transport))
			tr.Gate, tr.Base = cmp.Or(tr.Gate, new(retryhttp.Gate)), script(asksToWait(tt.status, tt.seconds), 200)
			start := time.Now()
			for _, edit := range []edit{tt.first, tt.second} {
				req := request(t, "GET")
				if edit != nil {
					edit(req)
				}
				send(t, tr, req)
			}
			assertHeld(t, tt.held, time.Since(start))
		})
	}
}

// A request that cannot wait for the end of a pause is not sent, whatever its policy
// says of a failure. It has no attempt, and OnEvent learns nothing but the end.
func TestGateFailsAtOnce(t *testing.T) {
	const unsent = ": retryhttp: POST example.test was not sent: the server has asked all callers to wait"
	const tooClose = "retry: deadline too close before the first attempt (the next delay is 10s, 1s are left)"
	asked := func(error) bool { panic("RetryIf is asked") }
	for _, tt := range []struct {
		name   string
		within time.Duration // the context's deadline
		policy retry.Policy
		reason retry.Reason
		text   string
	}{
		{"the deadline", time.Second, retry.Policy{}, retry.ReasonDeadline, tooClose},
		{"the deadline is the end of the pause", 10 * time.Second, retry.Policy{MaxAttempts: 3}, retry.ReasonDeadline,
			"retry: deadline too close before the first attempt (the next delay is 10s, 10s are left)"},
		{"MaxRetryAfter", time.Hour, retry.Policy{MaxRetryAfter: time.Second}, retry.ReasonRetryAfter,
			"retry: gave up before the first attempt (Retry-After is 10s, MaxRetryAfter is 1s)"},
		{"MaxElapsed", time.Hour, retry.Policy{MaxElapsed: time.Second}, retry.ReasonElapsed,
			"retry: out of time before the first attempt (the next delay of 10s would exceed MaxElapsed 1s)"},
		{"a policy that would not try again", time.Second, retry.Policy{MaxAttempts: 3, NonRetryable: true, RetryIf: asked}, retry.ReasonDeadline, tooClose},
		{"an invalid policy", time.Second, retry.Policy{MaxAttempts: -2}, retry.ReasonDeadline, tooClose},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var seen events
			base, budget, sent := script(200), &retry.Budget{Size: 1}, &body{Reader: strings.NewReader("data")}
			tr := &retryhttp.Transport{Base: base, Gate: closed(t)}
			tr.Prepare = func(*http.Request, int, error) error { t.Error("prepared"); return nil }
			tt.policy.OnEvent, tt.policy.Budget = seen.add, budget
			ctx, cancel := context.WithTimeout(retry.WithBudget(t.Context(), budget), tt.within)
			defer cancel()
			req := request(t, "POST").WithContext(retryhttp.WithPolicy(ctx, tt.policy))
			req.Body = sent
			start := time.Now()
			_, err := tr.RoundTrip(req)

			assert.EqualError(t, err, tt.text+unsent)
			assert.Equal(t, tt.reason, retry.ReasonOf(err))
			assert.Equal(t, tt.reason == retry.ReasonDeadline, errors.Is(err, context.DeadlineExceeded))
			assert.Zero(t, time.Since(start), "it does not wait in vain")
			assert.Empty(t, base.sent)
			assert.True(t, sent.closed)
			assert.Equal(t, 1, budget.Left())
			require.Len(t, seen.all, 1)
			assert.Equal(t, []any{retry.CallFinished, 0, tt.reason}, []any{seen.all[0].Kind, seen.all[0].Attempt, seen.all[0].Reason})
			assert.EqualError(t, seen.all[0].Err, unsent[2:])
		})
	}
}

// A hold is no part of the attempt: not of its timeout, nor of the time that an event
// tells. It is part of the call, which has a MaxElapsed.
func TestGateHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen events
		var prepared []time.Duration
		start, budget := time.Now(), &retry.Budget{Size: 1}
		base := script(func(*http.Request) (*http.Response, error) { time.Sleep(time.Second); return response(503), nil })
		tr := &retryhttp.Transport{Base: base, Gate: closed(t), Policy: retry.Policy{
			MaxAttempts: 9, Backoff: retry.Fixed(5 * time.Second), MaxElapsed: 20 * time.Second, AttemptTimeout: 2 * time.Second,
			HealthyAfter: 3 * time.Second, Budget: budget, OnEvent: seen.add,
		}}
		tr.Prepare = func(*http.Request, int, error) error { prepared = append(prepared, time.Since(start)); return nil }
		assert.Equal(t, 503, send(t, tr).StatusCode)

		held := prepared[0]
		assertHeld(t, 10*time.Second, held)
		assert.Equal(t, []time.Duration{held, held + 6*time.Second}, prepared, "the second is held no more, the third would be at 22 s or later")
		assert.Len(t, base.sent, 2)
		assert.Zero(t, budget.Left(), "the retry paid, and the hold did not")
		var told []string
		for _, e := range seen.all {
			assert.Equal(t, start.Add(e.Elapsed), e.Time)
			assert.Zero(t, e.Resets, "a hold is not healthy")
			told = append(told, fmt.Sprint(e.Kind, " ", e.Attempt, " at ", e.Elapsed-held, " took ", e.Took))
		}
		assert.Equal(t, []string{
			"attempt_started 1 at 0s took 0s", "attempt_finished 1 at 1s took 1s", "retry_scheduled 1 at 1s took 0s",
			"attempt_started 2 at 6s took 0s", "attempt_finished 2 at 7s took 1s", "call_finished 2 at 7s took 0s",
		}, told)
		assert.Equal(t, retry.ReasonElapsed, seen.stop().Reason)
	})
}

// The spread is cut to what the limits of the call leave above the pause, and every
// caller has a time of its own.
func TestGateSpread(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for _, tt := range []struct {
		name    string
		callers int
		within  time.Duration // the context's deadline
		policy  retry.Policy
		spread  time.Duration
	}{
		{"a quarter of the wait", 10_000, time.Hour, retry.Policy{}, 2500 * time.Millisecond},
		{"MaxElapsed", 500, time.Hour, retry.Policy{MaxElapsed: 11 * second}, second},
		{"half of what the deadline leaves", 500, 12 * second, retry.Policy{}, second},
		{"MaxRetryAfter, which the spread may exceed", 500, time.Hour, retry.Policy{MaxRetryAfter: 10 * second}, 2500 * time.Millisecond},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			start := time.Now()
			came := make(chan time.Duration, tt.callers)
			base := roundTrip(func(*http.Request) (*http.Response, error) {
				came <- time.Since(start) - 10*second
				return response(200), nil
			})
			tr := &retryhttp.Transport{Gate: closed(t), Base: base, Policy: tt.policy}
			ctx, cancel := context.WithTimeout(t.Context(), tt.within)
			defer cancel()
			req := request(t, "GET").WithContext(ctx)
			var all sync.WaitGroup
			for range tt.callers {
				all.Go(func() {
					_, err := tr.RoundTrip(req)
					assert.NoError(t, err)
				})
			}
			all.Wait()
			close(came)
			require.Len(t, came, tt.callers)
			var tenths [10]int
			for after := range came {
				require.True(t, 0 <= after && after <= tt.spread, after)
				tenths[min(9, 10*after/tt.spread)]++
			}
			assert.NotContains(t, tenths, 0)
			assert.Less(t, slices.Max(tenths[:]), tt.callers/5, "%v", tenths)
		})
	}
}

// A pause is prolonged by a later answer that asks for more, for those who wait too.
// It begins once, whoever else is told the same. The one after it begins again.
func TestGateProlonged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closings []string
		start, gate := time.Now(), new(retryhttp.Gate)
		gate.OnClose = func(key string, wait time.Duration, cause error) {
			closings = append(closings, fmt.Sprint(time.Since(start), " ", key, " ", wait, ": ", cause))
		}
		answers := func(status, seconds int, after time.Duration) *retryhttp.Transport {
			return &retryhttp.Transport{Gate: gate, Base: roundTrip(func(*http.Request) (*http.Response, error) {
				time.Sleep(after)
				return asksToWait(status, seconds), nil
			})}
		}
		var all sync.WaitGroup
		for i, seconds := range []int{10, 60, 5} {
			all.Go(func() { send(t, answers(429, seconds, time.Duration(1+i)*time.Second)) })
		}
		time.Sleep(time.Second + 1)
		all.Go(func() { // may wait for the first, and not for the second
			_, err := (&retryhttp.Transport{Gate: gate, Policy: retry.Policy{MaxRetryAfter: 30 * time.Second}}).RoundTrip(request(t, "GET"))
			assert.Equal(t, retry.ReasonRetryAfter, retry.ReasonOf(err))
			assertHeld(t, 10*time.Second, time.Since(start)-time.Second)
		})
		send(t, answers(200, 0, 0))
		assertHeld(t, 60*time.Second, time.Since(start)-2*time.Second)
		all.Wait()
		time.Sleep(time.Minute)
		send(t, answers(429, 1, 0))
		require.Len(t, closings, 2)
		assert.Regexp(t, `^1s http://example.test 10s: retryhttp: GET http://example.test/: 429 Too Many Requests$`, closings[0])
		assert.Regexp(t, `^2m\S+s http://example.test 1s: `, closings[1])
	})
}

// A gate that closes between two attempts of a call stops it with what it has.
func TestGateStopsARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen events
		gate := new(retryhttp.Gate)
		tr := &retryhttp.Transport{
			Base: script(func(*http.Request) (*http.Response, error) {
				send(t, &retryhttp.Transport{Base: script(asksToWait(429, 10)), Gate: gate})
				return response(503), nil
			}),
			Gate: gate, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), MaxElapsed: 9500 * time.Millisecond, OnEvent: seen.add},
		}
		_, err := tr.RoundTrip(request(t, "GET"))
		assert.EqualError(t, err, "retry: out of time after 1 attempt (1s waited, the next delay of 9s would exceed MaxElapsed 9.5s): "+
			"retryhttp: GET example.test was not sent: the server has asked all callers to wait "+
			"(the attempt before: retryhttp: GET http://example.test/: 503 Service Unavailable)")
		var status *retryhttp.StatusError
		require.ErrorAs(t, err, &status)
		assert.Equal(t, 503, status.StatusCode)
		assert.Equal(t, 1, seen.stop().Attempt)
		assert.Equal(t, retry.ReasonElapsed, seen.stop().Reason)
		assert.Len(t, seen.of(retry.AttemptStarted), 1)
		assert.Len(t, seen.of(retry.AttemptFinished), 1)
	})
}

// A request that is not sent closes no gate around it: of a Transport, or of a function.
func TestGateInsideAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closes := func(string, time.Duration, error) { t.Error("closed") }
		outer := &retryhttp.Transport{
			Base: &retryhttp.Transport{Base: script(200), Gate: closed(t), Policy: retry.Policy{MaxRetryAfter: 1}},
			Gate: &retryhttp.Gate{OnClose: closes, Unavailable: true},
		}
		gate := &retry.Gate{OnClose: closes}
		err := gate.Hold("account", func(ctx context.Context) error {
			_, err := (&http.Client{Transport: outer}).Do(request(t, "GET").WithContext(ctx))
			return err
		})(t.Context())
		assert.ErrorContains(t, err, "was not sent")
		assert.Positive(t, retry.RetryAfterOf(err), "a loop knows how long to wait")
	})
}

// A canceled context ends a hold at once.
func TestGateCanceled(t *testing.T) {
	why := errors.New("shutting down")
	for name, tt := range map[string]struct {
		attempts int // before it
		at       time.Duration
		text     string
	}{
		"before the first attempt": {0, time.Second, "retry: canceled before the first attempt (context canceled: shutting down)"},
		"in the hold of a retry": {1, 10*time.Second + 1, // when the loop has waited, and the spread has begun
			"retry: canceled after 1 attempt (10s waited, context canceled: shutting down): retryhttp: GET http://example.test/: 429 Too Many Requests"},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			base := script(asksToWait(429, 10))
			tr := &retryhttp.Transport{Base: base, Gate: new(retryhttp.Gate), Policy: retry.Policy{MaxAttempts: 3}}
			if tt.attempts == 0 { // in the longest hold
				tr.Gate, tr.Policy.MaxRetryAfter = &retryhttp.Gate{Max: math.MaxInt64}, math.MaxInt64
				send(t, &retryhttp.Transport{Base: script(asksToWait(429, math.MaxInt)), Gate: tr.Gate})
			}
			start := time.Now()
			time.AfterFunc(tt.at, func() { cancel(why) })
			_, err := tr.RoundTrip(request(t, "GET").WithContext(ctx))
			assert.EqualError(t, err, tt.text)
			assertCanceled(t, err, why, tt.attempts)
			assert.Equal(t, tt.at, time.Since(start))
			assert.Len(t, base.sent, tt.attempts)
		})
	}
}

// The key of a request does not tell its token.
func TestGateKey(t *testing.T) {
	gate := &retryhttp.Gate{OnClose: func(key string, _ time.Duration, _ error) { assert.Regexp(t, `^http://example.test [0-9a-f]+$`, key) }}
	req := request(t, "GET")
	req.Header.Set("Authorization", "Bearer secret")
	send(t, &retryhttp.Transport{Base: script(asksToWait(429, 10)), Gate: gate}, req)
}
