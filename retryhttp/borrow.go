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

// BorrowBudget returns a handler that calls h with a context that has a Budget of
// most retries, or of fewer if the header Retry-Budget of the request says so: the
// total for this process and those that it lends to with [LendBudget].
//
//	mux.Handle("/orders/", retryhttp.BorrowBudget(orders, 3))
//
// If the header was there, the response says in Retry-Budget-Spent how many were
// made. That header leaves with the status, and what is left then goes back to the
// client: h has no retries after it has begun to write, or taken over the connection.
// A retry that is denied because the client lent too few has the Reason
// [retry.ReasonBorrowed].
//
// If there are several headers, the lowest applies, and one that is not a number is
// 0: a client can lower the number of its own retries, and nothing else. If most is
// below 1, there are none.
//
// Put http.TimeoutHandler inside, not around it: its response has no report. For work
// that outlives the request, and for a batch of many calls, use another context.
func BorrowBudget(h http.Handler, most int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, loan := borrow(r.Context(), r.Header.Values(lentName), most)
		if loan.asked() {
			r := &reporter{ResponseWriter: w, loan: loan}
			defer r.report() // after a panic too: a handler around this one may answer
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

// FlushError is for http.ResponseController, which would else flush what r wraps.
func (r *reporter) FlushError() error {
	r.report()
	return http.NewResponseController(r.ResponseWriter).Flush()
}

func (r *reporter) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush and Hijack are for handlers that look for them. Where the ResponseWriter inside has
// none, Flush does nothing, and Hijack fails.
func (r *reporter) Flush() { _ = r.FlushError() }

func (r *reporter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.report()
	}
	return conn, rw, err
}

// A loan is the Budget that a request brought.
type loan struct {
	budget *retry.Budget
}

// borrow returns a context that has a Budget of most retries, or of fewer if the
// request says so by what it has as lentName. With several values, the least applies. One
// that cannot be read is 0.
func borrow(ctx context.Context, values []string, most int) (context.Context, *loan) {
	size := (&retry.Budget{Size: most}).Left() // as many as can be counted
	for _, value := range values {
		size, _ = number(value, size)
	}
	l := &loan{&retry.Budget{Size: size, Borrowed: len(values) > 0}}
	return retry.WithBudget(ctx, l.budget), l
}

// asked reports whether the request had lentName, so that the answer has spentName.
func (l *loan) asked() bool { return l.budget.Borrowed }

// close ends the loan, and returns what the answer says as spentName. What is left goes
// back to who lent it, so from now on it is not to be had here. A second close returns
// the whole loan.
func (l *loan) close() string {
	unspent, _ := retry.LendBudget(retry.WithBudget(context.Background(), l.budget), l.budget.Size, false)
	return strconv.Itoa(l.budget.Size - unspent)
}
