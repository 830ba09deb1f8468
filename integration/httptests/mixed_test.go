package httptests

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// Each caller gets its own complete answer, although other answers are discarded and other requests
// are given up. Two goroutines must never use a reader of the pool of a Base at the same time. No
// goroutine, no file descriptor and no connection may leak. The environment variable RETRY_ANSWERS
// sets the number of answers for all Bases together. If it is set, 1,000 goroutines send requests.
func TestMixedAnswers(t *testing.T) {
	answers, callers := int64(2000), 32
	if n := os.Getenv("RETRY_ANSWERS"); n != "" {
		var err error
		answers, err = strconv.ParseInt(n, 10, 64)
		require.NoError(t, err)
		callers = 1000
	}
	for proto, start := range map[string]func(*httptest.Server){
		"HTTP/1": (*httptest.Server).Start,
		"HTTP/2": func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
	} {
		for name, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{
			"net/http":            func(base http.RoundTripper) http.RoundTripper { return base },
			"gzhttp":              func(base http.RoundTripper) http.RoundTripper { return gzhttp.Transport(base) },
			"otelhttp and gzhttp": func(base http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(gzhttp.Transport(base)) },
			"Read that blocks":    func(base http.RoundTripper) http.RoundTripper { return blocking{gzhttp.Transport(base)} },
			"Hedge": func(base http.RoundTripper) http.RoundTripper {
				return &retryhttp.Hedge{Base: gzhttp.Transport(base), After: 3 * time.Millisecond, Budgets: retryhttp.NoBudgets}
			},
		} {
			t.Run(proto+", "+name, func(t *testing.T) {
				assertNothingLeft(t, func() { mixedAnswers(t, start, wrap, answers/10, callers) })
			})
		}
	}
}

func mixedAnswers(t *testing.T, start func(*httptest.Server), wrap func(http.RoundTripper) http.RoundTripper, answers int64, callers int) {
	s := &mixed{seen: map[string]int{}}
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(server)
	defer func() { server.CloseClientConnections(); server.Close() }()
	client := server.Client()
	defer client.CloseIdleConnections()
	base := client.Transport.(*http.Transport)
	base.MaxConnsPerHost = callers / 4
	client.Transport = &retryhttp.Transport{
		Budgets: retryhttp.NoBudgets,
		Base:    wrap(base),
		Policy:  retry.Policy{MaxAttempts: 10, Backoff: retry.Fixed(time.Millisecond), Jitter: retry.FullJitter, AttemptTimeout: time.Minute},
	}

	var requests atomic.Int64
	var all sync.WaitGroup
	ask := func(ctx context.Context, method, key string) (*http.Response, error) {
		var body io.Reader
		if method == "PUT" {
			body = strings.NewReader("body of " + key)
		}
		req, err := http.NewRequestWithContext(ctx, method, server.URL+"/"+key, body)
		if err != nil {
			return nil, err
		}
		return client.Do(req)
	}
	for range callers {
		all.Go(func() {
			for s.answers.Load() < answers {
				n := requests.Add(1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n%64)*time.Millisecond)
				method := []string{"GET", "PUT"}[n%2]
				if resp, err := ask(ctx, method, fmt.Sprint(n, "-given-up")); err == nil {
					assert.NoError(t, resp.Body.Close())
				}
				cancel()

				key := fmt.Sprint(n)
				resp, err := ask(t.Context(), method, key)
				if !assert.NoError(t, err) {
					return
				}
				text, err := io.ReadAll(resp.Body)
				assert.NoError(t, err, key)
				assert.NoError(t, resp.Body.Close())
				assert.Equal(t, 200, resp.StatusCode)
				if string(text) != answerTo(key) {
					t.Errorf("the answer to %s is damaged: %d bytes, beginning with %.60q", key, len(text), text)
				}
			}
		})
	}
	all.Wait()
}

// answerTo returns a text that is different for each key. One of eight texts may be longer than the
// part of a discarded answer that is read.
func answerTo(key string) string {
	sum := sha256.Sum256([]byte(key))
	lines := 20 + int(sum[0])
	if sum[1]%8 == 0 {
		lines *= 4
	}
	return strings.Repeat(fmt.Sprintf("%s %x\n", key, sum), lines)
}

// mixed fails the first attempts of each request in various ways, and then
// answers.
type mixed struct {
	answers atomic.Int64
	mu      sync.Mutex
	seen    map[string]int
}

func (s *mixed) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	key := strings.TrimPrefix(req.URL.Path, "/")
	text, err := io.ReadAll(req.Body)
	if err != nil || req.Method == "PUT" && string(text) != "body of "+key {
		http.Error(w, fmt.Sprintf("got %q, %v", text, err), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.seen[key]++
	attempt := s.seen[key]
	s.mu.Unlock()
	s.answers.Add(1)

	sum := sha256.Sum256(fmt.Append(nil, key, attempt))
	if attempt > 4 {
		sum[0] = 0
	}
	switch out := newWriter(w, req); sum[0] % 16 {
	default: // half of the answers
		out.send(http.StatusOK, answerTo(key))
	case 1, 2:
		out.send(http.StatusServiceUnavailable, "sorry")
	case 3:
		out.send(http.StatusBadGateway, answerTo("another "+key))
	case 4:
		w.WriteHeader(http.StatusServiceUnavailable)
	case 5: // the answer stalls after a while
		out.send(http.StatusServiceUnavailable, answerTo("stalled "+key), 10, func() bool { <-req.Context().Done(); return false })
	case 6: // the answer comes byte by byte
		out.send(http.StatusServiceUnavailable, answerTo("slow "+key), 100, func() bool { time.Sleep(time.Millisecond); return req.Context().Err() == nil })
	case 7: // the answer breaks off
		out.send(http.StatusServiceUnavailable, answerTo("broken "+key), 1000, func() bool { panic(http.ErrAbortHandler) })
	case 8:
		panic(http.ErrAbortHandler)
	}
}

// A writer compresses the answer if the client accepts this, and flushes after each Write.
type writer struct {
	http.ResponseWriter
	zip *gzip.Writer
}

func newWriter(w http.ResponseWriter, req *http.Request) writer {
	if !strings.Contains(req.Header.Get("Accept-Encoding"), "gzip") {
		return writer{w, nil}
	}
	return writer{w, gzip.NewWriter(w)}
}

// send sends a text. With a size and a function, it sends pieces of that size
// until the function returns false.
func (w writer) send(status int, text string, pieces ...any) {
	size, next := len(text), func() bool { return true }
	if len(pieces) == 2 {
		size, next = pieces[0].(int), pieces[1].(func() bool)
	}
	if w.zip != nil {
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(status)
	for text != "" {
		n := min(size, len(text))
		if w.zip == nil {
			_, _ = io.WriteString(w.ResponseWriter, text[:n])
		} else {
			_, _ = io.WriteString(w.zip, text[:n])
			_ = w.zip.Flush()
		}
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		if text = text[n:]; !next() {
			return
		}
	}
	if w.zip != nil {
		_ = w.zip.Close()
	}
}

// blocking gives failed responses a body whose Read blocks until the context of the attempt ends. Only
// one goroutine may use this body at a time.
type blocking struct{ base http.RoundTripper }

func (b blocking) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.base.RoundTrip(req)
	if err == nil && resp.StatusCode >= 500 {
		resp.Body = &blockingBody{ReadCloser: resp.Body, ctx: req.Context()}
	}
	return resp, err
}

type blockingBody struct {
	io.ReadCloser
	ctx  context.Context
	read int // without a lock, so that the race detector reports concurrent use
}

func (b *blockingBody) Read(p []byte) (int, error) {
	b.read++
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		<-b.ctx.Done()
		time.Sleep(time.Millisecond)
	}
	b.read += n
	return n, err
}

func (b *blockingBody) Close() error {
	b.read = -1
	return b.ReadCloser.Close()
}

// assertNothingLeft calls f, and waits until the number of goroutines and of open files is not above
// the number before the call.
func assertNothingLeft(t *testing.T, f func()) {
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	f()
	for deadline := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > goroutines || openFiles(t) > files; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after; %d open files before, %d after:\n%s", goroutines, runtime.NumGoroutine(),
				files, openFiles(t), stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// openFiles returns the number of open files. It returns 0 on a system that does not list them.
func openFiles(t *testing.T) int {
	if runtime.GOOS != "linux" {
		return 0
	}
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}
