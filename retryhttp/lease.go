package retryhttp

// The names of headers. docs/budget.md says what they may contain. Package retrygrpc has the
// same rules for metadata.
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
