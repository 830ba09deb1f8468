package retrynats

// For tests.
var (
	AtLeast = atLeast
	Matches = matches
)
