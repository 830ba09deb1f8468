package retryriver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/readmetest"
	"github.com/goretry/retry/adapters/retryriver"
)

func TestREADME(t *testing.T) { readmetest.Run(t) }

// The snippet of the README makes a client, which connects when it starts.
func TestREADMEClient(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://localhost/jobs")
	require.NoError(t, err)
	defer pool.Close()
	workers, queues, policy := river.NewWorkers(), map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}}, retry.Default()
	river.AddWorker(workers, EmailWorker{})

	readme := func() error {
		plugin, err := retryriver.New(policy)
		if err != nil {
			return err
		}
		config := &river.Config{Workers: workers, Queues: queues}
		plugin.Configure(config) // clients that insert jobs need it too
		client, err := river.NewClient(riverpgxv5.New(pool), config)

		assert.NotNil(t, client)
		assert.Equal(t, plugin, config.RetryPolicy)
		return err
	}
	require.NoError(t, readme())
}

// What becomes of a job, without a client: EmailWorker says that a mailbox is busy.
func TestWorkWithoutAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin, err := retryriver.New(retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Minute)})
		require.NoError(t, err)
		ctx, now, worker := t.Context(), time.Now(), EmailWorker{}
		work := func(to string, attempt int) (*rivertype.JobRow, time.Time, error) {
			job := &river.Job[EmailArgs]{Args: EmailArgs{To: to}}

			row := &rivertype.JobRow{ID: 7, Kind: "email", Attempt: attempt, MaxAttempts: river.MaxAttemptsDefault, AttemptedAt: &now}
			err := plugin.Work(ctx, row, func(ctx context.Context) error { return worker.Work(ctx, job) })
			next := plugin.NextRetry(row) // where err != nil and row.Attempt < row.MaxAttempts; otherwise the job has ended

			return row, next, err
		}
		row, next, err := work("busy@example.com", 1)
		require.EqualError(t, err, "450 mailbox busy")
		assert.Less(t, row.Attempt, row.MaxAttempts)
		assert.Equal(t, time.Minute, next.Sub(now))
		row, _, err = work("busy@example.com", 2)
		require.EqualError(t, err, "retry: attempts exhausted after 2 attempts: 450 mailbox busy")
		assert.Equal(t, row.Attempt, row.MaxAttempts)
		_, _, err = work("", 1)
		require.EqualError(t, err, "JobCancelError: retry: permanent error after 1 attempt: no address")
	})
}
