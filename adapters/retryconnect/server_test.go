package retryconnect_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryconnect"
	"github.com/goretry/retry/adapters/retryrpc/calltest"
)

// The procedures of the service. All their messages are strings.
const (
	unary  = "/test.Texts/Unary"
	down   = "/test.Texts/Down"   // a server stream
	up     = "/test.Texts/Up"     // a client stream
	duplex = "/test.Texts/Duplex" // a stream in both directions
)

type text = wrapperspb.StringValue

// A server gives scripted answers and records what it receives.
type server struct {
	answer   func(ctx context.Context, attempt int) error
	messages int // how many messages the two streams from the server send before the answer

	mu       sync.Mutex
	previous []string   // grpc-previous-rpc-attempts of each attempt
	tenants  []string   // the caller's header Tenant in each attempt
	received [][]string // the messages of each attempt
}

func (s *server) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.previous)
}

// begin records an attempt and returns its number.
func (s *server) begin(header http.Header) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	previous := "none"
	if values := header.Values("Grpc-Previous-Rpc-Attempts"); len(values) > 0 {
		previous = values[0]
	}
	s.previous = append(s.previous, previous)
	s.tenants = append(s.tenants, header.Get("Tenant"))
	s.received = append(s.received, nil)
	return len(s.previous)
}

func (s *server) receive(attempt int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(body) > 20 {
		body = strconv.Itoa(len(body))
	}
	s.received[attempt-1] = append(s.received[attempt-1], body)
}

func (s *server) unary(ctx context.Context, r *connect.Request[text]) (*connect.Response[text], error) {
	n := s.begin(r.Header())
	s.receive(n, r.Msg.GetValue())
	if err := s.answer(ctx, n); err != nil {
		return nil, err
	}
	return connect.NewResponse(wrapperspb.String("attempt " + strconv.Itoa(n))), nil
}

func (s *server) down(ctx context.Context, r *connect.Request[text], stream *connect.ServerStream[text]) error {
	n := s.begin(r.Header())
	s.receive(n, r.Msg.GetValue())
	for range s.messages {
		if err := stream.Send(wrapperspb.String("")); err != nil {
			return err
		}
	}
	return s.answer(ctx, n)
}

func (s *server) up(ctx context.Context, stream *connect.ClientStream[text]) (*connect.Response[text], error) {
	n := s.begin(stream.RequestHeader())
	for stream.Receive() {
		s.receive(n, stream.Msg().GetValue())
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	if err := s.answer(ctx, n); err != nil {
		return nil, err
	}
	return connect.NewResponse(wrapperspb.String("attempt " + strconv.Itoa(n))), nil
}

// duplex answers after it has received the first message.
func (s *server) duplex(ctx context.Context, stream *connect.BidiStream[text, text]) error {
	n := s.begin(stream.RequestHeader())
	r, err := stream.Receive()
	if err != nil {
		return err
	}
	s.receive(n, r.GetValue())
	for range s.messages {
		if err := stream.Send(wrapperspb.String("")); err != nil {
			return err
		}
	}
	if err := s.answer(ctx, n); err != nil {
		return err
	}
	return stream.Send(wrapperspb.String("attempt " + strconv.Itoa(n)))
}

// handler returns the service.
func (s *server) handler(options ...connect.HandlerOption) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(unary, connect.NewUnaryHandler(unary, s.unary, options...))
	mux.Handle(down, connect.NewServerStreamHandler(down, s.down, options...))
	mux.Handle(up, connect.NewClientStreamHandler(up, s.up, options...))
	mux.Handle(duplex, connect.NewBidiStreamHandler(duplex, s.duplex, options...))
	return mux
}

// serve serves a handler on a port of 127.0.0.1 until the test ends, by HTTP/2 without TLS. It
// returns the URL of the server and an HTTP client.
func serve(t testing.TB, handler http.Handler) (url string, client *http.Client) {
	t.Helper()
	srv := httptest.NewUnstartedServer(handler)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	srv.Config.Protocols = &protocols
	srv.Start()
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL, &http.Client{Transport: transport}
}

// A client has the procedures of one server.
type client struct {
	unary, down, up, duplex *connect.Client[text, text]
}

func newClient(http *http.Client, url string, options ...connect.ClientOption) client {
	of := func(procedure string) *connect.Client[text, text] {
		return connect.NewClient[text, text](http, url+procedure, options...)
	}
	return client{of(unary), of(down), of(up), of(duplex)}
}

// start serves s and returns a client that retries with i.
func (s *server) start(t testing.TB, i *retryconnect.Interceptor, options ...connect.ClientOption) client {
	t.Helper()
	url, http := serve(t, s.handler())
	return newClient(http, url, append(options, connect.WithInterceptors(i))...)
}

// calls makes each kind of call, up to its first message.
var calls = map[string]func(context.Context, client) error{
	"unary": func(ctx context.Context, c client) error {
		_, err := c.unary.CallUnary(ctx, connect.NewRequest(wrapperspb.String("")))
		return err
	},
	"server stream": func(ctx context.Context, c client) error {
		stream, err := c.down.CallServerStream(ctx, connect.NewRequest(wrapperspb.String("")))
		if err != nil {
			return err
		}
		stream.Receive()
		return errors.Join(stream.Err(), stream.Close())
	},
	"client stream": func(ctx context.Context, c client) error {
		stream := c.up.CallClientStream(ctx)
		for range 3 {
			if err := stream.Send(wrapperspb.String("")); err != nil {
				return err
			}
		}
		_, err := stream.CloseAndReceive()
		return err
	},
	"stream in both directions": func(ctx context.Context, c client) error {
		stream := c.duplex.CallBidiStream(ctx)
		if err := stream.Send(wrapperspb.String("")); err != nil {
			return err
		}
		_, err := stream.Receive()
		return errors.Join(err, stream.CloseRequest(), stream.CloseResponse())
	},
}

// protocols contains the client options for each protocol.
var protocols = map[string][]connect.ClientOption{
	"Connect":  {},
	"gRPC":     {connect.WithGRPC()},
	"gRPC-Web": {connect.WithGRPCWeb()},
}

// failTimes returns an answer that fails n times with a code and then succeeds.
func failTimes(n int, code connect.Code) func(context.Context, int) error {
	return func(_ context.Context, attempt int) error {
		if attempt <= n {
			return connect.NewError(code, errors.New("failure "+strconv.Itoa(attempt)))
		}
		return nil
	}
}

// alwaysFail returns an answer that always fails with a code.
func alwaysFail(code connect.Code) func(context.Context, int) error { return failTimes(1<<30, code) }

func failed(code connect.Code) *connect.Error { return connect.NewError(code, errors.New("failure")) }

// withHeader returns an error with metadata, which some protocols send as a header
// and others as a trailer.
func withHeader(code connect.Code, key, value string) error {
	err := failed(code)
	err.Meta().Set(key, value)
	return err
}

// withRetryInfo returns an error that asks for a wait.
func withRetryInfo(code connect.Code, wait time.Duration) *connect.Error {
	err := failed(code)
	if detail, detailErr := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}); detailErr == nil {
		err.AddDetail(detail)
	}
	return err
}

// script gives the answers of a row of the table.
func script(answer func(attempt int) calltest.Answer) func(context.Context, int) error {
	return func(ctx context.Context, attempt int) error {
		switch answer(attempt) {
		case calltest.OK:
			return nil
		case calltest.Down:
			return failed(connect.CodeUnavailable)
		case calltest.Busy:
			return withRetryInfo(connect.CodeResourceExhausted, calltest.Wait)
		case calltest.Hang:
			<-ctx.Done()
			return ctx.Err()
		default:
			return failed(connect.CodeInvalidArgument)
		}
	}
}

// soon is a policy with four attempts and very short delays.
func soon() retry.Policy {
	return retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Millisecond)}
}

func TestTable(t *testing.T) {
	for protocol, options := range protocols {
		for name, call := range calls {
			t.Run(protocol+" "+name, func(t *testing.T) {
				calltest.Run(t, func(ctx context.Context, p retry.Policy, answer func(attempt int) calltest.Answer) (int, error) {
					s := &server{answer: script(answer)}
					err := call(ctx, s.start(t, &retryconnect.Interceptor{Policy: p}, options...))
					return s.attempts(), err
				}, nil)
			})
		}
	}
}
