package retryconnect_test

import (
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/readmetest"
	"github.com/goretry/retry/adapters/retryconnect"
)

func TestREADME(t *testing.T) { readmetest.Run(t) }

// A generated stands for a package that protoc-gen-connect-go generates. Its
// clients call the server of the test.
type generated struct {
	OrdersChargeProcedure string

	http *http.Client
	url  string
}

func (g generated) NewOrdersClient(_ connect.HTTPClient, _ string, options ...connect.ClientOption) client {
	return newClient(g.http, g.url, options...)
}

// The test contains the snippet of the README and runs it once.
func TestREADMEInterceptor(t *testing.T) {
	s := &server{answer: failTimes(2, connect.CodeUnavailable)}
	ordersconnect := generated{OrdersChargeProcedure: unary}
	ordersconnect.url, ordersconnect.http = serve(t, s.handler())

	retries := &retryconnect.Interceptor{
		Policy: retry.Default(), // 5 attempts, 200ms x2, at most 5s, ±50 %
		Methods: map[string]retry.Policy{
			ordersconnect.OrdersChargeProcedure: {NonRetryable: true}, // must not run twice
		},
	}
	client := ordersconnect.NewOrdersClient(http.DefaultClient, "https://orders.internal",
		connect.WithInterceptors(retries))

	assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(calls["unary"](t.Context(), client)))
	assert.Equal(t, 1, s.attempts())
	require.NoError(t, calls["server stream"](t.Context(), client))
	assert.Equal(t, 3, s.attempts())
}
