package nested

import (
	"context"
	"database/sql"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

var four = retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Second)}

var three = retry.Policy{MaxRetries: 2, Backoff: retry.Fixed(time.Second)}

func ping(context.Context) error { return nil }

func closure(ctx context.Context) error {
	return retry.Do(ctx, four, func(ctx context.Context) error {
		return retry.Do(ctx, three, ping) // want `^retry.Do inside retry.Do makes up to 4 x 3 = 12 calls: retry in one of them, or give the outer call a context of retry.WithBudget \[nested\]$`
	})
}

func generic[T any](ctx context.Context, load func(context.Context) (T, error)) (T, error) {
	return retry.DoValue(ctx, retry.Default(), func(ctx context.Context) (T, error) {
		return retry.DoValue(ctx, retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(0)}, load) // want `^retry.DoValue inside retry.DoValue makes up to 5 x 2 = 10 calls`
	})
}

type client struct{ policy retry.Policy }

func (c *client) method(ctx context.Context) error { return retry.Do(ctx, four, c.fetch) }

func (c *client) fetch(ctx context.Context) error {
	return retry.Do(ctx, three, ping) // want `^retry.Do inside retry.Do makes up to 4 x 3 = 12 calls`
}

func assigned(ctx context.Context, db *sql.DB) error {
	transfer := func(ctx context.Context) error {
		return retrysql.Tx(ctx, db, nil, three, func(ctx context.Context, tx *sql.Tx) error { return nil }) // want `^retrysql.Tx inside retry.Do makes up to 4 x 3 = 12 calls`
	}
	return retry.Do(ctx, four, transfer)
}

func called(ctx context.Context) error {
	return retry.Do(ctx, four, func(ctx context.Context) error {
		return func() error {
			return retry.Do(ctx, three, ping) // want `^retry.Do inside retry.Do makes up to 4 x 3 = 12 calls`
		}()
	})
}

func layers(ctx context.Context) error {
	return retry.Do(ctx, four, func(ctx context.Context) error {
		return retry.Do(ctx, three, func(ctx context.Context) error { // want `4 x 3 = 12 calls`
			return retry.Do(ctx, three, ping) // want `3 x 3 = 9 calls`
		})
	})
}
