package retryhttp

// lentName and spentName are the headers for lent retries. docs/budget.md defines their values.
// Package retrygrpc has the same rules for gRPC metadata.
const (
	// lentName is a header of a request. Its value is how many retries the server may make, together
	// with all servers that it calls.
	lentName = "Retry-Budget"
	// spentName is a header of a response. Its value is how many retries the server and the servers
	// below it have made.
	spentName = "Retry-Budget-Spent"
)

// unspentOf returns how many of the lent retries go back to the lender. values are the values of
// the response's header spentName. Without a value, all lent retries go back. The greatest of
// several values counts, because a server may have passed on the report of another server. If a
// value is not a number, no retry goes back.
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

// number reads a number that consists only of digits. If the number is above limit, it returns
// limit.
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
