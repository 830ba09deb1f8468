package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// Each code is classified by itself, and as the error of a COMMIT.
func TestSQLState(t *testing.T) {
	text, err := os.ReadFile("testdata/sqlstate.txt")
	require.NoError(t, err)
	again := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		require.Len(t, f, 4, line)
		code, verdict, commit, name := f[0], f[1], f[2], f[3]
		failure := &stateError{code, name}
		require.Contains(t, []string{"again", "final"}, verdict)
		require.Contains(t, []string{"refused", "unknown"}, commit)
		if verdict == "again" {
			again++
		}

		assert.Equal(t, verdict == "again", retrysql.Transient(failure), "Transient: %s", line)

		db, server := open(t, scene{commit: fails(failure)})
		err := retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 2}, write)
		var unknown *retrysql.UnknownCommitError
		switch {
		case commit == "unknown":
			assert.ErrorAs(t, err, &unknown, line)
			assert.Equal(t, []string{"begin", "write", "commit"}, server.asked(), line)
		case verdict == "again":
			assert.NoError(t, err, line)
			assert.Equal(t, []string{"begin", "write", "commit", "begin", "write", "commit"}, server.asked(), line)
		default:
			assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(err), line)
			assert.False(t, errors.As(err, &unknown), line)
			assert.Equal(t, []string{"begin", "write", "commit"}, server.asked(), line)
		}
	}
	assert.Equal(t, 17, again)
}

func TestTransient(t *testing.T) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for _, row := range []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"unknown error", errOpaque, false},

		{"a state that is wrapped", fmt.Errorf("pay: %w", errDeadlock), true},
		{"the first of two states decides, transient", errors.Join(errOpaque, errDeadlock, errUnique), true},
		{"the first of two states decides, permanent", errors.Join(errUnique, errDeadlock), false},
		{"a permanent state joined with a lost connection", errors.Join(errUnique, driver.ErrBadConn), false},
		{"a state takes precedence over an unsent query", errors.Join(&unsentError{safe: true}, errUnique), false},
		{"no state", &stateError{"", "connection lost"}, false},
		{"a lost connection without a state", errors.Join(&stateError{"", "connection lost"}, reset), true},
		{"a state that is too short", &stateError{"08", "?"}, false},
		{"a state that is too long", &stateError{"400011", "?"}, false},
		{"a state in small letters", &stateError{"40p01", "?"}, false},

		{"not sent", &unsentError{safe: true}, true},
		{"not sent, wrapped", fmt.Errorf("pay: %w", &unsentError{safe: true}), true},
		{"perhaps sent", &unsentError{safe: false}, false},
		{"perhaps sent, connection lost", &unsentError{safe: false, cause: reset}, true},

		{"bad connection", driver.ErrBadConn, true},
		{"bad connection, wrapped", fmt.Errorf("pay: %w", driver.ErrBadConn), true},
		{"connection given back", sql.ErrConnDone, false},
		{"transaction over", sql.ErrTxDone, false},
		{"no rows", sql.ErrNoRows, false},
		{"no rows, wrapped", fmt.Errorf("account 7: %w", sql.ErrNoRows), false},
		{"connection reset", reset, true},
		{"no such host", &net.DNSError{Err: "no such host", Name: "db", IsNotFound: true}, false},

		// context.DeadlineExceeded is a net.Error whose Timeout is true.
		{"context canceled", context.Canceled, false},
		{"context's deadline", context.DeadlineExceeded, false},
		{"context's deadline, wrapped", fmt.Errorf("timeout: %w", context.DeadlineExceeded), false},
		{"context's deadline before anything was sent", &unsentError{safe: true, cause: context.DeadlineExceeded}, false},
		{"context canceled in a network error", &net.OpError{Op: "dial", Net: "tcp", Err: context.Canceled}, false},
		{"context canceled beside a deadlock", errors.Join(errDeadlock, context.Canceled), false},

		{"a commit of unknown outcome", &retrysql.UnknownCommitError{Err: errSerialization}, false},
		{"a commit of unknown outcome, wrapped", fmt.Errorf("pay: %w", &retrysql.UnknownCommitError{Err: driver.ErrBadConn}), false},
		{"the error of a loop that gave up", &retry.Error{Reason: retry.ReasonExhausted, Err: errDeadlock}, true},
		{"the error of a canceled loop", &retry.Error{Reason: retry.ReasonCanceled, Err: errDeadlock, Cause: context.Canceled}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.want, retrysql.Transient(row.err))
		})
	}
}

// A nil pointer to a driver's error type, returned as an error, panics in every
// method, and any method of a driver's error may panic.
func TestTransientRecoversFromTheDriversPanic(t *testing.T) {
	assert.False(t, retrysql.Transient((*stateError)(nil)))
	assert.False(t, retrysql.Transient(fmt.Errorf("pay: %w", (*stateError)(nil))))
	for _, method := range []string{"SQLState", "Is", "As", "Unwrap"} {
		assert.False(t, retrysql.Transient(panicker{method}), method)
	}
	assert.True(t, retrysql.Transient(panicker{"Error"}), "Error is not called")
	assert.True(t, retrysql.Transient(panicker{"SafeToRetry"}), "SafeToRetry is not called if there is a state")
	assert.True(t, retrysql.Transient(panicker{}), "the errors above differ from this one only by their panic")
	assert.False(t, retrysql.Transient(unsentPanicker{}))
}

type unsentPanicker struct{}

func (unsentPanicker) Error() string     { return "not sent" }
func (unsentPanicker) SafeToRetry() bool { panic("bug in SafeToRetry") }

// Transient can be used as a RetryIf, for operations that are safe to repeat.
func TestTransientAsRetryIf(t *testing.T) {
	for _, row := range []struct {
		name  string
		fails error
		runs  int
	}{
		{"deadlock", errDeadlock, 3},
		{"duplicate", errUnique, 1},
	} {
		runs := 0
		err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 3, RetryIf: retrysql.Transient}, func(context.Context) error {
			runs++
			return row.fails
		})
		assert.ErrorIs(t, err, row.fails, row.name)
		assert.Equal(t, row.runs, runs, row.name)
	}
}
