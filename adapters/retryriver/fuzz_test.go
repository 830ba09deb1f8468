package retryriver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryriver"
)

// FuzzRow checks that a job that always fails ends after its attempts, whatever is in its
// row, and that nothing panics.
func FuzzRow(f *testing.F) {
	f.Add(`{"retry": {"earlier": -1}}`, 1, 4, uint8(0))
	f.Add(`{"retry": {"earlier": 9223372036854775807, "max_attempts": -9223372036854775808}}`, 1, 4, uint8(3))
	f.Add(`{"retry": {"classes": {"slow": -9223372036854775808, "": 9223372036854775807}}}`, 2, 4, uint8(1))
	f.Add(`{"retry": {"dead": {"reason": "planted"}, "dead_attempt": 3}}`, 3, 25, uint8(0))
	f.Add(`{"retry": {"earlier": "1"}}`, 1, 4, uint8(0))
	f.Add(`[`, -32768, 32767, uint8(255))
	f.Add(``, 0, 1, uint8(0))
	f.Fuzz(func(t *testing.T, metadata string, attempt, maxAttempts int, failures uint8) {
		plugin, err := retryriver.New(retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Classify: func(error) *retry.Class { return &retry.Class{Name: "slow"} }})
		require.NoError(t, err)
		row := &rivertype.JobRow{ID: 7, Metadata: []byte(metadata), Attempt: attempt, MaxAttempts: maxAttempts, Errors: make([]rivertype.AttemptError, failures)}
		runs, ended := 0, false
		for deliveries := 0; !ended; deliveries++ {
			require.LessOrEqual(t, deliveries, 3)
			now := time.Now()
			row.AttemptedAt, row.ScheduledAt = &now, now
			err := plugin.Work(t.Context(), row, func(context.Context) error { runs++; return errBoom })
			require.Error(t, err)
			var canceled *river.JobCancelError
			if ended = errors.As(err, &canceled) || row.Attempt >= row.MaxAttempts; !ended {
				require.False(t, plugin.NextRetry(row).Before(now))
			}
			plugin.NextRetry(&rivertype.JobRow{Metadata: row.Metadata, Attempt: row.Attempt, Errors: row.Errors}) // as for a worker that died
			row.Attempt++
			row.Errors = append(row.Errors, rivertype.AttemptError{At: now})
		}
		require.LessOrEqual(t, runs, 3)
	})
}
