package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrylog"
)

func TestPrepare(t *testing.T) {
	var got, sent []string
	var lasts []error
	asked, base := 0, script(503, errReset, 200)
	req := request(t, "PUT")
	rewindable(req, "data")
	req.Header = nil // http.Client never does this
	send(t, &retryhttp.Transport{
		Policy:     retry.Policy{MaxAttempts: 3},
		Idempotent: func(*http.Request) bool { asked++; return true },
		Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			text, err := io.ReadAll(req.Body)
			sent = append(sent, fmt.Sprint(req.URL.Host, " ", req.Header.Get("X-Signature"), " ", string(text), err))
			return base.RoundTrip(req)
		}),
		Prepare: func(req *http.Request, attempt int, last error) error {
			got, lasts = append(got, fmt.Sprint(attempt, retryhttp.AttemptOf(req.Context()), req.Context().Err(), req.Header)), append(lasts, last)
			for _, before := range base.sent {
				assert.Error(t, before.Context().Err(), "the previous attempt is over, whether it got a response or an error")
			}
			req.Header.Set("X-Signature", strings.Repeat("s", attempt))
			req.URL.Host = "replica.test"
			return nil
		},
	}, req)
	assert.Equal(t, []string{"1 1 <nil> map[]", "2 2 <nil> map[]", "3 3 <nil> map[]"}, got, "each attempt starts from the caller's request")
	assert.Equal(t, 1, asked, "Idempotent is called once, before the first attempt")
	assert.Equal(t, []string{"replica.test s data<nil>", "replica.test ss data<nil>", "replica.test sss data<nil>"}, sent)
	assert.NoError(t, lasts[0])
	assert.ErrorContains(t, lasts[1], "503")
	assert.ErrorAs(t, lasts[1], new(*retryhttp.StatusError))
	assert.Equal(t, errReset, lasts[2])
	assert.Empty(t, req.Header)
	assert.Equal(t, "example.test", req.URL.Host)
}

// If Prepare returns an error, the call ends. The attempt is not sent, Check is not called, and the
// body is closed.
func TestPrepareStops(t *testing.T) {
	const failed = ": retryhttp: Prepare: connection reset by peer"
	for _, tt := range []struct {
		name string
		at   int // the attempt that Prepare stops
		err  error
		text string
	}{
		{"the first", 1, errReset, "not retryable after 1 attempt (the request was not sent)" + failed},
		{"the second", 2, errReset, "not retryable after 2 attempts (the request was not sent)" + failed + " (the attempt before: 503 Service Unavailable)"},
		{"retry.After has no effect", 1, retry.After(time.Second, errReset), "not retryable after 1 attempt (the request was not sent)" + failed},
		{"a permanent error", 1, retry.Permanent(errReset), "permanent error after 1 attempt" + failed},
		{"an error that panics", 1, panicker{"Unwrap"}, "permanent error after 1 attempt: retryhttp: Prepare: retryhttp: error of type retryhttp_test.panicker panicked: bug in Unwrap"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			checked, opened, closed, req := 0, 0, 0, request(t, "PUT")
			tr := &retryhttp.Transport{
				Policy:  retry.Policy{MaxAttempts: 5},
				Prepare: func(_ *http.Request, attempt int, _ error) error { return map[int]error{tt.at: tt.err}[attempt] },
				Check: func(req *http.Request, resp *http.Response, err error) error {
					checked++
					return retryhttp.Check(req, resp, err)
				},
			}
			req.GetBody = func() (io.ReadCloser, error) {
				opened++
				return &body{Reader: strings.NewReader("data"), onClose: func() { closed++ }}, nil
			}
			req.Body, _ = req.GetBody()
			assert.Equal(t, fmt.Sprint(tt.at-1, " sent: ", tt.text), ask(t, tr, req, 503))
			assert.Equal(t, []int{tt.at - 1, tt.at, tt.at}, []int{checked, opened, closed})
		})
	}
}

// The error of Prepare contains the error of the previous attempt, but not the wait of its answer,
// which is over. RetryIf is not asked about an error of Prepare.
func TestPrepareThatFailsAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		tr := &retryhttp.Transport{Base: script(asksToWait(429, 50)), Prepare: func(_ *http.Request, attempt int, _ error) error {
			return map[int]error{2: errReset}[attempt]
		}, Policy: retry.Policy{MaxAttempts: 3, RetryIf: func(err error) bool {
			asked++
			return errors.As(err, new(*retryhttp.StatusError)) && !errors.Is(err, errReset)
		}}}
		_, err := tr.RoundTrip(request(t, "GET"))
		var status *retryhttp.StatusError
		require.ErrorAs(t, err, &status)
		assert.Equal(t, 429, status.StatusCode)
		assert.Equal(t, []any{retry.ReasonNonRetryable, time.Duration(0), 1}, []any{retry.ReasonOf(err), retry.RetryAfterOf(err), asked})
		assert.ErrorContains(t, err, "(the attempt before: ")
	})
}

// The log of a call that an error of Prepare has ended agrees with its policy.
func TestLogOfAPrepareThatFails(t *testing.T) {
	var log bytes.Buffer
	p := retry.Policy{MaxAttempts: 3}
	tr := &retryhttp.Transport{Base: script(200), Policy: p, Prepare: func(*http.Request, int, error) error { return errReset }}
	tr.Policy.OnEvent = retrylog.NewWriter(&log).OnEvent
	_, err := tr.RoundTrip(request(t, "GET"))
	require.Error(t, err)
	records, err := retrylog.Read(&log)
	require.NoError(t, err)
	calls, err := retrylog.Replay(records)
	require.NoError(t, err)
	require.Len(t, calls, 1)
	assert.NoError(t, calls[0].Check(p))
}

// An error of Prepare or GetBody ends the call, but not a loop around it, and not the job that made
// it. The server of a token may be up again when the next call is made.
func TestPrepareThatFailsMayWorkInTheNextCall(t *testing.T) {
	for name, edit := range map[string]func(*retryhttp.Transport, *http.Request, error){
		"Prepare": func(tr *retryhttp.Transport, _ *http.Request, err error) {
			tr.Prepare = func(*http.Request, int, error) error { return err }
		},
		"GetBody": func(_ *retryhttp.Transport, req *http.Request, err error) {
			req.GetBody = func() (io.ReadCloser, error) { return nil, err }
		},
	} {
		for _, tt := range []struct {
			err  error
			more bool
		}{
			{errReset, true}, {retry.After(time.Second, errReset), true}, {context.DeadlineExceeded, true},
			{&retry.Error{Reason: retry.ReasonExhausted, Attempts: 2, Err: errReset}, true}, {retry.Permanent(errReset), false},
		} {
			bubble(t, fmt.Sprint(name, tt.err), func(t *testing.T) {
				tr, req, calls := &retryhttp.Transport{Base: script(200), Policy: retry.Policy{MaxAttempts: 3}}, request(t, "PUT"), 0
				edit(tr, req, tt.err)
				once := func(context.Context) error {
					calls++
					_, err := (&http.Client{Transport: tr}).Do(req)
					return err
				}
				_ = retry.Do(t.Context(), retry.Policy{MaxAttempts: 2}, once)
				assert.Equal(t, map[bool]int{true: 2, false: 1}[tt.more], calls)
				d, _ := retry.Once(t.Context(), retry.Policy{MaxAttempts: 2}, retry.Attempt{Number: 1}, once)
				assert.Equal(t, tt.more, d.Reason == retry.ReasonRetry)
			})
		}
	}
}

// A body that Prepare replaces is closed once. The old body is closed after the new body, which may
// read from the old body. If there is no new body, or if Prepare fails, the old body is closed at
// once.
func TestPrepareReplacesTheBody(t *testing.T) {
	anew := func(io.Reader) io.Reader { return strings.NewReader("new") }
	var log string
	sets := func(read func(io.Reader) io.Reader, end func(old io.Closer), err error) func(*http.Request) error {
		return func(req *http.Request) error {
			old := req.Body
			req.Body = &body{Reader: read(old), onClose: func() { log += "new "; end(old) }}
			return err
		}
	}
	old := func(old io.Reader) io.Reader { return old }
	nothing := func(io.Closer) {}
	for _, tt := range []struct {
		name    string
		prepare func(req *http.Request) error
		sent    string // the body that is sent; "": the request is not sent
		log     string
	}{
		{"Prepare leaves the body", func(*http.Request) error { return nil }, "data", "old "},
		{"Prepare fails", func(*http.Request) error { return errReset }, "", "old "},
		{"Prepare sets another body", sets(anew, nothing, nil), "new", "new old "},
		{"Prepare sets another body, and fails", sets(anew, nothing, errReset), "", "new old "},
		{"Prepare closes the body, and sets another body", func(req *http.Request) error {
			assert.NoError(t, req.Body.Close())
			return sets(anew, nothing, nil)(req)
		}, "new", "old new "},
		{"Prepare sets a body that reads from the old body and closes it", sets(old, func(old io.Closer) { _ = old.Close() }, nil), "data", "new old "},
		{"Prepare sets a body that reads from the old body", sets(old, nothing, nil), "data", "new old "},
		{"Prepare sets a body whose Close panics", sets(anew, func(io.Closer) { panic("bug in Close") }, nil), "new", "new old "},
		{"Prepare removes the body", func(req *http.Request) error { req.Body = nil; return nil }, "", "old "},
		{"Prepare sets NoBody", func(req *http.Request) error { req.Body = http.NoBody; return nil }, "", "old "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log = ""
			text, req := "", request(t, "PUT")
			body := &body{Reader: strings.NewReader("data"), onClose: func() { log += "old " }}
			req.Body = body
			tr := &retryhttp.Transport{
				Base: roundTrip(func(r *http.Request) (*http.Response, error) {
					assert.True(t, tt.name != "Prepare leaves the body" || r.Body == io.ReadCloser(body), "a body that Prepare leaves is not wrapped")
					if r.Body != nil {
						data, err := io.ReadAll(r.Body)
						assert.NoError(t, err)
						text = string(data)
					}
					return response(200), nil
				}),
				Prepare: func(req *http.Request, _ int, _ error) error { return tt.prepare(req) },
			}
			func() {
				defer func() { _ = recover() }()
				_, _ = tr.RoundTrip(req)
			}()
			assert.Equal(t, []string{tt.sent, tt.log}, []string{text, log})
		})
	}
	base := script(200)
	send(t, &retryhttp.Transport{Base: base, Prepare: func(req *http.Request, _ int, _ error) error {
		assert.Nil(t, req.Body)
		req.Body = http.NoBody
		return nil
	}}, request(t, "PUT"))
	assert.Equal(t, http.NoBody, base.sent[0].Body, "http.NoBody is not wrapped")
}

// If Prepare fails after AttemptTimeout has passed, the attempt fails with the error of Prepare,
// unless this error says that a context is done.
func TestPrepareThatFailsLate(t *testing.T) {
	errRevoked := errors.New("the token is revoked")
	for _, tt := range []struct {
		name    string
		fails   func(context.Context) error
		want    error
		prepare int // how often Prepare is called
		before  []any
	}{
		{"it succeeds too late", func(context.Context) error { return nil }, context.DeadlineExceeded, 3, nil},
		{"for its own reason", func(context.Context) error { return errRevoked }, errRevoked, 1, nil},
		{"for its own reason, after an attempt that timed out", func(context.Context) error { return errRevoked }, errRevoked, 2, []any{reply{after: time.Hour}}},
		{"because of the context", func(ctx context.Context) error { return ctx.Err() }, context.DeadlineExceeded, 3, nil},
		{"because of the cause of the context", context.Cause, context.DeadlineExceeded, 3, nil},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			calls, base := 0, script(append(tt.before, 200)...)
			p := retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Second}
			tr := &retryhttp.Transport{Base: base, Policy: p, Prepare: func(req *http.Request, _ int, _ error) error {
				if calls++; calls <= len(tt.before) {
					return nil
				}
				time.Sleep(time.Second + 1)
				return tt.fails(req.Context())
			}}
			_, err := tr.RoundTrip(request(t, "PUT"))
			assert.ErrorIs(t, err, tt.want)
			assert.Equal(t, [2]int{tt.prepare, len(tt.before)}, [2]int{calls, base.count()})
		})
	}
}
