package retrynats

// These functions are exported for tests.
var (
	Allowed = allowed
	Matches = matches
)
