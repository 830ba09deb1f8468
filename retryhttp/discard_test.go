package retryhttp_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// takes is a body whose end takes some time to come.
func takes(d time.Duration) funcs {
	return funcs{read: func([]byte) (int, error) { time.Sleep(d); return 0, io.EOF }}
}

// Discarding a body is bounded, in bytes, in reads and in time, and is part of the wait:
// before a retry, by Result, and where Base returns an error too. A
// Base that pools its readers gets one back by Close. If it was still being read,
// two answers would share a reader: other requests would come back damaged.
func TestDiscard(t *testing.T) {
	const kb64, ms90 = 64 << 10, 90 * time.Millisecond
	for _, tt := range []struct {
		name   string
		length int64 // the Content-Length
		body   func(context.Context) io.Reader
		read   int
		took   time.Duration
	}{
		{"empty", 0, func(context.Context) io.Reader { return strings.NewReader("") }, 0, 0},
		{"short, length not known", -1, func(context.Context) io.Reader { return strings.NewReader("sorry") }, 5, 0},
		{"as long as the bound", kb64, func(context.Context) io.Reader { return io.LimitReader(endless{}, kb64) }, kb64, 0},
		{"known to be longer", kb64 + 1, func(context.Context) io.Reader { return endless{} }, 0, 0},
		{"endless", -1, func(context.Context) io.Reader { return endless{} }, kb64, 0},
		{"slow", -1, func(context.Context) io.Reader { return takes(30 * time.Millisecond) }, 0, 30 * time.Millisecond},
		{"without progress", -1, func(context.Context) io.Reader {
			return funcs{read: func([]byte) (int, error) { time.Sleep(7 * time.Millisecond); return 0, nil }}
		}, 0, ms90 + time.Millisecond},
		{"a byte after 99 reads without one", -1, func(context.Context) io.Reader { return late(99) }, 1, 0},
		{"a byte after 100 reads without one", -1, func(context.Context) io.Reader { return late(100) }, 0, 0},
		{"stalled after a while", -1, func(ctx context.Context) io.Reader {
			return io.MultiReader(strings.NewReader("sor"), stalled{ctx})
		}, 3, ms90},
		{"stalled, and slow to notice that its context has ended", -1, func(ctx context.Context) io.Reader {
			return funcs{read: func([]byte) (int, error) { <-ctx.Done(); time.Sleep(time.Millisecond); return 0, ctx.Err() }}
		}, 0, ms90 + time.Millisecond},
		{"broken", -1, func(context.Context) io.Reader {
			return io.MultiReader(strings.NewReader("sor"), iotest.ErrReader(errors.New("reset")))
		}, 3, 0},
	} {
		run := func(name string, status int, beside error, p retry.Policy, then func(*testing.T, *retryhttp.Transport)) {
			bubble(t, tt.name+", "+name, func(t *testing.T) {
				var first *exclusive
				base := script(func(req *http.Request) (*http.Response, error) {
					first = &exclusive{ctx: req.Context(), body: body{Reader: tt.body(req.Context())}}
					resp := responseWith(status, first)
					resp.ContentLength = tt.length
					return resp, beside
				}, 200)
				then(t, &retryhttp.Transport{Base: base, Policy: p})
				assert.Equal(t, tt.read, first.read)
				assert.EqualValues(t, 1, first.closes)
				assert.False(t, first.shared.Load(), "closed while it is read")
				assert.True(t, tt.length <= kb64 || first.over, "the context of one that is not read ends before it is closed")
			})
		}
		for _, delay := range []time.Duration{0, 20 * time.Millisecond, time.Second} {
			var seen events
			policy := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(delay), MaxElapsed: time.Second, OnEvent: seen.add}
			run(delay.String(), 503, nil, policy, func(t *testing.T, tr *retryhttp.Transport) {
				start := time.Now()
				assert.Equal(t, 200, send(t, tr).StatusCode)
				assert.Equal(t, start.Add(delay), seen.of(retry.RetryScheduled)[0].Due)
				assert.Equal(t, start.Add(max(delay, tt.took)), seen.of(retry.AttemptStarted)[1].Time)
				assert.Equal(t, max(delay, tt.took), seen.stop().Elapsed)
			})
		}
		for name, err := range map[string]error{"Result": nil, "beside an error": errReset} {
			run(name, 404, err, retry.Policy{}, func(t *testing.T, tr *retryhttp.Transport) {
				start := time.Now()
				resp, _ := retryhttp.Result(tr.RoundTrip(request(t, "GET")))
				assert.Nil(t, resp)
				assert.Equal(t, tt.took, time.Since(start))
			})
		}
	}
}

// exclusive is a body that knows when two goroutines use it at once.
type exclusive struct {
	body
	ctx    context.Context
	used   sync.Mutex
	shared atomic.Bool
	closes int
	over   bool // ctx, when it was closed
}

func (b *exclusive) use() (release func()) {
	if !b.used.TryLock() {
		b.shared.Store(true)
		return func() {}
	}
	return b.used.Unlock
}

func (b *exclusive) Read(p []byte) (int, error) {
	defer b.use()()
	return b.body.Read(p)
}

func (b *exclusive) Close() error {
	defer b.use()()
	b.closes++
	b.over = b.ctx.Err() != nil
	return nil
}

// A body that heeds neither its context nor the time holds the call up for
// 100 ms and no longer, wherever it hangs. Its goroutine goes on, and closes the body
// once it can.
func TestDiscardOfABodyThatHangs(t *testing.T) {
	const canceled = ": canceled after 1 attempt (context canceled: connection reset by peer): 503 Service Unavailable"
	for _, tt := range []struct {
		name  string
		in    string
		ends  bool // the request's context does, after 20 ms
		heeds bool // the context of the attempt
		want  string
	}{
		{"in Read", "Read", false, false, "2 sent in 100ms, 200"},
		{"in Close", "Close", false, false, "2 sent in 100ms, 200"},
		{"in Read, behind a buffer in io.NopCloser", "buffer", false, false, "2 sent in 100ms, 200"},
		{"until the request's context ends", "Read", true, true, "1 sent in 20ms" + canceled},
		{"although the request's context ends", "Read", true, false, "1 sent in 100ms" + canceled},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.ends {
				time.AfterFunc(20*time.Millisecond, func() { cancel(errReset) })
			}
			release := make(chan struct{})
			var closed atomic.Bool
			var first context.Context // of the first attempt
			closes := func() error { closed.Store(true); return nil }
			body := func(req *http.Request) io.ReadCloser {
				hang := func() { <-release }
				if tt.heeds {
					hang = func() { <-req.Context().Done() }
				}
				read := func([]byte) (int, error) { hang(); return 0, io.EOF }
				switch tt.in {
				case "Close":
					return funcs{close: func() error { hang(); return closes() }}
				case "buffer": // has a WriteTo, as bytes.Reader has, and no Close
					return io.NopCloser(bufio.NewReader(funcs{read: func(p []byte) (int, error) { defer closes(); return read(p) }}))
				default:
					return funcs{read, closes}
				}
			}
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}}
			assert.Equal(t, tt.want, ask(t, tr, request(t, "GET").WithContext(ctx), func(req *http.Request) (*http.Response, error) {
				first = req.Context()
				return responseWith(503, body(req)), nil
			}, 200))
			assert.Error(t, first.Err())
			assert.Equal(t, tt.heeds, closed.Load())
			close(release)
			synctest.Wait()
			assert.True(t, closed.Load())
		})
	}
}

// The policy's Wait gets what discarding has left of the delay, and a context with
// the values of the request's.
func TestWaitOfThePolicy(t *testing.T) {
	type key struct{}
	closed := false
	discards := func(d time.Duration) *http.Response {
		b := takes(d)
		b.close = func() error { closed = true; return nil }
		return responseWith(503, b)
	}
	for _, tt := range []struct {
		name  string
		delay time.Duration
		first any
		left  time.Duration
		want  string
	}{
		{"a response without delay", 0, discards(0), 0, "2 sent, 200"},
		{"a response that takes time", time.Second, discards(30 * ms), 970 * ms, "2 sent in 515ms, 200"},
		{"a response that takes longer than the delay", 20 * ms, discards(30 * ms), 0, "2 sent in 30ms, 200"},
		{"an error", time.Second, errReset, time.Second, "2 sent in 500ms, 200"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			closed = false
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(tt.delay), Wait: func(ctx context.Context, d time.Duration) (time.Duration, error) {
				assert.Equal(t, tt.left, d)
				assert.Equal(t, "here", ctx.Value(key{}))
				assert.Equal(t, tt.first != errReset, closed, "before the wait")
				time.Sleep(d / 2) // it may return early
				return 0, nil
			}}}
			assert.Equal(t, tt.want, ask(t, tr, request(t, "GET").WithContext(context.WithValue(t.Context(), key{}, "here")), tt.first, 200))
		})
	}
}

// A panic of a body that is discarded is the caller's to recover, as if the
// caller had read the body. It must not end the program.
func TestDiscardOfABodyThatPanics(t *testing.T) {
	panics := func(what string) func() { return func() { panic(what) } }
	for name, tt := range map[string]struct{ read, close func() }{
		"in Read":        {panics("bug in the body"), func() {}},
		"in Close":       {func() {}, panics("bug in the body")},
		"in both":        {panics("another"), panics("bug in the body")},
		"runtime.Goexit": {runtime.Goexit, func() {}},
	} {
		bubble(t, name, func(t *testing.T) {
			closed := false
			first := responseWith(503, funcs{
				read:  func([]byte) (int, error) { tt.read(); return 0, io.EOF },
				close: func() error { closed = true; tt.close(); return nil },
			})
			sends := func() {
				assert.Equal(t, "2 sent, 200", ask(t, &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}}, request(t, "GET"), first, 200))
			}
			if name == "runtime.Goexit" {
				sends()
			} else {
				assert.PanicsWithValue(t, "bug in the body", sends)
			}
			assert.True(t, closed)
		})
	}
}
