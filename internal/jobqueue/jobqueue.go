// Package jobqueue is what the adapters for queues share.
package jobqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// Run is [retryjob.Run] for a job as a queue has kept it. If that cannot be read, malformed
// says why, and the job makes a dead letter without a call of fn: nothing that a queue
// delivers again will read better.
func Run(ctx context.Context, p retry.Policy, job retryjob.Job, malformed error, fn func(context.Context) error, settle func(retryjob.Outcome)) {
	if malformed != nil {
		fn = func(context.Context) error { return retry.Permanent(malformed) }
	}
	retryjob.Run(ctx, p, job, fn, settle)
}

// A Walk is one Redrive, which looks at one dead letter after the other.
type Walk struct {
	result  retryjob.RedriveResult
	options retryjob.RedriveOptions
	began   time.Time
	stuck   []error // why a dead letter cannot go back, for the first of them
	count   int     // how many cannot
}

// A stuckError says why one dead letter cannot go back.
type stuckError struct{ error }

func (e stuckError) Unwrap() error { return e.error }

// Stuck marks an error that is about one dead letter: the others can go back.
func Stuck(err error) error { return stuckError{err} }

func isStuck(err error) bool { return errors.As(err, new(stuckError)) }

// Longest is the longest wait that a queue keeps in a message. A message that is due
// later would neither run nor become a dead letter in its owner's time.
const Longest = 365 * 24 * time.Hour

// Redrive calls all, which has the Walk look at each dead letter. It returns what became
// of them, also with an error, which begins with the name of the adapter.
func Redrive(adapter string, o retryjob.RedriveOptions, all func(*Walk) error) (retryjob.RedriveResult, error) {
	o.Window = min(o.Window, Longest)
	w := &Walk{options: o, began: time.Now()}
	if err := errors.Join(all(w), w.stuckOnes()); err != nil {
		return w.result, fmt.Errorf("%s: redrive: %w", adapter, err)
	}
	return w.result, nil
}

// stuckOnes names the dead letters that cannot go back.
func (w *Walk) stuckOnes() error {
	if w.count == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d dead letters cannot go back, and stay: %w", w.count, w.result.Found, errors.Join(w.stuck...))
}

// CheckDue returns an error if a message says that it is due more than a year from now,
// and a day, because the clock that it was written by may be ahead.
func CheckDue(due time.Time) error {
	if time.Until(due) > Longest+24*time.Hour {
		return fmt.Errorf("due %s, more than a year from now", due.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// Look decides about the dead letter d. unreadable is why it could not be read, or, if it
// is [Stuck], why it cannot go back; it then stays. move moves it, to run at due, and
// reports whether it was still there. total is for OnProgress.
func (w *Walk) Look(d retryjob.DeadLetter, unreadable error, total int, move func(due time.Time) (bool, error)) error {
	const most = 20
	moved, err := w.move(d, unreadable, move)
	if isStuck(err) {
		if w.count++; w.count <= most {
			w.stuck = append(w.stuck, fmt.Errorf("%.100q: %w", d.Key, err))
		}
	} else if err != nil {
		return err
	}
	w.result.Found++
	if moved {
		w.result.Moved++
	} else {
		w.result.Skipped++
	}
	if w.options.OnProgress != nil {
		w.options.OnProgress(w.result.Found, total)
	}
	return nil
}

// move moves d if it is picked, and reports whether it did, or in a dry run would have.
func (w *Walk) move(d retryjob.DeadLetter, unreadable error, move func(due time.Time) (bool, error)) (bool, error) {
	switch {
	case unreadable != nil && !isStuck(unreadable):
		return false, nil
	case w.options.Filter != nil && !w.options.Filter(d):
		return false, nil
	case unreadable != nil:
		return false, unreadable
	case w.options.DryRun:
		return true, nil
	}
	key := d.Key
	if key == "" {
		text, _ := json.Marshal(d) // if it cannot be written, it is spread as the empty key
		key = string(text)
	}
	return move(w.began.Add(retryjob.Spread(key, w.options.Window)))
}

// Classes returns the counts of failures by class that a queue has kept, with those that
// cannot be corrected: before this attempt, none has more failures than there were
// attempts. If there are more classes than that, none of them is believed.
func Classes(kept map[string]int, attempt int) map[string]int {
	counts := map[string]int{}
	if len(kept) >= max(1, attempt) {
		return counts
	}
	for name, n := range kept {
		counts[name] = min(max(0, n), attempt-1)
	}
	return counts
}
