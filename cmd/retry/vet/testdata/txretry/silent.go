package txretry

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// These functions know whether COMMIT was sent.
func tx(ctx context.Context, db *sql.DB, conn *pgx.Conn) error {
	err := retrysql.Tx(ctx, db, nil, policy, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO orders DEFAULT VALUES")
		return err
	})
	if err != nil {
		return err
	}
	return retrysql.TxFunc(ctx, func(ctx context.Context, body func(pgx.Tx) error) error {
		return pgx.BeginFunc(ctx, conn, body)
	}, policy, func(ctx context.Context, tx pgx.Tx) error {
		return tx.Exec(ctx, "INSERT INTO orders DEFAULT VALUES")
	})
}

func nested(ctx context.Context, db *gorm.DB) error {
	return retry.Do(ctx, policy, func(ctx context.Context) error {
		return retrysql.TxFunc(ctx, func(ctx context.Context, body func(*gorm.DB) error) error {
			return db.WithContext(ctx).Transaction(body)
		}, retry.Policy{}, func(ctx context.Context, tx *gorm.DB) error { return tx.Create(1).Error })
	})
}

// A single statement, and a transaction that only reads.
func statement(ctx context.Context, conn *pgx.Conn) error {
	return retry.Do(ctx, policy, func(ctx context.Context) error {
		return conn.Exec(ctx, "DELETE FROM orders WHERE expired")
	})
}

func reads(ctx context.Context, conn *pgx.Conn, db *sql.DB) error {
	err := retry.Do(ctx, policy, func(ctx context.Context) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			return tx.Exec(ctx, "SELECT 1")
		})
	})
	if err != nil {
		return err
	}
	return retry.Do(ctx, policy, func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		return tx.Commit()
	})
}

// A savepoint is not committed.
func savepoint(ctx context.Context, tx pgx.Tx) error {
	return retry.Do(ctx, policy, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return tx.Exec(ctx, "SELECT 1") })
	})
}

// Policies that do not, or may not, retry a lost COMMIT.
func decides(ctx context.Context, conn *pgx.Conn, given retry.Policy) error {
	sent := false
	careful := retry.Policy{MaxAttempts: 3, RetryIf: func(err error) bool { return !sent && retrysql.Transient(err) }}
	op := func(ctx context.Context) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		sent = true
		return tx.Commit(ctx)
	}
	for _, p := range []retry.Policy{careful, given} {
		if err := retry.Do(ctx, p, op); err != nil {
			return err
		}
	}
	if err := retry.Do(ctx, careful, op); err != nil {
		return err
	}
	return retry.Do(ctx, given, op)
}

// A Commit of something else, and a Commit after the retries.
type offsets struct{}

func (offsets) Commit(ctx context.Context) error { return nil }

func queue(ctx context.Context, o offsets, tx *sql.Tx) error {
	err := retry.Do(ctx, policy, func(ctx context.Context) error { return o.Commit(ctx) })
	if err != nil {
		return err
	}
	return tx.Commit()
}
