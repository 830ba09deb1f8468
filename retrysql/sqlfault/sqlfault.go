// Package sqlfault makes a database fail by a script, to test how a program
// copes with it: whether it applies a transaction twice, and whether it releases
// its connections.
//
// [Open] takes the two arguments of [sql.Open], and a script. This is a database whose
// second commit is lost:
//
//	faults, err := sqlfault.Open("pgx", url,
//		sqlfault.AfterCommit(nil),    // the first commit passes
//		sqlfault.AfterCommit(io.EOF), // the second is applied, and the answer is lost
//	)
//	db := sql.OpenDB(faults)
//
// [New] does the same for a connector of the driver, such as stdlib.GetConnector of pgx
// or mysql.NewConnector. The first fault waits for the next call of its kind, the second
// for the next one after that, and so on; calls in between pass, and once the script is
// over all do:
//
//	faults := sqlfault.New(connector,
//		sqlfault.Begin(driver.ErrBadConn),   // the first transaction cannot begin
//		sqlfault.Exec(nil),                  // one statement passes,
//		sqlfault.Exec(deadlock),             // and the next one fails
//		sqlfault.BeforeCommit(io.EOF),       // the next commit is lost, and so is the transaction
//		sqlfault.AfterCommit(io.EOF),        // the one after that is applied, and the answer is lost
//	)
//
// Afterwards [Connector.Left] tells how much of the script was not reached, and
// db.Stats().InUse whether a transaction or a result was left open. Do not use
// this package in production.
package sqlfault

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"slices"
	"sync"
)

// A Fault is what happens to one call of its kind: it fails with an error, or
// passes if that is nil.
type Fault struct {
	at  point
	err error
}

type point uint8

const (
	begin point = iota
	exec
	beforeCommit
	afterCommit
)

// Begin is for the beginning of a transaction. If it fails, none has begun.
// After driver.ErrBadConn database/sql begins again by itself, up to three
// times in all.
func Begin(err error) Fault { return Fault{begin, err} }

// Exec is for a statement, prepared or not, with or without rows. If it fails,
// it was not executed; what went before it in the transaction remains until
// that is rolled back. With go-sql-driver/mysql, retrysql.Tx also sets and releases
// a savepoint: a statement before those of the function, and one after them.
func Exec(err error) Fault { return Fault{exec, err} }

// BeforeCommit is for a commit. If it fails, the transaction was rolled back.
func BeforeCommit(err error) Fault { return Fault{beforeCommit, err} }

// AfterCommit is for a commit. If it fails, the transaction was committed
// nevertheless; where the database itself refuses that, its error is returned.
func AfterCommit(err error) Fault { return Fault{afterCommit, err} }

// A Connector is a driver.Connector whose calls fail by a script. It is safe for
// concurrent use; calls take the faults in the order in which they arrive. What
// sql.Conn's Raw gives is a connection of this package.
type Connector struct {
	base driver.Connector

	mu     sync.Mutex
	script []Fault // what is left of it
}

// New returns a Connector that passes calls to base, except as the script says.
func New(base driver.Connector, script ...Fault) *Connector {
	return &Connector{base: base, script: slices.Clone(script)}
}

// Open is [New] for a driver by the name and the data source name of
// [sql.Open].
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

// named is the connector of a driver that has none.
type named struct {
	driver driver.Driver
	name   string
}

func (n named) Connect(context.Context) (driver.Conn, error) { return n.driver.Open(n.name) }
func (n named) Driver() driver.Driver                        { return n.driver }

// Left returns how many faults of the script no call has met yet.
func (c *Connector) Left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.script)
}

// Connect connects by the base.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	base, err := c.base.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{base, c}, nil
}

// Driver returns the driver of the base.
func (c *Connector) Driver() driver.Driver { return c.base.Driver() }

// Close closes the base if that can be closed. [sql.DB.Close] calls it.
func (c *Connector) Close() error {
	if base, ok := c.base.(io.Closer); ok {
		return base.Close()
	}
	return nil
}

// next takes the first fault of the script if it is for a call at one of these
// points.
func (c *Connector) next(at ...point) (f Fault, taken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.script) == 0 || !slices.Contains(at, c.script[0].at) {
		return Fault{}, false
	}
	f, c.script = c.script[0], c.script[1:]
	return f, true
}

// statement executes a statement unless the script lets it fail.
func statement[T any](c *Connector, execute func() (T, error)) (result T, err error) {
	f, taken := c.next(exec)
	if f.err != nil {
		return result, f.err
	}
	result, err = execute()
	if taken && err == driver.ErrSkip { // database/sql prepares it and comes back
		c.mu.Lock()
		defer c.mu.Unlock()
		c.script = slices.Insert(c.script, 0, f)
	}
	return result, err
}
