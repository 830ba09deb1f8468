package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
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

const ms = time.Millisecond

// A reply answers a request after some time, if its context lives that long.
type reply struct {
	after  time.Duration
	status int // 0: a connection that is reset
	wait   int // the Retry-After, in seconds; 0: none
	body   func(ctx context.Context) io.Reader
	deaf   bool                // it comes although the context is done
	last   func(*http.Request) // is called at its end, and may panic
}

// replicas answer one request after the other by these replies. It is safe for concurrent use.
func replicas(replies ...reply) *served { return &served{replies: replies} }

type served struct {
	mu      sync.Mutex
	replies []reply
	sent    []*http.Request
	at      []time.Time
	bodies  []*exclusive // of the answers; nil: there was none
}

func (s *served) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	n := len(s.sent)
	req.URL.Path, req.Header["X-Sent"] = fmt.Sprint("/", n), nil // a Base may change its request
	s.sent, s.at, s.bodies = append(s.sent, req), append(s.at, time.Now()), append(s.bodies, nil)
	r := s.replies[min(n, len(s.replies)-1)]
	s.mu.Unlock()
	done := req.Context().Done()
	if r.deaf {
		done = nil
	}
	select {
	case <-time.After(r.after):
	case <-done:
		return nil, req.Context().Err()
	}
	if r.last != nil {
		r.last(req)
	}
	if r.status == 0 {
		return nil, errReset
	}
	var text io.Reader = strings.NewReader(fmt.Sprint("answer ", n+1))
	if r.body != nil {
		text = r.body(req.Context())
	}
	b := &exclusive{ctx: req.Context(), body: body{Reader: text}}
	resp := responseWith(r.status, b)
	if r.wait > 0 {
		resp.Header.Set("Retry-After", fmt.Sprint(r.wait))
	}
	resp.Request = req
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies[n] = b
	return resp, nil
}

// count returns how many requests were sent.
func (s *served) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

// Rule 1. Whatever may not run at the same time as itself is sent once.
func TestHedgeWhatIsSentTwice(t *testing.T) {
	type edit = func(*http.Request, *retryhttp.Hedge, *retryhttp.Transport)
	with := func(text string) edit {
		return func(req *http.Request, _ *retryhttp.Hedge, _ *retryhttp.Transport) { rewindable(req, text) }
	}
	header := func(name string) edit {
		return func(req *http.Request, _ *retryhttp.Hedge, _ *retryhttp.Transport) { req.Header.Set(name, "x") }
	}
	after := func(d time.Duration) edit {
		return func(_ *http.Request, h *retryhttp.Hedge, _ *retryhttp.Transport) { h.After = d }
	}
	for _, tt := range []struct {
		name, method string
		edit         edit
		sent         int
	}{
		{"GET", "GET", nil, 2},
		{"no method, which is GET", "", nil, 2},
		{"HEAD", "HEAD", nil, 2},
		{"GET with NoBody", "GET", func(req *http.Request, _ *retryhttp.Hedge, _ *retryhttp.Transport) { req.Body = http.NoBody }, 2},
		{"GET with a body", "GET", with("data"), 1},
		{"GET with a body that may be empty", "GET", with(""), 1},
		{"GET that upgrades", "GET", header("Upgrade"), 1},
		{"GET that may not be repeated", "GET", func(_ *http.Request, _ *retryhttp.Hedge, tr *retryhttp.Transport) {
			tr.Idempotent = func(*http.Request) bool { return false }
		}, 1},
		{"PUT", "PUT", nil, 1},
		{"DELETE", "DELETE", nil, 1},
		{"OPTIONS", "OPTIONS", nil, 1},
		{"TRACE", "TRACE", nil, 1},
		{"get, another method", "get", nil, 1},
		{"POST", "POST", with("charge 10 EUR"), 1},
		{"POST with a key", "POST", header("Idempotency-Key"), 1},
		{"no After", "GET", after(0), 1},
		{"an After below zero", "GET", after(-1), 1},
	} {
		for _, under := range []bool{true, false} {
			bubble(t, fmt.Sprint(tt.name, ", under a Transport: ", under), func(t *testing.T) {
				base := replicas(reply{after: time.Second, status: 200})
				h := &retryhttp.Hedge{Base: base, After: 50 * ms}
				tr := &retryhttp.Transport{Base: h, Policy: retry.Policy{MaxAttempts: 3}}
				req := request(t, "GET")
				req.Method = tt.method
				if tt.edit != nil {
					tt.edit(req, h, tr)
				}
				var rt http.RoundTripper = h
				if under {
					rt = tr
				} else if tr.Idempotent != nil {
					return
				}
				assert.Equal(t, "answer 1", textOf(t, send(t, rt, req)))
				assert.Equal(t, tt.sent, base.count())
			})
		}
	}
	_, err := (&retryhttp.Hedge{Base: script(errReset), After: 1}).RoundTrip(&http.Request{})
	assert.Equal(t, errReset, err, "Base says what is wrong with a request without a URL")
	nothing := roundTrip(func(*http.Request) (*http.Response, error) { return nil, nil })
	_, err = (&retryhttp.Hedge{Base: nothing, After: 1}).RoundTrip(request(t, "GET"))
	assert.ErrorContains(t, err, "the RoundTripper retryhttp_test.roundTrip returned neither a response nor an error")
}

// Rule 2. The first answer that succeeds is returned, and never a failure in its place.
func TestHedgeWhichAnswer(t *testing.T) {
	ok := func(after time.Duration) reply { return reply{after: after, status: 200} }
	is := func(after time.Duration, status int) reply { return reply{after: after, status: status} }
	asks := func(after time.Duration, status int) reply { return reply{after: after, status: status, wait: 9} }
	reset := func(after time.Duration) reply { return reply{after: after} }
	yes, no, none := []bool{true}, []bool{false}, []bool(nil)
	for _, tt := range []struct {
		name          string
		first, second reply // the second request is sent after 50 ms
		want          string
		took          time.Duration
		won           []bool // what OnHedge got
	}{
		{"an answer in time", ok(20 * ms), ok(0), "200 of 1", 20 * ms, none},
		{"a 503 in time is the Transport's business", is(20*ms, 503), ok(0), "503 of 1", 20 * ms, none},
		{"a 429 in time", is(20*ms, 429), ok(0), "429 of 1", 20 * ms, none},
		{"an error in time", reset(20 * ms), ok(0), "error", 20 * ms, none},

		{"the second is faster", ok(time.Second), ok(10 * ms), "200 of 2", 60 * ms, yes},
		{"the first is faster", ok(70 * ms), ok(time.Second), "200 of 1", 70 * ms, no},
		{"a fast 404 of the second is an answer", ok(time.Second), is(10*ms, 404), "404 of 2", 60 * ms, yes},
		{"a fast 501 too", ok(time.Second), is(10*ms, 501), "501 of 2", 60 * ms, yes},
		{"a fast redirect too", ok(time.Second), is(10*ms, 302), "302 of 2", 60 * ms, yes},
		{"a late 404 of the first is an answer", is(70*ms, 404), ok(time.Second), "404 of 1", 70 * ms, no},

		{"a fast 503 of the second", ok(time.Second), is(10*ms, 503), "200 of 1", time.Second, no},
		{"a connection of the second that is refused", ok(time.Second), reset(0), "200 of 1", time.Second, no},
		{"a fast 429 of the second", ok(time.Second), is(10*ms, 429), "200 of 1", time.Second, no},
		{"a fast 403 of the second that asks to wait", ok(time.Second), asks(10*ms, 403), "200 of 1", time.Second, no},

		{"a late 503 of the first, and a success", is(70*ms, 503), ok(100 * ms), "200 of 2", 150 * ms, yes},
		{"a late reset of the first, and a success", reset(70 * ms), ok(100 * ms), "200 of 2", 150 * ms, yes},
		{"a late reset of the first, and a 404", reset(70 * ms), is(100*ms, 404), "404 of 2", 150 * ms, yes},
		{"a late 429 of the first ends the race", is(70*ms, 429), ok(100 * ms), "429 of 1", 70 * ms, no},
		{"a late 503 of the first that asks to wait, too", asks(70*ms, 503), ok(100 * ms), "503 of 1", 70 * ms, no},

		{"both fail, the first later", is(time.Second, 503), is(10*ms, 502), "503 of 1", time.Second, no},
		{"both fail, the second later", is(70*ms, 503), is(time.Second, 502), "503 of 1", 1050 * ms, no},
		{"both fail, the first without a response", reset(70 * ms), is(100*ms, 503), "error", 150 * ms, no},
		{"both fail, and only the second asks to wait", reset(time.Second), asks(10*ms, 503), "503 of 2", time.Second, yes},
		{"both fail, and only the second asks to wait, later", is(70*ms, 500), is(100*ms, 429), "429 of 2", 150 * ms, yes},
		{"both ask to wait", is(time.Second, 429), asks(10*ms, 503), "429 of 1", time.Second, no},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := replicas(tt.first, tt.second)
			req := request(t, "GET")
			var won []bool
			h := &retryhttp.Hedge{Base: base, After: 50 * ms, OnHedge: func(ctx context.Context, is bool) {
				assert.Equal(t, req.Context(), ctx)
				won = append(won, is)
			}}
			began := time.Now()
			resp, err := h.RoundTrip(req)
			assert.Equal(t, tt.took, time.Since(began))
			assert.Equal(t, tt.won, won)
			require.Equal(t, 1+len(tt.won), base.count())
			assert.Equal(t, "/", req.URL.Path, "Base changes a copy")
			assert.Empty(t, req.Header)
			returned := -1
			if tt.want == "error" {
				assert.Nil(t, resp)
				assert.Equal(t, errReset, err)
			} else {
				require.NoError(t, err)
				text := textOf(t, resp)
				assert.Equal(t, tt.want, fmt.Sprintf("%d of %s", resp.StatusCode, strings.TrimPrefix(text, "answer ")))
				assert.Same(t, req, resp.Request)
				returned = int(text[len(text)-1] - '1')
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
}

// Rule 3. Without a second request there is no goroutine: the first is sent by the caller's.
func TestHedgeGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// stacks returns those that have a frame of a Hedge, of this goroutine or of all.
		stacks := func(all bool) (found []string) {
			buf := make([]byte, 1<<20)
			for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, all)]), "\n\n") {
				if strings.Contains(stack, "retryhttp.(*leg)") || strings.Contains(stack, "retryhttp.(*race)") {
					found = append(found, stack)
				}
			}
			return found
		}
		base := replicas(reply{after: 20 * ms, status: 200}, reply{after: time.Second, status: 200}, reply{after: 10 * ms, status: 200})
		var mu sync.Mutex
		var sent []string
		h := &retryhttp.Hedge{After: 50 * ms, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			caller := strings.Contains(stacks(false)[0], "TestHedgeGoroutines.func1(")
			sent = append(sent, fmt.Sprintf("second %v, by the caller %v, of %d", retryhttp.Hedged(req.Context()), caller, len(stacks(true))))
			mu.Unlock()
			return base.RoundTrip(req)
		})}
		textOf(t, send(t, h))
		assert.Equal(t, []string{"second false, by the caller true, of 1"}, sent)
		textOf(t, send(t, h))
		assert.Equal(t, []string{"second false, by the caller true, of 1", "second true, by the caller false, of 2"}, sent[1:])
		synctest.Wait()
		assert.Empty(t, stacks(true))
	})
}

// The loser is discarded by the rule that attempts have, and holds up no caller.
func TestHedgeDiscardsTheLoser(t *testing.T) {
	text := func(n int64) func(context.Context) io.Reader {
		return func(context.Context) io.Reader { return io.LimitReader(endless{}, n) }
	}
	reads := func(read func(context.Context)) func(context.Context) io.Reader {
		return func(ctx context.Context) io.Reader {
			return funcs{read: func([]byte) (int, error) { read(ctx); return 0, io.EOF }}
		}
	}
	for _, tt := range []struct {
		name          string
		first, second reply
		loser, read   int
		canceled      bool // before it is closed
	}{
		{"the first has failed: its connection is free again", reply{after: 70 * ms, status: 503, body: text(5)}, reply{after: 100 * ms, status: 200}, 0, 5, false},
		{"the second has failed: its connection is free again", reply{after: 500 * ms, status: 200}, reply{status: 503, body: text(5)}, 1, 5, false},
		{"the second has failed, with a long body", reply{after: 500 * ms, status: 200}, reply{status: 503, body: text(1 << 20)}, 1, 64 << 10, false},
		{"the second succeeds although it is canceled", reply{after: 70 * ms, status: 200}, reply{after: 100 * ms, status: 200, body: text(5), deaf: true}, 1, 0, true},
		{"the first succeeds although it is canceled", reply{after: 500 * ms, status: 200, body: text(5), deaf: true}, reply{status: 200}, 0, 0, true},
		{"a body that stalls", reply{after: 70 * ms, status: 503, body: reads(func(ctx context.Context) { <-ctx.Done() })}, reply{after: 100 * ms, status: 200}, 0, 0, true},
		{"a body that panics", reply{after: 500 * ms, status: 200}, reply{status: 503, body: reads(func(context.Context) { panic("bug in the body") })}, 1, 0, false},
		{"a body that ignores its context", reply{after: 500 * ms, status: 200}, reply{status: 503, body: reads(func(context.Context) { time.Sleep(time.Hour) })}, 1, 0, true},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := replicas(tt.first, tt.second)
			began := time.Now()
			resp := send(t, &retryhttp.Hedge{Base: base, After: 50 * ms})
			assert.Equal(t, fmt.Sprint("answer ", 2-tt.loser), textOf(t, resp))
			assert.LessOrEqual(t, time.Since(began), 500*ms, "it holds up no caller")
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			b := base.bodies[tt.loser]
			assert.Equal(t, []any{tt.read, 1, false, tt.canceled}, []any{b.read, b.closes, b.shared.Load(), b.over})
			assert.Error(t, b.ctx.Err())
		})
	}
}

// The context of the answer that is returned lives until its body has been read or closed.
func TestHedgeContextOfTheAnswer(t *testing.T) {
	for name, replies := range map[string][]reply{
		"the first in time": {{after: 20 * ms, status: 200}},
		"the first":         {{after: 70 * ms, status: 200}, {after: time.Second, status: 200}},
		"the second":        {{after: time.Second, status: 200}, {status: 200}},
	} {
		for how, end := range map[string]func(*testing.T, *http.Response){
			"Close": func(t *testing.T, resp *http.Response) { assert.NoError(t, resp.Body.Close()) },
			"EOF":   func(t *testing.T, resp *http.Response) { textOf(t, resp) },
		} {
			bubble(t, name+", "+how, func(t *testing.T) {
				base := replicas(replies...)
				resp := send(t, &retryhttp.Hedge{Base: base, After: 50 * ms})
				time.Sleep(time.Hour)
				ctx := base.sent[base.count()-1].Context()
				if name != "the second" {
					ctx = base.sent[0].Context()
				}
				require.NoError(t, ctx.Err())
				end(t, resp)
				assert.Error(t, ctx.Err())
			})
		}
	}
	bubble(t, "no body", func(t *testing.T) {
		base := script(responseWith(204, http.NoBody))
		resp := send(t, &retryhttp.Hedge{Base: base, After: 50 * ms})
		assert.Equal(t, http.NoBody, resp.Body, "callers compare")
		assert.Error(t, base.sent[0].Context().Err())
	})
}

// A long body of the second answer is whole, and the server learns that the first request is
// canceled.
func TestHedgeLongBody(t *testing.T) {
	for name, start := range protocols {
		t.Run(name, func(t *testing.T) {
			var served atomic.Int64
			canceled := make(chan bool)
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if served.Add(1) == 1 {
					<-r.Context().Done()
					close(canceled)
					return
				}
				_, _ = w.Write(make([]byte, 512<<10))
			}, start)
			resp, err := (&http.Client{Transport: &retryhttp.Hedge{Base: server.Client().Transport, After: 5 * ms}}).Get(server.URL)
			require.NoError(t, err)
			<-canceled
			assert.Len(t, textOf(t, resp), 512<<10)
			assert.EqualValues(t, 2, served.Load())
		})
	}
}

// Rule 4. What a second request takes, and from whom.
func TestHedgeBudget(t *testing.T) {
	for _, tt := range []struct {
		name       string
		own, outer int // what the Budgets have; -1: there is none
		twice      bool
	}{
		{"both have one", 1, 1, true},
		{"no Budget of the context", 1, -1, true},
		{"no Budget of its own", -1, 1, true},
		{"no Budget at all", -1, -1, true},
		{"its own is empty", 0, 5, false},
		{"the one of the context is empty", 5, 0, false},
	} {
		for _, of := range []string{"one", "two contexts", "its own is the one of the context"} {
			bubble(t, tt.name+", "+of, func(t *testing.T) {
				own, outer, innermost := &retry.Budget{Size: tt.own}, &retry.Budget{Size: tt.outer}, &retry.Budget{Size: 9}
				ctx := t.Context()
				if tt.outer >= 0 {
					ctx = retry.WithBudget(ctx, outer)
				}
				switch of {
				case "two contexts":
					ctx = retry.WithBudget(ctx, innermost)
				case "its own is the one of the context":
					if own = outer; tt.own != tt.outer || tt.own < 0 {
						return
					}
				}
				base := replicas(reply{after: time.Second, status: 200}, reply{after: 10 * ms, status: 200})
				h := &retryhttp.Hedge{Base: base, After: 50 * ms, Budgets: func(*http.Request) *retry.Budget {
					if tt.own < 0 {
						return nil
					}
					return own
				}}
				took := 0
				if tt.twice {
					took = 1
				}
				assert.Equal(t, fmt.Sprint("answer ", 1+took), textOf(t, send(t, h, request(t, "GET").WithContext(ctx))))
				assert.Equal(t, 1+took, base.count())
				assert.Equal(t, max(0, tt.own-took), own.Left())
				assert.Equal(t, max(0, tt.outer-took), outer.Left())
				if of == "two contexts" {
					assert.Equal(t, 9-took, innermost.Left())
				}
			})
		}
	}
}

// What puts something back is an answer in time that is no failure.
func TestHedgeBudgetGetsBack(t *testing.T) {
	for _, tt := range []struct {
		name    string
		replies []reply
		left    int // of an empty Budget, after 100 requests that put back a hundredth
	}{
		{"a success in time", []reply{{after: 20 * ms, status: 200}}, 1},
		{"a 404 in time", []reply{{after: 20 * ms, status: 404}}, 1},
		{"a 503 in time", []reply{{after: 20 * ms, status: 503}}, 0},
		{"a 429 in time", []reply{{after: 20 * ms, status: 429}}, 0},
		{"an error in time", []reply{{after: 20 * ms}}, 0},
		{"a success that is late", []reply{{after: 70 * ms, status: 200}}, 0},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			b := &retry.Budget{Size: 1, Ratio: 0.01}
			require.True(t, b.Take())
			h := &retryhttp.Hedge{Base: replicas(tt.replies...), After: 50 * ms, Budgets: func(*http.Request) *retry.Budget { return b }}
			for range 100 {
				if resp, err := h.RoundTrip(request(t, "GET")); err == nil {
					_ = resp.Body.Close()
				}
			}
			assert.Equal(t, tt.left, b.Left())
		})
	}
}

// Without Budgets there is one for each target, which is not the one of the Transport.
func TestHedgeBudgetOfTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replicas(reply{after: 100 * ms, status: 200})
		tr := &retryhttp.Transport{Base: &retryhttp.Hedge{Base: base, After: 50 * ms}, Policy: retry.Policy{MaxAttempts: 2}}
		get := func(url string, n int) (more int) {
			sent := base.count()
			for range n {
				textOf(t, send(t, tr, httptest.NewRequestWithContext(t.Context(), "GET", url, nil)))
			}
			return base.count() - sent - n
		}
		assert.Equal(t, 10, get("http://a.test/", 100), "ten at the start")
		assert.Equal(t, 0, get("http://A.test/x", 100), "and late answers put nothing back")
		assert.Equal(t, 10, get("http://b.test/", 100), "another target")
		base.replies[0].after = 0
		get("http://a.test/", 40)
		base.replies[0].after = 100 * ms
		assert.Equal(t, 2, get("http://a.test/", 10), "one for 20 answers in time")
		base.replies[0].status = 503
		sent := base.count()
		send(t, tr, httptest.NewRequestWithContext(t.Context(), "GET", "http://a.test/", nil))
		assert.Equal(t, 2, base.count()-sent, "the Budget of the Transport has retries")
	})
}

// An answer that comes when the second request is due: whether it is sent or not, it is
// paid for once, and only if it is.
func TestHedgeAnswerWhenTheSecondIsDue(t *testing.T) {
	var twice, once int
	for range 2000 {
		synctest.Test(t, func(t *testing.T) {
			outer, own := &retry.Budget{Size: 5}, &retry.Budget{Size: 5}
			base := replicas(reply{after: 50 * ms, status: 200}, reply{status: 200})
			var told int
			h := &retryhttp.Hedge{Base: base, After: 50 * ms, Budgets: func(*http.Request) *retry.Budget { return own }, OnHedge: func(context.Context, bool) { told++ }}
			req := request(t, "GET").WithContext(retry.WithBudget(t.Context(), outer))
			textOf(t, send(t, h, req))
			req.Header.Set("X", "the caller may use its request again")
			synctest.Wait()
			second := base.count() - 1
			require.Equal(t, []int{5 - second, 5 - second, second}, []int{own.Left(), outer.Left(), told})
			twice, once = twice+second, once+1-second
		})
	}
	t.Log(twice, "were sent twice,", once, "once")
}

// Both requests carry a lease, and the leaf sees no more calls than were promised.
func TestHedgeUnderALentBudget(t *testing.T) {
	for size := range 8 {
		for _, attempts := range []int{0, 1, 2, 4} { // 0: without a Transport
			bubble(t, fmt.Sprint("a Budget of ", size, ", attempts: ", attempts), func(t *testing.T) {
				var leases []string
				calls := 0
				var mu sync.Mutex
				leaf := roundTrip(func(req *http.Request) (*http.Response, error) {
					mu.Lock()
					leases = append(leases, req.Header.Get("Retry-Budget"))
					calls++ // and all that was lent to it
					lent, err := fmt.Sscan(req.Header.Get("Retry-Budget"), new(int))
					assert.NoError(t, err, lent)
					var n int
					_, _ = fmt.Sscan(req.Header.Get("Retry-Budget"), &n)
					calls += n
					mu.Unlock()
					select {
					case <-time.After(70 * ms):
					case <-req.Context().Done():
						return nil, req.Context().Err()
					}
					resp := response(503)
					resp.Header.Set("Retry-Budget-Spent", fmt.Sprint(n))
					return resp, nil
				})
				h := &retryhttp.Hedge{Base: retryhttp.LendBudget(leaf, 3), After: 50 * ms}
				var rt http.RoundTripper = h
				if attempts > 0 {
					rt = &retryhttp.Transport{Base: h, Policy: retry.Policy{MaxAttempts: attempts}}
				}
				send(t, rt, request(t, "GET").WithContext(retry.WithBudget(t.Context(), &retry.Budget{Size: size})))
				assert.LessOrEqual(t, calls, size+1)
				if size > 0 {
					assert.GreaterOrEqual(t, len(leases), 2, "the first keeps a retry for the second: %v", leases)
				}
			})
		}
	}
}

// Rule 5. A Base that panics in the second request ends neither the program nor the wait.
func TestHedgePanics(t *testing.T) {
	panics := func(*http.Request) { panic("bug in Base") }
	exits := func(*http.Request) { runtime.Goexit() }
	for _, tt := range []struct {
		name   string
		second func(*http.Request)
		first  reply
		text   string // "": the first answers
	}{
		{"a panic", panics, reply{after: time.Second, status: 200},
			"retryhttp: the RoundTripper *retryhttp_test.served panicked in the second request of a Hedge: bug in Base"},
		{"a panic after the first has answered", panics, reply{after: 55 * ms, status: 200}, ""},
		{"a panic after the first has failed", panics, reply{after: 55 * ms, status: 503}, "bug in Base"},
		{"Goexit", exits, reply{after: time.Second, status: 200}, "panicked in the second request of a Hedge: <nil>"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := replicas(tt.first, reply{after: 10 * ms, deaf: true, last: tt.second})
			var seen events
			tr := &retryhttp.Transport{Base: &retryhttp.Hedge{Base: base, After: 50 * ms}, Policy: retry.Policy{MaxAttempts: 3, OnEvent: seen.add}}
			resp, err := tr.RoundTrip(request(t, "GET"))
			if tt.text == "" {
				require.NoError(t, err)
				assert.Equal(t, "answer 1", textOf(t, resp))
			} else {
				assert.ErrorContains(t, err, tt.text)
				assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
			}
			assert.Equal(t, 2, base.count())
			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Error(t, base.sent[0].Context().Err())
			assert.Error(t, base.sent[1].Context().Err())
		})
	}
	for _, after := range []time.Duration{20 * ms, 70 * ms} {
		bubble(t, fmt.Sprint("the first panics, after ", after), func(t *testing.T) {
			base := replicas(reply{after: after, last: panics}, reply{after: time.Second, status: 200})
			assert.PanicsWithValue(t, "bug in Base", func() { _, _ = (&retryhttp.Hedge{Base: base, After: 50 * ms}).RoundTrip(request(t, "GET")) })
			time.Sleep(time.Hour)
			synctest.Wait()
			for _, sent := range base.sent {
				assert.Error(t, sent.Context().Err())
			}
			assert.Equal(t, after > 50*ms, base.count() == 2)
		})
	}
}

// Rule 6. What the Transport above does is done once for both requests.
func TestHedgeUnderATransport(t *testing.T) {
	slow, fast := reply{after: time.Second, status: 200}, reply{after: 10 * ms, status: 200}
	hedge := func(base http.RoundTripper) *retryhttp.Hedge {
		return &retryhttp.Hedge{Base: base, After: 50 * ms}
	}
	bubble(t, "Prepare and Check", func(t *testing.T) {
		var prepared, checked int
		base := replicas(slow, fast)
		tr := &retryhttp.Transport{
			Base: hedge(base), Policy: retry.Policy{MaxAttempts: 2},
			Prepare: func(req *http.Request, attempt int, _ error) error {
				prepared++
				req.Header.Set("X-Attempt", fmt.Sprint(attempt))
				return nil
			},
			Check: func(req *http.Request, resp *http.Response, _ error) error {
				checked++
				assert.NoError(t, req.Context().Err())
				text, err := io.ReadAll(resp.Body)
				assert.Equal(t, "answer 2", string(text))
				assert.NoError(t, err)
				resp.Body = io.NopCloser(bytes.NewReader(text))
				return nil
			},
		}
		assert.Equal(t, "answer 2", textOf(t, send(t, tr)))
		assert.Equal(t, []int{1, 1}, []int{prepared, checked})
		for _, sent := range base.sent {
			assert.Equal(t, "1", sent.Header.Get("X-Attempt"))
		}
	})
	bubble(t, "Advise, by which a 503 is final, but no answer", func(t *testing.T) {
		base := replicas(slow, reply{status: 503})
		never := func(*http.Response) retryhttp.Advice { return retryhttp.Advice{Verdict: retryhttp.Never} }
		assert.Equal(t, "answer 1", textOf(t, send(t, &retryhttp.Transport{Base: hedge(base), Advise: never})))
	})
	bubble(t, "AttemptTimeout, which ends both", func(t *testing.T) {
		base := replicas(reply{after: 70 * ms, status: 503}, slow, slow, fast)
		tr := &retryhttp.Transport{Base: hedge(base), Policy: retry.Policy{MaxAttempts: 2, AttemptTimeout: 200 * ms}}
		began := time.Now()
		assert.Equal(t, "answer 4", textOf(t, send(t, tr)))
		assert.Equal(t, 260*ms, time.Since(began))
	})
	bubble(t, "AttemptTimeout, said by the error", func(t *testing.T) {
		tr := &retryhttp.Transport{Base: hedge(replicas(slow)), Policy: retry.Policy{MaxAttempts: 1, AttemptTimeout: 200 * ms}}
		_, err := tr.RoundTrip(request(t, "GET"))
		assert.ErrorContains(t, err, "no response within AttemptTimeout (200ms)")
	})
	bubble(t, "StallTimeout", func(t *testing.T) {
		fast := reply{status: 200, body: func(ctx context.Context) io.Reader { return stalled{ctx} }}
		tr := &retryhttp.Transport{Base: hedge(replicas(slow, fast)), StallTimeout: time.Minute}
		began := time.Now()
		_, err := io.ReadAll(send(t, tr).Body)
		assert.ErrorContains(t, err, "no byte of the body within StallTimeout (1m0s)")
		assert.Equal(t, time.Minute+50*ms, time.Since(began))
	})
	bubble(t, "Resume, whose parts are hedged too", func(t *testing.T) {
		base := &source{text: "hello world", cuts: []int{5, -1}}
		n := 0
		var mu sync.Mutex
		slowFirst := roundTrip(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			n++
			late := n%2 == 1
			mu.Unlock()
			if late {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			return base.RoundTrip(req)
		})
		text, err := download(t, hedge(slowFirst), resuming)
		require.NoError(t, err)
		assert.Equal(t, "hello world", text)
		assert.Equal(t, 4, n)
	})
	bubble(t, "a Gate that closes meanwhile", func(t *testing.T) {
		for _, key := range []string{"this", "another"} {
			gate := &retryhttp.Gate{Key: func(req *http.Request) string { return req.Header.Get("Key") }}
			refused := request(t, "GET")
			refused.Header.Set("Key", key)
			time.AfterFunc(20*ms, func() {
				_, err := (&retryhttp.Transport{Base: script(asksToWait(429, 5)), Gate: gate}).RoundTrip(refused)
				assert.NoError(t, err)
			})
			base := replicas(slow, fast)
			req := request(t, "GET")
			req.Header.Set("Key", "this")
			textOf(t, send(t, &retryhttp.Transport{Base: hedge(base), Gate: gate}, req))
			assert.Equal(t, key == "another", base.count() == 2, key)
		}
	})
}

// A second request that is refused closes the Gate at once, although the first succeeds.
func TestHedgeClosesTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, closed := time.Now(), time.Duration(0)
		gate := &retryhttp.Gate{OnClose: func(_ string, wait time.Duration, _ error) {
			closed = time.Since(began)
			assert.Equal(t, 9*time.Second, wait)
		}}
		base := replicas(reply{after: time.Second, status: 200}, reply{after: 10 * ms, status: 429, wait: 9})
		tr := &retryhttp.Transport{Base: &retryhttp.Hedge{Base: base, After: 50 * ms}, Gate: gate}
		assert.Equal(t, "answer 1", textOf(t, send(t, tr)))
		assert.Equal(t, 60*ms, closed)
	})
}

// AttemptOf, Hedged, OnHedge and the log say which answer is the one of a second request.
func TestHedgeIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		tell := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf(format, args...))
		}
		replies := replicas(reply{after: time.Second, status: 503}, reply{status: 503, wait: 1},
			reply{after: 70 * ms, status: 429}, reply{after: time.Second, status: 200}, reply{after: time.Second, status: 200}, reply{status: 200})
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			tell("sent: attempt %d, second %v", retryhttp.AttemptOf(req.Context()), retryhttp.Hedged(req.Context()))
			below := roundTrip(func(req *http.Request) (*http.Response, error) {
				assert.False(t, retryhttp.Hedged(req.Context()), "a call below is another")
				return response(200), nil
			})
			_, err := (&retryhttp.Transport{Base: below}).RoundTrip(request(t, "GET").WithContext(req.Context()))
			assert.NoError(t, err)
			return replies.RoundTrip(req)
		})
		var lines, slogs bytes.Buffer
		log := retrylog.NewWriter(&lines).OnEvent
		toSlog := retrylog.Slog(slog.New(slog.NewJSONHandler(&slogs, &slog.HandlerOptions{Level: slog.LevelDebug})))
		tr := &retryhttp.Transport{
			Base: &retryhttp.Hedge{Base: base, After: 50 * ms, OnHedge: func(ctx context.Context, won bool) {
				tell("OnHedge: attempt %d, won %v", retryhttp.AttemptOf(ctx), won)
			}},
			Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(ms), OnEvent: func(ctx context.Context, e retry.Event) {
				if e.Kind == retry.AttemptFinished {
					tell("finished: attempt %d, hedged %v", e.Attempt, retryhttp.Hedged(ctx))
				}
				assert.Equal(t, "example.test", retryhttp.RequestOf(ctx).URL.Host)
				log(ctx, e)
				toSlog(ctx, e)
			}},
		}
		textOf(t, send(t, tr))
		assert.False(t, retryhttp.Hedged(t.Context()))
		assert.Equal(t, []string{
			"sent: attempt 1, second false", "sent: attempt 1, second true",
			"OnHedge: attempt 1, won true", // as only the second asks to wait
			"finished: attempt 1, hedged true",
			"sent: attempt 2, second false", "sent: attempt 2, second true",
			"OnHedge: attempt 2, won false",
			"finished: attempt 2, hedged false",
			"sent: attempt 3, second false", "sent: attempt 3, second true",
			"OnHedge: attempt 3, won true",
			"finished: attempt 3, hedged true",
		}, told)
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

// What the second requests are for, and what they must not do: 200 requests a second to a
// server whose answers take 10 ms, with a timeout of 2 s.
func TestHedgeUnderLoad(t *testing.T) {
	page, err := os.ReadFile("../docs/hedge.md")
	require.NoError(t, err)
	for _, tt := range []struct {
		name         string
		slow         func(n int64) time.Duration // how long the n-th answer takes; 0: 10 ms
		atATime      int                         // how many requests the server works on; 0: all
		without, p99 time.Duration
		more         int64 // requests than without
	}{
		{"2 % of the answers take 500 ms", func(n int64) time.Duration {
			if n%50 == 7 {
				return 500 * ms
			}
			return 0
		}, 0, 500 * ms, 60 * ms, 41},
		{"all answers take 500 ms", func(int64) time.Duration { return 500 * ms }, 0, 500 * ms, 500 * ms, 10},
		{"a server at 75 % of what it can do", func(int64) time.Duration { return 150 * ms }, 40, 150 * ms, 150 * ms, 10},
	} {
		assert.Contains(t, string(page), fmt.Sprintf("\n| %s | %d ms | %d ms | %d |\n", tt.name, tt.without.Milliseconds(), tt.p99.Milliseconds(), tt.more))
		bubble(t, tt.name, func(t *testing.T) {
			const requests = 2000
			run := func(after time.Duration) (p99 time.Duration, served int64) {
				var n, failed atomic.Int64
				var room chan bool
				if tt.atATime > 0 {
					room = make(chan bool, tt.atATime)
				}
				h := &retryhttp.Hedge{After: after, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
					d := max(10*ms, tt.slow(n.Add(1)))
					done := make(chan bool)
					go func() { // it works on, whether or not the client is there, as a database does
						if room != nil {
							room <- true
							defer func() { <-room }()
						}
						time.Sleep(d)
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
						resp, err := h.RoundTrip(request(t, "GET").WithContext(ctx))
						if took[i] = time.Since(began); err != nil {
							failed.Add(1)
						} else {
							_ = resp.Body.Close()
						}
					})
					time.Sleep(5 * ms)
				}
				calls.Wait()
				time.Sleep(time.Minute) // until the server has done what is left
				assert.Zero(t, failed.Load(), "nothing is lost")
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

var errCaller = errors.New("the caller has left")

// A caller that cancels at any time gets no answer, or one that it can read.
func TestHedgeCallerCancels(t *testing.T) {
	for at := range 12 {
		for _, deaf := range []bool{false, true} {
			bubble(t, fmt.Sprint("after ", 10*at, " ms, Base heeds nothing: ", deaf), func(t *testing.T) {
				own := &retry.Budget{Size: 5}
				base := replicas(reply{after: 75 * ms, status: 503, deaf: deaf}, reply{after: 30 * ms, status: 200, deaf: deaf})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Duration(10*at)*ms+1, func() { cancel(errCaller) })
				h := &retryhttp.Hedge{Base: base, After: 50 * ms, Budgets: func(*http.Request) *retry.Budget { return own }}
				resp, err := h.RoundTrip(request(t, "GET").WithContext(ctx))
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

// After the first has failed, a caller that leaves does not wait for a second that ignores
// its context.
func TestHedgeCallerDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		base := replicas(reply{after: 70 * ms}, reply{after: time.Hour, status: 200, deaf: true})
		began := time.Now()
		_, err := (&retryhttp.Hedge{Base: base, After: 50 * ms}).RoundTrip(request(t, "GET").WithContext(ctx))
		assert.Equal(t, errReset, err)
		assert.Equal(t, 100*ms, time.Since(began))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		assert.EqualValues(t, 1, base.bodies[1].closes, "what it brings is discarded")
	})
}

// 100,000 targets are no more memory than those that are kept.
func TestHedgeTargets(t *testing.T) {
	h := &retryhttp.Hedge{Base: script(200), After: time.Hour}
	size := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	base := roundTrip(func(*http.Request) (*http.Response, error) { return response(200), nil })
	h.Base = base
	before := size()
	for host := range 100_000 {
		_ = send(t, h, httptest.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("http://host%d/", host), nil)).Body.Close()
	}
	after := size()
	runtime.KeepAlive(h)
	assert.Less(t, after, before+4<<20)
}

func TestHedgeCloseIdleConnections(t *testing.T) {
	base := &closer{}
	(&http.Client{Transport: &retryhttp.Hedge{Base: base}}).CloseIdleConnections()
	assert.Equal(t, 1, base.closed)
}

// Requests that are hedged, lost, canceled and retried leave nothing behind, whatever
// their answers are.
func TestHedgeStorm(t *testing.T) {
	for name, start := range protocols {
		t.Run(name, func(t *testing.T) {
			freeAddr(t) // the runtime keeps two descriptors from the first socket on
			goroutines, files := runtime.NumGoroutine(), descriptors()
			var open, asked atomic.Int64
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				open.Add(1)
				asked.Add(1)
				defer open.Add(-1)
				pause := func(d time.Duration) {
					select {
					case <-time.After(d):
					case <-r.Context().Done():
					}
				}
				pause(time.Duration(rand.IntN(8)) * ms)
				switch rand.IntN(10) {
				case 0:
					w.WriteHeader(503)
				case 1:
					w.Header().Set("Retry-After", "0")
					w.WriteHeader(429)
				case 2:
					panic(http.ErrAbortHandler)
				case 3: // a body that breaks
					w.Header().Set("Content-Length", "100")
					_, _ = io.WriteString(w, "hel")
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				case 4: // a body that blocks
					_, _ = io.WriteString(w, "hel")
					_ = http.NewResponseController(w).Flush()
					pause(5 * ms)
				case 5:
					_, _ = w.Write(make([]byte, 100<<10))
				default:
					_, _ = io.WriteString(w, "hello")
				}
			}, start)
			var hedged, won atomic.Int64
			tr := &retryhttp.Transport{
				Base: &retryhttp.Hedge{Base: server.Client().Transport, After: 3 * ms, Budgets: retryhttp.NoBudgets, OnHedge: func(_ context.Context, is bool) {
					hedged.Add(1)
					if is {
						won.Add(1)
					}
				}},
				Policy: retry.Policy{MaxAttempts: 3}, Budgets: retryhttp.NoBudgets,
			}
			client := &http.Client{Transport: tr}
			var calls sync.WaitGroup
			calling := make(chan bool, 10)
			for n := range 1000 {
				calling <- true
				calls.Go(func() {
					defer func() { <-calling }()
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+n%100)*ms)
					defer cancel()
					req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
					require.NoError(t, err)
					if resp, err := client.Do(req); err == nil {
						if n%3 > 0 { // else it is closed unread
							_, _ = io.Copy(io.Discard, resp.Body)
						}
						_ = resp.Body.Close()
					}
				})
			}
			calls.Wait()
			server.CloseClientConnections()
			server.Close()
			client.CloseIdleConnections()
			t.Log(asked.Load(), "requests,", hedged.Load(), "of them second ones,", won.Load(), "returned")
			assert.Positive(t, won.Load())
			assert.Less(t, won.Load(), hedged.Load())
			for range 500 {
				if runtime.NumGoroutine() <= goroutines && descriptors() <= files && open.Load() == 0 {
					return
				}
				time.Sleep(10 * ms)
			}
			t.Error("left behind: goroutines", runtime.NumGoroutine()-goroutines, "descriptors", descriptors()-files, "handlers", open.Load())
		})
	}
}

// descriptors returns how many this process has, where the system says so.
func descriptors() int {
	files, _ := os.ReadDir("/proc/self/fd")
	return len(files)
}
