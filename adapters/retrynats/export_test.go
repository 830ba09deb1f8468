package retrynats

// For tests.
var (
	Allowed = allowed
	Matches = matches
)
