package retrysql

import (
	"errors"
	"iter"
	"reflect"
	"slices"
	"strings"
	"syscall"
)

// An answer is the database server's answer to a statement or a COMMIT, read from the error of
// a driver.
type answer interface {
	passes() bool    // reports whether another attempt may succeed
	refused() bool   // for an answer to COMMIT: reports whether nothing was applied
	elsewhere() bool // reports whether another attempt needs another connection
}

// answerOf returns the answer in err's tree, or nil if the tree contains no answer. It prefers
// an SQLSTATE to the numbers of MySQL and SQLite. Otherwise it takes the first answer.
func answerOf(err error) answer {
	if state, ok := sqlStateOf(err); ok {
		return state
	}
	for e := range tree(err) {
		if text := e.Error(); text == pgxRollback || text == pqRollback {
			return rolledBackAnswer{}
		}
		if code, ok := mySQLOf(e); ok {
			return code
		}
		if code, ok := sqliteOf(e); ok {
			return code
		}
	}
	return nil
}

// tree yields err and all errors that it wraps, in the order of errors.As.
func tree(err error) iter.Seq[error] {
	return func(yield func(error) bool) { walk(err, yield) }
}

func walk(err error, yield func(error) bool) bool {
	if err == nil {
		return true
	}
	if !yield(err) {
		return false
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return walk(err.Unwrap(), yield)
	case interface{ Unwrap() []error }:
		for _, err := range err.Unwrap() {
			if !walk(err, yield) {
				return false
			}
		}
	}
	return true
}

// An sqlState is the answer of a server whose driver reports SQLSTATEs.
type sqlState struct {
	code string
	err  error // the error of the driver, which contains the code
}

// sqlStateOf returns the SQLSTATE in err's tree. The errors of pgx and lib/pq have a method
// SQLState. The errors of bun's pgdriver have a method Field, and Field('C') is the SQLSTATE.
func sqlStateOf(err error) (sqlState, bool) {
	var named interface {
		error
		SQLState() string
	}
	if errors.As(err, &named) {
		if code := named.SQLState(); len(code) == 5 {
			return sqlState{code, named}, true
		}
	}
	var lettered interface {
		error
		Field(byte) string
	}
	if errors.As(err, &lettered) {
		if code := lettered.Field('C'); len(code) == 5 {
			return sqlState{code, lettered}, true
		}
	}
	return sqlState{}, false
}

func (s sqlState) passes() bool {
	switch s.code {
	case "25006", "25P03", "40000", "40001", "40P01", "53300", "55P03",
		"57P01", "57P02", "57P03", "57P05":
		return true
	case "08007":
		return false
	case "0A000": // the code of all unsupported features, so the text decides
		const altered = "cached plan must not change result type"
		return s.standby() || strings.Contains(s.err.Error(), altered)
	default:
		return strings.HasPrefix(s.code, "08")
	}
}

// refused is false for codes that are not failures (classes 00 to 02). It is also false for
// lost connections, shutdowns, crashes, interruptions and full disks, because they may come
// after the commit was written. Class 70 contains MySQL's interruptions. ODBC and MySQL use
// class HY for all kinds of errors.
func (s sqlState) refused() bool {
	switch s.code[:2] {
	case "00", "01", "02", "08", "53", "57", "58", "70", "HY", "XX":
		return s.code == "57014"
	default:
		return s.code != "40003"
	}
}

// elsewhere is true for the answer of a server that has become a standby. A balancer or a proxy
// may keep connections to this server open.
func (s sqlState) elsewhere() bool { return s.code == readOnlyState || s.standby() }

// standby reports whether a standby refused the BEGIN READ WRITE of lib/pq.
func (s sqlState) standby() bool {
	const recovery = "cannot set transaction read-write mode during recovery"
	return s.code == "0A000" && strings.Contains(s.err.Error(), recovery)
}

// readOnlyState is the SQLSTATE read_only_sql_transaction. It does not say whether the whole
// server or only the transaction is read-only.
const readOnlyState = "25006"

// A mySQL is the answer of MySQL, MariaDB or TiDB. The error of go-sql-driver/mysql has no
// methods that return its fields, so mySQLOf reads them by reflection.
type mySQL struct {
	number uint16
	state  string
	text   string
}

func mySQLOf(err error) (mySQL, bool) {
	v := structOf(err, "MySQLError")
	number, numbered := field[uint16](v, "Number")
	state, stated := field[[5]byte](v, "SQLState")
	text, _ := field[string](v, "Message")
	return mySQL{number, string(state[:]), text}, numbered && stated
}

// structOf returns the struct that value is or points to. It returns the zero reflect.Value if
// the name of the struct's type is not typeName.
func structOf(value any, typeName string) reflect.Value {
	v := reflect.Indirect(reflect.ValueOf(value))
	if v.Kind() != reflect.Struct || v.Type().Name() != typeName {
		return reflect.Value{}
	}
	return v
}

// field returns the value of a field of v, which is a result of structOf. The second result is
// false if v has no field of this name, or if the field is not a T.
func field[T any](v reflect.Value, name string) (value T, ok bool) {
	if !v.IsValid() {
		return value, false
	}
	f := v.FieldByName(name)
	if !f.IsValid() || !f.CanInterface() {
		return value, false
	}
	value, ok = f.Interface().(T)
	return value, ok
}

// passes compares the number, because MySQL uses the same SQLSTATE for several errors. For
// example, 08S01 means a packet that is too large, and also a server shutdown.
func (e mySQL) passes() bool {
	return e.elsewhere() || slices.Contains(tiDBConflicts, e.number) ||
		slices.Contains(mySQLPasses, e.number)
}

var mySQLPasses = []uint16{
	1213, 1205, 3572, // deadlock, lock wait timeout, NOWAIT
	1020,       // record changed since last read
	1040, 1203, // too many connections to the server, or of one user
	1053, 1927, 3169, 4031, // server shutdown, connection killed, connection idle too long
	3101,                                     // group replication: rolled back at COMMIT
	9001, 9002, 9003, 9004, 9005, 9012, 9013, // TiDB: a part of the cluster is late or busy
}

// tiDBConflicts contains the errors with which TiDB says that it has rolled back the
// transaction. This holds for an answer to COMMIT too: if TiDB does not know the outcome, it
// closes the connection without an answer.
var tiDBConflicts = []uint16{8002, 8005, 8022, 8028, 9007}

// elsewhere is true for the answer of a server that has become read-only, and of a node that is
// cut off from its cluster (error 1047 of Galera, 8027 of TiDB).
func (e mySQL) elsewhere() bool {
	return e.readOnly() || slices.Contains([]uint16{1792, 1836, 1047, 8027}, e.number)
}

// readOnly reports whether the server is read-only. Error 1290 may also name another option,
// such as --secure-file-priv. The name of the option is not translated.
func (e mySQL) readOnly() bool { return e.number == 1290 && strings.Contains(e.text, "read-only") }

// refused is true for these errors:
//
//   - SQLSTATE class 40, which includes Galera's 1213 and group replication's 3101
//   - TiDB's conflicts
//   - a server that became read-only before the COMMIT, because it then rolls back
//
// MySQL checks no constraints at COMMIT. Any other error may come after the commit was written.
func (e mySQL) refused() bool {
	return e.state[:2] == "40" && e.state != "40003" ||
		e.readOnly() || slices.Contains(tiDBConflicts, e.number)
}

// mayRollBack reports whether the server may have rolled back the whole transaction, and not
// only the statement. After a lock wait timeout (error 1205), the server rolls back the
// transaction only if innodb_rollback_on_timeout is on.
func (e mySQL) mayRollBack() bool {
	return slices.Contains([]uint16{1213, 1205, 1206, 1020}, e.number) ||
		slices.Contains(tiDBConflicts, e.number)
}

// An sqliteCode is a result code of SQLite, extended or not.
type sqliteCode int

// sqliteOf reads the errors of modernc.org/sqlite and mattn/go-sqlite3. Both drivers roll back
// after a failed COMMIT. sqliteOf ignores the errors of other drivers, because a driver that
// does not roll back would return a connection with an open transaction to the pool.
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

func (c sqliteCode) passes() bool    { return c&0xff == sqliteBusy }
func (c sqliteCode) refused() bool   { return c&0xff == sqliteBusy || c&0xff == sqliteConstraint }
func (c sqliteCode) elsewhere() bool { return false }

// A rolledBackAnswer says that PostgreSQL answered COMMIT with ROLLBACK. PostgreSQL does so if
// the function went on after a failed statement. The errors of pgx and lib/pq for this answer
// have no type of their own, so only their texts identify them.
type rolledBackAnswer struct{}

const (
	pgxRollback = "commit unexpectedly resulted in rollback"
	pqRollback  = "pq: could not complete operation in a failed transaction"
)

func (rolledBackAnswer) passes() bool    { return true }
func (rolledBackAnswer) refused() bool   { return true }
func (rolledBackAnswer) elsewhere() bool { return false }
