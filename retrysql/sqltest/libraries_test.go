package sqltest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	gormlogger "gorm.io/gorm/logger"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// A library runs a statement in its own kind of transaction, with TxFunc.
type library struct {
	name  string
	open  func(*testing.T) *sql.DB // without the proxy
	begin string                   // the statement that starts a transaction, in capitals
	// through returns a function that executes a statement in one transaction
	// through the proxy.
	through func(*testing.T, cut) (func(context.Context, retry.Policy, string) error, *proxy)
}

var libraries = []library{
	{"pgxpool", postgres, "BEGIN", func(t *testing.T, c cut) (func(context.Context, retry.Policy, string) error, *proxy) {
		pool, proxy := pgxPool(t, c)
		begin := func(ctx context.Context, body func(pgx.Tx) error) error {
			return pgx.BeginFunc(ctx, pool, body)
		}
		return func(ctx context.Context, p retry.Policy, statement string) error {
			return retrysql.TxFunc(ctx, begin, p, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, statement)
				return err
			})
		}, proxy
	}},
	{"gorm", postgres, "BEGIN", func(t *testing.T, c cut) (func(context.Context, retry.Policy, string) error, *proxy) {
		db, proxy := gormDB(t, c)
		begin := func(ctx context.Context, body func(*gorm.DB) error) error {
			return db.WithContext(ctx).Transaction(body)
		}
		return func(ctx context.Context, p retry.Policy, statement string) error {
			return retrysql.TxFunc(ctx, begin, p, func(_ context.Context, tx *gorm.DB) error {
				return tx.Exec(statement).Error
			})
		}, proxy
	}},
	{"bun", postgres, "BEGIN", func(t *testing.T, c cut) (func(context.Context, retry.Policy, string) error, *proxy) {
		config, proxy := postgresProxy(t, c)
		db := bun.NewDB(sql.OpenDB(pgdriverConnector(config, proxy.String())), pgdialect.New())
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		begin := func(ctx context.Context, body func(bun.Tx) error) error {
			return db.RunInTx(ctx, nil, func(_ context.Context, tx bun.Tx) error { return body(tx) })
		}
		return func(ctx context.Context, p retry.Policy, statement string) error {
			return retrysql.TxFunc(ctx, begin, p, func(ctx context.Context, tx bun.Tx) error {
				_, err := tx.ExecContext(ctx, statement)
				return err
			})
		}, proxy
	}},
	{"sqlx", mariadb, "START TRANSACTION", func(t *testing.T, c cut) (func(context.Context, retry.Policy, string) error, *proxy) {
		config, proxy := mariadbProxy(t, c)
		db := sqlx.NewDb(openMariadb(t, config), "mysql")
		begin := func(ctx context.Context, body func(*sqlx.Tx) error) error {
			tx, err := db.BeginTxx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }() // if body panics
			if err := body(tx); err != nil {
				return err
			}
			return tx.Commit()
		}
		return func(ctx context.Context, p retry.Policy, statement string) error {
			return retrysql.TxFunc(ctx, begin, p, func(ctx context.Context, tx *sqlx.Tx) error {
				_, err := tx.ExecContext(ctx, statement)
				return err
			})
		}, proxy
	}},
	{"ent", postgres, "BEGIN", func(t *testing.T, c cut) (func(context.Context, retry.Policy, string) error, *proxy) {
		config, proxy := postgresProxy(t, c)
		db := entsql.OpenDB(dialect.Postgres, openPostgres(t, config))
		begin := func(ctx context.Context, body func(dialect.Tx) error) error {
			tx, err := db.Tx(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }() // if body panics
			if err := body(tx); err != nil {
				return err
			}
			return tx.Commit()
		}
		return func(ctx context.Context, p retry.Policy, statement string) error {
			return retrysql.TxFunc(ctx, begin, p, func(ctx context.Context, tx dialect.Tx) error {
				return tx.Exec(ctx, statement, []any{}, nil)
			})
		}, proxy
	}},
}

func pgxPool(t *testing.T, c cut) (*pgxpool.Pool, *proxy) {
	at, proxy := postgresProxy(t, c)
	config, err := pgxpool.ParseConfig(at.ConnString())
	require.NoError(t, err)
	config.ConnConfig = at
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, proxy
}

func gormDB(t *testing.T, c cut) (*gorm.DB, *proxy) {
	config, proxy := postgresProxy(t, c)
	db, err := gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: openPostgres(t, config)}), &gorm.Config{Logger: gormlogger.Discard})
	require.NoError(t, err)
	return db, proxy
}

// The answer to COMMIT is lost in each of fifty transactions, before the server
// has received it or after the server has applied it. Each transaction is
// reported as unknown, and none is applied twice.
func TestLibrariesWhenTheAnswerToCommitIsLost(t *testing.T) {
	const transactions = 50
	for _, lib := range libraries {
		for _, row := range []struct {
			name    string
			cut     cut
			applied int
		}{
			{"before it is applied", cut{at: "COMMIT"}, 0},
			{"after it is applied", cut{at: "COMMIT", afterAnswer: true}, 1},
		} {
			t.Run(lib.name+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				db := lib.open(t)
				requests := table(t, db, "request INTEGER NOT NULL")
				run, proxy := lib.through(t, row.cut)
				for request := range transactions {
					proxy.arm()
					var happened record
					p := happened.policy()
					p.RetryIf = func(error) bool { return true } // no RetryIf can change that
					err := run(within(t), p, fmt.Sprintf("INSERT INTO %s VALUES (%d)", requests, request))
					var unknown *retrysql.UnknownCommitError
					require.ErrorAs(t, err, &unknown)
					assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
					assert.Equal(t, 1, happened.runs)
					assert.Equal(t, row.applied, number(t, db, fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE request = %d", requests, request)))
				}
			})
		}
	}
}

// This shows why the doc of Transient says where not to use it. These calls do
// not distinguish the errors of begin, the function and COMMIT, so a loop
// around one of them applies each transaction twice.
func TestTransientAroundATransactionAppliesItTwice(t *testing.T) {
	const transactions = 50
	lost := cut{at: "COMMIT", afterAnswer: true}
	for _, row := range []struct {
		name    string
		through func(*testing.T) (func(context.Context, string) error, *proxy)
	}{
		{"pgxpool", func(t *testing.T) (func(context.Context, string) error, *proxy) {
			pool, proxy := pgxPool(t, lost)
			return func(ctx context.Context, statement string) error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, statement)
					return err
				})
			}, proxy
		}},
		{"gorm", func(t *testing.T) (func(context.Context, string) error, *proxy) {
			db, proxy := gormDB(t, lost)
			return func(ctx context.Context, statement string) error {
				return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return tx.Exec(statement).Error })
			}, proxy
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			db := postgres(t)
			requests := table(t, db, "request INTEGER NOT NULL")
			run, proxy := row.through(t)
			for request := range transactions {
				proxy.arm()
				require.NoError(t, retry.Do(within(t), retry.Policy{MaxAttempts: 3, RetryIf: retrysql.Transient}, func(ctx context.Context) error {
					return run(ctx, fmt.Sprintf("INSERT INTO %s VALUES (%d)", requests, request))
				}))
			}
			assert.Equal(t, 2*transactions, number(t, db, "SELECT COUNT(*) FROM "+requests))
		})
	}
}

// If the connection is lost anywhere else, the transaction was rolled back. It
// is retried and applied once.
func TestLibrariesWhenTheConnectionIsLostBeforeCommit(t *testing.T) {
	for _, lib := range libraries {
		for _, at := range []string{lib.begin, "INSERT"} {
			for _, afterAnswer := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/after the answer %t", lib.name, at, afterAnswer), func(t *testing.T) {
					t.Parallel()
					db := lib.open(t)
					requests := table(t, db, "request INTEGER NOT NULL")
					run, proxy := lib.through(t, cut{at, afterAnswer})
					var happened record
					p := happened.policy()
					if lib.name == "bun" { // bun's own driver reports a lost connection as a bare EOF
						p.RetryIf = func(err error) bool { return retrysql.Transient(err) || errors.Is(err, io.EOF) }
					}
					require.NoError(t, run(within(t), p, "INSERT INTO "+requests+" VALUES (1)"))
					assert.LessOrEqual(t, happened.runs, 2)
					assert.True(t, proxy.done.Load(), "the cut was not made")
					assert.Equal(t, 1, number(t, db, "SELECT COUNT(*) FROM "+requests))
				})
			}
		}
	}
}

// A load balancer without a server closes each new connection. lib/pq reports
// this as a bare EOF.
func TestEOFWhileATransactionBegins(t *testing.T) {
	db := postgres(t)
	name := accounts(t, db)
	config, proxy := postgresProxy(t, cut{at: "USER"})
	connector, err := pq.NewConnector(fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", config.User, config.Password, proxy, config.Database))
	require.NoError(t, err)
	through := sql.OpenDB(connector)
	defer func() { require.NoError(t, through.Close()) }()
	var happened record
	require.NoError(t, retrysql.Tx(within(t), through, nil, happened.policy(), func(ctx context.Context, tx *sql.Tx) error {
		return move(ctx, tx, name, 1, -10)
	}))
	assert.Equal(t, 90, number(t, db, "SELECT balance FROM "+name+" WHERE id = 1"))
	if assert.Len(t, happened.failures, 1) {
		assert.ErrorIs(t, happened.failures[0], io.EOF)
		assert.False(t, errors.Is(happened.failures[0], io.ErrUnexpectedEOF) || errors.Is(happened.failures[0], driver.ErrBadConn))
		assert.False(t, retrysql.Transient(errors.Unwrap(happened.failures[0])), "a bare EOF that does not come from begin")
	}
}
