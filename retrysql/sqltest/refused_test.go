package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/lib/pq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun/driver/pgdriver"
	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	gormlogger "gorm.io/gorm/logger"
	sqlitedriver "modernc.org/sqlite"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// With a rollback journal, a writer waits for the readers only at its commit.
func TestSQLiteBusyAtCommit(t *testing.T) {
	dsn := "file:" + t.TempDir() + "/test.db?_pragma=journal_mode(DELETE)&_pragma=busy_timeout(0)"
	open := func() *sql.DB {
		db, err := sql.Open("sqlite", dsn)
		require.NoError(t, err)
		return answering(t, db, true)
	}
	writer, reader := open(), open()
	writer.SetMaxOpenConns(1) // so that the retry gets the connection on which the commit was refused
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
	assert.Equal(t, 90, number(t, writer, "SELECT balance FROM "+name+" WHERE id = 1"))
	if assert.Len(t, happened.failures, 1) {
		var busy *sqlitedriver.Error
		require.ErrorAs(t, happened.failures[0], &busy)
		assert.Equal(t, 5, busy.Code()&0xff)
		assert.ErrorContains(t, happened.failures[0], "retrysql: commit: ")
	}
}

// A deferred constraint refuses the COMMIT, and nothing is applied.
func TestDeferredConstraint(t *testing.T) {
	for _, row := range []struct {
		name  string
		open  func(*testing.T) *sql.DB
		check func(*testing.T, error)
	}{
		{"sqlite", sqlite, func(t *testing.T, err error) {
			var e *sqlitedriver.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, 787, e.Code()) // SQLITE_CONSTRAINT_FOREIGNKEY
		}},
		{"postgres", postgres, func(t *testing.T, err error) { assert.Equal(t, "23503", state(t, err)) }},
		{"postgres by lib/pq", pqDB, func(t *testing.T, err error) {
			var e *pq.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "23503", e.SQLState())
		}},
		{"postgres by pgdriver", pgdriverDB, func(t *testing.T, err error) {
			var e pgdriver.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "23503", e.Field('C'))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			db := row.open(t)
			db.SetMaxOpenConns(1) // SQLite's pragma is set for each connection
			if row.name == "sqlite" {
				exec(t, db, "PRAGMA foreign_keys = ON")
			}
			parents := table(t, db, "id INTEGER PRIMARY KEY")
			children := table(t, db, "parent INTEGER REFERENCES "+parents+" (id) DEFERRABLE INITIALLY DEFERRED")
			err := retrysql.Tx(within(t), db, nil, retry.Policy{MaxAttempts: 3}, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO "+children+" VALUES (1)")
				return err
			})
			row.check(t, err)
			assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(err), "%v", err)
			var unknown *retrysql.UnknownCommitError
			assert.False(t, errors.As(err, &unknown))
			assert.Zero(t, number(t, db, "SELECT COUNT(*) FROM "+children))
		})
	}
}

// A function that ignores an error commits nothing: PostgreSQL answers COMMIT
// with ROLLBACK. The transaction is retried.
func TestCommitAnsweredWithRollback(t *testing.T) {
	swallow := func(run int, exec func(string) error, name string) error {
		if err := exec("UPDATE " + name + " SET balance = 90 WHERE id = 1"); err != nil || run > 1 {
			return err
		}
		_ = exec("SELECT 1/0")
		return nil
	}
	check := func(t *testing.T, db *sql.DB, name string, happened *record, text string) {
		assert.Equal(t, 90, number(t, db, "SELECT balance FROM "+name+" WHERE id = 1"))
		if assert.Len(t, happened.failures, 1) {
			assert.EqualError(t, happened.failures[0], "retrysql: commit: "+text)
		}
	}
	database := func(t *testing.T, db *sql.DB, text string) {
		name := accounts(t, db)
		var happened record
		run := 0
		require.NoError(t, retrysql.Tx(within(t), db, nil, happened.policy(), func(ctx context.Context, tx *sql.Tx) error {
			run++
			return swallow(run, func(statement string) error { _, err := tx.ExecContext(ctx, statement); return err }, name)
		}))
		check(t, db, name, &happened, text)
	}
	t.Run("pgx", func(t *testing.T) { database(t, postgres(t), pgx.ErrTxCommitRollback.Error()) })
	t.Run("lib/pq", func(t *testing.T) { database(t, pqDB(t), pq.ErrInFailedTransaction.Error()) })
	t.Run("pgxpool", func(t *testing.T) {
		db := postgres(t)
		name := accounts(t, db)
		pool, _ := pgxPool(t, cut{at: "NEVER"})
		var happened record
		run := 0
		require.NoError(t, retrysql.TxFunc(within(t), func(ctx context.Context, body func(pgx.Tx) error) error {
			return pgx.BeginFunc(ctx, pool, body)
		}, happened.policy(), func(ctx context.Context, tx pgx.Tx) error {
			run++
			return swallow(run, func(statement string) error { _, err := tx.Exec(ctx, statement); return err }, name)
		}))
		check(t, db, name, &happened, pgx.ErrTxCommitRollback.Error())
	})
}

func pqDB(t *testing.T) *sql.DB {
	config := postgresConfig(t)
	connector, err := pq.NewConnector(fmt.Sprintf("postgres://%s:%s@%s:%d/%s?sslmode=disable", config.User, config.Password, config.Host, config.Port, config.Database))
	require.NoError(t, err)
	_, must := dsn("RETRY_TEST_POSTGRES", "")
	return answering(t, sql.OpenDB(connector), must)
}

func pgdriverDB(t *testing.T) *sql.DB {
	config := postgresConfig(t)
	_, must := dsn("RETRY_TEST_POSTGRES", "")
	return answering(t, sql.OpenDB(pgdriverConnector(config, fmt.Sprintf("%s:%d", config.Host, config.Port))), must)
}

func pgdriverConnector(config *pgx.ConnConfig, address string) *pgdriver.Connector {
	return pgdriver.NewConnector(
		pgdriver.WithAddr(address), pgdriver.WithInsecure(true),
		pgdriver.WithUser(config.User), pgdriver.WithPassword(config.Password), pgdriver.WithDatabase(config.Database),
	)
}

// A locked row is recognized from each PostgreSQL driver's error.
func TestLockNotAvailable(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *sql.DB{"pgx": postgres, "lib/pq": pqDB, "pgdriver": pgdriverDB} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			name := accounts(t, db)
			locked, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, move(t.Context(), locked, name, 1, 1))
			var happened record
			p := happened.policy()
			note := p.OnEvent
			p.OnEvent = func(ctx context.Context, e retry.Event) {
				if note(ctx, e); e.Kind == retry.AttemptFinished && e.Attempt == 1 {
					require.NoError(t, locked.Rollback())
				}
			}
			require.NoError(t, retrysql.Tx(within(t), db, nil, p, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "SELECT * FROM "+name+" FOR UPDATE NOWAIT")
				return err
			}))
			if assert.Len(t, happened.failures, 1) {
				assert.ErrorContains(t, happened.failures[0], "could not obtain lock")
			}
		})
	}
}

// The driver has prepared a statement, and then its table is altered.
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
		assert.Equal(t, "0A000", state(t, happened.failures[0]))
	}
}

// The server ends a session that leaves a transaction open and idle.
func TestIdleInTransaction(t *testing.T) {
	db := postgres(t)
	name := accounts(t, db)
	ctx := within(t)
	var happened record
	idle := true
	require.NoError(t, retrysql.Tx(ctx, db, nil, happened.policy(), func(ctx context.Context, tx *sql.Tx) error {
		if idle {
			idle = false
			var session int
			require.NoError(t, tx.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&session))
			_, err := tx.ExecContext(ctx, "SET LOCAL idle_in_transaction_session_timeout = 1")
			require.NoError(t, err)
			for number(t, db, fmt.Sprintf("SELECT COUNT(*) FROM pg_stat_activity WHERE pid = %d", session)) > 0 {
				require.NoError(t, ctx.Err())
				time.Sleep(time.Millisecond)
			}
		}
		return move(ctx, tx, name, 1, -10)
	}))
	assert.Equal(t, 90, number(t, db, "SELECT balance FROM "+name+" WHERE id = 1"))
	if assert.Len(t, happened.failures, 1) {
		assert.Equal(t, "25P03", state(t, happened.failures[0]))
	}
}

// retrysql knows the driver's own types and texts without importing it.
func TestMySQLDriver(t *testing.T) {
	assert.True(t, retrysql.Transient(&mysql.MySQLError{Number: 1213, SQLState: [5]byte([]byte("40001"))}))
	assert.False(t, retrysql.Transient(&mysql.MySQLError{Number: 1062, SQLState: [5]byte([]byte("23000"))}))
	assert.True(t, retrysql.Transient(mysql.ErrInvalidConn))
	for _, err := range []error{
		mysql.ErrMalformPkt, mysql.ErrNoTLS, mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword,
		mysql.ErrUnknownPlugin, mysql.ErrOldProtocol, mysql.ErrPktSync, mysql.ErrPktSyncMul, mysql.ErrPktTooLarge, mysql.ErrBusyBuffer,
	} {
		assert.False(t, retrysql.Transient(err), "%v", err)
	}
}

// A Galera cluster reports a conflict at COMMIT as error 1213. This server is
// not a cluster, so a SIGNAL with that error stands in for the COMMIT.
func TestGaleraConflictAtCommit(t *testing.T) {
	db := mariadb(t)
	name := accounts(t, db)
	commits := 0
	begin := func(ctx context.Context, body func(*sql.Tx) error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := body(tx); err != nil {
			return err
		}
		if commits++; commits == 1 {
			_, err := tx.ExecContext(ctx, "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'WSREP detected deadlock/conflict and aborted the transaction'")
			return err
		}
		return tx.Commit()
	}
	var happened record
	require.NoError(t, retrysql.TxFunc(within(t), begin, happened.policy(), func(ctx context.Context, tx *sql.Tx) error {
		return move(ctx, tx, name, 1, -10)
	}))
	assert.Equal(t, 90, number(t, db, "SELECT balance FROM "+name+" WHERE id = 1"))
	if assert.Len(t, happened.failures, 1) {
		assert.Equal(t, uint16(1213), mySQLNumber(happened.failures[0]))
		assert.ErrorContains(t, happened.failures[0], "retrysql: commit: ")
	}
}

// GORM's TranslateError hides parts of the server's answer. With it, a COMMIT
// through lib/pq that a deferred constraint refuses has an unknown outcome.
func TestGORMTranslateError(t *testing.T) {
	config := func(translate bool) *gorm.Config {
		return &gorm.Config{Logger: gormlogger.Discard, TranslateError: translate}
	}
	t.Run("mysql", func(t *testing.T) {
		db := mariadb(t)
		name := accounts(t, db)
		for _, translate := range []bool{false, true} {
			orm, err := gorm.Open(gormmysql.New(gormmysql.Config{Conn: db}), config(translate))
			require.NoError(t, err)
			err = orm.Exec("INSERT INTO " + name + " VALUES (1, 0)").Error
			assert.Equal(t, translate, mySQLNumber(err) == 0, "%v", err)
			assert.Equal(t, translate, errors.Is(err, gorm.ErrDuplicatedKey))
		}
	})
	for _, row := range []struct {
		name    string
		db      func(*testing.T) *sql.DB
		unknown bool // with TranslateError
	}{{"pgx", postgres, false}, {"lib/pq", pqDB, true}} {
		t.Run(row.name, func(t *testing.T) {
			db := row.db(t)
			parents := table(t, db, "id INTEGER PRIMARY KEY")
			children := table(t, db, "parent INTEGER REFERENCES "+parents+" (id) DEFERRABLE INITIALLY DEFERRED")
			for _, translate := range []bool{false, true} {
				orm, err := gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: db}), config(translate))
				require.NoError(t, err)
				err = retrysql.TxFunc(within(t), func(ctx context.Context, body func(*gorm.DB) error) error {
					return orm.WithContext(ctx).Transaction(body)
				}, retry.Policy{MaxAttempts: 2}, func(_ context.Context, tx *gorm.DB) error {
					return tx.Exec("INSERT INTO " + children + " VALUES (1)").Error
				})
				var unknown *retrysql.UnknownCommitError
				assert.Equal(t, translate && row.unknown, errors.As(err, &unknown), "%v", err)
				assert.Equal(t, translate, errors.Is(err, gorm.ErrForeignKeyViolated))
			}
		})
	}
}

// Some statements cannot be rolled back, as the doc of Tx says: the first
// attempt's write stays, and the second attempt writes again.
func TestMySQLCommitsByItself(t *testing.T) {
	db := mariadb(t)
	deadlock := &mysql.MySQLError{Number: 1213, SQLState: [5]byte([]byte("40001"))}
	for _, row := range []struct {
		name, engine string
		between      func(*testing.T) string
	}{
		{"DDL", "InnoDB", func(t *testing.T) string {
			return "ALTER TABLE " + table(t, db, "id INTEGER") + " ADD COLUMN more INTEGER"
		}},
		{"a table without transactions", "MyISAM", func(*testing.T) string { return "SELECT 1" }},
	} {
		t.Run(row.name, func(t *testing.T) {
			name := table(t, db, "id INTEGER")
			exec(t, db, "ALTER TABLE "+name+" ENGINE = "+row.engine)
			between, run := row.between(t), 0
			err := retrysql.Tx(within(t), db, nil, retry.Policy{MaxAttempts: 2}, func(ctx context.Context, tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, "INSERT INTO "+name+" VALUES (1)"); err != nil {
					return err
				}
				if run++; run > 1 {
					return nil
				}
				if _, err := tx.ExecContext(ctx, between); err != nil {
					return err
				}
				return deadlock
			})
			require.NoError(t, err)
			assert.Equal(t, 2, number(t, db, "SELECT COUNT(*) FROM "+name))
		})
	}
}

// Tx does not notice a COMMIT that the function sends as a statement, as the
// doc of Tx says.
func TestCommitAsAStatementIsNotNoticed(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *sql.DB{"postgres": postgres, "mariadb": mariadb} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			name, run := accounts(t, db), 0
			require.NoError(t, retrysql.Tx(within(t), db, nil, retry.Policy{MaxAttempts: 2, RetryIf: func(error) bool { return true }}, func(ctx context.Context, tx *sql.Tx) error {
				if err := move(ctx, tx, name, 1, -10); err != nil {
					return err
				}
				if run++; run > 1 {
					return nil
				}
				if _, err := tx.ExecContext(ctx, "COMMIT"); err != nil {
					return err
				}
				return errors.New("something else")
			}))
			assert.Equal(t, 80, number(t, db, "SELECT balance FROM "+name+" WHERE id = 1"))
		})
	}
}

// A Conn is a single connection: once lost, it stays lost.
func TestTxOnALostConn(t *testing.T) {
	for _, row := range []struct {
		name, id, end string
		open          func(*testing.T) *sql.DB
	}{
		{"postgres", "SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%d, 10000)", postgres},
		{"mariadb", "SELECT CONNECTION_ID()", "KILL %d", mariadb},
	} {
		t.Run(row.name, func(t *testing.T) {
			db := row.open(t)
			name := accounts(t, db)
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer conn.Close()
			err = retrysql.Tx(within(t), conn, nil, retry.Policy{MaxAttempts: 5}, func(ctx context.Context, tx *sql.Tx) error {
				var id int
				require.NoError(t, tx.QueryRowContext(ctx, row.id).Scan(&id))
				exec(t, db, fmt.Sprintf(row.end, id))
				return move(ctx, tx, name, 1, -10)
			})
			assert.ErrorIs(t, err, sql.ErrConnDone)
			assert.Equal(t, 100, number(t, db, "SELECT balance FROM "+name+" WHERE id = 1"))
		})
	}
}
