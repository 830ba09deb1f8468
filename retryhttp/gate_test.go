package retryhttp_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
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

// The function `closed` returns a Gate that a request has closed for 10 s.
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

// The test lists which responses close the gate, for how long, and for which requests.
func TestGateCloses(t *testing.T) {
	to := func(target string) edit {
		return ofRequest(func(req *http.Request) { req.URL, _ = url.Parse(target); req.Host = req.URL.Host })
	}
	host := func(host string) edit { return ofRequest(func(req *http.Request) { req.Host = host }) }
	checks := func(failure error) *retryhttp.Transport { return &retryhttp.Transport{Check: returns(failure)} }
	with := func(gate *retryhttp.Gate) *retryhttp.Transport { return &retryhttp.Transport{Gate: gate} }
	const s = time.Second
	longest := strings.Repeat("x", 1024-len("http"))
	_, tokens := retryhttp.Result(asksToWait(429, 10), nil)
	ofAGate := func(t *testing.T) error { // a Gate refuses the request for a token
		tr := &retryhttp.Transport{Base: script(asksToWait(429, 50)), Gate: new(retryhttp.Gate), Policy: retry.Policy{MaxRetryAfter: s}}
		send(t, tr)
		_, err := tr.RoundTrip(request(t, "GET"))
		require.Error(t, err)
		return fmt.Errorf("no token: %w", err)
	}
	joins := func(first, second error) *retryhttp.Transport {
		return checks(retry.Permanent(fmt.Errorf("check: %w", errors.Join(nil, first, second))))
	}
	bubble(t, "403, and Check returns the error of a Gate", func(t *testing.T) {
		tr := &retryhttp.Transport{Gate: new(retryhttp.Gate), Base: script(403, 200), Check: returns(ofAGate(t))}
		start := time.Now()
		send(t, tr)
		send(t, tr)
		assert.Zero(t, time.Since(start))
	})
	for _, tt := range []struct {
		name            string
		tr              *retryhttp.Transport
		status, seconds int
		first, second   edit
		held            time.Duration // how long the second request is held at least; 0: it is not held
	}{
		{"429 without a Retry-After", nil, 429, 0, nil, nil, 0},
		{"403 with a wait", nil, 403, 10, nil, nil, 10 * s},
		{"403, and Check returns the 429 of a token's server", checks(fmt.Errorf("no token: %w", tokens)), 403, 0, nil, nil, 0},
		{"429, and Check joins an error without a wait and the 429 of a token's server", joins(errReset, tokens), 429, 5, nil, nil, 0},
		{"429, and Check joins a wait and the 429 of a token's server", joins(retry.After(5*s, errReset), tokens), 429, 5, nil, nil, 5 * s},
		{"429, and Check joins the 429 of a token's server and a wait", joins(tokens, retry.After(5*s, errReset)), 429, 5, nil, nil, 0},
		{"429, and Check sets a wait for an error that it joins with the 429 of a token's server", &retryhttp.Transport{Check: func(_ *http.Request, resp *http.Response, _ error) error {
			return retry.After(5*s, fmt.Errorf("%w (no token: %w)", retryhttp.NewStatusError(resp), tokens))
		}}, 429, 0, nil, nil, 5 * s},
		{"429, and Check joins two errors without a wait", joins(errReset, errReset), 429, 5, nil, nil, 0},
		{"413 with a wait", nil, 413, 10, nil, nil, 0},
		{"503", nil, 503, 10, nil, nil, 0},
		{"503 with Unavailable", with(&retryhttp.Gate{Unavailable: true}), 503, 10, nil, nil, 10 * s},
		{"500 with Unavailable", with(&retryhttp.Gate{Unavailable: true}), 500, 10, nil, nil, 0},
		{"a wait that Check has found", checks(retry.After(3*s, errReset)), 429, 0, nil, nil, 3 * s},
		{"a wait below 10 ms", checks(retry.After(10*ms-1, errReset)), 429, 0, nil, nil, 0},
		{"a wait of 10 ms", checks(retry.After(10*ms, errReset)), 429, 0, nil, nil, 10 * ms},
		{"a 429 that Check takes for a success", checks(nil), 429, 10, nil, nil, 0},

		{"a Retry-After of a day", nil, 429, 86400, nil, nil, time.Minute},
		{"a Retry-After of a day, and a Max below 0", with(&retryhttp.Gate{Max: -1}), 429, 86400, nil, nil, time.Minute},
		{"a Retry-After of a day, and a Max of 5s", with(&retryhttp.Gate{Max: 5 * s}), 429, 86400, nil, nil, 5 * s},
		{"a Retry-After shorter than Max", with(&retryhttp.Gate{Max: time.Hour}), 429, 10, nil, nil, 10 * s},

		{"another path", nil, 429, 10, nil, to("http://EXAMPLE.test/x?y"), 10 * s},
		{"another host", nil, 429, 10, nil, to("http://other.test/"), 0},
		{"another port", nil, 429, 10, nil, to("http://example.test:8080/"), 0},
		{"another scheme", nil, 429, 10, nil, to("https://example.test/"), 0},
		{"another Host at the same address", nil, 429, 10, host("mallory.test"), host("alice.test"), 0},
		{"no Host, so the host of the URL counts", nil, 429, 10, nil, host(""), 10 * s},
		{"the same token", nil, 429, 10, header("Authorization", "a"), header("Authorization", "a"), 10 * s},
		{"another token", nil, 429, 10, header("Authorization", "a"), header("Authorization", "b"), 0},
		{"no token", nil, 429, 10, header("Authorization", "a"), nil, 0},
		{"a second token", nil, 429, 10, header("Authorization", "a"), header("Authorization", "a", "b"), 0},
		{"the same token in another header", nil, 429, 10, header("Authorization", "a"), header("X-Api-Key", "a"), 0},
		{"another token in a header in lower case", nil, 429, 10, header("authorization", "a"), header("authorization", "b"), 0},
		{"another token in a header in upper case", nil, 429, 10, header("X-API-KEY", "a"), header("X-API-KEY", "b"), 0},
		{"the same token in another spelling of its header", nil, 429, 10, header("X-API-Key", "a"), header("X-Api-Key", "a"), 10 * s},
		{"two tokens in two spellings", nil, 429, 10, ofRequest(func(req *http.Request) {
			req.Header["X-Api-Key"], req.Header["x-api-key"] = []string{"a"}, []string{"b"}
		}), ofRequest(func(req *http.Request) {
			req.Header["X-API-KEY"], req.Header["x-Api-Key"] = []string{"b"}, []string{"a"}
		}), 10 * s},
		{"another API key of Google", nil, 429, 10, header("X-Goog-Api-Key", "a"), header("X-Goog-Api-Key", "b"), 0},
		{"another API key of Azure", nil, 429, 10, header("Ocp-Apim-Subscription-Key", "a"), header("Ocp-Apim-Subscription-Key", "b"), 0},
		{"another API key", nil, 429, 10, header("X-Api-Key", "a"), header("X-Api-Key", "b"), 0},
		{"another key of Azure", nil, 429, 10, header("Api-Key", "a"), header("Api-Key", "b"), 0},
		{"the longest name that is stored", nil, 429, 10, to("http://" + longest + "/"), to("http://" + longest + "/"), 10 * s},
		{"a longer name", nil, 429, 10, to("http://" + longest + "x/"), to("http://" + longest + "x/"), 0},
		{"a longer Host", nil, 429, 10, host(longest + "x"), host(longest + "x"), 0},
		{"a longer scheme", nil, 429, 10, ofRequest(func(req *http.Request) { req.URL.Scheme = longest }), ofRequest(func(req *http.Request) { req.URL.Scheme = longest }), 0},
		{"no URL", nil, 429, 10, nil, ofRequest(func(req *http.Request) { req.URL = nil }), 0},
		{"a Key of the user", with(&retryhttp.Gate{Key: func(*http.Request) string { return "k" }}), 429, 10, nil, to("http://other.test/"), 10 * s},
		{"no key", with(&retryhttp.Gate{Key: func(*http.Request) string { return "" }}), 429, 10, nil, nil, 0},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tr := cmp.Or(tt.tr, new(retryhttp.Transport))
			tr.Gate, tr.Base = cmp.Or(tr.Gate, new(retryhttp.Gate)), script(asksToWait(tt.status, tt.seconds), 200)
			start := time.Now()
			for _, edit := range []edit{tt.first, tt.second} {
				req := request(t, "GET")
				edit.apply(tr, req)
				send(t, tr, req)
			}
			assertHeld(t, tt.held, time.Since(start))
		})
	}
}

// The wait at a gate is not part of the attempt: neither AttemptTimeout nor the Took of an event
// counts it. It is part of the call, so MaxElapsed counts it.
func TestGateHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen events
		var held time.Duration
		start, budget := time.Now(), &retry.Budget{Size: 1}
		base := script(reply{after: time.Second, status: 503})
		send(t, &retryhttp.Transport{
			Base: base, Gate: closed(t),
			Prepare: func(*http.Request, int, error) error { held = cmp.Or(held, time.Since(start)); return nil },
			Policy: retry.Policy{
				MaxAttempts: 9, Backoff: retry.Fixed(5 * time.Second), MaxElapsed: 20 * time.Second, AttemptTimeout: 2 * time.Second,
				HealthyAfter: 3 * time.Second, Budget: budget, OnEvent: seen.add,
			},
		})
		assertHeld(t, 10*time.Second, held)
		assert.Len(t, base.sent, 2, "the second attempt is not held, and a third attempt would start after MaxElapsed")
		assert.Zero(t, budget.Left(), "the retry takes one from the Budget, and the hold takes nothing")
		var told []string
		for _, e := range seen.all {
			assert.Equal(t, start.Add(e.Elapsed), e.Time)
			assert.False(t, e.Reset, "the time in the gate does not count for HealthyAfter")
			told = append(told, fmt.Sprint(e.Kind, " ", e.Attempt, " at ", e.Elapsed-held, " took ", e.Took))
		}
		assert.Equal(t, []string{
			"attempt_started 1 at 0s took 0s", "attempt_finished 1 at 1s took 1s", "retry_scheduled 1 at 1s took 0s",
			"attempt_started 2 at 6s took 0s", "attempt_finished 2 at 7s took 1s", "call_finished 2 at 7s took 0s",
		}, told)
		assert.Equal(t, retry.ReasonElapsed, seen.stop().Reason)
	})
}

// After a pause, the requests are sent at random times within a quarter of the wait. MaxElapsed and
// the deadline can shorten this time.
func TestGateSpread(t *testing.T) {
	const second = time.Second
	for _, tt := range []struct {
		name   string
		within time.Duration // the context's deadline
		policy retry.Policy
		spread time.Duration
	}{
		{"a quarter of the wait", time.Hour, retry.Policy{}, 2500 * ms},
		{"half of the time until MaxElapsed", time.Hour, retry.Policy{MaxElapsed: 12 * second}, second},
		{"half of the time until the deadline", 12 * second, retry.Policy{}, second},
		{"MaxRetryAfter, which the random part may exceed", time.Hour, retry.Policy{MaxRetryAfter: 10 * second}, 2500 * ms},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			const callers = 500
			end, base := time.Now().Add(10*second), script(200)
			tr := &retryhttp.Transport{Gate: closed(t), Policy: tt.policy, Base: base}
			ctx, cancel := context.WithTimeout(t.Context(), tt.within)
			defer cancel()
			var all sync.WaitGroup
			for range callers {
				all.Go(func() { send(t, tr, request(t, "GET").WithContext(ctx)) })
			}
			all.Wait()
			var tenths [10]int
			for _, at := range base.at {
				after := at.Sub(end)
				require.True(t, 0 <= after && after <= tt.spread, after)
				tenths[min(9, 10*after/tt.spread)]++
			}
			assert.NotContains(t, tenths, 0)
			assert.Less(t, slices.Max(tenths[:]), callers/5, "%v", tenths)
		})
	}
}

// A call that has itself waited until the end of the pause is not held back because of this pause.
// Only the random wait after the pause may follow, within MaxElapsed.
func TestGateAfterTheOwnWait(t *testing.T) {
	const most = 3500 * time.Millisecond
	for _, mode := range []retry.RetryAfterMode{retry.RetryAfterExact, retry.RetryAfterAtLeast, retry.RetryAfterSpread} {
		bubble(t, fmt.Sprintf("%q", mode), func(t *testing.T) {
			for range 20 {
				start := time.Now()
				base := script(asksToWait(429, 2), 200)
				resp := send(t, &retryhttp.Transport{Base: base, Gate: new(retryhttp.Gate), Policy: retry.Policy{
					MaxAttempts: 2, MaxElapsed: most, RetryAfter: mode,
				}})
				assert.Equal(t, 200, resp.StatusCode)
				assert.LessOrEqual(t, time.Since(start), most)
			}
		})
	}
}

// If a later answer asks for a longer wait, the pause becomes longer, even for requests that are
// already held. OnClose is called once for a pause, however many answers ask to wait. The key in
// OnClose does not contain the token.
func TestGateProlonged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closings []string
		start, gate := time.Now(), new(retryhttp.Gate)
		gate.OnClose = func(key string, wait time.Duration, cause error) {
			closings = append(closings, fmt.Sprint(time.Since(start), " ", key, " ", wait, ": ", cause))
		}
		req := request(t, "GET")
		req.Header.Set("Authorization", "Bearer secret")
		answers := func(status, seconds int, after time.Duration) {
			send(t, &retryhttp.Transport{Gate: gate, Base: script(reply{after: after, status: status, wait: seconds})}, req)
		}
		var all sync.WaitGroup
		for i, seconds := range []int{10, 60, 5} {
			all.Go(func() { answers(429, seconds, time.Duration(1+i)*time.Second) })
		}
		time.Sleep(time.Second + 1)
		all.Go(func() { // MaxRetryAfter allows the wait of 10 s, but not the wait of 60 s
			_, err := (&retryhttp.Transport{Gate: gate, Policy: retry.Policy{MaxRetryAfter: 30 * time.Second}}).RoundTrip(req)
			assert.Equal(t, retry.ReasonRetryAfter, retry.ReasonOf(err))
			assertHeld(t, 10*time.Second, time.Since(start)-time.Second)
		})
		answers(200, 0, 0)
		assertHeld(t, 60*time.Second, time.Since(start)-2*time.Second)
		all.Wait()
		time.Sleep(time.Minute)
		answers(429, 1, 0)
		require.Len(t, closings, 2)
		assert.Regexp(t, `^1s http://example.test [0-9a-f]+ 10s: retryhttp: GET http://example.test/0: 429 Too Many Requests$`, closings[0])
		assert.Regexp(t, `^2m\S+s http://example.test [0-9a-f]+ 1s: `, closings[1])
	})
}

// A request that is not sent does not close the gate of an outer Transport or of an outer call.
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
		assert.Positive(t, retry.RetryAfterOf(err), "an outer call gets the wait")
	})
}

// A request is not sent if the limits of its call do not allow it to wait until the pause ends, or
// if it is canceled during the pause. RetryIf is not asked. The attempt has no events. The call has
// only its CallFinished.
func TestGateStops(t *testing.T) {
	const s = time.Second
	const unsent = "retryhttp: POST example.test was not sent: the server has asked all callers to wait"
	const tooClose = "0 sent, timeout: deadline too close before the first attempt (the next delay is 10s, 1s are left): " + unsent
	asked := func(error) bool { panic("RetryIf is asked") }
	long := &retryhttp.Gate{Max: math.MaxInt64}
	for _, tt := range []struct {
		name     string
		within   time.Duration // the context's deadline; negative: the context is canceled after this time
		policy   retry.Policy
		gate     *retryhttp.Gate // nil: a Gate that is closed for 10 s
		first    any             // the answer to the first attempt; nil: this attempt is held
		attempts int
		want     string
	}{
		{"the deadline", s, retry.Policy{}, nil, nil, 0, tooClose},
		{"the deadline is the end of the pause", 10 * s, retry.Policy{MaxAttempts: 3}, nil, nil, 0,
			"0 sent, timeout: deadline too close before the first attempt (the next delay is 10s, 10s are left): " + unsent},
		{"MaxRetryAfter", time.Hour, retry.Policy{MaxRetryAfter: s}, nil, nil, 0,
			"0 sent: gave up before the first attempt (Retry-After is 10s, MaxRetryAfter is 1s): " + unsent},
		{"MaxElapsed", time.Hour, retry.Policy{MaxElapsed: s}, nil, nil, 0,
			"0 sent: out of time before the first attempt (the next delay of 10s would exceed MaxElapsed 1s): " + unsent},
		{"a policy that never retries", s, retry.Policy{MaxAttempts: 3, NonRetryable: true, RetryIf: asked}, nil, nil, 0, tooClose},
		{"an invalid policy", s, retry.Policy{MaxAttempts: -2}, nil, nil, 0,
			"0 sent, timeout: invalid policy before the first attempt (MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited; the context's deadline is too close: 1s are left): " + unsent},
		{"between two attempts", time.Hour, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(s), MaxElapsed: 9500 * ms}, new(retryhttp.Gate), 503, 1,
			"1 sent in 1s: out of time after 1 attempt (1s waited, the next delay of 9s would exceed MaxElapsed 9.5s): " + unsent + " (the attempt before: 503 Service Unavailable)"},
		{"canceled in the longest hold", -s, retry.Policy{MaxRetryAfter: math.MaxInt64}, long, nil, 0,
			"0 sent in 1s: canceled before the first attempt (context canceled: shutting down)"},
		{"canceled in the random part of a wait", -10*s - 1, retry.Policy{MaxAttempts: 3}, new(retryhttp.Gate), asksToWait(429, 10), 1,
			"1 sent in 10.000000001s: canceled after 1 attempt (10s waited, context canceled: shutting down): 429 Too Many Requests"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var seen events
			budget, sent := &retry.Budget{Size: 9}, &body{Reader: strings.NewReader("data")}
			if tt.gate == nil {
				tt.gate = closed(t)
			}
			closes := func(seconds int) {
				send(t, &retryhttp.Transport{Base: script(asksToWait(429, seconds)), Gate: tt.gate})
			}
			if tt.gate == long {
				closes(math.MaxInt)
			}
			tr := &retryhttp.Transport{Gate: tt.gate, Prepare: func(*http.Request, int, error) error {
				if tt.first == 503 {
					closes(10)
				}
				return nil
			}}
			tt.policy.OnEvent, tt.policy.Budget = seen.add, budget
			ctx, cancel := context.WithCancelCause(retry.WithBudget(t.Context(), budget))
			defer cancel(nil)
			if tt.within < 0 {
				time.AfterFunc(-tt.within, func() { cancel(errors.New("shutting down")) })
			} else {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, tt.within)
				defer stop()
			}
			req := request(t, "POST").WithContext(retryhttp.WithPolicy(ctx, tt.policy))
			req.Header["Idempotency-Key"] = nil
			req.Body, req.GetBody = sent, func() (io.ReadCloser, error) { return http.NoBody, nil }
			assert.Equal(t, tt.want, ask(t, tr, req, tt.first))
			assert.True(t, sent.closed())
			end := seen.stop()
			assert.Equal(t, tt.attempts, end.Attempt)
			assert.Contains(t, tt.want, map[retry.Reason]string{retry.ReasonDeadline: "deadline too close", retry.ReasonCanceled: "canceled",
				retry.ReasonInvalid:    "invalid policy",
				retry.ReasonRetryAfter: "gave up", retry.ReasonElapsed: "out of time"}[end.Reason])
			assert.Len(t, seen.of(retry.AttemptStarted), tt.attempts)
			assert.Len(t, seen.of(retry.AttemptFinished), tt.attempts)
			if end.Reason != retry.ReasonCanceled && tt.attempts == 0 {
				assert.Len(t, seen.all, 1)
				assert.EqualError(t, end.Err, unsent)
				assert.Equal(t, 9, budget.Left())
			}
		})
	}
}

// The policy's Enter is called once for each request, after the Gate. If a download broke off,
// Enter is not called for the attempt whose body broke, because no request is sent for it.
func TestEnterOfThePolicy(t *testing.T) {
	full := errors.New("the queue is full")
	for _, gated := range []bool{false, true} {
		for _, tt := range []struct {
			name    string
			refuses int // the attempt that Enter refuses
			sent    int
			entered []int
		}{
			{"none is refused", 9, 3, []int{1, 2, 2}},
			{"the first attempt is refused", 1, 0, []int{1}},
			{"a retry is refused", 2, 1, []int{1, 2}},
		} {
			bubble(t, fmt.Sprint(tt.name, ", a Gate: ", gated), func(t *testing.T) {
				var entered []int
				base := &source{text: "0123456789", cuts: []int{-1, 5, -1}, edit: func(n int, resp *http.Response) {
					if n == 1 {
						resp.StatusCode = 503
					}
				}}
				tr, start := &retryhttp.Transport{Base: base, Policy: resuming, Resume: true}, time.Now()
				if gated {
					tr.Gate = closed(t)
				}
				tr.Policy.Enter = func(_ context.Context, e retry.Event) error {
					if gated {
						assert.GreaterOrEqual(t, time.Since(start), 10*time.Second, "the Gate comes before Enter")
					}
					if entered = append(entered, e.Attempt); e.Attempt == tt.refuses {
						return full
					}
					return nil
				}
				resp, err := tr.RoundTrip(request(t, "GET"))
				if tt.refuses < 9 {
					assert.ErrorIs(t, err, full)
					assert.Equal(t, retry.ReasonWait, retry.ReasonOf(err))
				} else {
					require.NoError(t, err)
					assert.Equal(t, base.text, textOf(t, resp))
				}
				assert.Equal(t, tt.entered, entered)
				assert.Len(t, base.sent, tt.sent)
			})
		}
	}
}

// A pause also holds back an attempt that is waiting in Enter when the pause begins.
func TestGateAfterEnter(t *testing.T) {
	bubble(t, "the time in a first pause counts for MaxElapsed", func(t *testing.T) {
		g := new(retryhttp.Gate)
		closes := func(seconds int) { send(t, &retryhttp.Transport{Gate: g, Base: script(asksToWait(429, seconds))}) }
		closes(30) // up to 37.5s
		entered := time.Now()
		send(t, &retryhttp.Transport{
			Gate: g,
			Base: roundTrip(func(*http.Request) (*http.Response, error) {
				assert.Equal(t, time.Second, time.Since(entered))
				return response(200), nil
			}),
			Policy: retry.Policy{MaxElapsed: time.Minute, Enter: func(context.Context, retry.Event) error {
				closes(40) // may be held back for the random part of the first pause
				entered = time.Now()
				time.Sleep(time.Second)
				return nil
			}},
		})
	})
	for name, tt := range map[string]struct {
		most   time.Duration // MaxElapsed
		atOnce bool
	}{
		"held back": {0, false}, "the wait is too long": {9 * time.Second, true},
	} {
		bubble(t, name, func(t *testing.T) {
			g, start := new(retryhttp.Gate), time.Now()
			var calls sync.WaitGroup
			calls.Go(func() {
				time.Sleep(time.Second)
				send(t, &retryhttp.Transport{Gate: g, Base: script(asksToWait(429, 10))})
			})
			send(t, &retryhttp.Transport{
				Gate: g,
				Base: roundTrip(func(*http.Request) (*http.Response, error) {
					if took := time.Since(start); tt.atOnce {
						assert.Equal(t, 3*time.Second, took)
					} else {
						assertHeld(t, 10*time.Second, took-time.Second)
					}
					return response(200), nil
				}),
				Policy: retry.Policy{MaxElapsed: tt.most, Enter: func(context.Context, retry.Event) error {
					time.Sleep(3 * time.Second)
					return nil
				}},
			})
			calls.Wait()
		})
	}
}

// The error of a request that a Gate holds back has at most the first KiB of the host.
func TestAGateNamesALongHostShortly(t *testing.T) {
	g := &retryhttp.Gate{Key: func(*http.Request) string { return "all" }}
	tr := &retryhttp.Transport{Base: script(asksToWait(429, 100)), Gate: g, Policy: retry.Policy{MaxAttempts: 2, MaxRetryAfter: time.Second}}
	send(t, tr)
	req := request(t, "GET")
	req.URL = &url.URL{Scheme: "http", Host: "x\u202e" + strings.Repeat("a", 100_000)}
	_, err := tr.RoundTrip(req)
	require.ErrorContains(t, err, "GET x%E2%80%AEaaa")
	assert.Less(t, len(err.Error()), 1300)
}
