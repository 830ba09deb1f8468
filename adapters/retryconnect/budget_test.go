package retryconnect_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryconnect"
	"github.com/goretry/retry/adapters/retryrpc/calltest"
	"github.com/goretry/retry/retryhttp"
)

// The client calls A, A calls B, and B calls a leaf, with four attempts each. Under a Budget of
// 3, the leaf gets 4 calls in each protocol. Without the lease of retryhttp it gets 64 calls.
func TestBudgetOverThreeLayers(t *testing.T) {
	for protocol, options := range protocols {
		for name, call := range calls {
			for want, lease := range map[int]bool{64: false, 4: true} {
				t.Run(protocol+" "+name, func(t *testing.T) {
					leaf := &server{answer: alwaysFail(connect.CodeUnavailable)}
					retries := connect.WithInterceptors(&retryconnect.Interceptor{Policy: soon(), Budgets: retryconnect.NoBudgets})
					start := func(s *server) client {
						url, httpClient := serve(t, s.handler())
						if lease {
							url, httpClient = serve(t, retryhttp.BorrowBudget(s.handler(), 3))
							httpClient.Transport = retryhttp.LendBudget(httpClient.Transport, 3)
						}
						return newClient(httpClient, url, append([]connect.ClientOption{retries}, options...)...)
					}
					below := start(leaf)
					for range 2 {
						next := below
						below = start(&server{answer: func(ctx context.Context, _ int) error {
							return connect.NewError(connect.CodeOf(call(ctx, next)), errors.New("below"))
						}})
					}
					budget := &retry.Budget{Size: 3}
					err := call(retry.WithBudget(t.Context(), budget), below)
					assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
					assert.Equal(t, []int{want, 0}, []int{leaf.attempts(), budget.Left()})
				})
			}
		}
	}
}

func TestBlips(t *testing.T) {
	calltest.Blips(t, func(t *testing.T, up func() bool) func(context.Context) error {
		client := newClient(&http.Client{Transport: answers(up)}, "http://orders", connect.WithInterceptors(&retryconnect.Interceptor{Policy: retry.Default()}))
		return func(ctx context.Context) error { return calls["unary"](ctx, client) }
	})
}

// answers is a transport to a server in memory that answers if it is up.
type answers func() bool

func (up answers) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/proto"}}, Body: http.NoBody, Request: req}
	if !up() {
		resp.StatusCode, resp.Header = 503, http.Header{"Content-Type": {"application/json"}}
		resp.Body = io.NopCloser(strings.NewReader(`{"code": "unavailable"}`))
	}
	return resp, nil
}

// All kinds of calls to a target share its Budget.
func TestBudgetOfATarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int64
		down := answers(func() bool { attempts.Add(1); return false })
		client := newClient(&http.Client{Transport: down}, "http://down.test", connect.WithInterceptors(&retryconnect.Interceptor{Policy: soon()}))
		for range 5 {
			for _, call := range calls {
				_ = call(t.Context(), client)
				time.Sleep(time.Second) // the Grace is over before the Budget is empty
			}
		}
		assert.EqualValues(t, 5*len(calls)+10, attempts.Load())
		err := calls["unary"](t.Context(), client)
		assert.ErrorContains(t, err, "see Interceptor.Budgets")
		assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(err))
	})
	s, targets := &server{answer: alwaysFail(connect.CodeUnavailable)}, map[string]bool{}
	client := s.start(t, &retryconnect.Interceptor{Policy: soon(), Budgets: func(target string) *retry.Budget {
		targets[target] = true
		return retryconnect.NoBudgets(target)
	}})
	for name, call := range calls {
		before := s.attempts()
		_ = call(t.Context(), client)
		assert.Equal(t, 4, s.attempts()-before, name)
	}
	assert.Len(t, targets, 1)
	for target := range targets {
		assert.Regexp(t, `^127\.0\.0\.1:\d+$`, target)
	}
}
