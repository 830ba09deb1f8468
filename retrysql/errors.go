package retrysql

import (
	"fmt"
	"iter"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/harmless"
)

func unknown(err error) error { return retry.Permanent(&UnknownCommitError{err}) }

// An UnknownCommitError says that a transaction may or may not have been committed. For
// example, the connection was lost between COMMIT and its answer, or the server itself does not
// know the outcome (SQLSTATEs 08007 and 40003). The outcome is also unknown if nothing in the
// error shows that the server refused the commit. An UnknownCommitError is never retried.
// Before you run the transaction again, look for the data that it writes, such as a key of the
// request.
//
// Tx also returns an UnknownCommitError if the transaction ended before the function returned. In
// this case errors.Is finds [sql.ErrTxDone] in the error. TxFunc also returns an UnknownCommitError
// if transact breaks the rules of [TxFunc].
type UnknownCommitError struct {
	Err error // the error of COMMIT
}

func (e *UnknownCommitError) Error() string {
	return fmt.Sprintf("retrysql: the transaction may or may not have been committed: %v", e.Err)
}

// Unwrap returns Err.
func (e *UnknownCommitError) Unwrap() error { return e.Err }

// A beginError is the error of an attempt that failed before it called the function.
type beginError struct{ err error }

func (e *beginError) Error() string { return "retrysql: begin: " + e.err.Error() }
func (e *beginError) Unwrap() error { return e.err }

// A timeoutError is the error of a transaction that was rolled back because a deadline passed that
// is not the deadline of the caller.
type timeoutError struct{ err error }

func (e *timeoutError) Error() string {
	return "retrysql: timed out and rolled back: " + e.err.Error()
}

func (e *timeoutError) Unwrap() error { return e.err }

// A rollbackError is the error of a transaction that was rolled back. Its text contains the
// error of the function and the error of the rollback. Only the error of the function decides
// whether the transaction is retried.
type rollbackError struct{ function, all error }

func (e *rollbackError) Error() string   { return e.all.Error() }
func (e *rollbackError) Unwrap() []error { return []error{e.function, e.all} }

// rolledBack returns an error that joins the errors `function` and err. `function` is the error of
// the function that ran in the transaction. err is the error that transact returned, which may come
// from the rollback. If the text of `function` already contains the text of err, rolledBack returns
// only `function`.
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

// tree yields err and all errors that it wraps, in the order of errors.As.
func tree(err error) iter.Seq[error] {
	return func(yield func(error) bool) { walk(err, yield) }
}

func walk(err error, yield func(error) bool) bool {
	if err == nil {
		return true
	}
	if !yield(err) {
		return false
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return walk(err.Unwrap(), yield)
	case interface{ Unwrap() []error }:
		for _, err := range err.Unwrap() {
			if !walk(err, yield) {
				return false
			}
		}
	}
	return true
}

// check returns err, or a permanent error if a method of err panics. To find this out, `check`
// calls the methods of err that will be called later.
func check(err error) error {
	panicked := harmless.Ask("retrysql", err, func(err error) {
		isTransient(err)
		refused(err)
		retry.IsPermanent(err)
		retry.RetryAfterOf(err)
	})
	if panicked != nil {
		return retry.Permanent(panicked)
	}
	return err
}
