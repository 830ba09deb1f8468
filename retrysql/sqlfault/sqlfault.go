// Package sqlfault makes a database fail according to a script. Tests use it to check whether
// a program applies a transaction twice, and whether the program releases its connections.
//
// [Open] takes the two arguments of [sql.Open] and a script. In this script, the answer to the
// second commit is lost:
//
//	faults, err := sqlfault.Open("pgx", url,
//		sqlfault.AfterCommit(nil),    // the first commit passes
//		sqlfault.AfterCommit(io.EOF), // the second commit is applied, and its answer is lost
//	)
//	db := sql.OpenDB(faults)
//
// [New] wraps a connector of the driver, such as the result of pgx's stdlib.GetConnector or
// of mysql.NewConnector. The faults of a script are used one after the other. Each fault is
// for one kind of call, such as a commit. The first fault decides the result of the next
// call of this kind. After this call, the second fault decides the result of the next call
// of the second fault's kind, and so on. All other calls reach the database unchanged:
//
//	faults := sqlfault.New(connector,
//		sqlfault.Begin(driver.ErrBadConn), // the first transaction cannot begin
//		sqlfault.Exec(nil),                // the next statement passes
//		sqlfault.Exec(deadlock),           // the statement after it fails
//		sqlfault.BeforeCommit(io.EOF),     // the next commit fails, and nothing is applied
//		sqlfault.AfterCommit(io.EOF),      // the commit after it is applied, its answer is lost
//	)
//
// At the end of the test, [Connector.Left] returns how many faults were not used, and
// db.Stats().InUse is above 0 if a transaction or its rows were left open. Do not use this
// package in production.
package sqlfault

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"slices"
	"sync"
)

// A Fault decides the result of one call of its kind, such as a commit. The call fails with the
// error of the Fault. If the error is nil, the call reaches the database unchanged.
type Fault struct {
	kind kind
	err  error
}

type kind uint8

const (
	begin kind = iota
	exec
	beforeCommit
	afterCommit
)

// Begin returns a Fault of a call that begins a transaction. If err is not nil, no transaction has
// begun. If err is driver.ErrBadConn, database/sql itself tries to begin the transaction again, up
// to three times in all.
func Begin(err error) Fault { return Fault{begin, err} }

// Exec returns a Fault of a statement, prepared or not, with or without rows. If err is not nil,
// the statement is not executed. Earlier statements of the transaction stay in effect until the
// transaction is rolled back.
//
// The statements that retrysql.Tx itself sends use up faults of Exec too. With
// go-sql-driver/mysql, retrysql.Tx sends SAVEPOINT before the first statement of the function,
// and one or two statements after the last.
func Exec(err error) Fault { return Fault{exec, err} }

// BeforeCommit returns a Fault of a commit. If err is not nil, the transaction is rolled back.
func BeforeCommit(err error) Fault { return Fault{beforeCommit, err} }

// AfterCommit returns a Fault of a commit. If err is not nil, the transaction is committed, and
// then the caller gets err nevertheless. If the database itself refuses the commit, the caller gets
// the error of the database.
func AfterCommit(err error) Fault { return Fault{afterCommit, err} }

// A Connector is a driver.Connector whose calls fail according to a script. It is safe for
// concurrent use: calls take the faults in the order in which the calls arrive. The function
// that you give to [sql.Conn.Raw] gets a connection of this package, not of the driver.
type Connector struct {
	base driver.Connector

	mu     sync.Mutex
	script []Fault // the faults that have not been used yet
}

// New returns a Connector that passes calls to base, except calls that fail according to the
// script.
func New(base driver.Connector, script ...Fault) *Connector {
	return &Connector{base: base, script: slices.Clone(script)}
}

// Open is like [New], but it takes a driver name and a data source name, as [sql.Open] does, and
// not a connector.
func Open(driverName, dataSourceName string, script ...Fault) (*Connector, error) {
	db, err := sql.Open(driverName, dataSourceName)
	if err != nil {
		return nil, err
	}
	d := db.Driver()
	if err := db.Close(); err != nil {
		return nil, err
	}
	if d, ok := d.(driver.DriverContext); ok {
		base, err := d.OpenConnector(dataSourceName)
		if err != nil {
			return nil, err
		}
		return New(base, script...), nil
	}
	return New(named{d, dataSourceName}, script...), nil
}

// A named is a connector for a driver that does not implement driver.DriverContext.
type named struct {
	driver driver.Driver
	name   string
}

func (n named) Connect(context.Context) (driver.Conn, error) { return n.driver.Open(n.name) }
func (n named) Driver() driver.Driver                        { return n.driver }

// Left returns how many faults of the script have not been used yet.
func (c *Connector) Left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.script)
}

// Connect opens a connection with the connector that was passed to [New].
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	base, err := c.base.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{base, c}, nil
}

// Driver returns the driver of the connector that was passed to [New].
func (c *Connector) Driver() driver.Driver { return c.base.Driver() }

// Close closes the connector that was passed to [New], if this connector has a method Close.
// [sql.DB.Close] calls Close.
func (c *Connector) Close() error {
	if base, ok := c.base.(io.Closer); ok {
		return base.Close()
	}
	return nil
}

// If the first fault of the script is of one of these kinds, next removes this fault from the
// script and returns it.
func (c *Connector) next(kinds ...kind) (f Fault, taken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.script) == 0 || !slices.Contains(kinds, c.script[0].kind) {
		return Fault{}, false
	}
	f, c.script = c.script[0], c.script[1:]
	return f, true
}

// statement executes a statement, unless the script makes it fail.
func statement[T any](c *Connector, execute func() (T, error)) (result T, err error) {
	f, taken := c.next(exec)
	if f.err != nil {
		return result, f.err
	}
	result, err = execute()
	if taken && err == driver.ErrSkip { // database/sql will prepare the statement and call again
		c.mu.Lock()
		defer c.mu.Unlock()
		c.script = slices.Insert(c.script, 0, f)
	}
	return result, err
}
