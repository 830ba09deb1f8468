package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	r3labs "github.com/r3labs/sse/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	tmaxmax "github.com/tmaxmax/go-sse"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp/sse"
)

// eventServers are the servers of two libraries. publish sends event n, whose ID is n.
var eventServers = []struct {
	name  string
	start func(t *testing.T) (_ http.Handler, publish func(t *testing.T, n int))
}{
	{"tmaxmax", func(t *testing.T) (http.Handler, func(*testing.T, int)) {
		replayer, err := tmaxmax.NewFiniteReplayer(1000, false)
		require.NoError(t, err)
		s := &tmaxmax.Server{Provider: &tmaxmax.Joe{Replayer: replayer}}
		t.Cleanup(func() { assert.NoError(t, s.Shutdown(context.Background())) })
		return s, func(t *testing.T, n int) {
			m := &tmaxmax.Message{ID: tmaxmax.ID(strconv.Itoa(n)), Type: tmaxmax.Type("count"), Retry: 3 * time.Millisecond}
			m.AppendData(dataOf(n))
			assert.NoError(t, s.Publish(m))
		}
	}},
	{"r3labs", func(t *testing.T) (http.Handler, func(*testing.T, int)) { // the last event comes again
		s := r3labs.New()
		s.CreateStream("s")
		t.Cleanup(s.Close)
		return s, func(_ *testing.T, n int) {
			s.Publish("s", &r3labs.Event{Data: []byte(dataOf(n)), Event: []byte("count"), Retry: []byte("3")})
		}
	}},
}

// A cutConn is a ResponseWriter whose connection breaks after some bytes.
type cutConn struct {
	http.ResponseWriter
	left int
	conn net.Conn
}

var errCut = errors.New("cut")

func (c *cutConn) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left > 0 || err != nil {
		return n, err
	}
	c.Flush()
	_ = c.conn.Close()
	return n, errCut
}

func (c *cutConn) Flush() { _ = http.NewResponseController(c.ResponseWriter).Flush() }

type connKey struct{}

// The servers of two other libraries send IDs, names and a wait, and their connections break after
// a random number of bytes. Each event comes once, whole and in order, and each wait is the wait
// that the server asked for.
func TestStreamReadsTheServersOfOtherLibraries(t *testing.T) {
	const last = 300
	for _, of := range eventServers {
		t.Run(of.name, func(t *testing.T) {
			handler, publish := of.start(t)
			random, requests := rand.New(rand.NewPCG(1, 2)), 0
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++ // no lock is needed, because requests do not overlap
				conn := r.Context().Value(connKey{}).(net.Conn)
				handler.ServeHTTP(&cutConn{ResponseWriter: w, left: 20 + random.IntN(400), conn: conn}, r)
			}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
				return context.WithValue(ctx, connKey{}, conn)
			}
			server.Start()
			t.Cleanup(server.Close)
			publish(t, 0)

			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			waits := map[time.Duration]int{}
			policy := retry.Policy{MaxAttempts: retry.Unlimited, OnEvent: func(_ context.Context, e retry.Event) {
				if e.Kind == retry.RetryScheduled {
					waits[e.Delay]++
				}
			}}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"?stream=s", nil)
			require.NoError(t, err)
			req.Header.Set("Last-Event-ID", "0")
			stream := &sse.Stream{
				Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, Policy: policy,
				Last: func(e sse.Event) bool { return e.ID == strconv.Itoa(last) },
			}
			publish(t, 1)
			n := 0
			for e, err := range stream.Events(req) {
				require.NoError(t, err)
				if n == 0 && e.ID == "0" {
					continue // the server begins with the event that the request names
				}
				n++
				require.Equal(t, sse.Event{Name: "count", Data: []byte(dataOf(n)), ID: strconv.Itoa(n)}, e)
				for next := 3*n - 1; next <= min(3*n+1, last); next++ { // the server stores some events, and sends others when they are published
					publish(t, next)
				}
			}
			assert.Equal(t, last, n)
			assert.Greater(t, requests, 20)
			for wait := range waits { // before the first "retry", the wait is 10ms
				assert.Contains(t, []time.Duration{3 * time.Millisecond, 10 * time.Millisecond}, wait, fmt.Sprint(waits))
			}
			assert.Greater(t, waits[3*time.Millisecond], 20, fmt.Sprint(waits))
		})
	}
}
