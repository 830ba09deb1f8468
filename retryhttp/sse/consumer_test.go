package sse_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/sse"
)

// If the loop over the events stops early or panics, no body stays open. A slow loop does not break
// the stream, and may keep the data of its events.
func TestConsumer(t *testing.T) {
	three := answer{text: event(1, "a") + event(2, "b") + event(3, "c"), idle: -1}
	for _, first := range []answer{three, reset(event(0, "x"))} {
		bubble(t, "stops in the middle", func(t *testing.T) {
			server := &script{answers: []answer{first, three}}
			s := &sse.Stream{Client: over(server), Policy: patient}
			for e, err := range s.Events(request(t, "GET")) {
				require.NoError(t, err)
				if e.ID == "2" {
					break
				}
			}
			assert.Zero(t, server.open)
		})
		bubble(t, "panics", func(t *testing.T) {
			server := &script{answers: []answer{first, three}}
			s := &sse.Stream{Client: over(server), Policy: patient}
			assert.PanicsWithValue(t, "boom", func() {
				for e := range s.Events(request(t, "GET")) {
					if e.ID == "2" {
						panic("boom")
					}
				}
			})
			assert.Zero(t, server.open)
		})
	}
	bubble(t, "Last panics", func(t *testing.T) {
		server := &script{answers: []answer{three}}
		s := &sse.Stream{Client: over(server), Last: func(sse.Event) bool { panic("boom") }}
		assert.PanicsWithValue(t, "boom", func() { _, _ = collect(s.Events(request(t, "GET"))) })
		assert.Zero(t, server.open)
	})
	bubble(t, "is slower than StallTimeout", func(t *testing.T) {
		server := &script{answers: []answer{stream(event(1, "a") + event(2, "b")), done}}
		client := over(server)
		client.Transport.(*retryhttp.Transport).StallTimeout = 5 * second
		s := &sse.Stream{Client: client, Policy: patient}
		for _, err := range s.Events(request(t, "GET")) {
			require.NoError(t, err)
			time.Sleep(time.Minute)
		}
		assert.Equal(t, []string{"", "2"}, server.ids())
	})
	bubble(t, "keeps the data", func(t *testing.T) {
		s := &sse.Stream{Client: over(&script{answers: []answer{stream("data: a\n\ndata: b\n\n")}})}
		var kept [][]byte
		for e, err := range s.Events(request(t, "GET")) {
			require.NoError(t, err)
			kept = append(kept, e.Data)
		}
		assert.Equal(t, [][]byte{[]byte("a"), []byte("b")}, kept)
	})
}

// The context of the request ends the stream, whatever the stream is doing at that time.
func TestContext(t *testing.T) {
	cause := errors.New("enough")
	for name, answers := range map[string][]answer{
		"while it reads":                   {{text: event(1, "a"), idle: -1}},
		"while it reads, without IDs":      {{text: "data: a\n\n", idle: -1}},
		"before the first event":           {{text: ":\n", idle: -1}},
		"before the headers":               {{before: time.Hour, text: "data: a\n\n"}},
		"in the wait after a break":        {reset("retry: 50000\n" + event(1, "a"))},
		"in a wait before the first event": {status(503, "Retry-After", "50")},
		"while Resume runs":                {reset(event(1, "a"))},
	} {
		bubble(t, name, func(t *testing.T) {
			server := &script{answers: answers}
			s := &sse.Stream{Client: over(server), Policy: patient}
			if name == "while Resume runs" {
				s.Resume = func(ctx context.Context, _ sse.Event) (*http.Request, error) {
					<-ctx.Done()
					return nil, fmt.Errorf("no token: %w", ctx.Err())
				}
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(5*second, func() { cancel(cause) })
			began := time.Now()
			_, err := collect(s.Events(request(t, "GET").WithContext(ctx)))
			require.ErrorIs(t, err, cause)
			if name == "while Resume runs" {
				require.EqualError(t, err, "sse: enough (Resume failed: no token: context canceled)")
			}
			assert.Equal(t, 5*second, time.Since(began))
			assert.Len(t, server.sent, 1)
			assert.Zero(t, server.open)
		})
	}
	bubble(t, "a deadline before the end of the wait", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*second)
		defer cancel()
		s := &sse.Stream{Client: over(&script{answers: []answer{reset("retry: 50000\n" + event(1, "a"))}}), Policy: patient}
		began := time.Now()
		_, err := collect(s.Events(request(t, "GET").WithContext(ctx)))
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		require.ErrorIs(t, err, errReset)
		assert.Zero(t, time.Since(began))
	})
}

// A Timeout of the client ends a connection with progress, and a stream that waits for progress.
func TestTimeoutOfTheClient(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers []answer
		events  []string
		took    time.Duration
		err     string
	}{
		{"after progress", []answer{{text: event(1, "a"), idle: -1}, stream(event(2, "b")), done}, []string{"1 a", "2 b"}, 22 * second, ""},
		{"before progress", []answer{{text: event(1, "a"), idle: -1}, {text: ":\n", idle: -1}}, []string{"1 a"}, 41 * second, "deadline exceeded"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			server := &script{answers: tt.answers}
			client := over(server)
			client.Timeout = 20 * second
			s := &sse.Stream{Client: client, Policy: patient}
			began := time.Now()
			events, err := collect(s.Events(request(t, "GET")))
			assert.Equal(t, tt.events, events)
			assert.Equal(t, tt.took, time.Since(began))
			assert.Zero(t, server.open)
			if tt.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.err)
			}
		})
	}
}

// A Budget of the context also limits the reconnections of a stream.
func TestBudgetOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &script{answers: []answer{reset(event(1, "a")), reset(event(2, "b")), done}}
		s := &sse.Stream{Client: over(server), Policy: patient}
		ctx := retry.WithBudget(t.Context(), &retry.Budget{Size: 1})
		events, err := collect(s.Events(request(t, "GET").WithContext(ctx)))
		assert.Equal(t, []string{"1 a", "2 b"}, events)
		assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(err))
	})
}

// Each connection is first sent to the URL of the request, even if the server has redirected an
// earlier connection. The test request-redirect of web-platform-tests expects this.
func TestRedirects(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		bubble(t, http.StatusText(code), func(t *testing.T) {
			to := &script{answers: []answer{reset(event(1, "a")), stream(event(2, "b")), done}}
			asked := 0
			client := over(roundTrip(func(req *http.Request) (*http.Response, error) {
				if req.URL.Path == "/events" {
					asked++
					header := http.Header{"Location": {"/moved"}}
					return &http.Response{StatusCode: code, Header: header, Body: http.NoBody, Request: req}, nil
				}
				return to.RoundTrip(req)
			}))
			events, err := collect((&sse.Stream{Client: client, Policy: patient}).Events(request(t, "GET")))
			require.NoError(t, err)
			assert.Equal(t, []string{"1 a", "2 b"}, events)
			assert.Equal(t, []string{"", "1", "2"}, to.ids())
			assert.Equal(t, 3, asked)
		})
	}
}

// A server that resets the ID forgets where the stream was. Then the Last-Event-ID with which the
// program began must not come back in a request that Resume has copied from the first one.
func TestResumeThatCopiesAnOldID(t *testing.T) {
	for _, first := range []string{"id\ndata: a\n\n", "id: 1\x01\ndata: a\n\n"} {
		bubble(t, first, func(t *testing.T) {
			server := &script{answers: []answer{reset(first), status(204)}}
			req := request(t, "GET")
			req.Header.Set("Last-Event-ID", "old")
			s := &sse.Stream{Client: over(server), Policy: patient}
			s.Resume = func(ctx context.Context, _ sse.Event) (*http.Request, error) { return req.Clone(ctx), nil }
			_, err := collect(s.Events(req))
			require.NoError(t, err)
			assert.Equal(t, []string{"old", ""}, server.ids())
		})
	}
}
