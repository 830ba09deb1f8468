package retrysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/harmless"
)

// busyConns contains each [*sql.Conn] on which a Tx has a transaction. It is not kept in the
// context, because the function may call the inner Tx with another context.
var busyConns sync.Map

// A lease is the connection of one attempt. The type exists because an [*sql.Tx] cannot close its
// connection. Without a lease, the pool would hand out the connection to the old server again and
// again after a failover.
type lease struct {
	// conn is the connection that the method `begin` took from the pool. It is nil if the lease must
	// not close the connection, because the caller owns it, or because database/sql itself took it
	// from the pool.
	conn *sql.Conn

	caller *sql.Conn // nil, or the *sql.Conn that the caller passed; it is a key of busyConns
	stuck  bool      // whether a panic has left `conn` locked, so that closing it would block for ever
}

// begin begins a transaction. If db is a pool, the lease takes a connection from the pool.
func (l *lease) begin(
	ctx context.Context, db Beginner, opts *sql.TxOptions,
) (tx *sql.Tx, err error) {
	begin := func(by Beginner) {
		err = l.ask(func() (err error) { tx, err = by.BeginTx(ctx, opts); return err })
	}
	pool, ok := db.(*sql.DB)
	if !ok {
		if conn := connOf(db); conn != nil {
			if _, nested := busyConns.LoadOrStore(conn, true); nested {
				return nil, retry.Permanent(errNested)
			}
			l.caller = conn
		}
		begin(db)
		return tx, err
	}
	if err = l.ask(func() (err error) { l.conn, err = pool.Conn(ctx); return err }); err != nil {
		return nil, err
	}
	begin(l.conn)
	if errors.Is(err, driver.ErrBadConn) {
		// The connection is closed. The pool tries its other connections, and then opens a new one.
		l.conn = nil
		begin(pool)
	}
	return tx, err
}

// The method `ask` calls the function `ask`. If the driver of the database panics, l.stuck remains
// true, because the panic may have left the connection locked.
func (l *lease) ask(database func() error) error {
	l.stuck = true
	return ask(func() error {
		err := database()
		l.stuck = false
		return err
	})
}

// The function `ask` calls the function `database` and recovers a panic. database/sql calls methods
// of the driver's error, which may panic.
func ask(database func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = retry.Permanent(fmt.Errorf("retrysql: the driver panicked: %v", p))
		}
	}()
	return check(database())
}

// The method `transaction` calls `body` with tx, and then commits or rolls back tx.
func (l *lease) transaction(
	ctx context.Context, tx *sql.Tx, guarded bool, body func(*sql.Tx) error,
) error {
	returned := false
	defer func() {
		if !returned {
			// The error of this rollback is ignored, because the panic of `body`, or the error of the
			// savepoint, is more important.
			_ = l.ask(tx.Rollback)
		}
	}()
	if guarded {
		if err := execute(ctx, tx, "SAVEPOINT "+savepoint); err != nil {
			return err
		}
	}
	err := body(tx)
	returned = true
	if guarded {
		err = checkSavepoint(ctx, tx, err)
	}
	if err == nil {
		return l.commit(ctx, tx)
	}
	if failed := l.rollback(ctx, tx); failed != nil && !errors.Is(err, errLeft) {
		return failed
	}
	return err
}

func (l *lease) commit(ctx context.Context, tx *sql.Tx) error {
	err := l.ask(tx.Commit)
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil {
		return errEnded
	}
	return err
}

func (l *lease) rollback(ctx context.Context, tx *sql.Tx) error {
	err := l.ask(tx.Rollback)
	switch {
	case !errors.Is(err, sql.ErrTxDone):
		return err
	case ctx.Err() != nil: // database/sql rolled back when ctx ended
		return nil
	default:
		return errEnded
	}
}

// The method `end` returns the connection to the pool. If err says that the next transaction needs
// another connection, `end` closes the connection instead. If ctx is done, database/sql may still
// be rolling back, so `end` does not wait for the connection.
func (l *lease) end(ctx context.Context, opts *sql.TxOptions, err error) {
	if l.caller != nil {
		busyConns.Delete(l.caller)
	}
	if l.conn == nil || l.stuck {
		return
	}
	end := l.conn.Close
	if harmless.Or(false, func() bool { return elsewhere(err) && !isOwnFault(opts, err) }) {
		end = func() error { return l.conn.Raw(func(any) error { return driver.ErrBadConn }) }
	}
	if ctx.Err() != nil {
		go end()
		return
	}
	_ = end() // an error would only say that the connection is already closed
}

// connOf returns db if db is an [*sql.Conn]. If db is a struct that embeds an [*sql.Conn], as
// sqlx.Conn does, connOf returns the embedded connection. For any other db it returns nil.
func connOf(db Beginner) *sql.Conn {
	if conn, ok := db.(*sql.Conn); ok {
		return conn
	}
	return harmless.Or(nil, func() *sql.Conn {
		v := reflect.Indirect(reflect.ValueOf(db))
		if v.Kind() != reflect.Struct {
			return nil
		}
		conn, _ := field[*sql.Conn](v, "Conn")
		return conn
	})
}
