package sse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/sse"
)

var errReset = errors.New("connection reset by peer")

const second = time.Second

// bubble runs a subtest in virtual time. The subtest fails if a goroutine is left at its end.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// patient is a policy with two retries, each after a second.
var patient = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(second)}

// An answer is the answer on one connection. The zero answer is a 204.
type answer struct {
	status int      // 0: 200, if there is a text
	header []string // alternately names and values
	text   string
	err    error         // the error that ends the body; nil: the body ends with io.EOF
	before time.Duration // the time until the headers arrive
	idle   time.Duration // the time between the text and the end; negative: the body never ends
	failed error         // the error of a request without a response; nil: there is a response
}

func stream(text string) answer           { return answer{text: text} }
func reset(text string) answer            { return answer{text: text, err: errReset} }
func status(code int, h ...string) answer { return answer{status: code, header: h} }

var done = answer{}

// A script is a RoundTripper that gives one answer after the other, and repeats the last answer.
type script struct {
	answers []answer
	mu      sync.Mutex
	sent    []*http.Request
	at      []time.Time
	open    int // how many bodies are not closed
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	a := s.answers[min(len(s.sent), len(s.answers)-1)]
	s.sent, s.at = append(s.sent, req), append(s.at, time.Now())
	s.mu.Unlock()
	if req.Body != nil {
		_ = req.Body.Close()
	}
	select {
	case <-time.After(a.before):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	if a.failed != nil {
		return nil, a.failed
	}
	resp := &http.Response{StatusCode: a.status, Header: http.Header{}, ContentLength: -1, Request: req}
	if a.status == 0 && a.text == "" && a.err == nil && a.idle == 0 {
		resp.StatusCode = http.StatusNoContent
	} else if a.status == 0 {
		resp.StatusCode = http.StatusOK
	}
	resp.Header.Set("Content-Type", "text/event-stream")
	for i := 0; i < len(a.header); i += 2 {
		resp.Header.Set(a.header[i], a.header[i+1])
	}
	end := iotest.ErrReader(io.EOF)
	if a.err != nil {
		end = iotest.ErrReader(a.err)
	}
	body := io.MultiReader(strings.NewReader(a.text), &idle{req: req, d: a.idle}, end)
	s.mu.Lock()
	s.open++
	s.mu.Unlock()
	resp.Body = &closer{Reader: body, close: sync.OnceFunc(func() {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
	})}
	return resp, nil
}

// The type `idle` is a reader that waits, and then returns an error without a byte.
type idle struct {
	req *http.Request
	d   time.Duration
}

func (i *idle) Read([]byte) (int, error) {
	var over <-chan time.Time
	if i.d >= 0 {
		over = time.After(i.d)
	}
	select {
	case <-over:
		return 0, io.EOF
	case <-i.req.Context().Done():
		return 0, i.req.Context().Err()
	}
}

type closer struct {
	io.Reader
	close func()
}

func (c *closer) Close() error { c.close(); return nil }

// The method `ids` returns the Last-Event-ID of each request. If the method is not GET, it also
// returns the method.
func (s *script) ids() (ids []string) {
	for _, req := range s.sent {
		id := req.Header.Get("Last-Event-ID")
		if req.Method != http.MethodGet {
			id = strings.TrimSpace(req.Method + " " + id)
		}
		ids = append(ids, id)
	}
	return ids
}

// request returns a request for a stream.
func request(t *testing.T, method string) *http.Request {
	t.Helper()
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader("{}")
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://example.test/events", body)
	require.NoError(t, err)
	return req
}

// The function `text` writes an event as "id name data". Empty parts are left out.
func text(e sse.Event) string {
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", e.ID, e.Name, e.Data)), " ")
}

// The function `collect` reads all events of a stream, and returns the error of the stream.
func collect(events iter.Seq2[sse.Event, error]) (texts []string, err error) {
	for e, failed := range events {
		if failed != nil {
			return texts, failed
		}
		texts = append(texts, text(e))
	}
	return texts, nil
}

// The function `over` returns a client whose Transport sends through `base` and has no Budgets.
func over(base http.RoundTripper) *http.Client {
	return &http.Client{Transport: &retryhttp.Transport{Base: base, Budgets: retryhttp.NoBudgets}}
}

// The function `event` writes an event as a server does.
func event(id, data any) string { return fmt.Sprintf("id: %v\ndata: %v\n\n", id, data) }

func contextWithin(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
