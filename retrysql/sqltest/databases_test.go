package sqltest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/goretry/retry"
)

// dsn returns the value of the variable, or the address of the database that
// .ci/services starts. The second result is true if a database that does not
// answer is a failure of the test.
func dsn(variable, local string) (string, bool) {
	if dsn := os.Getenv(variable); dsn != "" {
		return dsn, true
	}
	return local, os.Getenv("CI") == "true"
}

func postgresConfig(t *testing.T) *pgx.ConnConfig {
	dsn, _ := dsn("RETRY_TEST_POSTGRES", "postgres://retry_test:retry_test@127.0.0.1:5432/retry_test?sslmode=disable")
	config, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	return config
}

func postgres(t *testing.T) *sql.DB { return openPostgres(t, postgresConfig(t)) }

func openPostgres(t *testing.T, config *pgx.ConnConfig) *sql.DB {
	_, must := dsn("RETRY_TEST_POSTGRES", "")
	return answering(t, stdlib.OpenDB(*config), must)
}

func mariadbConfig(t *testing.T) *mysql.Config {
	dsn, _ := dsn("RETRY_TEST_MARIADB", "retry_test:retry_test@tcp(127.0.0.1:3306)/retry_test")
	config, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	config.Logger = &mysql.NopLogger{} // connections are cut on purpose
	return config
}

func mariadb(t *testing.T) *sql.DB { return openMariadb(t, mariadbConfig(t)) }

func openMariadb(t *testing.T, config *mysql.Config) *sql.DB {
	_, must := dsn("RETRY_TEST_MARIADB", "")
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	return answering(t, sql.OpenDB(connector), must)
}

// postgresProxy starts a proxy to PostgreSQL and returns how to connect to it.
func postgresProxy(t *testing.T, c cut) (*pgx.ConnConfig, *proxy) {
	config := postgresConfig(t)
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	p := startProxy(t, c, network, address)
	config.Host, config.Port, config.TLSConfig, config.Fallbacks = p.IP.String(), uint16(p.Port), nil, nil
	return config, p
}

func mariadbProxy(t *testing.T, c cut) (*mysql.Config, *proxy) {
	config := mariadbConfig(t)
	p := startProxy(t, c, config.Net, config.Addr)
	config.Net, config.Addr = "tcp", p.String()
	return config, p
}

func postgresThrough(t *testing.T, c cut) *sql.DB {
	config, _ := postgresProxy(t, c)
	return openPostgres(t, config)
}

func mariadbThrough(t *testing.T, c cut) *sql.DB {
	config, _ := mariadbProxy(t, c)
	return openMariadb(t, config)
}

// sqlite returns a database in a new file. Its writers do not wait for each
// other.
func sqlite(t *testing.T) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+t.TempDir()+"/test.db?_pragma=journal_mode(WAL)&_pragma=busy_timeout(0)")
	require.NoError(t, err)
	return answering(t, db, true)
}

func answering(t *testing.T, db *sql.DB, must bool) *sql.DB {
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := db.PingContext(ctx)
	if err != nil && !must {
		t.Skip("no database answers: ", err)
	}
	require.NoError(t, err)
	return db
}

// table creates a table with a unique name, and drops it when the test ends.
func table(t *testing.T, db *sql.DB, columns string) string {
	name := "retrysql_" + strings.ToLower(rand.Text())
	exec(t, db, "CREATE TABLE "+name+" ("+columns+")")
	t.Cleanup(func() {
		// The context of the test has ended by now.
		_, err := db.ExecContext(context.Background(), "DROP TABLE "+name)
		require.NoError(t, err)
	})
	return name
}

// accounts creates a table with two accounts of 100 each.
func accounts(t *testing.T, db *sql.DB) string {
	name := table(t, db, "id INTEGER PRIMARY KEY, balance INTEGER NOT NULL")
	exec(t, db, "INSERT INTO "+name+" VALUES (1, 100), (2, 100)")
	return name
}

func exec(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query)
	require.NoError(t, err)
}

func number(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

// A record holds what happened in the calls whose policies write to it.
type record struct {
	mu       sync.Mutex
	runs     int
	failures []error
}

// policy retries without a delay and writes to r.
func (r *record) policy() retry.Policy {
	return retry.Policy{
		MaxAttempts: 10,
		OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind != retry.AttemptFinished {
				return
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.runs++
			if e.Err != nil {
				r.failures = append(r.failures, e.Err)
			}
		},
	}
}

// At a meeting transactions wait for each other once. Transactions that come
// later pass.
type meeting struct {
	mu      sync.Mutex
	missing int
	all     chan struct{}
}

func meetingOf(n int) *meeting { return &meeting{missing: n, all: make(chan struct{})} }

func (m *meeting) wait(ctx context.Context) error {
	m.mu.Lock()
	if m.missing--; m.missing == 0 {
		close(m.all)
	}
	m.mu.Unlock()
	return await(ctx, m.all)
}

func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// within returns a context that keeps a failing test from hanging.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
