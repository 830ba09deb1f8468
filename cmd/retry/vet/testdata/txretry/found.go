package txretry

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

var errBusy = errors.New("busy")

var policy = retry.Policy{MaxAttempts: 3, RetryIf: retrysql.Transient}

func closure(ctx context.Context, conn *pgx.Conn) error {
	return retry.Do(ctx, policy, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { // want `pgx.BeginFunc commits, and retrysql.Transient also retries a COMMIT whose response was lost, so the transaction may be applied twice: use retrysql.TxFunc in place of retry.Do`
			return tx.Exec(ctx, "UPDATE accounts SET balance = balance - 10")
		})
	})
}

func assigned(ctx context.Context, db *gorm.DB) error {
	p := retry.Default()
	p.RetryIf = func(err error) bool { return errors.Is(err, errBusy) || retrysql.Transient(err) }
	op := func(ctx context.Context) error {
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { // want `db.WithContext\(ctx\).Transaction commits, .* use retrysql.TxFunc in place of retry.Do`
			return tx.Create(1).Error
		})
	}
	return retry.Do(ctx, p, op)
}

type store struct {
	db     *sql.DB
	policy retry.Policy
}

func newStore(db *sql.DB) *store {
	return &store{db: db, policy: retry.Policy{MaxRetries: 2, RetryIf: retrysql.Transient}}
}

func (s *store) save(ctx context.Context) error { return retry.Do(ctx, s.policy, s.transact) }

func (s *store) transact(ctx context.Context) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders DEFAULT VALUES"); err != nil {
		return err
	}
	return tx.Commit() // want `tx.Commit commits, .* use retrysql.Tx in place of retry.Do`
}

func named(ctx context.Context) (int, error) { return retry.DoValue(ctx, policy, insert) }

var connection *pgx.Conn

func insert(ctx context.Context) (int, error) {
	tx, err := connection.Begin(ctx)
	if err != nil {
		return 0, err
	}
	return 1, tx.Commit(ctx) // want `tx.Commit commits, .* use retrysql.TxFunc in place of retry.DoValue`
}

func generic[T any](ctx context.Context, db *gorm.DB, values []T) error {
	return retry.Do(ctx, policy, func(ctx context.Context) error {
		tx := db.WithContext(ctx).Begin()
		for _, v := range values {
			tx.Create(v)
		}
		return tx.Commit().Error // want `tx.Commit commits, .* in place of retry.Do`
	})
}
