package sqltest

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun/driver/pgdriver"
	sqlitedriver "modernc.org/sqlite"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// dsn returns the value of an environment variable, or else the address of the database that
// .ci/services starts.
func dsn(variable, local string) string { return cmp.Or(os.Getenv(variable), local) }

// must reports whether a test fails if its database does not run. Otherwise the test is skipped.
func must(variable string) bool { return os.Getenv(variable) != "" || os.Getenv("CI") == "true" }

func postgresConfig(t *testing.T) *pgx.ConnConfig {
	config, err := pgx.ParseConfig(dsn("RETRY_TEST_POSTGRES", "postgres://retry_test:retry_test@127.0.0.1:5432/retry_test?sslmode=disable"))
	require.NoError(t, err)
	return config
}

func postgres(t *testing.T) *sql.DB { return openPostgres(t, postgresConfig(t)) }

func openPostgres(t *testing.T, config *pgx.ConnConfig) *sql.DB {
	return answering(t, stdlib.OpenDB(*config), must("RETRY_TEST_POSTGRES"))
}

func mariadbConfig(t *testing.T) *mysql.Config {
	config, err := mysql.ParseDSN(dsn("RETRY_TEST_MARIADB", "retry_test:retry_test@tcp(127.0.0.1:3306)/retry_test"))
	require.NoError(t, err)
	config.Logger = &mysql.NopLogger{} // this test cuts connections, so the warnings of the driver are expected
	return config
}

func mariadb(t *testing.T) *sql.DB { return openMariadb(t, mariadbConfig(t)) }

func openMariadb(t *testing.T, config *mysql.Config) *sql.DB {
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	return answering(t, sql.OpenDB(connector), must("RETRY_TEST_MARIADB"))
}

// postgresProxy starts a proxy to PostgreSQL. It returns the configuration of a connection through the
// proxy.
func postgresProxy(t *testing.T, c cut) (*pgx.ConnConfig, *proxy) {
	config := postgresConfig(t)
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	p := startProxy(t, c, network, address)
	config.Host, config.Port, config.TLSConfig, config.Fallbacks = p.IP.String(), uint16(p.Port), nil, nil
	return config, p
}

// pqDB and pgdriverDB open PostgreSQL with other drivers.
func pqDB(t *testing.T) *sql.DB {
	config := postgresConfig(t)
	connector, err := pq.NewConnector(fmt.Sprintf("postgres://%s:%s@%s:%d/%s?sslmode=disable", config.User, config.Password, config.Host, config.Port, config.Database))
	require.NoError(t, err)
	return answering(t, sql.OpenDB(connector), must("RETRY_TEST_POSTGRES"))
}

func pgdriverDB(t *testing.T) *sql.DB {
	config := postgresConfig(t)
	return answering(t, sql.OpenDB(pgdriverConnector(config, fmt.Sprintf("%s:%d", config.Host, config.Port))), must("RETRY_TEST_POSTGRES"))
}

func pgdriverConnector(config *pgx.ConnConfig, address string) *pgdriver.Connector {
	return pgdriver.NewConnector(
		pgdriver.WithAddr(address), pgdriver.WithInsecure(true),
		pgdriver.WithUser(config.User), pgdriver.WithPassword(config.Password), pgdriver.WithDatabase(config.Database),
	)
}

// databases are the three databases with their most used drivers, and PostgreSQL with other drivers.
var databases = map[string]func(*testing.T) *sql.DB{
	"sqlite": sqlite, "postgres": postgres, "mariadb": mariadb, "lib/pq": pqDB, "pgdriver": pgdriverDB,
}

// code returns the code of an error of a database: an SQLSTATE, a number of MySQL, or a code of SQLite.
// It returns "" for an error without a code.
func code(err error) string {
	var (
		postgres interface{ SQLState() string } // implemented by errors of pgx and of lib/pq
		bun      pgdriver.Error
		my       *mysql.MySQLError
		lite     *sqlitedriver.Error
	)
	switch {
	case errors.As(err, &postgres):
		return postgres.SQLState()
	case errors.As(err, &bun):
		return bun.Field('C')
	case errors.As(err, &my):
		return strconv.Itoa(int(my.Number))
	case errors.As(err, &lite):
		return strconv.Itoa(lite.Code())
	default:
		return ""
	}
}

// sqlite returns a database in a new file. Its writers do not wait for each other.
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
		// The context of the test has ended before this function runs.
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

func balance(t *testing.T, db *sql.DB, accounts string, id int) int {
	t.Helper()
	return number(t, db, fmt.Sprintf("SELECT balance FROM %s WHERE id = %d", accounts, id))
}

// move executes one statement of a transfer.
func move(ctx context.Context, tx *sql.Tx, accounts string, id, amount int) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET balance = balance + %d WHERE id = %d", accounts, amount, id))
	return err
}

// isUnknown reports whether the outcome of a COMMIT is unknown.
func isUnknown(err error) bool {
	var unknown *retrysql.UnknownCommitError
	return errors.As(err, &unknown)
}

// A record holds the events of the calls whose policies write to it.
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

// A meeting makes transactions wait for each other, once. Later transactions pass without a wait.
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

// within returns a context with a deadline, so that a failing test does not hang.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
