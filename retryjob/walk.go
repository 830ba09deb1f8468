package retryjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A Walk is one run of an adapter's Redrive, which examines one dead letter after the other.
// [RedriveOptions.Walk] makes a Walk. Call the method Look from one goroutine only.
type Walk struct {
	result  RedriveResult
	options RedriveOptions
	began   time.Time
	stuck   []error // the errors of the first 20 dead letters that cannot go back
	count   int     // how many dead letters cannot go back
}

// A stuckError says why one dead letter cannot go back.
type stuckError struct{ error }

func (e stuckError) Unwrap() error { return e.error }

// Stuck wraps an error that keeps only one dead letter from going back to the queue. The [Walk]
// leaves that dead letter in place and goes on with the other dead letters. An error that Stuck has
// not wrapped ends the Walk. Do not call Stuck with nil.
func Stuck(err error) error { return stuckError{err} }

func isStuck(err error) bool { return errors.As(err, new(stuckError)) }

// Walk does the work of Redrive that is the same in every queue. It is for authors of adapters.
// Walk calls `iterate` once, and `iterate` must call [Walk.Look] for each dead letter of the queue.
// To stop early, `iterate` returns an error. Walk returns the counts even if it returns an error.
// Every error begins with `adapter`, which is the name of the adapter's package.
func (o RedriveOptions) Walk(adapter string, iterate func(*Walk) error) (RedriveResult, error) {
	o.Window = min(o.Window, longestWindow)
	w := &Walk{options: o, began: time.Now()}
	if err := errors.Join(iterate(w), w.stuckOnes()); err != nil {
		return w.result, fmt.Errorf("%s: redrive: %w", adapter, err)
	}
	return w.result, nil
}

// stuckOnes returns an error that names the dead letters that cannot go back. It returns nil if
// there are no such dead letters.
func (w *Walk) stuckOnes() error {
	if w.count == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d dead letters cannot go back to the queue, and stay dead letters: %w",
		w.count, w.result.Found, errors.Join(w.stuck...))
}

// Look counts the dead letter d, and moves d if the [RedriveOptions] say so. Look calls Filter,
// respects DryRun, and computes when the job is due. The adapter only provides the function
// `move`.
//
//   - `unreadable` is nil if d can go back. If the adapter cannot read the dead letter, it
//     passes the error and a zero d, and Look skips the dead letter. If the adapter has read d
//     but knows that d cannot go back, it passes an error of [Stuck]. If Filter returns true
//     for d, the error of the Walk then names d.
//   - `total` is how many dead letters there are. Look passes it to OnProgress.
//   - `move` removes d from the dead letters, and lets the job run again as a new job at the time
//     `due`, which is the parameter of `move`. It returns false if d is no longer a dead letter. If
//     it returns an error of Stuck, the Walk goes on. Look returns any other error. The function
//     that you pass to [RedriveOptions.Walk] must then return this error as well.
func (w *Walk) Look(
	d DeadLetter, unreadable error, total int, move func(due time.Time) (bool, error),
) error {
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

// The method `move` calls the function `move` for the dead letter d if the options say so. It
// reports whether d was moved. In a dry run, it reports whether d would be moved.
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
		text, _ := json.Marshal(d) // if this fails, the key stays empty
		key = string(text)
	}
	return move(w.began.Add(Spread(key, w.options.Window)))
}
