package retrygrpc

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/goretry/retry"
)

// LendBudget returns options for grpc.NewClient that lend retries to each call: up to most of
// the retries that the Budgets of its context have left, see [retry.WithBudget] and
// [BorrowBudget]. The metadata retry-budget says how many. If it is 0, no service below retries.
//
// Append these options to the options of [Interceptor.DialOptions], so that each attempt is
// lent the retries that are left at its start. LendBudget needs DialOptions, which disable gRPC's
// own retries: all attempts of these would get the same retries again, so nothing would bound
// them.
//
// When the call ends, the retries that the trailer retry-budget-spent does not report go back.
// If the trailers have no report, all of them go back. If there are no trailers, all of them
// count as spent, unless there was no connection. A stream ends when RecvMsg returns an error,
// when its only message has arrived, or when its context is done. If another attempt may follow,
// one retry is not lent.
//
// A call whose context has no Budget is unchanged. If most is below 1, every call is lent 0.
func LendBudget(most int) []grpc.DialOption {
	unary := func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		ctx, opts = lend(ctx, most, opts)
		return invoker(ctx, method, req, reply, cc, opts...)
	}
	stream := func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
		streamer grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		ctx, opts = lend(ctx, most, opts)
		return streamer(ctx, desc, cc, method, opts...)
	}
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(unary),
		grpc.WithChainStreamInterceptor(stream),
	}
}

func lend(
	ctx context.Context, most int, opts []grpc.CallOption,
) (context.Context, []grpc.CallOption) {
	lent, back := retry.LendBudget(ctx, most, ctx.Value(lastKey{}) == nil)
	if lent == retry.Unlimited {
		return ctx, opts
	}
	var trailer metadata.MD
	var server peer.Peer
	end := func(err error) {
		switch {
		case server.Addr == nil: // there was no connection
			back(lent)
		case err == nil || len(trailer) > 0: // each gRPC server sends a content-type at least
			back(unspentOf(trailer.Get(spentName), lent))
		}
	}
	opts = append(slices.Clip(opts), grpc.Peer(&server), grpc.Trailer(&trailer), grpc.OnFinish(end))
	return outgoing(ctx, lentName, lent), opts
}

// lastKey is the key of the context of a last attempt.
type lastKey struct{}

// BorrowBudget returns options for grpc.NewServer that give the context of each call a Budget of
// most retries, or of fewer retries if the client has lent fewer, see [LendBudget]. This process
// and all services below it share these retries. If most is below 1, there are no retries.
//
// If the client has lent retries, the trailer reports how many were made. A retry that is denied
// because the client has lent too few has the Reason [retry.ReasonBorrowed]. A client can lower
// the number of its own retries, and cannot do anything else.
func BorrowBudget(most int) []grpc.ServerOption {
	unary := func(
		ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
	) (any, error) {
		ctx, loan := borrow(ctx, most)
		if loan.asked() {
			defer func() { _ = grpc.SetTrailer(ctx, metadata.Pairs(spentName, loan.close())) }()
		}
		return handler(ctx, req)
	}
	stream := func(
		srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler,
	) error {
		ctx, loan := borrow(stream.Context(), most)
		if loan.asked() {
			defer func() { stream.SetTrailer(metadata.Pairs(spentName, loan.close())) }()
		}
		return handler(srv, &borrower{stream, ctx})
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(unary),
		grpc.ChainStreamInterceptor(stream),
	}
}

func borrow(ctx context.Context, most int) (context.Context, *loan) {
	md, _ := metadata.FromIncomingContext(ctx)
	return borrowed(ctx, md.Get(lentName), most)
}

// A borrower is a stream whose context has a Budget.
type borrower struct {
	grpc.ServerStream
	ctx context.Context
}

func (b *borrower) Context() context.Context { return b.ctx }
