package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

type step = func(context.Context, *sql.Tx) error

// deadlock returns a step that ends its transaction with a deadlock. The transaction has changed the
// first row. Another transaction, which has changed more rows, has changed the second row.
func deadlock(t *testing.T, db *sql.DB, accounts string) step {
	return func(ctx context.Context, tx *sql.Tx) error {
		other, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		for id := 10; id < 60; id++ {
			_, err := other.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s VALUES (%d, 0)", accounts, id))
			require.NoError(t, err)
		}
		require.NoError(t, move(ctx, other, accounts, 2, 1000))
		waited := make(chan error)
		go func() { waited <- move(ctx, other, accounts, 1, 1000) }()
		err = move(ctx, tx, accounts, 2, 10)
		assert.Equal(t, "1213", code(err))
		assert.NoError(t, <-waited)
		require.NoError(t, other.Rollback())
		return err
	}
}

// lockWait returns a step whose last statement waits too long for a lock. The database undoes only
// this statement.
func lockWait(t *testing.T, db *sql.DB, accounts string) step {
	return func(ctx context.Context, tx *sql.Tx) error {
		other, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, move(ctx, other, accounts, 2, 1000))
		require.NoError(t, statement("SET innodb_lock_wait_timeout = 1")(t, db, "")(ctx, tx))
		err = move(ctx, tx, accounts, 2, 10)
		assert.Equal(t, "1205", code(err))
		require.NoError(t, other.Rollback())
		return err
	}
}

func statement(text string) func(*testing.T, *sql.DB, string) step {
	return func(t *testing.T, _ *sql.DB, _ string) step {
		return func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, text)
			require.NoError(t, err)
			return nil
		}
	}
}

func ddl(t *testing.T, db *sql.DB, _ string) step {
	return statement("ALTER TABLE "+table(t, db, "id INTEGER")+" ADD COLUMN more INTEGER")(t, db, "")
}

// andThen returns a step that runs two steps, one after the other.
func andThen(first, second func(*testing.T, *sql.DB, string) step) func(*testing.T, *sql.DB, string) step {
	return func(t *testing.T, db *sql.DB, accounts string) step {
		one, two := first(t, db, accounts), second(t, db, accounts)
		return func(ctx context.Context, tx *sql.Tx) error { _ = one(ctx, tx); return two(ctx, tx) }
	}
}

// The first attempt moves 10 from the first account, and then its transaction ends. Then the function
// goes on in one of several ways. Tx never reports a success that was applied by half or twice. TxFunc
// cannot notice that the transaction has ended.
func TestFunctionThatGoesOn(t *testing.T) {
	again := errors.New("something else")
	ignores := func(error) error { return nil }
	returns := func(ended error) error { return ended }
	wraps := func(ended error) error { return fmt.Errorf("transfer: %w", ended) }
	replaces := func(error) error { return again }
	for _, row := range []struct {
		name    string
		by      string
		ends    func(*testing.T, *sql.DB, string) step
		more    bool // the function writes after the end of its transaction
		returns func(ended error) error
		unknown bool
		want    [2]int // the balances
	}{
		{"a deadlock, returned at once", "Tx", deadlock, false, returns, false, [2]int{90, 110}},
		{"a deadlock, ignored", "Tx", deadlock, true, ignores, true, [2]int{100, 110}},
		{"a deadlock, ignored", "Tx of a Conn", deadlock, true, ignores, true, [2]int{100, 110}},
		{"a deadlock, ignored, and nothing more", "Tx", deadlock, false, ignores, true, [2]int{100, 100}},
		{"a deadlock, returned late", "Tx", deadlock, true, wraps, true, [2]int{100, 110}},
		{"a deadlock, replaced", "Tx", deadlock, true, replaces, true, [2]int{100, 110}},
		{"COMMIT, and a success", "Tx", statement("COMMIT"), true, ignores, true, [2]int{90, 110}},
		{"COMMIT, and a failure", "Tx", statement("COMMIT"), true, replaces, true, [2]int{90, 110}},
		{"another BEGIN", "Tx", statement("BEGIN"), true, ignores, true, [2]int{90, 100}},
		{"DDL, and a success", "Tx", ddl, true, ignores, true, [2]int{90, 110}},
		{"DDL, and a failure", "Tx", ddl, true, replaces, true, [2]int{90, 110}},
		{"DDL, and a lock wait timeout, returned at once", "Tx", andThen(ddl, lockWait), false, returns, true, [2]int{90, 100}},
		{"a deadlock, and a lock wait timeout, returned at once", "Tx", andThen(deadlock, lockWait), false, returns, true, [2]int{100, 100}},
		{"a lock wait timeout, returned late", "Tx", lockWait, true, returns, false, [2]int{90, 110}},
		{"savepoints of its own", "Tx", statement("SAVEPOINT mine"), true, ignores, false, [2]int{90, 110}},

		{"a deadlock, ignored: half", "TxFunc", deadlock, true, ignores, false, [2]int{100, 110}},
		{"a deadlock, returned late: the second half twice", "TxFunc", deadlock, true, returns, false, [2]int{90, 120}},
	} {
		t.Run(row.by+"/"+row.name, func(t *testing.T) {
			t.Parallel()
			db := mariadb(t)
			name := accounts(t, db)
			ends := row.ends(t, db, name)
			var happened record
			p := happened.policy()
			p.RetryIf = func(err error) bool { return err == again || retrysql.Transient(err) }
			runs := 0
			fn := func(ctx context.Context, tx *sql.Tx) error {
				runs++
				if err := move(ctx, tx, name, 1, -10); err != nil {
					return err
				}
				if runs > 1 {
					return move(ctx, tx, name, 2, 10)
				}
				ended := ends(ctx, tx)
				if row.more {
					require.NoError(t, move(ctx, tx, name, 2, 10))
				}
				return row.returns(ended)
			}
			var err error
			switch row.by {
			case "Tx":
				err = retrysql.Tx(within(t), db, nil, p, fn)
			case "Tx of a Conn":
				conn, failed := db.Conn(t.Context())
				require.NoError(t, failed)
				defer conn.Close()
				err = retrysql.Tx(within(t), conn, nil, p, fn)
			case "TxFunc":
				err = retrysql.TxFunc(within(t), func(ctx context.Context, body func(*sql.Tx) error) error {
					tx, err := db.BeginTx(ctx, nil)
					require.NoError(t, err)
					defer func() { _ = tx.Rollback() }()
					if err := body(tx); err != nil {
						return err
					}
					return tx.Commit()
				}, p, fn)
			}
			assert.Equal(t, row.unknown, isUnknown(err), "%v", err)
			assert.Equal(t, row.unknown, err != nil, "%v", err)
			assert.Equal(t, row.unknown, retry.IsPermanent(err))
			assert.Equal(t, row.unknown, errors.Is(err, sql.ErrTxDone))
			assert.Equal(t, row.want, [2]int{balance(t, db, name, 1), balance(t, db, name, 2)})
		})
	}
}
