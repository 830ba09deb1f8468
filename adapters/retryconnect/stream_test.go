package retryconnect_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryconnect"
)

func TestMessagesAndHeadersAreSentAgain(t *testing.T) {
	for protocol, options := range protocols {
		s := &server{answer: failTimes(2, connect.CodeUnavailable)}
		stream := s.start(t, &retryconnect.Interceptor{Policy: soon()}, options...).up.CallClientStream(t.Context())
		stream.RequestHeader().Set("Tenant", "a")
		for _, body := range []string{"a", "b", "c"} {
			require.NoError(t, stream.Send(wrapperspb.String(body)), protocol)
		}
		resp, err := stream.CloseAndReceive()
		require.NoError(t, err, protocol)
		assert.Equal(t, "attempt 3", resp.Msg.GetValue(), protocol)
		assert.Equal(t, [][]string{{"a", "b", "c"}, {"a", "b", "c"}, {"a", "b", "c"}}, s.received, protocol)
		assert.Equal(t, []string{"none", "1", "2"}, s.previous, protocol)
		assert.Equal(t, []string{"a", "a", "a"}, s.tenants, protocol)
	}
}

func TestAServerStreamIsRetriedUntilItsFirstMessage(t *testing.T) {
	for protocol, options := range protocols {
		for _, tc := range []struct {
			messages, attempts int
			reason             retry.Reason
		}{{0, 4, retry.ReasonExhausted}, {1, 1, ""}, {2, 1, ""}} {
			s := &server{answer: alwaysFail(connect.CodeUnavailable), messages: tc.messages}
			req := connect.NewRequest(wrapperspb.String("q"))
			req.Header().Set("Tenant", "a")
			stream, err := s.start(t, &retryconnect.Interceptor{Policy: soon()}, options...).down.CallServerStream(t.Context(), req)
			require.NoError(t, err, protocol)
			received := 0
			for stream.Receive() {
				received++
			}
			assert.Equal(t, tc.messages, received, protocol)
			assert.Equal(t, tc.attempts, s.attempts(), protocol)
			assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(stream.Err()), protocol)
			assert.Equal(t, tc.reason, retry.ReasonOf(stream.Err()), "after the first message, errors come from Connect unchanged: %s", protocol)
			assert.NoError(t, stream.Close(), protocol)
			for _, tenant := range s.tenants {
				assert.Equal(t, "a", tenant, protocol)
			}
		}
	}
}

// Each attempt sends its own remaining time to the server, and not the time of the first
// attempt.
func TestTheDeadlineOfAnAttempt(t *testing.T) {
	for protocol, key := range map[string]string{"Connect": "Connect-Timeout-Ms", "gRPC": "Grpc-Timeout"} {
		s := &server{answer: failTimes(1, connect.CodeUnavailable)}
		var timeouts []string
		url, http := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			timeouts = append(timeouts, r.Header.Get(key))
			s.handler().ServeHTTP(w, r)
		}))
		p := soon()
		p.Backoff = retry.Fixed(5 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c := newClient(http, url, append(protocols[protocol], connect.WithInterceptors(&retryconnect.Interceptor{Policy: p}))...)
		require.NoError(t, calls["client stream"](ctx, c), protocol)
		require.Len(t, timeouts, 2, protocol)
		assert.NotEqual(t, timeouts[0], timeouts[1], protocol)
	}
}

// Send(nil) sends only the headers.
func TestAStreamOfHeaders(t *testing.T) {
	s := &server{answer: failTimes(1, connect.CodeUnavailable)}
	stream := s.start(t, &retryconnect.Interceptor{Policy: soon()}).up.CallClientStream(t.Context())
	require.NoError(t, stream.Send(nil))
	require.NoError(t, stream.Send(wrapperspb.String("a")))
	resp, err := stream.CloseAndReceive()
	require.NoError(t, err)
	assert.Equal(t, "attempt 2", resp.Msg.GetValue())
	assert.Equal(t, [][]string{{"a"}, {"a"}}, s.received)
}

func TestHeadersEndTheRetries(t *testing.T) {
	s := &server{answer: alwaysFail(connect.CodeUnavailable)}
	stream, err := s.start(t, &retryconnect.Interceptor{Policy: soon()}).down.CallServerStream(t.Context(), connect.NewRequest(wrapperspb.String("")))
	require.NoError(t, err)
	assert.NotEmpty(t, stream.ResponseHeader())
	assert.False(t, stream.Receive())
	assert.ErrorContains(t, stream.Err(), "(not retried: its headers were read)")
	assert.Equal(t, 1, s.attempts())
}
