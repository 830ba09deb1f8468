package retrygrpc

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/goretry/retry"
)

// LendBudget returns options for grpc.NewClient that lend each call up to most of the
// retries that the Budgets of its context have left, see [retry.WithBudget] and
// [BorrowBudget]. The metadata retry-budget says how many: 0 if none are left, and
// then no service below retries. Put them after those of [Interceptor.DialOptions],
// so that each attempt gets what is left then. All attempts of gRPC's own retries,
// which DialOptions turns off, get the same lease, which bounds nothing.
//
// What the trailer retry-budget-spent does not report goes back when the call ends, all
// of it if there is no report. If no trailer comes, all of it has been spent, unless
// there was no connection. A stream ends when RecvMsg returns an error, its only message
// has arrived, or its context is done. If the call may be made again, one retry stays
// here.
//
// A call whose context has no Budget is made as it is. If most is below 1, every call
// is lent 0.
func LendBudget(most int) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			ctx, opts = lend(ctx, most, opts)
			return invoker(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			ctx, opts = lend(ctx, most, opts)
			return streamer(ctx, desc, cc, method, opts...)
		}),
	}
}

func lend(ctx context.Context, most int, opts []grpc.CallOption) (context.Context, []grpc.CallOption) {
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
		case err == nil || len(trailer) > 0: // gRPC's own trailer has a content-type at least
			back(unspentOf(trailer.Get(spentName), lent))
		}
	}
	return outgoing(ctx, lentName, lent), append(slices.Clip(opts), grpc.Peer(&server), grpc.Trailer(&trailer), grpc.OnFinish(end))
}

// lastKey marks the context of an attempt that no other follows.
type lastKey struct{}

// BorrowBudget returns options for grpc.NewServer that give the context of each call
// a Budget of most retries, or of fewer if the client says so, see [LendBudget]: the
// total for this process and those that it lends to.
//
// If the client said so, the trailer reports how many were made. A retry that is denied
// because the client lent too few has the Reason [retry.ReasonBorrowed]. A client can
// lower the number of its own retries, and nothing else. If most is below 1, there are
// none.
func BorrowBudget(most int) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			ctx, loan := borrow(ctx, most)
			if loan.asked() {
				defer func() { _ = grpc.SetTrailer(ctx, metadata.Pairs(spentName, loan.close())) }()
			}
			return handler(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			ctx, loan := borrow(stream.Context(), most)
			if loan.asked() {
				defer func() { stream.SetTrailer(metadata.Pairs(spentName, loan.close())) }()
			}
			return handler(srv, &borrower{stream, ctx})
		}),
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
