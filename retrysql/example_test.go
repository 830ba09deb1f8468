package retrysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

func ExampleTx() {
	ctx := context.Background()
	db := bank() // sql.Open("pgx", ...), here one whose first transaction meets another
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

func bank() *sql.DB {
	return sql.OpenDB(connector{&server{scenes: []scene{{commit: fails(errSerialization)}}}})
}

// A queue asks the database for the jobs that it may run.
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
