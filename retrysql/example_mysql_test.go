package retrysql_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// The driver go-sql-driver/mysql has number and SQLSTATE in fields, where
// Transient does not look. Write *mysql.MySQLError for *MySQLError, which
// stands for it here, and add errors.Is(err, mysql.ErrInvalidConn), which is
// how it reports a lost connection.
func ExampleTransient_mySQL() {
	p := retry.Default()
	p.RetryIf = func(err error) bool { // for retrysql.Tx
		var e *MySQLError
		return retrysql.Transient(err) || errors.As(err, &e) && slices.Contains([]uint16{
			1213, 1205, 1020, // deadlock, lock wait timeout, record has changed since last read
			1040, 1053, 1927, // too many connections, server shutdown, connection killed
		}, e.Number)
	}

	deadlock := &MySQLError{1213, [5]byte{'4', '0', '0', '0', '1'}, "Deadlock found when trying to get lock"}
	duplicate := &MySQLError{1062, [5]byte{'2', '3', '0', '0', '0'}, "Duplicate entry"}
	fmt.Println(p.RetryIf(fmt.Errorf("pay: %w", deadlock)))
	fmt.Println(p.RetryIf(errors.Join(errors.New("pay"), deadlock)))
	fmt.Println(p.RetryIf(duplicate))
	// Output:
	// true
	// true
	// false
}

// MySQLError has the fields of the driver's.
type MySQLError struct {
	Number   uint16
	SQLState [5]byte
	Message  string
}

func (e *MySQLError) Error() string {
	return fmt.Sprintf("Error %d (%s): %s", e.Number, e.SQLState, e.Message)
}
