package retrysql

import "github.com/goretry/retry/retrynet"

// An answer contains what the database server answered to a statement or a COMMIT, for example an
// SQLSTATE or an error number. It is read from the error of a driver.
type answer interface {
	passes() bool    // reports whether another attempt may succeed
	refused() bool   // for an answer to COMMIT: reports whether nothing was applied
	elsewhere() bool // reports whether another attempt needs another connection
}

// answerOf returns the answer of the database server that err's tree contains, or nil if the tree
// contains no answer. It prefers an SQLSTATE to the numbers of MySQL and SQLite. Otherwise it takes
// the first answer.
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

func elsewhere(err error) bool {
	a := answerOf(err)
	return a != nil && a.elsewhere()
}

// refused reports whether the server's answer to COMMIT proves that nothing was applied.
//
// An error which says that nothing was sent is no proof, because drivers return such errors even
// after they have sent COMMIT. If the connection breaks before the answer, SafeToRetry of pgx 5.12
// returns true, and other drivers return driver.ErrBadConn.
//
// If err contains an answer of the server and also an error that says that the connection was lost,
// `refused` returns false. The answer may belong to another statement, such as a rollback whose
// error transact has joined with the error of COMMIT.
func refused(err error) bool {
	a := answerOf(err)
	return a != nil && a.refused() && !lost(err) && !retrynet.Transient(err)
}
