package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlitedriver "modernc.org/sqlite"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// mySQLNumber returns the number of a MariaDB error, or 0 if err is another
// error.
func mySQLNumber(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

func state(t *testing.T, err error) string {
	t.Helper()
	var e *pgconn.PgError
	require.ErrorAs(t, err, &e)
	return e.SQLState()
}

// move executes one statement of a transfer.
func move(ctx context.Context, tx *sql.Tx, table string, id, amount int) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET balance = balance + %d WHERE id = %d", table, amount, id))
	return err
}

// both runs two calls concurrently and waits for them.
func both(t *testing.T, one, other func() error) {
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, one()) })
	wg.Go(func() { assert.NoError(t, other()) })
	wg.Wait()
}

// Two transfers lock the same two rows in opposite order. The database ends one
// of them, which is retried, and both commit.
func TestDeadlock(t *testing.T) {
	for _, row := range []struct {
		name  string
		open  func(*testing.T) *sql.DB
		check func(*testing.T, error)
	}{
		{"postgres", postgres, func(t *testing.T, err error) {
			assert.Equal(t, "40P01", state(t, err))
			assert.True(t, retrysql.Transient(err))
		}},
		{"mariadb", mariadb, func(t *testing.T, err error) {
			assert.Equal(t, uint16(1213), mySQLNumber(err))
			assert.True(t, retrysql.Transient(err))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			db := row.open(t)
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

			assert.Equal(t, 80, number(t, db, "SELECT balance FROM "+name+" WHERE id = 1"))
			assert.Equal(t, 120, number(t, db, "SELECT balance FROM "+name+" WHERE id = 2"))
			assert.Equal(t, 3, happened.runs)
			if assert.Len(t, happened.failures, 1) {
				row.check(t, happened.failures[0])
			}
		})
	}
}

// Two transfers read the same balance and write a value computed from it. The
// later one must read again.
func TestLostUpdate(t *testing.T) {
	for _, row := range []struct {
		name  string
		open  func(*testing.T) *sql.DB
		opts  *sql.TxOptions
		check func(*testing.T, error)
	}{
		{"postgres", postgres, &sql.TxOptions{Isolation: sql.LevelRepeatableRead}, func(t *testing.T, err error) {
			assert.Equal(t, "40001", state(t, err))
		}},
		// By default InnoDB lets an update be lost.
		{"mariadb", func(t *testing.T) *sql.DB {
			config := mariadbConfig(t)
			config.Params = map[string]string{"innodb_snapshot_isolation": "ON"}
			return openMariadb(t, config)
		}, nil, func(t *testing.T, err error) {
			assert.Equal(t, uint16(1020), mySQLNumber(err))
			assert.True(t, retrysql.Transient(err))
		}},
		{"sqlite", sqlite, nil, func(t *testing.T, err error) {
			var busy *sqlitedriver.Error
			require.ErrorAs(t, err, &busy)
			assert.Equal(t, 517, busy.Code()) // SQLITE_BUSY_SNAPSHOT
			assert.True(t, retrysql.Transient(err))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			db := row.open(t)
			name := accounts(t, db)
			ctx, met, firstDone := within(t), meetingOf(2), make(chan struct{})
			var first, second record
			add := func(happened *record, amount int, turn <-chan struct{}) error {
				p := happened.policy()
				return retrysql.Tx(ctx, db, row.opts, p, func(ctx context.Context, tx *sql.Tx) error {
					var balance int
					if err := tx.QueryRowContext(ctx, "SELECT balance FROM "+name+" WHERE id = 1").Scan(&balance); err != nil {
						return err
					}
					if err := errors.Join(met.wait(ctx), await(ctx, turn)); err != nil {
						return err
					}
					_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET balance = %d WHERE id = 1", name, balance+amount))
					return err
				})
			}
			both(t, func() error {
				defer close(firstDone)
				return add(&first, 1, met.all)
			}, func() error { return add(&second, 10, firstDone) })

			assert.Equal(t, 111, number(t, db, "SELECT balance FROM "+name+" WHERE id = 1"))
			assert.Equal(t, 1, first.runs)
			assert.Equal(t, 2, second.runs)
			if assert.Len(t, second.failures, 1) {
				row.check(t, second.failures[0])
			}
		})
	}
}

// Two serializable transactions each read what the other writes. The database
// notices when the second one commits.
func TestSerializationFailureAtCommit(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	name := accounts(t, db)
	ctx, haveRead, haveWritten, firstDone := within(t), meetingOf(2), meetingOf(2), make(chan struct{})
	var first, second record
	// Each transaction takes 150 from one account if both accounts together
	// have enough.
	withdraw := func(happened *record, id int, turn <-chan struct{}) error {
		return retrysql.Tx(ctx, db, &sql.TxOptions{Isolation: sql.LevelSerializable}, happened.policy(), func(ctx context.Context, tx *sql.Tx) error {
			var sum int
			if err := tx.QueryRowContext(ctx, "SELECT SUM(balance) FROM "+name).Scan(&sum); err != nil {
				return err
			}
			if err := haveRead.wait(ctx); err != nil {
				return err
			}
			if sum >= 150 {
				if err := move(ctx, tx, name, id, -150); err != nil {
					return err
				}
			}
			return errors.Join(haveWritten.wait(ctx), await(ctx, turn))
		})
	}
	both(t, func() error {
		defer close(firstDone)
		return withdraw(&first, 1, haveWritten.all)
	}, func() error { return withdraw(&second, 2, firstDone) })

	assert.Equal(t, 50, number(t, db, "SELECT SUM(balance) FROM "+name), "the second one must see what the first one took")
	assert.Equal(t, 1, first.runs)
	assert.Equal(t, 2, second.runs)
	if assert.Len(t, second.failures, 1) {
		assert.Equal(t, "40001", state(t, second.failures[0]))
		assert.ErrorContains(t, second.failures[0], "retrysql: commit: ")
	}
}

// Another session terminates the session in the middle of the first
// transaction.
func TestTerminatedInTheMiddle(t *testing.T) {
	for _, row := range []struct {
		name, id, end string
		open          func(*testing.T) *sql.DB
	}{
		{"postgres", "SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%d, 10000)", postgres},
		{"mariadb", "SELECT CONNECTION_ID()", "KILL %d", mariadb},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			db := row.open(t)
			name := accounts(t, db)
			ctx := within(t)
			var happened record
			p := happened.policy()
			ended := false
			err := retrysql.Tx(ctx, db, nil, p, func(ctx context.Context, tx *sql.Tx) error {
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
			require.NoError(t, err)
			assert.Equal(t, 90, number(t, db, "SELECT balance FROM "+name+" WHERE id = 1"))
			assert.Equal(t, 110, number(t, db, "SELECT balance FROM "+name+" WHERE id = 2"))
			assert.Equal(t, 2, happened.runs)
			assert.Len(t, happened.failures, 1)
		})
	}
}

// The connection is cut at the COMMIT of the first transaction, before the
// server has received it or after it has answered. The error is the same in
// both cases, so neither is retried.
func TestConnectionLostAtCommit(t *testing.T) {
	for _, server := range []struct {
		name    string
		open    func(*testing.T) *sql.DB
		through func(*testing.T, cut) *sql.DB
	}{
		{"postgres", postgres, postgresThrough}, {"mariadb", mariadb, mariadbThrough},
	} {
		for _, row := range []struct {
			name    string
			cut     cut
			balance int
		}{
			{"before the server receives it", cut{at: "COMMIT"}, 100},
			{"after the server has answered", cut{at: "COMMIT", afterAnswer: true}, 90},
		} {
			t.Run(server.name+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				db := server.open(t)
				name := accounts(t, db)
				var happened record
				p := happened.policy()
				p.RetryIf = func(error) bool { return true }
				err := retrysql.Tx(within(t), server.through(t, row.cut), nil, p, func(ctx context.Context, tx *sql.Tx) error {
					return move(ctx, tx, name, 1, -10)
				})
				var unknown *retrysql.UnknownCommitError
				require.ErrorAs(t, err, &unknown)
				assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
				assert.Equal(t, 1, happened.runs)
				assert.Equal(t, row.balance, number(t, db, "SELECT balance FROM "+name+" WHERE id = 1"))
			})
		}
	}
}

// If the connection is cut anywhere else, the transaction was rolled back and
// is retried.
func TestConnectionLostBeforeCommit(t *testing.T) {
	for _, server := range []struct {
		name    string
		open    func(*testing.T) *sql.DB
		through func(*testing.T, cut) *sql.DB
	}{
		{"postgres", postgres, postgresThrough}, {"mariadb", mariadb, mariadbThrough},
	} {
		for _, afterAnswer := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/after the answer %t", server.name, afterAnswer), func(t *testing.T) {
				t.Parallel()
				db := server.open(t)
				name := accounts(t, db)
				var happened record
				p := happened.policy()
				err := retrysql.Tx(within(t), server.through(t, cut{at: "UPDATE", afterAnswer: afterAnswer}), nil, p, func(ctx context.Context, tx *sql.Tx) error {
					return move(ctx, tx, name, 1, -10)
				})
				require.NoError(t, err)
				assert.Equal(t, 2, happened.runs)
				assert.Equal(t, 90, number(t, db, "SELECT balance FROM "+name+" WHERE id = 1"))
			})
		}
	}
}

// In the first attempt a statement takes longer than its context allows.
func TestTimeout(t *testing.T) {
	const forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n"
	for _, row := range []struct {
		name, sleep string
		open        func(*testing.T) *sql.DB
	}{
		{"postgres", "SELECT 1 FROM pg_sleep(10)", postgres},
		{"mariadb", "SELECT SLEEP(2)", mariadb}, // the server keeps the locks until then
		{"sqlite", forever, sqlite},
	} {
		for _, whose := range []string{"the attempt's", "the function's"} {
			t.Run(row.name+"/"+whose, func(t *testing.T) {
				t.Parallel()
				db := row.open(t)
				name := accounts(t, db)
				var happened record
				p := happened.policy()
				p.Backoff = retry.Fixed(10 * time.Millisecond) // database/sql rolls back in the background
				if whose == "the attempt's" {
					p.AttemptTimeout = time.Second // a busy machine may exceed it more than once
				}
				slow := true
				err := retrysql.Tx(within(t), db, nil, p, func(ctx context.Context, tx *sql.Tx) error {
					if err := move(ctx, tx, name, 1, -10); err != nil || !slow {
						return err
					}
					slow = false
					if whose == "the function's" {
						var cancel func()
						ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
						defer cancel()
					}
					var n int
					return tx.QueryRowContext(ctx, row.sleep).Scan(&n)
				})
				require.NoError(t, err)
				require.NotEmpty(t, happened.failures)
				assert.ErrorContains(t, happened.failures[0], "retrysql: timed out and rolled back: ")
				assert.Equal(t, 90, number(t, db, "SELECT balance FROM "+name+" WHERE id = 1"))
			})
		}
	}
}

// These are real errors of PostgreSQL and its driver.
func TestVerdictsOfPostgres(t *testing.T) {
	db := postgres(t)
	name := accounts(t, db)
	exec(t, db, "CREATE FUNCTION "+name+"_deferred() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not today''; END'")
	t.Cleanup(func() {
		_, err := db.ExecContext(context.Background(), "DROP FUNCTION "+name+"_deferred CASCADE")
		require.NoError(t, err)
	})
	exec(t, db, "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON "+name+" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "+name+"_deferred()")
	locked, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, locked.Rollback()) }()
	require.NoError(t, move(t.Context(), locked, name, 2, 1))

	for _, row := range []struct {
		name, query string
		state       string
		reason      retry.Reason
	}{
		{"duplicate key", "INSERT INTO " + name + " VALUES (1, 0)", "23505", retry.ReasonNonRetryable},
		{"division by zero", "SELECT 1/0", "22012", retry.ReasonNonRetryable},
		{"no such table", "SELECT * FROM " + name + "_", "42P01", retry.ReasonNonRetryable},
		{"a locked row", "SELECT * FROM " + name + " WHERE id = 2 FOR UPDATE NOWAIT", "55P03", retry.ReasonExhausted},
		{"statement_timeout", "SET LOCAL statement_timeout = 1; SELECT pg_sleep(10)", "57014", retry.ReasonNonRetryable},
		{"at commit, a deferred trigger", "INSERT INTO " + name + " VALUES (3, 0)", "P0001", retry.ReasonNonRetryable},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 2}, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, row.query)
				return err
			})
			assert.Equal(t, row.state, state(t, err))
			assert.Equal(t, row.reason, retry.ReasonOf(err), "%v", err)
			var unknown *retrysql.UnknownCommitError
			assert.False(t, errors.As(err, &unknown))
		})
	}

	t.Run("no such database", func(t *testing.T) {
		config := postgresConfig(t)
		config.Database = name
		db := stdlib.OpenDB(*config)
		defer db.Close()
		err := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 2}, nothing)
		assert.Equal(t, "3D000", state(t, err))
		assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(err), "%v", err)
	})
}

// These are real errors of MariaDB and its driver.
func TestVerdictsOfMariadb(t *testing.T) {
	db := mariadb(t)
	name := accounts(t, db)
	locked, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, locked.Rollback()) }()
	require.NoError(t, move(t.Context(), locked, name, 2, 1))

	for _, row := range []struct {
		name, query string
		number      uint16
		reason      retry.Reason
	}{
		{"duplicate key", "INSERT INTO " + name + " VALUES (1, 0)", 1062, retry.ReasonNonRetryable},
		{"no such table", "SELECT * FROM " + name + "_", 1146, retry.ReasonNonRetryable},
		{"a locked row", "SELECT * FROM " + name + " WHERE id = 2 FOR UPDATE NOWAIT", 1205, retry.ReasonExhausted},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 2}, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, row.query)
				return err
			})
			var failed *retry.Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, row.number, mySQLNumber(failed.Err))
			assert.Equal(t, row.reason, failed.Reason, "%v", err)
		})
	}
}

func nothing(context.Context, *sql.Tx) error { return nil }

// If nothing listens on the port, the errors of both drivers are recognized
// without any setup.
func TestNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().(*net.TCPAddr)
	require.NoError(t, listener.Close())

	pg := postgresConfig(t)
	pg.Host, pg.Port, pg.TLSConfig, pg.Fallbacks = address.IP.String(), uint16(address.Port), nil, nil
	my := mariadbConfig(t)
	my.Net, my.Addr = "tcp", address.String()
	connector, err := mysql.NewConnector(my)
	require.NoError(t, err)
	for name, db := range map[string]*sql.DB{"postgres": stdlib.OpenDB(*pg), "mariadb": sql.OpenDB(connector)} {
		err := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 2}, nothing)
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err), "%s: %v", name, err)
		require.NoError(t, db.Close())
	}
}
