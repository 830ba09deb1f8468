package faults

import (
	"context"
	"database/sql"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// 5. A transaction retried around its commit: if the answer to COMMIT is lost,
// the transaction was applied and is applied again.

func transferBroken(ctx context.Context, db *sql.DB, p retry.Policy, amount int) error {
	p.RetryIf = retrysql.Transient
	return retry.Do(ctx, p, func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after the commit
		if err := move(ctx, tx, amount); err != nil {
			return err
		}
		return tx.Commit()
	})
}

func transfer(ctx context.Context, db *sql.DB, p retry.Policy, amount int) error {
	return retrysql.Tx(ctx, db, nil, p, func(ctx context.Context, tx *sql.Tx) error {
		return move(ctx, tx, amount)
	})
}

func move(ctx context.Context, tx *sql.Tx, amount int) error {
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - ? WHERE id = 1", amount); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance + ? WHERE id = 2", amount)
	return err
}

// 6. Rows left open: an attempt that fails in the middle keeps its connection, and
// a few such attempts keep all connections.

func notifyBroken(ctx context.Context, db *sql.DB, p retry.Policy, notify func(int) error) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		rows, err := db.QueryContext(ctx, "SELECT id FROM accounts")
		if err != nil {
			return err
		}
		return each(rows, notify)
	})
}

func notifyAll(ctx context.Context, db *sql.DB, p retry.Policy, notify func(int) error) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		rows, err := db.QueryContext(ctx, "SELECT id FROM accounts")
		if err != nil {
			return err
		}
		defer rows.Close()
		return each(rows, notify)
	})
}

func each(rows *sql.Rows, notify func(int) error) error {
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			return err
		}
		if err := notify(id); err != nil {
			return err
		}
	}
	return rows.Err()
}
