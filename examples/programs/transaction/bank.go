package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// A bank is a table of two accounts, 1 and 2, with 100 each.
type bank struct {
	db       *sql.DB
	opts     *sql.TxOptions
	accounts string // the table; empty while there is none
	dir      string // of SQLite's file, else empty
}

// openBank opens PostgreSQL at url, or SQLite in a temporary file. The file is not
// synced to disk, because waiting for a slow disk would look like another collision.
func openBank(url string) (*bank, error) {
	b := &bank{opts: &sql.TxOptions{Isolation: sql.LevelSerializable}}
	driver := "pgx"
	if url == "" {
		dir, err := os.MkdirTemp("", "retry-transaction-")
		if err != nil {
			return nil, err
		}
		b.dir = dir
		driver, url = "sqlite", "file:"+filepath.Join(dir, "bank.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(0)&_pragma=synchronous(OFF)"
	}
	var err error
	b.db, err = sql.Open(driver, url)
	return b, err
}

func (b *bank) create(ctx context.Context) error {
	name := "accounts_" + strings.ToLower(rand.Text())
	if _, err := b.db.ExecContext(ctx, "CREATE TABLE "+name+" (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)"); err != nil {
		return err
	}
	b.accounts = name
	_, err := b.db.ExecContext(ctx, "INSERT INTO "+name+" VALUES (1, 100), (2, 100)")
	return err
}

// close removes the table and the file.
func (b *bank) close() error {
	var dropped error
	if b.accounts != "" {
		// Not the context of the program, which may have been interrupted.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, dropped = b.db.ExecContext(ctx, "DROP TABLE "+b.accounts)
	}
	closed := b.db.Close()
	if b.dir != "" {
		closed = errors.Join(closed, os.RemoveAll(b.dir))
	}
	return errors.Join(dropped, closed)
}

// pay computes the new balances from those that it reads, so only the whole
// transaction can be retried.
func (b *bank) pay(ctx context.Context, tx *sql.Tx, p payment, meet func(context.Context) error) error {
	balances, err := b.read(ctx, tx)
	if err != nil {
		return err
	}
	if balances[p.from-1] < p.amount {
		return fmt.Errorf("account %d holds less than %d", p.from, p.amount)
	}
	if err := meet(ctx); err != nil {
		return err
	}
	balances[p.from-1] -= p.amount
	balances[p.to-1] += p.amount
	for i, balance := range balances {
		if _, err := tx.ExecContext(ctx, "UPDATE "+b.accounts+" SET balance = $1 WHERE id = $2", balance, i+1); err != nil {
			return err
		}
	}
	return nil
}

// A querier is a database or a transaction.
type querier interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}

func (b *bank) read(ctx context.Context, q querier) (balances [2]int, err error) {
	rows, err := q.QueryContext(ctx, "SELECT id, balance FROM "+b.accounts)
	if err != nil {
		return balances, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, balance int
		if err := rows.Scan(&id, &balance); err != nil {
			return balances, err
		}
		balances[id-1] = balance
	}
	return balances, rows.Err()
}
