package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/jobtest/servers"
)

// A server is the database of a test. No other test uses its tables.
type server struct {
	dialect dialect
	url     string // the URL of PostgreSQL; "": SQLite
	place   string // the schema of PostgreSQL, or the file of SQLite
}

// The method `connect` opens the database again, as another process would.
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

// onEach runs a test on SQLite and on PostgreSQL. All times are from the database's clock.
func onEach(t *testing.T, test func(*testing.T, server)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, server{dialect: sqliteDialect, place: filepath.Join(t.TempDir(), "jobs.db")})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, postgresServer(t))
	})
}

// postgresServer returns PostgreSQL with a new schema.
func postgresServer(t *testing.T) server {
	t.Helper()
	s := server{url: postgresURL(t)}
	db, dialect, remove, err := openTemporary(t.Context(), s.url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, remove()) })
	s.dialect = dialect
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&s.place))
	return s
}

func postgresURL(t *testing.T) string { return servers.Shared(t, "RETRY_TEST_POSTGRES") }

// A bench is a queue in a synctest bubble. The database of the queue uses the clock of the bubble.
type bench struct {
	*testing.T
	server
	db     *sql.DB
	queue  *Queue
	start  time.Time
	around around // called in place of each statement
}

// inBubble runs a test on each database in a synctest bubble. The database's clock is the clock of
// the bubble, which moves only when all goroutines sleep.
func inBubble(t *testing.T, policy retry.Policy, test func(*bench)) {
	onEach(t, func(t *testing.T, s server) {
		s.dialect.now, s.dialect.tick = "bubble_clock()", 0
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(123_457 * time.Microsecond) // so that times have digits down to the microsecond
			b := &bench{T: t, server: s, start: time.Now(), around: untouched}
			b.db = through(t, s.open(t), func(ctx context.Context, query string, do func(string) error) error {
				return b.around(ctx, strings.ReplaceAll(query, s.dialect.now, fmt.Sprint(time.Now().UnixMicro())), do)
			})
			b.queue = b.queueFor(policy)
			require.NoError(t, b.queue.Create(t.Context()))
			test(b)
		})
	})
}

// An around is a function that is called in place of each statement. It calls `do` to execute the
// statement.
type around func(ctx context.Context, query string, do func(query string) error) error

func untouched(_ context.Context, query string, do func(string) error) error { return do(query) }

// The function `through` returns a database like db, which calls f in place of each statement.
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

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return surround(ctx, c, query, args, c.Conn.(driver.ExecerContext).ExecContext)
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := surround(ctx, c, query, args, c.Conn.(driver.QueryerContext).QueryContext)
	if err != nil && rows != nil {
		err = errors.Join(err, rows.Close())
	}
	return rows, err
}

func surround[T any](ctx context.Context, c *conn, query string, args []driver.NamedValue,
	execute func(context.Context, string, []driver.NamedValue) (T, error)) (result T, err error) {
	err = c.around(ctx, query, func(query string) (err error) {
		result, err = execute(ctx, query, args)
		return err
	})
	return result, err
}

// queueFor returns another queue on the same table.
func (b *bench) queueFor(policy retry.Policy) *Queue {
	q, err := NewQueue(b.db, b.dialect, policy)
	require.NoError(b, err)
	return q
}

func (b *bench) exec(query string, args ...any) {
	b.Helper()
	_, err := b.db.ExecContext(b.Context(), query, args...)
	require.NoError(b, err)
}

func (b *bench) enqueue(id, payload string, maxAttempts int) {
	b.Helper()
	require.NoError(b, b.queue.Enqueue(b.Context(), id, payload, maxAttempts, 0))
}

// The method `claim` claims the next job. It returns nil if no job is due.
func (b *bench) claim() *Job {
	b.Helper()
	job, err := b.queue.Claim(b.Context(), time.Minute)
	require.NoError(b, err)
	return job
}

// The method `worker` returns a worker for the queue of b. A test may change its fields.
func (b *bench) worker(run func(context.Context, *Job) error) *Worker {
	return &Worker{Queue: b.queue, Run: run, Lease: time.Minute, Poll: time.Hour}
}

// workOff runs all runnable jobs of q with a worker.
func (b *bench) workOff(q *Queue, run func(context.Context, *Job) error) {
	b.Helper()
	w := b.worker(run)
	w.Queue = q
	require.ErrorIs(b, w.workOff(b.Context()), errIdle)
}

// A row is the row of a job in the table.
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
	var letter []byte
	require.NoError(b, b.db.QueryRowContext(b.Context(), `
		SELECT status, attempts, run_at, lease_until, ended_at, COALESCE(last_error, ''), COALESCE(dead_letter, '{}')
		FROM jobs WHERE id = $1`, id).
		Scan(&r.Status, &r.Attempts, &r.RunAt, &r.LeaseUntil, &r.EndedAt, &r.LastError, &letter))
	require.NoError(b, json.Unmarshal(letter, &struct{ Reason *string }{&r.Reason}))
	return r
}

// The constant `never` is the number that the tests use for a time that is NULL.
const never = math.MinInt64

// The method `at` returns the time that is d after the start of b, as a value of the database.
func (b *bench) at(d time.Duration) sql.NullInt64 {
	if d == never {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: b.start.Add(d).UnixMicro(), Valid: true}
}
