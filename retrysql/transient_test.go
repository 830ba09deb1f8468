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

// Each SQLSTATE is tested as the error of a statement and as the error of a COMMIT.
func TestSQLState(t *testing.T) {
	text, err := os.ReadFile("testdata/sqlstate.txt")
	require.NoError(t, err)
	codes := map[string]int{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		require.Greater(t, len(f), 3, line)
		class, verdict, commit := f[0], f[1], f[2]
		require.Contains(t, []string{"again", "final"}, verdict)
		require.Contains(t, []string{"refused", "unknown"}, commit)
		for _, code := range f[3:] {
			codes[verdict]++
			failure := &stateError{code, class}
			assert.Equal(t, verdict == "again", retrysql.Transient(failure), "Transient: %s", code)
			assertCommit(t, failure, nil, commit == "refused", verdict == "again")
		}
	}
	assert.Equal(t, map[string]int{"again": 18, "final": 247}, codes)
}

func TestTransient(t *testing.T) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for _, row := range []struct {
		name             string
		transient, final []error
	}{
		{"not known", nil, []error{nil, errOpaque}},
		{"a state that is wrapped", []error{fmt.Errorf("pay: %w", errDeadlock)}, nil},
		{"the first of two states decides", []error{errors.Join(errOpaque, errDeadlock, errUnique)}, []error{errors.Join(errUnique, errDeadlock)}},
		{"a permanent state next to a temporary error", nil, []error{errors.Join(errUnique, driver.ErrBadConn), errors.Join(&unsentError{safe: true}, errUnique)}},
		{"no state", []error{errors.Join(&stateError{"", "connection lost"}, reset)}, []error{&stateError{"", "connection lost"}}},
		{"a state that is too short, too long, or in lower case", nil,
			[]error{&stateError{"08", "?"}, &stateError{"400011", "?"}, &stateError{"40p01", "?"}}},
		{"not sent", []error{&unsentError{safe: true}, fmt.Errorf("pay: %w", &unsentError{safe: true})}, nil},
		{"perhaps sent", []error{&unsentError{safe: false, cause: reset}}, []error{&unsentError{safe: false}}},
		{"a lost connection", []error{driver.ErrBadConn, fmt.Errorf("pay: %w", driver.ErrBadConn), reset}, nil},
		{"other errors of database/sql and the network", nil, []error{
			sql.ErrConnDone, sql.ErrTxDone, sql.ErrNoRows, fmt.Errorf("account 7: %w", sql.ErrNoRows),
			&net.DNSError{Err: "no such host", Name: "db", IsNotFound: true},
		}},
		// context.DeadlineExceeded is a net.Error whose Timeout is true.
		{"a context", nil, []error{
			context.Canceled, &net.OpError{Op: "dial", Net: "tcp", Err: context.Canceled}, errors.Join(errDeadlock, context.Canceled),
			context.DeadlineExceeded, fmt.Errorf("timeout: %w", context.DeadlineExceeded), &unsentError{safe: true, cause: context.DeadlineExceeded},
		}},
		{"a commit of unknown outcome", nil, []error{
			&retrysql.UnknownCommitError{Err: errSerialization}, fmt.Errorf("pay: %w", &retrysql.UnknownCommitError{Err: driver.ErrBadConn}),
		}},
		{"the error of a loop", []error{&retry.Error{Reason: retry.ReasonExhausted, Err: errDeadlock}},
			[]error{&retry.Error{Reason: retry.ReasonCanceled, Err: errDeadlock, Cause: context.Canceled}}},
	} {
		for _, err := range row.transient {
			assert.True(t, retrysql.Transient(err), "%s: %v", row.name, err)
		}
		for _, err := range row.final {
			assert.False(t, retrysql.Transient(err), "%s: %v", row.name, err)
		}
	}
}

// A driver may return a nil pointer of its error type as an error. Every method of such an error
// panics. Any other method of a driver's error may panic too.
func TestTransientRecoversFromTheDriversPanic(t *testing.T) {
	assert.False(t, retrysql.Transient((*stateError)(nil)))
	assert.False(t, retrysql.Transient(fmt.Errorf("pay: %w", (*stateError)(nil))))
	for _, method := range []string{"SQLState", "Is", "As", "Unwrap"} {
		assert.False(t, retrysql.Transient(panicker{method}), method)
	}
	assert.True(t, retrysql.Transient(panicker{"Error"}), "Error is not called")
	assert.True(t, retrysql.Transient(panicker{"SafeToRetry"}), "SafeToRetry is not called if there is a state")
	assert.True(t, retrysql.Transient(panicker{}), "this error is the same as the errors above, but does not panic")
	assert.False(t, retrysql.Transient(unsentPanicker{}))
}

type unsentPanicker struct{}

func (unsentPanicker) Error() string     { return "not sent" }
func (unsentPanicker) SafeToRetry() bool { panic("bug in SafeToRetry") }
