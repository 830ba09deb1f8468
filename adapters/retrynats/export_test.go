package retrynats

// AtLeast is for tests that ask for the server's version too.
var AtLeast = atLeast
