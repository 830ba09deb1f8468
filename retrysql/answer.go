package retrysql

import (
	"errors"
	"iter"
	"reflect"
	"slices"
	"strings"
	"syscall"
)

// An answer is what the server itself said in an error, as far as the error's
// driver lets it be read.
type answer interface {
	passes() bool    // another attempt may succeed
	refused() bool   // a COMMIT that was answered so has certainly applied nothing
	elsewhere() bool // passes is true for another connection, which may lead to another server
}

// answerOf returns the answer in err's tree, nil if it has none. An SQLSTATE
// goes before the numbers of MySQL and SQLite, and then the first decides.
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

// tree yields err and what it wraps, in the order of errors.As.
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
	err  error // that has it
}

// sqlStateOf asks for the methods that drivers have: pgx and lib/pq the first,
// bun's pgdriver the second, by the field's letter in PostgreSQL's protocol.
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
	case "25006", "25P03", "40000", "40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03", "57P05":
		return true
	case "08007":
		return false
	case "0A000": // any feature that is not supported
		return s.standby() || strings.Contains(s.err.Error(), "cached plan must not change result type")
	default:
		return strings.HasPrefix(s.code, "08")
	}
}

// refused is false for a code that is not a failure (00 to 02), and where the
// server shuts down, crashes, is interrupted or runs out of space, which may
// come after the commit was written. HY is what ODBC and MySQL say for anything,
// and 70 is MySQL's class of interruptions.
func (s sqlState) refused() bool {
	switch s.code[:2] {
	case "00", "01", "02", "08", "53", "57", "58", "70", "HY", "XX":
		return s.code == "57014"
	default:
		return s.code != "40003"
	}
}

// elsewhere is true for a server that has become a standby. Its connections may
// stay open, because a balancer or a proxy holds them.
func (s sqlState) elsewhere() bool { return s.code == readOnlyState || s.standby() }

// standby is how a standby answers the BEGIN READ WRITE of lib/pq.
func (s sqlState) standby() bool {
	return s.code == "0A000" && strings.Contains(s.err.Error(), "cannot set transaction read-write mode during recovery")
}

// readOnlyState is read_only_sql_transaction. PostgreSQL does not say whether the
// server or the transaction itself is read-only.
const readOnlyState = "25006"

// A mySQL is the answer of MySQL, MariaDB or TiDB, as go-sql-driver/mysql reports
// it: in a struct without methods to ask for it.
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

// structOf returns the struct that value is or points to, if its type has this
// name, and else the zero Value.
func structOf(value any, name string) reflect.Value {
	v := reflect.Indirect(reflect.ValueOf(value))
	if v.Kind() != reflect.Struct || v.Type().Name() != name {
		return reflect.Value{}
	}
	return v
}

// field returns a field of structOf's result, if it is there and a T.
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

// passes goes by the number, since MySQL has one SQLSTATE for a packet that is
// too large and for a server that shuts down (08S01), and one for a lock wait
// and for anything else (HY000).
func (e mySQL) passes() bool {
	return e.elsewhere() || slices.Contains(tiDBConflicts, e.number) || slices.Contains([]uint16{
		1213, 1205, 3572, 1020, // deadlock, lock wait timeout, NOWAIT, record changed since last read
		1040, 1203, // too many connections, of the server and of one user
		1053, 1927, 3169, 4031, // server shutdown, connections that were killed or idle too long
		3101,                                     // group replication: rolled back at COMMIT
		9001, 9002, 9003, 9004, 9005, 9012, 9013, // TiDB: a part of the cluster is late, busy or moving
	}, e.number)
}

// tiDBConflicts are the errors of TiDB after which a transaction has been rolled
// back, at COMMIT too. Where TiDB does not know the outcome, it closes the
// connection without an answer.
var tiDBConflicts = []uint16{8002, 8005, 8022, 8028, 9007}

// elsewhere is true for a server that has become read-only, or a node of a cluster
// that is cut off from the others: Galera's 1047, TiDB's 8027.
func (e mySQL) elsewhere() bool {
	return e.readOnly() || slices.Contains([]uint16{1792, 1836, 1047, 8027}, e.number)
}

// readOnly leaves out the other options for which a server says 1290, such as
// --secure-file-priv. The server may say the rest of the text in its own language.
func (e mySQL) readOnly() bool { return e.number == 1290 && strings.Contains(e.text, "read-only") }

// refused is true for class 40, which Galera's 1213 and group replication's 3101
// have, for TiDB's conflicts, and for a server that became read-only before the
// COMMIT: it rolls back. MySQL has no constraints that wait for COMMIT, and what else it reports
// there may come after the commit was written.
func (e mySQL) refused() bool {
	return e.state[:2] == "40" && e.state != "40003" ||
		e.readOnly() || slices.Contains(tiDBConflicts, e.number)
}

// mayRollBack reports whether the server may have rolled back the transaction and
// not the statement alone, as it does for 1205 with innodb_rollback_on_timeout.
func (e mySQL) mayRollBack() bool {
	return slices.Contains([]uint16{1213, 1205, 1206, 1020}, e.number) ||
		slices.Contains(tiDBConflicts, e.number)
}

// An sqliteCode is a result code of SQLite, extended or not.
type sqliteCode int

// sqliteOf knows the errors of modernc.org/sqlite and of mattn/go-sqlite3. Both
// roll back where COMMIT fails. A driver that does not would give a connection
// with an open transaction back to the pool, so others are not guessed at.
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

// A rolledBackAnswer is a COMMIT that PostgreSQL answered with ROLLBACK, since
// the function went on after a statement that failed. pgx and lib/pq have no
// type for it but a text each.
type rolledBackAnswer struct{}

const (
	pgxRollback = "commit unexpectedly resulted in rollback"
	pqRollback  = "pq: could not complete operation in a failed transaction"
)

func (rolledBackAnswer) passes() bool    { return true }
func (rolledBackAnswer) refused() bool   { return true }
func (rolledBackAnswer) elsewhere() bool { return false }
