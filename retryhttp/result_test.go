package retryhttp_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// When the Transport gives up, the caller gets the last response with an unread body, and may take
// any time to read this body. ErrorOf says why there was no further attempt. Result returns the
// error instead of the response. The Timeout of an http.Client acts as a deadline: the Transport
// does not start a wait that would exceed it.
func TestErrorOf(t *testing.T) {
	twice := retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second}
	empty := &retry.Budget{Size: 1}
	empty.Take()
	ok, busy, hop := reply{status: 200}, reply{status: 503}, response(http.StatusTemporaryRedirect, "Location", "/b")
	replaces := func(by *http.Request) retryhttp.CheckFunc {
		return func(req *http.Request, resp *http.Response, err error) error {
			resp.Request = by
			return retryhttp.Check(req, resp, err)
		}
	}
	for _, tt := range []struct {
		name     string
		policy   retry.Policy
		check    retryhttp.CheckFunc
		inner    int // the attempts of a second Transport below; 0: there is no second Transport
		answers  []any
		reason   retry.Reason
		attempts int
	}{
		{"a success after a failure", twice, nil, 0, []any{busy, ok}, retry.ReasonSuccess, 0},
		{"attempts exhausted", twice, nil, 0, []any{busy}, retry.ReasonExhausted, 2},
		{"no budget", retry.Policy{MaxAttempts: 2, Budget: empty}, nil, 0, []any{busy}, retry.ReasonBudget, 1},
		{"a wait that the Timeout of the client would cut", retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(3 * time.Hour)}, nil, 0, []any{busy}, retry.ReasonDeadline, 1},
		{"no body", twice, nil, 0, []any{responseWith(503, http.NoBody)}, retry.ReasonExhausted, 2},
		{"redirected after a failure", twice, nil, 0, []any{busy, hop, busy}, retry.ReasonExhausted, 2},
		{"a success after a redirect", twice, nil, 0, []any{busy, hop, busy, ok}, retry.ReasonSuccess, 0},
		{"a Check that sets another request", twice, replaces(request(t, "GET")), 0, []any{busy}, retry.ReasonExhausted, 2},
		{"a Check that removes the request", twice, replaces(nil), 0, []any{busy}, retry.ReasonExhausted, 2},
		{"a Check that accepts the response", twice, returns(nil), 0, []any{busy}, retry.ReasonSuccess, 0},
		{"the error of the outer of two Transports", twice, nil, 3, []any{busy}, retry.ReasonExhausted, 2},
		{"the inner of two Transports fails, and the outer accepts it", twice, returns(nil), 3, []any{busy}, retry.ReasonSuccess, 0},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := script(tt.answers...)
			tr := &retryhttp.Transport{Policy: tt.policy, Check: tt.check, Base: base}
			if tt.inner > 0 {
				tr.Base = &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: tt.inner}}
			}
			client := &http.Client{Transport: tr, Timeout: 2 * time.Hour} // a client with a Timeout wraps the body
			resp, err := client.Do(request(t, "GET"))
			require.NoError(t, err)
			last := base.bodies[len(base.bodies)-1]
			if last != nil {
				time.Sleep(time.Hour)
				assert.Equal(t, []any{0, 0, nil}, []any{last.read, last.closes, last.ctx.Err()})
				assert.Equal(t, fmt.Sprint("answer ", base.count()), textOf(t, resp))
				assert.Error(t, last.ctx.Err(), "the context of the attempt ends with the body")
			}
			require.NoError(t, resp.Body.Close())
			assert.True(t, last == nil || last.closed())
			assert.Error(t, base.sent[len(base.sent)-1].Context().Err(), "the context of an attempt without a body ends too")
			because := retryhttp.ErrorOf(resp)
			assert.Equal(t, tt.reason, retry.ReasonOf(because))
			same, err := retryhttp.Result(resp, nil)
			if tt.attempts == 0 {
				assert.NoError(t, because)
				if resp.StatusCode < 400 {
					assert.NoError(t, err)
					assert.Same(t, resp, same)
				} else {
					assert.EqualError(t, err, "retryhttp: GET http://example.test/: 503 Service Unavailable")
					assert.Nil(t, same)
				}
				return
			}
			assert.Nil(t, same)
			assert.Same(t, because, err)
			var e *retry.Error
			require.ErrorAs(t, because, &e)
			assert.Equal(t, tt.attempts, e.Attempts)
			var status *retryhttp.StatusError
			require.ErrorAs(t, because, &status)
			assert.Equal(t, resp.StatusCode, status.StatusCode)
			assert.Equal(t, "GET", resp.Request.Method)
			copied := *resp
			assert.Same(t, because, retryhttp.ErrorOf(&copied))
		})
	}

	for _, foreign := range []*http.Response{nil, {}, {Request: request(t, "GET")}} {
		assert.NoError(t, retryhttp.ErrorOf(foreign))
		same, err := retryhttp.Result(foreign, nil)
		assert.NoError(t, err)
		assert.Same(t, foreign, same)
	}
	_, err := retryhttp.Result(nil, errReset)
	assert.Equal(t, errReset, err)

	// The Request of a response may be sent again. Then the context of the Request does not grow with
	// each call.
	for name, next := range map[string]func(*http.Request) *http.Request{
		"itself":             func(req *http.Request) *http.Request { return req },
		"a clone":            func(req *http.Request) *http.Request { return req.Clone(req.Context()) },
		"one of its context": func(req *http.Request) *http.Request { return request(t, "GET").WithContext(req.Context()) },
	} {
		resent, contexts := request(t, "GET"), []int{}
		for range 3 {
			resp := send(t, &retryhttp.Transport{Base: script(404)}, resent)
			assert.Error(t, retryhttp.ErrorOf(resp))
			resent = next(resp.Request)
			contexts = append(contexts, strings.Count(fmt.Sprint(resent.Context()), "WithValue"))
		}
		assert.Equal(t, []int{contexts[0], contexts[0], contexts[0]}, contexts, name)
	}

	// A request with a context that was made from the context of such a Request keeps its deadline.
	ctx, cancel := context.WithDeadline(send(t, &retryhttp.Transport{Base: script(404)}).Request.Context(), time.Unix(1, 0))
	defer cancel()
	_, err = (&retryhttp.Transport{Base: script(200)}).RoundTrip(request(t, "GET").WithContext(ctx))
	assert.ErrorIs(t, err, context.DeadlineExceeded)

	type incomparable struct {
		context.Context
		_ map[string]string
	}
	own := send(t, &retryhttp.Transport{Base: script(404)}).Request
	*own = *own.WithContext(incomparable{Context: own.Context()})
	assert.NotPanics(t, func() { send(t, &retryhttp.Transport{Base: script(404)}, own) })

	// The Request of a response equals the caller's request except for its context. This context has
	// the same values and the policy of WithPolicy.
	type key struct{}
	ctx, cancel = context.WithCancel(context.WithValue(t.Context(), key{}, "here"))
	req := request(t, "GET").WithContext(retryhttp.WithPolicy(ctx, twice))
	base := script(&http.Response{StatusCode: 503})
	resp := send(t, &retryhttp.Transport{Base: base}, req)
	assert.Nil(t, resp.Body)
	assert.Equal(t, http.NoBody, send(t, &retryhttp.Transport{Base: script(responseWith(200, http.NoBody))}).Body, "callers compare the Body with http.NoBody")
	assert.Error(t, base.sent[1].Context().Err())
	_, err = retryhttp.Result(resp, nil)
	require.EqualError(t, err, "retry: attempts exhausted after 2 attempts: retryhttp: GET http://example.test/: 503 Service Unavailable")
	assert.NotSame(t, req, resp.Request)
	assert.Equal(t, req, resp.Request.WithContext(req.Context()))
	assert.Equal(t, "here", resp.Request.Context().Value(key{}))
	assert.Equal(t, 1, retryhttp.AttemptOf(resp.Request.Context()))
	again := send(t, &retryhttp.Transport{Base: script(200)}, request(t, "GET").WithContext(resp.Request.Context()))
	assert.NoError(t, retryhttp.ErrorOf(again), "the error of the earlier response is not the error of this response")
	assert.NoError(t, resp.Request.Context().Err())
	cancel()
	assert.Error(t, resp.Request.Context().Err())
}

// A status from 400 on is an error, whichever client got the response, and even if a Check accepts
// it. A lower status is not an error, unless a Transport has given up on the response.
func TestResult(t *testing.T) {
	const by = "retryhttp: GET http://example.test/: "
	ask := func(tr *retryhttp.Transport) func(*http.Request) (*http.Response, error) { return tr.RoundTrip }
	for _, tt := range []struct {
		name   string
		answer *http.Response
		by     func(*retryhttp.Transport) func(*http.Request) (*http.Response, error) // nil: an http.Client without a Transport of this package
		check  retryhttp.CheckFunc
		err    string // "": Result returns the response
		reason retry.Reason
		wait   time.Duration
	}{
		{"200", response(200), nil, nil, "", retry.ReasonSuccess, 0},
		{"302 without a Location", response(304), nil, nil, "", retry.ReasonSuccess, 0},
		{"399", response(399), nil, nil, "", retry.ReasonSuccess, 0},
		{"400", response(400), nil, nil, by + "400 Bad Request", "", 0},
		{"404", response(404), nil, nil, by + "404 Not Found", "", 0},
		{"503 that asks to wait", asksToWait(503, 7), nil, nil, by + "503 Service Unavailable", "", 7 * time.Second},
		{"599", response(599), nil, nil, by + "599", "", 0},
		{"999", response(999), nil, nil, by + "999", "", 0},
		{"no body", responseWith(500, http.NoBody), nil, nil, by + "500 Internal Server Error", "", 0},
		{"a Transport that gives up", response(404), ask, nil, "retry: permanent error after 1 attempt: " + by + "404 Not Found", retry.ReasonPermanent, 0},
		{"a Transport whose Check accepts a 404", asksToWait(404, 7), ask, returns(nil), by + "404 Not Found", "", 7 * time.Second},
		{"a Transport whose Check refuses a 200", response(200), ask, returns(errReset),
			"retry: gave up after 1 attempt (no limit is set, so there is no retry): connection reset by peer", retry.ReasonExhausted, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			closed, hasBody := 0, tt.answer.Body != http.NoBody
			if hasBody {
				tt.answer.Body = &body{Reader: strings.NewReader("the words"), onClose: func() { closed++ }}
			}
			get := (&http.Client{Transport: script(tt.answer)}).Do
			if tt.by == nil {
				tt.answer.Request = request(t, "GET") // http.Transport sets this field
			} else {
				get = tt.by(&retryhttp.Transport{Base: script(tt.answer), Check: tt.check})
			}
			resp, err := retryhttp.Result(get(request(t, "GET")))
			assert.Equal(t, tt.reason, retry.ReasonOf(err))
			assert.Equal(t, tt.wait, retry.RetryAfterOf(err))
			if tt.err == "" {
				require.NoError(t, err)
				assert.Equal(t, tt.answer.StatusCode, resp.StatusCode)
				assert.Equal(t, "the words", textOf(t, resp))
				return
			}
			require.EqualError(t, err, tt.err)
			assert.Nil(t, resp)
			assert.Equal(t, hasBody, closed == 1)
			var e *retryhttp.StatusError
			if errors.As(err, &e) {
				assert.Equal(t, retry.IsPermanent(err), tt.answer.StatusCode == 404 || tt.answer.StatusCode == 400)
				assert.Equal(t, hasBody, string(e.Body) == "the words")
			}
		})
	}
	resp, err := retryhttp.Result(&http.Response{StatusCode: 404}, nil)
	assert.EqualError(t, err, "retryhttp: 404 Not Found", "without a request and a body")
	assert.Nil(t, resp)
	resp, err = retryhttp.Result(response(404), errReset)
	assert.NotNil(t, resp, "Result returns a response unchanged if it comes with an error")
	assert.Equal(t, errReset, err)
}

// A redirect that Check rejects is a failure, also if an earlier answer was lost, so that the
// Transport has stored this loss in the Request of the response.
func TestResultOfARedirectThatCheckRejects(t *testing.T) {
	errLogin := errors.New("the session has expired")
	refuses := func(req *http.Request, resp *http.Response, err error) error {
		if err == nil && resp.StatusCode == 302 {
			return errLogin
		}
		return retryhttp.Check(req, resp, err)
	}
	for _, steps := range [][]any{{302}, {302, 302, 302}, {errReset, 302}, {503, 302}} {
		for name, check := range map[string]retryhttp.CheckFunc{"rejected": refuses, "accepted": nil} {
			bubble(t, fmt.Sprint(steps, ", ", name), func(t *testing.T) {
				tr := &retryhttp.Transport{Base: script(steps...), Policy: retry.Policy{MaxAttempts: len(steps)}, Check: check}
				resp, err := retryhttp.Result(tr.RoundTrip(request(t, "GET")))
				if check == nil {
					require.NoError(t, err)
					assert.NoError(t, retryhttp.ErrorOf(resp))
					assert.Equal(t, 302, resp.StatusCode)
				} else {
					assert.ErrorIs(t, err, errLogin)
				}
			})
		}
	}
}

// The Request of a failed response is sent again by a client without a Transport, so that the new
// response has the same Request. If its status differs, it is not taken for the failed response.
func TestResultOfARequestThatIsSentAgain(t *testing.T) {
	resp := send(t, &retryhttp.Transport{Base: script(textResponse(503, "sorry"))})
	stop := retryhttp.ErrorOf(resp)
	for _, status := range []int{200, 404} {
		again := textResponse(status, "the good answer")
		again.Request = resp.Request
		assert.NoError(t, retryhttp.ErrorOf(again))
		_, err := retryhttp.Result(again, nil)
		assert.Equal(t, status == 404, err != nil, err)
	}
	var e *retryhttp.StatusError
	require.ErrorAs(t, stop, &e)
	assert.Empty(t, e.Body)
	_, err := retryhttp.Result(resp, nil)
	assert.Same(t, stop, err)
	assert.Equal(t, "sorry", string(e.Body))
}

// Result works without a Transport: a failover asks one host after the other, and stops at the
// first success.
func TestResultInAFailover(t *testing.T) {
	base := script(503, 503, textResponse(200, "well"))
	hosts, n := []string{"http://a.test", "http://b.test", "http://c.test"}, 0
	resp, err := retry.DoValue(t.Context(), retry.Policy{MaxAttempts: 3}, func(context.Context) (*http.Response, error) {
		n++
		return retryhttp.Result((&http.Client{Transport: base}).Get(hosts[n-1]))
	})
	require.NoError(t, err)
	assert.Equal(t, "well", textOf(t, resp))
}

// A Check may fail with the StatusError of another server. The Body of this StatusError does not
// get the body of the present response.
func TestResultKeepsTheBodyOfItsOwnResponse(t *testing.T) {
	words := func(err error) string {
		var e *retryhttp.StatusError
		require.ErrorAs(t, err, &e)
		return string(e.Body)
	}
	var tr *retryhttp.Transport
	for _, tt := range []struct {
		name  string
		check retryhttp.CheckFunc
		want  string
	}{
		{"its own error, from NewStatusError", func(_ *http.Request, resp *http.Response, _ error) error {
			return retryhttp.NewStatusError(resp)
		}, "words"},
		{"its own error, made with another request", func(req *http.Request, resp *http.Response, err error) error {
			return retryhttp.Check(req.Clone(context.Background()), resp, err)
		}, "words"},
		{"its own error, made without a request", func(_ *http.Request, resp *http.Response, err error) error {
			return fmt.Errorf("no: %w", tr.StatusError(nil, resp))
		}, "words"},
		{"its own error, made from a copy with another status", func(_ *http.Request, resp *http.Response, err error) error {
			copied := *resp
			copied.StatusCode = 503
			return retryhttp.NewStatusError(&copied)
		}, "words"},
		{"its own error, and then another Request is set", func(req *http.Request, resp *http.Response, err error) error {
			err = retryhttp.Check(req, resp, err)
			resp.Request = req // so that resp.Request.URL is the URL that Prepare has set
			return err
		}, "words"},
		{"its own error, and then the Request is removed", func(req *http.Request, resp *http.Response, err error) error {
			err = retryhttp.Check(req, resp, err)
			resp.Request = nil
			return err
		}, "words"},
		{"the error of another response without a Request, and the Request is removed", func(_ *http.Request, resp *http.Response, _ error) error {
			resp.Request = nil
			return retryhttp.NewStatusError(textResponse(500, "token"))
		}, ""},
		{"the error of a token server", func(req *http.Request, _ *http.Response, _ error) error {
			token := send(t, &retryhttp.Transport{Base: script(textResponse(500, "token"))}, req)
			return fmt.Errorf("no token: %w", retryhttp.NewStatusError(token))
		}, ""},
		{"the error of a token server, from ErrorOf", func(req *http.Request, _ *http.Response, _ error) error {
			return retryhttp.ErrorOf(send(t, &retryhttp.Transport{Base: script(textResponse(500, "token"))}, req.Clone(req.Context())))
		}, ""},
		{"the error of a token server, from Result", func(req *http.Request, _ *http.Response, _ error) error {
			_, err := retryhttp.Result((&retryhttp.Transport{Base: script(textResponse(500, "token"))}).RoundTrip(req))
			return err
		}, "token"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tr = &retryhttp.Transport{Base: script(textResponse(401, "words")), Check: tt.check}
			_, err := retryhttp.Result(tr.RoundTrip(request(t, "GET")))
			assert.Equal(t, tt.want, words(err))
		})
	}
	_, err := retryhttp.Result(&http.Response{StatusCode: 404, Body: io.NopCloser(strings.NewReader("words"))}, nil)
	assert.Equal(t, "words", words(err), "a response without a request")

	// For a later response, a Check returns once more the error of an attempt that AttemptTimeout
	// ended.
	bubble(t, "the error of a response that was discarded after AttemptTimeout", func(t *testing.T) {
		var first error
		tr := &retryhttp.Transport{
			Base:   script(textResponse(503, "one"), textResponse(503, "two")),
			Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second), AttemptTimeout: time.Second},
			Check: func(req *http.Request, resp *http.Response, err error) error {
				if resp != nil && first == nil {
					first = retryhttp.Check(req, resp, err)
					time.Sleep(2 * time.Second)
				}
				return cmp.Or(err, first)
			},
		}
		_, err := retryhttp.Result(tr.RoundTrip(request(t, "GET")))
		assert.Empty(t, words(err))
	})

	// A Check joins the errors of all attempts. The response of the first error is already discarded.
	var all error
	tr = &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}}
	tr.Check = func(req *http.Request, resp *http.Response, err error) error {
		all = errors.Join(all, retryhttp.Check(req, resp, err))
		return all
	}
	for _, sets := range []bool{false, true} {
		bubble(t, fmt.Sprint("the error of the attempt before, and another Request is set: ", sets), func(t *testing.T) {
			all, tr.Base = nil, script(textResponse(502, "first"), textResponse(503, "second"))
			check := tr.Check
			defer func() { tr.Check = check }()
			tr.Check = func(req *http.Request, resp *http.Response, err error) error {
				err = check(req, resp, err)
				if sets {
					resp.Request = req
				}
				return err
			}
			_, err := retryhttp.Result(tr.RoundTrip(request(t, "GET")))
			assert.Empty(t, words(err))
			assert.ErrorContains(t, err, "502 Bad Gateway; ")
		})
	}
}

// A RoundTripper above a Transport may set a body of its own, whose Read may hang although the
// attempt has ended. Result waits for such a body for at most 100 ms, as for any other body.
func TestResultOfABodyThatIsSetAbove(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Hour} {
		bubble(t, fmt.Sprint("Timeout of the client: ", timeout), func(t *testing.T) {
			served := make(chan struct{})
			base := piped(1, func(conn net.Conn, _ *http.Request) {
				_, _ = io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nsorry")
				<-served
			})
			var b *body
			above := roundTrip(func(req *http.Request) (*http.Response, error) {
				resp, err := (&retryhttp.Transport{Base: base}).RoundTrip(req)
				closes := resp.Body.Close
				b = &body{Reader: io.MultiReader(strings.NewReader("so"), takes(time.Minute)), onClose: func() { _ = closes() }}
				resp.Body = b
				return resp, err
			})
			resp, err := (&http.Client{Transport: above, Timeout: timeout}).Do(request(t, "GET"))
			require.NoError(t, err)
			began := time.Now()
			_, err = retryhttp.Result(resp, nil)
			assert.Equal(t, 100*ms, time.Since(began))
			var e *retryhttp.StatusError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "so", string(e.Body))
			close(served)
			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Equal(t, 1, b.closes)
		})
	}
}

// Result stores the first KiB of the body in a field, and not in the text of the error. It reads
// for at most 100 ms and at most 64 KiB, whatever the server does, and leaves nothing open.
func TestResultKeepsTheWords(t *testing.T) {
	const secret = "card 4711 declined"
	words := func(n int) string { return strings.Repeat("w", n) }
	drips := func(ctx context.Context) io.Reader {
		return reads(func(p []byte) (int, error) {
			select {
			case <-time.After(35 * ms): // no byte arrives at the same moment as the timeout
				return copy(p, "w"), nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
	}
	for _, tt := range []struct {
		name   string
		length int64 // the Content-Length
		body   func(context.Context) io.Reader
		want   string
		took   time.Duration
	}{
		{"one line", 18, func(context.Context) io.Reader { return strings.NewReader(secret) }, secret, 0},
		{"empty", 0, func(context.Context) io.Reader { return strings.NewReader("") }, "", 0},
		{"a body of a KiB", -1, func(context.Context) io.Reader { return strings.NewReader(words(1 << 10)) }, words(1 << 10), 0},
		{"a body of a KiB and a byte", -1, func(context.Context) io.Reader { return strings.NewReader(words(1<<10) + "x") }, words(1 << 10), 0},
		{"each Read returns one byte", -1, func(context.Context) io.Reader { return iotest.OneByteReader(strings.NewReader(words(2 << 10))) }, words(1 << 10), 0},
		{"as long as Result reads", 64 << 10, func(context.Context) io.Reader { return strings.NewReader(words(64 << 10)) }, words(1 << 10), 0},
		{"too long to be read", 64<<10 + 1, func(context.Context) io.Reader { return strings.NewReader(words(64<<10 + 1)) }, words(1 << 10), 0},
		{"endless", -1, func(context.Context) io.Reader { return endless{} }, string(make([]byte, 1<<10)), 0},
		{"broken", -1, func(context.Context) io.Reader { return breaks("sorr", errReset) }, "sorr", 0},
		{"the bytes arrive slowly", -1, drips, words(2), 90 * ms},
		{"no byte arrives", -1, func(ctx context.Context) io.Reader { return stalled{ctx} }, "", 90 * ms},
		{"the body hangs after three bytes", -1, func(ctx context.Context) io.Reader {
			return io.MultiReader(strings.NewReader("sor"), stalled{ctx})
		}, "sor", 90 * ms},
		{"the body hangs after three bytes, and ignores the context", -1, func(context.Context) io.Reader {
			return io.MultiReader(strings.NewReader("sor"), takes(time.Hour))
		}, "sor", 100 * ms},
	} {
		for _, by := range []string{"a Transport", "a Transport whose Check wraps it", "another client"} {
			bubble(t, tt.name+", by "+by, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context()) // for "another client", ended by its Timeout
				defer cancel()
				var b *body
				base := script(func(req *http.Request) (*http.Response, error) {
					if by != "another client" {
						ctx = req.Context()
					}
					b = &body{Reader: tt.body(ctx), ctx: ctx}
					resp := responseWith(402, b)
					resp.ContentLength = tt.length
					return resp, nil
				})
				var rt http.RoundTripper = &retryhttp.Transport{Base: base}
				switch by {
				case "a Transport whose Check wraps it":
					rt.(*retryhttp.Transport).Check = func(req *http.Request, resp *http.Response, err error) error {
						return fmt.Errorf("declined: %w", errors.Join(errReset, retryhttp.NewStatusError(resp)))
					}
				case "another client":
					rt = base
				}
				resp, err := (&http.Client{Transport: rt}).Do(request(t, "GET"))
				require.NoError(t, err)
				began, took := time.Now(), tt.took
				if by == "another client" {
					resp.Body = gzipReader{resp.Body}
					if took > 0 {
						took = 100 * ms // the body is not closed during a Read
					}
				}
				_, err = retryhttp.Result(resp, nil)
				assert.Equal(t, took, time.Since(began))
				cancel()
				var e *retryhttp.StatusError
				require.ErrorAs(t, err, &e)
				assert.Equal(t, tt.want, string(e.Body))
				assert.Equal(t, tt.want == "", e.Body == nil)
				assert.NotContains(t, fmt.Sprintf("%v %+v %s", err, err, e), "4711")
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				assert.Equal(t, 1, b.closes)
				assert.False(t, b.shared.Load(), "Close was called during a Read")
				assert.LessOrEqual(t, b.read, 64<<10)
			})
		}
	}

	// A caller may read a body and set a new body with the same bytes, as httputil.DumpResponse does.
	dumped := send(t, &retryhttp.Transport{Base: script(textResponse(402, secret))})
	_, err := httputil.DumpResponse(dumped, true)
	require.NoError(t, err)
	_, err = retryhttp.Result(dumped, nil)
	var e *retryhttp.StatusError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, secret, string(e.Body))

	// If a Check returns one error for several responses, this error gets the body of none of them.
	shared := &retryhttp.StatusError{StatusCode: 418}
	_, err = retryhttp.Result((&retryhttp.Transport{Base: script(textResponse(418, secret)), Check: returns(shared)}).RoundTrip(request(t, "GET")))
	assert.ErrorIs(t, err, shared)
	assert.Nil(t, shared.Body)
}

// A gzipReader has the name of a type of net/http.
type gzipReader struct{ io.ReadCloser }

// If the body that a RoundTripper above has set hangs, Result ends the attempt below.
func TestResultOfABodyAboveThatHangs(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		base := script(func(req *http.Request) (*http.Response, error) {
			return responseWith(503, stalled{req.Context()}), nil
		})
		resp := send(t, &retryhttp.Transport{Base: base})
		resp.Body = struct{ io.ReadCloser }{resp.Body}
		_, err := retryhttp.Result(resp, nil)
		require.ErrorContains(t, err, "503 Service Unavailable")
		assert.Error(t, base.sent[0].Context().Err())
	})
}

// A RoundTripper above may send equal requests once, and give a copy of the response to each caller.
func TestResultOfCopiesOfAResponse(t *testing.T) {
	resp := send(t, &retryhttp.Transport{Base: script(textResponse(503, "the words"))})
	var callers sync.WaitGroup
	for range 8 {
		its := *resp
		its.Body = io.NopCloser(strings.NewReader("the words"))
		callers.Go(func() {
			_, err := retryhttp.Result(&its, nil)
			var e *retryhttp.StatusError
			assert.ErrorAs(t, err, &e)
			assert.Equal(t, "the words", string(e.Body))
		})
	}
	callers.Wait()
	require.NoError(t, resp.Body.Close())
}

// If a body panics while Result reads it, the caller can recover the panic.
func TestResultOfABodyThatPanics(t *testing.T) {
	for name, b := range map[string]*body{
		"in Read":  {Reader: reads(func([]byte) (int, error) { panic("bug in the body") })},
		"in Close": {Reader: strings.NewReader("x"), onClose: func() { panic("bug in the body") }},
	} {
		for _, by := range []http.RoundTripper{nil, new(retryhttp.Transport)} {
			bubble(t, fmt.Sprint(name, by != nil), func(t *testing.T) {
				base := script(responseWith(404, b))
				var rt http.RoundTripper = base
				if by != nil {
					rt = &retryhttp.Transport{Base: base}
				}
				assert.PanicsWithValue(t, "bug in the body", func() { _, _ = retryhttp.Result(rt.RoundTrip(request(t, "GET"))) })
				synctest.Wait()
			})
		}
	}
}

// The client and the server are from net/http. The server sends a decompression bomb, a body that
// never ends, or no body. The connection is closed, and Result does not wait for the server.
func TestResultOfAHostileServer(t *testing.T) {
	const compressed = "a compressed body without its gzip header"
	const timeout = "no Transport, but a Timeout"
	const resumes = "a Transport with Resume, whose Check accepts it" // it asks for no gzip
	const wrapped = "a Transport whose Check accepts it, and a RoundTripper that wraps the body"
	hangs := map[string]bool{compressed: true, "a bomb of nothing": true, "nothing comes": true, "some words, and nothing more": true}
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	_, _ = zip.Write(bytes.Repeat([]byte("w"), 8<<20))
	_ = zip.Close()
	empty := func(w io.Writer) { // writes empty gzip blocks until the connection is closed
		_, _ = w.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff})
		for {
			if _, err := w.Write(bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, 1000)); err != nil {
				return
			}
		}
	}
	for name, tt := range map[string]struct {
		header http.Header
		serve  func(w io.Writer, gone <-chan struct{})
		want   string
	}{
		"a bomb":            {http.Header{"Content-Encoding": {"gzip"}}, func(w io.Writer, _ <-chan struct{}) { _, _ = w.Write(bomb.Bytes()) }, strings.Repeat("w", 1<<10)},
		"a bomb of nothing": {http.Header{"Content-Encoding": {"gzip"}}, func(w io.Writer, _ <-chan struct{}) { empty(w) }, ""},
		"no end": {nil, func(w io.Writer, gone <-chan struct{}) {
			for {
				if _, err := w.Write(bytes.Repeat([]byte("w"), 1<<10)); err != nil {
					return
				}
			}
		}, strings.Repeat("w", 1<<10)},
		compressed:      {http.Header{"Content-Encoding": {"gzip"}}, func(w io.Writer, gone <-chan struct{}) { w.(http.Flusher).Flush(); <-gone }, ""},
		"nothing comes": {nil, func(w io.Writer, gone <-chan struct{}) { w.(http.Flusher).Flush(); <-gone }, ""},
		"some words, and nothing more": {nil, func(w io.Writer, gone <-chan struct{}) {
			_, _ = io.WriteString(w, "sorry")
			w.(http.Flusher).Flush()
			<-gone
		}, "sorry"},
	} {
		for protocol, start := range protocols {
			for by, above := range map[string]func(http.RoundTripper) http.RoundTripper{
				"no Transport": func(base http.RoundTripper) http.RoundTripper { return base },
				timeout:        func(base http.RoundTripper) http.RoundTripper { return base },
				"a Transport":  func(base http.RoundTripper) http.RoundTripper { return &retryhttp.Transport{Base: base} },
				"a Transport whose Check accepts it": func(base http.RoundTripper) http.RoundTripper {
					return &retryhttp.Transport{Base: base, Check: returns(nil)}
				},
				resumes: func(base http.RoundTripper) http.RoundTripper {
					return &retryhttp.Transport{Base: base, Check: returns(nil), Resume: true}
				},
				wrapped: func(base http.RoundTripper) http.RoundTripper {
					return roundTrip(func(req *http.Request) (*http.Response, error) {
						resp, err := (&retryhttp.Transport{Base: base, Check: returns(nil)}).RoundTrip(req)
						if err == nil {
							resp.Body = struct{ io.ReadCloser }{resp.Body}
						}
						return resp, err
					})
				},
			} {
				// The last Read of such a body ends with the context of the request: see Result.
				held := name == compressed && (by == "no Transport" || by == timeout) || hangs[name] && by == wrapped
				t.Run(fmt.Sprint(name, ", ", protocol, ", ", by), func(t *testing.T) {
					gone := make(chan struct{})
					server := serve(t, func(w http.ResponseWriter, r *http.Request) {
						maps.Copy(w.Header(), tt.header)
						w.WriteHeader(500)
						tt.serve(w, r.Context().Done())
						close(gone)
					}, start)
					client := server.Client()
					client.Transport = above(client.Transport)
					if by == timeout {
						client.Timeout = time.Hour
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
					require.NoError(t, err)
					_, err = retryhttp.Result(client.Do(req))
					if held {
						cancel()
					}
					var e *retryhttp.StatusError
					require.ErrorAs(t, err, &e)
					assert.True(t, strings.HasPrefix(tt.want, string(e.Body)) || tt.header != nil && by == resumes, "the Body is the part that arrived in time")
					<-gone // the server has noticed that the connection is closed
				})
			}
		}
	}
}
