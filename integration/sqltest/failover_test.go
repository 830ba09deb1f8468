package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

const standby = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"

// The only connection of the pool has become read-only, as a connection to a former primary does. The
// second attempt gets another connection.
func TestReadOnlyConnection(t *testing.T) {
	const demoted = "BEGIN NOT ATOMIC IF @demoted THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = " +
		"'The MariaDB server is running with the --read-only option so it cannot execute this statement'; END IF; END"
	for _, row := range []struct{ name, demote, write, code string }{
		{"postgres", standby, "SELECT 1", "25006"},
		{"lib/pq", "SET retry.demoted = 'on'", "DO $$BEGIN IF current_setting('retry.demoted', true) = 'on' THEN " + // lib/pq starts a transaction with BEGIN READ WRITE
			"RAISE 'cannot execute UPDATE in a read-only transaction' USING ERRCODE = '25006'; END IF; END$$", "25006"},
		{"pgdriver", standby, "SELECT 1", "25006"},
		{"mariadb", "SET SESSION TRANSACTION READ ONLY", "SELECT 1", "1792"},
		{"mariadb", "SET @demoted = 1", demoted, "1290"},
	} {
		t.Run(row.name+"/"+row.code, func(t *testing.T) {
			db, other := databases[row.name](t), databases[row.name](t)
			db.SetMaxOpenConns(1)
			name := accounts(t, other)
			exec(t, db, row.demote)
			var happened record
			require.NoError(t, retrysql.Tx(within(t), db, nil, happened.policy(), func(ctx context.Context, tx *sql.Tx) error {
				if err := execContext(ctx, tx, row.write); err != nil {
					return err
				}
				return move(ctx, tx, name, 1, -10)
			}))
			assert.Equal(t, 90, balance(t, other, name, 1))
			assert.Equal(t, 2, happened.runs)
			if assert.Len(t, happened.failures, 1) {
				assert.Equal(t, row.code, code(happened.failures[0]))
			}
			exec(t, db, fmt.Sprintf("UPDATE %s SET balance = 80 WHERE id = 1", name)) // through the same pool
		})
	}
}

// The options of the drivers that close a read-only connection, for programs in which Tx cannot close
// it.
func TestDriversThatCloseAReadOnlyConnection(t *testing.T) {
	t.Run("OnPgError of pgx", func(t *testing.T) {
		db := postgres(t)
		name := accounts(t, db)
		config, err := pgxpool.ParseConfig(postgresConfig(t).ConnString())
		require.NoError(t, err)
		config.MaxConns = 1
		onError := config.ConnConfig.OnPgError
		config.ConnConfig.OnPgError = func(conn *pgconn.PgConn, e *pgconn.PgError) bool {
			return e.Code != "25006" && onError(conn, e)
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		defer pool.Close()
		_, err = pool.Exec(t.Context(), standby)
		require.NoError(t, err)
		var happened record
		require.NoError(t, retrysql.TxFunc(within(t), func(ctx context.Context, body func(pgx.Tx) error) error {
			return pgx.BeginFunc(ctx, pool, body)
		}, happened.policy(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE "+name+" SET balance = 90 WHERE id = 1")
			return err
		}))
		assert.Equal(t, 2, happened.runs)
		assert.Equal(t, 90, balance(t, db, name, 1))
	})
	t.Run("RejectReadOnly of MySQL's driver", func(t *testing.T) {
		other := mariadb(t)
		name := accounts(t, other)
		config := mariadbConfig(t)
		config.RejectReadOnly = true
		db := openMariadb(t, config)
		db.SetMaxOpenConns(1)
		exec(t, db, "SET SESSION TRANSACTION READ ONLY")
		var happened record
		require.NoError(t, retrysql.TxFunc(within(t), func(ctx context.Context, body func(*sql.Tx) error) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := body(tx); err != nil {
				return err
			}
			return tx.Commit()
		}, happened.policy(), func(ctx context.Context, tx *sql.Tx) error { return move(ctx, tx, name, 1, -10) }))
		assert.Equal(t, 2, happened.runs)
		assert.Equal(t, 90, balance(t, other, name, 1))
	})
}

// During a failover there may be no server that target_session_attrs accepts.
func TestTargetSessionAttrs(t *testing.T) {
	config := postgresConfig(t)
	config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	writable := openPostgres(t, config.Copy())
	name := accounts(t, writable)
	attempts := 0
	config.AfterNetConnect = nil
	config.RuntimeParams["default_transaction_read_only"] = "on"
	_, err := pgx.ConnectConfig(t.Context(), config)
	require.ErrorContains(t, err, "read only connection")
	require.NoError(t, retrysql.TxFunc(within(t), func(ctx context.Context, body func(*sql.Tx) error) error {
		if attempts++; attempts == 1 {
			return err
		}
		tx, err := writable.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := body(tx); err != nil {
			return err
		}
		return tx.Commit()
	}, retry.Policy{MaxAttempts: 2}, func(ctx context.Context, tx *sql.Tx) error { return move(ctx, tx, name, 1, -10) }))
	assert.Equal(t, 90, balance(t, writable, name, 1))
}

// The test has no TiDB. MariaDB returns the error numbers of TiDB, and the driver makes the errors.
func TestTiDBsErrors(t *testing.T) {
	db := mariadb(t)
	for _, number := range []int{8002, 8005, 8022, 8028, 9007} {
		_, err := db.ExecContext(t.Context(), fmt.Sprintf("SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'Write conflict'", number))
		require.Error(t, err)
		assert.True(t, retrysql.Transient(err), "%v", err)
		commits := 0
		err = retrysql.TxFunc(t.Context(), func(_ context.Context, body func(int) error) error {
			if failed := body(0); failed != nil {
				return failed
			}
			if commits++; commits == 1 {
				return err
			}
			return nil
		}, retry.Policy{MaxAttempts: 2}, func(context.Context, int) error { return nil })
		require.NoError(t, err)
		assert.Equal(t, 2, commits, number)
	}
}

// The inner Tx is refused with any context and any form of the connection. The outer Tx commits
// nothing.
func TestTxInsideTxOnOneConnection(t *testing.T) {
	for _, database := range []string{"postgres", "mariadb", "sqlite"} {
		for name, by := range map[string]func(*sql.Conn) retrysql.Beginner{
			"the connection": func(conn *sql.Conn) retrysql.Beginner { return conn },
			"embedded":       func(conn *sql.Conn) retrysql.Beginner { return struct{ *sql.Conn }{conn} },
		} {
			t.Run(database+", "+name, func(t *testing.T) {
				db := databases[database](t)
				name := accounts(t, db)
				conn, err := db.Conn(t.Context())
				require.NoError(t, err)
				outer := within(t)
				err = retrysql.Tx(outer, conn, nil, retry.Policy{}, func(ctx context.Context, tx *sql.Tx) error {
					if err := move(ctx, tx, name, 1, -10); err != nil {
						return err
					}
					return retrysql.Tx(outer, by(conn), nil, retry.Policy{}, func(ctx context.Context, tx *sql.Tx) error {
						return move(ctx, tx, name, 2, 10)
					})
				})
				assert.ErrorContains(t, err, "a Tx inside a Tx")
				require.NoError(t, conn.Close())
				assert.Equal(t, [2]int{100, 100}, [2]int{balance(t, db, name, 1), balance(t, db, name, 2)})
			})
		}
	}
}
