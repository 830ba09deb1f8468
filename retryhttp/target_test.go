package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
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

// failing is a Check that takes every status from 400 on for a failure that may pass.
func failing(req *http.Request, resp *http.Response, err error) error {
	if err == nil && resp.StatusCode >= 400 {
		return retryhttp.NewStatusError(resp)
	}
	return err
}

// take empties a Budget down to what is to be left, and returns it.
func take(b *retry.Budget, left int) *retry.Budget {
	for b.Left() > left {
		b.Take()
	}
	return b
}

// What each answer puts back, and what a retry after it takes from the Budget of its target.
func TestWhatAnAnswerSays(t *testing.T) {
	costs := func(t *testing.T, answer any, own bool) (share bool, first, second int) {
		tr := &retryhttp.Transport{Base: script(answer), Check: failing}
		b := tr.TargetBudget(request(t, "GET"))
		if own {
			b = &retry.Budget{Size: 100}
			tr.Policy.Budget = b
		}
		take(b, 5)
		for range 10 {
			_, _ = tr.RoundTrip(request(t, "GET"))
		}
		share, tr.Policy.MaxAttempts = b.Left() > 5, 2
		take(b, 5)
		_, _ = tr.RoundTrip(request(t, "GET"))
		first, tr.Policy.MaxAttempts = 5-b.Left(), 3
		take(b, 4)
		_, _ = tr.RoundTrip(request(t, "GET"))
		return share, first, 4 - b.Left() - first
	}
	type says struct {
		share         bool
		first, second int
	}
	for status := 200; status < 700; status++ {
		want := says{}
		switch {
		case status < 400:
			want.share = true
		case status == 401, status == 407:
			want = says{true, 0, 1}
		case status == 408, status == 421, status == 425, status == 429, status >= 500:
			want = says{false, 1, 1}
		default:
			want = says{true, 1, 1}
		}
		share, first, second := costs(t, status, false)
		require.Equal(t, want, says{share, first, second}, status)
	}
	waits := response(401)
	waits.Header.Set("Retry-After", "1")
	for name, answer := range map[string]any{"Retry-After": waits, "an error": errors.New("boom")} {
		synctest.Test(t, func(t *testing.T) {
			share, first, second := costs(t, answer, false)
			assert.Equal(t, says{false, 1, 1}, says{share, first, second}, name)
		})
	}
	_, first, second := costs(t, 401, true)
	assert.Equal(t, []int{1, 1}, []int{first, second}, "from a Budget that the user has set")
}

// What retries that take nothing need, and what they give back.
func TestRetriesThatTakeNothing(t *testing.T) {
	once := func(status int) http.RoundTripper { // fails each request once
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if retryhttp.AttemptOf(req.Context()) == 1 {
				return response(status), nil
			}
			return response(200), nil
		})
	}
	forEver := func(status int) http.RoundTripper {
		return roundTrip(func(*http.Request) (*http.Response, error) { return response(status), nil })
	}
	slow := func(context.Context, retry.Event) { time.Sleep(time.Millisecond) }
	for _, tt := range []struct {
		name  string
		edit  func(*retryhttp.Transport)
		base  http.RoundTripper
		has   int // in the Budget before
		calls int // at once
		sent  int
		lost  int
	}{
		{"a token expires for all calls", nil, once(401), 10, 100, 200, 0},
		{"the same, and OnEvent takes its time", func(tr *retryhttp.Transport) { tr.Policy.OnEvent = slow }, once(401), 10, 100, 200, 0},
		{"the same after an outage", nil, once(401), 0, 100, 200, 0},
		{"the credentials of a proxy expire", nil, once(407), 0, 100, 200, 0},
		{"a token that is not renewed", nil, forEver(401), 10, 1000, 2000 + 10 + 223, 1000},
		{"each call meets a 401, and then an outage", nil, roundTrip(func(req *http.Request) (*http.Response, error) {
			if retryhttp.AttemptOf(req.Context()) == 1 {
				return response(401), nil
			}
			return response(503), nil
		}), 10, 1000, 2000 + 10 + 100, 1000},
		{"401 with a Budget of the user", func(tr *retryhttp.Transport) { tr.Policy.Budget = &retry.Budget{Size: 10} }, once(401), 10, 100, 110, 90},
		{"421 for ever", nil, forEver(421), 10, 1000, 1010, 1000},
		{"409 for ever, as LLM retries it", nil, forEver(409), 10, 1000, 1010 + 112, 1000},
		{"404 until it is there", nil, once(404), 10, 100, 100 + 10 + 10, 80},
		{"503 after an outage", nil, once(503), 0, 10, 10, 10},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var mu sync.Mutex
			sent, lost := 0, 0
			tr := &retryhttp.Transport{Check: failing, Policy: retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second)}}
			tr.Base = roundTrip(func(req *http.Request) (*http.Response, error) {
				mu.Lock()
				sent++
				mu.Unlock()
				return tt.base.RoundTrip(req)
			})
			if tt.edit != nil {
				tt.edit(tr)
			}
			take(tr.TargetBudget(request(t, "GET")), tt.has)
			var calls sync.WaitGroup
			for range tt.calls {
				calls.Go(func() {
					if failed := send(t, tr).StatusCode != 200; failed {
						mu.Lock()
						lost++
						mu.Unlock()
					}
				})
			}
			calls.Wait()
			assert.Equal(t, []int{tt.sent, tt.lost}, []int{sent, lost})
		})
	}
	for name, healthy := range map[string]time.Duration{"canceled in the wait": 0, "the same after a healthy attempt": time.Millisecond} {
		bubble(t, name, func(t *testing.T) {
			tr := &retryhttp.Transport{Check: failing, Policy: retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second), HealthyAfter: healthy}}
			tr.Base = roundTrip(func(*http.Request) (*http.Response, error) { time.Sleep(healthy); return response(401), nil })
			b, of := take(tr.TargetBudget(request(t, "GET")), 2), take(&retry.Budget{Size: 20}, 10)
			for range 9 { // their shares make no whole retry
				ctx, cancel := context.WithCancel(retry.WithBudget(t.Context(), of))
				time.AfterFunc(healthy+time.Second/2, cancel)
				_, err := tr.RoundTrip(request(t, "GET").WithContext(ctx))
				assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
			}
			assert.Equal(t, []int{2, 10}, []int{b.Left(), of.Left()})
		})
	}
	bubble(t, "a Check that outlasts its attempt makes a timeout of a 401", func(t *testing.T) {
		tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 5, AttemptTimeout: time.Second}, Base: forEver(401)}
		tr.Check = func(req *http.Request, resp *http.Response, err error) error {
			time.Sleep(time.Second + 1)
			return failing(req, resp, err)
		}
		b := take(tr.TargetBudget(request(t, "GET")), 0)
		_, err := tr.RoundTrip(request(t, "GET"))
		assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(err))
		for range 9 {
			b.Success()
		}
		assert.Zero(t, b.Left(), "the 401 has put back no share")
	})
	bubble(t, "a Budget of the context is charged", func(t *testing.T) {
		tr := &retryhttp.Transport{Check: failing, Policy: retry.Policy{MaxAttempts: 5}, Base: once(401)}
		take(tr.TargetBudget(request(t, "GET")), 0)
		of := &retry.Budget{Size: 1}
		ctx := retry.WithBudget(t.Context(), of)
		assert.Equal(t, 200, send(t, tr, request(t, "GET").WithContext(ctx)).StatusCode)
		assert.Zero(t, of.Left())
		assert.Equal(t, 401, send(t, tr, request(t, "GET").WithContext(ctx)).StatusCode)
	})
	for name, edit := range map[string]func(*testing.T, *retryhttp.Transport, *http.Request){
		"Prepare fails before the retry": func(_ *testing.T, tr *retryhttp.Transport, _ *http.Request) {
			tr.Prepare = func(_ *http.Request, attempt int, _ error) error {
				if attempt > 1 {
					return errors.New("no token")
				}
				return nil
			}
		},
		"there is no body for the retry": func(_ *testing.T, _ *retryhttp.Transport, req *http.Request) {
			req.Body = io.NopCloser(strings.NewReader("x"))
			req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
		},
		"a Gate refuses the retry": func(t *testing.T, tr *retryhttp.Transport, _ *http.Request) {
			tr.Gate = &retryhttp.Gate{Max: time.Hour}
			time.AfterFunc(time.Second/2, func() {
				busy := response(429)
				busy.Header.Set("Retry-After", "1800")
				other := &retryhttp.Transport{Gate: tr.Gate, Base: roundTrip(func(*http.Request) (*http.Response, error) { return busy, nil })}
				send(t, other)
			})
		},
	} {
		bubble(t, "not sent: "+name, func(t *testing.T) {
			tr := &retryhttp.Transport{Check: failing, Policy: retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second)}, Base: forEver(503)}
			b, of := tr.TargetBudget(request(t, "GET")), &retry.Budget{Size: 10}
			req := request(t, "GET").WithContext(retry.WithBudget(t.Context(), of))
			edit(t, tr, req)
			_, err := tr.RoundTrip(req)
			require.Error(t, err)
			assert.Equal(t, []int{10, 10}, []int{b.Left(), of.Left()}, err)
		})
	}
	bubble(t, "all targets beyond 1,000 share a Budget", func(t *testing.T) {
		tr := &retryhttp.Transport{Check: failing, Policy: retry.Policy{MaxAttempts: 5}, Base: forEver(503)}
		for n := range 1001 {
			req := request(t, "GET")
			req.URL.Host = fmt.Sprintf("h%d.test", n)
			require.Equal(t, retry.ReasonExhausted, retry.ReasonOf(retryhttp.ErrorOf(send(t, tr, req))))
		}
		var err error
		for range 3 {
			err = retryhttp.ErrorOf(send(t, tr))
		}
		assert.ErrorContains(t, err, "for all targets beyond 1,000, of which this is one; see retryhttp.Transport.Budgets")
	})
	bubble(t, "Budgets panics", func(t *testing.T) {
		body := &body{Reader: strings.NewReader("x")}
		req := request(t, "POST")
		req.Body = body
		tr := &retryhttp.Transport{Budgets: func(*http.Request) *retry.Budget { panic("boom") }}
		assert.PanicsWithValue(t, "boom", func() { _, _ = tr.RoundTrip(req) })
		assert.True(t, body.closed)
	})
	bubble(t, "a call that OnEvent makes has a Budget of its own", func(t *testing.T) {
		tr := &retryhttp.Transport{Check: failing, Policy: retry.Policy{MaxAttempts: 2}, Base: once(401)}
		own := &retry.Budget{Size: 5}
		tr.Policy.OnEvent = func(ctx context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				_ = retry.Do(ctx, retry.Policy{MaxAttempts: 2, Budget: own}, func(context.Context) error { return errors.New("boom") })
			}
		}
		assert.Equal(t, 200, send(t, tr).StatusCode)
		assert.Equal(t, 4, own.Left())
	})
}

// Whatever calls meet, a Budget holds its Size and what successes brought, less the retries
// that were sent and that count: nothing is lost, and nothing is made up. The histories
// are too short for time to bring anything, or for anything to fade.
func TestWhatABudgetHolds(t *testing.T) {
	histories := 1000
	if os.Getenv("RETRY_LONG") != "" {
		histories = 100_000
	}
	statuses := []any{200, 200, 200, 204, 302, 400, 401, 401, 401, 404, 407, 408, 409, 421, 425, 429, 500, 503, 503, errors.New("boom"), errUnsent}
	ends := map[retry.Reason]int{}
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(histories) {
			r := rand.New(rand.NewPCG(seed, 1))
			var h history
			tr := &retryhttp.Transport{Check: failing, Base: &h, Prepare: func(*http.Request, int, error) error {
				if h.answers[h.n] != errUnsent {
					return nil
				}
				h.n++
				return errUnsent
			}}
			b := take(tr.TargetBudget(request(t, "GET")), r.IntN(11))
			held := float64(b.Left()) * 10 // in tenths of a retry
			for call := range 1 + r.IntN(30) {
				h = history{healthy: time.Duration(r.IntN(2)) * 3 * time.Millisecond}
				for range 20 {
					h.answers = append(h.answers, statuses[r.IntN(len(statuses))])
					h.take = append(h.take, time.Duration(r.IntN(5))*time.Millisecond)
				}
				h.answers[19], h.take[19] = 200, 0 // ends a call that begins anew again and again
				tr.Policy = retry.Policy{MaxAttempts: 1 + r.IntN(5), HealthyAfter: h.healthy, Backoff: retry.Fixed(2 * time.Millisecond)}
				if r.IntN(3) == 0 {
					class := &retry.Class{Name: "some", NonRetryable: r.IntN(3) == 0, MaxAttempts: r.IntN(3)}
					tr.Policy.Classify = func(error) *retry.Class { return class }
				}
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(3) == 0 {
					time.AfterFunc(time.Duration(r.IntN(15))*time.Millisecond+1, cancel)
				}
				resp, err := tr.RoundTrip(request(t, "GET").WithContext(ctx))
				cancel()
				if err == nil {
					err = retryhttp.ErrorOf(resp)
				}
				shares, retries, free := h.sent()
				held += float64(shares) - 10*float64(retries)
				require.GreaterOrEqual(t, held, 0., "seed %d, call %d", seed, call)
				require.Equal(t, int(held)/10, b.Left(), "seed %d, call %d: %+v", seed, call, h)
				reason := retry.ReasonOf(err)
				if ends[reason]++; reason == retry.ReasonBudget {
					require.False(t, free, "seed %d, call %d: %+v", seed, call, h)
					require.Zero(t, b.Left())
				}
			}
		}
	})
	for _, reason := range []retry.Reason{retry.ReasonSuccess, retry.ReasonExhausted, retry.ReasonBudget, retry.ReasonCanceled, retry.ReasonNonRetryable} {
		assert.NotZero(t, ends[reason], reason)
	}
}

var errUnsent = errors.New("no token")

// A history is a server that answers the attempts of one call, and remembers them.
type history struct {
	answers []any // of each attempt: a status, or an error
	take    []time.Duration
	healthy time.Duration
	n       int // attempts
}

func (h *history) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := h.answers[h.n]
	time.Sleep(h.take[h.n])
	h.n++
	if status, is := answer.(int); is {
		return response(status), nil
	}
	return nil, answer.(error)
}

// sent returns what was sent: the answers that put a share back, the retries that count,
// and whether one after the last attempt would be free.
func (h *history) sent() (shares, retries int, free bool) {
	cured := false
	for n := range h.n {
		if n > 0 && !free && h.answers[n] != errUnsent {
			retries++
		}
		status, _ := h.answers[n].(int)
		switch status {
		case 0, 408, 421, 425, 429, 500, 503:
			free = false
		case 401, 407:
			free, cured = !cured, true
			shares++
		default:
			free = false
			shares++
		}
		free = free || h.healthy > 0 && h.take[n] >= h.healthy
	}
	return shares, retries, free
}
