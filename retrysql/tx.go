package retrysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/goretry/retry"
)

// Tx executes fn in a transaction and commits it, by [retry.Do]: where that
// fails and p says so, the whole transaction runs again, for a deadlock or a
// serialization failure has undone all of it and not one statement. fn must
// therefore decide anew each time, from what it reads then, and have no effect
// outside tx that may not come twice.
//
// fn leaves commit and rollback to Tx, without so much as a deferred Rollback,
// and uses the context it is given, which AttemptTimeout ends. If it returns an
// error, panics or calls runtime.Goexit, the transaction is rolled back; a
// panic passes through. An error of that rollback is reported with the first,
// and only the first decides: RetryIf and Select see no other. An error marked
// by [retry.Permanent] is final, as everywhere.
//
// If p has no RetryIf, [Transient] decides. On SQLite and on MySQL, whose
// drivers have no method SQLState, it says yes to driver.ErrBadConn, to what
// retrynet knows and to timeouts, and to nothing that the server says, no
// deadlock and no lock: the example for MySQL shows a RetryIf that does. A
// RetryIf decides alone, so one that adds to Transient calls it.
//
// No RetryIf is asked about a commit whose outcome is unknown: that is an
// [*UnknownCommitError], and permanent for every retry around Tx too. A commit
// that the server refused, such as for a serialization failure, is an error
// like any other, where an SQLSTATE tells so. Without one every failed commit
// is of unknown outcome, even one that was surely refused: SQLITE_BUSY, the
// errors 1213 and 3101 of MySQL, a COMMIT that PostgreSQL answered with
// ROLLBACK because fn went on after an error. Tx can tell these from a lost
// answer by no method that drivers share, and to be wrong here would be to run
// a transaction twice.
//
// Where AttemptTimeout ends an execution before its commit, or a deadline that
// is not the caller's, it is rolled back, and Transient says yes. A commit that
// is cut off so is one of unknown outcome. After AttemptTimeout database/sql
// rolls back in the background, and may hold its locks a little longer: let the
// policy have a Backoff.
//
// An error that panics in a method of its own becomes a permanent error that
// names its type. If begin, commit or rollback panics, because database/sql
// asks a driver's error what it is, that is a permanent error as well, after a
// commit one of unknown outcome; the connection is then lost to the pool, and
// counts as in use for ever. The rollback in the background is beyond reach: a
// panic there ends the program.
//
// opts may be nil, see [sql.DB.BeginTx].
func Tx(ctx context.Context, db *sql.DB, opts *sql.TxOptions, p retry.Policy, fn func(context.Context, *sql.Tx) error) error {
	retryIf, choose := p.RetryIf, p.Select
	if retryIf == nil {
		retryIf = Transient
	}
	p.RetryIf = func(err error) bool { return retryIf(first(err)) }
	if choose != nil {
		p.Select = func(err error) *retry.Policy { return choose(first(err)) }
	}
	t := transaction{ctx, db, opts, fn}
	return retry.Do(ctx, p, t.execute)
}

// An UnknownCommitError reports a transaction that may have been committed,
// and may not: the connection was lost between COMMIT and its answer, the
// server itself does not know (08007, 40003), or the error has no SQLSTATE to
// tell by, as those of SQLite and MySQL. It is never retried. Find out by what
// the transaction would have written, a key of the request say, before you run
// it again.
//
// It also reports that the function ended the transaction itself, where Err is
// or joins [sql.ErrTxDone].
type UnknownCommitError struct {
	Err error // what COMMIT failed with
}

func (e *UnknownCommitError) Error() string {
	return fmt.Sprintf("retrysql: the transaction may or may not have been committed: %v", e.Err)
}

// Unwrap returns Err.
func (e *UnknownCommitError) Unwrap() error { return e.Err }

type transaction struct {
	ctx  context.Context // the caller's; execute gets one that AttemptTimeout ends
	db   *sql.DB
	opts *sql.TxOptions
	fn   func(context.Context, *sql.Tx) error
}

var errNil = errors.New("retrysql: Tx needs a database and a function, and one of them is nil")

// execute runs the transaction once.
func (t *transaction) execute(ctx context.Context) error {
	if t.db == nil || t.fn == nil {
		return retry.Permanent(errNil)
	}
	var tx *sql.Tx
	err := ask(func() (err error) { tx, err = t.db.BeginTx(ctx, t.opts); return err })
	if err != nil {
		return t.late(ctx, fmt.Errorf("retrysql: begin: %w", err))
	}
	err = t.body(ctx, tx)
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("retrysql: the context ended before the commit: %w", ctx.Err())
	}
	if err != nil {
		return rollback(ctx, tx, t.late(ctx, err))
	}
	return commit(ctx, tx)
}

// body calls fn, and rolls back where it does not return.
func (t *transaction) body(ctx context.Context, tx *sql.Tx) error {
	returned := false
	defer func() {
		if !returned {
			_ = ask(tx.Rollback) // what fn panics with goes before
		}
	}()
	err := t.fn(ctx, tx)
	returned = true
	return harmless(err)
}

func rollback(ctx context.Context, tx *sql.Tx, err error) error {
	failed := ask(tx.Rollback)
	switch {
	case failed == nil:
		return err
	case !errors.Is(failed, sql.ErrTxDone):
		return &rollbackError{err, failed}
	case ctx.Err() != nil: // database/sql has rolled back when it ended
		return err
	default:
		return unknown(&rollbackError{err, errEnded})
	}
}

// ask asks the database to begin, commit or roll back. database/sql calls
// methods of the driver's error before it returns it, and one may panic.
func ask(database func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = retry.Permanent(fmt.Errorf("retrysql: the driver panics: %v", p))
		}
	}()
	return harmless(database())
}

var errEnded = fmt.Errorf("%w by the function: leave both to Tx", sql.ErrTxDone)

func commit(ctx context.Context, tx *sql.Tx) error {
	err := ask(tx.Commit)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil:
		return unknown(errEnded)
	case refused(err):
		return fmt.Errorf("retrysql: commit: %w", err)
	default:
		return unknown(err)
	}
}

func unknown(err error) error { return retry.Permanent(&UnknownCommitError{err}) }

// refused reports whether a COMMIT that failed with err surely did not commit,
// because the server says so. It does not with a code that is no failure (00
// to 02), nor where it shuts down, crashes or runs out of space, which may
// come after the commit was written; HY is what ODBC says for anything.
//
// That nothing was sent would be proof too, but drivers say so of a COMMIT that
// was: pgx 5.12 has SafeToRetry for a connection that breaks before the answer,
// others have driver.ErrBadConn.
func refused(err error) bool {
	state := stateOf(err)
	if state == "" {
		return false
	}
	switch state[:2] {
	case "00", "01", "02", "08", "53", "57", "58", "HY", "XX":
		return state == "57014"
	default:
		return state != "40003"
	}
}

// late returns err marked as a timeout, if that is what ended the execution
// while the caller's context goes on.
func (t *transaction) late(ctx context.Context, err error) error {
	if t.ctx.Err() == nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
		return &timeoutError{err}
	}
	return err
}

// A timeoutError is a deadline that was not the caller's, in a transaction
// that was not committed.
type timeoutError struct{ err error }

func (e *timeoutError) Error() string { return "retrysql: timed out and rolled back: " + e.err.Error() }
func (e *timeoutError) Unwrap() error { return e.err }

// A rollbackError is what the transaction failed with, and then its rollback.
type rollbackError struct{ err, rollback error }

func (e *rollbackError) Error() string   { return fmt.Sprintf("%v; rollback: %v", e.err, e.rollback) }
func (e *rollbackError) Unwrap() []error { return []error{e.err, e.rollback} }

// first returns what an execution failed with, without what its rollback did.
func first(err error) error {
	if e, ok := err.(*rollbackError); ok {
		return e.err
	}
	return err
}
