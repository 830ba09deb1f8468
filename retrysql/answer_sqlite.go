package retrysql

import (
	"reflect"
	"syscall"
)

// An sqliteCode is a result code of SQLite, extended or not.
type sqliteCode int

// sqliteOf reads the errors of modernc.org/sqlite and mattn/go-sqlite3. Both drivers roll back
// after a failed COMMIT. Another driver may not roll back, and a retry could then get a connection
// whose transaction is still open. So sqliteOf returns false for the errors of other drivers, and a
// COMMIT that fails with such an error is not retried.
func sqliteOf(err error) (sqliteCode, bool) {
	v := structOf(err, "Error")
	if !v.IsValid() {
		return 0, false
	}
	if e, ok := err.(interface{ Code() int }); ok && v.Type().PkgPath() == "modernc.org/sqlite" {
		return sqliteCode(e.Code()), true
	}
	code := v.FieldByName("Code")
	_, ok := field[syscall.Errno](v, "SystemErrno")
	if !ok || code.Kind() != reflect.Int || v.FieldByName("ExtendedCode").Kind() != reflect.Int {
		return 0, false
	}
	return sqliteCode(code.Int()), true
}

const (
	sqliteBusy       = 5
	sqliteConstraint = 19
)

func (c sqliteCode) passes() bool { return c&0xff == sqliteBusy }

func (c sqliteCode) refused() bool { return c&0xff == sqliteBusy || c&0xff == sqliteConstraint }

func (c sqliteCode) elsewhere() bool { return false }
