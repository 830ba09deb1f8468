package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// MySQLDriver and mysqlConn have the names of the types of go-sql-driver/mysql. retrysql recognizes
// the driver by these names.
type MySQLDriver struct{ server *server }

func (d *MySQLDriver) Open(string) (driver.Conn, error) { return d.Connect(context.Background()) }
func (d *MySQLDriver) Connect(context.Context) (driver.Conn, error) {
	return &mysqlConn{d.server.connection()}, nil
}
func (d *MySQLDriver) Driver() driver.Driver { return d }

type mysqlConn struct{ conn }

// QueryContext answers with one row: how many rows the last statement changed, and whether a
// timeout rolls back the transaction. A timeout does so if the scene has the step onTimeout.
func (c *mysqlConn) QueryContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	_, whole := c.scene[onTimeout]
	return &changedRows{[]driver.Value{c.server.changed, whole}}, c.server.do(query, ctx, c.scene)
}

type changedRows struct{ left []driver.Value }

func (*changedRows) Columns() []string { return make([]string, 2) }
func (*changedRows) Close() error      { return nil }
func (r *changedRows) Next(row []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	copy(row, r.left)
	r.left = nil
	return nil
}

const (
	set     = "SAVEPOINT retrysql"
	release = "RELEASE SAVEPOINT retrysql"
	count   = "SELECT ROW_COUNT(), @@innodb_rollback_on_timeout"

	onTimeout = "innodb_rollback_on_timeout"
)

// Each transaction sets the savepoint first and releases it last. If the savepoint is gone, the
// function went on after the end of its transaction. The exception is a function that returned the
// error that ended the transaction.
func TestSavepoint(t *testing.T) {
	var (
		gone     = &MySQLError{1305, [5]byte([]byte("42000")), "gone"}
		deadlock = &MySQLError{1213, [5]byte([]byte("40001")), "deadlock"}
		timedOut = &MySQLError{1205, [5]byte([]byte("HY000")), "timeout"}
		syntax   = &MySQLError{1064, [5]byte([]byte("42000")), "syntax"}
	)
	const goneText = "sql: transaction has already been committed or rolled back by the server: the function went on after an error such as a deadlock, or sent a statement that commits, such as CREATE TABLE: Error 1305 (42000): gone"
	whole := strings.Join([]string{"begin", set, "write", release, "commit"}, " ")
	during := func(steps ...string) string { return strings.Join(append([]string{"begin", set}, steps...), " ") }
	always := func(error) bool { return true }
	commits := func(err error) function {
		return func(_ context.Context, tx *sql.Tx) error { assert.NoError(t, tx.Commit()); return err }
	}
	for _, row := range []struct {
		name    string
		scene   scene // the scene of the first transaction
		changed int64 // how many rows the last statement before the check changed
		fn      function
		retryIf func(error) bool
		timeout time.Duration
		want    retry.Reason
		first   string // the operations of the first transaction
		text    string
	}{
		{"commits", nil, 0, write, nil, 0, retry.ReasonSuccess, whole, ""},
		{"the savepoint is gone after a success", scene{release: fails(gone)}, 0, write, nil, 0, unknown, during("write", release, "rollback"), inDoubt + goneText},
		{"a deadlock that the function returns at once", scene{"write": fails(deadlock)}, -1, write, nil, 0, retry.ReasonSuccess, during("write", count, "rollback"), ""},
		{"a deadlock that the function returns after it has written more", scene{"write": fails(deadlock), release: fails(gone)}, 1, write, nil, 0, unknown, during("write", count, release, "rollback"), inDoubt + "Error 1213 (40001): deadlock; rollback: " + goneText},
		{"a deadlock that the function returns after a statement that changed nothing", scene{"write": fails(deadlock), release: fails(gone)}, 0, write, nil, 0, retry.ReasonSuccess, during("write", count, "rollback"), ""},
		{"a deadlock, more writes, and then a lost connection", scene{"write": fails(deadlock), release: fails(gone), "rollback": fails(driver.ErrBadConn)}, 1, write, nil, 0, unknown, during("write", count, release, "rollback"), inDoubt + "Error 1213 (40001): deadlock; rollback: " + goneText},
		{"a lock wait timeout, which undoes only the statement, and more writes", scene{"write": fails(timedOut)}, 1, write, nil, 0, retry.ReasonSuccess, during("write", count, release, "rollback"), ""},
		{"a lock wait timeout, after a statement that commits", scene{"write": fails(timedOut), release: fails(gone)}, -1, write, nil, 0, unknown, during("write", count, release, "rollback"), inDoubt + "Error 1205 (HY000): timeout; rollback: " + goneText},
		{"a lock wait timeout, which rolls back", scene{"write": fails(timedOut), onTimeout: nil}, -1, write, nil, 0, retry.ReasonSuccess, during("write", count, "rollback"), ""},
		{"a deadlock, and the connection is lost", scene{"write": fails(deadlock), count: fails(io.ErrUnexpectedEOF)}, 1, write, nil, 0, retry.ReasonSuccess, during("write", count, "rollback"), ""},
		{"another error", scene{"write": fails(errOpaque)}, 0, write, always, 0, retry.ReasonSuccess, during("write", release, "rollback"), ""},
		{"another error, after the end of the transaction", scene{"write": fails(errOpaque), release: fails(gone)}, 0, write, always, 0, unknown, during("write", release, "rollback"), inDoubt + "not enough money; rollback: " + goneText},
		{"a lost connection", scene{"write": fails(io.ErrUnexpectedEOF), release: fails(driver.ErrBadConn)}, 0, write, nil, 0, retry.ReasonSuccess, during("write", release, "rollback"), ""},

		{"setting the savepoint fails temporarily", scene{set: fails(timedOut)}, 0, write, nil, 0, retry.ReasonSuccess, during("rollback"), ""},
		{"the server knows no savepoints", scene{set: fails(syntax)}, 0, write, nil, 0, retry.ReasonNonRetryable, during("rollback"), notTransient + "retrysql: begin: Error 1064 (42000): syntax"},
		{"the server refuses to release the savepoint, and has rolled back", scene{release: fails(deadlock)}, 0, write, nil, 0, retry.ReasonSuccess, during("write", release, "rollback"), ""},
		{"the connection is lost before the commit", scene{release: fails(io.ErrUnexpectedEOF)}, 0, write, nil, 0, unknown, during("write", release, "rollback"), inDoubt + "unexpected EOF"},
		{"AttemptTimeout before the commit", scene{release: hangs}, 0, write, nil, time.Minute, unknown, during("write", release, "rollback"), `retry: permanent error after 1 attempt (attempt 1 ran out of its 1m0s): retrysql: the transaction may or may not have been committed: context deadline exceeded`},
		{"AttemptTimeout in the function", scene{"write": hangs}, 0, write, nil, time.Minute, retry.ReasonSuccess, during("write", "rollback"), ""},
		{"the function commits", nil, 0, commits(nil), nil, 0, unknown, during("commit"), inDoubt + ended},
		{"the function commits and fails", nil, 0, commits(errOpaque), always, 0, unknown, during("commit"), inDoubt + "not enough money; rollback: " + ended},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, server := openMySQL(t, row.scene)
				server.changed = row.changed
				p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), AttemptTimeout: row.timeout, RetryIf: row.retryIf}
				err := retrysql.Tx(t.Context(), db, nil, p, row.fn)
				synctest.Wait() // database/sql may roll back in the background
				assert.Equal(t, row.want, reasonOf(err), "%v", err)
				want := []string{row.first}
				if row.want == retry.ReasonSuccess && row.first != whole {
					want = append(want, whole)
				}
				assert.Equal(t, want, server.asked())
				if row.text != "" {
					assert.EqualError(t, err, row.text)
					assert.Equal(t, row.want == unknown, retry.IsPermanent(err))
				}
			})
		})
	}
}

// hasSavepoint also recognizes the driver of a Conn, and of a struct that embeds a Conn or a
// DB. TxFunc and other drivers have no savepoint.
func TestOnlyTheMySQLDriverGetsASavepoint(t *testing.T) {
	whole := strings.Join([]string{"begin", set, "write", release, "commit"}, " ")
	mysql, server := openMySQL(t)
	conn, err := mysql.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	for _, db := range []retrysql.Beginner{mysql, conn, struct{ *sql.DB }{mysql}, &struct{ *sql.Conn }{conn}} {
		require.NoError(t, retrysql.Tx(t.Context(), db, &sql.TxOptions{ReadOnly: true}, retry.Policy{}, write))
	}
	require.NoError(t, retrysql.TxFunc(t.Context(), begins(mysql), retry.Policy{}, write))
	assert.PanicsWithValue(t, "boom", func() {
		_ = retrysql.Tx(t.Context(), mysql, nil, retry.Policy{}, func(context.Context, *sql.Tx) error { panic("boom") })
	})
	assert.Equal(t, []string{whole, whole, whole, whole, committed, "begin " + set + " rollback"}, server.asked())

	db, server := open(t)
	other, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, retrysql.Tx(t.Context(), other, nil, retry.Policy{}, write))
	assert.Equal(t, []string{committed}, server.asked())

	assert.ErrorContains(t, retrysql.Tx(t.Context(), struct{ *sql.DB }{}, nil, retry.Policy{}, write), "retrysql: the driver panicked: ")
}
