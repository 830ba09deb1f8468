package retrysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/harmless"
	"github.com/goretry/retry/retrynet"
)

// A Beginner begins transactions, as [*sql.DB] and [*sql.Conn] do.
type Beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// Tx runs fn in a transaction of database/sql and commits it. If that fails and
// p allows another attempt, the whole transaction runs again. So fn may run several
// times: read inside the transaction, and keep side effects out of fn unless they
// can be repeated.
//
// fn must not commit or roll back, not even in a defer or with SQL; except with
// MySQL's driver, Tx cannot notice the SQL. It must use the context it is given,
// which AttemptTimeout cancels. If fn returns an error, panics or calls
// runtime.Goexit, the transaction is rolled back; a panic passes through. An error
// of that rollback is reported with the first, and only the first decides: RetryIf
// and Classify see no other. An error marked by [retry.Permanent] is final, as
// everywhere.
//
// A rollback undoes what the database can undo. MySQL and MariaDB commit before
// and after DDL such as CREATE TABLE, and do not roll back tables without
// transactions (MyISAM, Aria), so a transaction with those is not safe to run
// again: keep DDL, and every other statement that commits, out of fn.
//
// After a deadlock MySQL and MariaDB have rolled back the whole transaction, and
// each statement that follows commits by itself. So fn must return the error of a
// statement at once. With go-sql-driver/mysql Tx checks that by a savepoint named
// retrysql, which it sets after BEGIN and releases before COMMIT: two more round
// trips, and one or two before a rollback. If the savepoint is gone, the call ends
// with an [*UnknownCommitError]: what fn wrote first is lost, and what it wrote
// later is committed. A statement of fn that commits, such as COMMIT or CREATE
// TABLE, ends the call so too. This is tested with MariaDB; MySQL documents the same.
//
// Tx cannot see that fn went on if the connection was lost or ctx was done before
// fn returned, or if fn returned the deadlock and its last statement returned rows
// or changed none, nor that a statement had committed before the deadlock. It
// sees nothing with another driver, or with one that wraps this one. With
// the savepoint fn must close its rows before it returns, and the server must know
// savepoints; for one that does not, use TxFunc.
//
// If p has no RetryIf, [Transient] decides: what it does not accept ends the call
// with ReasonNonRetryable and the Cause "not a transient database error", and
// Classify is not called for it. A custom RetryIf replaces Transient; call
// Transient inside it to extend it.
//
// A commit whose outcome is unknown is an [*UnknownCommitError]. No RetryIf is
// asked about it, and it is permanent for every retry around Tx too. A commit
// that the server refused is an error like any other: for a serialization
// failure, for SQLITE_BUSY, for a conflict in a Galera cluster (MySQL's error
// 1213), or because PostgreSQL answered COMMIT with ROLLBACK after fn went on
// past an error.
//
// If AttemptTimeout, or a deadline that is not the caller's, ends an attempt before
// its commit, the attempt is rolled back, and Transient is true. If either cuts off a
// commit, the outcome is unknown. After AttemptTimeout database/sql rolls back in the
// background, and may hold its locks a little longer: give the policy a Backoff.
//
// An error that panics in one of its own methods becomes a permanent error that
// names its type. If begin, commit or rollback panics, because database/sql
// calls such a method, that is a permanent error too, and after a commit one of
// unknown outcome. The pool then treats the connection as in use forever. The
// rollback in the background is out of reach: a panic there ends the program.
//
// After a failover a connection of the pool may lead to a server that has become
// read-only. If the server says so, or that it is cut off from its cluster, Tx closes
// that connection and the next attempt gets another one. It does so only for a
// [*sql.DB]. In a transaction that opts makes read-only, a statement that writes is a
// mistake of the caller, and is not retried. Make a transaction read-only by opts and
// not by SQL: after SET TRANSACTION READ ONLY the answer to such a statement is the
// answer of a standby, 25006, and Tx retries. Tx does not ask the server which of the two
// it was, because a pooler such as PgBouncer may lead that question to another server.
//
// db is usually a [*sql.DB]. A [*sql.Conn] is one connection: once that is lost,
// the call ends with [sql.ErrConnDone]. While a Tx has a transaction on a Conn, another
// Tx on that Conn is refused with a permanent error, because its COMMIT would be that
// of the outer transaction. The same holds for a struct that embeds the Conn, such as
// sqlx.Conn. Tx sees neither a TxFunc on that Conn nor a BeginTx of your own. opts may
// be nil, see [sql.DB.BeginTx].
//
// For a library that has a transaction type of its own, such as pgx or GORM,
// use [TxFunc].
func Tx(ctx context.Context, db Beginner, opts *sql.TxOptions, p retry.Policy, fn func(context.Context, *sql.Tx) error) error {
	if v := reflect.ValueOf(db); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return retry.Do(ctx, p, func(context.Context) error { return retry.Permanent(errNoDatabase) })
	}
	transient := func(err error) bool {
		return harmless.Or(false, func() bool { return passes(err) && !isOwnFault(opts, err) })
	}
	return transactions(ctx, databaseSQL(db, opts, hasSavepoint(db)), decidedByTheFunction(p, transient), fn)
}

// TxFunc is [Tx] for everything that has transactions of its own: pgx, GORM, sqlx,
// bun, ent. Each attempt calls transact, which begins a transaction, calls body with
// it exactly once, and then commits if body returned nil and rolls back if it did
// not. pgx and GORM have such a function:
//
//	func(ctx context.Context, body func(pgx.Tx) error) error {
//		return pgx.BeginFunc(ctx, pool, body)
//	}
//
//	func(ctx context.Context, body func(*gorm.DB) error) error {
//		return db.WithContext(ctx).Transaction(body)
//	}
//
// body runs fn with the attempt's context. So TxFunc knows what no error can tell:
// whether fn had succeeded. If it had, an error of transact is what COMMIT failed
// with. Such an error is an [*UnknownCommitError] and permanent, unless the server
// refused the commit. Everything else that [Tx] promises about fn, RetryIf, Classify
// and timeouts holds here too.
//
// There is no savepoint on MySQL and MariaDB: if fn goes on after a deadlock, half
// of the transaction may be applied without an error, or a part of it twice.
//
// transact must do nothing else that matters, since it runs in each attempt,
// and must not begin inside another transaction: a savepoint cannot be
// committed, and PostgreSQL runs nothing more after an error outside it. TxFunc cannot
// check this, because only transact knows its connection. The library's own retries
// must be off.
//
// If transact returns nil although fn failed, or calls body again after fn had
// succeeded and then fails, the outcome is unknown too. If it never calls body
// and returns nil, that is a permanent error.
//
// TxFunc cannot close the connection to a server that became read-only. Let the driver
// do so: with go-sql-driver/mysql set RejectReadOnly, and with pgx an OnPgError that
// returns false for SQLSTATE 25006. pgx's target_session_attrs=read-write refuses such
// a server when a connection is opened. TxFunc does not know either that transact's
// transaction is read-only, and retries a statement that writes in it.
//
// Leave GORM's TranslateError off: it replaces the server's answer for a duplicate
// key and the like with an error of GORM's own. gorm.io/driver/mysql does so, and
// gorm.io/driver/postgres up to v1.6.1 or with a driver other than pgx. A commit that
// was refused with such an error has an unknown outcome.
func TxFunc[T any](ctx context.Context, transact func(ctx context.Context, body func(T) error) error, p retry.Policy, fn func(context.Context, T) error) error {
	return transactions(ctx, transact, decidedByTheFunction(p, Transient), fn)
}

func transactions[T any](ctx context.Context, transact func(ctx context.Context, body func(T) error) error, p retry.Policy, fn func(context.Context, T) error) error {
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
	errNoDatabase   = errors.New("retrysql: nil database")
	errNested       = errors.New("a Tx inside a Tx on the same *sql.Conn: it would commit the outer transaction; call it with the *sql.DB, or use the outer *sql.Tx")
	errNoFunction   = errors.New("retrysql: nil function")
	errNoBody       = errors.New("retrysql: transact returned nil without calling its body: no transaction ran")
	errNoReturn     = errors.New("retrysql: the function did not return")
	errNotTransient = errors.New("not a transient database error")
	errEnded        = fmt.Errorf("%w by the function: leave both to Tx", sql.ErrTxDone)
	errLeft         = fmt.Errorf("%w by the server: the function went on after an error such as a deadlock, or sent a statement that commits, such as CREATE TABLE", sql.ErrTxDone)
)

// decidedByTheFunction returns p with a Classify that says no where transient
// does, if p has no RetryIf. The functions of p see what the function failed with,
// and not what the rollback did.
func decidedByTheFunction(p retry.Policy, transient func(error) bool) retry.Policy {
	retryIf, classify := p.RetryIf, p.Classify
	if retryIf != nil {
		p.RetryIf = func(err error) bool { return retryIf(first(err)) }
	}
	p.Classify = func(err error) *retry.Class {
		switch err := first(err); {
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

// databaseSQL returns the transact of database/sql. It is
// small enough to be inlined, so that its closure needs no allocation.
func databaseSQL(db Beginner, opts *sql.TxOptions, guarded bool) func(context.Context, func(*sql.Tx) error) error {
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

// transaction runs the body in tx, and commits tx or rolls it back.
func (l *lease) transaction(ctx context.Context, tx *sql.Tx, guarded bool, body func(*sql.Tx) error) error {
	returned := false
	defer func() {
		if !returned {
			_ = l.ask(tx.Rollback) // a panic of the body, or the error of the savepoint, goes first
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
	case ctx.Err() != nil: // database/sql has rolled back when it ended
		return nil
	default:
		return errEnded
	}
}

// ask asks the database to begin, commit or roll back. database/sql calls
// methods of the driver's error before it returns it, and one may panic.
func ask(database func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = retry.Permanent(fmt.Errorf("retrysql: the driver panicked: %v", p))
		}
	}()
	return check(database())
}

// A run is one attempt of a transaction.
type run struct {
	caller, ctx context.Context // AttemptTimeout ends ctx

	calls, successes int   // of the function
	failure          error // of the function, in its last call
}

// body calls the function.
func (r *run) body(fn func() error) error {
	r.calls++
	r.failure = errNoReturn // for a transact that recovers a panic
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

// outcome says what err, which transact returned, means after what the function
// did.
func (r *run) outcome(err error) error {
	switch {
	case r.calls == 0 && err == nil:
		return retry.Permanent(errNoBody)
	case r.calls == 0:
		return r.late(&beginError{err})
	case err == nil && r.failure == nil:
		return nil
	case err == nil:
		return unknown(fmt.Errorf("%w; the transaction ended without an error", r.failure))
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

// late returns err marked as a timeout if that is what ended the attempt while
// the caller's context goes on.
func (r *run) late(err error) error {
	if err != nil && r.caller.Err() == nil && (r.ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
		return &timeoutError{err}
	}
	return err
}

// refused reports whether a COMMIT that failed with err has certainly applied
// nothing, because the server says so.
//
// That nothing was sent would be proof too, but drivers say so of a COMMIT that
// was: pgx 5.12 has SafeToRetry for a connection that breaks before the answer,
// others have driver.ErrBadConn. And an answer beside a lost connection may belong
// to another statement, such as a rollback that transact joined to it.
func refused(err error) bool {
	a := answerOf(err)
	return a != nil && a.refused() && !lost(err) && !retrynet.Transient(err)
}

func unknown(err error) error { return retry.Permanent(&UnknownCommitError{err}) }

// An UnknownCommitError reports a transaction that may have been committed or
// not: the connection was lost between COMMIT and its answer, the server itself
// does not know (08007, 40003), or nothing in the error shows that the server
// refused the commit. It is never retried. Before you run the transaction
// again, look for what it would have written, such as a key of the request.
//
// It also reports that the transaction ended before the function did, where Err is
// or joins [sql.ErrTxDone], and a transact that does not do what [TxFunc] needs.
type UnknownCommitError struct {
	Err error // what COMMIT failed with
}

func (e *UnknownCommitError) Error() string {
	return fmt.Sprintf("retrysql: the transaction may or may not have been committed: %v", e.Err)
}

// Unwrap returns Err.
func (e *UnknownCommitError) Unwrap() error { return e.Err }

// A beginError is what an attempt failed with before the function was called.
type beginError struct{ err error }

func (e *beginError) Error() string { return "retrysql: begin: " + e.err.Error() }
func (e *beginError) Unwrap() error { return e.err }

// A timeoutError is a deadline that was not the caller's, in a transaction
// that was not committed.
type timeoutError struct{ err error }

func (e *timeoutError) Error() string { return "retrysql: timed out and rolled back: " + e.err.Error() }
func (e *timeoutError) Unwrap() error { return e.err }

// A rollbackError is what a transaction failed with that was rolled back. Only
// what the function failed with decides.
type rollbackError struct{ function, all error }

func (e *rollbackError) Error() string   { return e.all.Error() }
func (e *rollbackError) Unwrap() []error { return []error{e.function, e.all} }

// rolledBack returns what the function failed with, and err if that says more.
func rolledBack(function, err error) error {
	switch {
	case strings.Contains(function.Error(), err.Error()):
		return function
	case strings.Contains(err.Error(), function.Error()):
		return &rollbackError{function, err}
	default:
		return &rollbackError{function, fmt.Errorf("%w; rollback: %w", function, err)}
	}
}

// first returns what the function failed with, without what its rollback did.
func first(err error) error {
	if e, ok := err.(*rollbackError); ok {
		return e.function
	}
	return err
}

// check returns err, or a permanent error in its place if one of the methods
// that will be asked panics.
func check(err error) error {
	panicked := harmless.Ask("retrysql", err, func(err error) {
		passes(err)
		refused(err)
		retry.IsPermanent(err)
		retry.RetryAfterOf(err)
	})
	if panicked != nil {
		return retry.Permanent(panicked)
	}
	return err
}
