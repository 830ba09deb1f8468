package jobqueue_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry/internal/jobqueue"
	"github.com/goretry/retry/retryjob"
)

func TestWalk(t *testing.T) {
	letters := []retryjob.DeadLetter{{Key: "a"}, {Key: "b"}, {Key: "c"}, {Key: "gone"}}
	notA := func(d retryjob.DeadLetter) bool { return d.Key != "a" }
	for name, row := range map[string]struct {
		options retryjob.RedriveOptions
		moved   []string
		want    retryjob.RedriveResult
	}{
		"all":       {retryjob.RedriveOptions{}, []string{"a", "b", "gone"}, retryjob.RedriveResult{Found: 4, Moved: 2, Skipped: 2}},
		"a filter":  {retryjob.RedriveOptions{Filter: notA, Window: time.Hour}, []string{"b", "gone"}, retryjob.RedriveResult{Found: 4, Moved: 1, Skipped: 3}},
		"a dry run": {retryjob.RedriveOptions{Filter: notA, DryRun: true}, nil, retryjob.RedriveResult{Found: 4, Moved: 2, Skipped: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var done []int
				row.options.OnProgress = func(n, total int) { done = append(done, n, total) }
				began := time.Now()
				var moved []string
				result, err := jobqueue.Redrive("adapter", row.options, func(w *jobqueue.Walk) error {
					for _, d := range letters {
						time.Sleep(time.Second) // the moments count from the start
						var unreadable error
						if d.Key == "c" {
							unreadable = errors.New("not a dead letter")
						}
						assert.NoError(t, w.Look(d, unreadable, 9, func(due time.Time) (bool, error) {
							moved = append(moved, d.Key)
							assert.Equal(t, began.Add(retryjob.Spread(d.Key, row.options.Window)), due)
							return d.Key != "gone", nil
						}))
					}
					return nil
				})
				assert.NoError(t, err)
				assert.Equal(t, row.moved, moved)
				assert.Equal(t, row.want, result)
				assert.Equal(t, []int{1, 9, 2, 9, 3, 9, 4, 9}, done)
			})
		})
	}
}

// Dead letters without a key do not all run at one moment, and each has the same one in
// every Redrive.
func TestDeadLettersWithoutAKeyAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const letters = 100
		at := map[time.Duration]bool{}
		for range 2 {
			_, err := jobqueue.Redrive("adapter", retryjob.RedriveOptions{Window: time.Hour}, func(w *jobqueue.Walk) error {
				for n := range letters {
					assert.NoError(t, w.Look(retryjob.DeadLetter{Ended: time.Unix(int64(n), 0)}, nil, letters, func(due time.Time) (bool, error) {
						at[time.Until(due)] = true
						return true, nil
					}))
				}
				return nil
			})
			assert.NoError(t, err)
		}
		assert.Len(t, at, letters)
	})
}

// What failed to move is not counted: it may be in either place.
func TestWalkFails(t *testing.T) {
	boom := errors.New("boom")
	options := retryjob.RedriveOptions{OnProgress: func(int, int) { t.Error("progress") }}
	result, err := jobqueue.Redrive("adapter", options, func(w *jobqueue.Walk) error {
		return w.Look(retryjob.DeadLetter{}, nil, 1, func(time.Time) (bool, error) { return false, boom })
	})
	assert.ErrorIs(t, err, boom)
	assert.EqualError(t, err, "adapter: redrive: boom")
	assert.Zero(t, result)
}
