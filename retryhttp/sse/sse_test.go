package sse_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/sse"
)

type set = func(*sse.Stream)

func lossy(s *sse.Stream) { s.Lossy = true }

func lastIs(data string) set {
	return func(s *sse.Stream) { s.Last = func(e sse.Event) bool { return string(e.Data) == data } }
}

func limit(n int) set { return func(s *sse.Stream) { s.Limit = n } }

func policy(p retry.Policy) set { return func(s *sse.Stream) { s.Policy = p } }

func transport(edit func(*retryhttp.Transport)) set {
	return func(s *sse.Stream) { edit(s.Client.Transport.(*retryhttp.Transport)) }
}

func resume(s *sse.Stream) {
	s.Resume = func(ctx context.Context, last sse.Event) (*http.Request, error) {
		body := strings.NewReader(string(last.Data))
		return http.NewRequestWithContext(ctx, "POST", "http://example.test/more", body)
	}
}

// The function `continues` sets a Resume whose GET has a Last-Event-ID of its own.
func continues(s *sse.Stream) {
	s.Resume = func(ctx context.Context, last sse.Event) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://example.test/more", nil)
		if err == nil {
			req.Header.Set("Last-Event-ID", "after "+string(last.Data))
		}
		return req, err
	}
}

// The rows list all ways in which a connection can end, and what the stream does then.
func TestStream(t *testing.T) {
	const a, b = "id: 1\ndata: a\n\n", "id: 2\ndata: b\n\n"
	const noID = "sse: the stream broke off and cannot go on, because its events have no ID: "
	ab := []string{"1 a", "2 b"}
	steep := retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: second}}
	for _, tt := range []struct {
		name    string
		method  string
		set     set
		answers []answer
		events  []string
		ids     []string // the Last-Event-ID of each request
		took    time.Duration
		err     string // a part of the error; "": there is no error
	}{
		// The stream goes on.
		{"a reset", "GET", nil, []answer{reset(a), reset(b), done}, ab, []string{"", "1", "2"}, 2 * second, ""},
		{"a stall", "GET", transport(func(tr *retryhttp.Transport) { tr.StallTimeout = 30 * second }),
			[]answer{{text: a, idle: -1}, stream(b), done}, ab, []string{"", "1", "2"}, 32 * second, ""},
		{"a stall before the first event", "GET", transport(func(tr *retryhttp.Transport) { tr.StallTimeout = 5 * second }),
			[]answer{{text: ":\n", idle: -1}, stream(a), done}, []string{"1 a"}, []string{"", "", "1"}, 7 * second, ""},
		{"a clean end after an ID", "GET", nil, []answer{stream(a), stream(b), done}, ab, []string{"", "1", "2"}, 2 * second, ""},
		{"a break before the first event", "GET", nil, []answer{reset(": hello\n\n"), reset(""), stream("data: a\n\n")},
			[]string{"a"}, []string{"", "", ""}, 2 * second, ""},
		{"breaks before the first event, too many", "GET", nil, []answer{reset("")}, nil, []string{"", "", ""}, 2 * second,
			"attempts exhausted after 3 attempts (2s waited): connection reset by peer"},
		{"clean ends after an ID, too many", "GET", nil, []answer{stream(a), stream(":\n")}, []string{"1 a"},
			[]string{"", "1", "1", "1"}, 3 * second, "attempts exhausted after 3 attempts (2s waited): unexpected EOF"},
		{"no connection", "GET", nil, []answer{reset(a), {failed: errReset}, stream(b), done}, ab, []string{"", "1", "1", "2"}, 3 * second, ""},
		{"progress begins the attempts anew", "GET", policy(steep), []answer{reset(a), reset(""), reset(""), reset(b), done}, ab,
			[]string{"", "1", "1", "1", "2"}, (1 + 1 + 2 + 1) * second, ""},

		// The stream is at its end.
		{"a clean end without IDs", "GET", nil, []answer{stream("data: a\n\n")}, []string{"a"}, []string{""}, 0, ""},
		{"a clean end without an event", "GET", nil, []answer{stream(":\n")}, nil, []string{""}, 0, ""},
		{"a 204", "GET", nil, []answer{done}, nil, []string{""}, 0, ""},
		{"Last returns true", "GET", lastIs("b"), []answer{stream(a + b + event(3, "c"))}, ab, []string{""}, 0, ""},
		{"a clean end of a POST with IDs", "POST", nil, []answer{stream(a)}, []string{"1 a"}, []string{"POST"}, 0, ""},

		// The stream cannot go on.
		{"a break without IDs", "GET", nil, []answer{reset("data: a\n\n")}, []string{"a"}, []string{""}, 0, noID + "connection reset by peer"},
		{"a break without IDs, Lossy", "GET", lossy, []answer{reset("data: a\n\n"), reset("data: a\n\n"), done},
			[]string{"a", "a"}, []string{"", "", ""}, 2 * second, ""},
		{"a clean end without IDs, Lossy", "GET", lossy, []answer{stream("data: a\n\n"), done}, []string{"a"}, []string{"", ""}, second, ""},
		{"a clean end of a POST without an event, Lossy", "POST", lossy, []answer{stream(":\n")}, nil, []string{"POST"}, 0, ""},
		{"a clean end with Resume, without IDs, Lossy", "POST", func(s *sse.Stream) { resume(s); lossy(s) }, []answer{stream("data: a\n\n")}, []string{"a"}, []string{"POST"}, 0, ""},
		{"a clean end before Last returns true", "GET", lastIs("b"), []answer{stream("data: a\n\n")}, []string{"a"}, []string{""}, 0, noID + "unexpected EOF"},
		{"a break of a POST", "POST", nil, []answer{reset(a)}, []string{"1 a"}, []string{"POST"}, 0,
			"because a POST needs a Resume: connection reset by peer"},
		{"a break of a POST, Lossy", "POST", lossy, []answer{reset(a)}, []string{"1 a"}, []string{"POST"}, 0, "a POST needs a Resume"},
		{"a break of a POST before its first event", "POST", nil, []answer{reset("")}, nil, []string{"POST"}, 0,
			"not retryable after 1 attempt (the server may have processed this POST"},
		{"the zero Policy", "GET", policy(retry.Policy{}), []answer{reset(a)}, []string{"1 a"}, []string{""}, 0,
			"no limit is set, so there is no retry): connection reset by peer"},
		{"a policy that is invalid", "GET", policy(retry.Policy{MaxAttempts: -5}), []answer{reset(a)}, []string{"1 a"}, []string{""}, 0, "MaxAttempts is -5"},
		{"RetryIf rejects the error", "GET", policy(retry.Policy{MaxAttempts: 3, RetryIf: func(err error) bool { return err != errReset }}),
			[]answer{reset(a)}, []string{"1 a"}, []string{""}, 0, "rejected by RetryIf after 1 attempt: connection reset by peer"},
		{"Check returns a permanent error", "GET", transport(func(tr *retryhttp.Transport) {
			tr.Check = func(req *http.Request, resp *http.Response, err error) error {
				if err != nil {
					return retry.Permanent(err)
				}
				return nil
			}
		}), []answer{reset(a)}, []string{"1 a"}, []string{""}, 0, "permanent error after 1 attempt: connection reset by peer"},

		// The stream starts with a POST.
		{"a POST with Resume", "POST", resume, []answer{reset("data: a\n\n"), reset("data: b\n\n"), done},
			[]string{"a", "b"}, []string{"POST", "POST", "POST"}, 2 * second, ""},
		{"a clean end with Resume, without IDs", "POST", resume, []answer{stream("data: a\n\n")}, []string{"a"}, []string{"POST"}, 0, ""},
		{"a POST with a key before its first event", "POST", func(s *sse.Stream) {
			s.Client.Transport.(*retryhttp.Transport).Idempotent = func(*http.Request) bool { return true }
		}, []answer{reset(""), status(503), stream("data: a\n\n")}, []string{"a"}, []string{"POST", "POST", "POST"}, 2 * second, ""},
		{"a Resume whose POST breaks before an event", "POST", resume, []answer{reset("data: a\n\n"), reset("")}, []string{"a"},
			[]string{"POST", "POST"}, second, "not retryable after 1 attempt (the server may have processed this POST"},
		{"a Resume that fails", "GET", func(s *sse.Stream) {
			s.Resume = func(context.Context, sse.Event) (*http.Request, error) { return nil, errors.New("boom") }
		}, []answer{reset(a)}, []string{"1 a"}, []string{""}, second, "because Resume failed: boom"},
		{"a Resume that returns nothing", "GET", func(s *sse.Stream) {
			s.Resume = func(context.Context, sse.Event) (*http.Request, error) { return nil, nil }
		}, []answer{reset(a)}, []string{"1 a"}, []string{""}, second, "because Resume failed: neither a request nor an error was returned"},

		{"a Resume with a Last-Event-ID of its own", "POST", continues, []answer{reset("data: a\n\n"), reset("data: b\n\n"), done},
			[]string{"a", "b"}, []string{"POST", "after a", "after b"}, 2 * second, ""},
		{"a Resume with a Last-Event-ID of its own, and IDs", "POST", continues, []answer{reset(a), reset(b), done},
			ab, []string{"POST", "1", "2"}, 2 * second, ""},

		// Events have unusual IDs, or none.
		{"an ID that an empty ID resets", "GET", nil, []answer{reset(a + "id\ndata: b\n\n")}, []string{"1 a", "b"}, []string{""}, 0, noID},
		{"an ID that an empty ID resets, and a clean end", "GET", nil, []answer{stream(a + "id:\n\n")}, []string{"1 a"}, []string{""}, 0, ""},
		{"an ID with a control character", "GET", nil, []answer{reset(a + "id: 2\x01\ndata: b\n\n")}, []string{"1 a", "b"}, []string{""}, 0, noID},
		{"an ID with a DEL", "GET", nil, []answer{reset(a + "id: 2\x7f\ndata: b\n\n")}, []string{"1 a", "b"}, []string{""}, 0, noID},
		{"an ID with a tab", "GET", nil, []answer{reset("id: 2\t3\n\n"), done}, nil, []string{"", "2\t3"}, second, ""},
		{"an ID with a NUL is ignored", "GET", nil, []answer{reset(a + "id: 2\x00\ndata: b\n\n"), done}, []string{"1 a", "1 b"}, []string{"", "1"}, second, ""},
		{"an ID of 8 KiB", "GET", nil, []answer{reset(event(long(8<<10), "a")), done}, []string{long(8<<10) + " a"}, []string{"", long(8 << 10)}, second, ""},
		{"an ID above 8 KiB", "GET", nil, []answer{reset(event(long(8<<10+1), "a"))}, []string{"a"}, []string{""}, 0, noID},
		{"an ID without data", "GET", nil, []answer{reset(a + "id: 5\n\n"), done}, []string{"1 a"}, []string{"", "5"}, second, ""},
		{"IDs without data, over connections without events", "GET", nil, []answer{reset("id: 1\n\n"), reset("id: 2\n\n"), reset("id: 3\n\n"), reset("id: 4\n\n"), done},
			nil, []string{"", "1", "2", "3", "4"}, 4 * second, ""},
		{"events without an ID among others", "GET", nil, []answer{reset(a + "data: x\n\ndata: y\n\n"), reset("data: x\n\ndata: y\n\ndata: z\n\n" + b), done},
			[]string{"1 a", "1 x", "1 y", "1 z", "2 b"}, []string{"", "1", "2"}, 2 * second, ""},

		// An event is cut off.
		{"half an event", "GET", nil, []answer{reset(a + "id: 2\ndata: b\n"), stream(b), done}, ab, []string{"", "1", "2"}, 2 * second, ""},
		{"half an event at a clean end", "GET", nil, []answer{stream("data: a\n\ndata: b")}, []string{"a"}, []string{""}, 0, ""},

		// Events are repeated.
		{"the last event again", "GET", nil, []answer{reset(a), reset(a + b), reset(b), done}, ab, []string{"", "1", "2", "2"}, 3 * second, ""},
		{"all events again, for ever", "GET", nil, []answer{reset(a + b)}, ab, []string{"", "2", "2", "2"}, 3 * second, "attempts exhausted after 3 attempts"},
		{"IDs without data again, for ever", "GET", nil, []answer{reset("id: 1\n\nid: 2\n\n")}, nil, []string{"", "2", "2", "2"}, 3 * second, "attempts exhausted"},
		{"events are skipped until the first new event", "GET", nil, []answer{reset(a + b), stream(a + event(3, "c") + b), done},
			[]string{"1 a", "2 b", "3 c", "2 b"}, []string{"", "2", "2"}, 2 * second, ""},
		{"the same event twice in a connection", "GET", nil, []answer{stream(a + a), done}, []string{"1 a", "1 a"}, []string{"", "1"}, second, ""},
		{"a server that counts from 1 again", "GET", nil, []answer{reset(a + b), stream(event(1, "c") + event(2, "d")), done},
			[]string{"1 a", "2 b", "1 c", "2 d"}, []string{"", "2", "2"}, 2 * second, ""},
		{"the same ID and data with another name", "GET", nil, []answer{reset(a), stream("event: x\n" + a), done}, []string{"1 a", "1 x a"}, []string{"", "1", "1"}, 2 * second, ""},

		// The server asks for a wait.
		{"retry is longer than the delay", "GET", nil, []answer{reset("retry: 7000\n" + a), done}, []string{"1 a"}, []string{"", "1"}, 7 * second, ""},
		{"retry is shorter than the delay", "GET", nil, []answer{reset("retry: 7\n" + a), done}, []string{"1 a"}, []string{"", "1"}, second, ""},
		{"retry before the first event", "GET", nil, []answer{reset("retry: 7000\n"), done}, nil, []string{"", ""}, 7 * second, ""},
		{"retry holds for later failures", "GET", nil, []answer{reset("retry: 7000\n" + a), status(503), done}, []string{"1 a"}, []string{"", "1", "1"}, 14 * second, ""},
		{"retry holds for later connections", "GET", nil, []answer{reset("retry: 7000\n" + a), reset(b), done}, ab, []string{"", "1", "2"}, 14 * second, ""},
		{"Retry-After is longer than retry", "GET", nil, []answer{reset("retry: 7000\n" + a), status(503, "Retry-After", "9"), done},
			[]string{"1 a"}, []string{"", "1", "1"}, 16 * second, ""},
		{"an invalid retry is ignored", "GET", nil, []answer{reset("retry: 7000\nretry: 1e3\nretry:\nretry: -1\nretry: 9s\n" + a), done}, []string{"1 a"}, []string{"", "1"}, 7 * second, ""},
		{"a retry above MaxRetryAfter", "GET", nil, []answer{reset("retry: 99999999999999999999999999\n" + a)}, []string{"1 a"}, []string{""}, 0,
			"gave up after 1 attempt (Retry-After is 8760h0m0s, MaxRetryAfter is 1m0s)"},

		// A response is not a stream.
		{"a 429", "GET", nil, []answer{reset(a), status(429, "Retry-After", "3"), done}, []string{"1 a"}, []string{"", "1", "1"}, 4 * second, ""},
		{"503s", "GET", nil, []answer{status(503), status(503), stream(a), done}, []string{"1 a"}, []string{"", "", "", "1"}, 3 * second, ""},
		{"503s, too many", "GET", nil, []answer{reset(a), status(503)}, []string{"1 a"}, []string{"", "1", "1", "1"}, 3 * second,
			"attempts exhausted after 3 attempts (2s waited): retryhttp: GET http://example.test/events: 503"},
		{"a 404", "GET", nil, []answer{reset(a), status(404)}, []string{"1 a"}, []string{"", "1"}, second, "404 Not Found"},
		{"a 206", "GET", nil, []answer{status(206)}, nil, []string{""}, 0, "sse: http://example.test/events: the status is 206, not 200"},
		{"another type", "GET", nil, []answer{{text: "hello", header: []string{"Content-Type", "text/html; charset=utf-8"}}}, nil, []string{""}, 0,
			`the Content-Type is "text/html", not text/event-stream`},
		{"another encoding", "GET", nil, []answer{{text: "hello", header: []string{"Content-Encoding", "zstd"}}}, nil, []string{""}, 0,
			`the Content-Encoding is "zstd", and nothing decodes it`},
		{"none", "GET", nil, []answer{{text: a, header: []string{"Content-Encoding", "None"}}, done}, []string{"1 a"}, []string{"", "1"}, second, ""},
		{"identity", "GET", nil, []answer{{text: a, header: []string{"Content-Encoding", "Identity"}}, done}, []string{"1 a"}, []string{"", "1"}, second, ""},

		// An event is as long as Limit, or longer.
		{"an event as long as Limit", "GET", limit(10), []answer{stream("data: 12345\ndata: 7890\n\n")}, []string{"12345 7890"}, []string{""}, 0, ""},
		{"an event above Limit", "GET", limit(10), []answer{stream(a + "data: 12345\ndata: 78901\n\n")}, []string{"1 a"}, []string{""}, 0,
			"sse: the event is longer than the limit of 10 bytes"},
		{"a first event above Limit", "GET", limit(10), []answer{stream("data: 12345678901\n\n")}, nil, []string{""}, 0, "longer than the limit of 10 bytes"},
		{"a name above Limit", "GET", limit(10), []answer{stream("event: 12345678901\ndata\n\n")}, nil, []string{""}, 0, "longer than the limit of 10 bytes"},
		{"a long comment does not count", "GET", limit(10), []answer{stream(":" + long(100<<10) + "\ndata: a\n\n")}, []string{"a"}, []string{""}, 0, ""},
		{"a long unknown field does not count", "GET", limit(10), []answer{stream("datum: " + long(100<<10) + "\ndata: a\n\n")}, []string{"a"}, []string{""}, 0, ""},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			server := &script{answers: tt.answers}
			s := &sse.Stream{Client: over(server), Policy: patient}
			if tt.set != nil {
				tt.set(s)
			}
			began := time.Now()
			events, err := collect(s.Events(request(t, tt.method)))
			assert.Equal(t, tt.events, events)
			assert.Equal(t, tt.ids, server.ids())
			assert.Equal(t, tt.took, time.Since(began))
			assert.Zero(t, server.open, "all bodies are closed")
			if tt.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.err)
			}
		})
	}
}

// The user and the query of a URL may be secret, so the error for a response that is not a stream
// names neither.
func TestErrorHidesSecretsOfTheURL(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		req := request(t, "GET")
		req.URL.User, req.URL.RawQuery = url.UserPassword("someone", "secret"), "access_token=secret"
		_, err := collect((&sse.Stream{Client: over(&script{answers: []answer{status(206)}}), Policy: patient}).Events(req))
		require.EqualError(t, err, "sse: http://example.test/events: the status is 206, not 200")
	})
}

// A stream starts after the ID in the request's header Last-Event-ID. Another process may have
// stored this ID.
func TestBeginsAfterAnID(t *testing.T) {
	for _, tt := range []struct {
		name    string
		set     set
		answers []answer
		events  []string
		ids     []string
	}{
		{"with an event", nil, []answer{reset(event(8, "a")), done}, []string{"8 a"}, []string{"7", "8"}},
		{"there is no new event yet", nil, []answer{stream(":\n"), done}, nil, []string{"7", "7"}},
		{"an event without an ID", nil, []answer{reset("data: a\n\n"), done}, []string{"7 a"}, []string{"7", "7"}},
		{"a 503", nil, []answer{status(503), stream(event(8, "a")), done}, []string{"8 a"}, []string{"7", "7", "8"}},
		{"an ID with spaces at its ends, which HTTP/2 does not allow", nil, []answer{reset("id:  8\t \ndata: a\n\n"), done}, []string{"8 a"}, []string{"7", "8"}},
		{"an empty ID resets it", lossy, []answer{reset("id\ndata: b\n\n"), done}, []string{"b"}, []string{"7", ""}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			server, req := &script{answers: tt.answers}, request(t, "GET")
			req.Header.Set("Last-Event-ID", "7")
			s := &sse.Stream{Client: over(server), Policy: patient}
			if tt.set != nil {
				tt.set(s)
			}
			events, err := collect(s.Events(req))
			require.NoError(t, err)
			assert.Equal(t, tt.events, events)
			assert.Equal(t, tt.ids, server.ids())
			assert.Equal(t, "7", req.Header.Get("Last-Event-ID"), "the caller's request is unchanged")
		})
	}
	for _, name := range []string{"Last-Event-ID", "last-event-id"} { // the canonical form is Last-Event-Id
		bubble(t, "the header is written as "+name, func(t *testing.T) {
			server, req := &script{answers: []answer{reset(event(8, "a")), done}}, request(t, "GET")
			req.Header[name] = []string{"7"}
			_, err := collect((&sse.Stream{Client: over(server), Policy: patient}).Events(req))
			require.NoError(t, err)
			assert.Equal(t, []string{"7", "8"}, server.ids())
			assert.NotContains(t, server.sent[1].Header, name)
		})
	}
	bubble(t, "an empty header in another spelling does not erase the ID", func(t *testing.T) {
		for range 20 { // the order of a map is random
			server, req := &script{answers: []answer{done}}, request(t, "GET")
			req.Header.Set("Last-Event-ID", "7")
			req.Header["last-event-id"] = []string{""}
			_, err := collect((&sse.Stream{Client: over(server)}).Events(req))
			require.NoError(t, err)
			assert.Equal(t, []string{"7"}, server.ids())
		}
	})
	bubble(t, "an empty header is not sent", func(t *testing.T) {
		server, req := &script{answers: []answer{done}}, request(t, "GET")
		req.Header.Set("Last-Event-ID", "")
		_, err := collect((&sse.Stream{Client: over(server)}).Events(req))
		require.NoError(t, err)
		assert.Empty(t, server.sent[0].Header.Values("Last-Event-ID"))
	})
}

// An event that is repeated is skipped if it is one of the last 1,000 events. An older event is not
// skipped.
func TestRemembersTheLast1000(t *testing.T) {
	var text strings.Builder
	for n := range 1001 {
		text.WriteString(event(n, "a"))
	}
	for _, tt := range []struct {
		name   string
		again  string
		events []string // the events after the first 1,001
	}{
		{"the last 1,000", event(1, "a") + event(2, "a") + event(1000, "a") + event(1001, "b"), []string{"1001 b"}},
		{"the event before the last 1,000", event(0, "a"), []string{"0 a"}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			server := &script{answers: []answer{reset(text.String()), stream(tt.again), done}}
			events, err := collect((&sse.Stream{Client: over(server), Policy: patient}).Events(request(t, "GET")))
			require.NoError(t, err)
			assert.Equal(t, tt.events, events[1001:])
		})
	}
}

// The bytes of a comment count for StallTimeout. So a server that sends comments in time may send
// no event for hours.
func TestCommentsKeepAConnection(t *testing.T) {
	for name, tt := range map[string]struct {
		every time.Duration
		sent  int
	}{
		"in time":  {20 * second, 2},
		"too late": {40 * second, 3},
	} {
		bubble(t, name, func(t *testing.T) {
			sent := 0
			client := over(roundTrip(func(req *http.Request) (*http.Response, error) {
				if sent++; sent == tt.sent {
					return (&script{answers: []answer{done}}).RoundTrip(req)
				}
				lines := 0
				body := readFunc(func(p []byte) (int, error) {
					select {
					case <-time.After(tt.every):
					case <-req.Context().Done():
						return 0, req.Context().Err()
					}
					if lines++; lines > 180 {
						return copy(p, event(1, "a")), io.EOF
					}
					return copy(p, ":\n"), nil
				})
				header := http.Header{"Content-Type": {"text/event-stream"}}
				return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(body), ContentLength: -1, Request: req}, nil
			}))
			client.Transport.(*retryhttp.Transport).StallTimeout = 30 * second
			events, err := collect((&sse.Stream{Client: client, Policy: patient}).Events(request(t, "GET")))
			require.NoError(t, err)
			assert.Equal(t, tt.sent == 2, len(events) == 1)
			assert.Equal(t, tt.sent, sent)
		})
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func long(n int) string { return strings.Repeat("x", n) }

// If a stream has broken off and cannot go on, its error also says why the connection before ended.
func TestErrorAfterAConnectionThatBroke(t *testing.T) {
	const a, b = "id: 1\ndata: a\n\n", "id: 2\ndata: b\n\n"
	refused := answer{failed: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}}
	for _, tt := range []struct {
		name    string
		method  string
		answers []answer
		before  string // the text of Before; "": Before is nil
	}{
		{"no connection before", "GET", []answer{status(404)}, ""},
		{"a reset", "GET", []answer{reset(a), status(404)}, errReset.Error()},
		{"a reset of a POST", "POST", []answer{reset(a), status(422)}, errReset.Error()},
		{"a regular end", "GET", []answer{stream(a), status(404)}, "unexpected EOF"},
		{"two connections", "GET", []answer{reset(a), stream(b), status(404)}, "unexpected EOF"},
		{"no connection again", "GET", []answer{reset(a), refused}, errReset.Error()},
		{"a lost answer after it", "GET", []answer{reset(a), status(503), status(404)}, "503 Service Unavailable"},
		{"a reset before the first event", "GET", []answer{reset(""), status(404)}, errReset.Error()},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := &sse.Stream{Client: over(&script{answers: tt.answers}), Policy: patient}
			if tt.method == "POST" {
				resume(s)
			}
			_, err := collect(s.Events(request(t, tt.method)))
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			if tt.before == "" {
				assert.NoError(t, e.Before)
			} else {
				assert.ErrorContains(t, e.Before, tt.before)
			}
		})
	}
}

// A caller can distinguish these errors of a stream.
func TestErrors(t *testing.T) {
	read := func(answers ...answer) error {
		s := &sse.Stream{Client: over(&script{answers: answers}), Policy: patient, Limit: 10}
		_, err := collect(s.Events(request(t, "GET")))
		return err
	}
	var broken *sse.BrokenError
	require.ErrorAs(t, read(reset("data: a\n\n")), &broken)
	assert.Equal(t, sse.BrokenError{Why: "its events have no ID", Err: errReset}, *broken)
	require.ErrorIs(t, broken, errReset)
	require.ErrorIs(t, read(stream("data: 12345678901\n\n")), sse.ErrTooLong)
	require.ErrorIs(t, read(stream(event(1, "a")+"data: 12345678901\n\n")), sse.ErrTooLong)

	refused := read(status(404))
	var code *retryhttp.StatusError
	require.ErrorAs(t, refused, &code)
	assert.Equal(t, 404, code.StatusCode)
	assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(refused))

	for _, text := range []string{"", event(1, "a")} {
		s := &sse.Stream{Policy: patient, Client: over(roundTrip(func(*http.Request) (*http.Response, error) {
			body := io.NopCloser(io.MultiReader(strings.NewReader(text), &failing{(*net.OpError)(nil)}))
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
		}))}
		_, err := collect(s.Events(request(t, "GET")))
		assert.ErrorContains(t, err, "sse: error of type *net.OpError panicked: runtime error: invalid memory address")
	}

	_, err := collect(sse.Read(io.MultiReader(strings.NewReader("data: 1"), &failing{errReset}), 0))
	require.ErrorIs(t, err, errReset)
	_, err = collect(sse.Read(strings.NewReader("data: 12345678901\n\n"), 10))
	require.ErrorIs(t, err, sse.ErrTooLong)
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }
