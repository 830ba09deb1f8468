package retrysql

import (
	"errors"
	"strings"
)

// An sqlState contains the SQLSTATE with which PostgreSQL, or another server whose driver reports
// SQLSTATEs, answered.
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

// refused reports whether this answer to COMMIT means that nothing was applied. It returns false
// for codes that are not failures (classes 00 to 02). It also returns false for lost connections,
// shutdowns, crashes, interruptions and full disks, because they may come after the commit was
// written. The answer may come from a server other than PostgreSQL. So `refused` returns false for
// class 70, which contains MySQL's interruptions, and for class HY, which ODBC and MySQL use for
// all kinds of errors.
func (s sqlState) refused() bool {
	switch s.code[:2] {
	case "00", "01", "02", "08", "53", "57", "58", "70", "HY", "XX":
		return s.code == "57014"
	default:
		return s.code != "40003"
	}
}

// elsewhere reports whether another attempt needs another connection. It returns true if the server
// has become a standby. A balancer or a proxy may keep connections to this server open, so the same
// connection would always lead to the standby.
func (s sqlState) elsewhere() bool { return s.code == readOnlyState || s.standby() }

// The method `standby` reports whether the server is a standby that refused BEGIN READ WRITE, which
// lib/pq sends.
func (s sqlState) standby() bool {
	const recovery = "cannot set transaction read-write mode during recovery"
	return s.code == "0A000" && strings.Contains(s.err.Error(), recovery)
}

// readOnlyState is the SQLSTATE read_only_sql_transaction. It does not say whether the whole
// server or only the transaction is read-only.
const readOnlyState = "25006"

// A rolledBackAnswer says that PostgreSQL answered COMMIT with ROLLBACK. PostgreSQL does so if
// the function went on after a failed statement. The errors of pgx and lib/pq for this answer
// have no type of their own, so only their texts identify them.
type rolledBackAnswer struct{}

const (
	pgxRollback = "commit unexpectedly resulted in rollback"
	pqRollback  = "pq: could not complete operation in a failed transaction"
)

func (rolledBackAnswer) passes() bool { return true }

func (rolledBackAnswer) refused() bool { return true }

func (rolledBackAnswer) elsewhere() bool { return false }

// wrongServer contains the errors that pgx and lib/pq return if a server does not match
// target_session_attrs. During a failover, there may be no server that matches.
var wrongServer = []string{
	// pgx
	"read only connection", "server is in standby mode", "server is not in hot standby mode",
	// lib/pq
	"session is read-only", "server is in hot standby mode",
}
