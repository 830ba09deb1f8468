package retryconnect

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/goretry/retry/adapters/retryrpc"
)

// WrapStreamingClient implements connect.Interceptor.
func (i *Interceptor) WrapStreamingClient(
	next connect.StreamingClientFunc,
) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		dial := func(
			ctx context.Context, number int, previous retryrpc.Conn,
		) (retryrpc.Conn, retryrpc.Failure) {
			opened := next(ctx, spec)
			if previous, ok := previous.(conn); ok {
				previous.CloseResponse()
				copyHeader(opened.RequestHeader(), previous.RequestHeader())
			}
			numbered(opened.RequestHeader(), number)
			return conn{opened, i.Codes}, retryrpc.Failure{}
		}
		s := &stream{retryrpc.Stream{
			Ctx:    ctx,
			Policy: retryrpc.PolicyOf(spec.Procedure, i.Policy, i.Methods),
			Dial:   dial,
			Size:   size,
			Coded:  coded,
		}}
		s.Open()
		s.Target = i.target(s.Peer())
		return s
	}
}

// copyHeader copies the headers of one attempt to the next attempt. It leaves out the header with
// the timeout, because Connect computes the timeout of each attempt.
func copyHeader(to, from http.Header) {
	for key, values := range from {
		if key != "Connect-Timeout-Ms" && key != "Grpc-Timeout" {
			to[key] = values
		}
	}
}

func size(m any) (bytes int, known bool) {
	if m == nil { // Send(nil) sends only the headers
		return 0, true
	}
	message, known := m.(proto.Message)
	if known {
		bytes = proto.Size(message)
	}
	return bytes, known
}

// A conn is one attempt of a stream.
type conn struct {
	connect.StreamingClientConn
	codes []connect.Code
}

func (c conn) CloseSend() error                   { return c.CloseRequest() }
func (c conn) Failure(err error) retryrpc.Failure { return failure(err, c.codes) }

// A stream is a connect.StreamingClientConn that makes several attempts.
type stream struct{ retryrpc.Stream }

// last returns the last attempt. There is always an attempt, because Dial cannot fail.
func (s *stream) last() conn {
	last, _ := s.Conn()
	return last.(conn)
}

func (s *stream) Spec() connect.Spec         { return s.last().Spec() }
func (s *stream) Peer() connect.Peer         { return s.last().Peer() }
func (s *stream) CloseRequest() error        { return s.CloseSend() }
func (s *stream) RequestHeader() http.Header { return s.last().RequestHeader() }

// ResponseHeader returns the server's headers. Once ResponseHeader has returned headers, there is
// no further attempt, because the headers of a further attempt could differ.
func (s *stream) ResponseHeader() http.Header {
	header := s.last().ResponseHeader()
	if len(header) > 0 {
		s.Final("its headers were read")
	}
	return header
}

func (s *stream) ResponseTrailer() http.Header { return s.last().ResponseTrailer() }

// CloseResponse closes the last attempt's response and cancels its context.
func (s *stream) CloseResponse() error {
	defer s.Close()
	return s.last().CloseResponse()
}
