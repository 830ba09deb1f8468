package retrysql

import (
	"slices"
	"strings"
)

// A mySQL contains the error number, the SQLSTATE and the text with which MySQL, MariaDB or TiDB
// answered. The error of go-sql-driver/mysql has no methods that return its fields, so mySQLOf
// reads the fields by reflection.
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

// passes reports whether the error is temporary, so that a retry may succeed. It looks at the
// number of the error, because MySQL uses the same SQLSTATE for several errors. For example, 08S01
// means a packet that is too large, and also a server shutdown.
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

// tiDBConflicts contains the errors with which TiDB says that it has rolled back the transaction.
// As an answer to COMMIT, these errors mean the same: if TiDB does not know the outcome of the
// COMMIT, it closes the connection without an answer.
var tiDBConflicts = []uint16{8002, 8005, 8022, 8028, 9007}

// elsewhere reports whether another attempt needs another connection. It returns true if the server
// has become read-only, or if it is a node that is cut off from its cluster (error 1047 of Galera,
// 8027 of TiDB).
func (e mySQL) elsewhere() bool {
	return e.readOnly() || slices.Contains([]uint16{1792, 1836, 1047, 8027}, e.number)
}

// readOnly reports whether the server is read-only. Error 1290 names the option that forbids the
// statement. It is --read-only, or another option such as --secure-file-priv. Servers may translate
// the text of the error, but not the name of the option.
func (e mySQL) readOnly() bool { return e.number == 1290 && strings.Contains(e.text, "read-only") }

// refused reports whether this answer to COMMIT means that nothing was applied. It returns true for
// these errors:
//
//   - errors of SQLSTATE class 40 (except 40003), such as Galera's 1213 and group replication's
//     3101
//   - the errors in tiDBConflicts
//   - the error of a server that became read-only before the COMMIT, because this server rolls back
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

// mySQLInvalidConn is the text of mysql.ErrInvalidConn. The error has no type of its own, so
// only its text identifies it.
const mySQLInvalidConn = "invalid connection"
