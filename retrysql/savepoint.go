package retrysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/goretry/retry/internal/harmless"
)

// After a deadlock MySQL and MariaDB have rolled the transaction back. Each
// statement that follows commits by itself, and then COMMIT succeeds. A savepoint
// that is set first and released last is gone with its transaction, and the
// server says so. It costs two round trips.
const savepoint = "retrysql"

// hasSavepoint reports whether db is by go-sql-driver/mysql. A driver that wraps
// it is not known.
func hasSavepoint(db Beginner) bool {
	return harmless.Or(false, func() bool {
		if db, ok := db.(interface{ Driver() driver.Driver }); ok { // *sql.DB, and what embeds it
			return structOf(db.Driver(), "MySQLDriver").IsValid()
		}
		conn := connOf(db)
		return conn != nil && conn.Raw(isMySQL) == errIsMySQL
	})
}

var errIsMySQL = errors.New("go-sql-driver/mysql")

// isMySQL answers by its error: a variable of a closure would be an allocation for
// every other driver.
func isMySQL(conn any) error {
	if structOf(conn, "mysqlConn").IsValid() {
		return errIsMySQL
	}
	return nil
}

// checkSavepoint returns what the function failed with, or errLeft if its
// transaction had ended before the function did.
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

// stopped reports whether the function failed with what ended its transaction and
// changed nothing after that, as far as the server can tell: the savepoint is gone
// then as well. After a timeout that has not ended it, a statement that commits has
// removed a savepoint that is gone.
func stopped(ctx context.Context, tx *sql.Tx, failure error) bool {
	code, _ := answerOf(failure).(mySQL)
	if !code.mayRollBack() {
		return false
	}
	var changed int64 // rows, by the last statement; -1 if it failed or returned rows
	var onTimeout bool
	err := ask(func() error {
		return tx.QueryRowContext(ctx, "SELECT ROW_COUNT(), @@innodb_rollback_on_timeout").Scan(&changed, &onTimeout)
	})
	return err != nil || changed <= 0 && (code.number != 1205 || onTimeout)
}

func execute(ctx context.Context, tx *sql.Tx, statement string) error {
	return ask(func() error {
		_, err := tx.ExecContext(ctx, statement)
		return err
	})
}
