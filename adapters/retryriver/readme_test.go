package retryriver_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/readmetest"
	"github.com/goretry/retry/adapters/retryriver"
)

func TestREADME(t *testing.T) { readmetest.Run(t) }

// The snippet of the README is only compiled: it is what the engine of the other tests does.
var _ = func(pool *pgxpool.Pool, policy retry.Policy, workers *river.Workers, queues map[string]river.QueueConfig) (*river.Client[pgx.Tx], error) {
	plugin, err := retryriver.New(policy)
	if err != nil {
		return nil, err
	}
	config := &river.Config{Workers: workers, Queues: queues}
	plugin.Configure(config) // clients that insert jobs need it too
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	return client, err
}
