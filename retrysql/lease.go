package retrysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"
	"sync"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/harmless"
)

// running has each [*sql.Conn] that a Tx has a transaction on, until that ends. The
// context of a Tx cannot say this: a function may begin the next Tx with another one.
var running sync.Map

// A lease is the connection of one attempt. An [*sql.Tx] cannot close the
// connection under it, and after a failover the pool would hand out the connection
// to the old server again and again.
type lease struct {
	conn   *sql.Conn // nil: the transaction has a connection that this package cannot close
	caller *sql.Conn // that connection, if it is known: it is in running
	stuck  bool      // a panic has left conn locked, so to close it would block for ever
}

// begin begins a transaction, of a pool on a connection of its own.
func (l *lease) begin(ctx context.Context, db Beginner, opts *sql.TxOptions) (tx *sql.Tx, err error) {
	begin := func(by Beginner) {
		err = l.ask(func() (err error) { tx, err = by.BeginTx(ctx, opts); return err })
	}
	pool, ok := db.(*sql.DB)
	if !ok {
		if conn := connOf(db); conn != nil {
			if _, nested := running.LoadOrStore(conn, true); nested {
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
	if errors.Is(err, driver.ErrBadConn) { // conn is closed; the pool tries others, and then a new one
		l.conn = nil
		begin(pool)
	}
	return tx, err
}

// ask is the function ask, and notes a panic.
func (l *lease) ask(database func() error) error {
	l.stuck = true
	return ask(func() error {
		err := database()
		l.stuck = false
		return err
	})
}

// end gives the connection back to its pool, or closes it where err says that the
// next transaction needs another one. After the end of ctx database/sql may still
// be rolling back, and no caller waits for that.
func (l *lease) end(ctx context.Context, opts *sql.TxOptions, err error) {
	if l.caller != nil {
		running.Delete(l.caller)
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
	_ = end() // sql.ErrConnDone, if the connection was lost
}

// connOf returns the connection that db is or embeds, as sqlx.Conn does; nil: none is known.
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

func elsewhere(err error) bool {
	a := answerOf(err)
	return a != nil && a.elsewhere()
}

// isOwnFault reports whether err is the error of a statement that writes in a transaction
// which the caller made read-only.
func isOwnFault(opts *sql.TxOptions, err error) bool {
	if opts == nil || !opts.ReadOnly {
		return false
	}
	a := answerOf(err)
	state, _ := a.(sqlState)
	code, _ := a.(mySQL)
	return state.code == readOnlyState || code.state == readOnlyState
}
