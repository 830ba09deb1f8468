package retrygrpc

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/goretry/retry"
)

// LendBudget returns options for grpc.NewClient. They lend each call the retries that the Budgets
// of its context have left, but at most limit retries (see [retry.WithBudget] and [BorrowBudget]).
// The metadata retry-budget says how many retries are lent. If the number is 0, no service below
// retries.
//
// Append these options to the options of [Interceptor.DialOptions]. Each attempt is then lent
// the retries that are left when it starts. LendBudget needs DialOptions, because they disable
// gRPC's own retries. All attempts of gRPC's own retries would carry the same number, so
// together they could exceed the Budget.
//
// When the call ends, the trailer retry-budget-spent reports how many retries were spent. The other
// retries go back to the Budgets. If the trailers contain no report, all retries go back. If a call
// fails without any trailers, all retries count as spent. If there was no connection, all retries
// go back. A stream ends when RecvMsg returns an error, when its only message has arrived, or when
// its context is done. If another attempt may follow, one retry is kept for that attempt and not
// lent.
//
// A call whose context has no Budget is unchanged. If limit is below 1, every call is lent 0
// retries.
func LendBudget(limit int) []grpc.DialOption {
	unary := func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		ctx, opts = lend(ctx, limit, opts)
		return invoker(ctx, method, req, reply, cc, opts...)
	}
	stream := func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
		streamer grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		ctx, opts = lend(ctx, limit, opts)
		return streamer(ctx, desc, cc, method, opts...)
	}
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(unary),
		grpc.WithChainStreamInterceptor(stream),
	}
}

func lend(
	ctx context.Context, limit int, opts []grpc.CallOption,
) (context.Context, []grpc.CallOption) {
	lent, back := retry.LendBudget(ctx, limit, ctx.Value(lastKey{}) == nil)
	if lent == retry.Unlimited {
		return ctx, opts
	}
	var trailer metadata.MD
	var server peer.Peer
	end := func(err error) {
		switch {
		case server.Addr == nil: // there was no connection
			back(lent)
		case err == nil || len(trailer) > 0: // the server has answered: it sends at least a content-type
			back(unspentOf(trailer.Get(spentName), lent))
		}
	}
	opts = append(slices.Clip(opts), grpc.Peer(&server), grpc.Trailer(&trailer), grpc.OnFinish(end))
	return outgoing(ctx, lentName, lent), opts
}

// lastKey is the context key that marks the last attempt of a call.
type lastKey struct{}

// BorrowBudget returns options for grpc.NewServer. They give the context of each call a Budget
// of limit retries, or of fewer retries if the client has lent fewer (see [LendBudget]). This
// process and all services below it share these retries. If limit is below 1, there are no
// retries.
//
// If the client has lent retries, the trailer reports how many were made. If a retry is denied
// because the client has lent too few, the Reason is [retry.ReasonBorrowed]. With its metadata,
// a client can only lower the number of retries of its own calls.
func BorrowBudget(limit int) []grpc.ServerOption {
	unary := func(
		ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
	) (any, error) {
		ctx, loan := borrow(ctx, limit)
		if loan.asked() {
			defer func() { _ = grpc.SetTrailer(ctx, metadata.Pairs(spentName, loan.close())) }()
		}
		return handler(ctx, req)
	}
	stream := func(
		srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler,
	) error {
		ctx, loan := borrow(stream.Context(), limit)
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

func borrow(ctx context.Context, limit int) (context.Context, *loan) {
	md, _ := metadata.FromIncomingContext(ctx)
	return borrowed(ctx, md.Get(lentName), limit)
}

// A borrower is a stream whose context has a Budget.
type borrower struct {
	grpc.ServerStream
	ctx context.Context
}

func (b *borrower) Context() context.Context { return b.ctx }
