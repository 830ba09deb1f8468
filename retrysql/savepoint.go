package retrysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/goretry/retry/internal/harmless"
)

// savepoint is the name of the savepoint with which Tx checks that the transaction did not end
// early. After a deadlock, MySQL and MariaDB have rolled back the transaction. Then each later
// statement commits by itself, and COMMIT succeeds. Tx sets the savepoint first and releases it
// last. If the transaction has ended in between, the server answers that the savepoint does not
// exist. The check costs two round trips.
const savepoint = "retrysql"

// hasSavepoint reports whether Tx sets the savepoint. It returns true if the driver of db is
// go-sql-driver/mysql, and false for a driver that wraps go-sql-driver/mysql.
func hasSavepoint(db Beginner) bool {
	return harmless.Or(false, func() bool {
		if db, ok := db.(interface{ Driver() driver.Driver }); ok { // db is a *sql.DB or embeds one
			return structOf(db.Driver(), "MySQLDriver").IsValid()
		}
		conn := connOf(db)
		return conn != nil && conn.Raw(isMySQL) == errIsMySQL
	})
}

var errIsMySQL = errors.New("go-sql-driver/mysql")

// isMySQL returns errIsMySQL for a connection of go-sql-driver/mysql, and nil for any other
// connection. The result is an error because sql.Conn.Raw returns the error of the function that it
// calls, and nothing else. A closure that sets a variable would also work, but Go would allocate
// the variable in each call, even with another driver.
func isMySQL(conn any) error {
	if structOf(conn, "mysqlConn").IsValid() {
		return errIsMySQL
	}
	return nil
}

// checkSavepoint releases the savepoint and returns `failure`, which is the error of the function.
// If the savepoint is gone, checkSavepoint returns errLeft, because the transaction ended before
// the function returned. If `failure` itself ended the transaction, checkSavepoint does not release
// the savepoint.
func checkSavepoint(ctx context.Context, tx *sql.Tx, failure error) error {
	if stopped(ctx, tx, failure) {
		return failure
	}
	err := execute(ctx, tx, "RELEASE SAVEPOINT "+savepoint)
	if code, _ := answerOf(err).(mySQL); code.number == 1305 {
		return fmt.Errorf("%w: %w", errLeft, err)
	}
	if failure != nil {
		return failure
	}
	return err
}

// stopped reports whether the function stopped after an error that ended the transaction, such as a
// deadlock. `failure` is the error of the function. `stopped` returns true if two conditions hold:
//
//   - `failure` is an error that ended the transaction. A lock wait timeout ends the transaction
//     only if the option innodb_rollback_on_timeout is on.
//   - The last statement of the function changed no row. So this statement has committed nothing
//     after the end of the transaction.
//
// stopped also returns true if the query for the second condition fails.
//
// If `stopped` returns true, the savepoint may be gone without a mistake of the function. If
// `stopped` returns false but the savepoint is gone, the function may have committed something: it
// went on after a deadlock, or it sent a statement that commits.
func stopped(ctx context.Context, tx *sql.Tx, failure error) bool {
	code, _ := answerOf(failure).(mySQL)
	if !code.mayRollBack() {
		return false
	}
	const query = "SELECT ROW_COUNT(), @@innodb_rollback_on_timeout"
	// changed is how many rows the last statement changed, or -1 if it failed or returned rows.
	var changed int64
	var onTimeout bool
	err := ask(func() error {
		return tx.QueryRowContext(ctx, query).Scan(&changed, &onTimeout)
	})
	return err != nil || changed <= 0 && (code.number != 1205 || onTimeout)
}

func execute(ctx context.Context, tx *sql.Tx, statement string) error {
	return ask(func() error {
		_, err := tx.ExecContext(ctx, statement)
		return err
	})
}
