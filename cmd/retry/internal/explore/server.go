package explore

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// computing is how many pages are computed at the same time. Other requests
// wait.
const computing = 2

// maxForm is the limit on the size of a form: two texts, percent-encoded.
const maxForm = 8 * MaxText

// NewServer returns a server for the page, on a listener of the loopback
// device. The page starts with begin. The server only answers requests for this
// machine's own names, so that no other site can read or use it.
func NewServer(listener net.Listener, begin Input) (*http.Server, error) {
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok || !address.IP.IsLoopback() {
		return nil, fmt.Errorf("%v is not an address of the loopback device", listener.Addr())
	}
	s := &server{begin: begin, turns: make(chan struct{}, computing)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { s.show(w, r, "page.html", s.begin) })
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, "page.html") })
	mux.HandleFunc("POST /answer", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, "answer") })
	mux.HandleFunc("GET /page.css", serveFile)
	mux.HandleFunc("GET /page.js", serveFile)
	port := strconv.Itoa(address.Port)
	return &http.Server{
		Handler:           guard(port, http.NewCrossOriginProtection().Handler(mux)),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}, nil
}

// guard rejects requests for other hosts. Otherwise a site could make its own
// name resolve to this machine, and so bypass the browser's same-origin policy.
func guard(port string, next http.Handler) http.Handler {
	own := map[string]bool{"127.0.0.1:" + port: true, "localhost:" + port: true, "[::1]:" + port: true}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !own[r.Host] {
			http.Error(w, "This page is for 127.0.0.1 only.", http.StatusForbidden)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func serveFile(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, r.URL.Path[1:]) }

type server struct {
	begin Input
	turns chan struct{} // one element for each page that is being computed
}

// answer shows the answer to a form.
func (s *server) answer(w http.ResponseWriter, r *http.Request, name string) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, fmt.Sprintf("The form cannot be read (%v): write at most %d KiB for each policy.", err, MaxText>>10), http.StatusBadRequest)
		return
	}
	in := Input{
		Names: s.begin.Names,
		Texts: [2]string{r.PostForm.Get("a"), r.PostForm.Get("b")},
		At:    r.PostForm.Get("at"),
		From:  r.PostForm.Get("from"),
	}
	// A text that is not a number becomes 0, which is out of range where that
	// matters.
	in.Clients, _ = strconv.Atoi(r.PostForm.Get("clients"))
	in.Size, _ = strconv.Atoi(r.PostForm.Get("size"))
	ratio, err := strconv.ParseFloat(r.PostForm.Get("ratio"), 64)
	if err != nil {
		ratio = -1
	}
	in.Ratio = ratio
	s.show(w, r, name, in)
}

// show computes a page, or part of one, when it is its turn.
func (s *server) show(w http.ResponseWriter, r *http.Request, name string, in Input) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-r.Context().Done():
		return
	}
	var b bytes.Buffer
	if err := page.ExecuteTemplate(&b, name, look(r.Context(), in)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // the browser may have left
}
