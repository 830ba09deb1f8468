package retrysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// If a server answers that it is read-only or cut off, the next attempt and the next call use
// another connection.
func TestAConnectionToTheWrongServerIsClosed(t *testing.T) {
	mySQL := func(number uint16, state, text string) error {
		return &MySQLError{number, [5]byte([]byte(state)), text}
	}
	standby := &stateError{"25006", "cannot execute UPDATE in a read-only transaction"}
	session := mySQL(1792, "25006", "Cannot execute statement in a READ ONLY transaction")
	readOnly := &sql.TxOptions{ReadOnly: true}
	for _, row := range []struct {
		name   string
		scene  scene // the scene of the first transaction
		opts   *sql.TxOptions
		want   retry.Reason
		closed []int
	}{
		{"no error", nil, nil, retry.ReasonSuccess, nil},
		{"PostgreSQL: a standby", scene{"write": fails(standby)}, nil, retry.ReasonSuccess, []int{1}},
		{"a standby, wrapped", scene{"write": fails(fmt.Errorf("pay: %w", standby))}, nil, retry.ReasonSuccess, []int{1}},
		{"a standby at BEGIN", scene{"begin": fails(standby)}, nil, retry.ReasonSuccess, []int{1}},
		{"a standby at the BEGIN READ WRITE of lib/pq", scene{"begin": fails(&stateError{"0A000", "cannot set transaction read-write mode during recovery"})}, nil, retry.ReasonSuccess, []int{1}},
		{"another feature that is not supported", scene{"begin": fails(&stateError{"0A000", "cannot"})}, nil, retry.ReasonNonRetryable, nil},
		{"a standby at COMMIT", scene{"commit": fails(standby)}, nil, retry.ReasonSuccess, []int{1}},
		{"MySQL: --read-only", scene{"write": fails(mySQL(1290, "HY000", "running with the --read-only option"))}, nil, retry.ReasonSuccess, []int{1}},
		{"--read-only at COMMIT", scene{"commit": fails(mySQL(1290, "HY000", "running with the --read-only option"))}, nil, retry.ReasonSuccess, []int{1}},
		{"another option", scene{"write": fails(mySQL(1290, "HY000", "running with the --secure-file-priv option"))}, nil, retry.ReasonNonRetryable, nil},
		{"the engine is read-only", scene{"write": fails(mySQL(1836, "HY000", "Running in read-only mode"))}, nil, retry.ReasonSuccess, []int{1}},
		{"the session is read-only", scene{"write": fails(session)}, nil, retry.ReasonSuccess, []int{1}},
		{"Galera: the node is not ready", scene{"write": fails(mySQL(1047, "08S01", "WSREP has not yet prepared node"))}, nil, retry.ReasonSuccess, []int{1}},
		{"TiDB: the server is cut off", scene{"write": fails(mySQL(8027, "HY000", "Information schema is out of date"))}, nil, retry.ReasonSuccess, []int{1}},
		{"a deadlock", scene{"write": fails(errDeadlock)}, nil, retry.ReasonSuccess, nil},
		{"MySQL: a deadlock", scene{"write": fails(mySQL(1213, "40001", "deadlock"))}, nil, retry.ReasonSuccess, nil},
		{"an error of the program", scene{"write": fails(errOpaque)}, nil, retry.ReasonNonRetryable, nil},
		{"a read-only transaction that writes", scene{"write": fails(standby)}, readOnly, retry.ReasonNonRetryable, nil},
		{"MySQL: a read-only transaction that writes", scene{"write": fails(session)}, readOnly, retry.ReasonNonRetryable, nil},
		{"a read-only transaction, and the node is not ready", scene{"write": fails(mySQL(1047, "08S01", "WSREP"))}, readOnly, retry.ReasonSuccess, []int{1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			db, server := open(t, row.scene)
			err := retrysql.Tx(t.Context(), db, row.opts, retry.Policy{MaxAttempts: 2}, write)
			assert.Equal(t, row.want, reasonOf(err), "%v", err)
			require.NoError(t, retrysql.Tx(t.Context(), db, nil, retry.Policy{}, write), "the next call")
			assert.Equal(t, row.closed, server.closed)
			assert.Equal(t, 1+len(row.closed), server.opened)
		})
	}
}

// Tx closes a connection only if db is a *sql.DB, and TxFunc does not know its connection. In all
// other cases, the retry uses the same connection.
func TestAConnectionOfTheCallerIsKept(t *testing.T) {
	standby := &stateError{"25006", "cannot execute UPDATE in a read-only transaction"}
	p := retry.Policy{MaxAttempts: 2}
	for name, call := range map[string]func(*sql.DB) error{
		"Tx of a Conn": func(db *sql.DB) error {
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer conn.Close()
			return retrysql.Tx(t.Context(), conn, nil, p, write)
		},
		"Tx of a struct that embeds a DB": func(db *sql.DB) error {
			return retrysql.Tx(t.Context(), struct{ *sql.DB }{db}, nil, p, write)
		},
		"TxFunc": func(db *sql.DB) error { return retrysql.TxFunc(t.Context(), begins(db), p, write) },
	} {
		db, server := open(t, failing("write", standby)...)
		assert.NoError(t, call(db), name)
		assert.Equal(t, []string{rolledBack, committed}, server.asked(), name)
		assert.Empty(t, server.closed, name)
	}
}

// The connection goes back to the pool however the function ends. If database/sql rolls back
// after a timeout, the caller does not wait for the rollback.
func TestTheConnectionGoesBackToThePool(t *testing.T) {
	for name, fn := range map[string]function{
		"a panic":  func(context.Context, *sql.Tx) error { panic("boom") },
		"a commit": func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		"rows that are left open": func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.QueryContext(ctx, "read") //retry:vet-ignore held on purpose
			return errors.Join(err, errOpaque)
		},
	} {
		db, _ := openMySQL(t)
		func() {
			defer func() { _ = recover() }()
			_ = retrysql.Tx(t.Context(), db, nil, retry.Policy{}, fn)
		}()
		assert.Zero(t, db.Stats().InUse, name)
	}

	rollsBack, goOn := make(chan struct{}), make(chan struct{})
	db, server := open(t, scene{"rollback": func(context.Context) error { close(rollsBack); <-goOn; return nil }})
	db.SetMaxOpenConns(1)
	p := retry.Policy{MaxAttempts: 1, AttemptTimeout: 300 * time.Millisecond}
	err := retrysql.Tx(t.Context(), db, nil, p, func(ctx context.Context, _ *sql.Tx) error {
		<-rollsBack // database/sql rolls back after the timeout
		return ctx.Err()
	})
	assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
	assert.Equal(t, 1, db.Stats().InUse, "database/sql is still rolling back")
	close(goOn)
	require.NoError(t, retrysql.Tx(t.Context(), db, nil, retry.Policy{}, write), "the next Tx waits for the connection")
	assert.Equal(t, []string{unwritten, committed}, server.asked())
}

// If target_session_attrs refuses a server, the error has only a text. Tx looks for this text only
// while a transaction begins. Later it may be the text of any error.
func TestAServerThatTheDriverRefusesIsTriedAgain(t *testing.T) {
	for _, text := range []string{
		"read only connection", "server is in standby mode", "server is not in hot standby mode",
		"session is read-only", "server is in hot standby mode",
	} {
		err := fmt.Errorf("failed to connect: %w", errors.Join(fmt.Errorf("ValidateConnect failed: %w", errors.New(text))))
		db, server := open(t, failing("begin", err)...)
		assert.NoError(t, retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 2}, write), text)
		assert.Equal(t, []string{"begin", committed}, server.asked(), text)

		db, _ = open(t)
		later := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 2}, returns(err))
		assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(later), text)
	}
}

// On one connection, the COMMIT of an inner Tx would commit the outer transaction.
func TestTxInsideATxOnTheSameConnFails(t *testing.T) {
	db, server := open(t)
	one, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer one.Close()
	other, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer other.Close()
	embeds := struct{ *sql.Conn }{one} // as sqlx.Conn does

	for _, row := range []struct {
		name    string
		by      []retrysql.Beginner // the Beginners of the nested transactions, the outermost first
		refused bool
	}{
		{"one connection", []retrysql.Beginner{one, one}, true},
		{"another between them", []retrysql.Beginner{one, other, one}, true},
		{"the pool between them", []retrysql.Beginner{one, db, one}, true},
		{"inside a Tx on a struct that embeds the Conn", []retrysql.Beginner{embeds, one}, true},
		{"a struct that embeds the Conn, inside a Tx on the Conn", []retrysql.Beginner{one, &embeds}, true},
		{"two structs that embed the Conn", []retrysql.Beginner{embeds, struct{ *sql.Conn }{one}}, true},
		{"another connection", []retrysql.Beginner{one, other}, false},
		{"the pool", []retrysql.Beginner{one, db}, false},
		{"inside a Tx on the pool", []retrysql.Beginner{db, one}, false},
		{"the pool inside a Tx on the pool", []retrysql.Beginner{db, db}, false},
		{"the first Tx has ended", []retrysql.Beginner{one}, false},
	} {
		for name, choose := range map[string]func(_, inner context.Context) context.Context{
			"the function's context": func(_, inner context.Context) context.Context { return inner },
			"the caller's context":   func(outer, _ context.Context) context.Context { return outer },
		} {
			t.Run(row.name+", "+name, func(t *testing.T) {
				server.log = nil
				err := nest(t.Context(), choose, row.by...)
				if !row.refused {
					assert.NoError(t, err)
					return
				}
				assert.ErrorContains(t, err, "retrysql: begin: a Tx inside a Tx on the same *sql.Conn "+
					"would commit the outer transaction: call the inner Tx with the *sql.DB, or use the outer *sql.Tx")
				assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
				assert.Equal(t, len(row.by)-1, len(server.asked()), "the inner Tx sent nothing")
				assert.NotContains(t, strings.Join(server.asked(), " "), "commit")
			})
		}
	}
}

// nest begins a transaction with each function, inside the transaction before it, and writes in
// the last transaction.
func nest(ctx context.Context, choose func(outer, inner context.Context) context.Context, by ...retrysql.Beginner) error {
	return retrysql.Tx(ctx, by[0], nil, retry.Policy{MaxAttempts: 2}, func(inner context.Context, tx *sql.Tx) error {
		if len(by) == 1 {
			return write(inner, tx)
		}
		return nest(choose(ctx, inner), choose, by[1:]...)
	})
}

// After a transaction, another Tx may use the connection, however the transaction ended, and
// even while the next attempt waits.
func TestTxAfterTx(t *testing.T) {
	for name, first := range map[string]function{
		"a commit":   write,
		"a rollback": returns(errOpaque),
		"a panic":    func(context.Context, *sql.Tx) error { panic("boom") },
		"Goexit":     func(context.Context, *sql.Tx) error { runtime.Goexit(); return nil },
	} {
		db, _ := open(t)
		one, err := db.Conn(t.Context())
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { _ = recover() }()
			_ = retrysql.Tx(t.Context(), one, nil, retry.Policy{}, first)
		}()
		<-ended
		assert.NoError(t, retrysql.Tx(t.Context(), one, nil, retry.Policy{}, write), name)
		assert.NoError(t, one.Close())
	}

	db, server := open(t, failing("write", errDeadlock)...)
	one, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer one.Close()
	p := retry.Policy{MaxAttempts: 2, OnEvent: func(_ context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			assert.NoError(t, retrysql.Tx(t.Context(), one, nil, retry.Policy{}, write), "between two attempts")
		}
	}}
	assert.NoError(t, retrysql.Tx(t.Context(), one, nil, p, write))
	assert.Equal(t, []string{rolledBack, committed, committed}, server.asked())
}
