package retryriver_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
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
