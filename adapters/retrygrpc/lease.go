package retrygrpc

import (
	"context"
	"strconv"

	"github.com/goretry/retry"
)

// The keys of metadata. docs/budget.md says what they may contain. Package retryhttp has the
// same rules for headers.
const (
	lentName  = "Retry-Budget"       // in a request: how many retries may be made below the sender
	spentName = "Retry-Budget-Spent" // in its answer: how many retries they made
)

// unspentOf returns how many lent retries go back, by the values of spentName in an answer.
// Without a value, all of them go back. If there are several values, the greatest counts, because
// a server may pass on the report of another server. If a value cannot be read, no retry goes
// back.
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

// number returns the number that the digits of text name, or most if the number is greater. ok
// is false if text is empty or has another character.
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

// A loan is the Budget that a request lends to its handler.
type loan struct {
	budget *retry.Budget
}

// borrowed returns a context with a Budget of most retries, or of fewer retries if a value of
// lentName in the request says so. The smallest of several values applies. A value that cannot be
// read counts as 0.
func borrowed(ctx context.Context, values []string, most int) (context.Context, *loan) {
	size := (&retry.Budget{Size: most}).Left() // a Budget cannot count more retries than this
	for _, value := range values {
		size, _ = number(value, size)
	}
	l := &loan{&retry.Budget{Size: size, Borrowed: len(values) > 0}}
	return retry.WithBudget(ctx, l.budget), l
}

// asked reports whether the request had lentName. Then its answer must have spentName.
func (l *loan) asked() bool { return l.budget.Borrowed }

// close ends the loan, and returns the value of spentName for the answer. The retries that are
// left go back to the sender of the request, so the handler cannot use them any more. A second
// close returns the whole loan.
func (l *loan) close() string {
	ctx := retry.WithBudget(context.Background(), l.budget)
	unspent, _ := retry.LendBudget(ctx, l.budget.Size, false)
	return strconv.Itoa(l.budget.Size - unspent)
}
