package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
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

// The context that Base gets is created when it is first needed. It behaves
// like one of package context, whichever method is called first.
func TestContextOfAnAttempt(t *testing.T) {
	type key struct{}
	why := errors.New("shutting down")
	asks := map[string]func(context.Context){
		"nothing": func(context.Context) {},
		"Done":    func(ctx context.Context) { ctx.Done() },
		"Err":     func(ctx context.Context) { _ = ctx.Err() },
		"Value":   func(ctx context.Context) { ctx.Value(key{}) },
		"Cause":   func(ctx context.Context) { _ = context.Cause(ctx) },
	}
	ends := map[string]struct {
		end        func(cancel context.CancelCauseFunc, body io.Closer)
		err, cause error
	}{
		"it goes on":            {func(context.CancelCauseFunc, io.Closer) {}, nil, nil},
		"the body is closed":    {func(_ context.CancelCauseFunc, b io.Closer) { _ = b.Close() }, context.Canceled, context.Canceled},
		"the caller cancels":    {func(cancel context.CancelCauseFunc, _ io.Closer) { cancel(why) }, context.Canceled, why},
		"the caller, then both": {func(cancel context.CancelCauseFunc, b io.Closer) { cancel(why); _ = b.Close() }, context.Canceled, why},
	}
	for first, ask := range asks {
		for name, tt := range ends {
			t.Run(first+" first, "+name, func(t *testing.T) {
				parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "here"))
				defer cancel(nil)
				deadline := time.Now().Add(time.Hour)
				parent, stop := context.WithDeadline(parent, deadline)
				defer stop()
				var ctx context.Context
				resp, err := (&retryhttp.Transport{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
					ctx = req.Context()
					return response(200), nil
				})}).RoundTrip(request(t, "GET").WithContext(parent))
				require.NoError(t, err)

				ask(ctx)
				assert.NoError(t, ctx.Err())
				tt.end(cancel, resp.Body)
				assert.Equal(t, tt.err, ctx.Err())
				ended := false
				select {
				case <-ctx.Done():
					ended = true
				default:
				}
				assert.Equal(t, tt.err != nil, ended)
				assert.Equal(t, tt.err, ctx.Err(), "after Done")
				assert.Equal(t, tt.cause, context.Cause(ctx))
				assert.Equal(t, "here", ctx.Value(key{}))
				got, ok := ctx.Deadline()
				assert.True(t, ok)
				assert.Equal(t, deadline, got)
			})
		}
	}
}

// Contexts and functions derived from it need no goroutine, and end with it.
func TestContextOfAnAttemptHasNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	var children []context.Context
	var after sync.WaitGroup
	after.Add(1)
	resp, err := (&retryhttp.Transport{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		for range 10 {
			child, cancel := context.WithCancel(req.Context())
			t.Cleanup(cancel)
			children = append(children, child)
		}
		context.AfterFunc(req.Context(), after.Done)
		return response(200), nil
	})}).RoundTrip(request(t, "GET"))
	require.NoError(t, err)
	assert.Equal(t, before, runtime.NumGoroutine())
	require.NoError(t, resp.Body.Close())
	for _, child := range children {
		assert.Error(t, child.Err())
	}
	after.Wait()
}

// If many goroutines use and end it at the same time, it ends exactly once.
func TestContextOfAnAttemptUnderConcurrentUse(t *testing.T) {
	for range 200 {
		var ctx context.Context
		resp, err := (&retryhttp.Transport{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			ctx = req.Context()
			return response(200), nil
		})}).RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { <-ctx.Done(); assert.Error(t, ctx.Err()) })
		}
		wg.Go(func() { assert.NoError(t, resp.Body.Close()) })
		wg.Wait()
	}
}

// If an attempt runs out of time, the cause is the timeout, in derived contexts
// too.
func TestCauseOfAnAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := (&retryhttp.Transport{Policy: retry.Policy{AttemptTimeout: time.Second}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Minute) // ignores its context until the time is over
			child, cancel := context.WithCancel(req.Context())
			defer cancel()
			assert.EqualError(t, context.Cause(child), "retryhttp: no response within AttemptTimeout (1s)")
			return nil, context.Cause(child)
		})}).RoundTrip(request(t, "GET"))
		assert.ErrorContains(t, err, "no response within AttemptTimeout (1s)")
	})
}

// A body that implements io.WriterTo still does.
func TestBodyWithWriteTo(t *testing.T) {
	for name, read := range map[string]func(io.Reader) (string, error){
		"WriteTo": func(r io.Reader) (string, error) {
			var b strings.Builder
			_, err := r.(io.WriterTo).WriteTo(&b)
			return b.String(), err
		},
		"Read": func(r io.Reader) (string, error) {
			b, err := io.ReadAll(struct{ io.Reader }{r})
			return string(b), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ctx context.Context
			resp, err := (&retryhttp.Transport{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				ctx = req.Context()
				return textResponse(200, "hello"), nil
			})}).RoundTrip(request(t, "GET"))
			require.NoError(t, err)
			assert.NoError(t, ctx.Err())
			text, err := read(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, "hello", text)
			assert.Error(t, ctx.Err(), "read to its end")
			require.NoError(t, resp.Body.Close())
		})
	}
	resp, err := (&retryhttp.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) {
		plain := response(200)
		plain.Body = &body{Reader: strings.NewReader("")}
		return plain, nil
	})}).RoundTrip(request(t, "GET"))
	require.NoError(t, err)
	assert.NotImplements(t, (*io.WriterTo)(nil), resp.Body)
}

// A request that succeeds at once costs one object, and the map of a header
// that Base may change. One that fails twice costs one
// object for each attempt more than three requests, and no goroutine.
func TestAllocations(t *testing.T) {
	answer := func(status int) *http.Response {
		resp := textResponse(status, "")
		resp.Body = io.NopCloser(strings.NewReader("hello"))
		return resp
	}
	ok := roundTrip(func(*http.Request) (*http.Response, error) { return answer(200), nil })
	req := request(t, "GET")
	count := func(rt http.RoundTripper) float64 {
		client := &http.Client{Transport: rt}
		return testing.AllocsPerRun(100, func() {
			resp, err := client.Do(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	assert.LessOrEqual(t, count(&retryhttp.Transport{Base: ok, Policy: retry.Default()}), count(ok)+2)

	n := 0
	third := roundTrip(func(*http.Request) (*http.Response, error) {
		if n++; n%3 > 0 {
			return answer(503), nil
		}
		return answer(200), nil
	})
	const buffers = 2 // which a sync.Pool drops now and then, under the race detector
	assert.LessOrEqual(t, count(&retryhttp.Transport{Base: third, Policy: retry.Policy{MaxAttempts: 3}}), 3*count(ok)+3+buffers, "two failures")
	assert.Zero(t, n%3)
}
