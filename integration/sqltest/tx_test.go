package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// both runs two calls concurrently and waits for them.
func both(t *testing.T, one, other func() error) {
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, one()) })
	wg.Go(func() { assert.NoError(t, other()) })
	wg.Wait()
}

// Two transfers lock the same two rows in opposite order. The database ends one transfer. Tx retries
// it, and both transfers commit.
func TestDeadlock(t *testing.T) {
	for database, want := range map[string]string{"postgres": "40P01", "mariadb": "1213"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			db := databases[database](t)
			name := accounts(t, db)
			ctx, met, oneDone, otherDone := within(t), meetingOf(2), make(chan struct{}), make(chan struct{})
			var happened record
			p := happened.policy()
			transfer := func(from, to, amount int, mine, others chan struct{}) func() error {
				run := 0
				return func() error {
					defer close(mine)
					return retrysql.Tx(ctx, db, nil, p, func(ctx context.Context, tx *sql.Tx) error {
						// An immediate second attempt might meet the same lock.
						if run++; run > 1 {
							if err := await(ctx, others); err != nil {
								return err
							}
						}
						if err := move(ctx, tx, name, from, -amount); err != nil {
							return err
						}
						if err := met.wait(ctx); err != nil {
							return err
						}
						return move(ctx, tx, name, to, amount)
					})
				}
			}
			both(t, transfer(1, 2, 30, oneDone, otherDone), transfer(2, 1, 10, otherDone, oneDone))

			assert.Equal(t, 80, balance(t, db, name, 1))
			assert.Equal(t, 120, balance(t, db, name, 2))
			assert.Equal(t, 3, happened.runs)
			if assert.Len(t, happened.failures, 1) {
				assert.Equal(t, want, code(happened.failures[0]))
				assert.True(t, retrysql.Transient(happened.failures[0]))
			}
		})
	}
}

// Two transactions each take 150 from an account if the sum of both accounts is large enough. Both
// transactions read before one transaction writes. So the transaction that commits later must read
// again.
func TestConflicts(t *testing.T) {
	for _, row := range []struct {
		name   string
		open   func(*testing.T) *sql.DB
		opts   *sql.TxOptions
		second int  // the account of the later transaction
		early  bool // the later transaction writes before the first transaction commits, and fails at its COMMIT
		code   string
	}{
		{"postgres", postgres, &sql.TxOptions{Isolation: sql.LevelRepeatableRead}, 1, false, "40001"},
		{"postgres, at COMMIT", postgres, &sql.TxOptions{Isolation: sql.LevelSerializable}, 2, true, "40001"},
		{"mariadb", func(t *testing.T) *sql.DB {
			config := mariadbConfig(t)
			config.Params = map[string]string{"innodb_snapshot_isolation": "ON"} // without this setting, InnoDB loses an update
			return openMariadb(t, config)
		}, nil, 1, false, "1020"},
		{"sqlite", sqlite, nil, 1, false, "517"}, // SQLITE_BUSY_SNAPSHOT
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			db := row.open(t)
			name := accounts(t, db)
			ctx, haveRead, haveWritten, firstDone := within(t), meetingOf(2), meetingOf(2), make(chan struct{})
			var first, second record
			withdraw := func(happened *record, id int, turn <-chan struct{}) error {
				return retrysql.Tx(ctx, db, row.opts, happened.policy(), func(ctx context.Context, tx *sql.Tx) error {
					var sum int
					if err := tx.QueryRowContext(ctx, "SELECT SUM(balance) FROM "+name).Scan(&sum); err != nil {
						return err
					}
					wait := func() error { return await(ctx, turn) }
					take := func() error {
						if sum < 150 {
							return nil
						}
						return move(ctx, tx, name, id, -150)
					}
					steps := []func() error{func() error { return haveRead.wait(ctx) }, wait, take}
					if row.early {
						steps = append(steps[:1], take, func() error { return haveWritten.wait(ctx) }, wait)
					}
					for _, step := range steps {
						if err := step(); err != nil {
							return err
						}
					}
					return nil
				})
			}
			turn := haveRead.all
			if row.early {
				turn = haveWritten.all
			}
			both(t, func() error {
				defer close(firstDone)
				return withdraw(&first, 1, turn)
			}, func() error { return withdraw(&second, row.second, firstDone) })

			assert.Equal(t, 50, number(t, db, "SELECT SUM(balance) FROM "+name), "the second transaction must see the withdrawal of the first transaction")
			assert.Equal(t, 1, first.runs)
			assert.Equal(t, 2, second.runs)
			if assert.Len(t, second.failures, 1) {
				assert.Equal(t, row.code, code(second.failures[0]))
				assert.True(t, retrysql.Transient(second.failures[0]))
				assert.Equal(t, row.early, atCommit(second.failures[0]))
			}
		})
	}
}

// Another session terminates the session in the middle of the first transaction. A Conn has only this
// session, so all its attempts fail.
func TestTerminatedInTheMiddle(t *testing.T) {
	for database, row := range map[string]struct{ id, end string }{
		"postgres": {"SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%d, 10000)"},
		"mariadb":  {"SELECT CONNECTION_ID()", "KILL %d"},
	} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			db := databases[database](t)
			name := accounts(t, db)
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer conn.Close()
			transfer := func(by retrysql.Beginner, happened *record) error {
				ended := false
				return retrysql.Tx(within(t), by, nil, happened.policy(), func(ctx context.Context, tx *sql.Tx) error {
					if err := move(ctx, tx, name, 1, -10); err != nil {
						return err
					}
					if !ended {
						ended = true
						var id int
						require.NoError(t, tx.QueryRowContext(ctx, row.id).Scan(&id))
						exec(t, db, fmt.Sprintf(row.end, id))
					}
					return move(ctx, tx, name, 2, 10)
				})
			}
			assert.ErrorIs(t, transfer(conn, &record{}), sql.ErrConnDone)
			assert.Equal(t, 100, balance(t, db, name, 1))

			var happened record
			require.NoError(t, transfer(db, &happened))
			assert.Equal(t, 90, balance(t, db, name, 1))
			assert.Equal(t, 110, balance(t, db, name, 2))
			assert.Equal(t, 2, happened.runs)
			assert.Len(t, happened.failures, 1)
		})
	}
}

// In the first attempt a statement takes longer than its context allows.
func TestTimeout(t *testing.T) {
	for database, sleep := range map[string]string{
		"postgres": "SELECT 1 FROM pg_sleep(10)",
		"mariadb":  "SELECT SLEEP(2)", // the server keeps the locks until the SLEEP has ended
		"sqlite":   "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n",
	} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			db := databases[database](t)
			name := accounts(t, db)
			var happened record
			p := happened.policy()
			p.Backoff = retry.Fixed(10 * time.Millisecond) // database/sql rolls back in the background
			slow := true
			err := retrysql.Tx(within(t), db, nil, p, func(ctx context.Context, tx *sql.Tx) error {
				if err := move(ctx, tx, name, 1, -10); err != nil || !slow {
					return err
				}
				slow = false
				ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				var n int
				return tx.QueryRowContext(ctx, sleep).Scan(&n)
			})
			require.NoError(t, err)
			require.NotEmpty(t, happened.failures)
			assert.ErrorContains(t, happened.failures[0], "retrysql: timed out and rolled back: ")
			assert.Equal(t, 90, balance(t, db, name, 1))
		})
	}
}

// A locked row is recognized from the error of each driver.
func TestLockedRow(t *testing.T) {
	for database, want := range map[string]string{"postgres": "55P03", "lib/pq": "55P03", "pgdriver": "55P03", "mariadb": "1205"} {
		t.Run(database, func(t *testing.T) {
			db := databases[database](t)
			name := accounts(t, db)
			locking, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, locking.Rollback()) }()
			require.NoError(t, move(t.Context(), locking, name, 2, 1))
			err = byTx(db)(t.Context(), retry.Policy{MaxAttempts: 2}, func(exec func(string) error) error {
				return exec("SELECT * FROM " + name + " WHERE id = 2 FOR UPDATE NOWAIT")
			})
			assert.Equal(t, want, code(err), "%v", err)
			assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err), "%v", err)
			assert.False(t, isUnknown(err), "%v", err)
		})
	}
}

// The database does not exist, or nothing listens on the port. retrysql recognizes the errors of both
// drivers without any setup.
func TestNoConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String()) // its local port is in use, so no other test can listen there
	require.NoError(t, err)
	defer conn.Close()
	address := conn.LocalAddr().(*net.TCPAddr)

	postgres(t) // skips the test without PostgreSQL
	pg, elsewhere, my := postgresConfig(t), postgresConfig(t), mariadbConfig(t)
	pg.Host, pg.Port, pg.TLSConfig, pg.Fallbacks = address.IP.String(), uint16(address.Port), nil, nil
	elsewhere.Database = "no_such_database"
	my.Net, my.Addr = "tcp", address.String()
	connector, err := mysql.NewConnector(my)
	require.NoError(t, err)
	for name, row := range map[string]struct {
		db   *sql.DB
		want retry.Reason
		code string
	}{
		"postgres":         {stdlib.OpenDB(*pg), retry.ReasonExhausted, ""},
		"mariadb":          {sql.OpenDB(connector), retry.ReasonExhausted, ""},
		"no such database": {stdlib.OpenDB(*elsewhere), retry.ReasonNonRetryable, "3D000"},
	} {
		err := retrysql.Tx(t.Context(), row.db, nil, retry.Policy{MaxAttempts: 2}, func(context.Context, *sql.Tx) error { return nil })
		assert.Equal(t, row.want, retry.ReasonOf(err), "%s: %v", name, err)
		assert.Equal(t, row.code, code(err), "%s: %v", name, err)
		require.NoError(t, row.db.Close())
	}
}

// atCommit reports whether err is the error of a refused COMMIT.
func atCommit(err error) bool { return strings.HasPrefix(err.Error(), "retrysql: commit: ") }
