package retrynats

// For tests.
var (
	AtLeast = atLeast
	Allowed = allowed
	Matches = matches
)
