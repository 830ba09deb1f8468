package sqltest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retrysql"
	"github.com/goretry/retry/retrysql/sqlfault"
)

// A script wraps real drivers. What the script says happens, and everything
// else works as without it.
func TestSQLFault(t *testing.T) {
	for _, row := range []struct {
		name    string
		open    func(*testing.T) *sql.DB
		base    func(*testing.T) driver.Connector
		insert  string
		cast    string
		special any // an argument that only the driver can convert
		text    string
	}{
		{"postgres", postgres, func(t *testing.T) driver.Connector { return stdlib.GetConnector(*postgresConfig(t)) },
			" VALUES ($1)", "SELECT CAST($1::int[] AS TEXT)", []int32{1, 2}, "{1,2}"},
		{"mariadb", mariadb, func(t *testing.T) driver.Connector {
			connector, err := mysql.NewConnector(mariadbConfig(t))
			require.NoError(t, err)
			return connector
		}, " VALUES (?)", "SELECT CONCAT(?)", "text", "text"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			plain := row.open(t)
			requests := table(t, plain, "request INTEGER NOT NULL")
			faults := sqlfault.New(row.base(t), sqlfault.BeforeCommit(io.ErrUnexpectedEOF),
				sqlfault.Begin(io.ErrUnexpectedEOF), sqlfault.Exec(io.ErrUnexpectedEOF), sqlfault.AfterCommit(io.ErrUnexpectedEOF))
			db := sql.OpenDB(faults)
			defer func() { require.NoError(t, db.Close()) }()
			for _, want := range []struct {
				unknown       bool
				runs, applied int
			}{{true, 1, 0}, {true, 3, 1}, {false, 1, 2}} {
				var happened record
				err := retrysql.Tx(within(t), db, &sql.TxOptions{Isolation: sql.LevelSerializable}, happened.policy(), func(ctx context.Context, tx *sql.Tx) error {
					// The statement has an argument, so the driver for MySQL prepares it.
					if _, err := tx.ExecContext(ctx, "INSERT INTO "+requests+row.insert, 7); err != nil {
						return err
					}
					var request int
					if err := tx.QueryRowContext(ctx, "SELECT request FROM "+requests).Scan(&request); err != nil {
						return err
					}
					assert.Equal(t, 7, request)
					return nil
				})
				assert.Equal(t, want.unknown, isUnknown(err), "%v", err)
				assert.Equal(t, want.runs, happened.runs)
				assert.Equal(t, want.applied, number(t, plain, "SELECT COUNT(*) FROM "+requests))
				assert.Zero(t, db.Stats().InUse)
			}
			assert.Zero(t, faults.Left())

			var back string
			require.NoError(t, db.QueryRowContext(t.Context(), row.cast, row.special).Scan(&back))
			assert.Equal(t, row.text, back)
		})
	}
}
