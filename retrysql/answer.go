package retrysql

import (
	"errors"
	"iter"
	"reflect"
	"slices"
	"strings"
	"syscall"
)

// An answer is the answer of a database server in an error of a driver.
type answer interface {
	passes() bool    // another attempt may succeed
	refused() bool   // if this is the answer to COMMIT, nothing was applied
	elsewhere() bool // another attempt needs another connection, perhaps to another server
}

// answerOf returns the answer in err's tree, or nil if the tree contains no answer. An
// SQLSTATE goes before the numbers of MySQL and SQLite. Otherwise the first answer decides.
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

// An sqlState is the answer of a server whose driver has SQLSTATEs.
type sqlState struct {
	code string
	err  error // the error that contains code
}

// sqlStateOf calls the methods of drivers. pgx and lib/pq have the method SQLState. bun's
// pgdriver has the method Field, which takes the letter of a field in PostgreSQL's protocol.
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
	case "0A000": // the code of every feature that is not supported
		const altered = "cached plan must not change result type"
		return s.standby() || strings.Contains(s.err.Error(), altered)
	default:
		return strings.HasPrefix(s.code, "08")
	}
}

// refused is false for a code that is not a failure (00 to 02). It is also false if the server
// shuts down, crashes, is interrupted or runs out of space, because this may happen after the
// commit was written. ODBC and MySQL use the class HY for all kinds of errors. 70 is MySQL's
// class of interruptions.
func (s sqlState) refused() bool {
	switch s.code[:2] {
	case "00", "01", "02", "08", "53", "57", "58", "70", "HY", "XX":
		return s.code == "57014"
	default:
		return s.code != "40003"
	}
}

// elsewhere is true for a server that has become a standby. Its connections may stay open,
// because a balancer or a proxy keeps them open.
func (s sqlState) elsewhere() bool { return s.code == readOnlyState || s.standby() }

// standby reports whether this is the answer of a standby to the BEGIN READ WRITE of lib/pq.
func (s sqlState) standby() bool {
	const recovery = "cannot set transaction read-write mode during recovery"
	return s.code == "0A000" && strings.Contains(s.err.Error(), recovery)
}

// readOnlyState is read_only_sql_transaction. PostgreSQL does not say whether the
// server or the transaction itself is read-only.
const readOnlyState = "25006"

// A mySQL is the answer of MySQL, MariaDB or TiDB. go-sql-driver/mysql returns it in a struct
// without methods for its fields.
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

// structOf returns the struct that value is or points to. If its type does not have this name,
// structOf returns the zero reflect.Value.
func structOf(value any, name string) reflect.Value {
	v := reflect.Indirect(reflect.ValueOf(value))
	if v.Kind() != reflect.Struct || v.Type().Name() != name {
		return reflect.Value{}
	}
	return v
}

// field returns a field of a result of structOf. ok is false if the struct has no such field or
// if the field is not a T.
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

// passes uses the number, because SQLSTATEs of MySQL are ambiguous: 08S01 is a packet that is
// too large and a server that shuts down, and HY000 is a lock wait and many other errors.
func (e mySQL) passes() bool {
	return e.elsewhere() || slices.Contains(tiDBConflicts, e.number) ||
		slices.Contains(mySQLPasses, e.number)
}

var mySQLPasses = []uint16{
	1213, 1205, 3572, // deadlock, lock wait timeout, NOWAIT
	1020,       // record changed since last read
	1040, 1203, // too many connections of the server, of one user
	1053, 1927, 3169, 4031, // server shutdown, connections that were killed or idle too long
	3101,                                     // group replication: rolled back at COMMIT
	9001, 9002, 9003, 9004, 9005, 9012, 9013, // TiDB: a part of the cluster is late or busy
}

// tiDBConflicts are the errors of TiDB that say that the transaction has been rolled back, also
// as an answer to COMMIT. If TiDB does not know the outcome, it closes the connection without
// an answer.
var tiDBConflicts = []uint16{8002, 8005, 8022, 8028, 9007}

// elsewhere is true for a server that has become read-only, and for a node that is cut off from
// its cluster: Galera's 1047, TiDB's 8027.
func (e mySQL) elsewhere() bool {
	return e.readOnly() || slices.Contains([]uint16{1792, 1836, 1047, 8027}, e.number)
}

// readOnly is false for the other options that the error 1290 is used for, such as
// --secure-file-priv. The name of the option is the same in all languages of the server.
func (e mySQL) readOnly() bool { return e.number == 1290 && strings.Contains(e.text, "read-only") }

// refused is true for class 40, which includes Galera's 1213 and group replication's 3101, for
// TiDB's conflicts, and for a server that became read-only before the COMMIT, because it rolls
// back. MySQL checks no constraints at COMMIT. Any other error may come after the commit was
// written.
func (e mySQL) refused() bool {
	return e.state[:2] == "40" && e.state != "40003" ||
		e.readOnly() || slices.Contains(tiDBConflicts, e.number)
}

// mayRollBack reports whether the server may have rolled back the whole transaction, and not
// only the statement. After error 1205, a lock wait timeout, the server does so only under
// innodb_rollback_on_timeout.
func (e mySQL) mayRollBack() bool {
	return slices.Contains([]uint16{1213, 1205, 1206, 1020}, e.number) ||
		slices.Contains(tiDBConflicts, e.number)
}

// An sqliteCode is a result code of SQLite, extended or not.
type sqliteCode int

// sqliteOf knows the errors of modernc.org/sqlite and of mattn/go-sqlite3. Both drivers roll
// back after a failed COMMIT. It reads no other driver, because a driver that does not roll
// back would return a connection with an open transaction to the pool.
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

// A rolledBackAnswer is the answer ROLLBACK of PostgreSQL to a COMMIT. PostgreSQL gives it if
// the function went on after a failed statement. pgx and lib/pq have no type for it, only a
// text.
type rolledBackAnswer struct{}

const (
	pgxRollback = "commit unexpectedly resulted in rollback"
	pqRollback  = "pq: could not complete operation in a failed transaction"
)

func (rolledBackAnswer) passes() bool    { return true }
func (rolledBackAnswer) refused() bool   { return true }
func (rolledBackAnswer) elsewhere() bool { return false }
