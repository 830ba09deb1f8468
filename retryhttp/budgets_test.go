package retryhttp_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// The function `failing` is a Check that returns an error that is not permanent for every status
// from 400 on.
func failing(req *http.Request, resp *http.Response, err error) error {
	if err == nil && resp.StatusCode >= 400 {
		return retryhttp.NewStatusError(resp)
	}
	return err
}

// The function `take` takes retries from b until only `left` retries are left, as in an outage
// whose Grace is over. It returns b.
func take(b *retry.Budget, left int) *retry.Budget {
	for b.Left() > left {
		b.Grace = 0
		b.Take()
	}
	return b
}

// A charge says what an answer does to the Budget: whether the answer adds the Ratio to the Budget,
// and how many retries the first and the second retry of a call take from the Budget.
type charge struct {
	share         bool
	first, second int
}

// chargeOf returns the charge of an answer, which is a step of `script`. If `own` is nil, the
// Transport keeps the Budget of the target.
func chargeOf(t *testing.T, answer any, check retryhttp.CheckFunc, own *retry.Budget) (c charge) {
	tr := &retryhttp.Transport{Base: script(answer), Check: check, Policy: retry.Policy{Budget: own}}
	b := cmp.Or(own, tr.TargetBudget(request(t, "GET")))
	took := func(of, attempts, times int) int {
		take(b, of)
		tr.Policy.MaxAttempts = attempts
		for range times {
			_, _ = tr.RoundTrip(request(t, "GET"))
		}
		return of - b.Left()
	}
	c.share, c.first = took(5, 1, 10) < 0, took(5, 2, 1)
	c.second = took(4, 3, 1) - c.first
	return c
}

// The test covers, for each status, whether the answer adds the Ratio to the Budget of its target,
// and whether the retry after the answer takes a retry from this Budget.
func TestBudgetAfterEachStatus(t *testing.T) {
	for status := 200; status < 700; status++ {
		want := charge{true, 1, 1}
		switch {
		case status < 400:
			want = charge{true, 0, 0}
		case status == 401, status == 407:
			want = charge{true, 0, 1}
		case status == 408, status == 421, status == 425, status == 429, status == 498, status >= 500:
			want = charge{false, 1, 1}
		}
		require.Equal(t, want, chargeOf(t, status, failing, nil), status)
	}
	synctest.Test(t, func(t *testing.T) {
		assert.Equal(t, charge{false, 1, 1}, chargeOf(t, asksToWait(401, 1), failing, nil), "Retry-After")
	})
	assert.Equal(t, charge{false, 1, 1}, chargeOf(t, errReset, failing, nil))
	assert.Equal(t, charge{false, 1, 1}, chargeOf(t, 401, failing, &retry.Budget{Size: 100}), "a Budget that the user has set is charged")
}

// Answers that are not retried, and answers below 400 that Check rejects, change the Budget of
// their target as docs/budget.md says.
func TestBudgetAfterARejectedAnswer(t *testing.T) {
	page, err := os.ReadFile("../docs/budget.md")
	require.NoError(t, err)
	const (
		waits    = "any 4xx with a Retry-After | nothing | one retry"
		other4xx = "any other 4xx, such as a 404 | a tenth of a retry (`Ratio`) | one retry"
		none     = "5xx, or no answer | nothing | one retry"
		below400 = "an answer below 400 that `Check` rejects | nothing | one retry"
	)
	llm := func(req *http.Request, resp *http.Response, err error) error { // LLM does not read the stream of a GET
		post := *req
		post.Method = "POST"
		return retryhttp.LLM(retry.Policy{}).Check(&post, resp, err)
	}
	for _, tt := range []struct {
		name   string
		row    string // the beginning of the row in docs/budget.md
		check  retryhttp.CheckFunc
		answer func() *http.Response
		want   charge
	}{
		{"a 404", other4xx, nil, func() *http.Response { return response(404) }, charge{true, 0, 0}},
		{"a 403, under LLM", other4xx, llm, func() *http.Response { return response(403) }, charge{true, 0, 0}},
		{"a 404 with a Retry-After", waits, nil, func() *http.Response { return asksToWait(404, 1) }, charge{false, 0, 0}},
		{"a 501", none, nil, func() *http.Response { return response(501) }, charge{false, 0, 0}},
		{"a 200", below400, returns(errReset), func() *http.Response { return response(200) }, charge{false, 1, 1}},
		{"a 304", below400, returns(errReset), func() *http.Response { return response(304) }, charge{false, 1, 1}},
		{"a 200, permanent", below400, returns(retry.Permanent(errReset)), func() *http.Response { return response(200) }, charge{false, 0, 0}},
		{"a body that breaks off", below400, retryhttp.WholeBody(nil, 100), func() *http.Response { return responseWith(200, breaks("fir", errReset)) }, charge{false, 1, 1}},
		{"an error event", below400, llm, func() *http.Response { return streamOf(overloaded) }, charge{false, 1, 1}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			assert.Contains(t, string(page), "\n| "+tt.row)
			answer := func(*http.Request) (*http.Response, error) { return tt.answer(), nil }
			assert.Equal(t, tt.want, chargeOf(t, answer, tt.check, nil))
		})
	}
}

// If the Transport did not report the end of each request to the Budgets, they would keep every
// target for ever.
func TestBudgetOfATargetIsForgottenAfterItsRequests(t *testing.T) {
	tr := &retryhttp.Transport{Base: script(200), Policy: retry.Policy{MaxAttempts: 2}}
	hedge := &retryhttp.Hedge{Base: script(200), After: time.Hour}
	for _, tt := range []struct {
		name   string
		sends  http.RoundTripper
		budget func(*http.Request) *retry.Budget
	}{
		{"Transport", tr, tr.TargetBudget},
		{"Hedge", hedge, hedge.TargetBudget},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			req := request(t, "GET")
			for i := range 1000 {
				req.URL = &url.URL{Scheme: "http", Host: fmt.Sprintf("host%d", i)}
				send(t, tt.sends, req)
			}
			time.Sleep(10 * time.Second)
			req.URL = &url.URL{Scheme: "http", Host: "another"}
			assert.Equal(t, "http://another", tt.budget(req).Name)
		})
	}
}

// The rows list which retries take nothing from the Budget, and which failures add the Ratio to the
// Budget.
func TestRetriesThatSkipTheBudget(t *testing.T) {
	slow := func(context.Context, retry.Event) { time.Sleep(time.Millisecond) }
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		status int // the status of a failure; negative: only the first failure has this status, and the others have a 503
		times  int // how often each request fails
		has    int // how many retries the Budget holds before the calls
		calls  int // how many calls start at the same time
		sent   int64
		lost   int64
	}{
		{"a token expires for all calls", retry.Policy{}, 401, 1, 10, 100, 200, 0},
		{"a token expires for all calls, and OnEvent is slow", retry.Policy{OnEvent: slow}, 401, 1, 10, 100, 200, 0},
		{"a token expires for all calls after an outage", retry.Policy{}, 401, 1, 0, 100, 200, 0},
		{"the credentials of a proxy expire", retry.Policy{}, 407, 1, 0, 100, 200, 0},
		{"a token that is not renewed", retry.Policy{}, 401, 9, 10, 1000, 3000 + 110, 1000},
		{"each call meets a 401, and then an outage", retry.Policy{}, -401, 9, 10, 1000, 3000, 1000},
		{"401 with a Budget of the user", retry.Policy{Budget: &retry.Budget{Size: 10}}, 401, 1, 10, 100, 110, 90},
		{"421 for ever", retry.Policy{}, 421, 9, 10, 1000, 2000, 1000},
		{"409 for ever, if Check retries it", retry.Policy{}, 409, 9, 10, 1000, 2000 + 111, 1000},
		{"404 until the object exists", retry.Policy{}, 404, 1, 10, 100, 200, 0},
		{"503 after an outage", retry.Policy{}, 503, 1, 0, 10, 10, 10},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var lost atomic.Int64
			tt.policy.MaxAttempts, tt.policy.Backoff = 5, retry.Fixed(time.Second)
			base := script(func(req *http.Request) (*http.Response, error) {
				switch n := retryhttp.AttemptOf(req.Context()); {
				case n > tt.times:
					return response(200), nil
				case tt.status < 0 && n > 1:
					return response(503), nil
				default:
					return response(max(tt.status, -tt.status)), nil
				}
			})
			tr := &retryhttp.Transport{Check: failing, Policy: tt.policy, Base: base}
			take(tr.TargetBudget(request(t, "GET")), tt.has)
			var calls sync.WaitGroup
			for range tt.calls {
				calls.Go(func() {
					if send(t, tr).StatusCode != 200 {
						lost.Add(1)
					}
				})
			}
			calls.Wait()
			assert.Equal(t, []int64{tt.sent, tt.lost}, []int64{int64(base.count()), lost.Load()})
		})
	}
	bubble(t, "a Check that takes longer than AttemptTimeout turns a 401 into a timeout", func(t *testing.T) {
		tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 5, AttemptTimeout: time.Second}, Base: script(401)}
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
	for name, edit := range map[string]edit{
		"there is no body for the retry": ofRequest(func(req *http.Request) {
			req.Body, req.GetBody = io.NopCloser(strings.NewReader("x")), func() (io.ReadCloser, error) { return nil, errReset }
		}),
		"there is no token in time": ofTransport(func(tr *retryhttp.Transport) {
			tr.Policy.AttemptTimeout = time.Second
			tr.Prepare = func(req *http.Request, attempt int, _ error) error {
				if attempt > 1 {
					<-req.Context().Done()
				}
				return req.Context().Err()
			}
		}),
		"a Gate refuses the retry": func(tr *retryhttp.Transport, req *http.Request) {
			tr.Gate = &retryhttp.Gate{Max: time.Hour}
			time.AfterFunc(time.Second/2, func() {
				send(t, &retryhttp.Transport{Gate: tr.Gate, Base: script(asksToWait(429, 1800))}, req.WithContext(context.Background()))
			})
		},
	} {
		bubble(t, "not sent: "+name, func(t *testing.T) {
			tr := &retryhttp.Transport{Base: script(503), Policy: retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second)}}
			b, of := tr.TargetBudget(request(t, "GET")), &retry.Budget{Size: 10}
			req := request(t, "GET").WithContext(retry.WithBudget(t.Context(), of))
			edit(tr, req)
			_, err := tr.RoundTrip(req)
			require.Error(t, err)
			assert.Equal(t, []int{10, 10}, []int{b.Left(), of.Left()}, err)
		})
	}
	bubble(t, "the class of the user keeps its curve and its limit", func(t *testing.T) {
		class := &retry.Class{Name: "401", Backoff: retry.Fixed(time.Minute), MaxAttempts: 2}
		tr := &retryhttp.Transport{Check: failing, Base: script(401, 401, 200), Policy: retry.Policy{
			MaxAttempts: 5, Backoff: retry.Fixed(time.Second), Classify: func(error) *retry.Class { return class },
		}}
		b := take(tr.TargetBudget(request(t, "GET")), 0)
		began := time.Now()
		resp := send(t, tr)
		assert.Equal(t, 401, resp.StatusCode)
		assert.Equal(t, []any{retry.ReasonExhausted, time.Minute}, []any{retry.ReasonOf(retryhttp.ErrorOf(resp)), time.Since(began)})
		assert.Equal(t, []any{0, false}, []any{b.Left(), class.SkipBudget}, "the Class itself is not changed")
	})
	bubble(t, "Budgets of the context, and of a call that OnEvent makes, are charged", func(t *testing.T) {
		own, of := &retry.Budget{Size: 5}, &retry.Budget{Size: 2}
		tr := &retryhttp.Transport{Check: failing, Base: script(401, 200, 401), Policy: retry.Policy{MaxAttempts: 2, OnEvent: func(ctx context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				_ = retry.Do(ctx, retry.Policy{MaxAttempts: 2, Budget: own}, func(context.Context) error { return errReset })
			}
		}}}
		take(tr.TargetBudget(request(t, "GET")), 0)
		req := request(t, "GET").WithContext(retry.WithBudget(t.Context(), of))
		assert.Equal(t, 200, send(t, tr, req).StatusCode)
		assert.Equal(t, 401, send(t, tr, req).StatusCode)
		assert.Equal(t, []int{4, 0}, []int{own.Left(), of.Left()})
	})
}

// The error contains the target in punycode, so it has no control characters.
func TestBudgetErrorEscapesTheHost(t *testing.T) {
	req := request(t, "GET")
	req.URL.Host = "ex\u009b31m.test"
	resp := send(t, &retryhttp.Transport{Base: script(503), Policy: retry.Policy{MaxAttempts: 20}}, req)
	assert.ErrorContains(t, retryhttp.ErrorOf(resp), "for http://xn--ex31m-yea.test; to wait")
}

// A single call that waits for a server to start uses up the default Budget of the target. Its
// error says what to set.
func TestBudgetOfACallThatWaits(t *testing.T) {
	const see, set = "for http://example.test; see retryhttp.Transport.Budgets", "for http://example.test; to wait until a server has started, set retryhttp.Transport.Budgets to retryhttp.NoBudgets"
	for _, row := range []struct {
		name     string
		has      int // how many retries the Budget holds before the calls
		policy   retry.Policy
		attempts int
		text     string // a part of the error; "": the call ends before the Budget is empty
	}{
		{"30 attempts", 10, retry.Policy{MaxAttempts: 30}, 11, set},
		{"two minutes", 10, retry.Policy{MaxElapsed: 2 * time.Minute}, 11, set},
		{"no limit", 10, retry.Policy{MaxAttempts: retry.Unlimited}, 11, set},
		{"eleven attempts", 10, retry.Policy{MaxAttempts: 11}, 11, ""},
		{"another call has used the Budget too", 9, retry.Policy{MaxAttempts: 30}, 10, see},
	} {
		bubble(t, row.name, func(t *testing.T) {
			row.policy.Backoff = retry.Fixed(2 * time.Second)
			tr := &retryhttp.Transport{Base: script(503), Policy: row.policy}
			take(tr.TargetBudget(request(t, "GET")), row.has)
			err := retryhttp.ErrorOf(send(t, tr))
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, row.attempts, e.Attempts)
			assert.Equal(t, row.text != "", e.Reason == retry.ReasonBudget)
			assert.ErrorContains(t, err, row.text)
		})
	}
}

// If the field Budgets is nil, each target has a Budget, and the error names the target. NoBudgets
// and a Budget of the policy replace this Budget. A Budget of the context is charged first.
func TestBudgetsOfTargets(t *testing.T) {
	const hint = ", for http://db:8080; see retryhttp.Transport.Budgets)"
	own := &retry.Budget{Size: 1}
	for _, row := range []struct {
		name    string
		policy  *retry.Budget
		budgets func(*http.Request) *retry.Budget
		lent    *retry.Budget // the Budget of the context
		sent    int           // how many attempts five requests make
		text    string        // a part of the last error
	}{
		{"nothing is set", nil, nil, nil, 15, "retry budget exhausted after 1 attempt (a retry would have waited 1ms" + hint},
		{"NoBudgets", nil, retryhttp.NoBudgets, nil, 20, "attempts exhausted after 4 attempts"},
		{"a Budget of the policy", own, nil, nil, 6, "retry budget exhausted after 1 attempt (a retry would have waited 1ms): "},
		{"a Budget of the field Budgets", nil, always(own), nil, 5, "(a retry would have waited 1ms): "},
		{"a Budget of the context too", nil, nil, &retry.Budget{Size: 3}, 8, "(a retry would have waited 1ms): "},
	} {
		bubble(t, row.name, func(t *testing.T) {
			base := script(503)
			rt := &retryhttp.Transport{Base: base, Budgets: row.budgets, Policy: retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(ms), Budget: row.policy}}
			lent := row.lent
			ask := func(url string) error {
				return retryhttp.ErrorOf(send(t, rt, httptest.NewRequestWithContext(retry.WithBudget(t.Context(), lent), "GET", url, nil)))
			}
			var err error
			for range 5 {
				err = ask("http://db:8080/rows")
				time.Sleep(time.Second) // the Grace is over before the Budget is empty
			}
			assert.Len(t, base.sent, row.sent)
			assert.ErrorContains(t, err, row.text)
			if row.name == "nothing is set" {
				assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(ask("http://DB.:8080/")), "the same target")
				assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(ask("https://db:8080/")), "another scheme")
				assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(ask("http://db:8081/")), "another port")
				lent = &retry.Budget{}
				assert.ErrorContains(t, ask("http://db:8080/"), "would have waited 1ms): ", "the Budget of the context is asked first")
			}
		})
	}
}

// blips are short failures of a server. Under the default Budget of a target, no call fails because
// of a blip. First the client makes `rate` calls a second for the time `warm`. Then the server
// fails for the time `down`, and `burst` calls start at the same time. Meanwhile the client goes on
// making `rate` calls a second.
var blips = []struct {
	name       string
	rate       int // calls a second
	warm, down time.Duration
	burst      int
	graceless  int // how many calls fail at least if the Budget has no Grace
}{
	{"just started, 50 at once, 100 ms", 0, 0, 100 * ms, 50, 40},
	{"just started, 100 a second, 1 s", 100, 0, time.Second, 0, 84},
	{"20 a second for 10 s, 1 s", 20, 10 * time.Second, time.Second, 0, 10},
	{"4 a second, 20 at once, 300 ms", 4, time.Minute, 300 * ms, 20, 1},
	{"1 a second, 20 at once, 300 ms", 1, time.Minute, 300 * ms, 20, 1},
	{"100 a second for a minute, 100 at once, 1 s", 100, time.Minute, time.Second, 100, 80},
}

func TestBlips(t *testing.T) {
	for _, blip := range blips {
		lost := func(t *testing.T, budgets func(*http.Request) *retry.Budget) int {
			began := time.Now()
			tr := &retryhttp.Transport{Policy: retry.Default(), Budgets: budgets, Base: script(func(*http.Request) (*http.Response, error) {
				if since := time.Since(began); since >= blip.warm && since < blip.warm+blip.down {
					return response(503), nil
				}
				return response(200), nil
			})}
			var lost atomic.Int64
			ask := func() {
				if send(t, tr).StatusCode != 200 {
					lost.Add(1)
				}
			}
			goOn := func(until time.Duration) {
				for blip.rate > 0 && time.Since(began) < until {
					go ask()
					time.Sleep(time.Second / time.Duration(blip.rate))
				}
			}
			goOn(blip.warm)
			for range blip.burst {
				go ask()
			}
			goOn(blip.warm + blip.down)
			time.Sleep(time.Minute)
			return int(lost.Load())
		}
		bubble(t, blip.name, func(t *testing.T) {
			assert.Zero(t, lost(t, nil))
			assert.Zero(t, lost(t, retryhttp.NoBudgets))
			graceless := new(retryhttp.Transport).TargetBudget(request(t, "GET"))
			graceless.Grace = 0
			assert.GreaterOrEqual(t, lost(t, always(graceless)), blip.graceless, "without a Grace, calls are lost")
		})
	}
}

// No call fails because of a blip if the Budget was full when the blip began, and no retry had
// found the Budget empty for a minute. After a blip that has emptied the Budget, a full Budget is
// not enough.
func TestBlipAfterABlip(t *testing.T) {
	for _, row := range []struct {
		name string
		rest time.Duration // from the last retry that finds the Budget empty to the second blip
		lost bool
	}{
		{"within a minute", time.Minute - time.Second, true},
		{"after a minute", time.Minute + time.Second, false},
	} {
		bubble(t, row.name, func(t *testing.T) {
			var down atomic.Bool
			tr := &retryhttp.Transport{Policy: retry.Default(), Base: script(func(*http.Request) (*http.Response, error) {
				if down.Load() {
					return response(503), nil
				}
				return response(200), nil
			})}
			blip := func() int {
				down.Store(true)
				time.AfterFunc(100*ms, func() { down.Store(false) })
				var calls sync.WaitGroup
				var lost atomic.Int64
				for range 50 {
					calls.Go(func() {
						if send(t, tr).StatusCode != 200 {
							lost.Add(1)
						}
					})
				}
				calls.Wait()
				return int(lost.Load())
			}
			b := tr.TargetBudget(request(t, "GET"))
			began := time.Now()
			assert.Zero(t, blip())
			time.Sleep(time.Until(began.Add(row.rest)))
			for b.Left() < b.Size {
				send(t, tr)
			}
			assert.Equal(t, row.lost, blip() > 0)
		})
	}
}

// The test checks how many requests 1,000 GETs send to a server that is down. The README quotes the
// number. The number is random if several calls start within one Grace, because the delays are
// random.
func TestRequestsInAnOutage(t *testing.T) {
	for _, row := range []struct {
		name        string
		apart       time.Duration // from call to call; below 0: each begins after the previous call
		least, most int
	}{
		{"one after the other", -1, 1010, 1014},
		{"100 a second", 10 * ms, 1150, 1300},
		{"all at once", 0, 3800, 4400},
	} {
		bubble(t, row.name, func(t *testing.T) {
			base := script(503)
			tr := &retryhttp.Transport{Policy: retry.Default(), Base: base}
			var calls sync.WaitGroup
			for range 1000 {
				calls.Go(func() { send(t, tr) })
				if time.Sleep(max(0, row.apart)); row.apart < 0 {
					calls.Wait()
				}
			}
			calls.Wait()
			assert.GreaterOrEqual(t, base.count(), row.least)
			assert.LessOrEqual(t, base.count(), row.most)
			t.Log(base.count(), "requests")
		})
	}
}

// The test makes the calls of TestBlips to a real server over loopback, which fails for 0.8 s.
func TestBlipOverLoopback(t *testing.T) {
	if os.Getenv("RETRY_LONG") == "" {
		t.Skip("takes a minute and a half of real time; .ci/soak sets RETRY_LONG")
	}
	for _, row := range []struct {
		name        string
		rate, burst int
		warm        time.Duration
	}{
		{"just started, 50 at once", 0, 50, 0},
		{"just started, 100 a second", 100, 0, 0},
		{"20 a second for 10 s", 20, 0, 10 * time.Second},
		{"100 a second for a minute, 100 at once", 100, 100, time.Minute},
	} {
		t.Run(row.name, func(t *testing.T) {
			var down atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if down.Load() {
					w.WriteHeader(503)
				}
			}))
			defer server.Close()
			client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default()}}
			var calls sync.WaitGroup
			var lost atomic.Int64
			ask := func() {
				resp, err := client.Get(server.URL)
				if err != nil || resp.StatusCode != 200 {
					lost.Add(1)
				}
				if err == nil {
					_ = resp.Body.Close()
				}
			}
			goOn := func(d time.Duration) {
				for until := time.Now().Add(d); row.rate > 0 && time.Now().Before(until); time.Sleep(time.Second / time.Duration(row.rate)) {
					calls.Go(ask)
				}
			}
			goOn(row.warm)
			down.Store(true)
			time.AfterFunc(800*ms, func() { down.Store(false) })
			for range row.burst {
				calls.Go(ask)
			}
			goOn(800 * ms)
			calls.Wait()
			assert.Zero(t, lost.Load())
		})
	}
}

// After any history of calls, a Budget holds its Size, plus the Ratio for each success, minus the
// retries that were sent and that count. The histories are too short for RefillEvery and Remember
// to change anything.
func TestBudgetCountsSharesAndRetriesExactly(t *testing.T) {
	histories := 1000
	switch {
	case os.Getenv("RETRY_LONG") != "":
		histories = 100_000
	case testing.Short():
		histories = 100
	}
	statuses := []int{200, 200, 200, 204, 302, 400, 401, 401, 401, 404, 407, 408, 409, 421, 425, 429, 500, 503, 503, 0, unsent}
	ends := map[retry.Reason]int{}
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(histories) {
			r := rand.New(rand.NewPCG(seed, 1))
			var h history
			n := 0 // how many attempts were made
			tr := &retryhttp.Transport{Check: failing, Prepare: func(_ *http.Request, attempt int, _ error) error {
				n = attempt
				return map[int]error{unsent: errReset}[h[n-1].status]
			}}
			b := take(tr.TargetBudget(request(t, "GET")), r.IntN(11))
			b.Grace = 0
			held := float64(b.Left()) * 10            // in tenths of a retry
			of, tries := &retry.Budget{Size: 1000}, 0 // the Budget of the context, and how many retries it has paid
			for call := range 1 + r.IntN(30) {
				h, n = nil, 0
				var steps []any
				for range 19 {
					step := reply{status: statuses[r.IntN(len(statuses))], after: time.Duration(r.IntN(5)) * ms, deaf: true}
					h, steps = append(h, step), append(steps, step)
				}
				h, steps = append(h, reply{status: 200}), append(steps, 200) // ends a call that would never end
				healthy := time.Duration(r.IntN(2)) * 3 * ms
				tr.Base = script(steps...)
				tr.Policy = retry.Policy{MaxAttempts: 1 + r.IntN(5), HealthyAfter: healthy, Backoff: retry.Fixed(2 * ms)}
				if r.IntN(3) == 0 {
					class := &retry.Class{Name: "some", NonRetryable: r.IntN(3) == 0, MaxAttempts: r.IntN(3)}
					tr.Policy.Classify = func(error) *retry.Class { return class }
				}
				ctx, cancel := context.WithCancel(retry.WithBudget(t.Context(), of))
				if r.IntN(3) == 0 {
					time.AfterFunc(time.Duration(r.IntN(15))*ms+1, cancel)
				}
				_, err := retryhttp.Result(tr.RoundTrip(request(t, "GET").WithContext(ctx)))
				cancel()
				shares, retries, all, free := h[:n].sent(healthy)
				held += float64(shares) - 10*float64(retries)
				require.GreaterOrEqual(t, held, 0., "seed %d, call %d", seed, call)
				require.Equal(t, int(held)/10, b.Left(), "seed %d, call %d: %+v", seed, call, h)
				tries += all
				require.Equal(t, 1000-tries, of.Left(), "seed %d, call %d: %+v", seed, call, h)
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

// A history contains the replies to the attempts of one call.
type history []reply

const unsent = -1 // the status of a reply to an attempt that Prepare stops

// sent returns four results: how many answers add the Ratio, how many retries the Budget of the
// target pays, how many retries a Budget of the context pays, and whether a retry after the last
// attempt would take nothing.
func (h history) sent(healthy time.Duration) (shares, retries, all int, free bool) {
	cured, anew := false, false
	for n, r := range h {
		if n > 0 && r.status != unsent && !anew {
			all++
			if !free {
				retries++
			}
		}
		switch r.status {
		case 0, unsent, 408, 421, 425, 429, 500, 503:
			free = false
		case 401, 407:
			free, cured = !cured, true
			shares++
		default:
			free = false
			shares++
		}
		anew = healthy > 0 && r.after >= healthy
		free = free || anew
	}
	return shares, retries, all, free
}
