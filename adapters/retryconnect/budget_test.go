package retryconnect_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/calltest"
	"github.com/goretry/retry/adapters/retryconnect"
	"github.com/goretry/retry/retryhttp"
)

// Client, A, B and a leaf, four attempts each: under a Budget of 3 the leaf gets 4 calls
// in each protocol, and 64 without the lease, which is that of retryhttp.
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

func TestBudgets(t *testing.T) {
	calltest.Budgets(t, func(p retry.Policy, budgets func(string) *retry.Budget) func(context.Context) error {
		client := (&server{answer: alwaysFail(connect.CodeUnavailable)}).start(t, &retryconnect.Interceptor{Policy: p, Budgets: budgets})
		names := slices.Sorted(maps.Keys(calls))
		return func(ctx context.Context) error {
			names = append(names[1:], names[0])
			return calls[names[0]](ctx, client)
		}
	}, retryconnect.NoBudgets)
}

func TestBlip(t *testing.T) {
	calltest.Blip(t, func(t *testing.T, up func() bool) func(context.Context) error {
		interceptor := &retryconnect.Interceptor{Policy: retry.Default()}
		client := connect.NewClient[text, text](answers(up), "http://orders", connect.WithInterceptors(interceptor))
		return func(ctx context.Context) error {
			_, err := client.CallUnary(ctx, connect.NewRequest(&text{}))
			return err
		}
	})
}

// answers is a client of a server that answers if it is up.
type answers func() bool

func (up answers) Do(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/proto"}}, Body: http.NoBody, Request: req}
	if !up() {
		resp.StatusCode, resp.Header = 503, http.Header{"Content-Type": {"application/json"}}
		resp.Body = io.NopCloser(strings.NewReader(`{"code": "unavailable"}`))
	}
	return resp, nil
}
