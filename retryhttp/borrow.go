package retryhttp

import (
	"bufio"
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"

	"github.com/goretry/retry"
)

// BorrowBudget returns a handler that calls h with a Budget in the context of the request. The
// parameter `limit` is the number of retries in the Budget. If the header Retry-Budget of the
// request contains a lower number, the lower number applies. The Budget limits all retries for the
// request in this process, and in the servers to which this process lends retries with
// [LendBudget].
//
//	mux.Handle("/orders/", retryhttp.BorrowBudget(orders, 3))
//
// If the request has a Retry-Budget header, the response has a Retry-Budget-Spent header with the
// number of retries that were made. This header is sent together with the status. The retries that
// have not been made by then go back to the client. So h can make no more retries after it has
// begun to write the response, or has taken over the connection. An io.Copy to the ResponseWriter
// begins to write before it has read a byte. If a call in h needs more retries than the client has
// lent, this call fails with the Reason [retry.ReasonBorrowed].
//
// If the request has several Retry-Budget headers, the lowest number applies. A value that is not a
// number counts as 0. A client cannot raise the number of retries above `limit`. If `limit` is
// below 1, h has no retries.
//
// If you use an http.TimeoutHandler, pass the TimeoutHandler to BorrowBudget. Do not pass the
// handler that BorrowBudget returns to http.TimeoutHandler, because then the response after a
// timeout has no Retry-Budget-Spent. If you use an http.MaxBytesHandler, pass it the handler that
// BorrowBudget returns. Only with the ResponseWriter of net/http does a MaxBytesHandler close the
// connection after a request that is too long. For work that goes on after the response, and for a
// batch of many calls, use a context without this Budget.
func BorrowBudget(h http.Handler, limit int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, loan := borrow(r.Context(), r.Header.Values(lentName), limit)
		if loan.asked() {
			r := &reporter{ResponseWriter: w, loan: loan}
			// Deferred, so that the header is also set after a panic of h: an outer handler may recover
			// and write the response.
			defer r.report()
			w = r
		}
		inner := r.WithContext(ctx)
		// The server of net/http removes the files of the MultipartForm, and a middleware above reads the
		// Pattern. A Handler sets both only in the request that it gets. Nothing else is written, because
		// another goroutine may still read r.
		defer func() {
			if inner.MultipartForm != r.MultipartForm {
				r.MultipartForm = inner.MultipartForm
			}
			if inner.Pattern != r.Pattern {
				r.Pattern = inner.Pattern
			}
		}()
		h.ServeHTTP(w, inner)
	})
}

// A reporter is a ResponseWriter that sets the header Retry-Budget-Spent before the header of the
// final response is written. If the handler is a proxy that has copied the report of another
// server, the greater number is sent.
type reporter struct {
	http.ResponseWriter
	loan     *loan
	reported bool
}

func (r *reporter) report() {
	if r.reported {
		return
	}
	r.reported = true
	spent := r.loan.close()
	for _, value := range r.Header().Values(spentName) { // h is a proxy that has copied a report
		n, ok := number(value, math.MaxInt)
		if !ok {
			return // the client must get the value, and then takes no retry back
		}
		spent = max(spent, n)
	}
	r.Header().Set(spentName, strconv.Itoa(spent))
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

// ReadFrom is called by io.Copy. With this method, the kernel can copy a file to the connection. The
// loan ends before the first byte is read: if the reporter read this byte, and wrote it alone, a
// ResponseWriter could not recognize the type of the content.
func (r *reporter) ReadFrom(from io.Reader) (int64, error) {
	r.report()
	return io.Copy(r.ResponseWriter, from)
}

// FlushError is called by http.ResponseController. Without this method, the controller would flush
// the inner ResponseWriter before the reporter sets the header Retry-Budget-Spent.
func (r *reporter) FlushError() error {
	r.report()
	return http.NewResponseController(r.ResponseWriter).Flush()
}

func (r *reporter) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Some handlers look for the methods Flush, Hijack and CloseNotify. gin panics in a handler that
// streams if there is no CloseNotify. If the inner ResponseWriter lacks these methods, Flush does
// nothing, Hijack fails, and the channel of CloseNotify gets no value.
func (r *reporter) Flush() { _ = r.FlushError() }

func (r *reporter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.report()
	}
	return conn, rw, err
}

func (r *reporter) CloseNotify() <-chan bool {
	if inner, ok := r.ResponseWriter.(interface{ CloseNotify() <-chan bool }); ok {
		return inner.CloseNotify()
	}
	return nil
}

// A loan is the Budget that BorrowBudget puts into the context of a request.
type loan struct {
	budget *retry.Budget
}

// The function `borrow` returns a context that has a Budget. The number of retries in the Budget is
// the parameter `limit`. If a value of the header lentName is lower, the lowest value applies. A
// value that is not a number counts as 0.
func borrow(ctx context.Context, values []string, limit int) (context.Context, *loan) {
	size := (&retry.Budget{Size: limit}).Left() // between 0 and the largest Size of a Budget
	for _, value := range values {
		size, _ = number(value, size)
	}
	l := &loan{&retry.Budget{Size: size, Borrowed: len(values) > 0}}
	return retry.WithBudget(ctx, l.budget), l
}

// The method `asked` reports whether the request had the header lentName. If so, the response needs
// the header spentName.
func (l *loan) asked() bool { return l.budget.Borrowed }

// The method `close` ends the loan, and returns how many retries were spent. It empties the Budget,
// because the remaining retries go back to the client. Call `close` only once: a second call would
// report all retries as spent.
func (l *loan) close() int {
	ctx := retry.WithBudget(context.Background(), l.budget)
	unspent, _ := retry.LendBudget(ctx, l.budget.Size, false)
	return l.budget.Size - unspent
}
