package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"

	"github.com/goretry/retry/retrysql"
)

// A dialect holds the differences between the databases.
type dialect struct {
	now  string        // the database's clock in microseconds since 1970, which does not move within a statement
	tick time.Duration // of that clock
	lock string        // prevents two claims of one row; SQLite has only one writer at a time
}

var (
	sqliteDialect   = dialect{now: "CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000", tick: time.Millisecond}
	postgresDialect = dialect{now: "CAST(extract(epoch FROM now()) * 1000000 AS BIGINT)", tick: time.Microsecond, lock: "FOR UPDATE SKIP LOCKED"}
)

// openSQLite opens a file that other processes may have open too. SQLite waits for
// their locks only briefly, because it ignores the context while it waits, and a
// lease may end meanwhile. For longer waits the statement is retried.
func openSQLite(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(100)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // two writers of one process would only wait for each other
	return db, nil
}

// openPostgres opens url, in that schema if it is not empty.
func openPostgres(url, schema string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if schema != "" {
		config.RuntimeParams["search_path"] = schema
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxIdleConns(16) // with two, the default, more workers would connect all the time
	return db, nil
}

// openTemporary opens PostgreSQL at url in a temporary schema, or SQLite in a
// temporary file. close removes the schema or the file.
func openTemporary(ctx context.Context, url string) (db *sql.DB, d dialect, close func() error, err error) {
	if url == "" {
		dir, err := os.MkdirTemp("", "retry-jobqueue-")
		if err != nil {
			return nil, d, nil, err
		}
		db, err := openSQLite(filepath.Join(dir, "jobs.db"))
		if err != nil {
			return nil, d, nil, errors.Join(err, os.RemoveAll(dir))
		}
		return db, sqliteDialect, func() error { return errors.Join(db.Close(), os.RemoveAll(dir)) }, nil
	}

	schema := "jobqueue_" + strings.ToLower(rand.Text())
	if db, err = openPostgres(url, schema); err != nil {
		return nil, d, nil, err
	}
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA "+schema); err != nil {
		return nil, d, nil, errors.Join(err, db.Close())
	}
	return db, postgresDialect, func() error {
		// Not the context of the program, which may have been interrupted.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := db.ExecContext(ctx, "DROP SCHEMA "+schema+" CASCADE")
		return errors.Join(err, db.Close())
	}, nil
}

// transient reports whether a failure of the database may pass: what retrysql knows,
// and statements that took too long, because here their deadline is always the
// worker's own.
func transient(err error) bool {
	return retrysql.Transient(err) || errors.Is(err, context.DeadlineExceeded) || busy(err)
}

// busy reports whether SQLite's file is locked, so that nothing was done.
func busy(err error) bool {
	const code = 5 // SQLITE_BUSY, with its extended codes
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == code
}

// text returns an error as text that can be stored in a column: PostgreSQL refuses
// a NUL and text that is not UTF-8, and a job whose error cannot be stored would
// never end.
func text(err error) string {
	return strings.ToValidUTF8(strings.ReplaceAll(fmt.Sprint(err), "\x00", "\uFFFD"), "\uFFFD")
}
