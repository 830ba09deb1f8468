package retrysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/harmless"
)

// A Beginner begins transactions, for example a [*sql.DB] or a [*sql.Conn].
type Beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// Tx runs fn in a transaction of database/sql and commits the transaction. If fn or COMMIT
// fails and p allows another attempt, Tx runs the whole transaction again. fn may run several
// times, so it should read its data inside the transaction, and all its side effects must be
// repeatable. For a library with its own transaction type, such as pgx or GORM, use [TxFunc].
//
// # The function
//
// fn must not commit or roll back, not even in a defer or with SQL. Tx notices a COMMIT or
// ROLLBACK in SQL only with the driver go-sql-driver/mysql. fn must use the context that it
// gets, because AttemptTimeout cancels this context. If fn returns an error, panics or calls
// runtime.Goexit, Tx rolls back. Tx does not recover the panic. If the rollback fails too, the
// error of the attempt contains both errors. RetryIf and Classify get only the error of fn. If
// fn wraps its error with [retry.Permanent], the call ends.
//
// A rollback undoes only what the database can undo. MySQL and MariaDB commit before and after
// DDL such as CREATE TABLE, and cannot roll back changes of tables without transactions
// (MyISAM, Aria). Keep DDL, and every other statement that commits, out of fn. A transaction
// with such statements is not safe to run again.
//
// # Deadlocks in MySQL and MariaDB
//
// After a deadlock, MySQL and MariaDB have rolled back the whole transaction, and each later
// statement commits by itself. So fn must return at once if a statement fails. With
// go-sql-driver/mysql, Tx checks with a savepoint whether fn went on after a deadlock. The
// savepoint is named retrysql. Tx sets the savepoint after BEGIN and releases it before COMMIT.
// A transaction that commits takes two more round trips. A transaction that rolls back takes
// two or three more. If the savepoint is gone, the call ends with an [*UnknownCommitError]: the
// writes of fn before the deadlock are lost, and the writes after it are committed. The call
// also ends with this error if fn sends a statement that commits, such as COMMIT or CREATE
// TABLE. All of this is tested with MariaDB, and MySQL's manual describes the same behavior.
//
// Tx does not notice that fn went on after a deadlock in these cases:
//
//   - The connection was lost or ctx was done before fn returned.
//   - fn returned the error of the deadlock, and the last statement of fn returned rows or changed
//     no row.
//   - A statement of fn had committed the transaction before the deadlock.
//   - The driver is a wrapper around go-sql-driver/mysql, or another driver.
//
// With go-sql-driver/mysql, fn must close its rows before it returns, and the server must
// support savepoints. For a server without savepoints, use TxFunc.
//
// # Which errors are retried
//
// If p has no RetryIf, [Transient] decides. An error for which Transient returns false ends the
// call with ReasonNonRetryable and the Cause "not a transient database error". Classify is not
// called for such an error. A RetryIf of p replaces Transient. To extend Transient, call it inside
// your RetryIf.
//
// If the outcome of a commit is unknown, the error is an [*UnknownCommitError]. RetryIf is not
// called for this error, and a retry around Tx treats it as permanent too. The error of a
// commit that the server refused is an error like any other. For example, a server refuses a
// commit after a serialization failure or with SQLITE_BUSY. A Galera cluster does so after a
// conflict (MySQL's error 1213). PostgreSQL answers COMMIT with ROLLBACK if fn went on after an
// error.
//
// If AttemptTimeout passes before the commit, the attempt is rolled back, and Transient returns
// true for the error of this attempt. The same is true for any deadline other than the caller's. If
// such a deadline passes during the commit, the outcome is unknown. After AttemptTimeout,
// database/sql rolls back in the background and may keep its locks a little longer, so give the
// policy a Backoff.
//
// An error whose methods panic becomes a permanent error that names the type of the error. If
// database/sql calls such a method while it begins, commits or rolls back, the panic becomes a
// permanent error too, and the pool treats the connection as in use for ever. If this happens
// during a commit, the outcome is unknown. If the context ends, database/sql rolls back in a
// goroutine of its own. A panic in this goroutine cannot be recovered and ends the program.
//
// # Failover
//
// After a failover, a connection of the pool may lead to a server that has become read-only. If
// the server answers that it is read-only, or that it is cut off from its cluster, Tx closes
// the connection, and the next attempt gets another connection. Tx can do this only if db is a
// [*sql.DB].
//
// If opts makes the transaction read-only, a statement that writes is a mistake of the caller
// and is not retried. Use opts and not SQL to make a transaction read-only. After SET
// TRANSACTION READ ONLY, a statement that writes fails with the SQLSTATE 25006. A standby
// answers with this code too, so Tx retries. Tx does not ask the server whether it is a
// standby, because a pooler such as PgBouncer may send this question to another server.
//
// # The database
//
// db is usually a [*sql.DB]. A [*sql.Conn] is one connection. If that connection is lost, the
// call ends with [sql.ErrConnDone]. While a Tx has a transaction on a Conn, another Tx on the
// same Conn fails with a permanent error, because the inner COMMIT would commit the outer
// transaction. The same is true for a struct that embeds the Conn, such as sqlx.Conn. Tx
// notices neither a TxFunc nor your own BeginTx on this Conn. opts may be nil, see
// [sql.DB.BeginTx].
func Tx(
	ctx context.Context, db Beginner, opts *sql.TxOptions, p retry.Policy,
	fn func(context.Context, *sql.Tx) error,
) error {
	if v := reflect.ValueOf(db); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return retry.Do(ctx, p, func(context.Context) error {
			return retry.Permanent(errNoDatabase)
		})
	}
	transient := func(err error) bool {
		return harmless.Or(false, func() bool { return isTransient(err) && !isOwnFault(opts, err) })
	}
	transact := databaseSQL(db, opts, hasSavepoint(db))
	return transactions(ctx, transact, decidedByTheFunction(p, transient), fn)
}

// isOwnFault reports whether err comes from a statement that writes although opts makes the
// transaction read-only.
func isOwnFault(opts *sql.TxOptions, err error) bool {
	if opts == nil || !opts.ReadOnly {
		return false
	}
	a := answerOf(err)
	state, _ := a.(sqlState)
	code, _ := a.(mySQL)
	return state.code == readOnlyState || code.state == readOnlyState
}

// TxFunc is [Tx] for libraries with their own transactions: pgx, GORM, sqlx, bun, ent. Each
// attempt calls `transact`. `transact` must begin a transaction, call `body` with it exactly once,
// commit if `body` returns nil, and roll back if `body` returns an error. For pgx and for GORM,
// `transact` is one of these functions:
//
//	func(ctx context.Context, body func(pgx.Tx) error) error {
//		return pgx.BeginFunc(ctx, pool, body)
//	}
//
//	func(ctx context.Context, body func(*gorm.DB) error) error {
//		return db.WithContext(ctx).Transaction(body)
//	}
//
// `body` runs fn with the context of the attempt, so TxFunc knows whether fn succeeded. If fn
// succeeded and `transact` returns an error, COMMIT has failed. The error is then a permanent
// [*UnknownCommitError], unless the server refused the commit. The rules of [Tx] about fn,
// RetryIf, Classify and timeouts apply to TxFunc too.
//
// Unlike Tx, TxFunc sets no savepoint on MySQL and MariaDB, so it cannot notice that fn went on
// after a deadlock. The deadlock has rolled back the first statements of fn, and each later
// statement commits by itself. If fn then succeeds, only the later statements are applied, and
// TxFunc returns nil. If fn then fails and TxFunc retries, the later statements may be applied
// twice.
//
// `transact` runs in each attempt, so it must have no other side effects. `transact` must not begin
// its transaction inside another transaction. The inner transaction would be only a savepoint, and
// the outer transaction could still undo what TxFunc has reported as committed. After an error in
// the outer transaction, PostgreSQL also refuses each statement of each retry. TxFunc cannot notice
// an outer transaction, because only `transact` knows its connection. Turn off the library's own
// retries.
//
// If `transact` returns nil although `body` returned an error, the outcome is unknown. The same is
// true if `transact` calls `body` again after fn succeeded, and then returns an error. If
// `transact` returns nil without calling `body`, the call ends with a permanent error.
//
// TxFunc cannot close the connection to a server that became read-only. Let the driver close the
// connection: set RejectReadOnly of go-sql-driver/mysql, or an OnPgError of pgx that returns false
// for SQLSTATE 25006. With target_session_attrs=read-write, pgx refuses such a server when it opens
// a connection. TxFunc does not know whether `transact` begins a read-only transaction. So if a
// statement writes in a read-only transaction, TxFunc treats the error of this statement like the
// error of a server that became read-only, and retries in vain.
//
// Leave GORM's TranslateError off. With TranslateError, gorm.io/driver/mysql replaces some errors
// of the server, such as the error for a duplicate key, with errors of GORM.
// gorm.io/driver/postgres does the same up to v1.6.1, and in later versions with a driver other
// than pgx. If the error of a refused commit is replaced, TxFunc treats the outcome as unknown.
func TxFunc[T any](
	ctx context.Context, transact func(ctx context.Context, body func(T) error) error,
	p retry.Policy, fn func(context.Context, T) error,
) error {
	return transactions(ctx, transact, decidedByTheFunction(p, Transient), fn)
}

func transactions[T any](
	ctx context.Context, transact func(ctx context.Context, body func(T) error) error,
	p retry.Policy, fn func(context.Context, T) error,
) error {
	return retry.Do(ctx, p, func(attempt context.Context) error {
		if transact == nil || fn == nil {
			return retry.Permanent(errNoFunction)
		}
		r := run{caller: ctx, ctx: attempt}
		err := transact(attempt, func(tx T) error {
			return r.body(func() error { return fn(attempt, tx) })
		})
		return r.outcome(check(err))
	})
}

var (
	errNoDatabase = errors.New("retrysql: nil database")
	errNested     = errors.New("a Tx inside a Tx on the same *sql.Conn would commit the outer " +
		"transaction: call the inner Tx with the *sql.DB, or use the outer *sql.Tx")
	errNoFunction = errors.New("retrysql: nil function")
	errNoBody     = errors.New("retrysql: transact returned nil without calling body: " +
		"no transaction ran")
	errNoReturn     = errors.New("retrysql: the function panicked or called runtime.Goexit")
	errNotTransient = errors.New("not a transient database error")
	errEnded        = fmt.Errorf("%w by the function: leave COMMIT and ROLLBACK to Tx", sql.ErrTxDone)
	errLeft         = fmt.Errorf("%w by the server: the function went on after an error such as a "+
		"deadlock, or sent a statement that commits, such as CREATE TABLE", sql.ErrTxDone)
)

// decidedByTheFunction returns p with its RetryIf and Classify wrapped, so that they get only the
// error of the function, without the error of the rollback. If p has no RetryIf, an error for which
// the function `transient` returns false is not retried.
func decidedByTheFunction(p retry.Policy, transient func(error) bool) retry.Policy {
	retryIf, classify := p.RetryIf, p.Classify
	if retryIf != nil {
		p.RetryIf = func(err error) bool { return retryIf(functionError(err)) }
	}
	p.Classify = func(err error) *retry.Class {
		switch err := functionError(err); {
		case retryIf == nil && !transient(err):
			return &retry.Class{NonRetryable: true, Cause: errNotTransient}
		case classify != nil:
			return classify(err)
		default:
			return nil
		}
	}
	return p
}

// functionError returns the error of the function, without the error of the rollback.
func functionError(err error) error {
	if e, ok := err.(*rollbackError); ok {
		return e.function
	}
	return err
}

// databaseSQL returns the function that Tx uses as `transact`. If `guarded` is true, this function
// sets a savepoint before it calls `body`. databaseSQL is small enough to be inlined, so its
// closure is not allocated.
func databaseSQL(
	db Beginner, opts *sql.TxOptions, guarded bool,
) func(context.Context, func(*sql.Tx) error) error {
	return func(ctx context.Context, body func(*sql.Tx) error) (err error) {
		var l lease
		defer func() { l.end(ctx, opts, err) }()
		tx, err := l.begin(ctx, db, opts)
		if err != nil {
			return err
		}
		return l.transaction(ctx, tx, guarded, body)
	}
}

// A run is one attempt of a transaction.
type run struct {
	caller, ctx context.Context // the contexts of the call of Tx or TxFunc, and of this attempt

	calls, successes int   // how often the function was called, and how often it succeeded
	failure          error // the error of the last call of the function
}

// body calls fn and records the result in r.
func (r *run) body(fn func() error) error {
	r.calls++
	r.failure = errNoReturn // the value remains if fn panics and `transact` recovers the panic
	err := check(fn())
	if err == nil && r.ctx.Err() != nil {
		err = fmt.Errorf("retrysql: the context ended before the commit: %w", r.ctx.Err())
	}
	if err == nil {
		r.successes++
	}
	r.failure = r.late(err)
	return err
}

// outcome returns the error of the attempt. err is the result of `transact`.
func (r *run) outcome(err error) error {
	switch {
	case r.calls == 0 && err == nil:
		return retry.Permanent(errNoBody)
	case r.calls == 0:
		return r.late(&beginError{err})
	case err == nil && r.failure == nil:
		return nil
	case err == nil:
		return unknown(fmt.Errorf(
			"%w; the argument transact of TxFunc returned nil despite this error", r.failure))
	case r.successes == 0 && (errors.Is(err, errEnded) || errors.Is(err, errLeft)):
		return unknown(&rollbackError{r.failure, fmt.Errorf("%w; rollback: %w", r.failure, err)})
	case r.successes == 0:
		return rolledBack(r.failure, err)
	case r.successes == 1 && r.failure == nil && refused(err):
		return fmt.Errorf("retrysql: commit: %w", err)
	default:
		return unknown(err)
	}
}

// late wraps err in a timeoutError if the attempt was ended by a deadline that is not the deadline
// of the caller.
func (r *run) late(err error) error {
	if err == nil || r.caller.Err() != nil {
		return err
	}
	if r.ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return &timeoutError{err}
	}
	return err
}
