// Package retrysql retries database transactions, classifies database errors,
// and renders retry eligibility as SQL.
//
//	err := retrysql.Tx(ctx, db, nil, retry.Default(), func(ctx context.Context, tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1")
//		return err
//	})
//
// [Tx] is for database/sql, [TxFunc] for pgx, GORM, sqlx, bun, ent and any other
// library that begins and commits by itself. Both know when COMMIT was sent, and
// never run a transaction again that may have been committed.
//
// A deadlock, a serialization failure, a lock timeout and a lost connection are
// retried; [Transient] has the table. fn may run several times: read inside the
// transaction, and keep other side effects out of it.
//
// The package imports no driver. It knows these databases by the errors of these drivers:
//
//	database                                  driver                    known
//	PostgreSQL                                pgx, lib/pq, pgdriver     yes, tested
//	MariaDB                                   go-sql-driver/mysql       yes, tested
//	SQLite                                    modernc, mattn            yes, tested
//	MySQL, Aurora, Galera, group replication  go-sql-driver/mysql       yes, by their documentation
//	TiDB                                      go-sql-driver/mysql       yes, by its documentation
//	CockroachDB, YugabyteDB, Aurora           pgx, lib/pq, pgdriver     by PostgreSQL's SQLSTATEs
//	Vitess, PlanetScale                       go-sql-driver/mysql       only MySQL's errors, not 1105
//	SQL Server, Oracle, Db2, Spanner, others  any                       no: write a RetryIf
package retrysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"slices"

	"github.com/goretry/retry/internal/harmless"
	"github.com/goretry/retry/retrynet"
)

// Transient reports whether err is a failure of a database that may pass, by
// the tables below. It must not be the RetryIf of a retry.Do around a whole
// transaction that the call commits, such as pgx.BeginFunc or GORM's
// Transaction: if the answer to COMMIT is lost, the error looks like any lost
// connection, and the transaction is applied twice. Use [Tx] or [TxFunc] there.
// Around a single statement it is safe where that may be applied twice, but not
// inside a transaction: after a deadlock MySQL and MariaDB have rolled that back, and
// execute the statement alone.
//
// It has the form of a RetryIf. Tx and TxFunc use it if the policy has none. If
// several errors in err's tree hold an answer of the server, an SQLSTATE goes
// before the numbers of MySQL and SQLite, and then the first decides, in the order
// of errors.As. It is false for nil.
//
// What the server said is read from the methods and fields that drivers give their
// errors. PostgreSQL's drivers (pgx, lib/pq, pgdriver) have the SQLSTATE:
//
//	SQLSTATE                      again  source
//	40001 serialization_failure   yes    PostgreSQL 13.5
//	40P01 deadlock_detected       yes    PostgreSQL 13.5
//	40000 transaction_rollback    yes    appendix A, class 40
//	40002 integrity constraint    no     appendix A, class 40
//	40003 completion_unknown      no     appendix A, class 40: it may have been done
//	08007 resolution_unknown      no     appendix A, class 08: it may have been done
//	08xxx connection_exception    yes    appendix A, class 08
//	0A000 feature_not_supported   no     appendix A, class 0A
//	      "cached plan must not change result type"
//	                              yes    a table was altered; the driver prepares the statement anew
//	25006 read_only               yes    a standby, after a failover: another connection
//	25P03 idle in transaction     yes    appendix A, class 25: another connection
//	53300 too_many_connections    yes    appendix A, class 53: one becomes free
//	55P03 lock_not_available      yes    appendix A, class 55: NOWAIT or lock_timeout
//	57P01 admin_shutdown          yes    appendix A, class 57: another connection
//	57P02 crash_shutdown          yes    appendix A, class 57: another connection
//	57P03 cannot_connect_now      yes    appendix A, class 57: the server starts
//	57P05 idle_session_timeout    yes    appendix A, class 57: another connection
//	57P04 database_dropped        no     appendix A, class 57
//	57014 query_canceled          no     appendix A, class 57: someone canceled it
//	any other                     no     it fails again, or only the program can tell
//
// MySQL, MariaDB and TiDB by go-sql-driver/mysql, SQLite by modernc.org/sqlite and
// mattn/go-sqlite3:
//
//	MySQL's error number               again  source
//	1213, 1205, 3572                   yes    deadlock, lock wait timeout, NOWAIT
//	1020                               yes    record has changed since last read (MariaDB)
//	1040, 1203                         yes    too many connections: one becomes free
//	1053, 1927, 3169, 4031             yes    shutdown, killed, idle too long: another connection
//	1047, 3101                         yes    Galera: node not ready; group replication: rolled back at COMMIT
//	1290 for a "read-only" option      yes    the server became read-only: another connection
//	1792, 1836                         yes    the session or the engine is read-only: another connection
//	8002, 8005, 8022, 8028, 9007       yes    TiDB: a conflict, and the transaction was rolled back
//	8027, 9001-9005, 9012, 9013        yes    TiDB: a part of the cluster is late, busy or cut off
//	"invalid connection"               yes    the driver's ErrInvalidConn: the connection was lost
//	any other                          no     a duplicate key, a syntax error, a query that was killed
//	SQLite's result code
//	SQLITE_BUSY, extended or not       yes    another connection holds the lock
//	any other, SQLITE_LOCKED too       no     it fails again
//
// And where the server said nothing:
//
//	failure                               again  source
//	COMMIT answered with ROLLBACK         yes    pgx and lib/pq: nothing was applied
//	SafeToRetry() is true                 yes    pgx: nothing was sent, or the connection is closed
//	driver.ErrBadConn                     yes    database/sql/driver
//	target_session_attrs at the beginning yes    pgx and lib/pq: the server is not the one to use, for now
//	io.EOF while a transaction begins     yes    the server or a balancer closed the connection
//	io.EOF later                          no     perhaps of a file; pgdriver reports a lost connection so
//	a network error                       yes    if retrynet.Transient says so
//	sql.ErrConnDone, ErrTxDone, ErrNoRows no     database/sql
//	context.Canceled, DeadlineExceeded    no     perhaps the caller's own; checked before all others
//	an error that panics when asked       no     the panic is recovered
//	any other                             no     not known
//
// PostgreSQL 13.5 is its manual's section "Serialization Failure Handling",
// and appendix A its list of error codes. 23505 unique_violation is among the
// others: if a transaction looks for a free key before it inserts, that section
// advises to try again, and your own RetryIf can say so.
func Transient(err error) bool {
	return harmless.Or(false, func() bool { return passes(err) })
}

func passes(err error) bool {
	var (
		inDoubt *UnknownCommitError
		late    *timeoutError
		failed  *rollbackError
	)
	switch {
	case err == nil || errors.As(err, &inDoubt):
		return false
	case errors.As(err, &late):
		return true
	case errors.As(err, &failed):
		return passes(failed.function)
	}

	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if a := answerOf(err); a != nil {
		return a.passes()
	}
	var unsent interface{ SafeToRetry() bool } // false says nothing
	if errors.As(err, &unsent) && unsent.SafeToRetry() {
		return true
	}
	return lost(err) || retrynet.Transient(err)
}

// lost reports whether err says that the connection was lost where retrynet
// does not say so, since it does not know that this is a database: a bare EOF
// is the connection's while a transaction begins, and could be the end of any
// file later.
func lost(err error) bool {
	if errors.Is(err, driver.ErrBadConn) {
		return true
	}
	var begin *beginError
	begins := errors.As(err, &begin)
	if begins && errors.Is(begin, io.EOF) {
		return true
	}
	for e := range tree(err) {
		text := e.Error()
		if text == mySQLInvalidConn || begins && slices.Contains(wrongServer, text) {
			return true
		}
	}
	return false
}

// wrongServer are the texts with which pgx and lib/pq refuse a server that is not
// what target_session_attrs says, so that during a failover there may be none.
var wrongServer = []string{
	"read only connection", "server is in standby mode", "server is not in hot standby mode", // pgx
	"session is read-only", "server is in hot standby mode", // lib/pq
}

// mySQLInvalidConn is the text of mysql.ErrInvalidConn, which has no type.
const mySQLInvalidConn = "invalid connection"
