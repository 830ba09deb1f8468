package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A step is what the fake server does for a begin, a statement, a commit or a
// rollback; nil succeeds. Its context is that of the transaction or the
// statement.
type step func(context.Context) error

func fails(err error) step { return func(context.Context) error { return err } }

// hangs returns the context's error when the context ends.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A scene says how the server handles one transaction.
type scene struct{ begin, exec, commit, rollback step }

// A server is a database whose transactions run one after another. The n-th
// transaction has the n-th scene, and all later ones succeed.
type server struct {
	mu     sync.Mutex
	scenes []scene
	log    []string // the operations in order
}

func (s *server) next() scene {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.scenes) == 0 {
		return scene{}
	}
	first := s.scenes[0]
	s.scenes = s.scenes[1:]
	return first
}

func (s *server) do(what string, ctx context.Context, step step) error {
	s.mu.Lock()
	s.log = append(s.log, what)
	s.mu.Unlock()
	if step == nil {
		return nil
	}
	return step(ctx)
}

// asked returns the operations of the server in order.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...)
}

// open returns a database with these scenes. When the test ends, no transaction
// may be open.
func open(t testing.TB, scenes ...scene) (*sql.DB, *server) {
	s := &server{scenes: scenes}
	db := sql.OpenDB(connector{s})
	t.Cleanup(func() { closeDB(t, db) })
	return db, s
}

func closeDB(t testing.TB, db *sql.DB) {
	assert.Zero(t, db.Stats().InUse, "connections still in use")
	assert.NoError(t, db.Close())
}

type connector struct{ server *server }

func (c connector) Connect(context.Context) (driver.Conn, error) { return &conn{server: c.server}, nil }
func (c connector) Driver() driver.Driver                        { return nil }

type conn struct {
	server *server
	scene  scene
	ctx    context.Context // of the transaction
}

func (c *conn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	c.scene, c.ctx = c.server.next(), ctx
	if err := c.server.do("begin", ctx, c.scene.begin); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *conn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), c.server.do(query, ctx, c.scene.exec)
}

func (c *conn) Commit() error   { return c.server.do("commit", c.ctx, c.scene.commit) }
func (c *conn) Rollback() error { return c.server.do("rollback", c.ctx, c.scene.rollback) }
func (c *conn) Close() error    { return nil }

func (c *conn) Begin() (driver.Tx, error)           { return nil, errors.New("BeginTx is there") }
func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("ExecContext is there") }

// A stateError is like the errors of the drivers for PostgreSQL. As a nil
// pointer it panics, as theirs do.
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
	errResolution    = &stateError{"08007", "transaction resolution unknown"}
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

type hintPanicker struct{}

func (hintPanicker) Error() string             { return "not now" }
func (hintPanicker) RetryAfter() time.Duration { panic("bug in RetryAfter") }

var panickers = []string{"Error", "SQLState", "Is", "As", "Unwrap"}
