package retrysql_test

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// MySQLError has the same fields as the type of go-sql-driver/mysql. integration/sqltest uses
// the real type.
type MySQLError struct {
	Number   uint16
	SQLState [5]byte
	Message  string
}

func (e *MySQLError) Error() string {
	return fmt.Sprintf("Error %d (%s): %s", e.Number, e.SQLState, e.Message)
}

// sqliteErrno and sqliteExtended stand for the types of the fields of Error in mattn/go-sqlite3.
type (
	sqliteErrno    int
	sqliteExtended int
)

type Error struct {
	Code         sqliteErrno
	ExtendedCode sqliteExtended
	SystemErrno  syscall.Errno
	err          string
}

func (e Error) Error() string { return e.err }

// letters is an error like those of bun's pgdriver.
type letters map[byte]string

func (e letters) Error() string       { return e['M'] }
func (e letters) Field(k byte) string { return e[k] }

// Each row is an answer of a server. It decides whether a statement is retried, and whether a
// COMMIT is retried.
func TestAnswersWithoutAnSQLState(t *testing.T) {
	const again, final, refused, unknown = true, false, true, false
	mySQL := func(number uint16, state string) error {
		return &MySQLError{number, [5]byte([]byte(state)), "in words"}
	}
	prevents := func(option string) error {
		return &MySQLError{1290, [5]byte([]byte("HY000")), "The MySQL server is running with the " + option + " option so it cannot execute this statement"}
	}
	sqlite := func(code, extended int) error {
		return Error{sqliteErrno(code), sqliteExtended(extended), 0, "in words"}
	}
	for _, row := range []struct {
		name    string
		err     error
		again   bool
		refused bool
	}{
		{"MySQL: deadlock, Galera's conflict at COMMIT", mySQL(1213, "40001"), again, refused},
		{"MySQL: rolled back during COMMIT", mySQL(3101, "40000"), again, refused},
		{"MySQL: lock wait timeout", mySQL(1205, "HY000"), again, unknown},
		{"MySQL: NOWAIT", mySQL(3572, "HY000"), again, unknown},
		{"MySQL: record has changed", mySQL(1020, "HY000"), again, unknown},
		{"MySQL: too many connections", mySQL(1040, "08004"), again, unknown},
		{"MySQL: too many connections of a user", mySQL(1203, "42000"), again, unknown},
		{"MySQL: server shutdown", mySQL(1053, "08S01"), again, unknown},
		{"MySQL: connection killed", mySQL(1927, "70100"), again, unknown},
		{"MySQL: session killed", mySQL(3169, "HY000"), again, unknown},
		{"MySQL: idle too long", mySQL(4031, "HY000"), again, unknown},
		{"MySQL: Galera node not ready", mySQL(1047, "08S01"), again, unknown},
		{"MySQL: the server became read-only", prevents("--read-only"), again, refused},
		{"MySQL: the server became read-only, for administrators too", prevents("--super-read-only"), again, refused},
		{"MySQL: another option forbids the statement", prevents("--secure-file-priv"), final, unknown},
		{"MySQL: the engine is read-only", mySQL(1836, "HY000"), again, unknown},
		{"MySQL: the session is read-only", mySQL(1792, "25006"), again, unknown},

		{"TiDB: conflict of SELECT FOR UPDATE at COMMIT", mySQL(8002, "HY000"), again, refused},
		{"TiDB: write conflict, detected by TiDB itself", mySQL(8005, "HY000"), again, refused},
		{"TiDB: COMMIT failed and was rolled back", mySQL(8022, "HY000"), again, refused},
		{"TiDB: the schema has changed", mySQL(8028, "HY000"), again, refused},
		{"TiDB: write conflict", mySQL(9007, "HY000"), again, refused},
		{"TiDB: the schema is outdated", mySQL(8027, "HY000"), again, unknown},
		{"TiDB: PD is late", mySQL(9001, "HY000"), again, unknown},
		{"TiDB: TiKV is late", mySQL(9002, "HY000"), again, unknown},
		{"TiDB: TiKV is busy", mySQL(9003, "HY000"), again, unknown},
		{"TiDB: a lock is not resolved in time", mySQL(9004, "HY000"), again, unknown},
		{"TiDB: a region is unavailable", mySQL(9005, "HY000"), again, unknown},
		{"TiDB: TiFlash is late", mySQL(9012, "HY000"), again, unknown},
		{"TiDB: TiFlash is busy", mySQL(9013, "HY000"), again, unknown},
		{"TiDB: transaction too large", mySQL(8004, "HY000"), final, unknown},
		{"TiDB: garbage was collected", mySQL(9006, "HY000"), final, unknown},

		{"MySQL: duplicate", mySQL(1062, "23000"), final, unknown},
		{"MySQL: packet too large, with the SQLSTATE of a shutdown", mySQL(1153, "08S01"), final, unknown},
		{"MySQL: query interrupted", mySQL(1317, "70100"), final, unknown},
		{"MySQL: error during COMMIT", mySQL(1180, "HY000"), final, unknown},
		{"MySQL: completion unknown", mySQL(1213, "40003"), again, unknown},
		{"MySQL: no state", mySQL(1213, "\x00\x00\x00\x00\x00"), again, unknown},
		{"MySQL: a nil pointer", (*MySQLError)(nil), final, unknown},
		{"MySQL: invalid connection", errors.New("invalid connection"), again, unknown},
		{"MySQL: a similar text", errors.New("invalid connection string"), final, unknown},

		{"SQLite: busy", sqlite(5, 5), again, refused},
		{"SQLite: busy snapshot", sqlite(517, 517), again, refused},
		{"SQLite: constraint", sqlite(19, 787), final, refused},
		{"SQLite: locked", sqlite(6, 6), final, unknown},
		{"SQLite: full", sqlite(13, 13), final, unknown},
		{"another Error with a Code", otherSQLite(), final, unknown},
		{"another MySQLError", otherMySQL(), final, unknown},

		{"pgdriver: deadlock", letters{'C': "40P01"}, again, refused},
		{"pgdriver: duplicate", letters{'C': "23505"}, final, refused},
		{"pgdriver: shutdown", letters{'C': "57P01"}, again, unknown},
		{"a Field without an SQLSTATE", letters{'C': "?"}, final, unknown},

		{"pgx: COMMIT answered with ROLLBACK", errors.New("commit unexpectedly resulted in rollback"), again, refused},
		{"lib/pq: COMMIT in a failed transaction", errors.New("pq: could not complete operation in a failed transaction"), again, refused},
		{"a similar text", errors.New("my commit unexpectedly resulted in rollback"), final, unknown},

		{"a cached plan that is outdated", &stateError{"0A000", "cached plan must not change result type"}, again, refused},
		{"another feature that is not supported", &stateError{"0A000", "cannot"}, final, refused},

		{"an SQLSTATE takes precedence over a number", errors.Join(mySQL(1213, "40001"), errUnique), final, refused},
		{"an answer takes precedence over a lost connection", errors.Join(driver.ErrBadConn, mySQL(1062, "23000")), final, unknown},
		{"the first of two answers decides", errors.Join(mySQL(1062, "23000"), mySQL(1213, "40001")), final, unknown},
		{"a connection closed by this side", &net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed}, again, unknown},
	} {
		for name, err := range map[string]error{"": row.err, ", wrapped": fmt.Errorf("pay: %w", opaque{row.err}), ", joined": errors.Join(errOpaque, row.err)} {
			t.Run(row.name+name, func(t *testing.T) {
				assert.Equal(t, row.again, retrysql.Transient(err), "Transient")
				assertCommit(t, err, func(error) bool { return true }, row.refused, true)
			})
		}
	}
}

// assertCommit checks the result of a COMMIT that fails with err.
func assertCommit(t *testing.T, err error, retryIf func(error) bool, refused, again bool) {
	t.Helper()
	db, server := open(t, failing("commit", err)...)
	want, asked := unknown, []string{committed}
	switch {
	case refused && again:
		want, asked = retry.ReasonSuccess, []string{committed, committed}
	case refused:
		want = retry.ReasonNonRetryable
	}
	assert.Equal(t, want, reasonOf(retrysql.Tx(t.Context(), db, nil, retry.Policy{MaxAttempts: 2, RetryIf: retryIf}, write)), "%v", err)
	assert.Equal(t, asked, server.asked(), "%v", err)
}

// opaque wraps an error without calling its methods, which panic for a nil pointer.
type opaque struct{ err error }

func (opaque) Error() string   { return "opaque" }
func (e opaque) Unwrap() error { return e.err }

// A codeError has a method Code, like many errors that are unrelated to SQLite.
type codeError struct{ code int }

func (codeError) Error() string { return "code" }
func (e codeError) Code() int   { return e.code }

// otherSQLite returns an error with the name and the method of an SQLite error, but from another
// package.
func otherSQLite() error {
	type Error struct{ codeError }
	return Error{codeError{5}}
}

// otherMySQL returns an error with the name of a MySQL error, but with other fields.
func otherMySQL() error {
	type MySQLError struct {
		error
		Number int
		State  string
	}
	return MySQLError{errors.New("in words"), 1213, "40001"}
}
