// Package retrysql runs database transactions again after temporary errors, and says which
// database errors are temporary. For a job queue in a table, [Eligible] renders a policy as an
// SQL condition that selects the jobs that may still run.
//
//	err := retrysql.Tx(ctx, db, nil, retry.Default(), func(ctx context.Context, tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1")
//		return err
//	})
//
// [Tx] is for database/sql. [TxFunc] is for pgx, GORM, sqlx, bun, ent and every other library
// that begins and commits transactions itself. Tx and TxFunc never repeat a transaction that
// may have been committed.
//
// A deadlock, a serialization failure, a lock timeout and a lost connection are retried. See
// [Transient] for the full table. Your function may run several times, so it should read its
// data inside the transaction and have no side effects outside the database.
//
// The package imports no driver. It recognizes the errors of these drivers:
//
//	database                                  driver                    support
//	PostgreSQL                                pgx, lib/pq, pgdriver     tested
//	MariaDB                                   go-sql-driver/mysql       tested
//	SQLite                                    modernc, mattn            tested
//	MySQL, Aurora, Galera, group replication  go-sql-driver/mysql       from their documentation
//	TiDB                                      go-sql-driver/mysql       from its documentation
//	CockroachDB, YugabyteDB, Aurora           pgx, lib/pq, pgdriver     only PostgreSQL's SQLSTATEs
//	Vitess, PlanetScale                       go-sql-driver/mysql       only MySQL's errors
//	SQL Server, Oracle, Db2, Spanner, others  any                       none: write a RetryIf
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

// Transient reports whether err is a temporary error of a database, according to the tables below.
// Transient returns false for nil. Tx and TxFunc call Transient if the policy has no RetryIf. You
// can also set Transient as the RetryIf of a policy.
//
// Do not use Transient as the RetryIf of a retry.Do around a function that commits, such as
// pgx.BeginFunc or GORM's Transaction. If the answer to COMMIT is lost, the error looks like the
// error of any other lost connection. Then the transaction would be applied twice. Use [Tx] or
// [TxFunc] for such a function. Around a single statement outside a transaction, Transient is safe
// if the statement may run twice. Inside a transaction it is not safe: after a deadlock, MySQL and
// MariaDB have rolled back the transaction, and would run and commit the retried statement alone.
//
// Transient reads the server's answer, such as an SQLSTATE, from the methods and fields of the
// driver's error. If err's tree contains several answers, Transient prefers an SQLSTATE to the
// numbers of MySQL and SQLite. Otherwise it takes the first answer in the order of errors.As.
//
// The drivers of PostgreSQL (pgx, lib/pq, pgdriver) report SQLSTATEs:
//
//	SQLSTATE                      retry  source
//	40001 serialization_failure   yes    PostgreSQL 13.5
//	40P01 deadlock_detected       yes    PostgreSQL 13.5
//	40000 transaction_rollback    yes    appendix A, class 40
//	40002 integrity constraint    no     appendix A, class 40
//	40003 completion_unknown      no     appendix A, class 40: it may have been committed
//	08007 resolution_unknown      no     appendix A, class 08: it may have been committed
//	08xxx connection_exception    yes    appendix A, class 08
//	0A000 feature_not_supported   no     appendix A, class 0A
//	      "cached plan must not change result type"
//	                              yes    a table was altered; the driver prepares the statement anew
//	25006 read_only               yes    a standby, after a failover: another connection
//	25P03 idle in transaction     yes    appendix A, class 25: another connection
//	53300 too_many_connections    yes    appendix A, class 53: a connection becomes free
//	55P03 lock_not_available      yes    appendix A, class 55: NOWAIT or lock_timeout
//	57P01 admin_shutdown          yes    appendix A, class 57: another connection
//	57P02 crash_shutdown          yes    appendix A, class 57: another connection
//	57P03 cannot_connect_now      yes    appendix A, class 57: the server starts
//	57P05 idle_session_timeout    yes    appendix A, class 57: another connection
//	57P04 database_dropped        no     appendix A, class 57
//	57014 query_canceled          no     appendix A, class 57: somebody canceled the query
//	any other                     no     it fails again, or only the program can tell
//
// The driver go-sql-driver/mysql reports the error numbers of MySQL, MariaDB and TiDB. The
// drivers modernc.org/sqlite and mattn/go-sqlite3 report the result codes of SQLite:
//
//	MySQL's error number           retry  source
//	1213, 1205, 3572               yes    deadlock, lock wait timeout, NOWAIT
//	1020                           yes    record has changed since last read (MariaDB)
//	1040, 1203                     yes    too many connections: a connection becomes free
//	1053, 1927, 3169, 4031         yes    shutdown, killed, idle too long: another connection
//	1047                           yes    Galera: the node is not ready
//	3101                           yes    group replication: rolled back at COMMIT
//	1290 for a "read-only" option  yes    the server became read-only: another connection
//	1792, 1836                     yes    session or engine is read-only: another connection
//	8002, 8005, 8022, 8028, 9007   yes    TiDB: a conflict, and the transaction was rolled back
//	8027, 9001-9005, 9012, 9013    yes    TiDB: a part of the cluster is late, busy or cut off
//	"invalid connection"           yes    the driver's ErrInvalidConn: the connection was lost
//	any other                      no     a duplicate key, a syntax error, a killed query
//	SQLite's result code
//	SQLITE_BUSY, extended or not   yes    another connection holds the lock
//	any other, SQLITE_LOCKED too   no     it fails again
//
// These errors contain neither an SQLSTATE nor an error number:
//
//	failure                                retry  source
//	COMMIT answered with ROLLBACK          yes    pgx and lib/pq: nothing was applied
//	SafeToRetry() is true                  yes    pgx: nothing was sent, or connection is closed
//	driver.ErrBadConn                      yes    database/sql/driver
//	target_session_attrs, at the beginning yes    pgx and lib/pq: the wrong server, for now
//	io.EOF while a transaction begins      yes    the server or a balancer closed the connection
//	io.EOF later                           no     perhaps the end of a file
//	a network error                        yes    if retrynet.Transient returns true
//	sql.ErrConnDone, ErrTxDone, ErrNoRows  no     database/sql
//	context.Canceled, DeadlineExceeded     no     perhaps the caller's context; checked first
//	an error whose methods panic           no     the panic is recovered
//	any other                              no     not known
//
// pgdriver also returns a bare io.EOF for a lost connection. In PostgreSQL's manual, section 13.5
// is "Serialization Failure Handling", and appendix A lists the error codes. The SQLSTATE 23505
// unique_violation belongs to the line "any other" of the first table. The manual advises retrying
// this error if the transaction looks for a free key before it inserts. Write a RetryIf for this
// case.
func Transient(err error) bool {
	return harmless.Or(false, func() bool { return isTransient(err) })
}

func isTransient(err error) bool {
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
		return isTransient(failed.function)
	}

	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if a := answerOf(err); a != nil {
		return a.passes()
	}
	// If SafeToRetry returns false, a retry may still be safe, so the checks go on.
	var unsent interface{ SafeToRetry() bool }
	if errors.As(err, &unsent) && unsent.SafeToRetry() {
		return true
	}
	return lost(err) || retrynet.Transient(err)
}

// lost reports whether err says that the connection to the database was lost. It recognizes
// errors that retrynet.Transient does not recognize. An io.EOF while a transaction begins comes
// from the connection. A later io.EOF may be the end of some file.
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
