package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
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

// begins is a transact that begins and commits transactions itself, as
// hand-written code does.
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

// Each scene is one transaction, and there are three attempts.
func TestTxFunc(t *testing.T) {
	once := []string{"begin", "write", "commit"}
	again := func(first ...string) []string { return append(first, once...) }
	lostAnswer := errors.New("the answer to the commit is lost")
	for _, row := range []struct {
		name    string
		scenes  []scene
		through func(transact) transact // nil means unchanged
		retryIf func(error) bool
		fn      func(context.Context, *sql.Tx) error // nil means write
		want    retry.Reason
		asked   []string
		is      []error
		unknown bool
		text    string
	}{
		{
			name: "commits", want: retry.ReasonSuccess, asked: once,
		},

		// Failures before the function is called.
		{
			name: "begin fails temporarily", scenes: []scene{{begin: fails(errShutdown)}},
			want: retry.ReasonSuccess, asked: again("begin"),
		},
		{
			name: "begin fails permanently", scenes: []scene{{begin: fails(errUnique)}},
			want: retry.ReasonNonRetryable, asked: []string{"begin"}, is: []error{errUnique},
			text: "retry: not retryable after 1 attempt (not a transient database error): retrysql: begin: duplicate key (SQLSTATE 23505)",
		},
		{
			name: "the connection is closed at begin", scenes: []scene{{begin: fails(io.EOF)}},
			want: retry.ReasonSuccess, asked: again("begin"),
		},
		{
			name: "the connection was closed before begin", scenes: []scene{{begin: fails(net.ErrClosed)}},
			want: retry.ReasonSuccess, asked: again("begin"),
		},
		{
			name: "a permanent error of begin", scenes: []scene{{begin: fails(retry.Permanent(io.EOF))}},
			want: retry.ReasonPermanent, asked: []string{"begin"},
		},

		// The function fails, and its transaction is rolled back.
		{
			name: "a deadlock", scenes: []scene{{exec: fails(errDeadlock)}},
			want: retry.ReasonSuccess, asked: again("begin", "write", "rollback"),
		},
		{
			name: "a connection lost in the middle", scenes: []scene{{exec: fails(io.ErrUnexpectedEOF)}},
			want: retry.ReasonSuccess, asked: again("begin", "write", "rollback"),
		},
		{
			name: "a bare EOF, which may be the end of a file", fn: func(context.Context, *sql.Tx) error { return io.EOF },
			want: retry.ReasonNonRetryable, asked: []string{"begin", "rollback"}, is: []error{io.EOF},
		},
		{
			name: "a permanent error", scenes: []scene{{exec: fails(errUnique)}},
			want: retry.ReasonNonRetryable, asked: []string{"begin", "write", "rollback"}, is: []error{errUnique},
			text: "retry: not retryable after 1 attempt (not a transient database error): duplicate key (SQLSTATE 23505)",
		},
		{
			name: "a permanent error", fn: func(context.Context, *sql.Tx) error { return retry.Permanent(errDeadlock) },
			want: retry.ReasonPermanent, asked: []string{"begin", "rollback"}, is: []error{errDeadlock},
		},
		{
			name: "the library wraps the function's error", fn: func(context.Context, *sql.Tx) error { return errOpaque },
			through: wrapping("transfer: %w"),
			want:    retry.ReasonNonRetryable, asked: []string{"begin", "rollback"}, is: []error{errOpaque},
			text: "retry: not retryable after 1 attempt (not a transient database error): transfer: not enough money",
		},
		{
			name: "the library returns the error of its rollback", fn: func(context.Context, *sql.Tx) error { return errOpaque },
			through: replacing(errDeadlock),
			want:    retry.ReasonNonRetryable, asked: []string{"begin", "rollback"}, is: []error{errOpaque, errDeadlock},
			text: "retry: not retryable after 1 attempt (not a transient database error): not enough money; rollback: deadlock detected (SQLSTATE 40P01)",
		},
		{
			name: "the library returns the error of its rollback, and the function's error is retried", scenes: []scene{{exec: fails(errDeadlock)}},
			through: replacing(errOpaque),
			want:    retry.ReasonSuccess, asked: again("begin", "write", "rollback"),
		},
		{
			name: "the library joins the error of its rollback to the function's", fn: func(context.Context, *sql.Tx) error { return errOpaque },
			through: joining(errDeadlock),
			want:    retry.ReasonNonRetryable, asked: []string{"begin", "rollback"}, is: []error{errOpaque, errDeadlock},
			text: "retry: not retryable after 1 attempt (not a transient database error): not enough money; deadlock detected (SQLSTATE 40P01)",
		},
		{
			name: "the library turns a panic into an error", fn: func(context.Context, *sql.Tx) error { panic("boom") },
			through: recovering,
			want:    retry.ReasonNonRetryable, asked: []string{"begin", "rollback"},
			text: "retry: not retryable after 1 attempt (not a transient database error): retrysql: the function did not return; rollback: recovered: boom",
		},

		// The commit fails.
		{
			name: "a serialization failure at commit", scenes: []scene{{commit: fails(errSerialization)}},
			want: retry.ReasonSuccess, asked: again(once...),
		},
		{
			name: "a serialization failure at every commit", scenes: []scene{{commit: fails(errSerialization)}, {commit: fails(errSerialization)}, {commit: fails(errSerialization)}},
			want: retry.ReasonExhausted, asked: append(again(once...), once...), is: []error{errSerialization},
			text: "retry: attempts exhausted after 3 attempts: retrysql: commit: could not serialize access (SQLSTATE 40001)",
		},
		{
			name: "a deferred constraint", scenes: []scene{{commit: fails(errUnique)}},
			want: retry.ReasonNonRetryable, asked: once, is: []error{errUnique},
		},
		{
			name: "a connection lost at commit", scenes: []scene{{commit: fails(io.ErrUnexpectedEOF)}},
			want: retry.ReasonPermanent, asked: once, unknown: true, is: []error{io.ErrUnexpectedEOF},
			text: "retry: permanent error after 1 attempt: retrysql: the transaction may or may not have been committed: unexpected EOF",
		},
		{
			name: "a connection lost at commit, joined with the answer to another statement", scenes: []scene{{commit: fails(errors.Join(io.ErrUnexpectedEOF, errSerialization))}},
			want: retry.ReasonPermanent, asked: once, unknown: true,
		},
		{
			name: "a bad connection at commit, joined with the answer to another statement", scenes: []scene{{commit: fails(errors.Join(errDeadlock, driver.ErrBadConn))}},
			want: retry.ReasonPermanent, asked: once, unknown: true,
		},
		{
			name: "a bare EOF at commit", scenes: []scene{{commit: fails(io.EOF)}},
			want: retry.ReasonPermanent, asked: once, unknown: true, is: []error{io.EOF},
		},
		{
			name: "a bad connection at commit", scenes: []scene{{commit: fails(driver.ErrBadConn)}},
			want: retry.ReasonPermanent, asked: once, unknown: true, is: []error{driver.ErrBadConn},
		},
		{
			name: "a commit that was not sent, according to the driver", scenes: []scene{{commit: fails(&unsentError{safe: true})}},
			want: retry.ReasonPermanent, asked: once, unknown: true,
		},
		{
			name: "an unknown error at commit", scenes: []scene{{commit: fails(lostAnswer)}},
			want: retry.ReasonPermanent, asked: once, unknown: true, is: []error{lostAnswer},
		},
		{
			name: "an error of the library after the commit", through: replacing(errOpaque),
			want: retry.ReasonPermanent, asked: once, unknown: true, is: []error{errOpaque},
		},
		{
			name: "RetryIf is not called for an unknown commit", scenes: []scene{{commit: fails(lostAnswer)}}, retryIf: func(error) bool { return true },
			want: retry.ReasonPermanent, asked: once, unknown: true,
		},
		{
			name: "the function commits", fn: func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }, retryIf: func(error) bool { return true },
			want: retry.ReasonPermanent, asked: []string{"begin", "commit"}, unknown: true, is: []error{sql.ErrTxDone},
		},

		// Things that a transact must not do.
		{
			name: "transact does not call its body", through: func(transact) transact { return func(context.Context, func(*sql.Tx) error) error { return nil } },
			want: retry.ReasonPermanent, text: "retry: permanent error after 1 attempt: retrysql: transact returned nil without calling its body: no transaction ran",
		},
		{
			name: "transact loses the function's error", fn: func(context.Context, *sql.Tx) error { return errDeadlock }, through: replacing(nil),
			want: retry.ReasonPermanent, asked: []string{"begin", "rollback"}, unknown: true, is: []error{errDeadlock},
			text: "retry: permanent error after 1 attempt: retrysql: the transaction may or may not have been committed: deadlock detected (SQLSTATE 40P01); the transaction ended without an error",
		},
		{
			name: "the library itself retries and succeeds", scenes: []scene{{exec: fails(errDeadlock)}}, through: twice,
			want: retry.ReasonSuccess, asked: again("begin", "write", "rollback"),
		},
		{
			name: "the library itself retries a failure, and the commit is refused", scenes: []scene{{exec: fails(errDeadlock)}, {commit: fails(errSerialization)}}, through: twice,
			want: retry.ReasonSuccess, asked: append([]string{"begin", "write", "rollback"}, again(once...)...),
		},
		{
			name: "the library itself retries a failed commit, and fails", scenes: []scene{{commit: fails(lostAnswer)}, {exec: fails(errDeadlock)}}, through: twice,
			want: retry.ReasonPermanent, asked: append(once[:3:3], "begin", "write", "rollback"), unknown: true, is: []error{errDeadlock},
		},
		{
			name: "the library itself retries a failed commit, and the next one is refused", scenes: []scene{{commit: fails(lostAnswer)}, {commit: fails(errSerialization)}}, through: twice,
			want: retry.ReasonPermanent, asked: again(once...), unknown: true, is: []error{errSerialization},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			db, server := open(t, row.scenes...)
			transact, fn := begins(db), row.fn
			if row.through != nil {
				transact = row.through(transact)
			}
			if fn == nil {
				fn = write
			}
			err := retrysql.TxFunc(t.Context(), transact, retry.Policy{MaxAttempts: 3, RetryIf: row.retryIf}, fn)
			assert.Equal(t, row.want, retry.ReasonOf(err), "%v", err)
			assert.Equal(t, row.asked, server.asked())
			for _, want := range row.is {
				assert.ErrorIs(t, err, want)
			}
			var unknown *retrysql.UnknownCommitError
			assert.Equal(t, row.unknown, errors.As(err, &unknown), "%v", err)
			if row.text != "" {
				assert.EqualError(t, err, row.text)
			}
		})
	}
}

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

// replacing returns err in place of the first transaction's result.
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
		return func(ctx context.Context, body func(*sql.Tx) error) error {
			return errors.Join(next(ctx, body), err)
		}
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

// The returned error can always be printed, even if the library examines it.
func TestTxFuncErrorThatPanics(t *testing.T) {
	for _, method := range panickers {
		db, server := open(t)
		err := retrysql.TxFunc(t.Context(), begins(db), retry.Policy{MaxAttempts: 3}, func(context.Context, *sql.Tx) error { return panicker{method} })
		assert.ErrorContains(t, err, "retrysql: error of type retrysql_test.panicker panicked: bug in "+method)
		assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
		assert.Equal(t, []string{"begin", "rollback"}, server.asked())

		// The library's own error, after the function has succeeded.
		assertUnknown(t, panicker{method}, "retrysql: error of type retrysql_test.panicker panicked: bug in "+method)
	}
	assertUnknown(t, errors.Join(context.Canceled, panicker{"SQLState"}), "retrysql: error of type *errors.joinError panicked: bug in SQLState")
}

// assertUnknown lets the library return failure after the function has
// succeeded, and checks that the outcome is unknown.
func assertUnknown(t *testing.T, failure error, text string) {
	t.Helper()
	db, _ := open(t)
	err := retrysql.TxFunc(t.Context(), replacing(failure)(begins(db)), retry.Policy{MaxAttempts: 3}, write)
	assert.ErrorContains(t, err, "may or may not have been committed: "+text)
	assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
}

func TestTxFuncPanicPassesThrough(t *testing.T) {
	db, server := open(t)
	assert.PanicsWithValue(t, "boom", func() {
		_ = retrysql.TxFunc(t.Context(), begins(db), retry.Default(), func(context.Context, *sql.Tx) error { panic("boom") })
	})
	assert.Equal(t, []string{"begin", "rollback"}, server.asked())
}

func TestTxFuncAttemptTimeout(t *testing.T) {
	for _, row := range []struct {
		name, text string
		first      scene
	}{
		{"in begin", "retrysql: timed out and rolled back: retrysql: begin: context deadline exceeded", scene{begin: hangs}},
		{"in a statement", "retrysql: timed out and rolled back: context deadline exceeded", scene{exec: hangs}},
		{"in a function that ignores its context", "retrysql: timed out and rolled back: retrysql: the context ended before the commit: context deadline exceeded", scene{exec: func(ctx context.Context) error { <-ctx.Done(); return nil }}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, server := open(t, row.first)
				var failures []string
				p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), AttemptTimeout: time.Minute}
				p.OnEvent = func(_ context.Context, e retry.Event) {
					if e.Kind == retry.AttemptFinished && e.Err != nil {
						failures = append(failures, e.Err.Error())
					}
				}
				start := time.Now()
				require.NoError(t, retrysql.TxFunc(t.Context(), begins(db), p, write))
				assert.Equal(t, time.Minute+time.Second, time.Since(start))
				assert.Equal(t, []string{row.text}, failures)
				asked := server.asked()
				assert.Equal(t, []string{"begin", "write", "commit"}, asked[len(asked)-3:])
				assert.NotContains(t, asked[:len(asked)-3], "commit")
			})
		})
	}
}

// A timeout of the rollback, or one that ends while it runs, does not count as
// the function's.
func TestTxTimeoutOfTheRollbackDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context) error { time.Sleep(time.Hour); return nil }
		db, server := open(t, scene{exec: fails(errUnique), rollback: slow})
		err := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Minute}, write)
		assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(err))
		assert.Equal(t, []string{"begin", "write", "rollback"}, server.asked())
	})
}

func TestTxFuncCallersContext(t *testing.T) {
	db, server := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := retrysql.TxFunc(ctx, begins(db), retry.Policy{MaxAttempts: 3, RetryIf: func(error) bool { return true }}, func(context.Context, *sql.Tx) error {
		cancel()
		return nil
	})
	assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
	assert.NotContains(t, server.asked(), "commit")
	var unknown *retrysql.UnknownCommitError
	assert.False(t, errors.As(err, &unknown))
}

// The caller's deadline may end during COMMIT. Then the Reason is that of the
// context, and the error still says that the outcome is unknown.
func TestTxCallersDeadlineInCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, run := range map[string]func(context.Context, *sql.DB) error{
			"Tx": func(ctx context.Context, db *sql.DB) error {
				return retrysql.Tx(ctx, db, nil, retry.Policy{MaxAttempts: 3}, write)
			},
			"TxFunc": func(ctx context.Context, db *sql.DB) error {
				return retrysql.TxFunc(ctx, begins(db), retry.Policy{MaxAttempts: 3}, write)
			},
		} {
			db, server := open(t, scene{commit: hangs})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := run(ctx, db)
			cancel()
			assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err), name)
			var unknown *retrysql.UnknownCommitError
			assert.ErrorAs(t, err, &unknown, name)
			assert.Equal(t, []string{"begin", "write", "commit"}, server.asked(), name)
		}
	})
}

// Classify is called with the function's error.
func TestTxFuncClassify(t *testing.T) {
	db, server := open(t, scene{exec: fails(errDeadlock)})
	var saw []error
	p := retry.Policy{MaxAttempts: 3, Classify: func(err error) *retry.Class {
		saw = append(saw, err)
		return &retry.Class{Policy: &retry.Policy{NonRetryable: true}}
	}}
	err := retrysql.TxFunc(t.Context(), replacing(errOpaque)(begins(db)), p, write)
	assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(err))
	assert.Equal(t, []error{errDeadlock}, saw)
	assert.ErrorIs(t, err, errOpaque)
	assert.Equal(t, []string{"begin", "write", "rollback"}, server.asked())
}

// Tx accepts anything that begins transactions.
func TestTxTakesAConn(t *testing.T) {
	db, server := open(t, scene{exec: fails(errDeadlock)})
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, retrysql.Tx(t.Context(), conn, nil, retry.Policy{MaxAttempts: 2}, write))
	assert.Equal(t, []string{"begin", "write", "rollback", "begin", "write", "commit"}, server.asked())
}

// A lost Conn stays lost.
func TestTxOnALostConn(t *testing.T) {
	db, server := open(t, scene{begin: fails(driver.ErrBadConn)})
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	err = retrysql.Tx(t.Context(), conn, nil, retry.Policy{MaxAttempts: 3}, write)
	assert.ErrorIs(t, err, sql.ErrConnDone)
	assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(err))
	assert.Equal(t, []string{"begin"}, server.asked())
}
