package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// newServer starts a server that misbehaves.
func newServer() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /report", report())
	mux.HandleFunc("POST /orders", orders())
	return httptest.NewServer(mux)
}

// report hangs, breaks off, and asks to come back later, before it answers.
func report() http.HandlerFunc {
	var mu sync.Mutex
	calls := 0
	return func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		calls++
		call := calls
		mu.Unlock()
		switch call {
		case 1:
			<-req.Context().Done() // until the client gives up
		case 2:
			panic(http.ErrAbortHandler) // which closes the connection
		case 3:
			now := time.Now().UTC()
			w.Header().Set("Date", now.Format(http.TimeFormat))
			w.Header().Set("Retry-After", now.Add(time.Second).Format(http.TimeFormat))
			http.Error(w, "the report is being written", http.StatusServiceUnavailable)
		default:
			fmt.Fprint(w, "all is well")
		}
	}
}

// orders accepts an order with a key once, behind a gateway that loses the first
// response. It answers an order without a key with 503.
func orders() http.HandlerFunc {
	var mu sync.Mutex
	taken := map[string]string{}
	return func(w http.ResponseWriter, req *http.Request) {
		key := req.Header.Get("Idempotency-Key")
		if key == "" {
			http.Error(w, "the counter is closed", http.StatusServiceUnavailable)
			return
		}
		order, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if _, again := taken[key]; !again {
			taken[key] = string(order)
			http.Error(w, "the answer was lost", http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%d order taken: %s", len(taken), taken[key])
	}
}
