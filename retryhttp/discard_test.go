package retryhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrytest"
)

// once503 is a Base that answers 503 with the body that first makes of the
// request, and from then on 200.
func once503(first func(*http.Request) io.ReadCloser) http.RoundTripper {
	n := 0
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if n++; n > 1 {
			return response(200), nil
		}
		failed := response(503)
		failed.ContentLength, failed.Body = -1, first(req)
		return failed, nil
	})
}

// A Base that pools its readers gets one back by Close. If it was still being
// read, two answers would share a reader: other requests would come back
// damaged.
func TestOneGoroutineReadsAndThenClosesADiscardedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &exclusive{}
		tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}, Base: once503(func(req *http.Request) io.ReadCloser {
			b.ctx = req.Context()
			return b
		})}
		start := time.Now()
		resp, err := tr.RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, time.Second, time.Since(start))
		assert.False(t, b.shared.Load(), "closed while it is read")
		assert.EqualValues(t, 1, b.closed.Load())
	})
}

// exclusive is a body that stalls, takes its time to notice that its context
// has ended, and knows when two goroutines use it at once.
type exclusive struct {
	ctx    context.Context
	users  atomic.Int64
	shared atomic.Bool
	closed atomic.Int64
}

func (b *exclusive) use() (release func()) {
	if b.users.Add(1) > 1 {
		b.shared.Store(true)
	}
	return func() { b.users.Add(-1) }
}

func (b *exclusive) Read([]byte) (int, error) {
	defer b.use()()
	<-b.ctx.Done()
	time.Sleep(time.Millisecond)
	return 0, io.ErrUnexpectedEOF
}

func (b *exclusive) Close() error {
	defer b.use()()
	b.closed.Add(1)
	return nil
}

// A body that heeds neither its context nor the time holds the call up for
// 100 ms and no longer, wherever it hangs. Its goroutine goes on, and closes the
// body once it can.
func TestDiscardOfABodyThatHeedsNothing(t *testing.T) {
	for name, tt := range map[string]struct{ inRead, inClose, buffered bool }{
		"it hangs in Read":                   {inRead: true},
		"it hangs in Close":                  {inClose: true},
		"a buffer in io.NopCloser before it": {inRead: true, buffered: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				var ctx context.Context
				var closed atomic.Bool
				tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: once503(func(req *http.Request) io.ReadCloser {
					ctx = req.Context()
					b := funcs{
						read: func([]byte) (int, error) {
							if tt.inRead {
								<-release
							}
							closed.Store(tt.buffered)
							return 0, io.EOF
						},
						close: func() error {
							if tt.inClose {
								<-release
							}
							closed.Store(true)
							return nil
						},
					}
					if tt.buffered {
						return io.NopCloser(bufio.NewReader(b)) // has a WriteTo, as bytes.Reader has
					}
					return b
				})}
				start := time.Now()
				resp, err := tr.RoundTrip(request(t, "GET"))
				require.NoError(t, err)
				assert.Equal(t, 200, resp.StatusCode)
				assert.Equal(t, 100*time.Millisecond, time.Since(start))
				assert.Error(t, ctx.Err())
				assert.False(t, closed.Load())
				close(release)
				synctest.Wait()
				assert.True(t, closed.Load())
			})
		})
	}
}

// A body in memory is read up to the limit, as every other, whether it is that of
// Base or one that Check put in its place.
func TestDiscardOfABodyInMemory(t *testing.T) {
	type reader interface {
		io.Reader
		Len() int
	}
	text := strings.Repeat("x", 64<<10+1)
	for name, open := range map[string]func() reader{
		"strings.Reader": func() reader { return strings.NewReader(text) },
		"bytes.Reader":   func() reader { return bytes.NewReader([]byte(text)) },
		"bytes.Buffer":   func() reader { return bytes.NewBufferString(text) },
	} {
		t.Run(name+" of Base", func(t *testing.T) {
			b := open()
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: once503(func(*http.Request) io.ReadCloser { return io.NopCloser(b) })}
			resp, err := tr.RoundTrip(request(t, "GET"))
			require.NoError(t, err)
			assert.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, 1, b.Len())
		})
		t.Run(name+" of Check", func(t *testing.T) {
			b := open()
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: script(response(503), response(200))}
			tr.Check = func(req *http.Request, resp *http.Response, err error) error {
				if resp.StatusCode == 503 {
					resp.Body = io.NopCloser(b)
				}
				return retryhttp.Check(req, resp, err)
			}
			resp, err := tr.RoundTrip(request(t, "GET"))
			require.NoError(t, err)
			assert.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, 1, b.Len())
		})
	}
}

// After a body that hangs, the next one is discarded as if nothing had been.
func TestDiscardAfterABodyThatHeedsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n := 0
		var second atomic.Bool // is closed
		tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 3}, Base: roundTrip(func(*http.Request) (*http.Response, error) {
			failed := response(503)
			failed.ContentLength = -1
			switch n++; n {
			case 1:
				failed.Body = funcs{read: func([]byte) (int, error) { <-release; return 0, io.EOF }}
			case 2:
				close(release)
				synctest.Wait() // the first one is done with, too late
				failed.Body = funcs{
					read:  func([]byte) (int, error) { time.Sleep(50 * time.Millisecond); return 0, io.EOF },
					close: func() error { second.Store(true); return nil },
				}
			default:
				assert.True(t, second.Load())
				return response(200), nil
			}
			return failed, nil
		})}
		start := time.Now()
		_, err := tr.RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		assert.Equal(t, 3, n)
		assert.Equal(t, 150*time.Millisecond, time.Since(start))
	})
}

// The policy's Wait gets what discarding has left of the delay, and a context with
// the values of the request's.
func TestWaitOfThePolicy(t *testing.T) {
	for _, tt := range []struct {
		name     string
		delay    time.Duration
		discards time.Duration // how long reading the body takes; below 0: there is no response
		left     time.Duration
	}{
		{"a response without delay", 0, 0, 0},
		{"a response", time.Second, 0, time.Second},
		{"a response that takes time", time.Second, 30 * time.Millisecond, 970 * time.Millisecond},
		{"a response that takes longer than the delay", 20 * time.Millisecond, 30 * time.Millisecond, 0},
		{"an error", time.Second, -1, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type key struct{}
				closed := false
				var waits []time.Duration
				tr := &retryhttp.Transport{
					Base: once503(func(*http.Request) io.ReadCloser {
						return funcs{
							read:  func([]byte) (int, error) { time.Sleep(tt.discards); return 0, io.EOF },
							close: func() error { closed = true; return nil },
						}
					}),
					Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(tt.delay), Wait: func(ctx context.Context, d time.Duration) (time.Duration, error) {
						waits = append(waits, d)
						assert.Equal(t, "here", ctx.Value(key{}))
						assert.Equal(t, tt.discards >= 0, closed, "before the wait")
						time.Sleep(d / 2) // it may return early
						return 0, nil
					}},
				}
				if tt.discards < 0 {
					tr.Base = script(errors.New("boom"), 200)
				}
				start := time.Now()
				resp, err := tr.RoundTrip(request(t, "GET").WithContext(context.WithValue(t.Context(), key{}, "here")))
				require.NoError(t, err)
				assert.Equal(t, 200, resp.StatusCode)
				assert.Equal(t, []time.Duration{tt.left}, waits)
				assert.Equal(t, max(0, tt.discards)+tt.left/2, time.Since(start))
			})
		})
	}
}

// A Wait that fails ends the call. Its error is the caller's, because the response
// has been discarded.
func TestWaitThatFails(t *testing.T) {
	asleep := errors.New("the network is gone")
	var seen events
	closed := false
	resp, err := (&retryhttp.Transport{
		Base: once503(func(*http.Request) io.ReadCloser {
			return funcs{close: func() error { closed = true; return nil }}
		}),
		Policy: retry.Policy{MaxAttempts: 2, OnEvent: seen.add, Wait: func(context.Context, time.Duration) (time.Duration, error) { return 0, asleep }},
	}).RoundTrip(request(t, "GET"))
	assert.Nil(t, resp)
	assert.EqualError(t, err, "retry: the wait failed after 1 attempt (the network is gone): retryhttp: GET http://example.test/: 503 Service Unavailable")
	assert.Equal(t, retry.ReasonWait, retry.ReasonOf(err))
	assert.Equal(t, asleep, seen.stop().Cause)
	assert.True(t, closed)
}

// Under NoWait nothing sleeps, and the time that discarding takes is part of the
// wait that is skipped, as it is part of one that is not.
func TestNoWaitOfATransport(t *testing.T) {
	var seen events
	policy := retrytest.NoWait(retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Hour}, MaxElapsed: 4 * time.Hour, OnEvent: seen.add})
	n := 0
	failure := errors.New("boom")
	tr := &retryhttp.Transport{Policy: policy, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		if n++; n == 3 {
			return nil, failure
		}
		busy := response(503)
		busy.ContentLength, busy.Body = -1, funcs{read: func([]byte) (int, error) { time.Sleep(time.Millisecond); return 0, io.EOF }}
		return busy, nil
	})}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := tr.RoundTrip(request(t, "GET"))
		var e *retry.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, 3, e.Attempts)
		assert.Equal(t, 3*time.Hour, e.Waited)
		assert.Equal(t, 2*time.Millisecond, time.Since(start), "the bodies alone take time")
		assert.Equal(t, 3*time.Hour, seen.stop().Elapsed)
	})
}

// A Transport makes as many attempts under NoWait as without, also where discarding
// takes a large part of each delay.
func TestNoWaitMakesAsManyAttempts(t *testing.T) {
	for name, change := range map[string]func(retry.Policy) retry.Policy{
		"waiting": func(p retry.Policy) retry.Policy { return p },
		"NoWait":  retrytest.NoWait,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				tr := &retryhttp.Transport{
					Policy: change(retry.Policy{MaxElapsed: 500 * time.Millisecond, Backoff: retry.Fixed(100 * time.Millisecond)}),
					Base: roundTrip(func(*http.Request) (*http.Response, error) {
						sent++
						busy := response(503)
						busy.ContentLength, busy.Body = -1, funcs{read: func([]byte) (int, error) { time.Sleep(60 * time.Millisecond); return 0, io.EOF }}
						return busy, nil
					}),
				}
				resp, err := tr.RoundTrip(request(t, "GET"))
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, 6, sent)
			})
		})
	}
}

// What discarding takes has passed, and is not skipped.
func TestDiscardLongerThanTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen events
		tr := &retryhttp.Transport{
			Base: once503(func(*http.Request) io.ReadCloser {
				return funcs{read: func([]byte) (int, error) { time.Sleep(30 * time.Millisecond); return 0, io.EOF }}
			}),
			Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(20 * time.Millisecond), OnEvent: seen.add},
		}
		_, err := tr.RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		assert.Equal(t, 30*time.Millisecond, seen.stop().Elapsed)
	})
}

// Each of two Transports, one on top of the other, discards its own responses.
func TestWaitsOfTwoTransports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open, sent int
		inner := &retryhttp.Transport{
			Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)},
			Base: roundTrip(func(*http.Request) (*http.Response, error) {
				assert.Zero(t, open)
				sent++
				open++
				busy := response(503)
				busy.ContentLength, busy.Body = -1, funcs{close: func() error { open--; return nil }}
				return busy, nil
			}),
		}
		start := time.Now()
		resp, err := (&retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Minute)}, Base: inner}).RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		assert.Equal(t, 4, sent)
		assert.Equal(t, time.Minute+2*time.Second, time.Since(start))
		assert.Equal(t, 1, open)
		require.NoError(t, resp.Body.Close())
		assert.Zero(t, open)
	})
}

// A body that returns nothing for ever is read until its time is up.
func TestDiscardOfABodyThatMakesNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Bool
		tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: once503(func(*http.Request) io.ReadCloser {
			return funcs{
				read:  func([]byte) (int, error) { time.Sleep(time.Millisecond); return 0, nil },
				close: func() error { closed.Store(true); return nil },
			}
		})}
		start := time.Now()
		_, err := tr.RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(start), 100*time.Millisecond)
		assert.True(t, closed.Load())
	})
}

// The caller need not wait for a body, nor for the time it would get.
func TestContextEndsWhileABodyIsDiscarded(t *testing.T) {
	for name, heeds := range map[string]bool{"it heeds the context": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				why := errors.New("shutting down")
				time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
				release := make(chan struct{})
				var closed atomic.Bool
				tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour)}, Base: once503(func(req *http.Request) io.ReadCloser {
					return funcs{
						read: func([]byte) (int, error) {
							if heeds {
								<-req.Context().Done()
							} else {
								<-release
							}
							return 0, io.EOF
						},
						close: func() error { closed.Store(true); return nil },
					}
				})}
				start := time.Now()
				_, err := tr.RoundTrip(request(t, "GET").WithContext(ctx))
				assertCanceled(t, err, why, 1)
				assert.Equal(t, heeds, closed.Load())
				assert.Equal(t, map[bool]time.Duration{true: 20 * time.Millisecond, false: 30 * time.Millisecond}[heeds], time.Since(start))
				close(release)
				synctest.Wait()
				assert.True(t, closed.Load())
			})
		})
	}
}

// A panic of a body that is discarded is the caller's to recover, as if the
// caller had read the body. It must not end the program.
func TestDiscardOfABodyThatPanics(t *testing.T) {
	for name, b := range map[string]funcs{
		"in Read":  {read: func([]byte) (int, error) { panic("bug in the body") }},
		"in Close": {close: func() error { panic("bug in the body") }},
		"in both":  {read: func([]byte) (int, error) { panic("another") }, close: func() error { panic("bug in the body") }},
	} {
		t.Run(name, func(t *testing.T) {
			closed := false
			whole := funcs{read: b.read, close: func() error {
				closed = true
				if b.close != nil {
					return b.close()
				}
				return nil
			}}
			var ctx context.Context
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: once503(func(req *http.Request) io.ReadCloser {
				ctx = req.Context()
				return whole
			})}
			assert.PanicsWithValue(t, "bug in the body", func() { _, _ = tr.RoundTrip(request(t, "GET")) })
			assert.True(t, closed)
			assert.Error(t, ctx.Err())
		})
	}

	t.Run("runtime.Goexit", func(t *testing.T) {
		tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: once503(func(*http.Request) io.ReadCloser {
			return funcs{read: func([]byte) (int, error) { runtime.Goexit(); return 0, nil }}
		})}
		resp, err := tr.RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
	})
}

// A body that is not to be read is closed all the same, and its context is over
// by then.
func TestDiscardWithoutReading(t *testing.T) {
	var ctx context.Context
	b := &body{Reader: endless{}}
	b.onClose = func() { assert.Error(t, ctx.Err()) }
	failed := response(503)
	failed.Body, failed.ContentLength = b, 64<<10+1
	n := 0
	_, err := (&retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		if n++; n > 1 {
			return response(200), nil
		}
		ctx = req.Context()
		return failed, nil
	})}).RoundTrip(request(t, "GET"))
	require.NoError(t, err)
	assert.True(t, b.closed)
	assert.Zero(t, b.read)
}

// http.NoBody stays what it is, and holds nothing: neither as the body of the
// last response nor as that of one before.
func TestNoBodyIsPassedThrough(t *testing.T) {
	empty := func(status int) *http.Response {
		resp := response(status)
		resp.Body, resp.ContentLength = http.NoBody, 0
		return resp
	}
	base := script(empty(503), empty(204))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked []context.Context
	tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		asked = append(asked, req.Context())
		_ = req.Context().Done() // as net/http does
		return base.RoundTrip(req)
	})}
	resp, err := tr.RoundTrip(request(t, "GET").WithContext(ctx))
	require.NoError(t, err)
	assert.Equal(t, 204, resp.StatusCode)
	assert.True(t, resp.Body == http.NoBody)
	require.Len(t, asked, 2)
	for _, ctx := range asked {
		assert.Error(t, ctx.Err(), "nothing waits for the body to be closed")
	}
}

// funcs is a body of functions; a nil one does nothing.
type funcs struct {
	read  func([]byte) (int, error)
	close func() error
}

func (f funcs) Read(p []byte) (int, error) {
	if f.read == nil {
		return 0, io.EOF
	}
	return f.read(p)
}

func (f funcs) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}
