package retryhttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/goretry/retry"
)

// BorrowBudget returns a handler that calls h with a context that has a Budget. The parameter most
// is the number of retries in the Budget. If the header Retry-Budget of the request has a lower
// number, that number applies. The Budget limits all retries of the request in this process and in
// the servers to which it lends with [LendBudget].
//
//	mux.Handle("/orders/", retryhttp.BorrowBudget(orders, 3))
//
// If the request has the header, the header Retry-Budget-Spent of the response says how many
// retries were made. The report is sent with the status, and the retries that are left then go
// back to the client. So h has no more retries after it has begun to write, or has taken over the
// connection. If a retry is denied because the client lent too few, the Reason is
// [retry.ReasonBorrowed].
//
// If the request has several such headers, the lowest number applies. A value that is not a number
// is 0. So a client can only lower the number of retries. If most is below 1, h has no retries.
//
// Put http.TimeoutHandler inside BorrowBudget, not around it: a response of the TimeoutHandler
// itself would have no report. For work that outlives the request, and for a batch of many calls,
// use another context.
func BorrowBudget(h http.Handler, most int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, loan := borrow(r.Context(), r.Header.Values(lentName), most)
		if loan.asked() {
			r := &reporter{ResponseWriter: w, loan: loan}
			defer r.report() // after a panic too: a handler around this handler may answer
			w = r
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// A reporter writes the report of a loan before the final header.
type reporter struct {
	http.ResponseWriter
	loan     *loan
	reported bool
}

func (r *reporter) report() {
	if !r.reported {
		r.reported = true
		r.Header().Set(spentName, r.loan.close())
	}
}

func (r *reporter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		r.report()
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *reporter) Write(p []byte) (int, error) {
	r.report()
	return r.ResponseWriter.Write(p)
}

// ReadFrom is for io.Copy, so that the kernel can copy a file.
func (r *reporter) ReadFrom(from io.Reader) (int64, error) {
	r.report()
	return io.Copy(r.ResponseWriter, from)
}

// FlushError is for http.ResponseController, which would otherwise flush the inner ResponseWriter.
func (r *reporter) FlushError() error {
	r.report()
	return http.NewResponseController(r.ResponseWriter).Flush()
}

func (r *reporter) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush and Hijack are for handlers that look for these methods. If the inner ResponseWriter lacks
// them, Flush does nothing and Hijack fails.
func (r *reporter) Flush() { _ = r.FlushError() }

func (r *reporter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.report()
	}
	return conn, rw, err
}

// A loan is the Budget of a request's context under BorrowBudget.
type loan struct {
	budget *retry.Budget
}

// borrow returns a context that has a Budget. The number of retries is the parameter most, or a
// lower number in the request's header lentName. If the header has several values, the lowest
// applies. A value that cannot be read is 0.
func borrow(ctx context.Context, values []string, most int) (context.Context, *loan) {
	size := (&retry.Budget{Size: most}).Left() // at least 0, and not more than a Budget can count
	for _, value := range values {
		size, _ = number(value, size)
	}
	l := &loan{&retry.Budget{Size: size, Borrowed: len(values) > 0}}
	return retry.WithBudget(ctx, l.budget), l
}

// asked reports whether the request had the header lentName, and the response needs spentName.
func (l *loan) asked() bool { return l.budget.Borrowed }

// close ends the loan, and returns the value of the response's header spentName. It empties the
// Budget, because the retries that are left go back to the client. A second close would report the
// whole loan as spent.
func (l *loan) close() string {
	ctx := retry.WithBudget(context.Background(), l.budget)
	unspent, _ := retry.LendBudget(ctx, l.budget.Size, false)
	return strconv.Itoa(l.budget.Size - unspent)
}
