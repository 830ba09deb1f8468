package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// A transact runs a function in a transaction, as a library does.
type transact = func(context.Context, func(*sql.Tx) error) error

// begins returns a transact that begins and commits transactions like hand-written code. It does
// not report the error of a rollback.
func begins(db *sql.DB) transact {
	return func(ctx context.Context, body func(*sql.Tx) error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := body(tx); err != nil {
			return err
		}
		return tx.Commit()
	}
}

type function = func(context.Context, *sql.Tx) error

// calls are the two ways to run a transaction. Both must do the same.
var calls = map[string]func(context.Context, *sql.DB, retry.Policy, function) error{
	"Tx": func(ctx context.Context, db *sql.DB, p retry.Policy, fn function) error {
		return retrysql.Tx(ctx, db, nil, p, fn)
	},
	"TxFunc": func(ctx context.Context, db *sql.DB, p retry.Policy, fn function) error {
		return retrysql.TxFunc(ctx, begins(db), p, fn)
	},
}

const (
	notTransient = "retry: not retryable after 1 attempt (not a transient database error): "
	inDoubt      = "retry: permanent error after 1 attempt: retrysql: the transaction may or may not have been committed: "
)

// Each row runs a transaction with up to three attempts. Each attempt gets the next scene.
func TestTransactions(t *testing.T) {
	refusal, lostAnswer := errors.New("the server does not answer"), errors.New("the answer to the commit is lost")
	always := func(error) bool { return true }
	slow := func(context.Context) error { time.Sleep(time.Hour); return nil }
	late := func(err error) []scene {
		return []scene{{"write": func(ctx context.Context) error { <-ctx.Done(); return err }}}
	}
	timed := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), AttemptTimeout: time.Minute}
	for _, row := range []struct {
		name    string
		by      string       // "Tx" or "TxFunc"; "": both
		policy  retry.Policy // the zero Policy: three attempts
		scenes  []scene
		through func(transact) transact // changes the transact of TxFunc; nil: unchanged
		retryIf func(error) bool
		fn      function // nil: write
		want    retry.Reason
		asked   []string
		is      []error // the errors that errors.Is must find
		text    string
		failed  string // the error of the first attempt
	}{
		{name: "commits", want: retry.ReasonSuccess, asked: []string{committed}},

		// Failures before the function is called.
		{name: "begin fails temporarily", scenes: failing("begin", errShutdown), want: retry.ReasonSuccess, asked: []string{"begin", committed}},
		{name: "begin fails permanently", scenes: failing("begin", errUnique), want: retry.ReasonNonRetryable, asked: []string{"begin"},
			is: []error{errUnique}, text: notTransient + "retrysql: begin: duplicate key (SQLSTATE 23505)"},
		{name: "a permanent error of begin", scenes: failing("begin", retry.Permanent(io.EOF)), want: retry.ReasonPermanent, asked: []string{"begin"}},
		{name: "the connection is closed at begin", scenes: failing("begin", io.EOF), want: retry.ReasonSuccess, asked: []string{"begin", committed}},
		{name: "database/sql itself tries a bad connection three times",
			scenes: failing("begin", driver.ErrBadConn, driver.ErrBadConn, driver.ErrBadConn),
			want:   retry.ReasonSuccess, asked: []string{"begin", "begin", "begin", committed}},

		// The function fails, and its transaction is rolled back.
		{name: "a deadlock every time", scenes: failing("write", errDeadlock, errDeadlock, errDeadlock),
			want: retry.ReasonExhausted, asked: []string{rolledBack, rolledBack, rolledBack}, is: []error{errDeadlock},
			text: "retry: attempts exhausted after 3 attempts: deadlock detected (SQLSTATE 40P01)"},
		{name: "a connection lost in the middle", scenes: []scene{{"write": fails(io.ErrUnexpectedEOF), "rollback": fails(driver.ErrBadConn)}},
			want: retry.ReasonSuccess, asked: []string{rolledBack, committed}},
		{name: "a permanent error of the server", scenes: failing("write", errUnique), want: retry.ReasonNonRetryable, asked: []string{rolledBack},
			is: []error{errUnique}, text: notTransient + "duplicate key (SQLSTATE 23505)"},
		{name: "an error of the program", fn: returns(errOpaque), want: retry.ReasonNonRetryable, asked: []string{unwritten}, is: []error{errOpaque}},
		{name: "a bare EOF, which may be the end of a file", fn: returns(io.EOF),
			want: retry.ReasonNonRetryable, asked: []string{unwritten}, is: []error{io.EOF}},
		{name: "a permanent error", fn: returns(retry.Permanent(errDeadlock)), want: retry.ReasonPermanent, asked: []string{unwritten}, is: []error{errDeadlock}},
		{name: "the library wraps the function's error", fn: returns(errOpaque), through: wrapping("transfer: %w"),
			want: retry.ReasonNonRetryable, asked: []string{unwritten}, is: []error{errOpaque}, text: notTransient + "transfer: not enough money"},
		{name: "the library turns a panic into an error", fn: func(context.Context, *sql.Tx) error { panic("boom") }, through: recovering,
			want: retry.ReasonNonRetryable, asked: []string{unwritten},
			text: notTransient + "retrysql: the function panicked or called runtime.Goexit; rollback: recovered: boom"},

		// The error of the rollback does not decide whether there is a retry.
		{name: "a permanent error whose rollback fails", by: "Tx", scenes: failing("rollback", errDeadlock), fn: returns(retry.Permanent(errOpaque)),
			want: retry.ReasonPermanent, asked: []string{unwritten}, is: []error{errOpaque, errDeadlock}},
		{name: "a rollback that fails is reported", by: "Tx", scenes: []scene{{"write": fails(errUnique), "rollback": fails(refusal)}},
			want: retry.ReasonNonRetryable, asked: []string{rolledBack}, is: []error{errUnique, refusal},
			text: notTransient + "duplicate key (SQLSTATE 23505); rollback: the server does not answer"},
		{name: "a rollback that fails temporarily", by: "Tx", scenes: failing("rollback", errDeadlock), fn: returns(errOpaque),
			want: retry.ReasonNonRetryable, asked: []string{unwritten}, is: []error{errOpaque, errDeadlock}},
		{name: "a timeout whose rollback fails too", scenes: []scene{{"write": fails(context.DeadlineExceeded), "rollback": fails(driver.ErrBadConn)}},
			want: retry.ReasonSuccess, asked: []string{rolledBack, committed}},
		{name: "a rollback that takes longer than AttemptTimeout", policy: timed, scenes: []scene{{"write": fails(errUnique), "rollback": slow}},
			want: retry.ReasonNonRetryable, asked: []string{rolledBack}},
		{name: "the library returns the error of its rollback", fn: returns(errOpaque), through: replacing(errDeadlock),
			want: retry.ReasonNonRetryable, asked: []string{unwritten}, is: []error{errOpaque, errDeadlock},
			text: notTransient + "not enough money; rollback: deadlock detected (SQLSTATE 40P01)"},
		{name: "the library returns the error of its rollback, but the error of the function is retried", scenes: failing("write", errDeadlock),
			through: replacing(errOpaque), want: retry.ReasonSuccess, asked: []string{rolledBack, committed}},
		{name: "the library joins the errors of the function and of its rollback", fn: returns(errOpaque), through: joining(errDeadlock),
			want: retry.ReasonNonRetryable, asked: []string{unwritten}, is: []error{errOpaque, errDeadlock},
			text: notTransient + "not enough money; deadlock detected (SQLSTATE 40P01)"},

		// The commit fails. TestSQLState and TestAnswersWithoutAnSQLState test the answers of the
		// server.
		{name: "a serialization failure at every commit", scenes: failing("commit", errSerialization, errSerialization, errSerialization),
			want: retry.ReasonExhausted, asked: []string{committed, committed, committed}, is: []error{errSerialization},
			text: "retry: attempts exhausted after 3 attempts: retrysql: commit: could not serialize access (SQLSTATE 40001)"},
		{name: "a commit that was not sent, according to the driver", scenes: failing("commit", &unsentError{safe: true}), want: unknown, asked: []string{committed}},
		{name: "a connection lost at commit", scenes: failing("commit", io.ErrUnexpectedEOF), want: unknown, asked: []string{committed},
			is: []error{io.ErrUnexpectedEOF}, text: inDoubt + "unexpected EOF"},
		{name: "a connection lost at commit, joined with the answer to another statement",
			scenes: failing("commit", errors.Join(io.ErrUnexpectedEOF, errSerialization)), want: unknown, asked: []string{committed}},
		{name: "an error of the library after the commit", through: replacing(errOpaque), want: unknown, asked: []string{committed}, is: []error{errOpaque}},

		// A RetryIf replaces Transient.
		{name: "a RetryIf that adds to Transient", scenes: append(failing("write", errUnique, errDeadlock), failing("commit", errUnique)...),
			policy:  retry.Policy{MaxAttempts: 4},
			retryIf: func(err error) bool { return retrysql.Transient(err) || errors.Is(err, errUnique) },
			want:    retry.ReasonSuccess, asked: []string{rolledBack, rolledBack, committed, committed}},
		{name: "RetryIf is not called for an unknown commit", scenes: failing("commit", lostAnswer), retryIf: always, want: unknown, asked: []string{committed}},

		// A function that ends the transaction itself may have committed it.
		{name: "the function commits", by: "Tx", fn: func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }, retryIf: always,
			want: unknown, asked: []string{"begin commit"}, is: []error{sql.ErrTxDone}, text: inDoubt + ended},
		{name: "the function commits", by: "TxFunc", fn: func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }, retryIf: always,
			want: unknown, asked: []string{"begin commit"}, is: []error{sql.ErrTxDone}},
		{name: "the function commits and fails", by: "Tx", fn: func(_ context.Context, tx *sql.Tx) error { return errors.Join(errDeadlock, tx.Commit()) },
			retryIf: always, want: unknown, asked: []string{"begin commit"}, is: []error{sql.ErrTxDone, errDeadlock}},
		{name: "the function rolls back and fails", by: "Tx", fn: func(_ context.Context, tx *sql.Tx) error { return errors.Join(errDeadlock, tx.Rollback()) },
			want: unknown, asked: []string{unwritten}, is: []error{sql.ErrTxDone, errDeadlock},
			text: inDoubt + "deadlock detected (SQLSTATE 40P01); rollback: " + ended},
		{name: "the function has a deferred Rollback, which runs before the commit", fn: func(ctx context.Context, tx *sql.Tx) error {
			defer func() { _ = tx.Rollback() }()
			return write(ctx, tx)
		}, want: unknown, asked: []string{rolledBack}},

		// transact breaks a rule of TxFunc.
		{name: "transact does not call its body", through: func(transact) transact { return func(context.Context, func(*sql.Tx) error) error { return nil } },
			want: retry.ReasonPermanent,
			text: "retry: permanent error after 1 attempt: retrysql: transact returned nil without calling body: no transaction ran"},
		{name: "transact loses the function's error", fn: returns(errDeadlock), through: replacing(nil),
			want: unknown, asked: []string{unwritten}, is: []error{errDeadlock},
			text: inDoubt + "deadlock detected (SQLSTATE 40P01); the argument transact of TxFunc returned nil despite this error"},
		{name: "the library itself retries and succeeds", scenes: failing("write", errDeadlock), through: twice,
			want: retry.ReasonSuccess, asked: []string{rolledBack, committed}},
		{name: "the library itself retries a failure, and the commit is refused", through: twice,
			scenes: append(failing("write", errDeadlock), failing("commit", errSerialization)...),
			want:   retry.ReasonSuccess, asked: []string{rolledBack, committed, committed}},
		{name: "the library itself retries a failed commit, and fails", through: twice,
			scenes: append(failing("commit", lostAnswer), failing("write", errDeadlock)...),
			want:   unknown, asked: []string{committed, rolledBack}, is: []error{errDeadlock}},
		{name: "the library itself retries a failed commit, and the next commit is refused", through: twice,
			scenes: failing("commit", lostAnswer, errSerialization), want: unknown, asked: []string{committed, committed}, is: []error{errSerialization}},

		// Timeouts.
		{name: "a timeout in begin", policy: timed, scenes: []scene{{"begin": hangs}}, want: retry.ReasonSuccess, asked: []string{"begin", committed},
			failed: "retrysql: timed out and rolled back: retrysql: begin: context deadline exceeded"},
		{name: "a timeout in a statement", policy: timed, scenes: []scene{{"write": hangs}}, want: retry.ReasonSuccess, asked: []string{rolledBack, committed},
			failed: "retrysql: timed out and rolled back: context deadline exceeded"},
		{name: "a timeout in a statement, with an error that does not show it", policy: timed, scenes: late(errors.New("interrupted")),
			want: retry.ReasonSuccess, asked: []string{rolledBack, committed}, failed: "retrysql: timed out and rolled back: interrupted"},
		{name: "a timeout in a function that ignores its context", policy: timed, scenes: late(nil), want: retry.ReasonSuccess, asked: []string{rolledBack, committed},
			failed: "retrysql: timed out and rolled back: retrysql: the context ended before the commit: context deadline exceeded"},
		{name: "a timeout in a function that returns a permanent error", policy: timed, scenes: late(retry.Permanent(errOpaque)),
			want: retry.ReasonPermanent, asked: []string{rolledBack}, is: []error{errOpaque}},
		{name: "a timeout in a commit, which the driver interrupts", policy: timed, scenes: []scene{{"commit": hangs}},
			want: unknown, asked: []string{committed}, is: []error{context.DeadlineExceeded}},
		{name: "a deadline that the function sets itself", scenes: []scene{{"write": hangs}}, fn: func(ctx context.Context, tx *sql.Tx) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return write(ctx, tx)
		}, want: retry.ReasonSuccess, asked: []string{rolledBack, committed}, failed: "retrysql: timed out and rolled back: context deadline exceeded"},
	} {
		for by, call := range calls {
			if row.by != "" && by != row.by || row.through != nil && by != "TxFunc" {
				continue
			}
			t.Run(by+"/"+row.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					db, server := open(t, row.scenes...)
					p, fn := row.policy, row.fn
					if p.MaxAttempts == 0 {
						p.MaxAttempts = 3
					}
					if fn == nil {
						fn = write
					}
					failed, waited := "", time.Duration(0)
					p.RetryIf = row.retryIf
					p.OnEvent = func(_ context.Context, e retry.Event) {
						if e.Kind == retry.RetryScheduled {
							failed, waited = e.Err.Error(), e.Delay
							assert.True(t, row.retryIf != nil || retrysql.Transient(e.Err), "a retry around Tx may run the transaction again too")
						}
					}
					start := time.Now()
					var err error
					if row.through != nil {
						err = retrysql.TxFunc(t.Context(), row.through(begins(db)), p, fn)
					} else {
						err = call(t.Context(), db, p, fn)
					}
					synctest.Wait() // database/sql may roll back in the background
					assert.Equal(t, row.want, reasonOf(err), "%v", err)
					assert.Equal(t, row.asked, server.asked())
					for _, want := range row.is {
						assert.ErrorIs(t, err, want)
					}
					if row.text != "" {
						assert.EqualError(t, err, row.text)
					}
					if row.failed != "" {
						assert.Equal(t, row.failed, failed)
						assert.Equal(t, time.Minute, time.Since(start)-waited)
					}
				})
			})
		}
	}
}

const ended = "sql: transaction has already been committed or rolled back by the function: leave COMMIT and ROLLBACK to Tx"

func wrapping(format string) func(transact) transact {
	return func(next transact) transact {
		return func(ctx context.Context, body func(*sql.Tx) error) error {
			if err := next(ctx, body); err != nil {
				return fmt.Errorf(format, err)
			}
			return nil
		}
	}
}

// replacing returns err instead of the result of the first transaction.
func replacing(err error) func(transact) transact {
	return func(next transact) transact {
		calls := 0
		return func(ctx context.Context, body func(*sql.Tx) error) error {
			returned := next(ctx, body)
			if calls++; calls == 1 {
				return err
			}
			return returned
		}
	}
}

func joining(err error) func(transact) transact {
	return func(next transact) transact {
		return func(ctx context.Context, body func(*sql.Tx) error) error { return errors.Join(next(ctx, body), err) }
	}
}

func recovering(next transact) transact {
	return func(ctx context.Context, body func(*sql.Tx) error) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("recovered: %v", p)
			}
		}()
		return next(ctx, body)
	}
}

func twice(next transact) transact {
	return func(ctx context.Context, body func(*sql.Tx) error) error {
		if err := next(ctx, body); err == nil {
			return nil
		}
		return next(ctx, body)
	}
}

func TestTxBadArguments(t *testing.T) {
	const noDatabase = "retry: permanent error after 1 attempt: retrysql: nil database"
	const noFunction = "retry: permanent error after 1 attempt: retrysql: nil function"
	db, server := open(t)
	assert.EqualError(t, retrysql.Tx(t.Context(), nil, nil, retry.Default(), write), noDatabase)
	assert.EqualError(t, retrysql.Tx(t.Context(), (*sql.DB)(nil), nil, retry.Default(), write), noDatabase)
	assert.EqualError(t, retrysql.Tx(t.Context(), db, nil, retry.Default(), nil), noFunction)
	assert.EqualError(t, retrysql.TxFunc(t.Context(), begins(db), retry.Default(), nil), noFunction)
	assert.EqualError(t, retrysql.TxFunc(t.Context(), nil, retry.Default(), write), noFunction)
	var none context.Context
	assert.Equal(t, retry.ReasonInvalid, reasonOf(retrysql.Tx(none, db, nil, retry.Default(), write)))
	assert.Empty(t, server.asked())
}

// If the function panics or calls runtime.Goexit, Tx rolls back, and the panic goes on. This is
// true even if the rollback fails or panics.
func TestPanics(t *testing.T) {
	for _, row := range []struct {
		name     string
		by       string
		rollback step
		stuck    int
	}{
		{"Tx", "Tx", nil, 0},
		{"TxFunc", "TxFunc", nil, 0},
		{"the rollback fails", "Tx", fails(errOpaque), 0},
		{"the rollback panics", "Tx", fails(panicker{"Is"}), 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			db, server := open(t, scene{"rollback": row.rollback}, scene{"rollback": row.rollback})
			assert.PanicsWithValue(t, "boom", func() {
				_ = calls[row.by](t.Context(), db, retry.Default(), func(context.Context, *sql.Tx) error { panic("boom") })
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = calls[row.by](t.Context(), db, retry.Default(), func(context.Context, *sql.Tx) error {
					runtime.Goexit()
					return nil
				})
			}()
			<-done
			server.stuck = 2 * row.stuck
			assert.Equal(t, []string{unwritten, unwritten}, server.asked())
		})
	}
}

// Any method of a driver's error may panic. The transaction ends, there is no retry, and the
// returned error can be printed.
func TestErrorsThatPanic(t *testing.T) {
	for _, source := range []struct {
		name    string
		at      string // the operation that fails with the error; "": the function returns the error
		fn      function
		through bool // true: the library returns the error after the commit
		want    retry.Reason
		asked   string
	}{
		{name: "begin", at: "begin", fn: write, want: retry.ReasonPermanent, asked: "begin"},
		{name: "function", want: retry.ReasonPermanent, asked: unwritten},
		{name: "rollback", at: "rollback", fn: returns(errOpaque), want: retry.ReasonPermanent, asked: unwritten},
		{name: "commit", at: "commit", fn: write, want: unknown, asked: committed},
		{name: "the library", fn: write, through: true, want: unknown, asked: committed},
	} {
		for _, method := range []string{"Error", "SQLState", "Is", "As", "Unwrap"} {
			t.Run(source.name+"/"+method, func(t *testing.T) {
				failure := panicker{method}
				db, server := open(t, failing(source.at, failure)...)
				fn, transact := source.fn, begins(db)
				if fn == nil {
					fn = returns(failure)
				}
				if source.through {
					transact = replacing(failure)(transact)
				}
				var err error
				if source.at == "" {
					err = retrysql.TxFunc(t.Context(), transact, retry.Policy{MaxAttempts: 3}, fn)
				} else {
					err = retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 3}, fn)
				}
				text := "retrysql: error of type retrysql_test.panicker panicked: bug in " + method
				if source.at != "" && (method == "Is" || method == "Unwrap") {
					text = "retrysql: the driver panicked: bug in " + method
					server.stuck = 1 // database/sql panics before it takes the connection back, see Tx
				}
				assert.ErrorContains(t, err, text)
				assert.Equal(t, source.want, reasonOf(err))
				assert.Equal(t, source.at == "rollback", errors.Is(err, errOpaque))
				assert.Equal(t, []string{source.asked}, server.asked())
			})
		}
	}

	db, server := open(t)
	tx := func(err error) error {
		return retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 3}, returns(err))
	}
	assert.ErrorContains(t, tx((*stateError)(nil)), "retrysql: error of type *retrysql_test.stateError panicked: runtime error: invalid memory address")
	// Only Do calls RetryAfter.
	assert.ErrorContains(t, tx(errors.Join(errDeadlock, hintPanicker{})), "retrysql: error of type *errors.joinError panicked: bug in RetryAfter")
	assert.ErrorContains(t, tx(errors.Join(context.Canceled, panicker{"SQLState"})), "retrysql: error of type *errors.joinError panicked: bug in SQLState")
	assert.Equal(t, []string{unwritten, unwritten, unwritten}, server.asked())
}

type hintPanicker struct{}

func (hintPanicker) Error() string             { return "not now" }
func (hintPanicker) RetryAfter() time.Duration { panic("bug in RetryAfter") }

// An error for which Transient is false is not retried, whatever the policy's Classify returns.
// With a RetryIf, only the RetryIf decides. RetryIf and Classify get only the error of the
// function. The caller and the events also get the error of the rollback.
func TestTxSaysWhyItIsNotRunAgain(t *testing.T) {
	const rollback = "; rollback: terminating connection (SQLSTATE 57P01)"
	yes, no := func(error) bool { return true }, func(error) bool { return false }
	for _, row := range []struct {
		name    string
		failure error
		retryIf func(error) bool
		asked   int // how often RetryIf and Classify were called
		runs    int
		want    retry.Error
		cause   string
		text    string
	}{
		{"not transient", errUnique, nil, 0, 1, retry.Error{Reason: retry.ReasonNonRetryable, Delay: time.Minute},
			"not a transient database error", notTransient + "duplicate key (SQLSTATE 23505)"},
		{"transient, with a class", errDeadlock, nil, 2, 2, retry.Error{Reason: retry.ReasonExhausted, Class: "deadlock", Delay: time.Minute},
			"<nil>", `retry: attempts exhausted after 2 attempts (1m0s waited, 2 of "deadlock"): deadlock detected (SQLSTATE 40P01)`},
		{"not transient, with a RetryIf that returns true", errUnique, yes, 4, 2, retry.Error{Reason: retry.ReasonExhausted, Class: "deadlock", Delay: time.Minute},
			"<nil>", `retry: attempts exhausted after 2 attempts (1m0s waited, 2 of "deadlock"): duplicate key (SQLSTATE 23505)`},
		{"transient, with a RetryIf that returns false", errDeadlock, no, 1, 1, retry.Error{Reason: retry.ReasonRejected, Delay: time.Minute},
			"<nil>", "retry: rejected by RetryIf after 1 attempt: deadlock detected (SQLSTATE 40P01)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, server := open(t, failing("rollback", errShutdown, errShutdown)...)
				asked := 0
				see := func(err error) {
					asked++
					assert.Same(t, row.failure, err)
				}
				var stopped retry.Event
				p := retry.Policy{
					MaxAttempts: 5, Backoff: retry.Fixed(time.Minute),
					Classify: func(err error) *retry.Class {
						see(err)
						return &retry.Class{Name: "deadlock", MaxAttempts: 2}
					},
					OnEvent: func(_ context.Context, e retry.Event) { stopped = e },
				}
				if row.retryIf != nil {
					p.RetryIf = func(err error) bool { see(err); return row.retryIf(err) }
				}
				err := retrysql.Tx(t.Context(), db, nil, p, returns(row.failure))
				assert.EqualError(t, err, row.text+rollback)
				assert.EqualError(t, stopped.Err, row.failure.Error()+rollback)
				assert.Equal(t, row.asked, asked)
				assert.Len(t, server.asked(), row.runs)
				var e *retry.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, row.want, retry.Error{Reason: e.Reason, Class: e.Class, Delay: e.Delay})
				assert.Equal(t, row.cause, fmt.Sprint(stopped.Cause))
				assert.ErrorIs(t, err, row.failure)
				assert.ErrorIs(t, err, errShutdown)
				assert.False(t, retry.IsPermanent(err))
			})
		})
	}
}

// After the caller's context has ended, there is no retry.
func TestTheCallersContext(t *testing.T) {
	gone := errors.New("the client has gone")
	for _, row := range []struct {
		name     string
		scene    scene
		ended    bool     // the context is done before the call
		deadline bool     // the context has a deadline after a minute, and is not canceled
		fn       function // is called after the context was canceled; nil: write
		want     retry.Reason
		asked    []string
	}{
		{name: "ended before", ended: true, want: retry.ReasonCanceled},
		{name: "ends in a statement", scene: scene{"write": hangs}, want: retry.ReasonCanceled, asked: []string{rolledBack}},
		{name: "ends in the function, which ignores the context", fn: returns(nil), want: retry.ReasonCanceled, asked: []string{unwritten}},
		{name: "has a deadline in a statement", scene: scene{"write": hangs}, deadline: true, want: retry.ReasonDeadline, asked: []string{rolledBack}},
		// The Reason comes from the context, and the error still says that the outcome is unknown.
		{name: "has a deadline in the commit", scene: scene{"commit": hangs}, deadline: true, want: retry.ReasonDeadline + ", unknown", asked: []string{committed}},
	} {
		for by, call := range calls {
			t.Run(by+"/"+row.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					db, server := open(t, row.scene)
					ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, gone)
					defer cancel()
					ended := context.DeadlineExceeded
					if !row.deadline {
						ended = context.Canceled
						var end context.CancelCauseFunc
						ctx, end = context.WithCancelCause(t.Context())
						cancel = func() { end(gone) }
						time.AfterFunc(time.Minute, cancel)
					}
					if row.ended {
						cancel()
					}
					err := call(ctx, db, retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Hour, RetryIf: func(error) bool { return true }},
						func(ctx context.Context, tx *sql.Tx) error {
							if row.fn == nil {
								return write(ctx, tx)
							}
							cancel()
							return row.fn(ctx, tx)
						})
					synctest.Wait()
					assert.Equal(t, row.want, reasonOf(err))
					assert.ErrorIs(t, err, ended)
					assert.ErrorIs(t, err, gone)
					assert.False(t, retrysql.Transient(err), "a retry around Tx must stop too")
					assert.Equal(t, row.asked, server.asked())
				})
			})
		}
	}
}

// Calls share only the policy and the database.
func TestTxConcurrently(t *testing.T) {
	db, server := open(t, failing("write", slices.Repeat([]error{errDeadlock}, 50)...)...)
	p := retry.Policy{MaxAttempts: 100}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { assert.NoError(t, retrysql.Tx(t.Context(), db, nil, p, write)) })
	}
	wg.Wait()
	all := strings.Join(server.asked(), " ")
	for what, want := range map[string]int{"begin": 100, "write": 100, "rollback": 50, "commit": 50} {
		assert.Equal(t, want, strings.Count(all, what), what)
	}
}
