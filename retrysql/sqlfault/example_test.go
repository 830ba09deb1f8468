package sqlfault_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
	"github.com/goretry/retry/retrysql/sqlfault"
)

// The second commit is applied, but its answer is lost, so the program does not know its
// outcome.
func Example() {
	faults, err := sqlfault.Open("bank", "accounts", // such as "pgx" and its URL
		sqlfault.AfterCommit(nil), // the first commit passes
		sqlfault.AfterCommit(io.ErrUnexpectedEOF),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	db := sql.OpenDB(faults)
	defer db.Close()
	for range 3 {
		fmt.Println(retrysql.Tx(context.Background(), db, nil, retry.Default(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE accounts ...")
			return err
		}))
	}
	// Output:
	// <nil>
	// retry: permanent error after 1 attempt: retrysql: the transaction may or may not have been committed: unexpected EOF
	// <nil>
}

// If the answer to COMMIT is lost, a loop around the whole transaction applies
// it twice. retrysql.Tx reports that the outcome is unknown.
func Example_loop() {
	transfer := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE accounts ...")
		return err
	}
	policy := retry.Policy{MaxAttempts: 3}

	bank := &database{} // in a program, the driver's connector, such as stdlib.GetConnector(config) of pgx
	db := sql.OpenDB(sqlfault.New(bank, sqlfault.AfterCommit(io.ErrUnexpectedEOF)))
	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after the commit
		if err := transfer(ctx, tx); err != nil {
			return err
		}
		return tx.Commit() //retry:vet-ignore txretry the mistake that this example shows
	})
	fmt.Println("a loop around it: applied", bank.applied, "times,", err)

	bank = &database{}
	db = sql.OpenDB(sqlfault.New(bank, sqlfault.AfterCommit(io.ErrUnexpectedEOF)))
	err = retrysql.Tx(context.Background(), db, nil, policy, transfer)
	fmt.Println("retrysql.Tx: applied", bank.applied, "time,", err)
	// Output:
	// a loop around it: applied 2 times, <nil>
	// retrysql.Tx: applied 1 time, retry: permanent error after 1 attempt: retrysql: the transaction may or may not have been committed: unexpected EOF
}
