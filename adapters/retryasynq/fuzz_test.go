package retryasynq

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// FuzzTask checks that a task that always fails is archived after its attempts, whatever
// its headers and counts say, and that nothing panics.
func FuzzTask(f *testing.F) {
	f.Add("3", "2026-11-22T20:15:00Z", "", 0, noLimit)
	f.Add("-1", "9999-12-31T23:59:59Z", `{"attempts":1}`, 0, -1)
	f.Add("9223372036854775807", "0001-01-01T00:00:00Z", `x {"attempts":9223372036854775808,"reason":"r"}`, 2147483647, 2147483647)
	f.Add("3", "2026-11-22T20:15:00Z", "", -100, noLimit)
	f.Add("many", "soon", "{", -2147483648, 0)
	f.Fuzz(func(t *testing.T, limit, since, last string, retried, maxRetry int) {
		boom := errors.New("boom")
		r, err := New(retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)})
		require.NoError(t, err)
		task := asynq.NewTaskWithHeaders("mail", nil, map[string]string{limitHeader: limit, sinceHeader: since})
		runs, archived := 0, false
		next := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { runs++; return boom })
		for deliveries := 0; !archived; deliveries++ {
			require.LessOrEqual(t, deliveries, 3)
			err := r.attempt(t.Context(), next, task, "7", retried, maxRetry)
			require.Error(t, err)
			if archived = errors.Is(err, asynq.SkipRetry); archived {
				_, err := DeadLetterOf(&asynq.TaskInfo{LastErr: err.Error()})
				require.NoError(t, err)
			}
			require.GreaterOrEqual(t, r.delay(retried, err, task), time.Duration(0))
			require.GreaterOrEqual(t, r.delay(retried, boom, task), time.Duration(0)) // as for a worker that died
			retried++
		}
		require.LessOrEqual(t, runs, 3)
		_, _ = DeadLetterOf(&asynq.TaskInfo{ID: last, LastErr: last})
		require.NotEqual(t, last, nextID(last))
	})
}
