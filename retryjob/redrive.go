package retryjob

import (
	"time"

	"github.com/goretry/retry"
)

// RedriveOptions are what the Redrive of every adapter takes. The zero value moves all
// dead letters back at once.
//
// A redriven job runs again as a new one: its attempts, its classes and MaxElapsed
// count from zero. A dead letter that cannot go back stays, and holds up no other: when
// all have been looked at, Redrive returns an error that names it.
type RedriveOptions struct {
	// Filter picks the dead letters that go back. nil picks all. It is called once
	// for each, from the goroutine that called Redrive. With DryRun it is also the
	// place to list them.
	Filter func(DeadLetter) bool

	// Window is the time over which the jobs are spread: each runs Spread(Key,
	// Window) after Redrive began, see [Spread]. If its Key is empty, the dead letter
	// as JSON is used instead. 0 or below: all run at once. Above a year: a year.
	Window time.Duration

	DryRun bool // moves nothing; the RedriveResult says what would be moved

	// OnProgress is called after each dead letter, from the goroutine that called
	// Redrive. done is how many have been looked at, and total how many there were
	// when Redrive began, which may change meanwhile. nil: none.
	OnProgress func(done, total int)
}

// A RedriveResult says what a Redrive did, even if it returned an error.
type RedriveResult struct {
	Found   int // dead letters that were looked at
	Moved   int // of these, went back; in a dry run: would have
	Skipped int // of these, stayed: the Filter did not pick them, they cannot be read or go back, or another Redrive was faster
}

// Spread returns how long after a redrive the job with this key runs again, from 0 to
// window. Every process returns the same for a key and a window. All moments are
// equally likely. If window is 0 or below, it is 0.
func Spread(key string, window time.Duration) time.Duration {
	const attempt = -1 // no delay of the job itself is drawn with it
	return retry.Draw(retry.SeedOf(key), attempt, 0, window)
}
