package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

func ExampleTx() {
	ctx := context.Background()
	db := bank() // a program calls sql.Open("pgx", ...); here the first transaction conflicts with another one
	defer db.Close()

	p := retry.Policy{
		MaxAttempts:    5,
		Backoff:        retry.Exponential{Base: 10 * time.Millisecond},
		AttemptTimeout: 2 * time.Second,
		OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.AttemptFinished {
				fmt.Printf("attempt %d: %v\n", e.Attempt, e.Err)
			}
		},
	}
	err := retrysql.Tx(ctx, db, &sql.TxOptions{Isolation: sql.LevelSerializable}, p, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance + 10 WHERE id = 2")
		return err
	})

	var unknown *retrysql.UnknownCommitError
	switch {
	case errors.As(err, &unknown):
		fmt.Println("look whether the money has moved:", err)
	case err != nil:
		fmt.Println("nothing has moved:", err)
	default:
		fmt.Println("the money has moved")
	}
	// Output:
	// attempt 1: retrysql: commit: could not serialize access (SQLSTATE 40001)
	// attempt 2: <nil>
	// the money has moved
}

// A library with its own transactions needs one function that begins, calls body and commits. With
// pgx or GORM, this function is a single call, as the documentation of TxFunc shows. Here it is
// written out. The first COMMIT fails with a serialization failure.
func ExampleTxFunc() {
	ctx := context.Background()
	db := bank()
	defer db.Close()

	begin := func(ctx context.Context, body func(*Ledger) error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after the commit
		if err := body(&Ledger{tx}); err != nil {
			return err
		}
		return tx.Commit()
	}

	p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(10 * time.Millisecond)}
	err := retrysql.TxFunc(ctx, begin, p, func(ctx context.Context, l *Ledger) error {
		return l.Move(ctx, 1, 2, 10)
	})
	fmt.Println(err)
	// Output: <nil>
}

// A Ledger stands for the transaction type of a library.
type Ledger struct{ tx *sql.Tx }

func (l *Ledger) Move(ctx context.Context, from, to, amount int) error {
	_, err := l.tx.ExecContext(ctx, "UPDATE accounts ...", from, to, amount)
	return err
}

func bank() *sql.DB {
	return sql.OpenDB(connector{&server{scenes: failing("commit", errSerialization)}})
}

// A queue selects in SQL the jobs that it may run.
func ExampleEligible() {
	p := retry.Policy{MaxAttempts: 10}
	eligible, err := retrysql.Eligible(p, retrysql.Columns{Attempts: "attempts", MaxAttempts: "max_attempts", Retryable: "retryable"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("SELECT id FROM jobs WHERE status = 'PENDING' AND " + eligible)
	// Output:
	// SELECT id FROM jobs WHERE status = 'PENDING' AND (COALESCE(attempts, 0) <= 0 OR COALESCE(retryable, TRUE) AND CASE WHEN max_attempts > 0 THEN attempts < max_attempts AND attempts < 10 ELSE attempts < 10 END)
}

// A statement that may run twice needs no transaction.
func ExampleTransient() {
	policy := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Millisecond), RetryIf: retrysql.Transient}
	failures := []error{driver.ErrBadConn, io.ErrUnexpectedEOF, sql.ErrNoRows}
	err := retry.Do(context.Background(), policy, func(context.Context) error {
		err := failures[0]
		failures = failures[1:]
		return err
	})
	fmt.Println(err)
	// Output: retry: rejected by RetryIf after 3 attempts (2ms waited): sql: no rows in result set
}
