package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/lib/pq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// With a rollback journal, a writer of SQLite waits for readers only at its COMMIT.
func TestSQLiteBusyAtCommit(t *testing.T) {
	dsn := "file:" + t.TempDir() + "/test.db?_pragma=journal_mode(DELETE)&_pragma=busy_timeout(0)"
	open := func() *sql.DB {
		db, err := sql.Open("sqlite", dsn)
		require.NoError(t, err)
		return answering(t, db, true)
	}
	writer, reader := open(), open()
	writer.SetMaxOpenConns(1) // so that the retry gets the connection on which the COMMIT was refused
	name := accounts(t, writer)
	rows, err := reader.QueryContext(t.Context(), "SELECT id FROM "+name)
	require.NoError(t, err)
	require.True(t, rows.Next())

	var happened record
	p := happened.policy()
	note := p.OnEvent
	p.OnEvent = func(ctx context.Context, e retry.Event) {
		if note(ctx, e); e.Kind == retry.AttemptFinished && e.Attempt == 1 {
			require.NoError(t, rows.Close())
		}
	}
	require.NoError(t, retrysql.Tx(within(t), writer, nil, p, func(ctx context.Context, tx *sql.Tx) error {
		return move(ctx, tx, name, 1, -10)
	}))
	assert.Equal(t, 90, balance(t, writer, name, 1))
	if assert.Len(t, happened.failures, 1) {
		assert.Equal(t, "5", code(happened.failures[0]))
		assert.True(t, atCommit(happened.failures[0]))
	}
}

// children creates a table with a constraint that is checked at COMMIT. It returns a statement that
// violates the constraint.
func children(t *testing.T, db *sql.DB) (name, orphan string) {
	parents := table(t, db, "id INTEGER PRIMARY KEY")
	name = table(t, db, "parent INTEGER REFERENCES "+parents+" (id) DEFERRABLE INITIALLY DEFERRED")
	return name, "INSERT INTO " + name + " VALUES (1)"
}

// The database refuses a COMMIT because of a deferred constraint, and applies nothing.
func TestDeferredConstraint(t *testing.T) {
	for database, want := range map[string]string{"sqlite": "787", "postgres": "23503", "lib/pq": "23503", "pgdriver": "23503"} {
		t.Run(database, func(t *testing.T) {
			db := databases[database](t)
			db.SetMaxOpenConns(1) // SQLite's pragma is set for each connection
			if database == "sqlite" {
				exec(t, db, "PRAGMA foreign_keys = ON")
			}
			name, orphan := children(t, db)
			err := byTx(db)(within(t), retry.Policy{MaxAttempts: 3}, func(exec func(string) error) error { return exec(orphan) })
			assert.Equal(t, want, code(err))
			assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(err), "%v", err)
			assert.False(t, isUnknown(err))
			assert.Zero(t, number(t, db, "SELECT COUNT(*) FROM "+name))
		})
	}
}

// A function that ignores an error commits nothing: PostgreSQL answers COMMIT with ROLLBACK. Tx retries
// the transaction.
func TestCommitAnsweredWithRollback(t *testing.T) {
	for name, row := range map[string]struct {
		run  func(*testing.T) run
		text string
	}{
		"pgx":    {func(t *testing.T) run { return byTx(postgres(t)) }, pgx.ErrTxCommitRollback.Error()},
		"lib/pq": {func(t *testing.T) run { return byTx(pqDB(t)) }, pq.ErrInFailedTransaction.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			db := postgres(t)
			name := accounts(t, db)
			var happened record
			runs := 0
			require.NoError(t, row.run(t)(within(t), happened.policy(), func(exec func(string) error) error {
				runs++
				if err := exec("UPDATE " + name + " SET balance = 90 WHERE id = 1"); err != nil || runs > 1 {
					return err
				}
				_ = exec("SELECT 1/0")
				return nil
			}))
			assert.Equal(t, 90, balance(t, db, name, 1))
			if assert.Len(t, happened.failures, 1) {
				assert.EqualError(t, happened.failures[0], "retrysql: commit: "+row.text)
			}
		})
	}
}

// The table is altered after the driver has prepared a statement.
func TestCachedPlan(t *testing.T) {
	db, other := postgres(t), postgres(t)
	db.SetMaxOpenConns(1)
	name := accounts(t, other)
	var happened record
	read := func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT * FROM "+name)
		if err != nil {
			return err
		}
		return errors.Join(rows.Close(), rows.Err())
	}
	require.NoError(t, retrysql.Tx(within(t), db, nil, happened.policy(), read))
	exec(t, other, "ALTER TABLE "+name+" ADD COLUMN note TEXT")
	require.NoError(t, retrysql.Tx(within(t), db, nil, happened.policy(), read))
	if assert.Len(t, happened.failures, 1) {
		assert.Equal(t, "0A000", code(happened.failures[0]))
	}
}

// GORM's TranslateError hides parts of the server's answer. If it is set and a deferred constraint
// refuses a COMMIT through lib/pq, the outcome is unknown.
func TestGORMTranslateError(t *testing.T) {
	for _, translate := range []bool{false, true} {
		for database, unknown := range map[string]bool{"postgres": false, "lib/pq": translate} {
			t.Run(fmt.Sprintf("%s/%t", database, translate), func(t *testing.T) {
				db := databases[database](t)
				_, orphan := children(t, db)
				run := gormRun(t, db, translate)
				err := run(within(t), retry.Policy{MaxAttempts: 2}, func(exec func(string) error) error { return exec(orphan) })
				assert.Equal(t, unknown, isUnknown(err), "%v", err)
				assert.Equal(t, translate, errors.Is(err, gorm.ErrForeignKeyViolated))
			})
		}
	}
}

// Some statements cannot be rolled back. And with PostgreSQL, Tx does not notice a COMMIT that the
// function sends as a statement, as its documentation says. In both cases the write of the first
// attempt remains, and the second attempt writes again.
func TestWritesThatRemainAfterARollback(t *testing.T) {
	again := errors.New("something else")
	for _, row := range []struct{ name, database, alter, between string }{
		{"a table without transactions", "mariadb", " ENGINE = MyISAM", "SELECT 1"},
		{"COMMIT", "postgres", "", "COMMIT"},
	} {
		t.Run(row.database+"/"+row.name, func(t *testing.T) {
			db := databases[row.database](t)
			name := table(t, db, "id INTEGER")
			if row.alter != "" {
				exec(t, db, "ALTER TABLE "+name+row.alter)
			}
			between, runs := row.between, 0
			p := retry.Policy{MaxAttempts: 2, RetryIf: func(err error) bool { return err == again }}
			require.NoError(t, byTx(db)(within(t), p, func(exec func(string) error) error {
				if err := exec("INSERT INTO " + name + " VALUES (1)"); err != nil {
					return err
				}
				if runs++; runs > 1 {
					return nil
				}
				if err := exec(between); err != nil {
					return err
				}
				return again
			}))
			assert.Equal(t, 2, number(t, db, "SELECT COUNT(*) FROM "+name))
		})
	}
}
