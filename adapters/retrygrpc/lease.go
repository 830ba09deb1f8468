package retrygrpc

import (
	"context"
	"strconv"

	"github.com/goretry/retry"
)

// The keys of metadata. docs/budget.md says what they may contain. Package retryhttp has the
// same rules for headers.
const (
	lentName  = "Retry-Budget"       // in the request: how many retries it may make in all, below the sender
	spentName = "Retry-Budget-Spent" // in the answer: how many it made
)

// unspentOf returns how much of what was lent goes back, by what an answer has as spentName.
// Without a value, all of it goes back. With several, the greatest is what was spent:
// they come from a server that passes on the report of another. If one cannot be read,
// nothing goes back.
func unspentOf(values []string, lent int) int {
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

// A loan is the Budget that a request brought.
type loan struct {
	budget *retry.Budget
}

// borrowed returns a context that has a Budget of most retries, or of fewer if the
// request says so by what it has as lentName. With several values, the least applies. One
// that cannot be read is 0.
func borrowed(ctx context.Context, values []string, most int) (context.Context, *loan) {
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
