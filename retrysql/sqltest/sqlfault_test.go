package sqltest

import (
	"context"
	"database/sql"
	"errors"
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
	for _, database := range []struct {
		name    string
		open    func(*testing.T) *sql.DB
		faulty  func(*testing.T, ...sqlfault.Fault) *sqlfault.Connector
		insert  string
		special any // an argument that only the driver can convert
	}{
		{"postgres", postgres, func(t *testing.T, script ...sqlfault.Fault) *sqlfault.Connector {
			return sqlfault.New(stdlib.GetConnector(*postgresConfig(t)), script...)
		}, " VALUES ($1)", []int32{1, 2}},
		{"mariadb", mariadb, func(t *testing.T, script ...sqlfault.Fault) *sqlfault.Connector {
			connector, err := mysql.NewConnector(mariadbConfig(t))
			require.NoError(t, err)
			return sqlfault.New(connector, script...)
		}, " VALUES (?)", "text"},
	} {
		for name, row := range map[string]struct {
			fault   sqlfault.Fault
			unknown bool
			applied int
			runs    int
		}{
			"none":          {sqlfault.Exec(nil), false, 1, 1},
			"begin":         {sqlfault.Begin(io.ErrUnexpectedEOF), false, 1, 2},
			"exec":          {sqlfault.Exec(io.ErrUnexpectedEOF), false, 1, 2},
			"before commit": {sqlfault.BeforeCommit(io.ErrUnexpectedEOF), true, 0, 1},
			"after commit":  {sqlfault.AfterCommit(io.ErrUnexpectedEOF), true, 1, 1},
		} {
			t.Run(database.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				plain := database.open(t)
				requests := table(t, plain, "request INTEGER NOT NULL")
				faults := database.faulty(t, row.fault)
				db := sql.OpenDB(faults)
				defer func() { require.NoError(t, db.Close()) }()
				var happened record
				err := retrysql.Tx(within(t), db, &sql.TxOptions{Isolation: sql.LevelSerializable}, happened.policy(), func(ctx context.Context, tx *sql.Tx) error {
					// The statement has an argument, so the driver for MySQL
					// prepares it.
					if _, err := tx.ExecContext(ctx, "INSERT INTO "+requests+database.insert, 7); err != nil {
						return err
					}
					rows, err := tx.QueryContext(ctx, "SELECT request FROM "+requests)
					if err != nil {
						return err
					}
					defer rows.Close()
					for rows.Next() {
						var request int
						if err := rows.Scan(&request); err != nil {
							return err
						}
						assert.Equal(t, 7, request)
					}
					return rows.Err()
				})
				var unknown *retrysql.UnknownCommitError
				assert.Equal(t, row.unknown, errors.As(err, &unknown), "%v", err)
				assert.Equal(t, row.runs, happened.runs)
				assert.Equal(t, row.applied, number(t, plain, "SELECT COUNT(*) FROM "+requests))
				assert.Zero(t, faults.Left())
				assert.Zero(t, db.Stats().InUse)

				var back string
				cast := map[string]string{"postgres": "SELECT CAST($1::int[] AS TEXT)", "mariadb": "SELECT CONCAT(?)"}[database.name]
				require.NoError(t, db.QueryRowContext(t.Context(), cast, database.special).Scan(&back))
				assert.Contains(t, []string{"{1,2}", "text"}, back)
			})
		}
	}
}

// A driver that cannot make connectors is opened by its name.
func TestSQLFaultOpen(t *testing.T) {
	faults, err := sqlfault.Open("sqlite", "file:"+t.TempDir()+"/test.db", sqlfault.Exec(nil), sqlfault.AfterCommit(io.ErrUnexpectedEOF))
	require.NoError(t, err)
	db := answering(t, sql.OpenDB(faults), true)
	exec(t, db, "CREATE TABLE requests (request INTEGER)")
	err = retrysql.Tx(t.Context(), db, nil, (&record{}).policy(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO requests VALUES ($request)", sql.Named("request", 7))
		return err
	})
	var unknown *retrysql.UnknownCommitError
	require.ErrorAs(t, err, &unknown)
	assert.Equal(t, 1, number(t, db, "SELECT COUNT(*) FROM requests"))
	assert.Zero(t, faults.Left())
}
