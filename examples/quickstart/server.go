package main

import (
	"fmt"
	"net"
	"net/http"
)

// A flakyServer listens on loopback, but refuses connections until it is started.
// It answers the first request with 503 and Retry-After, cuts off the body of
// the second, and answers the others.
type flakyServer struct {
	addr     string
	http     http.Server
	requests int
}

func newFlakyServer() (*flakyServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &flakyServer{addr: l.Addr().String()}
	s.http.Handler = s
	return s, l.Close() // the port is closed until we start
}

func (s *flakyServer) url() string { return "http://" + s.addr + "/" }

func (s *flakyServer) start() error {
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	go s.http.Serve(l)
	return nil
}

func (s *flakyServer) close() { s.http.Close() }

// ServeHTTP is called for one request at a time: the client waits for each.
func (s *flakyServer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	switch s.requests++; s.requests {
	case 1:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "busy", http.StatusServiceUnavailable)
	case 2:
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "the beginning of ")
		w.(http.Flusher).Flush() // begins the response, or net/http could retry the request itself
		panic(http.ErrAbortHandler)
	default:
		fmt.Fprint(w, "hello, at last")
	}
}
