package retrynats

// AtLeast is exported for tests that compare server versions.
var AtLeast = atLeast
