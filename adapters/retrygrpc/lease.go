package retrygrpc

import (
	"context"
	"strconv"

	"github.com/goretry/retry"
)

// These are the keys of the metadata with which a client lends retries to a server.
// docs/budget.md says what their values may be. Package retryhttp has the same rules for
// headers.
const (
	// lentName in a request says how many retries the server and all servers below may make.
	lentName = "Retry-Budget"
	// spentName in the trailer of the answer says how many retries the server and all servers below
	// have made.
	spentName = "Retry-Budget-Spent"
)

// unspentOf returns how many of the lent retries go back to the lender, according to the values
// of the trailer spentName. Without a value, all of them go back. If there are several values,
// the greatest counts, because a server may have passed on the report of another server. If a
// value cannot be read, none go back.
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

// number reads a number that consists of digits alone. A number above limit is read as limit.
// ok is false if text is empty or contains another character.
func number(text string, limit int) (n int, ok bool) {
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

// borrowed returns a context with a Budget of limit retries, or of fewer retries if a value of
// lentName in the request is lower. The lowest of several values applies. A value that cannot
// be read counts as 0.
func borrowed(ctx context.Context, values []string, limit int) (context.Context, *loan) {
	size := (&retry.Budget{Size: limit}).Left() // limit, or the largest Size that a Budget can count
	for _, value := range values {
		size, _ = number(value, size)
	}
	l := &loan{&retry.Budget{Size: size, Borrowed: len(values) > 0}}
	return retry.WithBudget(ctx, l.budget), l
}

// asked reports whether the request contained lentName. If it did, the answer to this request must
// contain spentName.
func (l *loan) asked() bool { return l.budget.Borrowed }

// close ends the loan, and returns the value of spentName for the answer. The retries that are
// left go back to the sender of the request, so the handler cannot use them any more. A second
// call of close returns the number of all lent retries.
func (l *loan) close() string {
	ctx := retry.WithBudget(context.Background(), l.budget)
	unspent, _ := retry.LendBudget(ctx, l.budget.Size, false)
	return strconv.Itoa(l.budget.Size - unspent)
}
