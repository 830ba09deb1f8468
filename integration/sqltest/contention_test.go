package sqltest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// Twenty transactions that conflict with each other all commit, each exactly once. The test runs the
// snippets of docs/recipes.md.
func TestContention(t *testing.T) {
	postgres(t) // skips the test without PostgreSQL
	config, err := pgxpool.ParseConfig(postgresConfig(t).ConnString())
	require.NoError(t, err)
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)

	contended := retry.Policy{
		MaxElapsed: 10 * time.Second,
		Backoff:    retry.Exponential{Base: 5 * time.Millisecond},
		MaxDelay:   200 * time.Millisecond,
		Jitter:     retry.FullJitter,
	}
	increment := func(ctx context.Context) error {
		err := retrysql.TxFunc(ctx, func(ctx context.Context, body func(pgx.Tx) error) error {
			return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, body)
		}, contended, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE counters SET n = n + 1 WHERE id = 1")
			return err
		})
		return err
	}

	for _, statement := range []string{
		"DROP TABLE IF EXISTS counters", "CREATE TABLE counters (id int PRIMARY KEY, n int NOT NULL)", "INSERT INTO counters VALUES (1, 0)",
	} {
		_, err := pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		_, err := pool.Exec(context.Background(), "DROP TABLE counters")
		require.NoError(t, err)
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { assert.NoError(t, increment(t.Context())) })
	}
	all.Wait()
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT n FROM counters WHERE id = 1").Scan(&n))
	assert.Equal(t, 20, n)
}
