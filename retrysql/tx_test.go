package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// write is a transaction of one statement.
func write(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "write")
	return err
}

// Each scene is one transaction, and there are three attempts.
func TestTx(t *testing.T) {
	refusal := errors.New("the server does not answer")
	once := []string{"begin", "write", "commit"}
	rolledBack := []string{"begin", "write", "rollback"}
	for _, row := range []struct {
		name    string
		scenes  []scene
		retryIf func(error) bool
		fn      func(context.Context, *sql.Tx) error // nil means write
		want    retry.Reason
		asked   []string
		is      []error // errors that errors.Is must find
		unknown bool
		text    string
	}{
		{
			name: "commits", want: retry.ReasonSuccess, asked: once,
		},
		{
			name: "begin fails temporarily", scenes: []scene{{begin: fails(errShutdown)}},
			want: retry.ReasonSuccess, asked: append([]string{"begin"}, once...),
		},
		{
			name: "begin fails permanently", scenes: []scene{{begin: fails(errUnique)}},
			want: retry.ReasonNonRetryable, asked: []string{"begin"}, is: []error{errUnique},
			text: "retry: not retryable after 1 attempt (not a transient database error): retrysql: begin: duplicate key (SQLSTATE 23505)",
		},
		{
			name: "database/sql tries a bad connection three times by itself", scenes: []scene{{begin: fails(driver.ErrBadConn)}, {begin: fails(driver.ErrBadConn)}, {begin: fails(driver.ErrBadConn)}},
			want: retry.ReasonSuccess, asked: append([]string{"begin", "begin", "begin"}, once...),
		},
		{
			name: "a deadlock retries the whole transaction", scenes: []scene{{exec: fails(errDeadlock)}, {exec: fails(errDeadlock)}},
			want: retry.ReasonSuccess, asked: append(append(rolledBack[:3:3], rolledBack...), once...),
		},
		{
			name: "a deadlock every time", scenes: []scene{{exec: fails(errDeadlock)}, {exec: fails(errDeadlock)}, {exec: fails(errDeadlock)}},
			want: retry.ReasonExhausted, asked: append(append(rolledBack[:3:3], rolledBack...), rolledBack...), is: []error{errDeadlock},
			text: "retry: attempts exhausted after 3 attempts: deadlock detected (SQLSTATE 40P01)",
		},
		{
			name: "a connection lost in the middle", scenes: []scene{{exec: fails(io.ErrUnexpectedEOF), rollback: fails(driver.ErrBadConn)}},
			want: retry.ReasonSuccess, asked: append(rolledBack[:3:3], once...),
		},
		{
			name: "a permanent error of the server", scenes: []scene{{exec: fails(errUnique)}},
			want: retry.ReasonNonRetryable, asked: rolledBack, is: []error{errUnique},
		},
		{
			name: "an error of the program", fn: func(context.Context, *sql.Tx) error { return errOpaque },
			want: retry.ReasonNonRetryable, asked: []string{"begin", "rollback"}, is: []error{errOpaque},
		},
		{
			name: "a permanent error", fn: func(context.Context, *sql.Tx) error { return retry.Permanent(errDeadlock) },
			want: retry.ReasonPermanent, asked: []string{"begin", "rollback"}, is: []error{errDeadlock},
		},
		{
			name: "a permanent error whose rollback fails", scenes: []scene{{rollback: fails(errDeadlock)}}, fn: func(context.Context, *sql.Tx) error { return retry.Permanent(errOpaque) },
			want: retry.ReasonPermanent, asked: []string{"begin", "rollback"}, is: []error{errOpaque, errDeadlock},
		},

		// The rollback.
		{
			name: "a rollback that fails is reported", scenes: []scene{{exec: fails(errUnique), rollback: fails(refusal)}},
			want: retry.ReasonNonRetryable, asked: rolledBack, is: []error{errUnique, refusal},
			text: "retry: not retryable after 1 attempt (not a transient database error): duplicate key (SQLSTATE 23505); rollback: the server does not answer",
		},
		{
			name: "a rollback that fails temporarily decides nothing", scenes: []scene{{rollback: fails(errDeadlock)}}, fn: func(context.Context, *sql.Tx) error { return errOpaque },
			want: retry.ReasonNonRetryable, asked: []string{"begin", "rollback"}, is: []error{errOpaque, errDeadlock},
		},
		{
			name: "a rollback that takes too long decides nothing", scenes: []scene{{rollback: fails(context.DeadlineExceeded)}}, fn: func(context.Context, *sql.Tx) error { return errOpaque },
			want: retry.ReasonNonRetryable, asked: []string{"begin", "rollback"}, is: []error{errOpaque, context.DeadlineExceeded},
		},
		{
			name: "a timeout whose rollback fails too", scenes: []scene{{exec: fails(context.DeadlineExceeded), rollback: fails(driver.ErrBadConn)}},
			want: retry.ReasonSuccess, asked: append(rolledBack[:3:3], once...),
		},
		{
			name: "a rollback that fails permanently decides nothing", scenes: []scene{{exec: fails(errDeadlock), rollback: fails(errUnique)}},
			want: retry.ReasonSuccess, asked: append(rolledBack[:3:3], once...),
		},

		// The commit.
		{
			name: "a serialization failure at commit", scenes: []scene{{commit: fails(errSerialization)}},
			want: retry.ReasonSuccess, asked: append(once[:3:3], once...),
		},
		{
			name: "a serialization failure at every commit", scenes: []scene{{commit: fails(errSerialization)}, {commit: fails(errSerialization)}, {commit: fails(errSerialization)}},
			want: retry.ReasonExhausted, asked: append(append(once[:3:3], once...), once...), is: []error{errSerialization},
			text: "retry: attempts exhausted after 3 attempts: retrysql: commit: could not serialize access (SQLSTATE 40001)",
		},
		{
			name: "a deferred constraint", scenes: []scene{{commit: fails(errUnique)}},
			want: retry.ReasonNonRetryable, asked: once, is: []error{errUnique},
		},
		{
			name: "a commit that was not sent, according to the driver", scenes: []scene{{commit: fails(&unsentError{safe: true})}},
			want: retry.ReasonPermanent, asked: once, unknown: true,
		},
		{
			name: "a connection lost at commit", scenes: []scene{{commit: fails(io.ErrUnexpectedEOF)}},
			want: retry.ReasonPermanent, asked: once, unknown: true, is: []error{io.ErrUnexpectedEOF},
			text: "retry: permanent error after 1 attempt: retrysql: the transaction may or may not have been committed: unexpected EOF",
		},
		{
			name: "a bad connection at commit", scenes: []scene{{commit: fails(driver.ErrBadConn)}},
			want: retry.ReasonPermanent, asked: once, unknown: true, is: []error{driver.ErrBadConn},
		},
		{
			name: "08007 at commit", scenes: []scene{{commit: fails(errResolution)}},
			want: retry.ReasonPermanent, asked: once, unknown: true, is: []error{errResolution},
		},
		{
			name: "40003 at commit", scenes: []scene{{commit: fails(&stateError{"40003", "completion unknown"})}},
			want: retry.ReasonPermanent, asked: once, unknown: true,
		},
		{
			name: "a shutdown at commit", scenes: []scene{{commit: fails(errShutdown)}},
			want: retry.ReasonPermanent, asked: once, unknown: true, is: []error{errShutdown},
		},
		{
			name: "an error without a state at commit", scenes: []scene{{commit: fails(errOpaque)}},
			want: retry.ReasonPermanent, asked: once, unknown: true, is: []error{errOpaque},
		},
		{
			name: "RetryIf is not called for an unknown commit", scenes: []scene{{commit: fails(io.ErrUnexpectedEOF)}}, retryIf: func(error) bool { return true },
			want: retry.ReasonPermanent, asked: once, unknown: true,
		},

		// A RetryIf replaces Transient.
		{
			name: "a RetryIf that returns true", scenes: []scene{{exec: fails(errOpaque)}}, retryIf: func(error) bool { return true },
			want: retry.ReasonSuccess, asked: append(rolledBack[:3:3], once...),
		},
		{
			name: "a RetryIf that returns false", scenes: []scene{{exec: fails(errDeadlock)}}, retryIf: func(error) bool { return false },
			want: retry.ReasonRejected, asked: rolledBack, is: []error{errDeadlock},
		},
		{
			name: "a RetryIf that adds to Transient", scenes: []scene{{exec: fails(errOpaque)}, {exec: fails(errDeadlock)}},
			retryIf: func(err error) bool { return retrysql.Transient(err) || errors.Is(err, errOpaque) },
			want:    retry.ReasonSuccess, asked: append(append(rolledBack[:3:3], rolledBack...), once...),
		},
		{
			name: "a RetryIf that adds to Transient sees commit errors too", scenes: []scene{{commit: fails(errUnique)}},
			retryIf: func(err error) bool { return retrysql.Transient(err) || errors.Is(err, errUnique) },
			want:    retry.ReasonSuccess, asked: append(once[:3:3], once...),
		},

		// A function that ends the transaction itself may have committed it.
		{
			name: "the function commits", fn: func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }, retryIf: func(error) bool { return true },
			want: retry.ReasonPermanent, asked: []string{"begin", "commit"}, unknown: true, is: []error{sql.ErrTxDone},
			text: "retry: permanent error after 1 attempt: retrysql: the transaction may or may not have been committed: sql: transaction has already been committed or rolled back by the function: leave both to Tx",
		},
		{
			name: "the function commits and fails", fn: func(_ context.Context, tx *sql.Tx) error { return errors.Join(errDeadlock, tx.Commit()) }, retryIf: func(error) bool { return true },
			want: retry.ReasonPermanent, asked: []string{"begin", "commit"}, unknown: true, is: []error{sql.ErrTxDone, errDeadlock},
		},
		{
			name: "the function rolls back and fails", fn: func(_ context.Context, tx *sql.Tx) error { return errors.Join(errDeadlock, tx.Rollback()) },
			want: retry.ReasonPermanent, asked: []string{"begin", "rollback"}, unknown: true, is: []error{sql.ErrTxDone, errDeadlock},
			text: "retry: permanent error after 1 attempt: retrysql: the transaction may or may not have been committed: deadlock detected (SQLSTATE 40P01); rollback: sql: transaction has already been committed or rolled back by the function: leave both to Tx",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			db, server := open(t, row.scenes...)
			if row.fn == nil {
				row.fn = write
			}
			err := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 3, RetryIf: row.retryIf}, row.fn)
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

// The error is Permanent for the loops around Tx too, so none of them retries
// it by accident.
func TestUnknownCommitIsFinalForEveryLoopAround(t *testing.T) {
	db, server := open(t, scene{commit: fails(io.ErrUnexpectedEOF)})
	err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 5}, func(ctx context.Context) error {
		err := retrysql.Tx(ctx, db, nil, retry.Policy{MaxAttempts: 5}, write)
		return fmt.Errorf("transfer: %w", err)
	})
	assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
	assert.Equal(t, []string{"begin", "write", "commit"}, server.asked())
}

func TestTxPassesItsOptions(t *testing.T) {
	db := sql.OpenDB(optionsConnector{t})
	defer closeDB(t, db)
	opts := &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true}
	require.NoError(t, retrysql.Tx(t.Context(), db, opts, retry.Policy{}, write))
}

type optionsConnector struct{ t *testing.T }

func (c optionsConnector) Driver() driver.Driver { return nil }
func (c optionsConnector) Connect(context.Context) (driver.Conn, error) {
	return &optionsConn{&conn{server: &server{}}, c.t}, nil
}

type optionsConn struct {
	*conn
	t *testing.T
}

func (c *optionsConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	assert.Equal(c.t, driver.TxOptions{Isolation: driver.IsolationLevel(sql.LevelSerializable), ReadOnly: true}, opts)
	return c.conn.BeginTx(ctx, opts)
}

// The policy's delays, events and limits work as in Do.
func TestTxGoesThroughDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, server := open(t, scene{exec: fails(errDeadlock)}, scene{commit: fails(errSerialization)})
		var events []string
		p := retry.Policy{
			MaxAttempts: 4, Backoff: retry.Linear(100 * time.Millisecond),
			OnEvent: func(_ context.Context, e retry.Event) {
				events = append(events, fmt.Sprint(e.Kind, " ", e.Attempt, " ", e.Delay, " ", e.Err, " ", e.Reason))
			},
		}
		start := time.Now()
		require.NoError(t, retrysql.Tx(t.Context(), db, nil, p, write))
		assert.Equal(t, 300*time.Millisecond, time.Since(start))
		assert.Equal(t, []string{
			"attempt_started 1 0s <nil> ",
			"attempt_finished 1 0s deadlock detected (SQLSTATE 40P01) ",
			"retry_scheduled 1 100ms deadlock detected (SQLSTATE 40P01) ",
			"attempt_started 2 0s <nil> ",
			"attempt_finished 2 0s retrysql: commit: could not serialize access (SQLSTATE 40001) ",
			"retry_scheduled 2 200ms retrysql: commit: could not serialize access (SQLSTATE 40001) ",
			"attempt_started 3 0s <nil> ",
			"attempt_finished 3 0s <nil> ",
			"stopped 3 0s <nil> success",
		}, events)
		assert.Equal(t, []string{"begin", "write", "rollback", "begin", "write", "commit", "begin", "write", "commit"}, server.asked())
	})
}

func TestTxOnceWithoutALimit(t *testing.T) {
	db, server := open(t, scene{exec: fails(errDeadlock)})
	err := retrysql.Tx(t.Context(), db, nil, retry.Policy{}, write)
	assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
	assert.Equal(t, []string{"begin", "write", "rollback"}, server.asked())
}

func TestTxInvalidPolicyRunsOnce(t *testing.T) {
	db, server := open(t, scene{exec: fails(errDeadlock)})
	err := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: -2}, write)
	assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
	assert.ErrorIs(t, err, errDeadlock)
	assert.Equal(t, []string{"begin", "write", "rollback"}, server.asked())
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
	assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(retrysql.Tx(none, db, nil, retry.Default(), write)))
	assert.Empty(t, server.asked())
}

func TestTxPanicRollsBackAndPassesThrough(t *testing.T) {
	for _, rollback := range []step{nil, fails(errOpaque)} {
		db, server := open(t, scene{rollback: rollback})
		assert.PanicsWithValue(t, "boom", func() {
			_ = retrysql.Tx(t.Context(), db, nil, retry.Default(), func(context.Context, *sql.Tx) error { panic("boom") })
		})
		assert.Equal(t, []string{"begin", "rollback"}, server.asked())
	}
}

func TestTxGoexitRollsBack(t *testing.T) {
	db, server := open(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = retrysql.Tx(t.Context(), db, nil, retry.Default(), func(context.Context, *sql.Tx) error {
			runtime.Goexit()
			return nil
		})
	}()
	<-done
	assert.Equal(t, []string{"begin", "rollback"}, server.asked())
}

// A driver's error may panic in any of its methods, wherever it comes from. The
// transaction ends, there is no retry, and the returned error can be printed.
func TestTxDriverErrorPanics(t *testing.T) {
	type source struct {
		name    string
		scene   func(error) scene
		fn      func(error) func(context.Context, *sql.Tx) error
		asked   []string
		unknown bool
		is      error
	}
	returns := func(err error) func(context.Context, *sql.Tx) error {
		return func(context.Context, *sql.Tx) error { return err }
	}
	writes := func(error) func(context.Context, *sql.Tx) error { return write }
	none := func(error) scene { return scene{} }
	sources := []source{
		{name: "begin", scene: func(err error) scene { return scene{begin: fails(err)} }, fn: writes, asked: []string{"begin"}},
		{name: "function", scene: none, fn: returns, asked: []string{"begin", "rollback"}},
		{name: "rollback", scene: func(err error) scene { return scene{rollback: fails(err)} }, fn: func(error) func(context.Context, *sql.Tx) error { return returns(errOpaque) }, asked: []string{"begin", "rollback"}, is: errOpaque},
		{name: "commit", scene: func(err error) scene { return scene{commit: fails(err)} }, fn: writes, asked: []string{"begin", "write", "commit"}, unknown: true},
	}
	for _, source := range sources {
		for _, method := range panickers {
			t.Run(source.name+"/"+method, func(t *testing.T) {
				failure := panicker{method}
				server := &server{scenes: []scene{source.scene(failure)}}
				db := sql.OpenDB(connector{server})
				err := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 3}, source.fn(failure))
				require.Error(t, err)
				if source.name != "function" && (method == "Is" || method == "Unwrap") {
					assert.ErrorContains(t, err, "retrysql: the driver panicked: bug in "+method)
					assert.Equal(t, 1, db.Stats().InUse, "database/sql panics before it takes the connection back, as the doc of Tx says")
					assert.NoError(t, db.Close())
				} else {
					assert.ErrorContains(t, err, "retrysql: error of type retrysql_test.panicker panicked: bug in "+method)
					closeDB(t, db)
				}
				assert.Equal(t, source.asked, server.asked())
				var unknown *retrysql.UnknownCommitError
				assert.Equal(t, source.unknown, errors.As(err, &unknown))
				if source.is != nil {
					assert.ErrorIs(t, err, source.is)
				} else {
					assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
				}
			})
		}
	}

	db, server := open(t)
	err := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 3}, returns((*stateError)(nil)))
	assert.ErrorContains(t, err, "retrysql: error of type *retrysql_test.stateError panicked: runtime error: invalid memory address")

	// Only Do calls RetryAfter.
	err = retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 3}, returns(errors.Join(errDeadlock, hintPanicker{})))
	assert.ErrorContains(t, err, "retrysql: error of type *errors.joinError panicked: bug in RetryAfter")
	assert.Equal(t, []string{"begin", "rollback", "begin", "rollback"}, server.asked())
}

// The function's own panic wins over the panic of the rollback that it causes.
func TestTxPanicWhoseRollbackPanicsPassesThrough(t *testing.T) {
	db := sql.OpenDB(connector{&server{scenes: []scene{{rollback: fails(panicker{"Is"})}}}})
	assert.PanicsWithValue(t, "boom", func() {
		_ = retrysql.Tx(t.Context(), db, nil, retry.Default(), func(context.Context, *sql.Tx) error { panic("boom") })
	})
	assert.NoError(t, db.Close())
}

// Only the error of the transaction decides whether it is retried. The caller
// and the events also see the error of its rollback.
func TestTxRollbackDecidesNothing(t *testing.T) {
	for name, edit := range map[string]func(*retry.Policy, func(error)){
		"RetryIf": func(p *retry.Policy, saw func(error)) {
			p.RetryIf = func(err error) bool { saw(err); return errors.Is(err, errDeadlock) }
		},
		"Classify": func(p *retry.Policy, saw func(error)) {
			p.RetryIf = func(error) bool { return true }
			p.Classify = func(err error) *retry.Class {
				saw(err)
				return &retry.Class{Policy: &retry.Policy{NonRetryable: !errors.Is(err, errDeadlock)}}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, server := open(t, scene{rollback: fails(errDeadlock)})
			var saw, told []error
			p := retry.Policy{MaxAttempts: 3, OnEvent: func(_ context.Context, e retry.Event) {
				if e.Kind == retry.AttemptFinished {
					told = append(told, e.Err)
				}
			}}
			edit(&p, func(err error) { saw = append(saw, err) })
			err := retrysql.Tx(t.Context(), db, nil, p, func(context.Context, *sql.Tx) error { return errOpaque })
			assert.Equal(t, []error{errOpaque}, saw)
			assert.Equal(t, []string{"begin", "rollback"}, server.asked())
			assert.ErrorIs(t, err, errDeadlock)
			require.Len(t, told, 1)
			assert.ErrorIs(t, told[0], errDeadlock)
		})
	}
}

// What Transient does not know is not retryable, whatever the policy's own Classify
// says of it. With a RetryIf that decides, and Transient does not.
func TestTxSaysWhyItIsNotRunAgain(t *testing.T) {
	once := &retry.Class{Name: "deadlock", Policy: &retry.Policy{MaxAttempts: 2}}
	for _, row := range []struct {
		name    string
		failure error
		retryIf func(error) bool
		asked   int // how often Classify was called
		runs    int
		want    retry.Error
		cause   string
		text    string
	}{
		{
			name: "not transient", failure: errUnique, asked: 0, runs: 1,
			want: retry.Error{Reason: retry.ReasonNonRetryable, Delay: time.Minute}, cause: "not a transient database error",
			text: "retry: not retryable after 1 attempt (not a transient database error): duplicate key (SQLSTATE 23505)",
		},
		{
			name: "transient, with a class", failure: errDeadlock, asked: 2, runs: 2,
			want: retry.Error{Reason: retry.ReasonExhausted, Class: "deadlock", Delay: 0},
			text: `retry: attempts exhausted after 2 attempts (2 of "deadlock"): deadlock detected (SQLSTATE 40P01)`,
		},
		{
			name: "not transient, with a RetryIf that says yes", failure: errUnique, retryIf: func(error) bool { return true }, asked: 2, runs: 2,
			want: retry.Error{Reason: retry.ReasonExhausted, Class: "deadlock", Delay: 0},
			text: `retry: attempts exhausted after 2 attempts (2 of "deadlock"): duplicate key (SQLSTATE 23505)`,
		},
		{
			name: "transient, with a RetryIf that says no", failure: errDeadlock, retryIf: func(error) bool { return false }, asked: 0, runs: 1,
			want: retry.Error{Reason: retry.ReasonRejected, Delay: time.Minute},
			text: "retry: rejected by RetryIf after 1 attempt: deadlock detected (SQLSTATE 40P01)",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			db, _ := open(t)
			asked, runs := 0, 0
			var stopped retry.Event
			err := retrysql.Tx(t.Context(), db, nil, retry.Policy{
				MaxAttempts: 5, Backoff: retry.Fixed(time.Minute), RetryIf: row.retryIf,
				Classify: func(error) *retry.Class { asked++; return once },
				OnEvent:  func(_ context.Context, e retry.Event) { stopped = e },
			}, func(context.Context, *sql.Tx) error { runs++; return row.failure })
			assert.EqualError(t, err, row.text)
			assert.Equal(t, row.asked, asked)
			assert.Equal(t, row.runs, runs)
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, row.want, retry.Error{Reason: e.Reason, Class: e.Class, Delay: e.Delay})
			if row.cause == "" {
				assert.NoError(t, stopped.Cause)
			} else {
				assert.EqualError(t, stopped.Cause, row.cause)
			}
			assert.Same(t, row.failure, retry.LastError(err))
			assert.False(t, retry.IsPermanent(err))
		})
	}
}

// A deferred Rollback in the function does not commit either: it runs before Tx
// can commit.
func TestTxDeferredRollback(t *testing.T) {
	db, server := open(t)
	err := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 3}, func(ctx context.Context, tx *sql.Tx) error {
		defer func() { _ = tx.Rollback() }()
		return write(ctx, tx)
	})
	var unknown *retrysql.UnknownCommitError
	assert.ErrorAs(t, err, &unknown)
	assert.Equal(t, []string{"begin", "write", "rollback"}, server.asked())
}

// AttemptTimeout ends the first attempt wherever it hangs. The second one
// commits.
func TestTxAttemptTimeout(t *testing.T) {
	late := func(err error) step {
		return func(ctx context.Context) error {
			<-ctx.Done()
			return err
		}
	}
	for _, row := range []struct {
		name  string
		first scene
		text  string
	}{
		{"in begin", scene{begin: hangs}, "retrysql: timed out and rolled back: retrysql: begin: context deadline exceeded"},
		{"in a statement", scene{exec: hangs}, "retrysql: timed out and rolled back: context deadline exceeded"},
		{"in a statement that the server cancels", scene{exec: late(&stateError{"57014", "canceling statement"})}, "retrysql: timed out and rolled back: canceling statement (SQLSTATE 57014)"},
		{"in a statement whose error does not say so", scene{exec: late(errors.New("interrupted"))}, "retrysql: timed out and rolled back: interrupted"},
		{"in a function that ignores its context", scene{exec: late(nil)}, "retrysql: timed out and rolled back: retrysql: the context ended before the commit: context deadline exceeded"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, server := open(t, row.first)
				var failures []string
				p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), AttemptTimeout: time.Minute}
				p.OnEvent = func(_ context.Context, e retry.Event) {
					if e.Kind == retry.AttemptFinished && e.Err != nil {
						failures = append(failures, e.Err.Error())
						assert.True(t, retrysql.Transient(e.Err))
					}
				}
				start := time.Now()
				require.NoError(t, retrysql.Tx(t.Context(), db, nil, p, write))
				assert.Equal(t, time.Minute+time.Second, time.Since(start))
				assert.Equal(t, []string{row.text}, failures)
				asked := server.asked()
				assert.Equal(t, []string{"begin", "write", "commit"}, asked[len(asked)-3:])
				assert.NotContains(t, asked[:len(asked)-3], "commit")
			})
		})
	}
}

func TestTxAttemptTimeoutLeavesPermanentErrorsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _ := open(t)
		p := retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Minute}
		err := retrysql.Tx(t.Context(), db, nil, p, func(ctx context.Context, _ *sql.Tx) error {
			<-ctx.Done()
			return retry.Permanent(errOpaque)
		})
		assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
		assert.ErrorIs(t, err, errOpaque)
	})
}

// A driver that respects the context during COMMIT interrupts it, so the
// outcome is unknown.
func TestTxAttemptTimeoutInCommitIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, server := open(t, scene{commit: hangs})
		err := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Minute}, write)
		var unknown *retrysql.UnknownCommitError
		assert.ErrorAs(t, err, &unknown)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []string{"begin", "write", "commit"}, server.asked())
	})
}

// A deadline that the function sets itself is not the caller's: it counts as a
// timeout.
func TestTxOwnDeadlineOfTheFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, server := open(t, scene{exec: hangs})
		err := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 3}, func(ctx context.Context, tx *sql.Tx) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return write(ctx, tx)
		})
		require.NoError(t, err)
		assert.Equal(t, []string{"begin", "write", "rollback", "begin", "write", "commit"}, server.asked())
	})
}

// After the caller's context has ended, there is no retry.
func TestTxCallersContext(t *testing.T) {
	gone := errors.New("the client has gone")
	for _, row := range []struct {
		name  string
		scene scene
		fn    func(cancel func()) func(context.Context, *sql.Tx) error
		asked []string
	}{
		{"ended before", scene{}, nil, nil},
		{"ends in begin", scene{begin: hangs}, func(cancel func()) func(context.Context, *sql.Tx) error { return write }, []string{"begin"}},
		{"ends in a statement", scene{exec: hangs}, func(cancel func()) func(context.Context, *sql.Tx) error { return write }, []string{"begin", "write", "rollback"}},
		{"ends in the function, which ignores it", scene{}, func(cancel func()) func(context.Context, *sql.Tx) error {
			return func(context.Context, *sql.Tx) error {
				cancel()
				return nil
			}
		}, []string{"begin", "rollback"}},
		{"ends together with a deadlock", scene{}, func(cancel func()) func(context.Context, *sql.Tx) error {
			return func(context.Context, *sql.Tx) error {
				cancel()
				return errDeadlock
			}
		}, []string{"begin", "rollback"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, server := open(t, row.scene)
				ctx, cancelCause := context.WithCancelCause(t.Context())
				cancel := func() { cancelCause(gone) }
				if row.fn == nil {
					cancel()
					row.fn = func(func()) func(context.Context, *sql.Tx) error { return write }
				} else {
					time.AfterFunc(time.Minute, cancel)
				}
				err := retrysql.Tx(ctx, db, nil, retry.Policy{MaxAttempts: 3, RetryIf: func(error) bool { return true }}, row.fn(cancel))
				synctest.Wait()
				assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
				assert.ErrorIs(t, err, context.Canceled)
				assert.ErrorIs(t, err, gone)
				assert.False(t, retrysql.Transient(err), "a loop around it must stop too")
				assert.Equal(t, row.asked, server.asked())
				var unknown *retrysql.UnknownCommitError
				assert.False(t, errors.As(err, &unknown))
			})
		})
	}
}

func TestTxCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, server := open(t, scene{exec: hangs})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := retrysql.Tx(ctx, db, nil, retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Hour}, write)
		synctest.Wait()
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.False(t, retrysql.Transient(err), "a loop around it must stop too")
		assert.Equal(t, []string{"begin", "write", "rollback"}, server.asked())
	})
}

// Calls share only the policy and the database.
func TestTxConcurrently(t *testing.T) {
	scenes := make([]scene, 50)
	for i := range scenes {
		scenes[i] = scene{exec: fails(errDeadlock)}
	}
	db, server := open(t, scenes...)
	p := retry.Policy{MaxAttempts: 100}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { assert.NoError(t, retrysql.Tx(t.Context(), db, nil, p, write)) })
	}
	wg.Wait()
	count := map[string]int{}
	for _, what := range server.asked() {
		count[what]++
	}
	assert.Equal(t, map[string]int{"begin": 100, "write": 100, "rollback": 50, "commit": 50}, count)
}
