package retrygrpc

import (
	"context"
	"slices"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/goretry/retry"
)

// shared contains the Budgets that all Interceptors of this process share.
var shared retry.Budgets

// NoBudgets is a value for the field Budgets of an [Interceptor]. With NoBudgets, a call has no
// Budget unless its policy has one. Use it, for example, in a test of a server that always
// fails.
func NoBudgets(string) *retry.Budget { return nil }

// LendBudget returns options for grpc.NewClient. With these options, each call lends retries to
// its server. They come from the Budgets in the context of the call (see [retry.WithBudget]). The
// call lends all retries that these Budgets have left, but at most as many as the parameter `limit`
// says. A server with [BorrowBudget] accepts these retries.
//
// The metadata retry-budget says how many retries are lent. If this number is 0, there are no
// retries in the server and in the services that it calls. If another attempt of the call may
// follow, one retry is kept for that attempt and not lent.
//
// Append these options to the options of [Interceptor.DialOptions]. Each attempt then lends the
// retries that are left when the attempt starts. LendBudget needs the options of DialOptions,
// because they disable gRPC's own retries. If gRPC itself retried, all attempts of a call would
// lend the same retries, so together they could exceed the Budget.
//
// When the call ends, retries go back to the Budgets:
//
//   - If the trailer retry-budget-spent reports how many retries were spent, all others go back.
//   - If this trailer is missing, but the call has succeeded or has other trailers, all lent
//     retries go back.
//   - If there was no connection, all lent retries go back.
//   - If there was a connection, but the call has failed without any trailers, no retry goes back.
//
// A stream ends when RecvMsg returns an error, or when its context is done. A stream whose server
// sends only one message also ends when this message has arrived.
//
// A call whose context has no Budget is unchanged. If the parameter `limit` is below 1, each call
// whose context has a Budget lends 0 retries.
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
		// The server has answered. If it reports an error, its trailer contains at least a content-type.
		case err == nil || len(trailer) > 0:
			back(unspentOf(trailer.Get(spentName), lent))
		}
	}
	opts = append(slices.Clip(opts), grpc.Peer(&server), grpc.Trailer(&trailer), grpc.OnFinish(end))
	return outgoing(ctx, lentName, lent), opts
}

// BorrowBudget returns options for grpc.NewServer. They give the context of each call a Budget with
// as many retries as the parameter `limit` says, or with fewer retries if the client has lent fewer
// (see [LendBudget]). The handler and all services that it calls share these retries. If `limit` is
// below 1, the Budget has no retries.
//
// If the client has lent retries, the trailer retry-budget-spent reports how many of them were
// spent. If a retry is denied because the client has lent too few, the Reason is
// [retry.ReasonBorrowed]. The metadata of a client can lower the number of retries for the calls of
// this client, but cannot raise it.
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

// These are the keys of the metadata with which a client lends retries to a server.
// docs/budget.md says what their values may be. Package retryhttp has the same rules for
// headers.
const (
	// lentName in a request says how many retries the server and the servers that it calls may
	// make together.
	lentName = "Retry-Budget"
	// spentName in the trailer of the answer says how many retries the server and the servers that
	// it called have made together.
	spentName = "Retry-Budget-Spent"
)

// unspentOf returns how many of the lent retries go back to the lender, according to the values of
// the trailer spentName. Without a value, all lent retries go back. There are several values if the
// server has passed on the report of another server and added its own report. The server's own
// report includes the retries of all servers that it has called, so the greatest value counts. If a
// value cannot be read, no retries go back.
func unspentOf(values []string, lent int) int {
	spent := 0
	for _, value := range values {
		n, ok := parseDigits(value, lent)
		if !ok {
			return 0
		}
		spent = max(spent, n)
	}
	return lent - spent
}

// parseDigits parses a number that consists of digits alone. For a number above the parameter
// `limit`, it returns `limit`. The result `ok` is false if the parameter `text` is empty or
// contains a character that is not a digit.
func parseDigits(text string, limit int) (n int, ok bool) {
	for i := range len(text) {
		digit := int(text[i]) - '0'
		if digit < 0 || digit > 9 {
			return 0, false
		}
		if digit > limit || n > (limit-digit)/10 {
			n = limit
		} else {
			n = n*10 + digit
		}
	}
	return n, text != ""
}

// A loan is the Budget that a request lends to its handler.
type loan struct {
	budget *retry.Budget
}

// borrowed returns a context with a Budget. The parameter `values` contains the values of the
// metadata lentName in the request. The Budget has as many retries as the lowest of these values
// says, but at most as many as the parameter `limit` says. A value that cannot be read counts as 0.
func borrowed(ctx context.Context, values []string, limit int) (context.Context, *loan) {
	size := (&retry.Budget{Size: limit}).Left() // `limit`, but at most the largest Size that a Budget can have
	for _, value := range values {
		size, _ = parseDigits(value, size)
	}
	l := &loan{&retry.Budget{Size: size, Borrowed: len(values) > 0}}
	return retry.WithBudget(ctx, l.budget), l
}

// asked reports whether the request contained lentName. If it did, the answer to this request must
// contain spentName.
func (l *loan) asked() bool { return l.budget.Borrowed }

// close ends the loan, and returns how many of its retries were spent. The answer to the request
// contains this number as the metadata spentName. `close` empties the Budget, because the retries
// that are left go back to the sender of the request. Call `close` only once: a second call would
// report all retries as spent.
func (l *loan) close() string {
	ctx := retry.WithBudget(context.Background(), l.budget)
	unspent, _ := retry.LendBudget(ctx, l.budget.Size, false)
	return strconv.Itoa(l.budget.Size - unspent)
}
