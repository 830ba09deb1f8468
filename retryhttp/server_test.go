package retryhttp_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// All attempts use one connection, whatever the bodies of the errors are.
func TestConnectionIsReused(t *testing.T) {
	for name, answer := range map[string]string{
		"no body":      "Content-Length: 0\r\n\r\n",
		"a short body": "Content-Length: 5\r\n\r\nsorry",
		"a long body":  "Content-Length: 60000\r\n\r\n" + strings.Repeat("x", 60000),
		"in chunks":    "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("5\r\nsorry\r\n", 10) + "0\r\n\r\n",
	} {
		bubble(t, name, func(t *testing.T) {
			conns := map[net.Conn]int{}
			base := piped(18, func(conn net.Conn, req *http.Request) {
				conns[conn]++
				_, _ = io.Copy(io.Discard, req.Body)
				text := answer
				if req.Method == "HEAD" {
					text = text[:strings.Index(text, "\r\n\r\n")+4]
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 503 Busy\r\n"+text)
			})
			for _, method := range []string{"GET", "HEAD", "PUT"} {
				req := request(t, method)
				rewindable(req, "data")
				textOf(t, send(t, &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 5, AttemptTimeout: time.Minute}}, req))
			}
			for range 3 {
				_, err := retryhttp.Result((&retryhttp.Transport{Base: base}).RoundTrip(request(t, "GET")))
				assert.ErrorContains(t, err, "503")
			}
			assert.Equal(t, []int{18}, slices.Collect(maps.Values(conns)))
		})
	}
}

// An attempt lives until Check has returned, whatever Check does with the body, so that one
// that begins with the error of the context, as those for go-retryablehttp do, can retry.
// It ends with the body that Check has left.
func TestAttemptLivesUntilCheckHasReturned(t *testing.T) {
	whole := strings.Repeat("0123456789abcdef", 1<<16)
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = io.WriteString(zip, whole)
	_ = zip.Close()
	texts := map[string]string{"/": whole, "/empty": "", "/gzip": packed.String()}
	handler := func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/gzip" {
			w.Header().Set("Content-Encoding", "gzip")
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(texts[req.URL.Path])))
		w.WriteHeader(503)
		_, _ = io.WriteString(w, texts[req.URL.Path])
	}
	for name, with := range map[string]func(*http.Response){
		"leaves the body": func(*http.Response) {},
		"closes it":       func(resp *http.Response) { _ = resp.Body.Close() },
		"reads it":        func(resp *http.Response) { _, _ = io.Copy(io.Discard, resp.Body) },
		"drops it":        func(resp *http.Response) { _ = resp.Body.Close(); resp.Body = http.NoBody },
		"copies it": func(resp *http.Response) {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			resp.Body = io.NopCloser(bytes.NewReader(text))
		},
	} {
		for protocol, start := range protocols {
			server := serve(t, handler, start)
			for path := range texts {
				for _, timeout := range []time.Duration{0, time.Hour} {
					t.Run(fmt.Sprint(name, ", ", protocol, path, ", ", timeout), func(t *testing.T) {
						req := httptest.NewRequestWithContext(t.Context(), "GET", server.URL+path, nil)
						ctx := req.Context()
						resp := send(t, &retryhttp.Transport{
							Base: server.Client().Transport, Policy: retry.Policy{MaxAttempts: 3, AttemptTimeout: timeout},
							Check: func(req *http.Request, resp *http.Response, err error) error {
								with(resp)
								if ctx = req.Context(); ctx.Err() != nil {
									return retry.Permanent(ctx.Err())
								}
								return retryhttp.Check(req, resp, err)
							},
						}, req)
						assert.ErrorContains(t, retryhttp.ErrorOf(resp), "exhausted after 3 attempts")
						if name == "copies it" && path != "/empty" {
							assert.NoError(t, ctx.Err(), "it has still a body")
							assert.Equal(t, whole, textOf(t, resp))
						}
						require.NoError(t, resp.Body.Close())
						assert.Error(t, ctx.Err())
					})
				}
			}
		}
	}
}
