package sqlfault_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retrysql/sqlfault"
)

var errLost = errors.New("the answer is lost")

// payments makes n payments, each in a transaction of two statements, and
// returns their errors.
func payments(t *testing.T, db *sql.DB, n int) (errs []error) {
	for range n {
		errs = append(errs, pay(t.Context(), db))
	}
	assert.Zero(t, db.Stats().InUse)
	return errs
}

func pay(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, statement := range []string{"debit", "credit"} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func TestScript(t *testing.T) {
	const paid, lost = "begin debit credit commit", "begin debit credit rollback"
	type script = []sqlfault.Fault
	for _, row := range []struct {
		name    string
		script  script
		errs    []error // of the three payments
		log     []string
		applied int
		left    int
	}{
		{"no script", nil, []error{nil, nil, nil}, []string{paid, paid, paid}, 3, 0},
		{"the second begin", script{sqlfault.Begin(nil), sqlfault.Begin(errLost)}, []error{nil, errLost, nil}, []string{paid, paid}, 2, 0},
		{"before the commit is applied", script{sqlfault.BeforeCommit(errLost)}, []error{errLost, nil, nil}, []string{lost, paid, paid}, 2, 0},
		{"after the commit is applied", script{sqlfault.AfterCommit(errLost)}, []error{errLost, nil, nil}, []string{paid, paid, paid}, 3, 0},
		{"commits that pass", script{sqlfault.BeforeCommit(nil), sqlfault.AfterCommit(nil), sqlfault.AfterCommit(errLost)},
			[]error{nil, nil, errLost}, []string{paid, paid, paid}, 3, 0},
		{"one kind after the other", script{sqlfault.BeforeCommit(errLost), sqlfault.Exec(io.EOF), sqlfault.Begin(context.Canceled)},
			[]error{errLost, io.EOF, context.Canceled}, []string{lost, "begin rollback"}, 0, 0},
		{"faults that are not reached", script{sqlfault.AfterCommit(nil), sqlfault.AfterCommit(nil), sqlfault.AfterCommit(nil), sqlfault.Begin(errLost),
			sqlfault.Exec(errLost)}, []error{nil, nil, nil}, []string{paid, paid, paid}, 3, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			base := &database{}
			faults := sqlfault.New(base, row.script...)
			db := sql.OpenDB(faults)
			assert.Equal(t, row.errs, payments(t, db, 3))
			assert.Equal(t, row.log, base.log)
			assert.Equal(t, row.applied, base.applied)
			assert.Equal(t, row.left, faults.Left())
			require.NoError(t, db.Close())
			assert.True(t, base.closed)
		})
	}
}

// If both the database and the script make an operation fail, the database's
// error is returned.
func TestTheDatabaseFailsItself(t *testing.T) {
	refused := errors.New("refused")
	for what, row := range map[string]struct {
		script []sqlfault.Fault
		want   error
	}{
		"connect":  {nil, refused},
		"begin":    {[]sqlfault.Fault{sqlfault.Begin(nil)}, refused},
		"commit":   {[]sqlfault.Fault{sqlfault.AfterCommit(errLost)}, refused},
		"rollback": {[]sqlfault.Fault{sqlfault.BeforeCommit(errLost)}, errors.Join(errLost, refused)},
	} {
		base := &database{fails: map[string]error{what: refused}}
		assert.Equal(t, []error{row.want}, payments(t, sql.OpenDB(sqlfault.New(base, row.script...)), 1), what)
	}
	base := &database{fails: map[string]error{"prepare": refused}}
	_, err := sql.OpenDB(sqlfault.New(base)).PrepareContext(t.Context(), "debit")
	assert.Equal(t, refused, err)
}

// A driver may refuse to execute a statement that is not prepared. database/sql
// then prepares it, and it still counts as one statement.
func TestSkippedStatementsCountOnce(t *testing.T) {
	for _, base := range []*database{{skips: true}, {old: true}} {
		db := sql.OpenDB(sqlfault.New(base, sqlfault.Exec(nil), sqlfault.Exec(errLost)))
		assert.Equal(t, []error{errLost, nil}, payments(t, db, 2))
		assert.Equal(t, []string{"begin debit rollback", "begin debit credit commit"}, base.log)

		db = sql.OpenDB(sqlfault.New(base, sqlfault.Exec(nil), sqlfault.Exec(errLost)))
		rows, err := db.QueryContext(t.Context(), "SELECT 1")
		require.NoError(t, err)
		require.NoError(t, rows.Close())
		_, err = db.QueryContext(t.Context(), "SELECT 1")
		assert.Equal(t, errLost, err)
	}
}

// Drivers may lack any method that was added after the first version of
// database/sql.
func TestOldDriver(t *testing.T) {
	base := &database{old: true}
	db := sql.OpenDB(sqlfault.New(base))
	require.NoError(t, db.PingContext(t.Context()))

	_, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	assert.EqualError(t, err, "sqlfault: the driver supports neither an isolation level nor read-only transactions")
	_, err = db.ExecContext(t.Context(), "debit", sql.Named("amount", 10))
	assert.EqualError(t, err, "sqlfault: the driver does not support named arguments")
	_, err = db.QueryContext(t.Context(), "SELECT 1", sql.Named("amount", 10))
	assert.EqualError(t, err, "sqlfault: the driver does not support named arguments")
	_, err = db.ExecContext(t.Context(), "debit", 10, "a")
	require.NoError(t, err)
	assert.Equal(t, []driver.Value{int64(10), "a"}, base.args)

	// An old driver does not know contexts either, so the wrapper checks whether the context has
	// ended.
	base.log = nil
	for _, call := range []struct {
		name string
		make func(context.Context) error
		log  []string
	}{
		{"begin", func(ctx context.Context) error { _, err := db.BeginTx(ctx, nil); return err }, []string{"begin rollback"}},
		{"prepare", func(ctx context.Context) error { _, err := db.PrepareContext(ctx, "debit"); return err }, nil},
		{"exec", func(ctx context.Context) error { _, err := db.ExecContext(ctx, "debit"); return err }, nil},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		base.log, base.before = nil, cancel
		assert.ErrorIs(t, call.make(ctx), context.Canceled, call.name)
		assert.Equal(t, call.log, base.log, call.name)
		base.before = nil
	}
	assert.Zero(t, db.Stats().InUse)
}

// database/sql calls these optional methods, and gets the driver's results.
func TestOptionalMethodsReachTheDriver(t *testing.T) {
	base := &database{}
	db := sql.OpenDB(sqlfault.New(base))
	require.NoError(t, db.PingContext(t.Context()))
	_, err := db.ExecContext(t.Context(), "debit", currency("EUR"))
	require.NoError(t, err)
	assert.Equal(t, []driver.Value{"EUR"}, base.args)
	prepared, err := db.PrepareContext(t.Context(), "credit")
	require.NoError(t, err)
	_, err = prepared.ExecContext(t.Context(), currency("USD"))
	require.NoError(t, err)
	assert.Equal(t, []driver.Value{"USD"}, base.args)
	require.NoError(t, prepared.Close())
	rows, err := db.QueryContext(t.Context(), "SELECT 1")
	require.NoError(t, err)
	require.NoError(t, rows.Close())
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable})
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	assert.Equal(t, sql.LevelSerializable, sql.IsolationLevel(base.opts.Isolation))
	assert.Positive(t, base.resets)
	assert.Positive(t, base.checks)
	assert.Equal(t, base, db.Driver())

	base.invalid = true
	before := base.connects
	require.NoError(t, pay(t.Context(), db))
	require.NoError(t, pay(t.Context(), db))
	assert.Greater(t, base.connects, before, "a connection that is not valid is not used again")
}

// byName is the database behind the registered driver names, because a name can
// be registered only once.
var byName = &database{}

func init() {
	sql.Register("sqlfault_plain", plainDriver{byName})
	sql.Register("bank", byName)
}

func TestOpen(t *testing.T) {
	for _, name := range []string{"sqlfault_plain", "bank"} {
		faults, err := sqlfault.Open(name, "bank", sqlfault.Begin(errLost))
		require.NoError(t, err)
		db := sql.OpenDB(faults)
		assert.Equal(t, []error{errLost, nil}, payments(t, db, 2))
		require.NoError(t, db.Close())
		assert.Equal(t, "bank", byName.name)
	}
	_, err := sqlfault.Open("sqlfault_none", "bank")
	assert.ErrorContains(t, err, `unknown driver "sqlfault_none"`)
	byName.fails = map[string]error{"open": errLost}
	defer func() { byName.fails = nil }()
	_, err = sqlfault.Open("bank", "bank")
	assert.Equal(t, errLost, err)
}

// All goroutines share one script, and each fault happens once.
func TestConcurrently(t *testing.T) {
	base := &database{}
	faults := sqlfault.New(base, slices.Repeat([]sqlfault.Fault{sqlfault.AfterCommit(errLost)}, 50)...)
	db := sql.OpenDB(faults)
	var lost atomic.Int32
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if err := pay(t.Context(), db); err != nil {
				lost.Add(1)
				assert.Equal(t, errLost, err)
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 50, lost.Load())
	assert.Equal(t, 100, base.applied)
	assert.Zero(t, faults.Left())
}

// A database records its operations and counts the transactions that it applied. An old
// database lacks all optional methods. A database that skips requires prepared statements.
type database struct {
	skips, old, invalid bool
	fails               map[string]error
	before              func() // called before each operation, unless nil

	mu                        sync.Mutex
	log                       []string // the operations of each transaction
	args                      []driver.Value
	opts                      driver.TxOptions
	name                      string
	applied, connects, resets int
	checks                    int
	closed                    bool
}

func (d *database) do(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.before != nil {
		d.before()
	}
	if err := d.fails[what]; err != nil {
		return err
	}
	switch what {
	case "connect":
		d.connects++
		return nil
	case "open", "prepare", "SELECT 1":
		return nil
	case "commit":
		d.applied++
	}
	if len(d.log) == 0 || what == "begin" {
		d.log = append(d.log, what)
	} else {
		d.log[len(d.log)-1] += " " + what
	}
	return nil
}

func (d *database) count(n *int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*n++
}

func (d *database) Driver() driver.Driver { return d }
func (d *database) Close() error          { d.closed = true; return nil }
func (d *database) Connect(context.Context) (driver.Conn, error) {
	if err := d.do("connect"); err != nil {
		return nil, err
	}
	if d.old {
		return oldConn{d}, nil
	}
	return newConn{oldConn{d}}, nil
}

func (d *database) Open(name string) (driver.Conn, error) {
	d.name = name
	return d.Connect(context.Background())
}

func (d *database) OpenConnector(name string) (driver.Connector, error) {
	d.name = name
	return d, d.do("open")
}

// A plainDriver cannot make connectors.
type plainDriver struct{ d *database }

func (p plainDriver) Open(name string) (driver.Conn, error) { return p.d.Open(name) }

type oldConn struct{ d *database }

func (c oldConn) Close() error              { return nil }
func (c oldConn) Begin() (driver.Tx, error) { return oldTx(c), c.d.do("begin") }
func (c oldConn) Prepare(query string) (driver.Stmt, error) {
	return oldStmt{c.d, query}, c.d.do("prepare")
}

type oldTx struct{ d *database }

func (t oldTx) Commit() error   { return t.d.do("commit") }
func (t oldTx) Rollback() error { return t.d.do("rollback") }

type oldStmt struct {
	d     *database
	query string
}

func (s oldStmt) Close() error  { return nil }
func (s oldStmt) NumInput() int { return -1 }
func (s oldStmt) Exec(args []driver.Value) (driver.Result, error) {
	s.d.mu.Lock()
	s.d.args = args
	s.d.mu.Unlock()
	return driver.RowsAffected(1), s.d.do(s.query)
}
func (s oldStmt) Query([]driver.Value) (driver.Rows, error) { return noRows{}, s.d.do(s.query) }

type noRows struct{}

func (noRows) Columns() []string         { return []string{"n"} }
func (noRows) Close() error              { return nil }
func (noRows) Next([]driver.Value) error { return io.EOF }

type newConn struct{ oldConn }

func (c newConn) BeginTx(_ context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.d.mu.Lock()
	c.d.opts = opts
	c.d.mu.Unlock()
	return c.Begin()
}

func (c newConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	old, err := c.Prepare(query)
	if err != nil {
		return nil, err
	}
	return newStmt{old.(oldStmt)}, nil
}

func (c newConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.d.skips {
		return nil, driver.ErrSkip
	}
	return newStmt{oldStmt{c.d, query}}.ExecContext(ctx, args)
}

func (c newConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.d.skips {
		return nil, driver.ErrSkip
	}
	return newStmt{oldStmt{c.d, query}}.QueryContext(ctx, args)
}

// A currency is a type that only this driver can convert.
type currency string

func (c newConn) CheckNamedValue(v *driver.NamedValue) error {
	c.d.count(&c.d.checks)
	if code, ok := v.Value.(currency); ok {
		v.Value = string(code)
		return nil
	}
	return driver.ErrSkip
}

func (c newConn) Ping(context.Context) error         { return nil }
func (c newConn) ResetSession(context.Context) error { c.d.count(&c.d.resets); return nil }
func (c newConn) IsValid() bool                      { return !c.d.invalid }

type newStmt struct{ oldStmt }

func (s newStmt) ExecContext(_ context.Context, args []driver.NamedValue) (driver.Result, error) {
	var plain []driver.Value
	for _, arg := range args {
		plain = append(plain, arg.Value)
	}
	return s.Exec(plain)
}

func (s newStmt) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	return s.Query(nil)
}
