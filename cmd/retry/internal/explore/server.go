package explore

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// computing is how many pages are computed at the same time. Other requests
// wait.
const computing = 2

// maxForm is the limit on the size of a form, in a body or in the address: two
// texts, percent-encoded.
const maxForm = 8 * MaxText

// NewServer returns a server for the page, on a listener of the loopback
// device. The page starts with begin, and the page of a system, at /system, with
// beginSystem. The server only answers requests for this
// machine's own names, so that no other site can read or use it.
func NewServer(listener net.Listener, begin Input, beginSystem SystemInput) (*http.Server, error) {
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok || !address.IP.IsLoopback() {
		return nil, fmt.Errorf("%v is not an address of the loopback device", listener.Addr())
	}
	s := &server{begin: begin, beginSystem: beginSystem, turns: make(chan struct{}, computing)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, "page.html") })
	mux.HandleFunc("POST /answer", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, "answer") })
	mux.HandleFunc("GET /system", func(w http.ResponseWriter, r *http.Request) { s.answerSystem(w, r, "system.html") })
	mux.HandleFunc("POST /system/answer", func(w http.ResponseWriter, r *http.Request) { s.answerSystem(w, r, "system") })
	mux.HandleFunc("GET /page.css", serveFile)
	mux.HandleFunc("GET /page.js", serveFile)
	port := strconv.Itoa(address.Port)
	return &http.Server{
		Handler:           guard(port, http.NewCrossOriginProtection().Handler(mux)),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		MaxHeaderBytes:    maxForm,
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
	begin       Input
	beginSystem SystemInput
	turns       chan struct{} // one element for each page that is being computed
}

// answer shows the answer to a form, which may come in the address. What it does
// not set is as at the beginning.
func (s *server) answer(w http.ResponseWriter, r *http.Request, name string) {
	if !parseForm(w, r) {
		return
	}
	in := s.begin
	set(r.Form, "a", &in.Texts[0], identity)
	set(r.Form, "b", &in.Texts[1], identity)
	set(r.Form, "at", &in.At, identity)
	set(r.Form, "from", &in.From, identity)
	set(r.Form, "outage", &in.Outage, time.ParseDuration)
	set(r.Form, "clients", &in.Clients, strconv.Atoi)
	set(r.Form, "size", &in.Size, strconv.Atoi)
	set(r.Form, "ratio", &in.Ratio, func(text string) (float64, error) {
		ratio, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return -1, err
		}
		return ratio, nil
	})
	s.show(w, r, name, func() any { return look(in) })
}

// answerSystem shows the answer to the form of a system.
func (s *server) answerSystem(w http.ResponseWriter, r *http.Request, name string) {
	if !parseForm(w, r) {
		return
	}
	in := s.beginSystem
	set(r.Form, "text", &in.Text, identity)
	set(r.Form, "event", &in.Event, identity)
	set(r.Form, "call", &in.Call, identity)
	s.show(w, r, name, func() any { return lookAtSystem(in) })
}

// parseForm reports whether the form could be read, and otherwise answers why.
func parseForm(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	if err != nil {
		http.Error(w, fmt.Sprintf("The form cannot be read (%v): write at most %d KiB for each text.", err, MaxText>>10), http.StatusBadRequest)
	}
	return err == nil
}

func identity(text string) (string, error) { return text, nil }

// set sets a value if a form has it. What cannot be parsed becomes a value out of
// range, which the page reports.
func set[T any](form url.Values, name string, to *T, parse func(string) (T, error)) {
	if form.Has(name) {
		*to, _ = parse(form.Get(name))
	}
}

// show shows a page, or part of one, that is computed when it is its turn.
func (s *server) show(w http.ResponseWriter, r *http.Request, name string, compute func() any) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-r.Context().Done():
		return
	}
	var b bytes.Buffer
	if err := page.ExecuteTemplate(&b, name, compute()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // the browser may have left
}
