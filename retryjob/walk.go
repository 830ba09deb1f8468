package retryjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A Walk is one Redrive of an adapter, which looks at one dead letter after the other.
// [RedriveOptions.Walk] makes it. Call its method Look from one goroutine.
type Walk struct {
	result  RedriveResult
	options RedriveOptions
	began   time.Time
	stuck   []error // why dead letters cannot go back: the first 20 errors
	count   int     // how many dead letters cannot go back
}

// A stuckError says why one dead letter cannot go back.
type stuckError struct{ error }

func (e stuckError) Unwrap() error { return e.error }

// Stuck wraps an error that concerns only one dead letter. That dead letter stays where it is,
// and the [Walk] goes on with the others. An error without Stuck ends the Walk. err must not be
// nil.
func Stuck(err error) error { return stuckError{err} }

func isStuck(err error) bool { return errors.As(err, new(stuckError)) }

// longestWindow is the longest Window. A job that is due later could outlive its queue.
const longestWindow = 365 * 24 * time.Hour

// Walk is for authors of adapters, who write the Redrive of their queue with it. Walk calls
// all, once, and all calls [Walk.Look] with each dead letter of the queue. A Walk has no
// context: to stop early, all returns an error. Walk returns the counts even if it returns an
// error. Every error begins with adapter, the name of a package.
func (o RedriveOptions) Walk(adapter string, all func(*Walk) error) (RedriveResult, error) {
	o.Window = min(o.Window, longestWindow)
	w := &Walk{options: o, began: time.Now()}
	if err := errors.Join(all(w), w.stuckOnes()); err != nil {
		return w.result, fmt.Errorf("%s: redrive: %w", adapter, err)
	}
	return w.result, nil
}

// stuckOnes returns an error that names the dead letters that cannot go back, or nil.
func (w *Walk) stuckOnes() error {
	if w.count == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d dead letters cannot go back, and stay: %w",
		w.count, w.result.Found, errors.Join(w.stuck...))
}

// Look moves the dead letter d if the [RedriveOptions] pick it, and counts it. Look calls the
// Filter, heeds DryRun, and computes when the job is due. The adapter only moves.
//
//   - unreadable is nil if d can go back. If the adapter cannot read a dead letter, it passes
//     that error and a zero d, and d is skipped. If d was read but cannot go back, the error
//     is wrapped in [Stuck]: Look calls the Filter and, if it picks d, names d in the error
//     of the Walk.
//   - total is how many dead letters there are, for OnProgress.
//   - move takes d out of the dead letters and lets its job run again at due, as a new one.
//     It returns false if d is no longer there. If it returns an error that is not Stuck,
//     Look returns this error, and all must return it too.
func (w *Walk) Look(d DeadLetter, unreadable error, total int, move func(due time.Time) (bool, error)) error {
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

// move moves d if the options pick it. It reports whether d was moved, or would be moved in a
// dry run.
func (w *Walk) move(
	d DeadLetter, unreadable error, move func(due time.Time) (bool, error),
) (bool, error) {
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
		text, _ := json.Marshal(d) // if this fails, d is due at the time of the empty key
		key = string(text)
	}
	return move(w.began.Add(Spread(key, w.options.Window)))
}
