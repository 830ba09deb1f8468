package retryjob

import (
	"time"

	"github.com/goretry/retry"
)

// RedriveOptions are the options of Redrive in every adapter. Redrive moves dead letters back to
// the queue. The zero RedriveOptions moves all dead letters, and their jobs run at once.
//
// A redriven job runs again as a new job: its attempts, its classes and MaxElapsed count from
// zero. A dead letter that cannot go back stays where it is, and Redrive goes on with the
// others. At the end, Redrive returns an error that names the dead letters that stayed.
type RedriveOptions struct {
	// Filter picks the dead letters that go back. nil: all of them go back. Filter is called
	// once for each dead letter, in the goroutine that called Redrive. With DryRun, Filter can
	// also list the dead letters.
	Filter func(DeadLetter) bool

	// Window is the time over which the jobs are spread: each job runs Spread(Key, Window)
	// after the start of Redrive, see [Spread]. If a Key is empty, the JSON of the dead letter
	// is used instead. 0 or below: all jobs run at once. Above a year: a year.
	Window time.Duration

	DryRun bool // move nothing; the RedriveResult says what would be moved

	// OnProgress is called after each dead letter, in the goroutine that called Redrive. done
	// is the count of dead letters so far. total is how many dead letters there were when
	// Redrive began, and may change meanwhile. nil: not called.
	OnProgress func(done, total int)
}

// A RedriveResult says what a Redrive did, even if Redrive returned an error.
type RedriveResult struct {
	Found int // how many dead letters were examined
	Moved int // how many of Found went back, or would go back in a dry run

	// Skipped is how many of Found stayed. The Filter did not pick them, they cannot be read or
	// cannot go back, or another Redrive was faster.
	Skipped int
}

// Spread returns how long after a redrive the job with this key runs again, from 0 to window.
// For the same key and window, every process returns the same duration. All durations are
// equally likely. If window is 0 or below, Spread returns 0.
func Spread(key string, window time.Duration) time.Duration {
	const attempt = -1 // a number that no delay of the job is drawn with
	return retry.Draw(retry.SeedOf(key), attempt, 0, window)
}
