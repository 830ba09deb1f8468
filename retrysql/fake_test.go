package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// A step says what the fake server does for one operation. It gets the context of the transaction
// or the statement. A nil step succeeds.
type step func(context.Context) error

func fails(err error) step { return func(context.Context) error { return err } }

// hangs waits until the context ends, and returns the error of the context.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A scene says what the server does for the begin, write, commit and rollback of
// one transaction.
type scene map[string]step

// failing returns one scene for each error. In the scene, the operation fails with this error.
func failing(what string, errs ...error) (scenes []scene) {
	for _, err := range errs {
		scenes = append(scenes, scene{what: fails(err)})
	}
	return scenes
}

// A server is a database whose transactions run one after the other. The n-th transaction has the
// n-th scene. If there are no more scenes, a transaction succeeds.
type server struct {
	mu     sync.Mutex
	scenes []scene
	log    []string // the operations of each transaction
	stuck  int      // how many connections stay in use

	changed int64 // how many rows the last statement changed, as MySQL counts them

	opened int
	closed []int // the numbers of the closed connections; the first connection has number 1
}

// connection opens a connection.
func (s *server) connection() conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	return conn{server: s, number: s.opened}
}

// These are the operations of a transaction that writes.
const (
	committed  = "begin write commit"
	rolledBack = "begin write rollback"
	unwritten  = "begin rollback"
)

func (s *server) next() (first scene) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.scenes) > 0 {
		first, s.scenes = s.scenes[0], s.scenes[1:]
	}
	return first
}

func (s *server) do(what string, ctx context.Context, scene scene) error {
	s.mu.Lock()
	if what == "begin" {
		s.log = append(s.log, what)
	} else {
		s.log[len(s.log)-1] += " " + what
	}
	s.mu.Unlock()
	if step := scene[what]; step != nil {
		return step(ctx)
	}
	return nil
}

// asked returns the operations of each transaction.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// open returns a database with these scenes. It fails the test if a transaction is still open at
// the end of the test.
func open(t testing.TB, scenes ...scene) (*sql.DB, *server) {
	s := &server{scenes: scenes}
	return openBy(t, s, connector{s})
}

// openMySQL returns a database whose driver looks like go-sql-driver/mysql.
func openMySQL(t testing.TB, scenes ...scene) (*sql.DB, *server) {
	s := &server{scenes: scenes}
	return openBy(t, s, &MySQLDriver{s})
}

func openBy(t testing.TB, s *server, by driver.Connector) (*sql.DB, *server) {
	db := sql.OpenDB(by)
	t.Cleanup(func() {
		assert.Equal(t, s.stuck, db.Stats().InUse, "connections still in use")
		assert.NoError(t, db.Close())
	})
	return db, s
}

type connector struct{ server *server }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	opened := c.server.connection()
	return &opened, nil
}
func (c connector) Driver() driver.Driver { return nil }

type conn struct {
	server *server
	number int
	scene  scene
	ctx    context.Context // the context of the transaction
}

func (c *conn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	c.scene, c.ctx = c.server.next(), ctx
	return c, c.server.do("begin", ctx, c.scene)
}

func (c *conn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), c.server.do(query, ctx, c.scene)
}

func (c *conn) Commit() error   { return c.server.do("commit", c.ctx, c.scene) }
func (c *conn) Rollback() error { return c.server.do("rollback", c.ctx, c.scene) }

func (c *conn) Close() error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.closed = append(c.server.closed, c.number)
	return nil
}

func (c *conn) Begin() (driver.Tx, error) { return nil, errors.New("database/sql must call BeginTx") }
func (c *conn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("database/sql must call ExecContext")
}

// write executes one statement.
func write(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "write")
	return err
}

// returns returns a function that executes no statement and returns err.
func returns(err error) func(context.Context, *sql.Tx) error {
	return func(context.Context, *sql.Tx) error { return err }
}

// unknown is the result of reasonOf for an UnknownCommitError.
const unknown = retry.ReasonPermanent + ", unknown"

// reasonOf returns the Reason of err. It adds ", unknown" if err contains an UnknownCommitError.
func reasonOf(err error) retry.Reason {
	reason := retry.ReasonOf(err)
	var inDoubt *retrysql.UnknownCommitError
	if errors.As(err, &inDoubt) {
		reason += ", unknown"
	}
	return reason
}

// A stateError is like the errors of the drivers for PostgreSQL. A nil pointer to it panics, as
// a nil pointer to their errors does.
type stateError struct{ state, text string }

func (e *stateError) Error() string    { return e.text + " (SQLSTATE " + e.state + ")" }
func (e *stateError) SQLState() string { return e.state }

// An unsentError is like pgx's errors for failures before anything was sent.
type unsentError struct {
	safe  bool
	cause error
}

func (e *unsentError) Error() string     { return "not sent" }
func (e *unsentError) SafeToRetry() bool { return e.safe }
func (e *unsentError) Unwrap() error     { return e.cause }

var (
	errSerialization = &stateError{"40001", "could not serialize access"}
	errDeadlock      = &stateError{"40P01", "deadlock detected"}
	errUnique        = &stateError{"23505", "duplicate key"}
	errShutdown      = &stateError{"57P01", "terminating connection"}
	errOpaque        = errors.New("not enough money")
)

// A panicker is an error with one method that panics.
type panicker struct{ in string }

func (e panicker) method(name string) {
	if e.in == name {
		panic("bug in " + name)
	}
}

func (e panicker) Error() string     { e.method("Error"); return "fine" }
func (e panicker) SQLState() string  { e.method("SQLState"); return "40001" }
func (e panicker) SafeToRetry() bool { e.method("SafeToRetry"); return true }
func (e panicker) Is(error) bool     { e.method("Is"); return false }
func (e panicker) As(any) bool       { e.method("As"); return false }
func (e panicker) Unwrap() error     { e.method("Unwrap"); return nil }
