package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	itemsPerPage = 5
	pause        = 20 * time.Millisecond
)

// A pageServer listens on loopback and has pages of items. Which requests fail
// depends only on their number, so that each run sees the same: of twelve requests
// it refuses three for their rate, fails one, and cuts off the response to another.
// It also refuses a request that comes earlier than it asked for.
type pageServer struct {
	pages    int
	listener net.Listener
	http     http.Server
	served   chan error // why it has stopped serving
	requests int
	closed   time.Time // until then it refuses every request for its rate
}

func newPageServer(pages int) (*pageServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &pageServer{pages: pages, listener: l, served: make(chan error, 1)}
	s.http.Handler = s
	go func() { s.served <- s.http.Serve(l) }()
	return s, nil
}

func (s *pageServer) url() string { return "http://" + s.listener.Addr().String() + "/" }

// close stops the server. If it had stopped before, close returns why.
func (s *pageServer) close() error {
	err := s.http.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	return err
}

// items returns all items that can be fetched.
func (s *pageServer) items() (items []string) {
	for n := 1; n <= s.pages; n++ {
		items = append(items, itemsOf(n)...)
	}
	return items
}

func itemsOf(n int) (items []string) {
	for i := range itemsPerPage {
		items = append(items, fmt.Sprintf("item %d", (n-1)*itemsPerPage+i+1))
	}
	return items
}

// ServeHTTP is called for one request at a time: the client waits for each.
func (s *pageServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests++
	number, err := strconv.Atoi(r.FormValue("page"))
	if err != nil || number < 1 || number > s.pages {
		http.NotFound(w, r)
		return
	}
	switch early := time.Now().Before(s.closed); {
	case early, s.requests%4 == 0:
		s.closed = time.Now().Add(pause)
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(pause.Milliseconds(), 10))
		http.Error(w, "slow down", http.StatusTooManyRequests)
	case s.requests%12 == 5:
		http.Error(w, "out of order", http.StatusInternalServerError)
	case s.requests%12 == 10:
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"items": [`)
		w.(http.Flusher).Flush() // begins the response, or net/http could retry the request itself
		panic(http.ErrAbortHandler)
	default:
		p := page{Items: itemsOf(number)}
		if number < s.pages {
			p.Next = number + 1
		}
		_ = json.NewEncoder(w).Encode(p) // a client that is gone has its own error
	}
}
