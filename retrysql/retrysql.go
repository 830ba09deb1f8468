// Package retrysql says which failures of a database are worth another try,
// runs whole transactions again, and writes the eligibility of a job as SQL.
//
//	err := retrysql.Tx(ctx, db, nil, retry.Default(), func(ctx context.Context, tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1")
//		return err
//	})
//
// It imports no driver. [Transient] asks an error for the methods that drivers
// give it, SQLState() string and SafeToRetry() bool, and decides by the code:
//
//	SQLSTATE                      again  source
//	40001 serialization_failure   yes    PostgreSQL 13.5
//	40P01 deadlock_detected       yes    PostgreSQL 13.5
//	40000 transaction_rollback    yes    appendix A, class 40
//	40002 integrity constraint    no     appendix A, class 40
//	40003 completion_unknown      no     appendix A, class 40: it may have been done
//	08007 resolution_unknown      no     appendix A, class 08: it may have been done
//	08xxx connection_exception    yes    appendix A, class 08
//	53300 too_many_connections    yes    appendix A, class 53: one becomes free
//	55P03 lock_not_available      yes    appendix A, class 55: NOWAIT or lock_timeout
//	57P01 admin_shutdown          yes    appendix A, class 57: another connection
//	57P02 crash_shutdown          yes    appendix A, class 57: another connection
//	57P03 cannot_connect_now      yes    appendix A, class 57: the server starts
//	57P05 idle_session_timeout    yes    appendix A, class 57: another connection
//	57P04 database_dropped        no     appendix A, class 57
//	57014 query_canceled          no     appendix A, class 57: somebody wanted it so
//	any other                     no     it fails again, or only the program can tell
//
//	without an SQLSTATE                   again  source
//	SafeToRetry() is true                 yes    pgx: nothing was sent, or the connection is closed
//	driver.ErrBadConn                     yes    database/sql/driver
//	a network error                       yes    if retrynet.Transient says so
//	sql.ErrConnDone, ErrTxDone, ErrNoRows no     database/sql
//	context.Canceled, DeadlineExceeded    no     the caller's own, perhaps; goes before all others
//	one that panics when it is asked      no     the panic is recovered
//	any other                             no     see the example for MySQL
//
// PostgreSQL 13.5 is its manual's section "Serialization Failure Handling",
// and appendix A its list of error codes. 23505 unique_violation is among the
// others: where a transaction looks for a free key before it inserts, that
// section advises to try again, and a RetryIf of one's own can say so.
//
// Whether another try is worth it is not whether it is safe: a statement whose
// connection was lost may have been done. Within [Tx] it was rolled back.
package retrysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynet"
)

// Transient reports whether err is a failure of a database that may pass, by
// the table above. It has the form of a RetryIf, and is that of [Tx] where the
// policy has none. Of several errors in err's tree that have an SQLSTATE the
// first decides, in the order of errors.As. It is false for nil.
func Transient(err error) (transient bool) {
	defer func() {
		if recover() != nil {
			transient = false
		}
	}()
	return passes(err)
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
		return passes(failed.err)
	}

	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if state := stateOf(err); state != "" {
		return statePasses(state)
	}
	var unsent interface{ SafeToRetry() bool } // false says nothing
	if errors.As(err, &unsent) && unsent.SafeToRetry() {
		return true
	}
	return errors.Is(err, driver.ErrBadConn) || retrynet.Transient(err)
}

// stateOf returns the SQLSTATE of err; "" if it has none.
func stateOf(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		if state := e.SQLState(); len(state) == 5 {
			return state
		}
	}
	return ""
}

func statePasses(state string) bool {
	switch state {
	case "40000", "40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03", "57P05":
		return true
	case "08007":
		return false
	default:
		return strings.HasPrefix(state, "08")
	}
}

// harmless returns err, unless one of the methods that will be asked of it
// panics; then it returns a permanent error that says so. A nil pointer to a
// driver's error does this, returned as an error that is not nil.
func harmless(err error) (checked error) {
	defer func() {
		if p := recover(); p != nil {
			checked = retry.Permanent(fmt.Errorf("retrysql: an error of type %T panics in a method of its own: %v", err, p))
		}
	}()
	if err != nil {
		_ = err.Error()
		passes(err)
		retry.Policy{}.Next(retry.Attempt{Err: err}) // reads the marks in err's tree, as Do will
	}
	return err
}
