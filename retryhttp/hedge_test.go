package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"slices"
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
	"github.com/goretry/retry/retrylog"
)

// A request that must not be sent twice at the same time is sent once.
func TestHedgeRequestsThatAreSentTwice(t *testing.T) {
	after := func(d time.Duration) edit {
		return ofTransport(func(tr *retryhttp.Transport) { tr.Base.(*retryhttp.Hedge).After = d })
	}
	trailer := ofRequest(func(req *http.Request) { req.Trailer = http.Header{} })
	body := func(text string) edit { return ofRequest(func(req *http.Request) { rewindable(req, text) }) }
	for _, tt := range []struct {
		name, method string
		edit         edit
		sent         int
	}{
		{"GET", "GET", nil, 2},
		{"no method, which is GET", "", nil, 2},
		{"HEAD", "HEAD", nil, 2},
		{"GET with NoBody", "GET", ofRequest(func(req *http.Request) { req.Body = http.NoBody }), 2},
		{"GET with a body that may be empty", "GET", body(""), 1},
		{"GET that upgrades", "GET", header("Upgrade", "x"), 1},
		{"GET that may not be repeated", "GET", idempotent(false), 1},
		{"GET with a Trailer", "GET", trailer, 1},
		{"GET with a long Host", "GET", ofRequest(func(req *http.Request) { req.Host = strings.Repeat("h", 1025) }), 1},
		{"GET to a long host, without a Transport", "GET", func(tr *retryhttp.Transport, req *http.Request) {
			req.URL.Host = strings.Repeat("h", 1025)
			tr.Base = alone{tr.Base}
		}, 1},
		{"GET with a Trailer, without a Transport", "GET", func(tr *retryhttp.Transport, req *http.Request) {
			trailer(tr, req)
			tr.Base = alone{tr.Base}
		}, 1},
		{"GET without a Transport", "GET", ofTransport(func(tr *retryhttp.Transport) { tr.Base = alone{tr.Base} }), 2},
		{"GET with a Trailer that may not be repeated", "GET", func(tr *retryhttp.Transport, req *http.Request) {
			trailer(tr, req)
			idempotent(false)(tr, req)
		}, 1},
		{"the zero Policy", "GET", policy(retry.Policy{}), 1},
		{"one attempt", "GET", policy(retry.Policy{MaxAttempts: 1}), 1},
		{"a policy that never retries", "GET", policy(retry.Policy{MaxAttempts: 3, NonRetryable: true}), 1},
		{"an invalid policy", "GET", policy(retry.Policy{MaxAttempts: 3, MaxDelay: -1}), 1},
		{"the zero Policy of one request", "GET", func(_ *retryhttp.Transport, req *http.Request) {
			*req = *req.WithContext(retryhttp.WithPolicy(req.Context(), retry.Policy{}))
		}, 1},
		{"attempts without a limit", "GET", policy(retry.Policy{MaxElapsed: time.Hour}), 2},
		{"GET that may not be repeated, and whose URL Base changes", "GET", func(tr *retryhttp.Transport, req *http.Request) {
			idempotent(false)(tr, req)
			hedge := tr.Base
			tr.Base = roundTrip(func(req *http.Request) (*http.Response, error) {
				req = req.Clone(req.Context())
				req.URL.Host = "replica.test"
				return hedge.RoundTrip(req)
			})
		}, 1},
		{"PUT", "PUT", nil, 1},
		{"OPTIONS", "OPTIONS", nil, 1},
		{"get, another method", "get", nil, 1},
		{"POST with a key", "POST", header("Idempotency-Key", "x"), 1},
		{"no After", "GET", after(0), 1},
		{"an After below zero", "GET", after(-1), 1},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base, req := script(reply{after: time.Second, status: 200}), request(t, "GET")
			tr := &retryhttp.Transport{Base: &retryhttp.Hedge{Base: base, After: 50 * ms}, Policy: retry.Policy{MaxAttempts: 3}}
			req.Method = tt.method
			tt.edit.apply(tr, req)
			assert.Equal(t, "answer 1", textOf(t, send(t, tr, req)))
			assert.Equal(t, tt.sent, base.count())
		})
	}
	_, err := (&retryhttp.Hedge{Base: script(errReset), After: 1}).RoundTrip(&http.Request{})
	assert.Equal(t, errReset, err, "a request without a URL is passed to Base, which returns the error")
	nothing := roundTrip(func(*http.Request) (*http.Response, error) { return nil, nil })
	_, err = (&retryhttp.Hedge{Base: nothing, After: 1}).RoundTrip(request(t, "GET"))
	assert.ErrorContains(t, err, "the RoundTripper retryhttp_test.roundTrip returned neither a response nor an error")
}

// alone hides the Transport above it from the RoundTripper below it.
type alone struct{ below http.RoundTripper }

func (a alone) RoundTrip(req *http.Request) (*http.Response, error) {
	return a.below.RoundTrip(req.WithContext(context.Background()))
}

// The first successful answer is returned. After a second request was sent, a failure is returned
// only if both requests fail, or if the failure of the first asks to wait. A second request takes a
// retry from the Budget. A successful answer before After refills the Budget by its Ratio.
func TestHedgeReturnsTheFirstSuccess(t *testing.T) {
	is := func(after time.Duration, status int) reply { return reply{after: after, status: status} }
	ok := func(after time.Duration) reply { return is(after, 200) }
	asks := func(after time.Duration, status int) reply { return reply{after: after, status: status, wait: 9} }
	for _, tt := range []struct {
		name          string
		first, second reply // the second request is sent after 50 ms
		want          string
		took          time.Duration
	}{
		{"an answer in time", ok(20 * ms), ok(0), "200 of 1", 20 * ms},
		{"a 404 in time", is(20*ms, 404), ok(0), "404 of 1", 20 * ms},
		{"a 503 in time is returned, because the Transport may retry it", is(20*ms, 503), ok(0), "503 of 1", 20 * ms},
		{"a 429 in time", is(20*ms, 429), ok(0), "429 of 1", 20 * ms},
		{"an error in time", is(20*ms, 0), ok(0), "error", 20 * ms},

		{"the second is faster", ok(time.Second), ok(10 * ms), "200 of 2", 60 * ms},
		{"the first is faster", ok(70 * ms), ok(time.Second), "200 of 1", 70 * ms},
		{"a fast 404 of the second is an answer", ok(time.Second), is(10*ms, 404), "404 of 2", 60 * ms},
		{"a fast redirect too", ok(time.Second), is(10*ms, 302), "302 of 2", 60 * ms},
		{"a late 404 of the first is an answer", is(70*ms, 404), ok(time.Second), "404 of 1", 70 * ms},

		{"a fast 503 of the second", ok(time.Second), is(10*ms, 503), "200 of 1", time.Second},
		{"a fast 507 of the second, which is permanent", ok(time.Second), is(10*ms, 507), "200 of 1", time.Second},
		{"a fast 501 of the second", ok(time.Second), is(10*ms, 501), "200 of 1", time.Second},
		{"a late 508 of the first, and a success", is(70*ms, 508), ok(100 * ms), "200 of 2", 150 * ms},
		{"a fast 429 of the second", ok(time.Second), is(10*ms, 429), "200 of 1", time.Second},
		{"a fast 403 of the second that asks to wait", ok(time.Second), asks(10*ms, 403), "200 of 1", time.Second},

		{"a late 503 of the first, and a success", is(70*ms, 503), ok(100 * ms), "200 of 2", 150 * ms},
		{"a late reset of the first, and a 404", is(70*ms, 0), is(100*ms, 404), "404 of 2", 150 * ms},
		{"a late 429 of the first ends the race", is(70*ms, 429), ok(100 * ms), "429 of 1", 70 * ms},
		{"a late 503 of the first that asks to wait, too", asks(70*ms, 503), ok(100 * ms), "503 of 1", 70 * ms},

		{"both fail, the first later", is(time.Second, 503), is(10*ms, 502), "503 of 1", time.Second},
		{"both fail, the second later", is(70*ms, 503), is(time.Second, 502), "503 of 1", 1050 * ms},
		{"both fail, the first without a response", is(70*ms, 0), is(100*ms, 503), "error", 150 * ms},
		{"both fail, and only the second asks to wait", is(time.Second, 0), asks(10*ms, 503), "503 of 2", time.Second},
		{"both fail, and only the second asks to wait, later", is(70*ms, 500), is(100*ms, 429), "429 of 2", 150 * ms},
		{"both ask to wait", is(time.Second, 429), asks(10*ms, 503), "429 of 1", time.Second},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := script(tt.first, tt.second)
			req, budget := request(t, "GET"), take(&retry.Budget{Size: 2, Ratio: 1}, 1)
			var won []bool
			h := &retryhttp.Hedge{Base: base, After: 50 * ms, Budgets: always(budget), OnHedge: func(ctx context.Context, is bool) {
				assert.Equal(t, req.Context(), ctx)
				won = append(won, is)
			}}
			began := time.Now()
			resp, err := h.RoundTrip(req)
			assert.Equal(t, tt.took, time.Since(began))
			switch {
			case tt.took > 50*ms:
				assert.Equal(t, []bool{strings.HasSuffix(tt.want, "of 2")}, won)
				assert.Equal(t, []int{2, 0}, []int{base.count(), budget.Left()})
			case tt.first.status == 200 || tt.first.status == 404:
				assert.Equal(t, []int{0, 1, 2}, []int{len(won), base.count(), budget.Left()})
			default:
				assert.Equal(t, []int{0, 1, 1}, []int{len(won), base.count(), budget.Left()})
			}
			assert.Equal(t, "/", req.URL.Path, "Base changes a copy")
			assert.Empty(t, req.Header)
			returned := -1
			if tt.want == "error" {
				assert.Nil(t, resp)
				assert.Equal(t, errReset, err)
			} else {
				require.NoError(t, err)
				assert.Same(t, req, resp.Request)
				returned = int(tt.want[len(tt.want)-1] - '1')
				time.Sleep(time.Hour)
				assert.NoError(t, base.sent[returned].Context().Err(), "the context of the returned answer lives until its body is read")
				assert.Equal(t, tt.want, fmt.Sprintf("%d of %s", resp.StatusCode, strings.TrimPrefix(textOf(t, resp), "answer ")))
			}
			synctest.Wait()
			for n, sent := range base.sent {
				assert.Error(t, sent.Context().Err(), "request %d", n+1)
				if b := base.bodies[n]; b != nil && n != returned {
					assert.EqualValues(t, 1, b.closes, "answer %d is discarded", n+1)
				}
			}
			if len(base.at) == 2 {
				assert.Equal(t, 50*ms, base.at[1].Sub(base.at[0]))
			}
		})
	}
	base := script(responseWith(204, http.NoBody))
	assert.Equal(t, http.NoBody, send(t, &retryhttp.Hedge{Base: base, After: 50 * ms}).Body, "callers compare")
	assert.Error(t, base.sent[0].Context().Err())
}

// The losing response is discarded as the response of an attempt is, and does not delay the caller.
func TestHedgeDiscardsTheLoser(t *testing.T) {
	text := func(context.Context) io.Reader { return io.LimitReader(endless{}, 5) }
	stalls := func(ctx context.Context) io.Reader { return stalled{ctx} }
	ignores := func(context.Context) io.Reader { return takes(time.Hour) }
	first, second := reply{after: 500 * ms, status: 200}, reply{after: 100 * ms, status: 200}
	for _, tt := range []struct {
		name          string
		first, second reply
		loser, read   int
		canceled      bool // the context is done before the body is closed
	}{
		{"the second has failed, and its body is read to its end", first, reply{status: 503, body: text}, 1, 5, false},
		{"the second succeeds although it is canceled", reply{after: 70 * ms, status: 200}, reply{after: 100 * ms, status: 200, body: text, deaf: true}, 1, 0, true},
		{"the first succeeds although it is canceled", reply{after: 500 * ms, status: 200, body: text, deaf: true}, reply{status: 200}, 0, 0, true},
		{"a body that stalls", reply{after: 70 * ms, status: 503, body: stalls}, second, 0, 0, true},
		{"a body that ignores its context", first, reply{status: 503, body: ignores}, 1, 0, true},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base, began := script(tt.first, tt.second), time.Now()
			assert.Equal(t, fmt.Sprint("answer ", 2-tt.loser), textOf(t, send(t, &retryhttp.Hedge{Base: base, After: 50 * ms})))
			assert.LessOrEqual(t, time.Since(began), 500*ms, "discarding does not delay the caller")
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			b := base.bodies[tt.loser]
			assert.Equal(t, []any{tt.read, 1, false, tt.canceled}, []any{b.read, b.closes, b.shared.Load(), b.over})
			assert.Error(t, b.ctx.Err())
		})
	}
}

// When RoundTrip has returned, the request belongs to the caller again, even if a second request is
// still in flight. The race detector fails this test if the Hedge still reads the request.
func TestHedgeLeavesTheRequestToTheCaller(t *testing.T) {
	for _, status := range []int{200, 409, 429, 503} {
		bubble(t, fmt.Sprint(status), func(t *testing.T) {
			base := script(reply{after: 100 * ms, status: 200}, reply{after: time.Second, status: status, deaf: true})
			req := request(t, "GET")
			req.Header.Set("Idempotency-Key", "k")
			resp := send(t, &retryhttp.Hedge{Base: base, After: 50 * ms}, req)
			assert.Equal(t, "answer 1", textOf(t, resp))
			assert.Equal(t, 2, base.count())
			req.Method, req.URL.Path = "HEAD", "/next"
			req.Header.Set("Idempotency-Key", "l")
			time.Sleep(time.Minute)
			synctest.Wait()
		})
	}
}

// A second request takes one retry from the Budget for second requests and from each Budget of the
// context.
func TestHedgeBudget(t *testing.T) {
	for _, tt := range []struct {
		name       string
		own, outer int // the sizes of the Budgets; -1: there is no Budget
		took       int
	}{
		{"both have one retry", 1, 1, 1},
		{"no Budget of the context", 1, -1, 1},
		{"no Budget of the Hedge", -1, 1, 1},
		{"no Budget at all", -1, -1, 1},
		{"the Budget of the Hedge is empty", 0, 5, 0},
		{"the Budget of the context is empty", 5, 0, 0},
		{"both are the same", 1, 1, 1},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			own, outer, innermost := &retry.Budget{Size: tt.own}, &retry.Budget{Size: tt.outer}, &retry.Budget{Size: 9}
			ctx := retry.WithBudget(t.Context(), innermost)
			if tt.outer >= 0 {
				ctx = retry.WithBudget(ctx, outer)
			}
			budgets := always(own)
			switch tt.name {
			case "both are the same":
				budgets, own = always(outer), outer
			case "no Budget of the Hedge", "no Budget at all":
				budgets = retryhttp.NoBudgets
			}
			base := script(reply{after: time.Second, status: 200}, reply{after: 10 * ms, status: 200})
			h := &retryhttp.Hedge{Base: base, After: 50 * ms, Budgets: budgets}
			assert.Equal(t, fmt.Sprint("answer ", 1+tt.took), textOf(t, send(t, h, request(t, "GET").WithContext(ctx))))
			assert.Equal(t, 1+tt.took, base.count())
			assert.Equal(t, []int{max(0, tt.own-tt.took), max(0, tt.outer-tt.took), 9 - tt.took}, []int{own.Left(), outer.Left(), innermost.Left()})
		})
	}
}

// If the field Budgets is nil, each target has a Budget for second requests. The Transport above
// has another Budget for the same target.
func TestHedgeBudgetOfTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after, status := 100*ms, 200
		base := script(func(req *http.Request) (*http.Response, error) { return reply{after: after, status: status}.to(req, 0) })
		tr := &retryhttp.Transport{Base: &retryhttp.Hedge{Base: base, After: 50 * ms}, Policy: retry.Policy{MaxAttempts: 2}}
		get := func(url string, n int) (more int) {
			sent := base.count()
			for range n {
				textOf(t, send(t, tr, httptest.NewRequestWithContext(t.Context(), "GET", url, nil)))
			}
			return base.count() - sent - n
		}
		assert.Equal(t, 10, get("http://a.test/", 100), "ten second requests at the start")
		assert.Equal(t, 0, get("http://A.test/x", 100), "and late answers put nothing back")
		assert.Equal(t, 10, get("http://b.test/", 100), "another target")
		after = 0
		get("http://a.test/", 40)
		after = 100 * ms
		assert.Equal(t, 2, get("http://a.test/", 10), "one second request for 20 answers in time")
		status = 503
		assert.Equal(t, 1, get("http://a.test/", 1), "the Budget of the Transport has retries")
	})
}

// The answer may arrive at the moment when the second request is due. If the second request is
// sent, it takes one retry from the Budget. If it is not sent, it takes nothing. The race detector
// fails this test if the Hedge still reads the request after RoundTrip has returned.
func TestHedgeAnswerWhenTheSecondIsDue(t *testing.T) {
	for range 2000 {
		synctest.Test(t, func(t *testing.T) {
			outer, own, told := &retry.Budget{Size: 5}, &retry.Budget{Size: 5}, 0
			base := script(reply{after: 50 * ms, status: 200}, reply{status: 200})
			h := &retryhttp.Hedge{Base: base, After: 50 * ms, Budgets: always(own), OnHedge: func(context.Context, bool) { told++ }}
			req := request(t, "GET").WithContext(retry.WithBudget(t.Context(), outer))
			textOf(t, send(t, h, req))
			req.Header.Set("X", "the caller may use its request again, with another context too")
			*req = *req.WithContext(context.Background())
			synctest.Wait()
			second := base.count() - 1
			require.Equal(t, []int{5 - second, 5 - second, second}, []int{own.Left(), outer.Left(), told})
		})
	}
}

// While the second request waits for the connection of the first, which has failed, the Hedge reads
// the body of the first answer.
func TestHedgeFreesTheConnectionOfAFailure(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	hangs := func(text string) func(context.Context) io.Reader {
		return func(ctx context.Context) io.Reader { return io.MultiReader(strings.NewReader(text), stalled{ctx}) }
	}
	text := func(text string) func(context.Context) io.Reader {
		return func(context.Context) io.Reader { return strings.NewReader(text) }
	}
	for _, tt := range []struct {
		name   string
		first  func(context.Context) io.Reader // the body of a 503
		second int
		status int
		text   string
		took   time.Duration
	}{
		{"the second request succeeds", text("busy"), 200, 200, "second", 70 * ms},
		{"the second request fails too", text("busy"), 502, 503, "busy", 70 * ms},
		{"the second request asks to wait", text("busy"), 429, 429, "second", 70 * ms},
		{"no body", text(""), 502, 503, "", 70 * ms},
		{"the body is too long", text(long + "x"), 502, 502, "second", 70 * ms},
		{"the body hangs", hangs("busy"), 200, 200, "second", 160 * ms},
		{"the body hangs, and the second request fails too", hangs("busy"), 502, 502, "second", 160 * ms},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			free := make(chan struct{}) // closed when the connection of the first answer is free
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				if retryhttp.Hedged(req.Context()) {
					select {
					case <-free:
						time.Sleep(10 * ms)
						return responseWith(tt.second, strings.NewReader("second")), nil
					case <-req.Context().Done():
						return nil, context.Cause(req.Context())
					}
				}
				time.Sleep(60 * ms)
				b := &body{Reader: tt.first(req.Context()), onClose: func() { close(free) }}
				return responseWith(503, b), nil
			})
			began := time.Now()
			resp := send(t, &retryhttp.Hedge{Base: base, After: 20 * ms, Budgets: retryhttp.NoBudgets}, request(t, "GET"))
			assert.Equal(t, tt.took, time.Since(began))
			assert.Equal(t, tt.status, resp.StatusCode)
			assert.Equal(t, tt.text, textOf(t, resp))
		})
	}
	const dropped = "the body of a failed answer was too long or too slow to store while the other request of a Hedge was in flight"
	for _, tt := range []struct {
		name    string
		end     func(context.Context) (context.Context, context.CancelFunc)
		cause   error
		timeout bool
	}{
		{"its deadline passes", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, context.DeadlineExceeded, true},
		{"it is canceled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, context.Canceled, false},
		{"its deadline passes, with a cause", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, errReset)
		}, errReset, false},
	} {
		bubble(t, "the call ends while the second request is in flight: "+tt.name, func(t *testing.T) {
			body := func(context.Context) io.Reader { return strings.NewReader(long + "x") }
			base := script(reply{after: 60 * ms, status: 503, body: body}, reply{after: time.Hour, status: 200, deaf: true})
			ctx, cancel := tt.end(t.Context())
			defer cancel()
			began := time.Now()
			client := &http.Client{Transport: &retryhttp.Hedge{Base: base, After: 20 * ms}}
			_, err := client.Do(request(t, "GET").WithContext(ctx))
			assert.Equal(t, time.Second, time.Since(began))
			var failed *url.Error
			require.ErrorAs(t, err, &failed)
			assert.EqualError(t, failed.Err, fmt.Sprintf("retryhttp: %s (and then %v)", dropped, tt.cause))
			assert.ErrorIs(t, err, tt.cause)
			assert.Equal(t, tt.timeout, failed.Timeout())
			time.Sleep(time.Hour)
		})
	}
}

// The body of a failed second answer is stored too, so that the first request can get its
// connection.
func TestHedgeFreesTheConnectionOfTheSecondRequest(t *testing.T) {
	long := strings.Repeat("x", 64<<10+1)
	const dropped = "retryhttp: the body of a failed answer was too long or too slow to store while the other request of a Hedge was in flight"
	for _, tt := range []struct {
		name   string
		second int
		body   string
		first  int // 0: a reset
		hangs  bool
		status int
		text   string // the text, and the error of reading it
		took   time.Duration
	}{
		{name: "the first request succeeds", second: 503, body: "busy", first: 200, status: 200, text: "first <nil>", took: 40 * ms},
		{name: "the first request fails too", second: 503, body: "busy", first: 502, status: 502, text: "first <nil>", took: 40 * ms},
		{name: "the second answer asks to wait", second: 429, body: "busy", first: 502, status: 429, text: "busy <nil>", took: 40 * ms},
		{name: "the body is too long", second: 503, body: long, first: 200, status: 200, text: "first <nil>", took: 40 * ms},
		{name: "the body hangs", second: 503, body: "busy", hangs: true, first: 200, status: 200, text: "first <nil>", took: 130 * ms},
		{name: "the body is too long, and asks to wait", second: 429, body: long, first: 0, status: 429, text: long[1:] + " " + dropped, took: 40 * ms},
		{name: "the body hangs, and asks to wait", second: 429, body: "busy", hangs: true, first: 0, status: 429, text: "busy " + dropped, took: 130 * ms},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			free := make(chan struct{}) // closed when the connection of the second answer is free
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				if retryhttp.Hedged(req.Context()) {
					time.Sleep(10 * ms)
					b := &body{Reader: strings.NewReader(tt.body), onClose: func() { close(free) }}
					if tt.hangs {
						b.Reader = io.MultiReader(b.Reader, stalled{req.Context()})
					}
					return responseWith(tt.second, b), nil
				}
				select {
				case <-free:
				case <-req.Context().Done():
					return nil, context.Cause(req.Context())
				}
				if time.Sleep(10 * ms); tt.first == 0 {
					return nil, errReset
				}
				return responseWith(tt.first, strings.NewReader("first")), nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			resp := send(t, &retryhttp.Hedge{Base: base, After: 20 * ms}, request(t, "GET").WithContext(ctx))
			assert.Equal(t, tt.took, time.Since(began))
			assert.Equal(t, tt.status, resp.StatusCode)
			text, err := io.ReadAll(resp.Body)
			assert.Equal(t, tt.text, fmt.Sprint(string(text), " ", err))
		})
	}
}

// The first answer is dropped only if its body has more than 64 KiB, and only if the second request
// is still in flight.
func TestHedgeKeepsTheFirstAnswer(t *testing.T) {
	zeros := func(size int) func(context.Context) io.Reader {
		return func(context.Context) io.Reader { return bytes.NewReader(make([]byte, size)) }
	}
	for _, tt := range []struct {
		name   string
		size   int
		second reply // the second request is sent after 50 ms, and fails with a 502 or a reset
		status int
	}{
		{"64 KiB", 64 << 10, reply{after: 100 * ms, status: 502}, 500},
		{"more than 64 KiB", 64<<10 + 1, reply{after: 100 * ms, status: 502}, 502},
		{"more than 64 KiB after a reset of the second", 64<<10 + 1, reply{after: 10 * ms}, 500},
		{"more than 64 KiB after a 502 of the second", 64<<10 + 1, reply{after: 10 * ms, status: 502}, 500},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := script(reply{after: 100 * ms, status: 500, body: zeros(tt.size)}, tt.second)
			resp := send(t, &retryhttp.Hedge{Base: base, After: 50 * ms})
			assert.Equal(t, tt.status, resp.StatusCode)
			if tt.status == 500 {
				assert.Len(t, textOf(t, resp), tt.size)
			}
		})
	}
}

// The body of a failed answer is stored only while the other request may still succeed. If both
// requests have failed, one of the answers is returned, even if both bodies are slow, and even if a
// body breaks off.
func TestHedgeNeverDropsBothAnswers(t *testing.T) {
	slow := func(ctx context.Context) io.Reader { // a byte every 50 ms
		left := 4
		return reads(func(p []byte) (int, error) {
			if left == 0 {
				return 0, io.EOF
			}
			select {
			case <-time.After(50 * ms):
				left--
				return copy(p, "x"), nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
	}
	broken := func(context.Context) io.Reader { return breaks("sorry", errReset) }
	for _, tt := range []struct {
		name          string
		first, second reply // the second request is sent after 50 ms
		text          string
		took          time.Duration
	}{
		{"the second is slow and fails, and then the first fails", reply{after: 100 * ms, status: 507}, reply{after: 20 * ms, status: 507, body: slow}, "answer 1 <nil>", 100 * ms},
		{"both are slow, the first fails first", reply{after: 70 * ms, status: 507, body: slow}, reply{after: 70 * ms, status: 507, body: slow}, "xxxx <nil>", 160 * ms},
		{"both are slow, the second fails first", reply{after: 100 * ms, status: 507, body: slow}, reply{after: 20 * ms, status: 507, body: slow}, "xxxx <nil>", 100 * ms},
		{"the first breaks off, and then the second has no answer", reply{after: 70 * ms, status: 507, body: broken}, reply{after: 70 * ms}, "sorry connection reset by peer", 120 * ms},
		{"the second breaks off, and asks to wait", reply{after: 100 * ms, status: 507}, reply{after: 10 * ms, status: 429, body: broken}, "sorry connection reset by peer", 100 * ms},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := script(tt.first, tt.second)
			tr := &retryhttp.Transport{Base: &retryhttp.Hedge{Base: base, After: 50 * ms}, Policy: retry.Policy{MaxAttempts: 2, RetryIf: func(error) bool { return false }}}
			began := time.Now()
			resp := send(t, tr)
			assert.Equal(t, tt.took, time.Since(began))
			text, err := io.ReadAll(resp.Body)
			assert.Equal(t, tt.text, fmt.Sprint(string(text), " ", err))
			assert.Equal(t, 2, base.count())
			require.NoError(t, resp.Body.Close())
			time.Sleep(time.Hour)
			synctest.Wait()
			for n, sent := range base.sent {
				assert.Error(t, sent.Context().Err())
				assert.True(t, base.bodies[n] == nil || base.bodies[n].closed(), n)
			}
		})
	}
}

// A second answer asks to wait, and its body ignores its context. The race detector fails this test
// if the goroutine that discards the body reads the response, whose Body the Hedge replaces.
func TestHedgeReplacesABodyThatIsBeingDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ignores := func(context.Context) io.Reader { return takes(time.Second) }
		base := script(reply{after: time.Second, status: 503}, reply{after: 10 * ms, status: 429, body: ignores})
		resp := send(t, &retryhttp.Hedge{Base: base, After: 50 * ms})
		assert.Equal(t, 429, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.True(t, base.bodies[1].closed())
	})
}

// StallTimeout limits a Read of Advise, also if a Hedge calls Advise to judge the answer of one of
// its requests.
func TestHedgeLimitsTheReadsOfAdvise(t *testing.T) {
	for name, after := range map[string]time.Duration{"the first answer": 0, "the second answer": time.Hour} {
		bubble(t, name, func(t *testing.T) {
			answer := func(req *http.Request) (*http.Response, error) {
				if after > 0 && !retryhttp.Hedged(req.Context()) {
					return script(reply{after: after}).RoundTrip(req)
				}
				return responseWith(503, io.MultiReader(strings.NewReader("busy"), stalled{req.Context()})), nil
			}
			tr := &retryhttp.Transport{Base: &retryhttp.Hedge{Base: roundTrip(answer), After: 50 * ms}, StallTimeout: time.Second}
			tr.Policy = retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Minute}
			var read []error
			tr.Advise = func(resp *http.Response) retryhttp.Advice {
				text, err := io.ReadAll(resp.Body)
				read = append(read, err)
				resp.Body = io.NopCloser(bytes.NewReader(text))
				return retryhttp.Advice{}
			}
			_, _ = tr.RoundTrip(request(t, "GET"))
			require.NotEmpty(t, read)
			assert.EqualError(t, read[0], "retryhttp: no byte of the body within StallTimeout (1s)")
		})
	}
}

// Whether the first answer is in time does not depend on how long Advise takes to read its body.
func TestHedgeDoesNotCountAdvise(t *testing.T) {
	for _, status := range []int{404, 429, 503} {
		bubble(t, fmt.Sprint(status), func(t *testing.T) {
			base := script(reply{after: 20 * ms, status: status}, reply{status: 200})
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: &retryhttp.Hedge{Base: base, After: 50 * ms}}
			tr.Advise = func(resp *http.Response) retryhttp.Advice {
				time.Sleep(40 * ms)
				return retryhttp.AdviceOf(resp)
			}
			send(t, tr)
			for _, sent := range base.sent {
				assert.False(t, retryhttp.Hedged(sent.Context()))
			}
		})
	}
}

// If the context ends first, the result does not depend on chance. If the first answer was dropped,
// the error says so. If the answer of the second request asks to wait, this answer is returned.
func TestHedgeAtTheDeadline(t *testing.T) {
	long := func(context.Context) io.Reader { return io.LimitReader(endless{}, 64<<10+1) }
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			base := script(reply{after: 70 * ms, status: 503, body: long}, reply{after: time.Hour, status: 200})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			h := &retryhttp.Hedge{Base: base, After: 50 * ms, OnHedge: func(_ context.Context, won bool) { require.False(t, won) }}
			_, err := h.RoundTrip(request(t, "GET").WithContext(ctx))
			require.ErrorContains(t, err, "the body of a failed answer was too long")
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		synctest.Test(t, func(t *testing.T) {
			base := script(reply{after: time.Hour, status: 200}, reply{after: 10 * ms, status: 429, wait: 9})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			resp := send(t, &retryhttp.Hedge{Base: base, After: 50 * ms}, request(t, "GET").WithContext(ctx))
			require.Equal(t, 429, resp.StatusCode)
			require.Equal(t, "answer 2", textOf(t, resp))
		})
	}
}

// The first request may fail at the moment when the second is due. If the second request is not
// sent, it takes nothing from the Budget, not even for a moment.
func TestHedgeTakesNothingForARequestThatIsNotSent(t *testing.T) {
	for range 10_000 {
		synctest.Test(t, func(t *testing.T) {
			base := script(reply{after: 50 * ms, status: 503}, reply{status: 200})
			ctx := retry.WithBudget(t.Context(), &retry.Budget{Size: 1})
			tr := &retryhttp.Transport{Base: &retryhttp.Hedge{Base: base, After: 50 * ms}, Policy: retry.Policy{MaxAttempts: 2}}
			resp := send(t, tr, request(t, "GET").WithContext(ctx))
			require.Equal(t, 200, resp.StatusCode)
			require.NoError(t, resp.Body.Close())
		})
	}
}

// The body of a failed first answer may end at the moment when the Hedge cancels the request, which
// is after 90 ms, or stops waiting for the body, which is after 100 ms. Then RoundTrip returns the
// first answer with its whole body, or the second answer.
func TestHedgeStoresAWholeBody(t *testing.T) {
	const first, last = "the first half", " and the second"
	for _, takes := range []time.Duration{0, 89 * ms, 90 * ms, 100 * ms} {
		t.Run(takes.String(), func(t *testing.T) {
			for range 2000 {
				synctest.Test(t, func(t *testing.T) {
					body := func(context.Context) io.Reader { // ignores its context
						begun := false
						return reads(func(p []byte) (int, error) {
							if !begun {
								begun = true
								return copy(p, first), nil
							}
							time.Sleep(takes)
							return copy(p, last), io.EOF
						})
					}
					base := script(reply{after: 60 * ms, status: 503, body: body}, reply{after: time.Second, status: 503})
					resp := send(t, &retryhttp.Hedge{Base: base, After: 50 * ms})
					ended := base.sent[0].Context().Err()
					text := textOf(t, resp)
					if text == "answer 2" {
						require.Error(t, ended)
						require.GreaterOrEqual(t, takes, 90*ms)
					} else {
						require.Equal(t, first+last, text)
						require.NoError(t, ended, "the context of the returned answer lives until its body is read")
					}
				})
			}
		})
	}
}

// If Base panics in the second request, the program goes on and RoundTrip returns an error. If Base
// panics in the first request, the caller can recover the panic.
func TestHedgePanics(t *testing.T) {
	panics := func(*http.Request) { panic("bug in Base") }
	broken := func(context.Context) io.Reader { return reads(func([]byte) (int, error) { panic("bug in the body") }) }
	exits := func(*http.Request) { runtime.Goexit() }
	const second = "retryhttp: panic in the second request of a Hedge, in the RoundTripper *retryhttp_test.scripted or in a function that reads its answer: "
	ok, fails := reply{after: time.Second, status: 200}, reply{after: 10 * ms, deaf: true, last: panics}
	for _, tt := range []struct {
		name          string
		first, second reply
		sent          int
		text          string // "": RoundTrip returns the first answer
	}{
		{"a panic in the second", ok, fails, 2, second + "bug in Base"},
		{"a panic in the second after the first has answered", reply{after: 55 * ms, status: 200}, fails, 2, ""},
		{"a panic in the second after the first has failed", reply{after: 55 * ms, status: 503}, fails, 2, second + "bug in Base"},
		{"a panic in the body of a failed second answer, which is stored", ok, reply{status: 503, body: broken}, 2, second + "bug in the body"},
		{"Goexit in the second", ok, reply{after: 10 * ms, last: exits}, 2, second + "<nil>"},
		{"the first panics", reply{after: 20 * ms, last: panics}, ok, 1, "panic"},
		{"the first panics when it is late", reply{after: 70 * ms, last: panics}, ok, 2, "panic"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := script(tt.first, tt.second)
			tr := &retryhttp.Transport{Base: &retryhttp.Hedge{Base: base, After: 50 * ms}, Policy: retry.Policy{MaxAttempts: 3}}
			switch tt.text {
			case "panic":
				assert.PanicsWithValue(t, "bug in Base", func() { _, _ = tr.RoundTrip(request(t, "GET")) })
			case "":
				assert.Equal(t, "answer 1", textOf(t, send(t, tr)))
			default:
				_, err := tr.RoundTrip(request(t, "GET"))
				assert.ErrorContains(t, err, tt.text)
				assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Equal(t, tt.sent, base.count())
			for _, sent := range base.sent {
				assert.Error(t, sent.Context().Err())
			}
		})
	}
}

// The functions of the Transport above are called once for both requests.
func TestHedgeUnderATransport(t *testing.T) {
	slow, fast := reply{after: time.Second, status: 200}, reply{after: 10 * ms, status: 200}
	stalls := reply{status: 200, body: func(ctx context.Context) io.Reader { return stalled{ctx} }}
	var prepared, checked int
	for _, tt := range []struct {
		name    string
		tr      *retryhttp.Transport
		replies []any
		text    string
		took    time.Duration
		err     string // the error of the request, or of reading its body
	}{
		{"Prepare and Check", &retryhttp.Transport{
			Policy:  retry.Policy{MaxAttempts: 2},
			Prepare: func(*http.Request, int, error) error { prepared++; return nil },
			Check: retryhttp.WholeBody(func(req *http.Request, _ *http.Response, _ error) error {
				checked++
				return req.Context().Err()
			}, 99),
		}, []any{slow, fast}, "answer 2", 60 * ms, ""},
		{"Advise makes a 503 permanent, but not successful", &retryhttp.Transport{
			Policy: retry.Policy{MaxAttempts: 2},
			Advise: func(*http.Response) retryhttp.Advice { return retryhttp.Advice{Verdict: retryhttp.Never} },
		}, []any{slow, reply{status: 503}}, "answer 1", time.Second, ""},
		{"AttemptTimeout, which ends both", &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2, AttemptTimeout: 200 * ms}},
			[]any{reply{after: 70 * ms, status: 503}, slow, slow, fast}, "answer 4", 260 * ms, ""},
		{"AttemptTimeout is in the error", &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2, AttemptTimeout: 200 * ms}},
			[]any{slow}, "", 400 * ms, "no response within AttemptTimeout (200ms)"},
		{"StallTimeout", &retryhttp.Transport{StallTimeout: time.Minute, Policy: retry.Policy{MaxAttempts: 2}},
			[]any{slow, stalls}, "", time.Minute + 50*ms, "no byte of the body within StallTimeout (1m0s)"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			began := time.Now()
			tt.tr.Base = &retryhttp.Hedge{Base: script(tt.replies...), After: 50 * ms}
			resp, err := tt.tr.RoundTrip(request(t, "GET"))
			var text []byte
			if err == nil {
				text, err = io.ReadAll(resp.Body)
			}
			assert.Equal(t, tt.text, string(text))
			assert.Equal(t, tt.took, time.Since(began))
			if tt.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.err)
			}
		})
	}
	assert.Equal(t, []int{1, 1}, []int{prepared, checked})

	bubble(t, "Resume: the requests for missing bytes are hedged too", func(t *testing.T) {
		parts := &source{text: "hello world", cuts: []int{5, -1}}
		base := script(slow, parts.RoundTrip, slow, parts.RoundTrip)
		text, err := download(t, &retryhttp.Hedge{Base: base, After: 50 * ms}, resuming)
		require.NoError(t, err)
		assert.Equal(t, parts.text, text)
		assert.Equal(t, 4, base.count())
	})
	for _, key := range []string{"this", "another"} {
		bubble(t, "a Gate that closes meanwhile, for "+key, func(t *testing.T) {
			gate := &retryhttp.Gate{Key: func(req *http.Request) string { return req.Header.Get("Key") }}
			refused, req := request(t, "GET"), request(t, "GET")
			refused.Header.Set("Key", key)
			req.Header.Set("Key", "this")
			time.AfterFunc(20*ms, func() { send(t, &retryhttp.Transport{Base: script(asksToWait(429, 5)), Gate: gate}, refused) })
			base := script(slow, fast)
			send(t, &retryhttp.Transport{Base: &retryhttp.Hedge{Base: base, After: 50 * ms}, Gate: gate, Policy: retry.Policy{MaxAttempts: 2}}, req)
			assert.Equal(t, key == "another", base.count() == 2)
		})
	}
	bubble(t, "a second request that is refused closes the Gate at once", func(t *testing.T) {
		began, closed := time.Now(), time.Duration(0)
		gate := &retryhttp.Gate{OnClose: func(_ string, wait time.Duration, _ error) {
			closed = time.Since(began)
			assert.Equal(t, 9*time.Second, wait)
		}}
		base := script(slow, reply{after: 10 * ms, status: 429, wait: 9})
		tr := &retryhttp.Transport{Base: &retryhttp.Hedge{Base: base, After: 50 * ms}, Gate: gate, Policy: retry.Policy{MaxAttempts: 2}}
		assert.Equal(t, "answer 1", textOf(t, send(t, tr)))
		assert.Equal(t, 60*ms, closed)
	})
}

// The 429 of a second request closes the Gate when it arrives. If the Hedge returns this 429 later,
// the Gate is not closed again.
func TestHedgeClosesTheGateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, closings := time.Now(), []string{}
		gate := &retryhttp.Gate{OnClose: func(_ string, wait time.Duration, _ error) {
			closings = append(closings, fmt.Sprint(wait, " at ", time.Since(began)))
		}}
		base := script(reply{after: 5 * time.Second}, reply{after: 10 * ms, status: 429, wait: 1}, reply{status: 429, wait: 2}, reply{status: 200})
		tr := &retryhttp.Transport{Base: &retryhttp.Hedge{Base: base, After: 50 * ms}, Gate: gate, Policy: retry.Policy{MaxAttempts: 3}}
		assert.Equal(t, "answer 4", textOf(t, send(t, tr)))
		require.Len(t, closings, 2)
		assert.Equal(t, "1s at 60ms", closings[0])
		assert.Regexp(t, "^2s at 6", closings[1], "an answer without a second request")
	})
	bubble(t, "a RoundTripper above the Hedge copies the response", func(t *testing.T) {
		closed := 0
		h := &retryhttp.Hedge{After: 50 * ms, Base: script(reply{after: 5 * time.Second, status: 503}, reply{after: 10 * ms, status: 429, wait: 1}, 200)}
		tr := &retryhttp.Transport{
			Policy: retry.Policy{MaxAttempts: 2},
			Gate:   &retryhttp.Gate{OnClose: func(string, time.Duration, error) { closed++ }},
			Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				resp, err := h.RoundTrip(req)
				out := *resp
				return &out, err
			}),
		}
		send(t, tr)
		assert.Equal(t, 1, closed)
	})
	bubble(t, "only Check finds the wait", func(t *testing.T) {
		var closings []time.Duration
		tr := &retryhttp.Transport{
			Policy: retry.Policy{MaxAttempts: 2, MaxElapsed: time.Second},
			Base:   &retryhttp.Hedge{Base: script(reply{after: 100 * ms, status: 503}, reply{after: 100 * ms, status: 429}), After: 50 * ms},
			Gate:   &retryhttp.Gate{OnClose: func(_ string, wait time.Duration, _ error) { closings = append(closings, wait) }},
			Check: func(req *http.Request, resp *http.Response, err error) error {
				return retry.After(30*time.Second, retryhttp.Check(req, resp, err))
			},
		}
		send(t, tr)
		assert.Equal(t, []time.Duration{30 * time.Second}, closings)
	})
	bubble(t, "a Base returns the same response again", func(t *testing.T) {
		closed, resp := 0, asksToWait(429, 1)
		tr := &retryhttp.Transport{Base: script(resp), Policy: retry.Policy{MaxAttempts: 3}, Gate: &retryhttp.Gate{OnClose: func(string, time.Duration, error) { closed++ }}}
		send(t, tr)
		assert.Equal(t, 3, closed)
	})
}

// A RoundTripper between the Transport and the Hedge may write the method of a GET in its own way.
// The Hedge still knows whose request it is.
func TestHedgeOfARequestWithoutAMethod(t *testing.T) {
	for method, between := range map[string]string{"": "GET", "GET": ""} {
		bubble(t, method, func(t *testing.T) {
			closed := 0
			h := &retryhttp.Hedge{Base: script(reply{after: time.Second, status: 200}, reply{after: 10 * ms, status: 429, wait: 9}), After: 50 * ms}
			tr := &retryhttp.Transport{Gate: &retryhttp.Gate{OnClose: func(string, time.Duration, error) { closed++ }}, Policy: retry.Policy{MaxAttempts: 2}}
			tr.Base = roundTrip(func(req *http.Request) (*http.Response, error) {
				inner := req.Clone(req.Context())
				inner.Method = between
				return h.RoundTrip(inner)
			})
			req := request(t, "GET")
			req.Method = method
			send(t, tr, req)
			assert.Equal(t, 1, closed)
		})
	}
}

// After a redirect, a second request that reaches LendBudget late does not read the requests of the
// caller, who may reuse them. The race detector fails this test if it does.
func TestHedgeLeavesTheRedirectToTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(response(302, "Location", "/next"), response(302, "Location", "/last"), reply{after: 70 * ms, status: 200})
		lend := retryhttp.LendBudget(base, 1)
		client := &http.Client{Transport: &retryhttp.Hedge{After: 50 * ms, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			if retryhttp.Hedged(req.Context()) {
				time.Sleep(40 * ms)
			}
			return lend.RoundTrip(req)
		})}}
		req := request(t, "GET").WithContext(retry.WithBudget(t.Context(), &retry.Budget{Size: 5}))
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		req.URL.Host = "other.test"
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 4, base.count())
		assert.Equal(t, "1 1 1 1", leases(base), "no redirect has led to another host")
	})
}

// A failover sends a request again, with its own copy of the request, if the answer is a 429.
type failover struct{ below http.RoundTripper }

func (f failover) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	resp, err := f.below.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusTooManyRequests {
		_ = resp.Body.Close()
		req.URL.RawPath = "/" // the Hedge finds the Transport by the other fields
		return f.below.RoundTrip(req)
	}
	return resp, err
}

// A RoundTripper between the Transport and the Hedge may change its copy of the request as soon as
// RoundTrip has returned. The race detector fails this test if the Hedge still reads the copy.
func TestHedgeLeavesTheRequestToTheRoundTripperAbove(t *testing.T) {
	for range 2000 {
		synctest.Test(t, func(t *testing.T) {
			base := script(reply{after: 100 * ms, status: 429}, reply{after: 50 * ms, status: 503, deaf: true}, 200)
			tr := &retryhttp.Transport{Base: failover{&retryhttp.Hedge{Base: base, After: 50 * ms}}, Policy: retry.Policy{MaxAttempts: 2}}
			require.Equal(t, 200, send(t, tr).StatusCode)
			time.Sleep(time.Hour)
		})
	}
}

// ErrorOf, Result and the Request of the response are the same with and without a Hedge above the
// Transport. So is the error of a Transport above the Hedge.
func TestHedgeAboveATransport(t *testing.T) {
	refuses := func(req *http.Request, resp *http.Response, err error) error {
		if err == nil && resp.StatusCode == 200 {
			return errors.New("this is not the expected page")
		}
		return retryhttp.Check(req, resp, err)
	}
	busy := func(*http.Request) (*http.Response, error) { return textResponse(503, "busy"), nil }
	bare := func(*http.Request) (*http.Response, error) { return responseWith(503, http.NoBody), nil }
	for _, tt := range []struct {
		name  string
		check retryhttp.CheckFunc
		steps []any
		want  string // the error of Result
	}{
		{"a success", nil, []any{200}, "<nil>"},
		{"a 200 that Check rejects", refuses, []any{200}, "retry: attempts exhausted after 2 attempts: this is not the expected page"},
		{"a 503", nil, []any{busy}, "retry: attempts exhausted after 2 attempts: retryhttp: GET http://example.test/: 503 Service Unavailable"},
		{"a 503 without a body", nil, []any{bare}, "retry: attempts exhausted after 2 attempts: retryhttp: GET http://example.test/: 503 Service Unavailable"},
		{"a 404", nil, []any{404}, "retry: permanent error after 1 attempt: retryhttp: GET http://example.test/: 404 Not Found"},
		{"a 404 that Check accepts", returns(nil), []any{404}, "retryhttp: GET http://example.test/: 404 Not Found"},
		{"a 404 after a lost answer", nil, []any{errReset, 404}, "retry: permanent error after 2 attempts: retryhttp: GET http://example.test/: 404 Not Found; " +
			"before that: connection reset by peer"},
	} {
		direct := func(below http.RoundTripper) http.RoundTripper { return below }
		early := func(below http.RoundTripper) http.RoundTripper {
			return &retryhttp.Hedge{Base: below, After: time.Minute}
		}
		second := func(below http.RoundTripper) http.RoundTripper {
			return &retryhttp.Hedge{After: 50 * ms, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				if !retryhttp.Hedged(req.Context()) {
					time.Sleep(time.Second)
				}
				return below.RoundTrip(req)
			})}
		}
		late := func(below http.RoundTripper) http.RoundTripper {
			return &retryhttp.Hedge{After: 50 * ms, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				if retryhttp.Hedged(req.Context()) {
					return nil, errReset
				}
				time.Sleep(time.Second)
				return below.RoundTrip(req)
			})}
		}
		outer := func(below http.RoundTripper) http.RoundTripper {
			return &retryhttp.Transport{Base: below, Policy: retry.Policy{MaxAttempts: 2}, Check: tt.check}
		}
		run := func(t *testing.T, above ...func(http.RoundTripper) http.RoundTripper) (found []string) {
			type key struct{}
			req := request(t, "GET").WithContext(context.WithValue(t.Context(), key{}, "here"))
			for range 2 {
				var rt http.RoundTripper = &retryhttp.Transport{Base: script(tt.steps...), Policy: retry.Policy{MaxAttempts: 2}, Check: tt.check}
				for _, add := range above {
					rt = add(rt)
				}
				resp := send(t, rt, req)
				stop := retryhttp.ErrorOf(resp)
				_, err := retryhttp.Result(resp, nil)
				if stop != nil {
					assert.Same(t, stop, err)
				}
				var e *retry.Error
				var status *retryhttp.StatusError
				if errors.As(err, &e) {
					found = append(found, fmt.Sprint("before: ", e.Before))
				}
				if errors.As(err, &status) {
					found = append(found, "the body: "+string(status.Body))
				}
				assert.Equal(t, req, resp.Request.WithContext(req.Context()))
				assert.Equal(t, "here", resp.Request.Context().Value(key{}))
				assert.NoError(t, resp.Request.Context().Err())
				found = append(found, fmt.Sprint(err), fmt.Sprint("values of the context: ", strings.Count(fmt.Sprint(resp.Request.Context()), "WithValue")))
				req = resp.Request // a caller may send it again: its context does not grow with each call
			}
			return found
		}
		for name, hedge := range map[string]func(http.RoundTripper) http.RoundTripper{"an early answer": early, "a late answer": late, "a second request": second} {
			bubble(t, tt.name+", "+name, func(t *testing.T) {
				want := run(t, direct)
				assert.Contains(t, want, tt.want)
				assert.Equal(t, want, run(t, hedge))
				assert.Equal(t, want, run(t, hedge, hedge), "two Hedges")
				assert.Equal(t, run(t, outer), run(t, hedge, outer), "between two Transports")
			})
		}
	}
}

// A 203 that the Check of a Transport below has rejected is a failure, so the second request may
// still win.
func TestHedgeAboveATransportThatRejectsA203(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &retryhttp.Transport{
			Base: script(reply{after: 70 * ms, status: 203}, reply{after: 100 * ms, status: 200}),
			Check: func(_ *http.Request, resp *http.Response, _ error) error {
				if resp.StatusCode == 203 {
					return errors.New("a proxy has changed the page")
				}
				return nil
			},
		}
		resp := send(t, &retryhttp.Hedge{Base: below, After: 50 * ms})
		assert.Equal(t, "answer 2", textOf(t, resp))
		assert.NoError(t, retryhttp.ErrorOf(resp))
	})
}

// AttemptOf, Hedged, OnHedge and the log say whether an answer came from a second request.
func TestHedgeIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan string, 99)
		tell := func(format string, args ...any) { told <- fmt.Sprintf(format, args...) }
		replies := script(reply{after: time.Second, status: 503}, reply{status: 503, wait: 1},
			reply{after: 70 * ms, status: 429}, reply{after: time.Second, status: 200}, reply{after: time.Second, status: 200}, reply{status: 200})
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			tell("sent: attempt %d, second %v", retryhttp.AttemptOf(req.Context()), retryhttp.Hedged(req.Context()))
			below := script(200)
			send(t, &retryhttp.Transport{Base: below}, request(t, "GET").WithContext(req.Context()))
			assert.False(t, retryhttp.Hedged(below.sent[0].Context()), "a call in Base is not hedged")
			return replies.RoundTrip(req)
		})
		var lines, slogs bytes.Buffer
		log := retrylog.NewWriter(&lines).OnEvent
		toSlog := retrylog.Slog(slog.New(slog.NewJSONHandler(&slogs, &slog.HandlerOptions{Level: slog.LevelDebug})))
		textOf(t, send(t, &retryhttp.Transport{
			Base: &retryhttp.Hedge{Base: base, After: 50 * ms, OnHedge: func(ctx context.Context, won bool) {
				tell("OnHedge: attempt %d, won %v", retryhttp.AttemptOf(ctx), won)
			}},
			Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(ms), OnEvent: func(ctx context.Context, e retry.Event) {
				if e.Kind == retry.AttemptFinished {
					tell("finished: attempt %d, hedged %v", e.Attempt, retryhttp.Hedged(ctx))
				}
				log(ctx, e)
				toSlog(ctx, e)
			}},
		}))
		assert.False(t, retryhttp.Hedged(t.Context()))
		for n, won := range []bool{true, false, true} { // the second request of the first attempt wins, because only its answer asks to wait
			assert.Equal(t, fmt.Sprintf("sent: attempt %d, second false", n+1), <-told)
			assert.Equal(t, fmt.Sprintf("sent: attempt %d, second true", n+1), <-told)
			assert.Equal(t, fmt.Sprintf("OnHedge: attempt %d, won %v", n+1, won), <-told)
			assert.Equal(t, fmt.Sprintf("finished: attempt %d, hedged %v", n+1, won), <-told)
		}
		assert.Empty(t, told)
		for _, log := range []*bytes.Buffer{&lines, &slogs} {
			records, err := retrylog.Read(log)
			require.NoError(t, err)
			var hedged []string
			for _, r := range records {
				if assert.Equal(t, r.Hedged, strings.Contains(r.String(), ", by a second request")); r.Hedged {
					hedged = append(hedged, fmt.Sprint(r.Event.Kind, " ", r.Event.Attempt))
				}
			}
			assert.Equal(t, []string{"attempt_finished 1", "attempt_finished 3"}, hedged)
		}
	})
}

// If Enter refuses the next attempt, the last attempt is still the one that a Hedge has answered.
func TestHedgedAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		tr := &retryhttp.Transport{
			Base: &retryhttp.Hedge{Base: script(reply{after: time.Second, status: 200}, 200), After: 50 * ms},
			Policy: retry.Policy{
				MaxAttempts: 2,
				Enter: func(_ context.Context, e retry.Event) error {
					if e.Attempt == 2 {
						return errNoAnswer
					}
					return nil
				},
				OnEvent: func(ctx context.Context, e retry.Event) {
					told = append(told, fmt.Sprint(e.Kind, " ", retryhttp.Hedged(ctx)))
				},
			},
			Check: func(_ *http.Request, resp *http.Response, _ error) error { return retry.After(1, errReset) },
		}
		_, err := tr.RoundTrip(request(t, "GET"))
		assert.ErrorIs(t, err, errReset)
		assert.Equal(t, []string{"attempt_started false", "attempt_finished true", "retry_scheduled true", "call_finished true"}, told)
		time.Sleep(time.Minute)
	})
}

// If Base calls a Hedge twice in one attempt, Hedged is about the second call. If a Hedge is below
// another Hedge, Hedged is about the outer Hedge.
func TestHedgedIsAboutTheLastCall(t *testing.T) {
	nested := func(below http.RoundTripper) http.RoundTripper {
		return &retryhttp.Hedge{Base: below, After: 100 * ms}
	}
	twice := func(below http.RoundTripper) http.RoundTripper { return failover{below} }
	for _, tt := range []struct {
		name    string
		above   func(http.RoundTripper) http.RoundTripper
		replies []any
		want    bool
	}{
		{"the second call has no second request", twice, []any{reply{after: 300 * ms}, reply{after: 10 * ms, status: 429}, reply{status: 200}}, false},
		{"only the second call has a second request", twice, []any{reply{status: 429}, reply{after: 300 * ms, status: 200}, reply{status: 200}}, true},
		{"the second request of the outer Hedge is answered", nested, []any{reply{after: time.Second, status: 200}, reply{after: time.Second, status: 200}, reply{status: 200}}, true},
		{"the first request of the outer Hedge is answered, by the inner Hedge's first", nested, []any{
			reply{after: 300 * ms, status: 200}, reply{after: time.Second, status: 200}, reply{after: 70 * ms, status: 503}, reply{after: 10 * ms, status: 429},
		}, false},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var hedged []bool
			tr := &retryhttp.Transport{
				Base: tt.above(&retryhttp.Hedge{Base: script(tt.replies...), After: 50 * ms}),
				Policy: retry.Policy{MaxAttempts: 2, OnEvent: func(ctx context.Context, e retry.Event) {
					if e.Kind == retry.AttemptFinished {
						hedged = append(hedged, retryhttp.Hedged(ctx))
					}
				}},
			}
			assert.Equal(t, 200, send(t, tr).StatusCode)
			assert.Equal(t, []bool{tt.want}, hedged)
			time.Sleep(time.Hour)
		})
	}
}

// The test sends 200 requests a second to a server whose answers take 10 ms, with a timeout of 2 s.
// Second requests must help if few answers are slow, and must be few if all answers are slow.
func TestHedgeUnderLoad(t *testing.T) {
	page, err := os.ReadFile("../docs/hedge.md")
	require.NoError(t, err)
	for _, tt := range []struct {
		name         string
		every        int64 // one answer in this many is slow
		slow         time.Duration
		atATime      int // how many requests the server works on
		without, p99 time.Duration
		more         int64 // how many more requests are sent than without a Hedge
	}{
		{"2 % of the answers take 500 ms", 50, 500 * ms, 1e6, 500 * ms, 60 * ms, 41},
		{"all answers take 500 ms", 1, 500 * ms, 1e6, 500 * ms, 500 * ms, 10},
		{"a server at 75 % of its capacity", 1, 150 * ms, 40, 150 * ms, 150 * ms, 10},
	} {
		assert.Contains(t, string(page), fmt.Sprintf("\n| %s | %d ms | %d ms | %d |\n", tt.name, tt.without.Milliseconds(), tt.p99.Milliseconds(), tt.more))
		bubble(t, tt.name, func(t *testing.T) {
			const requests = 2000
			run := func(after time.Duration) (p99 time.Duration, served int64) {
				var n atomic.Int64
				room := make(chan bool, tt.atATime)
				h := &retryhttp.Hedge{After: after, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
					takes := 10 * ms
					if (n.Add(1)-7)%tt.every == 0 {
						takes = tt.slow
					}
					done := make(chan bool)
					go func() { // like a database, it goes on after the client has gone
						room <- true
						defer func() { <-room }()
						time.Sleep(takes)
						close(done)
					}()
					select {
					case <-done:
						return response(200), nil
					case <-req.Context().Done():
						return nil, req.Context().Err()
					}
				})}
				var calls sync.WaitGroup
				took := make([]time.Duration, requests)
				for i := range requests {
					calls.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
						defer cancel()
						began := time.Now()
						_ = send(t, h, request(t, "GET").WithContext(ctx)).Body.Close() // send fails the test if there is no response
						took[i] = time.Since(began)
					})
					time.Sleep(5 * ms)
				}
				calls.Wait()
				time.Sleep(time.Minute) // in this time, the server handles all requests
				slices.Sort(took)
				return took[requests*99/100], n.Load()
			}
			p99, served := run(0)
			assert.Equal(t, []any{tt.without, int64(requests)}, []any{p99, served})
			p99, served = run(50 * ms)
			assert.Equal(t, []any{tt.p99, tt.more}, []any{p99, served - requests})
		})
	}
}

// A caller may cancel at any time. Then RoundTrip returns an error or a response, and every body is
// closed. After the first request has failed, RoundTrip does not wait for a second request that
// ignores its context.
func TestHedgeCallerCancels(t *testing.T) {
	for at := range 12 {
		for _, deaf := range []bool{false, true} {
			bubble(t, fmt.Sprint("after ", 10*at, " ms, Base ignores its context: ", deaf), func(t *testing.T) {
				own, began, end := &retry.Budget{Size: 5}, time.Now(), time.Duration(10*at)*ms+1
				base := script(reply{after: 75 * ms, status: 503, deaf: deaf}, reply{after: 55 * ms, status: 200, deaf: deaf})
				ctx, cancel := context.WithTimeout(t.Context(), end)
				defer cancel()
				resp, err := (&retryhttp.Hedge{Base: base, After: 50 * ms, Budgets: always(own)}).RoundTrip(request(t, "GET").WithContext(ctx))
				assert.LessOrEqual(t, time.Since(began), max(75*ms, end))
				if err == nil {
					_ = resp.Body.Close()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, 5-(base.count()-1), own.Left())
				assert.Equal(t, at >= 5, base.count() == 2)
				for n, b := range base.bodies {
					if b != nil {
						assert.EqualValues(t, 1, b.closes, "answer %d", n+1)
					}
				}
			})
		}
	}
}

// If a function of the user panics, both requests end, and every body is closed. So no connection
// stays open.
func TestHedgeLeavesNothingOpenAfterAPanic(t *testing.T) {
	boom := func() { panic("bug of the user") }
	slow, fast := reply{after: time.Second, status: 200}, reply{after: 10 * ms, status: 200}
	canceled := func(req *http.Request) {
		if req.Context().Err() != nil {
			boom()
		}
	}
	dies := func(req *http.Request) (*http.Response, error) { <-req.Context().Done(); panic("bug of the user") }
	advise := func(at int) func(*retryhttp.Transport, *retryhttp.Hedge) {
		return func(tr *retryhttp.Transport, _ *retryhttp.Hedge) {
			var n atomic.Int64
			tr.Advise = func(*http.Response) retryhttp.Advice {
				if n.Add(1) == int64(at) {
					boom()
				}
				return retryhttp.Advice{}
			}
		}
	}
	for _, tt := range []struct {
		name   string
		steps  []any
		edit   func(*retryhttp.Transport, *retryhttp.Hedge)
		panics bool // RoundTrip panics; false: the attempt fails, or another request answers
		bodies int  // how many answers have a body
	}{
		{"OnHedge, the second has won", []any{slow, fast}, func(_ *retryhttp.Transport, h *retryhttp.Hedge) {
			h.OnHedge = func(context.Context, bool) { boom() }
		}, true, 1},
		{"OnHedge, the first has won", []any{reply{after: 70 * ms, status: 200}, slow}, func(_ *retryhttp.Transport, h *retryhttp.Hedge) {
			h.OnHedge = func(context.Context, bool) { boom() }
		}, true, 1},
		{"OnHedge, both have an answer", []any{reply{after: 70 * ms, status: 503}, fast}, func(_ *retryhttp.Transport, h *retryhttp.Hedge) {
			h.OnHedge = func(context.Context, bool) { boom() }
		}, true, 1},
		{"OnHedge, both have failed", []any{reply{after: 70 * ms, status: 503}, reply{after: 100 * ms, status: 503}}, func(_ *retryhttp.Transport, h *retryhttp.Hedge) {
			h.OnHedge = func(context.Context, bool) { boom() }
		}, true, 2},
		{"OnHedge, Goexit", []any{slow, fast}, func(_ *retryhttp.Transport, h *retryhttp.Hedge) {
			h.OnHedge = func(context.Context, bool) { runtime.Goexit() }
		}, true, 1},
		{"Base, the first, when it is canceled after the second has answered", []any{dies, fast}, nil, true, 1},
		{"Base, the first, when its answer is too late", []any{reply{after: 70 * ms, status: 200, deaf: true, last: canceled}, fast}, nil, true, 1},
		{"Base, the second, when it is canceled after the first has answered", []any{reply{after: 70 * ms, status: 200}, dies}, nil, false, 1},
		{"Hedge.Budgets", []any{slow}, func(_ *retryhttp.Transport, h *retryhttp.Hedge) {
			h.Budgets = func(*http.Request) *retry.Budget { boom(); return nil }
		}, true, 0},
		{"Advise, of the first answer in time", []any{reply{after: ms, status: 404}}, advise(1), true, 1},
		{"Advise, of the first answer", []any{reply{after: 70 * ms, status: 404}, slow}, advise(1), true, 1},
		{"Advise, of the second answer", []any{slow, reply{status: 404}}, advise(1), false, 1},
		{"Advise, of both answers", []any{reply{after: 70 * ms, status: 503}, reply{after: 100 * ms, status: 404}}, advise(2), false, 2},
		{"Gate.OnClose, of the second answer", []any{slow, reply{status: 429, wait: 9}}, func(tr *retryhttp.Transport, _ *retryhttp.Hedge) {
			tr.Gate = &retryhttp.Gate{OnClose: func(string, time.Duration, error) { boom() }}
		}, false, 1},
		{"Check", []any{slow, fast}, func(tr *retryhttp.Transport, _ *retryhttp.Hedge) {
			tr.Check = func(*http.Request, *http.Response, error) error { boom(); return nil }
		}, true, 1},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := script(tt.steps...)
			h := &retryhttp.Hedge{Base: base, After: 50 * ms}
			tr := &retryhttp.Transport{Base: h, Policy: retry.Policy{MaxAttempts: 2}}
			if tt.edit != nil {
				tt.edit(tr, h)
			}
			req, returned := request(t, "GET").WithContext(context.Background()), false // this context never ends
			var ended sync.WaitGroup
			ended.Go(func() { // in a goroutine of its own, because runtime.Goexit ends the goroutine
				defer func() { assert.Equal(t, tt.panics, !returned); _ = recover() }()
				resp, err := tr.RoundTrip(req)
				returned = true
				if err == nil {
					_ = resp.Body.Close()
				}
			})
			ended.Wait()
			time.Sleep(time.Hour)
			synctest.Wait()
			bodies := 0
			for n, sent := range base.sent {
				assert.Error(t, sent.Context().Err(), "request %d", n+1)
				if b := base.bodies[n]; b != nil {
					bodies++
					assert.Equal(t, 1, b.closes, "answer %d", n+1)
				}
			}
			assert.Equal(t, tt.bodies, bodies)
		})
	}
}

// The test uses connections of net/http. After 20 panics of OnHedge, no connection is in use.
func TestHedgeLeavesNoConnectionAfterAPanic(t *testing.T) {
	var open atomic.Int64
	ended := make(chan struct{}, 100)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		open.Add(-1)
		ended <- struct{}{}
	})
	base := server.Client().Transport
	sent := atomic.Int64{}
	h := &retryhttp.Hedge{After: ms, Budgets: retryhttp.NoBudgets, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		if n := sent.Add(1); n%2 == 1 { // the first request waits until the second has won
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		return base.RoundTrip(req)
	}), OnHedge: func(context.Context, bool) { panic("bug of the user") }}
	for range 20 {
		req := httptest.NewRequestWithContext(context.Background(), "GET", server.URL, nil)
		assert.PanicsWithValue(t, "bug of the user", func() { _, _ = h.RoundTrip(req) })
		<-ended // the server has noticed that the connection is closed
	}
	assert.Zero(t, open.Load())
}
