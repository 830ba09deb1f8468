package retrygrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/goretry/retry/adapters/retryrpc"
)

func (i Interceptor) stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	p := retryrpc.PolicyOf(method, i.Policy, i.Methods)
	last := lastAttempt(p)
	dial := func(
		ctx context.Context, number int, _ retryrpc.Conn,
	) (retryrpc.Conn, retryrpc.Failure) {
		if ctx.Err() != nil {
			return nil, failure(coded(ctx.Err()), false, nil, i.Codes)
		}
		opened, err := streamer(numbered(ctx, number, last), desc, cc, method, opts...)
		if err != nil {
			return nil, failure(err, false, nil, i.Codes)
		}
		return conn{opened, i.Codes}, retryrpc.Failure{}
	}
	s := &stream{retryrpc.Stream{
		Ctx:      ctx,
		Policy:   p,
		Target:   i.target(cc),
		Dial:     dial,
		Size:     size,
		Coded:    coded,
		OneReply: !desc.ServerStreams,
	}}
	s.Open()
	return s, nil
}

func size(m any) (bytes int, known bool) {
	message, known := m.(proto.Message)
	if known {
		bytes = proto.Size(message)
	}
	return bytes, known
}

// A conn is one attempt of a stream.
type conn struct {
	grpc.ClientStream
	codes []codes.Code
}

func (c conn) Send(m any) error    { return c.SendMsg(m) }
func (c conn) Receive(m any) error { return c.RecvMsg(m) }

// Failure describes an error of Receive. An open stream has a connection, so the error cannot
// come from a TLS handshake.
func (c conn) Failure(err error) retryrpc.Failure {
	return failure(err, true, c.Trailer(), c.codes)
}

// A stream is a grpc.ClientStream that makes several attempts.
type stream struct{ retryrpc.Stream }

func (s *stream) SendMsg(m any) error { return s.Send(m) }
func (s *stream) RecvMsg(m any) error { return s.Receive(m) }

// Header returns the server's headers. Once Header has returned headers, there is no further
// attempt, because the headers of a further attempt could differ.
func (s *stream) Header() (metadata.MD, error) {
	last, _ := s.Conn()
	if last == nil {
		return nil, nil // RecvMsg returns the error
	}
	md, err := last.(conn).Header()
	if md != nil {
		s.Final("its headers were read")
	}
	return md, err
}

// Trailer returns the trailers of the last attempt.
func (s *stream) Trailer() metadata.MD {
	if last, _ := s.Conn(); last != nil {
		return last.(conn).Trailer()
	}
	return nil
}

// Context returns the caller's context while another attempt may follow. After that, it returns the
// context of the last attempt.
func (s *stream) Context() context.Context {
	if last, final := s.Conn(); last != nil && final != "" {
		return last.(conn).Context()
	}
	return s.Ctx
}
