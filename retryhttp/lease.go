package retryhttp

// These are the names of the headers of a lease. docs/budget.md says what their values may be.
// Package retrygrpc has the same rules for metadata.
const (
	// lentName in a request: how many retries its server, and all servers below, may make.
	lentName = "Retry-Budget"
	// spentName in a response: how many retries they have made.
	spentName = "Retry-Budget-Spent"
)

// unspentOf returns how many of the lent retries go back to the lender, according to the values of
// the response's header spentName. Without a value, all of them go back. If there are several
// values, the greatest counts: a server has passed on the report of another. If a value cannot be
// read, none go back.
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

// number reads a number of digits alone. A number above most is read as most.
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
