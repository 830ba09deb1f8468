package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"

	"github.com/goretry/retry/retrysql"
)

// A dialect contains what differs between SQLite and PostgreSQL.
type dialect struct {
	// The field `now` is an SQL expression for the present time of the database's clock, in
	// microseconds since
	// 1970. The time does not change within a statement.
	now string

	tick time.Duration // the resolution of the database's clock
	lock string        // an SQL clause that keeps two workers from claiming one row; SQLite needs none
}

var (
	sqliteDialect = dialect{
		now:  "CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000",
		tick: time.Millisecond,
	}
	postgresDialect = dialect{
		now:  "CAST(extract(epoch FROM now()) * 1000000 AS BIGINT)",
		tick: time.Microsecond,
		lock: "FOR UPDATE SKIP LOCKED",
	}
)

// openSQLite opens a file that other processes may also use. SQLite ignores the context while it
// waits for the lock of another process, and a lease may end during this wait. So SQLite waits for
// at most 100 ms, and the program retries the statement.
func openSQLite(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(100)"+
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // two writers in one process would wait for each other
	return db, nil
}

// openPostgres opens the database at this URL. All tables are in the schema with the name `schema`.
// If this name is "", the tables are in the default schema.
func openPostgres(url, schema string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if schema != "" {
		config.RuntimeParams["search_path"] = schema
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxIdleConns(16) // with the default of 2, three workers would reconnect all the time
	return db, nil
}

// openTemporary opens PostgreSQL at this URL with a temporary schema. If the URL is empty, it opens
// SQLite with a temporary file. The returned function `close` removes the schema or the file.
func openTemporary(
	ctx context.Context, url string,
) (db *sql.DB, d dialect, close func() error, err error) {
	if url == "" {
		dir, err := os.MkdirTemp("", "retry-jobqueue-")
		if err != nil {
			return nil, d, nil, err
		}
		db, err := openSQLite(filepath.Join(dir, "jobs.db"))
		if err != nil {
			return nil, d, nil, errors.Join(err, os.RemoveAll(dir))
		}
		close := func() error { return errors.Join(db.Close(), os.RemoveAll(dir)) }
		return db, sqliteDialect, close, nil
	}

	schema := "jobqueue_" + strings.ToLower(rand.Text())
	if db, err = openPostgres(url, schema); err != nil {
		return nil, d, nil, err
	}
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA "+schema); err != nil {
		return nil, d, nil, errors.Join(err, db.Close())
	}
	return db, postgresDialect, func() error {
		// The context of the program may be canceled, so this statement gets another context.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := db.ExecContext(ctx, "DROP SCHEMA "+schema+" CASCADE")
		return errors.Join(err, db.Close())
	}, nil
}

// The function `transient` reports whether the next attempt may succeed after an error of the
// database. It returns true for the errors that retrysql.Transient accepts, for a locked file of
// SQLite, and for a deadline that has passed. Deadlines are transient because the worker gives each
// SQL statement a deadline of its own.
func transient(err error) bool {
	return retrysql.Transient(err) || errors.Is(err, context.DeadlineExceeded) || busy(err)
}

// The function `busy` reports whether err says that the file of SQLite was locked. In this case the
// statement had no effect.
func busy(err error) bool {
	const code = 5 // SQLITE_BUSY; extended codes contain it in the low byte
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == code
}
