package retryhttp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// When the Transport gives up, for any reason, the caller gets the last response with its
// body unread, and a context in which the body can be read, however long that takes. It
// says why it was the last. The Timeout of an http.Client acts as a deadline: a wait that
// would exceed it does not begin. Result returns the error in place of the response.
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
		inner    int // attempts of a second Transport below
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
		{"a Check that accepts it", twice, returns(nil), 0, []any{busy}, retry.ReasonSuccess, 0},
		{"of two Transports the outer", twice, nil, 3, []any{busy}, retry.ReasonExhausted, 2},
		{"a failure to the inner of two Transports", twice, returns(nil), 3, []any{busy}, retry.ReasonSuccess, 0},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := script(tt.answers...)
			tr := &retryhttp.Transport{Policy: tt.policy, Check: tt.check, Base: base}
			if tt.inner > 0 {
				tr.Base = &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: tt.inner}}
			}
			client := &http.Client{Transport: tr, Timeout: 2 * time.Hour} // wraps the body
			resp, err := client.Do(request(t, "GET"))
			require.NoError(t, err)
			last := base.bodies[len(base.bodies)-1]
			if last != nil {
				time.Sleep(time.Hour)
				assert.Equal(t, []any{0, 0, nil}, []any{last.read, last.closes, last.ctx.Err()})
				assert.Equal(t, fmt.Sprint("answer ", base.count()), textOf(t, resp))
				assert.Error(t, last.ctx.Err(), "the end of the body frees the context of the attempt")
			}
			require.NoError(t, resp.Body.Close())
			assert.True(t, last == nil || last.closed())
			assert.Error(t, base.sent[len(base.sent)-1].Context().Err(), "where there is no body, nothing else frees it")
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

	// A request out of a response that is sent again remembers nothing of it.
	resent, contexts := request(t, "GET"), []int{}
	for range 3 {
		resp := send(t, &retryhttp.Transport{Base: script(404)}, resent)
		assert.Error(t, retryhttp.ErrorOf(resp))
		resent = resp.Request
		contexts = append(contexts, strings.Count(fmt.Sprint(resent.Context()), "WithValue"))
	}
	assert.Equal(t, []int{contexts[0], contexts[0], contexts[0]}, contexts)

	// The request is the caller's in all but its context, which has the same values,
	// and the policy of this request.
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "here"))
	req := request(t, "GET").WithContext(retryhttp.WithPolicy(ctx, twice))
	base := script(&http.Response{StatusCode: 503})
	resp := send(t, &retryhttp.Transport{Base: base}, req)
	assert.Nil(t, resp.Body)
	assert.Equal(t, http.NoBody, send(t, &retryhttp.Transport{Base: script(responseWith(200, http.NoBody))}).Body, "callers compare")
	assert.Error(t, base.sent[1].Context().Err())
	_, err = retryhttp.Result(resp, nil)
	require.EqualError(t, err, "retry: attempts exhausted after 2 attempts: retryhttp: GET http://example.test/: 503 Service Unavailable")
	assert.NotSame(t, req, resp.Request)
	assert.Equal(t, req, resp.Request.WithContext(req.Context()))
	assert.Equal(t, "here", resp.Request.Context().Value(key{}))
	assert.Equal(t, 1, retryhttp.AttemptOf(resp.Request.Context()))
	again := send(t, &retryhttp.Transport{Base: script(200)}, request(t, "GET").WithContext(resp.Request.Context()))
	assert.NoError(t, retryhttp.ErrorOf(again), "of another request with that context")
	assert.NoError(t, resp.Request.Context().Err())
	cancel()
	assert.Error(t, resp.Request.Context().Err())
}

// OnEvent and Wait know the request, after a dial that was refused too. Nothing
// below the Transport takes its request for its own.
func TestRequestOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var inner, outer []*http.Request
		notes := func(to *[]*http.Request) retry.Policy {
			note := func(ctx context.Context) {
				assert.Equal(t, "here", ctx.Value(key{}))
				*to = append(*to, retryhttp.RequestOf(ctx))
			}
			return retry.Policy{
				MaxAttempts: 2, Backoff: retry.Fixed(time.Second), HealthyAfter: time.Hour,
				OnEvent: func(ctx context.Context, _ retry.Event) { note(ctx) },
				Wait: func(ctx context.Context, d time.Duration) (time.Duration, error) {
					note(ctx)
					assert.Equal(t, time.Second, d)
					return 0, nil // it may return early
				},
			}
		}
		lowest := script(errReset)
		base := script((&retryhttp.Transport{Policy: notes(&inner), Base: lowest}).RoundTrip)
		req := request(t, "GET").WithContext(context.WithValue(t.Context(), key{}, "here"))
		_, err := (&retryhttp.Transport{Policy: notes(&outer), Base: base}).RoundTrip(req)
		require.Error(t, err)
		assert.True(t, slices.Equal(slices.Repeat([]*http.Request{req}, 7), outer), "2 x 2 for the attempts, 1 between them and the wait, 1 at the end")
		require.Len(t, base.sent, 2)
		assert.True(t, slices.Equal(slices.Concat(slices.Repeat(base.sent[:1], 7), slices.Repeat(base.sent[1:], 7)), inner))
		assert.Nil(t, retryhttp.RequestOf(lowest.sent[0].Context()))
		assert.Nil(t, httptrace.ContextClientTrace(lowest.sent[0].Context()), "an idempotent request is not traced")
		assert.Nil(t, retryhttp.RequestOf(t.Context()))
	})
}

// A policy for one request replaces the Transport's policy entirely. It is not for a
// Transport below.
func TestWithPolicy(t *testing.T) {
	var seen events
	ours := retry.Policy{MaxAttempts: 5, Budget: &retry.Budget{Size: 10}, AttemptTimeout: time.Hour, OnEvent: seen.add}
	patient := ours
	patient.MaxAttempts = 2
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		inner  int   // attempts of the Transport below
		want   []int // requests, what is left of our Budget, our events
	}{
		{"more attempts", retry.Policy{MaxAttempts: 7}, 1, []int{7, 10, 0}},
		{"the zero Policy", retry.Policy{}, 1, []int{1, 10, 0}},
		{"for the outer of two Transports", retry.Policy{MaxAttempts: 2}, 3, []int{6, 10, 0}},
		{"the Transport's, changed", patient, 1, []int{2, 9, 6}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := script(503)
			below := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: tt.inner}}
			send(t, &retryhttp.Transport{Base: below, Policy: ours}, request(t, "GET").WithContext(retryhttp.WithPolicy(t.Context(), tt.policy)))
			assert.Equal(t, tt.want, []int{base.count(), ours.Budget.Left(), len(seen.all)})
		})
	}
}

// A status from 400 on is an error, whoever got the response, and whatever a Check says of it.
// A status below is none, unless a Transport has given up on it.
func TestResult(t *testing.T) {
	const by = "retryhttp: GET http://example.test/: "
	ask := func(tr *retryhttp.Transport) func(*http.Request) (*http.Response, error) { return tr.RoundTrip }
	for _, tt := range []struct {
		name   string
		answer *http.Response
		by     func(*retryhttp.Transport) func(*http.Request) (*http.Response, error) // nil: a bare http.Client
		check  retryhttp.CheckFunc
		err    string // "": none
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
		{"a Transport whose Check accepts it", asksToWait(404, 7), ask, returns(nil), by + "404 Not Found", "", 7 * time.Second},
		{"a Transport whose Check refuses a 200", response(200), ask, returns(errReset),
			"retry: gave up after 1 attempt (no limit is set, so there is no retry): connection reset by peer", retry.ReasonExhausted, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			closed := 0
			if tt.answer.Body != http.NoBody {
				tt.answer.Body = &body{Reader: strings.NewReader("the words"), onClose: func() { closed++ }}
			}
			get := (&http.Client{Transport: script(tt.answer)}).Do
			if tt.by == nil {
				tt.answer.Request = request(t, "GET") // as http.Transport sets it
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
			assert.Equal(t, tt.answer.Body != http.NoBody, closed == 1)
			var e *retryhttp.StatusError
			if errors.As(err, &e) {
				assert.Equal(t, retry.IsPermanent(err), tt.answer.StatusCode == 404 || tt.answer.StatusCode == 400 || tt.answer.StatusCode == 999)
				assert.Equal(t, tt.answer.Body != http.NoBody, string(e.Body) == "the words")
			}
		})
	}
	resp, err := retryhttp.Result(&http.Response{StatusCode: 404}, nil)
	assert.EqualError(t, err, "retryhttp: 404 Not Found", "without a request and a body")
	assert.Nil(t, resp)
	resp, err = retryhttp.Result(response(404), errReset)
	assert.NotNil(t, resp, "what comes with an error stays, closed, as http.Client has it")
	assert.Equal(t, errReset, err)
}

// A failover that asks one host after another by whatever client stops at the first that is
// not sick.
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

// A Check may fail with what another server has said. Those are not the words of this response.
func TestResultKeepsTheWordsOfItsResponse(t *testing.T) {
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
		{"its own, by NewStatusError", func(_ *http.Request, resp *http.Response, _ error) error {
			return retryhttp.NewStatusError(resp)
		}, "words"},
		{"its own, for another request", func(req *http.Request, resp *http.Response, err error) error {
			return retryhttp.Check(req.Clone(context.Background()), resp, err)
		}, "words"},
		{"its own, for no request", func(_ *http.Request, resp *http.Response, err error) error {
			return fmt.Errorf("no: %w", tr.StatusError(nil, resp))
		}, "words"},
		{"its own, of a copy with another status", func(_ *http.Request, resp *http.Response, err error) error {
			copied := *resp
			copied.StatusCode = 503
			return retryhttp.NewStatusError(&copied)
		}, "words"},
		{"of a token server", func(req *http.Request, _ *http.Response, _ error) error {
			token := send(t, &retryhttp.Transport{Base: script(textResponse(500, "token"))}, req)
			return fmt.Errorf("no token: %w", retryhttp.NewStatusError(token))
		}, ""},
		{"of a token server, by ErrorOf", func(req *http.Request, _ *http.Response, _ error) error {
			return retryhttp.ErrorOf(send(t, &retryhttp.Transport{Base: script(textResponse(500, "token"))}, req.Clone(req.Context())))
		}, ""},
		{"of a token server, by Result", func(req *http.Request, _ *http.Response, _ error) error {
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
}

// Result keeps the first KiB of what the server says, in a field and not in the text. It
// takes 100 ms and 64 KiB at most, whatever the server does, and leaves nothing behind.
func TestResultKeepsTheWords(t *testing.T) {
	const secret = "card 4711 declined"
	words := func(n int) string { return strings.Repeat("w", n) }
	drips := func(ctx context.Context) io.Reader {
		return reads(func(p []byte) (int, error) {
			select {
			case <-time.After(10 * ms):
				return copy(p, "w"), nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
	}
	for _, tt := range []struct {
		name   string
		length int64 // its own word
		body   func(context.Context) io.Reader
		want   string
		took   time.Duration
	}{
		{"one line", 18, func(context.Context) io.Reader { return strings.NewReader(secret) }, secret, 0},
		{"empty", 0, func(context.Context) io.Reader { return strings.NewReader("") }, "", 0},
		{"a KiB", -1, func(context.Context) io.Reader { return strings.NewReader(words(1 << 10)) }, words(1 << 10), 0},
		{"a byte more", -1, func(context.Context) io.Reader { return strings.NewReader(words(1<<10) + "x") }, words(1 << 10), 0},
		{"in bytes", -1, func(context.Context) io.Reader { return iotest.OneByteReader(strings.NewReader(words(2 << 10))) }, words(1 << 10), 0},
		{"as long as what is read", 64 << 10, func(context.Context) io.Reader { return strings.NewReader(words(64 << 10)) }, words(1 << 10), 0},
		{"too long to be read", 64<<10 + 1, func(context.Context) io.Reader { return strings.NewReader(words(64<<10 + 1)) }, words(1 << 10), 0},
		{"endless", -1, func(context.Context) io.Reader { return endless{} }, string(make([]byte, 1<<10)), 0},
		{"broken", -1, func(context.Context) io.Reader { return breaks("sorr", errReset) }, "sorr", 0},
		{"a drop at a time", -1, drips, words(9), 90 * ms},
		{"a hang at once", -1, func(ctx context.Context) io.Reader { return stalled{ctx} }, "", 90 * ms},
		{"a hang later", -1, func(ctx context.Context) io.Reader {
			return io.MultiReader(strings.NewReader("sor"), stalled{ctx})
		}, "sor", 90 * ms},
		{"a hang that heeds nothing", -1, func(context.Context) io.Reader {
			return io.MultiReader(strings.NewReader("sor"), takes(time.Hour))
		}, "sor", 100 * ms},
	} {
		for _, by := range []string{"a Transport", "a Transport whose Check wraps it", "another client"} {
			bubble(t, tt.name+", by "+by, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context()) // ends when the body of another client is closed
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
				if by == "another client" {
					resp.Body = closingEnds{resp.Body, cancel}
				}
				began := time.Now()
				_, err = retryhttp.Result(resp, nil)
				assert.Equal(t, tt.took, time.Since(began))
				var e *retryhttp.StatusError
				require.ErrorAs(t, err, &e)
				assert.Equal(t, tt.want, string(e.Body))
				assert.Equal(t, tt.want == "", e.Body == nil)
				assert.NotContains(t, fmt.Sprintf("%v %+v %s", err, err, e), "4711")
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				assert.Equal(t, 1, b.closes)
				assert.LessOrEqual(t, b.read, 64<<10)
			})
		}
	}

	// Who has read a body may put another in its place, as httputil.DumpResponse does.
	dumped := send(t, &retryhttp.Transport{Base: script(textResponse(402, secret))})
	_, err := httputil.DumpResponse(dumped, true)
	require.NoError(t, err)
	_, err = retryhttp.Result(dumped, nil)
	var e *retryhttp.StatusError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, secret, string(e.Body))

	// What a Check returns for several responses is not theirs.
	shared := &retryhttp.StatusError{StatusCode: 418}
	_, err = retryhttp.Result((&retryhttp.Transport{Base: script(textResponse(418, secret)), Check: returns(shared)}).RoundTrip(request(t, "GET")))
	assert.ErrorIs(t, err, shared)
	assert.Nil(t, shared.Body)
}

// closingEnds is a body of net/http: closing it ends a Read that waits for the server.
type closingEnds struct {
	io.ReadCloser
	cancel func()
}

func (b closingEnds) Close() error { b.cancel(); return b.ReadCloser.Close() }

// A panic of a body that Result reads is the caller's to recover.
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

// With net/http on both ends: a bomb, a body that never ends, and one that never comes. The
// connection ends with it, and nothing waits for the server.
func TestResultOfAHostileServer(t *testing.T) {
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	_, _ = zip.Write(bytes.Repeat([]byte("w"), 8<<20))
	_ = zip.Close()
	empty := func(w io.Writer) { // blocks of nothing, for ever
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
		"nothing comes": {nil, func(w io.Writer, gone <-chan struct{}) { w.(http.Flusher).Flush(); <-gone }, ""},
		"some words, and nothing more": {nil, func(w io.Writer, gone <-chan struct{}) {
			_, _ = io.WriteString(w, "sorry")
			w.(http.Flusher).Flush()
			<-gone
		}, "sorry"},
	} {
		for protocol, start := range protocols {
			for _, retries := range []bool{false, true} {
				t.Run(fmt.Sprint(name, ", ", protocol, ", a Transport: ", retries), func(t *testing.T) {
					gone := make(chan struct{})
					server := serve(t, func(w http.ResponseWriter, r *http.Request) {
						maps.Copy(w.Header(), tt.header)
						w.WriteHeader(500)
						tt.serve(w, r.Context().Done())
						close(gone)
					}, start)
					client := server.Client()
					if retries {
						client.Transport = &retryhttp.Transport{Base: client.Transport}
					}
					_, err := retryhttp.Result(client.Get(server.URL))
					var e *retryhttp.StatusError
					require.ErrorAs(t, err, &e)
					assert.True(t, strings.HasPrefix(tt.want, string(e.Body)), "as much as came in time")
					<-gone // the server learns that nobody reads
				})
			}
		}
	}
}

// A token that is fetched in the context of an attempt is not that attempt, whoever fetches it
// and by whatever client: its 429 does not close the Gate of the attempt, its second request is
// not the attempt's, and the Advise and the evidence of the attempt are not about it.
func TestWhoseAttemptIsIt(t *testing.T) {
	slow, fast := reply{after: time.Second, status: 200}, reply{after: 10 * ms, status: 200}
	type fetch = func(ctx context.Context, method, url string) error
	inPrepare := func(tr *retryhttp.Transport, get fetch, url string) {
		tr.Prepare = func(req *http.Request, _ int, _ error) error { return get(req.Context(), "GET", url) }
	}
	inBase := func(tr *retryhttp.Transport, get fetch, url string) {
		base := tr.Base
		tr.Base = roundTrip(func(req *http.Request) (*http.Response, error) {
			if err := get(req.Context(), "GET", url); err != nil {
				return nil, err
			}
			return base.RoundTrip(req)
		})
	}
	for _, tt := range []struct {
		name string
		in   func(*retryhttp.Transport, fetch, string)
		url  string
	}{
		{"in Prepare", inPrepare, "http://token.test/"},
		{"in Prepare, of the same URL", inPrepare, "http://example.test/"},
		{"in Base", inBase, "http://token.test/"},
		{"in Base, of the same host", inBase, "http://example.test/token"},
		{"in Base, of the same path with a query", inBase, "http://example.test/?token"},
		{"in Base, by another scheme", inBase, "https://example.test/"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			closed, told, advised := 0, []bool{}, 0
			tokens := script(slow, reply{after: 10 * ms, status: 429, wait: 9}, slow, fast)
			get := func(ctx context.Context, method, url string) error {
				h := &retryhttp.Hedge{Base: tokens, After: 50 * ms, OnHedge: func(_ context.Context, won bool) { told = append(told, won) }}
				req, err := http.NewRequestWithContext(ctx, method, url, nil)
				require.NoError(t, err)
				assert.Equal(t, "answer 1", textOf(t, send(t, h, req)))
				assert.True(t, retryhttp.Hedged(tokens.sent[1].Context()))
				assert.Equal(t, "answer 4", textOf(t, send(t, h, req)))
				assert.Error(t, retryhttp.Check(req, response(503), nil), "asks AdviceOf")
				return nil
			}
			var hedged []bool
			tr := &retryhttp.Transport{
				Base: script(200), Gate: &retryhttp.Gate{OnClose: func(string, time.Duration, error) { closed++ }},
				Advise: func(*http.Response) retryhttp.Advice { advised++; return retryhttp.Advice{} },
				Policy: retry.Policy{MaxAttempts: 2, OnEvent: func(ctx context.Context, _ retry.Event) { hedged = append(hedged, retryhttp.Hedged(ctx)) }},
			}
			tt.in(tr, get, tt.url)
			assert.Equal(t, 200, send(t, tr).StatusCode)
			assert.Equal(t, []any{0, 0, []bool{false, true}}, []any{closed, advised, told})
			assert.NotContains(t, hedged, true)
		})
	}
	for _, tt := range []struct {
		name string
		edit edit
		sent int
	}{
		{"of a request that is sent once", policy(retry.Policy{}), 2},
		{"of a request that may not be repeated", idempotent(false), 2},
	} {
		bubble(t, "a token for Prepare is hedged, "+tt.name, func(t *testing.T) {
			tokens := script(slow, fast)
			tr := &retryhttp.Transport{Base: script(200), Policy: retry.Policy{MaxAttempts: 2}}
			inPrepare(tr, func(ctx context.Context, method, url string) error {
				req, err := http.NewRequestWithContext(ctx, method, url, nil)
				send(t, &retryhttp.Hedge{Base: tokens, After: 50 * ms}, req)
				return err
			}, "http://token.test/")
			tt.edit.apply(tr, request(t, "GET"))
			send(t, tr)
			assert.Equal(t, tt.sent, tokens.count())
		})
	}
	bubble(t, "Base may lead its own request elsewhere", func(t *testing.T) {
		base := script(404)
		tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}}
		tr.Base = roundTrip(func(req *http.Request) (*http.Response, error) {
			req.URL = &url.URL{Scheme: "http", Host: "replica.test"}
			return base.RoundTrip(req)
		})
		tr.Advise = func(*http.Response) retryhttp.Advice { return retryhttp.Advice{Verdict: retryhttp.Again} }
		send(t, tr)
		assert.Equal(t, 2, base.count(), "Advise was asked")
	})
	bubble(t, "a lease of a token is its own", func(t *testing.T) {
		tokens := script(200)
		tr := &retryhttp.Transport{Base: script(200)} // which sends once, and would lend all
		inPrepare(tr, func(ctx context.Context, method, url string) error {
			req, err := http.NewRequestWithContext(ctx, method, url, nil)
			send(t, retryhttp.LendBudget(tokens, 9), req)
			return err
		}, "http://token.test/")
		send(t, tr, request(t, "GET").WithContext(retry.WithBudget(t.Context(), &retry.Budget{Size: 3})))
		assert.Equal(t, "2", leases(tokens))
	})
}

// What Prepare sends in the context of a POST is no evidence of the POST: a token server that
// cannot be reached does not show that the POST was not sent, nor one that answers that it was.
func TestEvidenceIsOfTheRequestAlone(t *testing.T) {
	refused := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errReset }}
	answers := piped(1, func(conn net.Conn, _ *http.Request) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	for _, tt := range []struct {
		name   string
		tokens http.RoundTripper
		base   http.RoundTripper
		sent   int
	}{
		{"the token server is down, and Base says nothing of its connections", refused, script(errReset), 1},
		{"the token server answers, and Base has no connection", answers, refused, 2},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			sent := 0
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				sent++
				return tt.base.RoundTrip(req)
			})}
			tr.Prepare = func(req *http.Request, _ int, _ error) error {
				token, err := http.NewRequestWithContext(req.Context(), "GET", "http://token.test/", nil)
				if resp, err := tt.tokens.RoundTrip(token); err == nil {
					_ = resp.Body.Close()
				}
				return err
			}
			_, err := tr.RoundTrip(request(t, "POST"))
			assert.ErrorContains(t, err, "connection reset by peer")
			assert.Equal(t, tt.sent, sent)
		})
	}
}

// Where a last 4xx may be the answer to what an earlier attempt has done, the caller learns of
// that attempt.
func TestAnswerThatIsLost(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	half := func() *http.Response { return responseWith(200, breaks("sto", io.ErrUnexpectedEOF)) }
	below := ofTransport(func(tr *retryhttp.Transport) {
		tr.Base = &retryhttp.Transport{Base: tr.Base, Policy: retry.Policy{MaxAttempts: 4}}
	})
	for _, tt := range []struct {
		name  string
		edit  edit
		steps []any
		want  string // the Before; "": nil
	}{
		{"a reset", nil, []any{errReset, 412}, "connection reset by peer"},
		{"503", nil, []any{503, 412}, "503 Service Unavailable"},
		{"504, and then a reset", nil, []any{504, errReset, 412}, "connection reset by peer"},
		{"a reset, and then a 503", nil, []any{errReset, 503, 412}, "connection reset by peer"},
		{"two answers", nil, []any{503, 504, 412}, "504 Gateway Timeout"},
		{"a reset, and then a 429", nil, []any{errReset, 429, 412}, "connection reset by peer"},
		{"429 is the last", nil, []any{errReset, 429}, "connection reset by peer"},
		{"404, as of a DELETE", nil, []any{errReset, 404}, "connection reset by peer"},
		{"AttemptTimeout", policy(retry.Policy{MaxAttempts: 4, AttemptTimeout: time.Second}), []any{reply{after: time.Hour, status: 200}, 412}, "retryhttp: no response within AttemptTimeout (1s)"},
		{"half an answer", check(retryhttp.WholeBody(nil, 99)), []any{half(), 412}, "retryhttp: the body of the response broke off: unexpected EOF"},
		{"an answer that Check refuses", check(func(req *http.Request, resp *http.Response, err error) error {
			if resp != nil && resp.StatusCode == 200 {
				return errors.New("half")
			}
			return retryhttp.Check(req, resp, err)
		}), []any{200, 412}, "half"},
		{"a deadline in the wait after a 429", ofRequest(func(req *http.Request) {
			ctx, cancel := context.WithTimeout(req.Context(), time.Minute)
			context.AfterFunc(ctx, cancel)
			*req = *req.WithContext(ctx)
		}), []any{errReset, asksToWait(429, 59), asksToWait(429, 59)}, "connection reset by peer"},

		{"of a Transport below", below, []any{errReset, 412}, "connection reset by peer"},
		{"of a Transport below, and then a 429", below, []any{errReset, 429, 429, 429, 412}, "connection reset by peer"},

		{"a connection that was refused", nil, []any{refused, 412}, ""},
		{"a first attempt of a Transport below", below, []any{412}, ""},
		{"429", nil, []any{429, 412}, ""},
		{"401 of an expired token", check(failing), []any{401, 403}, ""},
		{"the first attempt", nil, []any{412}, ""},
		{"a last 503", nil, []any{errReset, 503}, ""},
		{"a POST, which is sent again because it was not done", ofRequest(func(req *http.Request) { req.Method = "POST" }), []any{429, 412}, ""},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tr, req := &retryhttp.Transport{Base: script(tt.steps...), Policy: retry.Policy{MaxAttempts: 4}}, request(t, "PUT")
			req.Header.Set("If-None-Match", "*")
			tt.edit.apply(tr, req)
			_, err := retryhttp.Result(tr.RoundTrip(req))
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			if tt.want == "" {
				assert.NoError(t, e.Before)
				return
			}
			require.ErrorContains(t, e.Before, tt.want)
			assert.ErrorContains(t, err, "; before that: ")
			assert.False(t, errors.Is(err, errReset), "it does not decide anything")
		})
	}
	bubble(t, "a Transport below sends a POST twice, and its 429 does not say that nothing was done", func(t *testing.T) {
		base := script(errReset, 429)
		inner := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}, Idempotent: func(*http.Request) bool { return true }}
		resp := send(t, &retryhttp.Transport{Base: inner, Policy: retry.Policy{MaxAttempts: 4}}, request(t, "POST"))
		assert.Equal(t, []any{429, 2}, []any{resp.StatusCode, base.count()})
		assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(retryhttp.ErrorOf(resp)))
	})
}

// net/http itself sends a request with a key again if a connection that it has kept breaks. That
// is part of one attempt, and its first answer is lost all the same.
func TestAnswerThatIsLostInNetHTTP(t *testing.T) {
	const again = "net/http has sent it again, because a connection that it had kept broke"
	for _, tt := range []struct {
		name, method string
		header       http.Header
		protocol     string
		sent         int // by net/http, in the last attempt
		want         string
	}{
		{"PUT with a key", "PUT", http.Header{"Idempotency-Key": {"k"}}, "HTTP/1", 2, again},
		{"DELETE with another key", "DELETE", http.Header{"X-Idempotency-Key": {"k"}}, "HTTP/1", 2, again},
		{"POST with a key that is not sent", "POST", http.Header{"Idempotency-Key": nil}, "HTTP/1", 2, again},
		{"PUT", "PUT", nil, "HTTP/1", 1, "EOF"},
		{"HTTP/2", "PUT", http.Header{"Idempotency-Key": {"k"}}, "HTTP/2", 1, "INTERNAL_ERROR"},
	} {
		for _, breaks := range []bool{true, false} {
			t.Run(fmt.Sprint(tt.name, ", breaks: ", breaks), func(t *testing.T) {
				var asked atomic.Int64
				server := serve(t, func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.Method == "GET":
					case asked.Add(1) == 1 && breaks:
						panic(http.ErrAbortHandler) // it is done, and nobody learns of it
					default:
						w.WriteHeader(412)
					}
				}, protocols[tt.protocol])
				base := server.Client().Transport
				req := request(t, "GET")
				req.URL, _ = url.Parse(server.URL)
				textOf(t, send(t, base, req)) // so that there is a connection
				tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}}
				req.Method, req.Header = tt.method, tt.header.Clone()
				var e *retry.Error
				require.ErrorAs(t, retryhttp.ErrorOf(send(t, tr, req)), &e)
				if breaks {
					assert.ErrorContains(t, e.Before, tt.want)
					assert.Equal(t, []int64{2, int64(3 - tt.sent)}, []int64{asked.Load(), int64(e.Attempts)})
				} else {
					assert.NoError(t, e.Before)
					assert.EqualValues(t, 1, asked.Load())
				}
			})
		}
	}
}

// What is sent again after an answer has come, or at the same time, is not what net/http repeats.
func TestAnswersThatAreNotLost(t *testing.T) {
	inner := func(base http.RoundTripper) http.RoundTripper {
		return &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}}
	}
	accepts := func(base http.RoundTripper) http.RoundTripper {
		return &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}, Check: func(req *http.Request, resp *http.Response, err error) error {
			if err == nil && resp.StatusCode == 412 {
				return nil
			}
			return retryhttp.Check(req, resp, err)
		}}
	}
	hedge := func(base http.RoundTripper) http.RoundTripper { return &retryhttp.Hedge{Base: base, After: 1} }
	for _, tt := range []struct {
		name, method string
		below        func(http.RoundTripper) http.RoundTripper
		answers      []int
		both         bool // an answer comes once all requests are there
		attempts     int
	}{
		{"a Transport below, POST", "POST", inner, []int{429, 412}, false, 1},
		{"a Transport below, whose Check accepts the last", "POST", accepts, []int{429, 412}, false, 1},
		{"a Transport below, POST, which is sent again", "POST", inner, []int{429, 429, 412}, false, 2},
		{"a Hedge below, GET with a key", "GET", hedge, []int{404, 404}, true, 1},
		{"a Hedge below, HEAD with a key", "HEAD", hedge, []int{404, 404}, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked atomic.Int64
			all := make(chan struct{})
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				n := int(asked.Add(1))
				if n == len(tt.answers) {
					close(all)
				}
				if tt.both {
					<-all
				}
				w.WriteHeader(tt.answers[n-1])
			}, protocols["HTTP/1"])
			tr := &retryhttp.Transport{Base: tt.below(server.Client().Transport), Policy: retry.Policy{MaxAttempts: 4}}
			req := request(t, tt.method)
			req.URL, _ = url.Parse(server.URL)
			if tt.both {
				req.Header.Set("Idempotency-Key", "k")
			}
			var e *retry.Error
			require.ErrorAs(t, retryhttp.ErrorOf(send(t, tr, req)), &e)
			assert.NoError(t, e.Before)
			assert.Equal(t, []int{len(tt.answers), tt.attempts}, []int{int(asked.Load()), e.Attempts})
		})
	}
}

// Over HTTP/2, net/http sends again only what the server has refused before it did anything.
func TestAnswerThatIsNotLostOverHTTP2(t *testing.T) {
	var asked atomic.Int64
	tr := &retryhttp.Transport{Base: http2Server(t, func(c h2conn, stream uint32) {
		if asked.Add(1) == 1 {
			c.reset(stream, 0x7) // REFUSED_STREAM
		} else {
			c.frame(0x1, 0x5, stream, []byte("\x08\x03412")) // a header with one field, ":status: 412"
		}
	})}
	req := request(t, "PUT")
	req.Header.Set("Idempotency-Key", "k")
	var e *retry.Error
	require.ErrorAs(t, retryhttp.ErrorOf(send(t, tr, req)), &e)
	assert.NoError(t, e.Before)
	assert.Equal(t, []int64{2, 1}, []int64{asked.Load(), int64(e.Attempts)})
}
