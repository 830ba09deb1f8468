package llmtest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// An sdk asks one question with the client of a vendor, and returns the answer. The answer comes in
// one piece or as a stream.
type sdk struct {
	name           string
	ask            func(ctx context.Context, url string, client *http.Client, retries int, stream bool) (string, error)
	answer, stream string // the answer of a server that works, in one piece and as a stream
	overloaded     string // the first event of the stream of a server that is overloaded
	opening        string
	refused        func(error) *http.Response // the response in an error of the SDK
}

var sdks = []sdk{anthropicSDK, openaiSDK}

// A fault is what a server sends in place of an answer.
type fault = func(http.ResponseWriter, sdk)

// status refuses a request, with these headers.
func status(code int, header ...string) fault {
	return func(w http.ResponseWriter, _ sdk) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, `{"type":"error","error":{"type":"some_error","message":"sorry"}}`)
	}
}

// events starts a stream, sends the events, and ends the stream.
func events(of func(sdk) string) fault {
	return func(w http.ResponseWriter, s sdk) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, of(s))
	}
}

// breaks sends only half of the answer.
func breaks(w http.ResponseWriter, s sdk) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(s.answer)))
	fmt.Fprint(w, s.answer[:len(s.answer)/2])
}

// serve starts a server that fails this number of times and then answers. It counts the requests.
func serve(t *testing.T, s sdk, faults int, do fault, stream bool) (url string, requests *atomic.Int64) {
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case requests.Add(1) <= int64(faults):
			do(w, s)
		case stream:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, s.opening+s.stream)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, s.answer)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

var policy = retry.Policy{MaxAttempts: 4, MaxRetryAfter: retry.Default().MaxRetryAfter}

// The retries of the SDK are off, and the server fails twice. The response in the error of an SDK says
// why there was no further retry.
func TestSDKs(t *testing.T) {
	for _, row := range []struct {
		name     string
		stream   bool
		fault    fault
		requests int64
		reason   retry.Reason // of the response in the error of the SDK
	}{
		{"429 with Retry-After-Ms", false, status(429, "Retry-After-Ms", "5"), 3, retry.ReasonSuccess},
		{"529", false, status(529), 3, retry.ReasonSuccess},
		{"an overload in a stream", true, events(func(s sdk) string { return s.overloaded }), 3, retry.ReasonSuccess},
		{"an overload after the opening", true, events(func(s sdk) string { return s.opening + s.overloaded }), 3, retry.ReasonSuccess},
		{"a stream that ends at once", true, events(func(sdk) string { return "" }), 3, retry.ReasonSuccess},
		{"JSON that breaks off", false, breaks, 3, retry.ReasonSuccess},

		{"400", false, status(400), 1, retry.ReasonPermanent},
		{"429 with a Retry-After that is too long", false, status(429, "Retry-After", "3600"), 1, retry.ReasonRetryAfter},
		{"an overload after the first piece", true, events(func(s sdk) string { return s.opening + s.stream[:strings.Index(s.stream, "\n\n")+2] + s.overloaded }), 1, retry.ReasonSuccess},
	} {
		for _, s := range sdks {
			t.Run(row.name+"/"+s.name, func(t *testing.T) {
				url, requests := serve(t, s, 2, row.fault, row.stream)
				text, err := s.ask(t.Context(), url, &http.Client{Transport: retryhttp.LLM(policy)}, 0, row.stream)
				assert.Equal(t, row.requests, requests.Load())
				if row.requests == 3 {
					require.NoError(t, err)
					assert.Equal(t, "hello", text)
				} else {
					assert.Error(t, err)
					if !row.stream {
						assert.Equal(t, row.reason, retry.ReasonOf(retryhttp.ErrorOf(s.refused(err))))
					}
				}
			})
		}
	}
}

// The retries of an SDK ignore an error event in a stream. If these retries are on, they multiply
// with the attempts of the Transport. If they are off, only LLM retries a JSON body that breaks off.
func TestRetriesOfTheSDKs(t *testing.T) {
	for _, s := range sdks {
		t.Run(s.name, func(t *testing.T) {
			url, requests := serve(t, s, 1, events(func(s sdk) string { return s.overloaded }), true)
			_, err := s.ask(t.Context(), url, http.DefaultClient, 2, true)
			assert.Error(t, err)
			assert.EqualValues(t, 1, requests.Load())

			url, requests = serve(t, s, 100, status(529, "Retry-After-Ms", "1"), false)
			_, err = s.ask(t.Context(), url, &http.Client{Transport: retryhttp.LLM(policy)}, 2, false)
			assert.Error(t, err)
			assert.EqualValues(t, 3*4, requests.Load())

			url, requests = serve(t, s, 1, breaks, false)
			plain := &retryhttp.Transport{Policy: policy, Idempotent: func(*http.Request) bool { return true }}
			_, err = s.ask(t.Context(), url, &http.Client{Transport: plain}, 0, false)
			assert.ErrorContains(t, err, "unexpected EOF")
			assert.EqualValues(t, 1, requests.Load())
		})
	}
}
