package retryhttp_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func TestPrepare(t *testing.T) {
	boom := errors.New("boom")
	var attempts []int
	var lasts []error
	var sent []string
	base := script(503, boom, 200)
	asked := 0
	tr := &retryhttp.Transport{
		Policy:     retry.Policy{MaxAttempts: 3},
		Idempotent: func(*http.Request) bool { asked++; return true },
		Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			text, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			sent = append(sent, req.URL.Host+" "+req.Header.Get("X-Signature")+" "+string(text))
			return base.RoundTrip(req)
		}),
		Prepare: func(req *http.Request, attempt int, last error) error {
			attempts, lasts = append(attempts, attempt), append(lasts, last)
			assert.Equal(t, attempt, retryhttp.AttemptOf(req.Context()))
			assert.NoError(t, req.Context().Err())
			for _, before := range base.sent {
				assert.Error(t, before.Context().Err(), "an attempt that is over, after a response or an error")
			}
			assert.Empty(t, req.Header.Get("X-Signature"), "each attempt begins with the caller's request")
			req.Header.Set("X-Signature", strings.Repeat("s", attempt))
			req.URL.Host = "replica.test"
			return nil
		},
	}
	req := request(t, "PUT")
	rewindable(req, "data")
	send(t, tr, req)
	assert.Equal(t, []int{1, 2, 3}, attempts)
	assert.Equal(t, 1, asked, "whether it may be sent again, before the first")
	assert.Equal(t, []string{"replica.test s data", "replica.test ss data", "replica.test sss data"}, sent)
	require.Len(t, lasts, 3)
	assert.NoError(t, lasts[0])
	var status *retryhttp.StatusError
	require.ErrorAs(t, lasts[1], &status)
	assert.Equal(t, 503, status.StatusCode)
	assert.Equal(t, boom, lasts[2])
	assert.Empty(t, req.Header)
	assert.Equal(t, "example.test", req.URL.Host)
}

// An error of Prepare ends the call: nothing is sent, Check is not called, and
// the body is closed.
func TestPrepareStops(t *testing.T) {
	boom := errors.New("no such key")
	for _, tt := range []struct {
		name string
		at   int // the attempt that Prepare stops
		err  error
		text string
	}{
		{"the first", 1, boom, "after 1 attempt: retryhttp: Prepare: no such key"},
		{"the second", 2, boom,
			"after 2 attempts: retryhttp: Prepare: no such key (the attempt before: retryhttp: PUT http://example.test/: 503 Service Unavailable)"},
		{"an After has no effect", 1, retry.After(time.Second, boom), "after 1 attempt: retryhttp: Prepare: no such key"},
		{"an error that panics", 1, panicker{"Unwrap"}, "after 1 attempt: retryhttp: error of type *fmt.wrapError panicked: bug in Unwrap"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var bodies []*body
			base := script(503)
			checked := 0
			tr := &retryhttp.Transport{
				Base: base, Policy: retry.Policy{MaxAttempts: 5},
				Prepare: func(_ *http.Request, attempt int, _ error) error {
					if attempt == tt.at {
						return tt.err
					}
					return nil
				},
				Check: func(req *http.Request, resp *http.Response, err error) error {
					checked++
					return retryhttp.Check(req, resp, err)
				},
			}
			req := request(t, "PUT")
			open := func() (io.ReadCloser, error) {
				bodies = append(bodies, &body{Reader: strings.NewReader("data")})
				return bodies[len(bodies)-1], nil
			}
			req.Body, _ = open()
			req.GetBody = open
			_, err := tr.RoundTrip(req)
			assert.EqualError(t, err, "retry: permanent error "+tt.text)
			assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
			assert.Len(t, base.sent, tt.at-1)
			assert.Equal(t, tt.at-1, checked)
			require.Len(t, bodies, tt.at)
			for _, b := range bodies {
				assert.True(t, b.closed)
			}
		})
	}
}

// A body that Prepare replaces is closed once: after the new one, which may read
// from it, or at once if there is no new one or Prepare fails.
func TestPrepareReplacesTheBody(t *testing.T) {
	boom := errors.New("boom")
	sets := func(err error) func(*http.Request, func(string)) error {
		return func(req *http.Request, log func(string)) error {
			req.Body = funcs{strings.NewReader("new").Read, func() error { log("new"); return nil }}
			return err
		}
	}
	for _, tt := range []struct {
		name    string
		prepare func(req *http.Request, log func(string)) error
		sent    string // "": not sent
		log     []string
	}{
		{"it does not", func(*http.Request, func(string)) error { return nil }, "data", []string{"old"}},
		{"it fails", func(*http.Request, func(string)) error { return boom }, "", []string{"old"}},
		{"by another", sets(nil), "new", []string{"new", "old"}},
		{"by another, and fails", sets(boom), "", []string{"new", "old"}},
		{"by another, and closes it", func(req *http.Request, log func(string)) error {
			log("closed")
			assert.NoError(t, req.Body.Close())
			return sets(nil)(req, log)
		}, "new", []string{"closed", "old", "new"}},
		{"by one that reads from it and closes it", func(req *http.Request, log func(string)) error {
			old := req.Body
			req.Body = funcs{old.Read, func() error { log("new"); return old.Close() }}
			return nil
		}, "data", []string{"new", "old"}},
		{"by one that reads from it", func(req *http.Request, log func(string)) error {
			req.Body = funcs{req.Body.Read, func() error { log("new"); return nil }}
			return nil
		}, "data", []string{"new", "old"}},
		{"by one whose Close panics", func(req *http.Request, log func(string)) error {
			req.Body = funcs{strings.NewReader("new").Read, func() error { log("new"); panic(boom) }}
			return nil
		}, "new", []string{"new", "old"}},
		{"by none", func(req *http.Request, _ func(string)) error { req.Body = nil; return nil }, "", []string{"old"}},
		{"by NoBody", func(req *http.Request, _ func(string)) error { req.Body = http.NoBody; return nil }, "", []string{"old"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log []string
			var sent *http.Request
			req := request(t, "PUT")
			old := &body{Reader: strings.NewReader("data"), onClose: func() { log = append(log, "old") }}
			req.Body = old
			tr := &retryhttp.Transport{
				Base: roundTrip(func(r *http.Request) (*http.Response, error) {
					sent = r
					if r.Body != nil {
						text, err := io.ReadAll(r.Body)
						require.NoError(t, err)
						assert.Equal(t, tt.sent, string(text))
					}
					return response(200), nil
				}),
				Prepare: func(req *http.Request, _ int, _ error) error {
					return tt.prepare(req, func(text string) { log = append(log, text) })
				},
			}
			func() {
				defer func() { _ = recover() }()
				_, _ = tr.RoundTrip(req)
			}()
			assert.Equal(t, tt.log, log)
			if tt.name == "it does not" {
				assert.Same(t, old, sent.Body, "it stays what it is")
			}
		})
	}

	// Without a body there is nothing to close.
	base := script(200)
	send(t, &retryhttp.Transport{Base: base, Prepare: func(req *http.Request, _ int, _ error) error {
		assert.Nil(t, req.Body)
		req.Body = io.NopCloser(strings.NewReader("new"))
		return nil
	}}, request(t, "PUT"))
	assert.Equal(t, io.NopCloser(strings.NewReader("new")), base.sent[0].Body)
}

// The AttemptTimeout covers Prepare, which may have to fetch a token. If it
// ends there, the attempt has failed and may be retried, because nothing was
// sent.
func TestPrepareThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(200)
		tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second}}
		tr.Prepare = func(req *http.Request, attempt int, last error) error {
			if attempt == 1 {
				<-req.Context().Done()
				return req.Context().Err()
			}
			assert.True(t, os.IsTimeout(last))
			return nil
		}
		assert.Equal(t, 200, send(t, tr, request(t, "POST")).StatusCode)
		assert.Len(t, base.sent, 1)
	})
}

func TestReadyMadePrepare(t *testing.T) {
	limited := retry.Policy{MaxAttempts: 3}
	for _, tt := range []struct {
		name    string
		prepare func(*http.Request, int, error) error
		policy  retry.Policy
		edit    func(*http.Request)
		header  string
		want    []string
	}{
		{"AWS", retryhttp.PrepareAWS, limited, nil, "amz-sdk-request", []string{"attempt=1; max=3", "attempt=2; max=3", "attempt=3; max=3"}},
		{"AWS, without a limit", retryhttp.PrepareAWS, retry.Policy{MaxElapsed: time.Second, Backoff: retry.Fixed(time.Second)}, nil,
			"amz-sdk-request", []string{"attempt=1", "attempt=2"}},
		{"AWS, once", retryhttp.PrepareAWS, retry.Policy{}, nil, "amz-sdk-request", []string{"attempt=1; max=1"}},
		{"AWS, a body that can only be sent once", retryhttp.PrepareAWS, limited, func(req *http.Request) {
			req.Body = io.NopCloser(strings.NewReader("data"))
		}, "amz-sdk-request", []string{"attempt=1; max=1"}},
		{"Envoy", retryhttp.PrepareEnvoy, limited, nil, "x-envoy-attempt-count", []string{"1", "2", "3"}},
		{"no header, which http.Client never sends", retryhttp.PrepareEnvoy, limited, func(req *http.Request) { req.Header = nil },
			"x-envoy-attempt-count", []string{"1", "2", "3"}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := script(503)
			req := request(t, "PUT")
			if tt.edit != nil {
				tt.edit(req)
			}
			send(t, &retryhttp.Transport{Base: base, Policy: tt.policy, Prepare: tt.prepare}, req)
			var got []string
			for _, sent := range base.sent {
				got = append(got, sent.Header.Get(tt.header))
			}
			assert.Equal(t, tt.want, got)
			assert.Empty(t, req.Header)
		})
	}

	req := request(t, "GET")
	require.NoError(t, retryhttp.PrepareAWS(req, 2, nil))
	assert.Equal(t, "attempt=2", req.Header.Get("Amz-Sdk-Request"), "outside of a Transport")
}
