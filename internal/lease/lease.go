// Package lease has what every wire form of a lent [retry.Budget] shares: the names,
// the grammar and the arithmetic. docs/budget.md describes them for others.
package lease

import (
	"context"
	"strconv"

	"github.com/goretry/retry"
)

// The names, of headers in HTTP and of metadata in gRPC.
const (
	Lent  = "Retry-Budget"       // in the request: how many retries it may make in all, below the sender
	Spent = "Retry-Budget-Spent" // in the answer: how many it made
)

// Unspent returns how much of what was lent goes back, by what an answer has as Spent.
// Without a value, all of it goes back. With several, the greatest is what was spent:
// they come from a server that passes on the report of another. If one cannot be read,
// nothing goes back.
func Unspent(values []string, lent int) int {
	spent := 0
	for _, value := range values {
		n, ok := number(value, lent)
		if !ok {
			return 0
		}
		spent = max(spent, n)
	}
	return lent - spent
}

// number reads digits. Above most it is most.
func number(text string, most int) (n int, ok bool) {
	for i := range len(text) {
		digit := int(text[i]) - '0'
		if digit < 0 || digit > 9 {
			return 0, false
		}
		if digit > most || n > (most-digit)/10 {
			n = most
		} else {
			n = n*10 + digit
		}
	}
	return n, text != ""
}

// A Loan is the Budget that a request brought.
type Loan struct {
	budget *retry.Budget
}

// Borrow returns a context that has a Budget of most retries, or of fewer if the
// request says so by what it has as Lent. With several values, the least applies. One
// that cannot be read is 0.
func Borrow(ctx context.Context, values []string, most int) (context.Context, *Loan) {
	size := (&retry.Budget{Size: most}).Left() // as many as can be counted
	for _, value := range values {
		size, _ = number(value, size)
	}
	l := &Loan{&retry.Budget{Size: size, Borrowed: len(values) > 0}}
	return retry.WithBudget(ctx, l.budget), l
}

// Asked reports whether the request had Lent, so that the answer has Spent.
func (l *Loan) Asked() bool { return l.budget.Borrowed }

// Close ends the loan, and returns what the answer says as Spent. What is left goes
// back to who lent it, so from now on it is not to be had here. A second Close returns
// the whole loan.
func (l *Loan) Close() string {
	unspent, _ := retry.LendBudget(retry.WithBudget(context.Background(), l.budget), l.budget.Size, false)
	return strconv.Itoa(l.budget.Size - unspent)
}
