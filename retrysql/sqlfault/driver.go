package sqlfault

import (
	"context"
	"database/sql/driver"
	"errors"
)

// The types `conn`, `stmt` and `tx` pass all calls to the types of the driver. If a type of the
// driver lacks an optional method, `conn` and `stmt` return driver.ErrSkip or call the older
// method, as database/sql would do.

type conn struct {
	driver.Conn
	c *Connector
}

var (
	_ driver.ConnBeginTx        = (*conn)(nil)
	_ driver.ConnPrepareContext = (*conn)(nil)
	_ driver.ExecerContext      = (*conn)(nil)
	_ driver.QueryerContext     = (*conn)(nil)
	_ driver.NamedValueChecker  = (*conn)(nil)
	_ driver.Pinger             = (*conn)(nil)
	_ driver.SessionResetter    = (*conn)(nil)
	_ driver.Validator          = (*conn)(nil)
)

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if f, _ := c.c.next(begin); f.err != nil {
		return nil, f.err
	}
	base, err := c.begin(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &tx{base, c.c}, nil
}

func (c *conn) begin(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if base, ok := c.Conn.(driver.ConnBeginTx); ok {
		return base.BeginTx(ctx, opts)
	}
	if opts != (driver.TxOptions{}) {
		return nil, errors.New("sqlfault: the driver supports neither an isolation level " +
			"nor read-only transactions")
	}
	//lint:ignore SA1019 the driver has no other
	base, err := c.Conn.Begin()
	if err == nil && ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), base.Rollback())
	}
	return base, err
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	base, err := c.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return &stmt{base, c}, nil
}

func (c *conn) prepare(ctx context.Context, query string) (driver.Stmt, error) {
	if base, ok := c.Conn.(driver.ConnPrepareContext); ok {
		return base.PrepareContext(ctx, query)
	}
	base, err := c.Conn.Prepare(query)
	if err == nil && ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), base.Close())
	}
	return base, err
}

func (c *conn) ExecContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Result, error) {
	if base, ok := c.Conn.(driver.ExecerContext); ok {
		return statement(c.c, func() (driver.Result, error) {
			return base.ExecContext(ctx, query, args)
		})
	}
	return nil, driver.ErrSkip
}

func (c *conn) QueryContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Rows, error) {
	if base, ok := c.Conn.(driver.QueryerContext); ok {
		return statement(c.c, func() (driver.Rows, error) {
			return base.QueryContext(ctx, query, args)
		})
	}
	return nil, driver.ErrSkip
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if base, ok := c.Conn.(driver.NamedValueChecker); ok {
		return base.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *conn) Ping(ctx context.Context) error {
	if base, ok := c.Conn.(driver.Pinger); ok {
		return base.Ping(ctx)
	}
	return nil
}

func (c *conn) ResetSession(ctx context.Context) error {
	if base, ok := c.Conn.(driver.SessionResetter); ok {
		return base.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	if base, ok := c.Conn.(driver.Validator); ok {
		return base.IsValid()
	}
	return true
}

type stmt struct {
	driver.Stmt
	conn *conn
}

var (
	_ driver.StmtExecContext   = (*stmt)(nil)
	_ driver.StmtQueryContext  = (*stmt)(nil)
	_ driver.NamedValueChecker = (*stmt)(nil)
)

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return statement(s.conn.c, func() (driver.Result, error) {
		if base, ok := s.Stmt.(driver.StmtExecContext); ok {
			return base.ExecContext(ctx, args)
		}
		plain, err := values(ctx, args)
		if err != nil {
			return nil, err
		}
		//lint:ignore SA1019 the driver has no other
		return s.Stmt.Exec(plain)
	})
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return statement(s.conn.c, func() (driver.Rows, error) {
		if base, ok := s.Stmt.(driver.StmtQueryContext); ok {
			return base.QueryContext(ctx, args)
		}
		plain, err := values(ctx, args)
		if err != nil {
			return nil, err
		}
		//lint:ignore SA1019 the driver has no other
		return s.Stmt.Query(plain)
	})
}

// The function values returns the values of args. It is for a driver whose methods take neither a
// context nor named arguments. It returns an error if ctx is done or if an argument has a name.
func values(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	plain := make([]driver.Value, len(args))
	for i, arg := range args {
		if arg.Name != "" {
			return nil, errors.New("sqlfault: the driver does not support named arguments")
		}
		plain[i] = arg.Value
	}
	return plain, nil
}

func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if base, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return base.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}

type tx struct {
	base driver.Tx
	c    *Connector
}

func (t *tx) Commit() error {
	f, _ := t.c.next(beforeCommit, afterCommit)
	if f.err == nil {
		return t.base.Commit()
	}
	if f.kind == beforeCommit {
		if err := t.base.Rollback(); err != nil {
			return errors.Join(f.err, err)
		}
		return f.err
	}
	if err := t.base.Commit(); err != nil {
		return err
	}
	return f.err
}

func (t *tx) Rollback() error { return t.base.Rollback() }
