package retryhttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// The function `spend` makes up to n retries under ctx, and returns why the retries ended.
//
// `spend` ignores the end of ctx, because net/http cancels the context of a handler if the client
// has gone.
func spend(ctx context.Context, n int) retry.Reason {
	return retry.ReasonOf(retry.Do(context.WithoutCancel(ctx), retry.Policy{MaxRetries: n, Backoff: retry.Fixed(0)}, func(context.Context) error { return errReset }))
}

// noNumbers lists values that are not one or more ASCII digits.
var noNumbers = []string{"", "+1", "-1", " 1", "1 ", "1.5", "0x2", "1e3", "1, 1", "1,", "\u0661", "\u0e52"}

// The function `lends` returns a Budget of 5 retries, and a GET of `url` whose context has this
// Budget.
func lends(t *testing.T, url string) (*retry.Budget, *http.Request) {
	budget := &retry.Budget{Size: 5}
	req, err := http.NewRequestWithContext(retry.WithBudget(t.Context(), budget), "GET", url, nil)
	require.NoError(t, err)
	return budget, req
}

// The function `leases` returns the Retry-Budget of each request that was sent, or "-" for a
// request without one.
func leases(base *scripted) string {
	var all []string
	for _, req := range base.sent {
		all = append(all, append(req.Header["Retry-Budget"], "-")[0])
	}
	return strings.Join(all, " ")
}

// A server gets 3 of 5 retries. It can keep these 3 retries, but cannot take other retries of the
// client.
func TestLeaseComesBack(t *testing.T) {
	fails := func(err error) roundTrip { return script(err).RoundTrip }
	// The function `reports` returns a Base whose answers have these values of Retry-Budget-Spent.
	reports := func(values ...string) roundTrip {
		return func(req *http.Request) (*http.Response, error) {
			resp := response(200)
			resp.Header["Retry-Budget-Spent"], resp.Request = values, req
			return resp, nil
		}
	}
	var cancel context.CancelFunc // cancels the context of the request
	type row struct {
		name string
		base roundTrip
		left int
	}
	rows := []row{
		{"no report", reports(), 5},
		{"two reports", reports("1", "2"), 3},
		{"an answer from a cache", func(req *http.Request) (*http.Response, error) {
			resp, err := reports("3")(req)
			resp.Header.Set("Age", "0")
			return resp, err
		}, 5},
		{"no answer, and it is not known what was sent", fails(errReset), 2},
		{"no header was written", traced("asks got", fails(errReset)), 5},
		{"no header was written, because it was canceled", traced("asks got", func(*http.Request) (*http.Response, error) {
			cancel()
			return nil, errReset
		}), 2},
		{"no header was written, and base timed out", traced("asks got", fails(context.DeadlineExceeded)), 2},
		{"refused over HTTP/2", traced("asks got wrote", fails(errors.New(orderlyGoAway))), 5},
		{"the answer is lost", traced("asks got wrote", fails(errReset)), 2},
		{"net/http sent the request twice", traced("asks got wrote wrote", reports("0")), 2},
		{"neither an answer nor an error", func(*http.Request) (*http.Response, error) { return nil, nil }, 2},
		{"an error that panics", fails(panicker{"Error"}), 2},
		{"a panic", func(*http.Request) (*http.Response, error) { panic("base") }, 2},
	}
	for text, left := range map[string]int{"0": 5, "1": 4, "3": 2, "0000000000000000000000001": 4, "4": 2, "18446744073709551617": 2} {
		rows = append(rows, row{text, reports(text), left})
	}
	for _, text := range noNumbers {
		rows = append(rows, row{"not a number: " + text, reports(text), 2})
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			budget, req := lends(t, "http://a/")
			req.Header.Set("Retry-Budget", "77") // the caller's own
			ctx, stop := context.WithCancel(req.Context())
			defer stop()
			req, cancel = req.WithContext(ctx), stop
			var resp *http.Response
			func() {
				defer func() { _ = recover() }()
				resp, _ = retryhttp.LendBudget(roundTrip(func(sent *http.Request) (*http.Response, error) {
					assert.Equal(t, 2, budget.Left(), "meanwhile")
					assert.Equal(t, []string{"3"}, sent.Header["Retry-Budget"])
					return row.base(sent)
				}), 3).RoundTrip(req)
			}()
			assert.Equal(t, row.left, budget.Left())
			assert.Equal(t, []string{"77"}, req.Header["Retry-Budget"], "the caller's request is not changed")
			if resp != nil {
				assert.NotContains(t, resp.Header, "Retry-Budget-Spent", "the report is only for the lender")
				assert.Same(t, req, resp.Request)
			}
		})
	}
}

// If another attempt may follow, an attempt lends all retries that are left but one. Under a Hedge,
// a second request may follow at the same time. This second request lends what the first request
// has left in the Budget.
func TestLeaseOfEachAttempt(t *testing.T) {
	for _, row := range []struct {
		name   string
		sizes  []int // the sizes of the Budgets
		most   int
		policy *retry.Policy // nil: no Transport
		below  bool          // the lender is below a second Transport, which sends once
		hedge  time.Duration
		sent   string // the Retry-Budget of each attempt; "-": no header
	}{
		{"two attempts", []int{3}, 9, &retry.Policy{MaxAttempts: 2}, false, 0, "2 2"},
		{"four attempts", []int{3}, 9, &retry.Policy{MaxAttempts: 4}, false, 0, "2 1 0 0"},
		{"unlimited attempts", []int{1}, 9, &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Nanosecond)}, false, 0, "0 0"},
		{"two attempts, each of which may count as the first", []int{3}, 9, &retry.Policy{MaxAttempts: 2, HealthyAfter: time.Hour}, false, 0, "2 1"},
		{"one attempt, and HealthyAfter", []int{3}, 9, &retry.Policy{MaxAttempts: 1, HealthyAfter: time.Hour}, false, 0, "3"},
		{"a policy that never retries", []int{3}, 9, new(retry.Policy), false, 0, "3"},
		{"two attempts, and a Transport below that sends once", []int{3}, 9, &retry.Policy{MaxAttempts: 2}, true, 0, "2 2"},
		{"a policy that never retries, and a Transport below", []int{3}, 9, new(retry.Policy), true, 0, "3"},
		{"a Trailer", []int{3}, 9, &retry.Policy{MaxAttempts: 2}, false, 0, "3"},
		{"no Transport", []int{3}, 9, nil, false, 0, "2"},
		{"a limit of 5", []int{100}, 5, nil, false, 0, "5"},
		{"a negative limit", []int{100}, -1, nil, false, 0, "0"},
		{"two Budgets, one of them empty", []int{3, 0}, 9, &retry.Policy{MaxAttempts: 4}, false, 0, "0"},
		{"no Budget", nil, 9, &retry.Policy{MaxAttempts: 2}, false, 0, "- -"},
		{"a Hedge", []int{5}, 2, nil, false, 50 * ms, "2 1"},
		{"a Hedge, and two attempts", []int{5}, 2, &retry.Policy{MaxAttempts: 2}, false, 50 * ms, "2 1 2 0"},
		{"a Hedge, and a policy that never retries", []int{3}, 9, new(retry.Policy), false, 50 * ms, "3"},
		{"a Hedge, and an empty Budget", []int{0}, 9, new(retry.Policy), false, 50 * ms, "0"},
	} {
		bubble(t, row.name, func(t *testing.T) {
			ctx, base := t.Context(), script(reply{after: 70 * ms, status: 503})
			for _, size := range row.sizes {
				ctx = retry.WithBudget(ctx, &retry.Budget{Size: size})
			}
			rt := retryhttp.LendBudget(base, row.most)
			if row.hedge > 0 {
				rt = &retryhttp.Hedge{Base: rt, After: row.hedge}
			}
			if row.below {
				rt = &retryhttp.Transport{Base: rt}
			}
			if row.policy != nil {
				rt = &retryhttp.Transport{Base: rt, Policy: *row.policy}
			}
			req := request(t, "GET").WithContext(ctx)
			if row.name == "a Trailer" {
				req.Trailer = http.Header{}
			}
			send(t, rt, req)
			assert.Equal(t, row.sent, leases(base))
		})
	}
}

// A request that a redirect has led to another scheme or host carries no lease, even if a second
// redirect has led it back.
func TestLeaseIsNotSentAfterARedirect(t *testing.T) {
	for path, want := range map[string]string{
		"http://a/1 http://a/2 http://a/3": "3 3 3",
		"http://a/1 http://b/2 http://a/3": "3 - -",
		"http://a/1 http://b/2 http://b/3": "3 - -",
		"http://a/1 http://a:81/2":         "3 -",
		"http://a/1 https://a/2":           "3 -",
	} {
		for _, bare := range []bool{false, true} { // without a Transport, a response may lack its Request
			t.Run(fmt.Sprint(path, ", bare: ", bare), func(t *testing.T) {
				hops, base := strings.Fields(path), script()
				for _, next := range hops[1:] {
					base.steps = append(base.steps, response(302, "Location", next))
				}
				base.steps = append(base.steps, 200)
				rt := retryhttp.LendBudget(base, 3)
				if !bare {
					rt = &retryhttp.Transport{Base: rt, Policy: retry.Policy{MaxAttempts: 2}}
				}
				_, req := lends(t, hops[0])
				_, err := (&http.Client{Transport: rt}).Do(req)
				require.NoError(t, err)
				assert.Equal(t, want, leases(base))
			})
		}
	}
}

// A lentRequest is a request under a Budget of 3 to a server that aborts the connection.
type lentRequest struct {
	method, key, body string
	calls, proxied    int64 // how many requests reach the leaf below two services, or below two proxies
}

var lentRequests = []lentRequest{
	{"", "", "", 4, 4},
	{"GET", "", "", 4, 4},
	{"GET", "", "data", 4, 2},
	{"HEAD", "", "", 4, 4},
	{"OPTIONS", "", "", 4, 4},
	{"TRACE", "", "", 4, 4},
	{"PUT", "", "", 4, 4},
	{"PUT", "", "data", 4, 2}, // a proxy cannot send a body again
	{"PATCH", "Idempotency-Key", "data", 4, 2},
	{"POST", "X-Idempotency-Key", "data", 4, 2},
	{"POST", "Idempotency-Key", "", 4, 4},
	{"FROB", "Idempotency-Key", "data", 4, 2},
	{"POST", "", "", 1, 1},
	{"POST", "", "data", 1, 1},
	{"FROB", "", "", 1, 1},
}

func (r lentRequest) to(ctx context.Context, url string) *http.Request {
	req, _ := http.NewRequestWithContext(ctx, r.method, url, nil)
	req.Method = r.method // NewRequest turns "" into GET
	if r.body != "" {
		_ = retryhttp.SetBody(req, strings.NewReader(r.body), 0)
	}
	if r.key != "" {
		req.Header.Set(r.key, "1")
	}
	return req
}

// byMethod reports whether net/http repeats the request without an Idempotency-Key or GetBody.
func (r lentRequest) byMethod() bool {
	return r.body == "" && slices.Contains([]string{"", "GET", "HEAD", "OPTIONS", "TRACE"}, r.method)
}

// If the server has closed an idle connection, net/http itself repeats a request. With LendBudget,
// the Transport makes the repeat instead, and counts it as a retry.
func TestLeaseOnIdleConnections(t *testing.T) {
	for _, row := range lentRequests {
		for _, kept := range []int{0, 1, 2, 10} {
			for name, start := range map[string]func(*httptest.Server){"HTTP/1": http1, "HTTP/2": unencrypted} {
				for proxied, want := range map[bool]int64{false: row.calls, true: row.proxied} {
					if name == "HTTP/2" && kept == 0 && proxied && row.byMethod() {
						want = 2 // before the first answer, the lender does not know the protocol
					}
					t.Run(fmt.Sprintf("%s %s %s %s, %d connections, proxied: %v", name, row.method, row.key, row.body, kept, proxied), func(t *testing.T) {
						assert.Equal(t, want, callsOfTheLeaf(t, start, row, kept, proxied))
					})
				}
			}
		}
	}
}

// If an HTTP/2 server refuses a request, it has spent nothing of the lease. net/http repeats the
// request with the same lease, and the unspent retries come back. A GET to a host whose protocol is
// still unknown is repeated by the Transport, which counts the retry.
func TestLeaseOfARefusedStream(t *testing.T) {
	for name, refuse := range map[string]func(h2conn, uint32){
		"REFUSED_STREAM": func(c h2conn, stream uint32) { c.reset(stream, 0x7) },
		"orderly GOAWAY": func(c h2conn, _ uint32) { c.goAway(0, 0) },
	} {
		for _, row := range lentRequests {
			// The key is the number of the refused request. The first answer tells the lender the
			// protocol.
			for refused, left := range map[int64]int{1: 5, 2: 5} {
				if refused == 1 && slices.Contains([]string{"", "GET", "HEAD", "OPTIONS", "TRACE"}, row.method) {
					left = 1 // the lease of 3 is lost, and the Transport has taken 1
				}
				t.Run(fmt.Sprintf("%s, %s %s %s, request %d", name, row.method, row.key, row.body, refused), func(t *testing.T) {
					var asked atomic.Int64
					base := http2Server(t, func(c h2conn, stream uint32) {
						if asked.Add(1) == refused {
							refuse(c, stream)
						} else {
							c.answer(stream)
						}
					})
					tr := &retryhttp.Transport{Base: retryhttp.LendBudget(base, 3), Policy: retry.Policy{MaxAttempts: 3}}
					budget := &retry.Budget{Size: 5}
					for range refused {
						resp := send(t, tr, row.to(retry.WithBudget(t.Context(), budget), "http://example.test/"))
						assert.NoError(t, retryhttp.ErrorOf(resp))
						textOf(t, resp)
					}
					assert.Equal(t, [2]int64{refused + 1, int64(left)}, [2]int64{asked.Load(), int64(budget.Left())})
				})
			}
		}
	}
}

// A host speaks sometimes HTTP/1 and sometimes HTTP/2. If net/http repeats a request over HTTP/1,
// the repeat lends no retries.
func TestLeaseOverBothProtocols(t *testing.T) {
	for _, row := range lentRequests {
		for asked, want := range map[string][]string{"1": {"3"}, "212": {"0", "0"}, "2o": {"0", "0"}, "o": {"0", "0"}, "2": {"3"}, "": {"3"}, "n": {"3"}} { // o: another client asks, over HTTP/1; n: there is no Budget, over HTTP/1
			if isGet := slices.Contains([]string{"", "GET", "HEAD", "OPTIONS", "TRACE"}, row.method); len(want) == 2 && !isGet {
				want = []string{"0"}
			}
			t.Run(fmt.Sprintf("%s %s %s after %s", row.method, row.key, row.body, asked), func(t *testing.T) {
				var aborts atomic.Bool
				leases := make(chan string, 9)
				s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
					if aborts.Load() {
						leases <- r.Header.Get("Retry-Budget")
						panic(http.ErrAbortHandler)
					}
				}, http2)
				over2 := s.Client().Transport.(*http.Transport)
				over1 := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: over2.TLSClientConfig.RootCAs}}
				t.Cleanup(over1.CloseIdleConnections)
				base := over1
				lender := retryhttp.LendBudget(roundTrip(func(req *http.Request) (*http.Response, error) { return base.RoundTrip(req) }), 3)
				for _, by := range asked {
					_, req := lends(t, s.URL)
					if by == 'n' {
						req = req.WithContext(t.Context())
					}
					base = map[rune]*http.Transport{'1': over1, '2': over2, 'n': over1}[by]
					textOf(t, send(t, map[rune]http.RoundTripper{'1': lender, '2': lender, 'n': lender, 'o': over1}[by], req))
				}
				base = over1
				aborts.Store(true)
				_, err := lender.RoundTrip(row.to(retry.WithBudget(t.Context(), &retry.Budget{Size: 4}), s.URL))
				assert.Error(t, err)
				for _, lent := range want {
					assert.Equal(t, lent, <-leases)
				}
				assert.Empty(t, leases)
			})
		}
	}
}

// A GET that lends retries arrives without a body. If the host speaks HTTP/2 over TLS, net/http
// would send an empty body as a body of unknown length. A proxy could not send such a body again,
// and some servers refuse such a body. Therefore not even the first GET to such a host has a body.
func TestAGetThatLendsArrivesWithoutABody(t *testing.T) {
	for name, start := range protocols {
		t.Run(name, func(t *testing.T) {
			var lengths []int64
			s := serve(t, func(_ http.ResponseWriter, r *http.Request) { lengths = append(lengths, r.ContentLength) }, start)
			lender := retryhttp.LendBudget(s.Client().Transport, 3)
			for length := range int64(2) {
				_, req := lends(t, s.URL)
				req.Body, req.ContentLength = http.NoBody, length // which net/http ignores
				textOf(t, send(t, lender, req))
			}
			assert.Equal(t, []int64{0, 0}, lengths)
		})
	}
}

// A lender stores the protocol of at most 1,000 hosts, and does not keep their URLs in memory.
func TestLenderForgets(t *testing.T) {
	protocol, bodies := 2, ""
	lender := retryhttp.LendBudget(roundTrip(func(req *http.Request) (*http.Response, error) {
		bodies += map[bool]string{false: "-", true: "b"}[req.Body != nil] // an empty body is for HTTP/1
		resp := response(200)
		resp.ProtoMajor = protocol
		return resp, nil
	}), 3)
	asks := func(from, to int) {
		for n := from; n < to; n++ {
			_, req := lends(t, fmt.Sprintf("http://h%d.test/?q=%s", n, strings.Repeat("x", 50<<10)))
			send(t, lender, req)
		}
	}
	before := heap()
	asks(0, 1000)
	asks(0, 1)
	assert.Equal(t, strings.Repeat("b", 1000)+"-", bodies)
	protocol = 1
	asks(0, 500)
	assert.Less(t, heap()-before, int64(5<<20))
	protocol, bodies = 2, ""
	asks(999, 1001) // the second host is not stored yet
	asks(999, 1000)
	asks(999, 1000)
	assert.Equal(t, "-bb-", bodies)
	runtime.KeepAlive(lender)
}

// heap returns the size of all live objects in bytes.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// unencrypted starts a server that speaks HTTP/2 without TLS.
func unencrypted(s *httptest.Server) {
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	s.Client().Transport.(*http.Transport).Protocols = s.Config.Protocols
}

// callsOfTheLeaf sends one request under a Budget of 3 to a chain of three servers, which abort it.
// It returns how many requests reach the lowest server. Before that, each server has answered
// "kept" requests at once, so each client has this many idle connections.
func callsOfTheLeaf(t *testing.T, start func(*httptest.Server), request lentRequest, kept int, proxied bool) int64 {
	var calls atomic.Int64
	var aborts atomic.Bool
	var together sync.WaitGroup
	together.Add(kept)
	next := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if aborts.Load() {
			calls.Add(1)
			panic(http.ErrAbortHandler)
		}
		together.Done()
		together.Wait()
	}, start)
	lending := func(s *httptest.Server) *retryhttp.Transport {
		base := s.Client().Transport.(*http.Transport)
		base.MaxIdleConnsPerHost = kept
		return &retryhttp.Transport{Base: retryhttp.LendBudget(base, 3), Policy: retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(0)}}
	}
	for range 2 {
		target, tr := next.URL, lending(next)
		next = serve(t, retryhttp.BorrowBudget(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if to, _ := url.Parse(target); proxied {
				proxy := httputil.NewSingleHostReverseProxy(to)
				proxy.Transport, proxy.ErrorLog = tr, log.New(io.Discard, "", 0)
				proxy.ServeHTTP(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			assert.Equal(t, request.key != "", r.Header.Get(request.key) == "1", "the key arrives")
			if resp, err := tr.RoundTrip(request.to(r.Context(), target)); err == nil {
				_ = resp.Body.Close()
				return
			}
			panic(http.ErrAbortHandler)
		}), 3).ServeHTTP, start)
	}
	client := &http.Client{Transport: lending(next)}
	ask := func() {
		if resp, err := client.Do(request.to(retry.WithBudget(t.Context(), &retry.Budget{Size: 3}), next.URL)); err == nil {
			_ = resp.Body.Close()
		}
	}
	var asking sync.WaitGroup
	for range kept {
		asking.Go(ask)
	}
	asking.Wait()
	aborts.Store(true)
	ask()
	return calls.Load()
}
