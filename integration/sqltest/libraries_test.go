package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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

// A run runs a function in a transaction. It passes to the function a function that executes a
// statement in this transaction.
type run = func(ctx context.Context, p retry.Policy, fn func(exec func(string) error) error) error

// byTx runs transactions of database/sql with Tx.
func byTx(db *sql.DB) run {
	return func(ctx context.Context, p retry.Policy, fn func(func(string) error) error) error {
		return retrysql.Tx(ctx, db, nil, p, func(ctx context.Context, tx *sql.Tx) error {
			return fn(func(statement string) error { return execContext(ctx, tx, statement) })
		})
	}
}

func execContext[T interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}](ctx context.Context, tx T, statement string) error {
	_, err := tx.ExecContext(ctx, statement)
	return err
}

// byTxFunc runs transactions of another library with TxFunc.
func byTxFunc[T any](begin func(context.Context, func(T) error) error, exec func(context.Context, T, string) error) run {
	return func(ctx context.Context, p retry.Policy, fn func(func(string) error) error) error {
		return retrysql.TxFunc(ctx, begin, p, func(ctx context.Context, tx T) error {
			return fn(func(statement string) error { return exec(ctx, tx, statement) })
		})
	}
}

var libraries = []struct {
	name    string
	open    func(*testing.T) *sql.DB // without the proxy
	begin   string                   // the statement that starts a transaction, in capitals
	through func(*testing.T, cut) (run, *proxy)
}{
	{"database/sql by pgx", postgres, "BEGIN", func(t *testing.T, c cut) (run, *proxy) {
		config, proxy := postgresProxy(t, c)
		return byTx(openPostgres(t, config)), proxy
	}},
	{"database/sql by mysql", mariadb, "START TRANSACTION", func(t *testing.T, c cut) (run, *proxy) {
		config := mariadbConfig(t)
		proxy := startProxy(t, c, config.Net, config.Addr)
		config.Net, config.Addr = "tcp", proxy.String()
		return byTx(openMariadb(t, config)), proxy
	}},
	{"pgxpool", postgres, "BEGIN", func(t *testing.T, c cut) (run, *proxy) {
		at, proxy := postgresProxy(t, c)
		config, err := pgxpool.ParseConfig(at.ConnString())
		require.NoError(t, err)
		config.ConnConfig = at
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		begin := func(ctx context.Context, body func(pgx.Tx) error) error { return pgx.BeginFunc(ctx, pool, body) }
		return byTxFunc(begin, func(ctx context.Context, tx pgx.Tx, statement string) error {
			_, err := tx.Exec(ctx, statement)
			return err
		}), proxy
	}},
	{"gorm", postgres, "BEGIN", func(t *testing.T, c cut) (run, *proxy) {
		config, proxy := postgresProxy(t, c)
		return gormRun(t, openPostgres(t, config), false), proxy
	}},
	{"bun", postgres, "BEGIN", func(t *testing.T, c cut) (run, *proxy) {
		config, proxy := postgresProxy(t, c)
		db := bun.NewDB(sql.OpenDB(pgdriverConnector(config, proxy.String())), pgdialect.New())
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		begin := func(ctx context.Context, body func(bun.Tx) error) error {
			return db.RunInTx(ctx, nil, func(_ context.Context, tx bun.Tx) error { return body(tx) })
		}
		return byTxFunc(begin, execContext), proxy
	}},
}

// gormRun runs transactions of GORM.
func gormRun(t *testing.T, db *sql.DB, translateError bool) run {
	orm, err := gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: db}), &gorm.Config{Logger: gormlogger.Discard, TranslateError: translateError})
	require.NoError(t, err)
	begin := func(ctx context.Context, body func(*gorm.DB) error) error {
		return orm.WithContext(ctx).Transaction(body)
	}
	return byTxFunc(begin, func(_ context.Context, tx *gorm.DB, statement string) error { return tx.Exec(statement).Error })
}

// In each of twenty transactions the answer to COMMIT is lost: before the server has received the
// COMMIT, or after the server has applied it. The outcome of each transaction is reported as unknown,
// and no transaction is applied twice.
func TestLibrariesWhenTheAnswerToCommitIsLost(t *testing.T) {
	const transactions = 20
	for _, lib := range libraries {
		for _, row := range []struct {
			name    string
			cut     cut
			applied int
		}{
			{"before the transaction is applied", cut{at: "COMMIT"}, 0},
			{"after the transaction is applied", cut{at: "COMMIT", afterAnswer: true}, 1},
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
					p.RetryIf = func(error) bool { return true } // RetryIf cannot make Tx retry an unknown outcome
					err := run(within(t), p, func(exec func(string) error) error {
						return exec(fmt.Sprintf("INSERT INTO %s VALUES (%d)", requests, request))
					})
					require.True(t, isUnknown(err), "%v", err)
					assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
					assert.Equal(t, 1, happened.runs)
					assert.Equal(t, row.applied, number(t, db, fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE request = %d", requests, request)))
				}
			})
		}
	}
}

// If the connection is lost before COMMIT, the transaction is rolled back. It is retried and applied
// once.
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
					require.NoError(t, run(within(t), p, func(exec func(string) error) error { return exec("INSERT INTO " + requests + " VALUES (1)") }))
					if at == "INSERT" {
						assert.Equal(t, 2, happened.runs)
					}
					assert.LessOrEqual(t, happened.runs, 2)
					assert.True(t, proxy.done.Load(), "the proxy has cut the connection")
					assert.Equal(t, 1, number(t, db, "SELECT COUNT(*) FROM "+requests))
				})
			}
		}
	}
}
