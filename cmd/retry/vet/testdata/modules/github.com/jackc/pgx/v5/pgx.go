// Package pgx has the names of the real one that the checks know.
package pgx

import "context"

type Tx interface {
	Begin(ctx context.Context) (Tx, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
	Exec(ctx context.Context, sql string, args ...any) error
}

type Beginner interface {
	Begin(ctx context.Context) (Tx, error)
}

type TxAccessMode string

const ReadOnly TxAccessMode = "read only"

type TxOptions struct{ AccessMode TxAccessMode }

type Conn struct{}

func (*Conn) Begin(ctx context.Context) (Tx, error)                                   { return nil, nil }
func (*Conn) BeginTx(ctx context.Context, options TxOptions) (Tx, error)              { return nil, nil }
func (*Conn) Exec(ctx context.Context, sql string, args ...any) error                 { return nil }
func BeginFunc(ctx context.Context, db Beginner, fn func(Tx) error) error             { return nil }
func BeginTxFunc(ctx context.Context, db *Conn, o TxOptions, fn func(Tx) error) error { return nil }
