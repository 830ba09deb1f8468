package retryjob_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry/retryjob"
)

func TestWalk(t *testing.T) {
	letters := []retryjob.DeadLetter{{Key: "a"}, {Key: "b"}, {Key: "c"}, {Key: "gone"}, {Key: "d"}, {Key: "e"}}
	notA := func(d retryjob.DeadLetter) bool { return d.Key != "a" }
	for name, row := range map[string]struct {
		options retryjob.RedriveOptions
		moved   []string
		want    retryjob.RedriveResult
		err     string
	}{
		"all": {retryjob.RedriveOptions{}, []string{"a", "b", "gone", "e"}, retryjob.RedriveResult{Found: 6, Moved: 2, Skipped: 4},
			"adapter: redrive: 2 of 6 dead letters cannot go back to the queue, and stay dead letters: \"d\": not allowed\n\"e\": refused"},
		"a filter": {retryjob.RedriveOptions{Filter: notA, Window: time.Hour}, []string{"b", "gone", "e"}, retryjob.RedriveResult{Found: 6, Moved: 1, Skipped: 5},
			"adapter: redrive: 2 of 6 dead letters"},
		"dead letters that Filter rejects are not stuck": {retryjob.RedriveOptions{Filter: func(d retryjob.DeadLetter) bool { return d.Key < "d" }}, []string{"a", "b"},
			retryjob.RedriveResult{Found: 6, Moved: 2, Skipped: 4}, ""},
		"a dry run": {retryjob.RedriveOptions{Filter: notA, DryRun: true}, nil, retryjob.RedriveResult{Found: 6, Moved: 3, Skipped: 3},
			"adapter: redrive: 1 of 6 dead letters"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var done []int
				row.options.OnProgress = func(n, total int) { done = append(done, n, total) }
				began := time.Now()
				var moved []string
				result, err := row.options.Walk("adapter", func(w *retryjob.Walk) error {
					for _, d := range letters {
						time.Sleep(time.Second) // the times of the jobs count from the start of the Walk
						var unreadable error
						switch d.Key {
						case "c":
							unreadable = errors.New("not a dead letter")
						case "d":
							unreadable = retryjob.Stuck(errors.New("not allowed"))
						}
						assert.NoError(t, w.Look(d, unreadable, 9, func(due time.Time) (bool, error) {
							moved = append(moved, d.Key)
							assert.Equal(t, began.Add(retryjob.Spread(d.Key, row.options.Window)), due)
							if d.Key == "e" {
								return false, fmt.Errorf("%w", retryjob.Stuck(errors.New("refused")))
							}
							return d.Key != "gone", nil
						}))
					}
					return nil
				})
				if row.err == "" {
					assert.NoError(t, err)
				} else {
					assert.ErrorContains(t, err, row.err)
				}
				assert.Equal(t, row.moved, moved)
				assert.Equal(t, row.want, result)
				assert.Equal(t, []int{1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 6, 9}, done)
			})
		})
	}
}

// Dead letters without a key are distributed over the window too. Each of them gets the same time
// in every Redrive.
func TestDeadLettersWithoutAKeyAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const letters = 100
		at := map[time.Duration]bool{}
		for range 2 {
			_, err := retryjob.RedriveOptions{Window: time.Hour}.Walk("adapter", func(w *retryjob.Walk) error {
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

// The error is short even if thousands of dead letters cannot go back.
func TestManyThatCannotGoBack(t *testing.T) {
	result, err := retryjob.RedriveOptions{}.Walk("adapter", func(w *retryjob.Walk) error {
		for range 1000 {
			assert.NoError(t, w.Look(retryjob.DeadLetter{Key: strings.Repeat("x", 1<<16)}, retryjob.Stuck(errors.New("no")), 1000, nil))
		}
		return errors.New("boom")
	})
	assert.Equal(t, retryjob.RedriveResult{Found: 1000, Skipped: 1000}, result)
	assert.ErrorContains(t, err, "adapter: redrive: boom\n1000 of 1000 dead letters cannot go back")
	assert.Equal(t, 20, strings.Count(err.Error(), ": no"))
	assert.Less(t, len(err.Error()), 4<<10)
}

// If moving a dead letter fails, the dead letter is not counted, because it may or may not have
// been moved.
func TestWalkFails(t *testing.T) {
	boom := errors.New("boom")
	options := retryjob.RedriveOptions{OnProgress: func(int, int) { t.Error("progress") }}
	result, err := options.Walk("adapter", func(w *retryjob.Walk) error {
		return w.Look(retryjob.DeadLetter{}, nil, 1, func(time.Time) (bool, error) { return false, boom })
	})
	assert.ErrorIs(t, err, boom)
	assert.EqualError(t, err, "adapter: redrive: boom")
	assert.Zero(t, result)
}
