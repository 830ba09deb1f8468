package retryjob

import (
	"time"

	"github.com/goretry/retry"
)

// RedriveOptions are the options of Redrive in every adapter. Redrive moves dead letters back
// to the queue, so that their jobs run again. With the zero RedriveOptions, Redrive moves all
// dead letters, and their jobs run at once.
//
// A job that was moved back runs as a new job: its attempts, the failures of its classes and
// MaxElapsed count from zero. If a dead letter cannot go back to the queue, Redrive leaves it
// and goes on with the others. At the end, Redrive returns an error with the keys of the first
// 20 such dead letters.
type RedriveOptions struct {
	// Filter returns true for the dead letters that Redrive is to move back. If Filter is nil,
	// Redrive moves all dead letters. Filter is called once for each dead letter that can be read,
	// in the goroutine that called Redrive. To list dead letters without moving them, print them
	// in Filter and set DryRun.
	Filter func(DeadLetter) bool

	// Window is the time within which the jobs run again. The delay from the start of Redrive until a
	// job runs again is Spread(Key, Window), so the jobs are distributed evenly: see [Spread]. If the
	// Key of a dead letter is empty, its JSON is used in place of the Key. If Window is 0 or below,
	// all jobs run at once. A Window above a year is treated as a year.
	Window time.Duration

	DryRun bool // move nothing, and only count the dead letters that would be moved

	// OnProgress is called after each dead letter, in the goroutine that called Redrive. `done` is how
	// many dead letters Redrive has examined. `total` is how many dead letters there were when Redrive
	// began. Other processes may add or move dead letters meanwhile, so the last `done` may be less or
	// more than `total`. OnProgress may be nil.
	OnProgress func(done, total int)
}

// longestWindow is the upper limit for Window. The queue of a job may no longer exist when a
// longer Window ends.
const longestWindow = 365 * 24 * time.Hour

// A RedriveResult says what a Redrive did, even if Redrive returned an error.
type RedriveResult struct {
	Found int // how many dead letters were examined
	Moved int // how many dead letters were moved back, or would be moved back without DryRun

	// Skipped is how many of the examined dead letters were not moved back. The reason is that Filter
	// returned false, that a dead letter cannot be read or cannot go back, or that another Redrive has
	// moved the dead letter first.
	Skipped int
}

// Spread returns the time from the start of a redrive until the job with this key runs again. The
// duration is between 0 and `window`, and all durations are equally likely. It depends only on
// `key` and `window`, so every process computes the same duration. If `window` is 0 or below,
// Spread returns 0.
func Spread(key string, window time.Duration) time.Duration {
	// Draw returns the same random number for the same seed and attempt. No attempt has the number -1,
	// so the result does not repeat the random number of one of the job's delays.
	const attempt = -1
	return retry.Draw(retry.SeedOf(key), attempt, 0, window)
}
