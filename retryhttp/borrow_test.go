package retryhttp_test

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// The header Retry-Budget decides how many retries a handler has, up to a limit of 3.
func TestBorrow(t *testing.T) {
	handle := func(most int, lent []string, h http.HandlerFunc) []string {
		req, rec := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		req.Header["Retry-Budget"] = lent
		retryhttp.BorrowBudget(h, most).ServeHTTP(rec, req)
		return rec.Result().Header["Retry-Budget-Spent"]
	}
	rows := map[string]int{"none": 3, "2": 2, "0": 0, "002": 2, "4": 3, "18446744073709551617": 3, "3|1|2": 1, "3|x": 0}
	for _, text := range noNumbers {
		rows[text] = 0
	}
	for text, lent := range rows {
		t.Run(text, func(t *testing.T) {
			values, report, want := strings.Split(text, "|"), []string{strconv.Itoa(lent)}, retry.ReasonBorrowed
			if text == "none" {
				values, report, want = nil, nil, retry.ReasonBudget
			}
			assert.Equal(t, report, handle(3, values, func(_ http.ResponseWriter, r *http.Request) {
				got, back := retry.LendBudget(r.Context(), 99, false)
				assert.Equal(t, lent, got)
				back(got)
				assert.Equal(t, want, spend(r.Context(), 9))
			}))
		})
	}
	handle(-1, nil, func(_ http.ResponseWriter, r *http.Request) {
		assert.Equal(t, retry.ReasonBudget, spend(r.Context(), 9), "a limit below 1")
	})
	assert.Equal(t, []string{"9"}, handle(math.MaxInt, []string{"18446744073709551617"}, func(_ http.ResponseWriter, r *http.Request) {
		assert.Equal(t, retry.ReasonExhausted, spend(r.Context(), 9))
	}), "a limit above every count")
}

// Two retries are lent to a handler. It makes one retry before it answers, and has none after
// that, in whatever way it answers. The report is sent with the final header. The ResponseWriter of
// the handler can do everything that the ResponseWriter of net/http can do.
func TestReport(t *testing.T) {
	var lease atomic.Value
	up, err := url.Parse(serve(t, func(w http.ResponseWriter, r *http.Request) {
		lease.Store(r.Header.Get("Retry-Budget"))
		w.Header().Set("Retry-Budget-Spent", "7")
	}).URL)
	require.NoError(t, err)
	copies, proxy := httputil.NewSingleHostReverseProxy(up), httputil.NewSingleHostReverseProxy(up)
	proxy.Transport = retryhttp.LendBudget(http.DefaultTransport, 3)
	type timeOut struct{}
	type wrap func(http.Handler) http.Handler
	as := func(h http.Handler) http.Handler { return h }
	recovers := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { _ = recover(); w.WriteHeader(500) }()
			h.ServeHTTP(w, r)
		})
	}
	inTime := func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Hour, "") }
	times := func(h http.Handler) http.Handler { // the handler makes the timeout pass
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			answered := make(chan struct{})
			defer close(answered)
			inTime(h).ServeHTTP(w, r.WithContext(context.WithValue(ctx, timeOut{}, func() { cancel(); <-answered })))
		})
	}
	twice := func(h http.Handler) http.Handler { return retryhttp.BorrowBudget(h, 9) }
	waits := func(_ http.ResponseWriter, r *http.Request) { r.Context().Value(timeOut{}).(func())() }
	nothing := func(http.ResponseWriter, *http.Request) {}
	for _, row := range []struct {
		name            string
		outside, inside wrap
		answer          http.HandlerFunc
		status          int
	}{
		{"nothing", as, as, nothing, 200},
		{"a proxy that copies the lease and the report", as, as, copies.ServeHTTP, 200},
		{"a proxy that copies a report which is not a number", as, as, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-Budget-Spent", "1, 1") }, 200},
		{"Write", as, as, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") }, 200},
		{"WriteHeader", as, as, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, 404},
		{"Flush", as, as, func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, 200},
		{"Flush of a ResponseController", as, as, func(w http.ResponseWriter, _ *http.Request) {
			assert.NoError(t, http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour)))
			assert.NoError(t, http.NewResponseController(w).Flush())
		}, 200},
		{"io.Copy", as, as, func(w http.ResponseWriter, _ *http.Request) {
			n, err := io.Copy(w, io.LimitReader(endless{}, 1<<20)) // io.Copy uses its own buffer, or ReadFrom
			assert.NoError(t, err)
			assert.EqualValues(t, 1<<20, n)
		}, 200},
		{"103 and then 200", as, as, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(200) }, 200},
		{"a header of its own", as, as, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-Budget-Spent", "0") }, 200},
		{"a proxy, whose server has a report", as, as, proxy.ServeHTTP, 200},
		{"a panic that somebody recovers", recovers, as, func(http.ResponseWriter, *http.Request) { panic("handler") }, 500},
		{"TimeoutHandler inside", as, times, waits, 503},
		{"TimeoutHandler outside, in time, cannot flush", inTime, as, func(w http.ResponseWriter, _ *http.Request) {
			assert.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
		}, 200},
		{"TimeoutHandler outside has no report", times, as, waits, 503},
		{"two BorrowBudget", twice, as, nothing, 200},
	} {
		for name, start := range protocols {
			t.Run(name+" "+row.name, func(t *testing.T) {
				s := serve(t, row.outside(retryhttp.BorrowBudget(row.inside(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					assert.Equal(t, retry.ReasonExhausted, spend(r.Context(), 1))
					defer func() {
						if slices.Contains(w.Header().Values("Retry-Budget-Spent"), "1") {
							assert.Equal(t, retry.ReasonBorrowed, spend(r.Context(), 1), "after the header")
						}
					}()
					row.answer(w, r)
				})), 3)).ServeHTTP, start)
				hints := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
					assert.NotContains(t, h, "Retry-Budget-Spent")
					return nil
				}})
				req := httptest.NewRequestWithContext(hints, "GET", s.URL, nil)
				req.Header.Set("Retry-Budget", "2")
				resp := send(t, s.Client().Transport, req)
				defer resp.Body.Close()
				textOf(t, resp)
				assert.Equal(t, row.status, resp.StatusCode)
				reports := resp.Header.Values("Retry-Budget-Spent")
				slices.Sort(reports) // the greatest counts
				switch {
				case strings.HasSuffix(row.name, "has no report"):
					assert.Empty(t, reports)
				case strings.HasSuffix(row.name, "is not a number"):
					assert.Equal(t, []string{"1, 1"}, reports)
				case strings.HasPrefix(row.name, "a proxy that copies"):
					assert.Equal(t, []string{"7"}, reports)
					assert.Equal(t, "2", lease.Load())
				default:
					assert.Equal(t, "1", reports[len(reports)-1])
					if strings.HasPrefix(row.name, "a proxy") {
						assert.Equal(t, "0", lease.Load(), "the proxy keeps one of its retries")
					}
				}
			})
		}
	}
}

// The inner ResponseWriter makes the whole copy, so the kernel can copy a file.
func TestReportOfACopy(t *testing.T) {
	req, w := httptest.NewRequest("GET", "/", nil), &readerFrom{ResponseRecorder: httptest.NewRecorder()}
	req.Header.Set("Retry-Budget", "2")
	retryhttp.BorrowBudget(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := strings.NewReader("text")
		_, err := io.Copy(w, reads(func(p []byte) (int, error) {
			assert.Equal(t, retry.ReasonBorrowed, spend(r.Context(), 1), "in the copy")
			return text.Read(p)
		}))
		assert.NoError(t, err)
	}), 3).ServeHTTP(w, req)
	assert.Equal(t, []string{"ReadFrom text"}, w.calls)
	assert.Equal(t, "0", w.Header().Get("Retry-Budget-Spent"))
}

// A readerFrom stores the calls of Write and ReadFrom.
type readerFrom struct {
	*httptest.ResponseRecorder
	calls []string
}

func (w *readerFrom) Write(p []byte) (int, error) {
	w.calls = append(w.calls, "Write "+string(p))
	return w.ResponseRecorder.Write(p)
}

func (w *readerFrom) ReadFrom(from io.Reader) (int64, error) {
	text, err := io.ReadAll(from)
	w.calls = append(w.calls, "ReadFrom "+string(text))
	return int64(len(text)), err
}

// A handler can write to a connection that it has hijacked. The client gets a report only if the
// handler writes a 101 first, as some libraries for WebSocket do. After the hijack the handler has
// no retries.
func TestReportOfAConnectionThatWasHijacked(t *testing.T) {
	for left, says101 := range map[int]bool{5: false, 4: true} {
		s := serve(t, retryhttp.BorrowBudget(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, retry.ReasonExhausted, spend(r.Context(), 1))
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "echo")
			if says101 {
				w.WriteHeader(http.StatusSwitchingProtocols)
			}
			conn, _, err := w.(http.Hijacker).Hijack()
			assert.NoError(t, err)
			defer conn.Close()
			assert.Equal(t, retry.ReasonBorrowed, spend(r.Context(), 1))
			if !says101 {
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			}
		}), 3).ServeHTTP)
		budget, req := lends(t, s.URL)
		req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
		resp, err := (&retryhttp.Transport{Base: retryhttp.LendBudget(s.Client().Transport, 3)}).RoundTrip(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		assert.Implements(t, (*io.Writer)(nil), resp.Body)
		assert.Equal(t, []int{101, left}, []int{resp.StatusCode, budget.Left()})
	}
}

// gin panics in a handler that streams if the ResponseWriter has no method CloseNotify.
func TestReporterHasCloseNotify(t *testing.T) {
	for name, inner := range map[string]http.ResponseWriter{"none": httptest.NewRecorder(), "of net/http": closeNotifier{httptest.NewRecorder()}} {
		h := retryhttp.BorrowBudget(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			select {
			case closed := <-w.(interface{ CloseNotify() <-chan bool }).CloseNotify():
				assert.True(t, closed)
				assert.Equal(t, "of net/http", name)
			default:
				assert.Equal(t, "none", name)
			}
		}), 3)
		req := request(t, "GET")
		req.Header.Set("Retry-Budget", "3")
		h.ServeHTTP(inner, req)
	}
}

// A closeNotifier is a ResponseWriter whose client has gone.
type closeNotifier struct{ http.ResponseWriter }

func (closeNotifier) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	gone <- true
	return gone
}

// Over HTTP/2 a Hijack fails, and the handler keeps its retries.
func TestReportOfAHijackThatFails(t *testing.T) {
	h := retryhttp.BorrowBudget(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _, err := w.(http.Hijacker).Hijack()
		assert.ErrorIs(t, err, http.ErrNotSupported)
		assert.Equal(t, retry.ReasonExhausted, spend(r.Context(), 1))
	}), 3)
	w, req := httptest.NewRecorder(), request(t, "GET")
	req.Header.Set("Retry-Budget", "3")
	h.ServeHTTP(w, req)
	assert.Equal(t, "1", w.Header().Get("Retry-Budget-Spent"))
}

// The server of net/http removes the files of an upload after its handler, and a middleware reads the
// pattern that a ServeMux has found. Both look at the request that they have given to BorrowBudget.
func TestBorrowBudgetReturnsWhatTheHandlerHasSet(t *testing.T) {
	for name, panics := range map[string]bool{"returns": false, "panics": true} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("POST /orders/{id}", func(_ http.ResponseWriter, r *http.Request) {
				assert.NoError(t, r.ParseMultipartForm(1))
				if panics {
					panic(http.ErrAbortHandler)
				}
			})
			body := "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--x--\r\n"
			req := httptest.NewRequest("POST", "/orders/17", strings.NewReader(body))
			req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
			func() {
				defer func() { _ = recover() }()
				retryhttp.BorrowBudget(mux, 3).ServeHTTP(httptest.NewRecorder(), req)
			}()
			assert.Equal(t, "POST /orders/{id}", req.Pattern)
			require.NotNil(t, req.MultipartForm)
			assert.Equal(t, []string{"b"}, req.MultipartForm.Value["a"])
		})
	}
}

// A middleware may pass a request to two handlers at the same time, or go on with a request whose
// handler is late. BorrowBudget must not write to it then: the race detector would find the write.
func TestBorrowBudgetWritesNothingIfTheHandlerHasSetNothing(t *testing.T) {
	h := retryhttp.BorrowBudget(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Method)
	}), 3)
	req, shadow := request(t, "GET"), httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(shadow, req)
	}()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	<-done
	assert.Equal(t, []string{"GET", "GET"}, []string{w.Body.String(), shadow.Body.String()})
}
