package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// A server is where a test keeps its tables, which no other test sees.
type server struct {
	dialect dialect
	url     string // of PostgreSQL, else empty
	place   string // the schema, or SQLite's file
}

// connect opens the database once more, as another process would.
func (s server) connect() (*sql.DB, error) {
	if s.url == "" {
		return openSQLite(s.place)
	}
	return openPostgres(s.url, s.place)
}

func (s server) open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := s.connect()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// onEach runs a test on SQLite and on PostgreSQL, with the databases' clocks.
func onEach(t *testing.T, test func(*testing.T, server)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, server{dialect: sqliteDialect, place: filepath.Join(t.TempDir(), "jobs.db")})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := postgresURL(t)
		test(t, server{dialect: postgresDialect, url: url, place: newSchema(t, url)})
	})
}

func newSchema(t *testing.T, url string) string {
	t.Helper()
	schema := "jobqueue_test_" + strings.ToLower(rand.Text())
	db, err := openPostgres(url, "")
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "CREATE SCHEMA "+schema)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := db.ExecContext(context.Background(), "DROP SCHEMA "+schema+" CASCADE")
		require.NoError(t, err)
		require.NoError(t, db.Close())
	})
	return schema
}

// postgresURL returns the URL of the PostgreSQL to test with: that of a variable, or
// the one that .ci/services provides. If a variable is set, or in CI, it must answer.
func postgresURL(t *testing.T) string {
	t.Helper()
	url, must := cmp.Or(os.Getenv("DATABASE_URL"), os.Getenv("RETRY_TEST_POSTGRES")), true
	if url == "" {
		url, must = "postgres://retry_test:retry_test@127.0.0.1:5432/retry_test?sslmode=disable", os.Getenv("CI") == "true"
	}
	db, err := openPostgres(url, "")
	require.NoError(t, err)
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := db.PingContext(ctx); err != nil && !must {
		t.Skip("no database answers: ", err)
	} else {
		require.NoError(t, err)
	}
	return url
}

// A bench is a queue whose database has a clock that only the test moves.
type bench struct {
	*testing.T
	server
	db     *sql.DB
	queue  *Queue
	around around // set by inBubble: what statements pass through
}

// noon is where the clock of a bench starts, with digits down to the
// microsecond.
const noon = 1_800_000_000_123_457

func newBench(t *testing.T, s server, policy retry.Policy) *bench {
	t.Helper()
	s.dialect.now, s.dialect.tick = "(SELECT us FROM clock)", 0
	b := &bench{T: t, server: s, db: s.open(t)}
	b.exec("CREATE TABLE IF NOT EXISTS clock (us BIGINT NOT NULL)")
	b.exec("INSERT INTO clock VALUES ($1)", noon)
	b.queue = b.queueFor(policy)
	require.NoError(t, b.queue.Create(t.Context()))
	return b
}

// inBubble runs a test on each database in the fake time of testing/synctest,
// which is also the database's time: it moves when all goroutines sleep.
func inBubble(t *testing.T, policy retry.Policy, test func(*bench)) {
	onEach(t, func(t *testing.T, s server) {
		s.dialect.now, s.dialect.tick = "bubble_clock()", 0
		synctest.Test(t, func(t *testing.T) {
			b := &bench{T: t, server: s, around: func(_ context.Context, query string, do func(string) error) error { return do(query) }}
			b.db = through(t, s.open(t), func(ctx context.Context, query string, do func(string) error) error {
				return b.around(ctx, strings.ReplaceAll(query, s.dialect.now, fmt.Sprint(time.Now().UnixMicro())), do)
			})
			b.queue = b.queueFor(policy)
			require.NoError(t, b.queue.Create(t.Context()))
			test(b)
		})
	})
}

// An around is called in place of each statement, and executes it with do.
type around func(ctx context.Context, query string, do func(query string) error) error

// through returns db with its statements passing through f.
func through(t *testing.T, db *sql.DB, f around) *sql.DB {
	t.Helper()
	outer := sql.OpenDB(connector{db, f})
	outer.SetMaxOpenConns(db.Stats().MaxOpenConnections)
	outer.SetMaxIdleConns(16)
	t.Cleanup(func() { require.NoError(t, outer.Close()) })
	return outer
}

type connector struct {
	db *sql.DB
	around
}

func (c connector) Driver() driver.Driver { return c.db.Driver() }
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	pooled, err := c.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	outer := &conn{pooled: pooled, around: c.around}
	return outer, pooled.Raw(func(inner any) error {
		outer.Conn = inner.(driver.Conn)
		return nil
	})
}

type conn struct {
	driver.Conn
	pooled *sql.Conn
	around
}

func (c *conn) Close() error { return c.pooled.Close() }

func (c *conn) ResetSession(ctx context.Context) error {
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	var result driver.Result
	err := c.around(ctx, query, func(query string) (err error) {
		result, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
		return err
	})
	return result, err
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	var rows driver.Rows
	err := c.around(ctx, query, func(query string) (err error) {
		rows, err = c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
		return err
	})
	if err != nil && rows != nil {
		err = errors.Join(err, rows.Close())
	}
	return rows, err
}

// queueFor returns another queue on the same table.
func (b *bench) queueFor(policy retry.Policy) *Queue {
	b.Helper()
	q, err := NewQueue(b.db, b.dialect, policy)
	require.NoError(b, err)
	return q
}

func (b *bench) exec(query string, args ...any) {
	b.Helper()
	_, err := b.db.ExecContext(b.Context(), query, args...)
	require.NoError(b, err)
}

func (b *bench) number(query string, args ...any) (n int64) {
	b.Helper()
	require.NoError(b, b.db.QueryRowContext(b.Context(), query, args...).Scan(&n))
	return n
}

func (b *bench) setClock(us int64) { b.Helper(); b.exec("UPDATE clock SET us = $1", us) }
func (b *bench) pass(d time.Duration) {
	b.Helper()
	b.exec("UPDATE clock SET us = us + $1", d.Microseconds())
}
func (b *bench) enqueue(id, payload string, maxAttempts int) {
	b.Helper()
	require.NoError(b, b.queue.Enqueue(b.Context(), id, payload, maxAttempts, 0))
}

// claim claims the next job and returns it, or nil if there is none.
func (b *bench) claim() *Job {
	b.Helper()
	job, err := b.queue.Claim(b.Context(), time.Minute)
	require.NoError(b, err)
	if job != nil {
		require.Equal(b, "RUNNING", b.row(job.ID).Status)
	}
	return job
}

// workOff lets a worker run all runnable jobs.
func (b *bench) workOff(q *Queue, run func(context.Context, *Job) error) {
	b.Helper()
	w := Worker{Queue: q, Run: run, Lease: time.Minute, Poll: time.Hour}
	require.ErrorIs(b, w.workOff(b.Context()), errIdle)
}

// A row is what the table holds about a job.
type row struct {
	Status     string
	Attempts   int
	RunAt      sql.NullInt64
	LeaseUntil sql.NullInt64
	EndedAt    sql.NullInt64
	LastError  string
	Reason     string
}

func (b *bench) row(id string) (r row) {
	b.Helper()
	require.NoError(b, b.db.QueryRowContext(b.Context(), `
		SELECT status, attempts, run_at, lease_until, ended_at, COALESCE(last_error, ''), COALESCE(reason, '')
		FROM jobs WHERE id = $1`, id).
		Scan(&r.Status, &r.Attempts, &r.RunAt, &r.LeaseUntil, &r.EndedAt, &r.LastError, &r.Reason))
	return r
}

func at(us int64) sql.NullInt64 { return sql.NullInt64{Int64: us, Valid: true} }
