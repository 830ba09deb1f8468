package httptests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/sse"
)

// A server of the Model Context Protocol, made with its Go SDK. A tool reports its progress in 100
// messages. Meanwhile the server closes the stream, or its connections break at any byte.

const progressMessages = 100

func mcpServer(closes bool) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "counter", Version: "1"}, nil)
	count := func(ctx context.Context, req *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, any, error) {
		for n := 1; n <= progressMessages; n++ {
			if closes && n%10 == 1 {
				req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 5 * time.Millisecond})
			}
			// The server stores the messages of a closed stream.
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "p", Progress: float64(n)})
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	}
	mcp.AddTool(server, &mcp.Tool{Name: "count"}, count)
	return server
}

// A cutConn is a ResponseWriter whose connection breaks after some bytes.
type cutConn struct {
	http.ResponseWriter
	left int
	conn net.Conn
}

func (c *cutConn) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left > 0 || err != nil {
		return n, err
	}
	c.Flush()
	_ = c.conn.Close()
	return n, errors.New("cut")
}

func (c *cutConn) Flush() { _ = http.NewResponseController(c.ResponseWriter).Flush() }

type connKey struct{}

// serveMCP starts a server, and returns its URL. The connection of each tools/call and of each GET
// breaks after this number of bytes. If after is 0, it does not break.
func serveMCP(t *testing.T, s *mcp.Server, after int) string {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if after > 0 && (r.Method == http.MethodGet || bytes.Contains(body, []byte("tools/call"))) {
			w = &cutConn{ResponseWriter: w, left: after, conn: r.Context().Value(connKey{}).(net.Conn)}
		}
		handler.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// mcpPOST returns a request of a session. The session is "" before the server has opened a session.
func mcpPOST(t *testing.T, url, session, message string) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(message)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	return req
}

// openMCP opens a session.
func openMCP(t *testing.T, client *http.Client, url string) (session string) {
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		resp, err := client.Do(mcpPOST(t, url, session, message))
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		require.Less(t, resp.StatusCode, 300)
		session = resp.Header.Get("Mcp-Session-Id") + session
	}
	return session
}

// An mcpMessage is a message about the progress, or the result.
type mcpMessage struct {
	ID     json.RawMessage
	Method string
	Params struct{ Progress float64 }
	Result struct{ Content []struct{ Text string } }
}

func TestServerOfTheModelContextProtocol(t *testing.T) {
	for _, row := range []struct {
		name   string
		closes bool
		after  int
	}{
		{"nothing breaks", false, 0},
		{"the server closes the stream", true, 0},
		{"connections break", false, 1500},
		{"both", true, 1500},
	} {
		t.Run(row.name, func(t *testing.T) {
			url := serveMCP(t, mcpServer(row.closes), row.after)
			requests := map[string]int{}
			client := &http.Client{Transport: &retryhttp.Transport{
				Base: requestsOf(func(req *http.Request) { requests[req.Method]++ }), Budgets: retryhttp.NoBudgets,
				// The server answers 409 until it has noticed that a connection is broken.
				Check: func(req *http.Request, resp *http.Response, err error) error {
					if err == nil && resp.StatusCode == http.StatusConflict && req.Method == http.MethodGet {
						return retryhttp.NewStatusError(resp)
					}
					return retryhttp.Check(req, resp, err)
				},
			}}
			post := mcpPOST(t, url, openMCP(t, client, url),
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{},"_meta":{"progressToken":"p"}}}`)
			stream := &sse.Stream{
				Client: client,
				Policy: retry.Policy{MaxElapsed: 20 * time.Second, Backoff: retry.Fixed(2 * time.Millisecond)},
				Resume: sse.ResumeByGET(post),
				Last: func(e sse.Event) bool {
					var m mcpMessage
					return json.Unmarshal(e.Data, &m) == nil && m.ID != nil && m.Method == ""
				},
			}
			clear(requests)
			var told []string
			for e, err := range stream.Events(post) {
				require.NoError(t, err)
				require.NotEmpty(t, e.ID)
				var m mcpMessage
				switch {
				case len(e.Data) == 0: // this event opens the stream
				case !assert.NoError(t, json.Unmarshal(e.Data, &m)):
				case m.Method == "":
					told = append(told, m.Result.Content[0].Text)
				default:
					told = append(told, strconv.Itoa(int(m.Params.Progress)))
				}
			}
			var want []string
			for n := range progressMessages {
				want = append(want, strconv.Itoa(n+1))
			}
			assert.Equal(t, append(want, "done"), told)
			assert.Equal(t, 1, requests[http.MethodPost])
			if row.closes || row.after > 0 {
				assert.Positive(t, requests[http.MethodGet], fmt.Sprint(requests))
			}
			t.Log(requests)
		})
	}
}

// requestsOf is a RoundTripper that calls a function for each request.
type requestsOf func(*http.Request)

func (f requestsOf) RoundTrip(req *http.Request) (*http.Response, error) {
	f(req)
	return http.DefaultTransport.RoundTrip(req)
}
