package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
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

const stillRead = "the RoundTripper has not closed the body, so a request with a Trailer cannot be sent again"

// putWithTrailer returns a PUT whose body fills in the Trailer when it comes to its
// end, each body with a number of its own.
func putWithTrailer(t *testing.T, url, data string) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), "PUT", url, nil)
	require.NoError(t, err)
	var bodies atomic.Int64
	req.ContentLength = -1
	req.Trailer = http.Header{"Digest": nil, "Kept": {"as it was"}}
	req.GetBody = func() (io.ReadCloser, error) {
		n := bodies.Add(1)
		return &body{Reader: strings.NewReader(data), onEOF: func() { req.Trailer.Set("Digest", fmt.Sprint("body ", n)) }}, nil
	}
	req.Body, err = req.GetBody()
	require.NoError(t, err)
	return req
}

// A request with a Trailer is sent again once the body of the last attempt is closed
// and in no call, which ends after RoundTrip does if Base reads on. Each attempt has
// a Trailer of its own, with what the map holds at the end of its body.
func TestTrailer(t *testing.T) {
	type step = func(*testing.T, *http.Request) // of what Base does with the first attempt
	do := func(steps ...step) step {
		return func(t *testing.T, req *http.Request) {
			for _, step := range steps {
				step(t, req)
			}
		}
	}
	in := func(d time.Duration, steps ...step) step {
		return func(t *testing.T, req *http.Request) {
			go func() { time.Sleep(d); do(steps...)(t, req) }()
		}
	}
	reads := func(t *testing.T, req *http.Request) {
		_, err := io.Copy(io.Discard, req.Body)
		assert.NoError(t, err)
	}
	aByte := func(t *testing.T, req *http.Request) {
		_, err := req.Body.Read(make([]byte, 1))
		assert.NoError(t, err)
	}
	reopens := func(t *testing.T, req *http.Request) { // as http.Transport does on a dead connection
		var err error
		req.Body, err = req.GetBody()
		require.NoError(t, err)
	}
	cannotRead := func(t *testing.T, req *http.Request) {
		_, err := req.Body.Read(nil)
		assert.ErrorIs(t, err, http.ErrBodyReadAfterClose)
	}
	cannotReopen := func(t *testing.T, req *http.Request) {
		_, err := req.GetBody()
		assert.ErrorIs(t, err, http.ErrBodyReadAfterClose)
	}
	closes := func(t *testing.T, req *http.Request) { assert.NoError(t, req.Body.Close()) }
	both := do(reads, closes)
	begun := func(*testing.T, *http.Request) { synctest.Wait() }
	const ms = time.Millisecond
	reset := errors.New("reset")
	for _, tt := range []struct {
		name  string
		first step
		err   error         // of Base, after that; nil: 503
		slow  time.Duration // how long a Read takes; Close takes half of it
		delay time.Duration
		took  time.Duration // until the second attempt; -1: there is none
		sum   string
	}{
		{"read and closed", both, nil, 0, 0, 0, "body 2"},
		{"read on for a while", in(30*ms, both), nil, 0, 0, 30 * ms, "body 2"},
		{"read on, and an error", in(30*ms, both), reset, 0, 0, 30 * ms, "body 2"},
		{"read on during the delay", in(30*ms, both), nil, 0, time.Second, time.Second, "body 2"},
		{"closed in a slow Read", do(in(0, aByte), in(10*ms, closes)), nil, 40 * ms, 0, 40 * ms, "body 2"},
		{"a slow Close", in(0, closes), nil, 40 * ms, 0, 20 * ms, "body 2"},
		{"closed twice", do(closes, closes), nil, 0, 0, 0, "body 2"},
		{"read after it was closed", do(closes, cannotRead), nil, 0, 0, 0, "body 2"},
		{"as long as it may", in(100*ms-1, both), nil, 0, 0, 100*ms - 1, "body 2"},
		{"longer than the delay", in(100*ms+1, both), nil, 0, time.Second, -1, ""},
		{"never closed", reads, nil, 0, 0, -1, ""},
		{"opened again", do(closes, reopens, aByte, in(20*ms, both)), nil, 0, 0, 20 * ms, "body 3"},
		{"opened again and closed", do(closes, reopens, in(0, closes), begun), nil, 40 * ms, 0, 40 * ms, "body 3"},
		{"opened again and forgotten", do(closes, reopens, in(10*ms, cannotRead, closes)), nil, 0, 0, 0, "body 3"},
		{"opened again, too late", do(closes, in(10*ms, cannotReopen)), nil, 0, 20 * ms, 20 * ms, "body 2"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			start := time.Now()
			took := time.Duration(-1)
			req := putWithTrailer(t, "http://example.test/", "data")
			slow := tt.slow
			var open atomic.Int64
			slowly := func(rc io.ReadCloser) io.ReadCloser {
				open.Add(1)
				d := slow
				return funcs{
					read:  func(p []byte) (int, error) { time.Sleep(d); return rc.Read(p) },
					close: func() error { open.Add(-1); time.Sleep(d / 2); return rc.Close() },
				}
			}
			getBody := req.GetBody
			req.Body = slowly(req.Body)
			req.GetBody = func() (io.ReadCloser, error) { rc, err := getBody(); return slowly(rc), err }
			var sent []*http.Request
			budget := &retry.Budget{Size: 1}
			tr := &retryhttp.Transport{
				Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(tt.delay), Budget: budget},
				Base: baseFunc(func(r *http.Request) (*http.Response, error) {
					assert.Contains(t, r.Trailer, "Digest", "declared from the beginning")
					if sent = append(sent, r); len(sent) > 1 {
						took, slow = time.Since(start), 0
						both(t, r)
						return response(200), nil
					}
					if tt.first(t, r); tt.err != nil {
						return nil, tt.err
					}
					return response(503), nil
				}),
			}
			resp, err := tr.RoundTrip(req)
			ended := time.Since(start)
			time.Sleep(time.Second) // until Base has done with it
			assert.Equal(t, tt.took, took)
			if tt.took < 0 {
				assert.Equal(t, retry.ReasonWait, retry.ReasonOf(err))
				assert.ErrorContains(t, err, stillRead+"): retryhttp: PUT http://example.test/: 503")
				assert.Len(t, sent, 1)
				assert.Equal(t, 100*ms, ended)
				assert.Equal(t, 1, budget.Left(), "a retry that was not made")
				return
			}
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, http.Header{"Digest": {tt.sum}, "Kept": {"as it was"}}, sent[1].Trailer)
			sent[0].Trailer.Set("Digest", "of another attempt")
			assert.Equal(t, tt.sum, sent[1].Trailer.Get("Digest"))
			sent[1].Trailer["Digest"][0], sent[1].Trailer["Kept"][0] = "changed", "changed"
			assert.Equal(t, http.Header{"Digest": {tt.sum}, "Kept": {"as it was"}}, req.Trailer)
			assert.Zero(t, open.Load(), "bodies")
		})
	}
}

// Without a body there is nothing to wait for, without GetBody there is one attempt,
// and a GetBody that fails leaves nothing open.
func TestTrailerAndBody(t *testing.T) {
	gone := errors.New("the file is gone")
	fails := true
	failing := func(err error) func(*http.Request) {
		return func(req *http.Request) {
			getBody := req.GetBody
			req.GetBody = func() (io.ReadCloser, error) {
				if fails {
					return nil, err
				}
				return getBody()
			}
		}
	}
	for _, tt := range []struct {
		name  string
		edit  func(*http.Request)
		first func(*http.Request)
		sent  int
	}{
		{"NoBody", func(req *http.Request) { req.Body = http.NoBody }, func(r *http.Request) { assert.Equal(t, http.NoBody, r.Body) }, 2},
		{"no GetBody", func(req *http.Request) { req.GetBody = nil }, func(r *http.Request) { assert.Nil(t, r.GetBody) }, 1},
		{"a GetBody that returns nothing", failing(nil), func(r *http.Request) {
			_, err := r.GetBody()
			assert.EqualError(t, err, "GetBody returned neither a body nor an error")
			fails = false
		}, 2},
		{"a GetBody that fails", failing(gone), func(r *http.Request) {
			_, err := r.GetBody()
			assert.Equal(t, gone, err)
			fails = false
		}, 2},
	} {
		fails = true
		t.Run(tt.name, func(t *testing.T) {
			req := putWithTrailer(t, "http://example.test/", "data")
			tt.edit(req)
			base := script(func(r *http.Request) (*http.Response, error) { tt.first(r); return response(503), nil }, 200)
			send(t, &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}}, req)
			require.Len(t, base.sent, tt.sent)
			assert.Contains(t, base.sent[tt.sent-1].Trailer, "Digest")
		})
	}
}

// A caller who cancels does not wait for Base.
func TestTrailerWhenTheCallerCancels(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		why := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
		start := time.Now()
		_, err := (&retryhttp.Transport{
			Base:   baseFunc(func(*http.Request) (*http.Response, error) { return response(503), nil }), // never closes
			Policy: retry.Policy{MaxAttempts: 2},
		}).RoundTrip(putWithTrailer(t, "http://example.test/", "data").WithContext(ctx))
		assertCanceled(t, err, why, 1)
		assert.Equal(t, 20*time.Millisecond, time.Since(start))
	})
}

// PUTs with a Trailer, whose first answer comes before the body is read: from
// servers of HTTP/1 and HTTP/2, and from a Base that goes on reading the body after
// it has returned, and then sends the Trailer. No map is used by two at once, and
// what arrives in the end is the Trailer of the last attempt. RETRY_LONG for 1,000.
func TestTrailerUnderEarlyAnswers(t *testing.T) {
	requests := 60
	if os.Getenv("RETRY_LONG") != "" {
		requests = 1000
	}
	data := strings.Repeat("0123456789abcdef", 1<<8) // 4 KiB
	var arrived sync.Map                             // a Trailer by the number of its request
	var first sync.Map
	server := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, again := first.LoadOrStore(req.URL.Path, true); !again {
			w.WriteHeader(503)
		} else if text, err := io.ReadAll(req.Body); err == nil && string(text) == data {
			arrived.Store(req.URL.Path, req.Trailer)
		}
	})
	http1, http2 := serve(t, server), serve(t, server, http2)
	readsOn := baseFunc(func(req *http.Request) (*http.Response, error) {
		_, again := first.LoadOrStore(req.URL.Path, true)
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer req.Body.Close()
			_, _ = io.Copy(io.Discard, req.Body)
			if sent := maps.Clone(req.Trailer); again {
				arrived.Store(req.URL.Path, sent)
			}
		}()
		if !again {
			return response(503), nil
		}
		<-done
		return response(200), nil
	})
	bases := []struct {
		url  string
		base http.RoundTripper
	}{{http1.URL, http1.Client().Transport}, {http2.URL, http2.Client().Transport}, {"http://example.test", readsOn}}

	turns := make(chan struct{}, 32)
	var wg sync.WaitGroup
	var done atomic.Int64
	for i := range requests {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			to := bases[i%len(bases)]
			req := putWithTrailer(t, fmt.Sprint(to.url, "/", i), data)
			resp, err := (&retryhttp.Transport{Base: to.base, Policy: retry.Policy{MaxAttempts: 9}}).RoundTrip(req)
			if retry.ReasonOf(err) == retry.ReasonWait { // the machine was busy for 100 ms
				assert.ErrorContains(t, err, stillRead)
				return
			}
			if !assert.NoError(t, err) {
				return
			}
			done.Add(1)
			assert.Equal(t, 200, resp.StatusCode)
			_ = resp.Body.Close()
			trailer, _ := arrived.Load(req.URL.Path)
			assert.Equal(t, req.Trailer, trailer, "the last one")
		})
	}
	wg.Wait()
	assert.Positive(t, done.Load())
}

// baseFunc is a Base that does not close the body by itself.
type baseFunc func(*http.Request) (*http.Response, error)

func (f baseFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
