package retrysql_test

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// mySQLNumber returns the number of a MySQL or MariaDB error, 0 if err is none.
func mySQLNumber(err error) uint64 {
	for ; err != nil; err = errors.Unwrap(err) {
		if v := reflect.Indirect(reflect.ValueOf(err)); v.Kind() == reflect.Struct {
			if n := v.FieldByName("Number"); n.CanUint() {
				return n.Uint()
			}
		}
	}
	return 0
}

// mySQLTransient adds the numbers of MySQL and MariaDB to Transient.
func mySQLTransient(err error) bool {
	switch mySQLNumber(err) {
	case 1213, 1205, 1020: // deadlock, lock wait timeout, record has changed since last read
		return true
	case 1040, 1053, 1927: // too many connections, server shutdown, connection killed
		return true
	default:
		return retrysql.Transient(err)
	}
}

// The driver go-sql-driver/mysql has number and SQLSTATE in fields, where
// Transient does not look. A program that imports it finds them with errors.As
// and a *mysql.MySQLError, and a lost connection with errors.Is and
// mysql.ErrInvalidConn; one that does not, by the name of the field.
func ExampleTransient_mySQL() {
	p := retry.Default()
	p.RetryIf = mySQLTransient // for retrysql.Tx

	deadlock := &MySQLError{1213, [5]byte{'4', '0', '0', '0', '1'}, "Deadlock found when trying to get lock"}
	duplicate := &MySQLError{1062, [5]byte{'2', '3', '0', '0', '0'}, "Duplicate entry"}
	fmt.Println(p.RetryIf(fmt.Errorf("pay: %w", deadlock)))
	fmt.Println(p.RetryIf(duplicate))
	// Output:
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
