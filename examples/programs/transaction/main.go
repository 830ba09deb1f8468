// Transaction moves money between two accounts in two transactions that
// collide: both read both balances before either writes. The database aborts one
// of them, retrysql.Tx retries it, and no money is lost. The policy needs no
// RetryIf, because retrysql knows the errors of PostgreSQL and of SQLite.
//
//	go run .
//	DATABASE_URL=postgres://user:password@localhost/database go run .
//
// Without DATABASE_URL it uses SQLite in a temporary file. It prints the
// schedule, each event, and the balances. If the balances are wrong, it exits with
// status 1.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Getenv("DATABASE_URL"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "transaction:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, url string) (err error) {
	b, err := openBank(url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.create(ctx); err != nil {
		return err
	}

	policy := retry.Policy{
		MaxAttempts:    6,
		Backoff:        retry.Exponential{Base: 20 * time.Millisecond},
		MaxDelay:       200 * time.Millisecond,
		Jitter:         retry.EqualJitter,
		AttemptTimeout: 5 * time.Second,
	}
	fmt.Fprintf(out, "%v\n%v\n\n", policy, policy.Plan(-1))

	alice := payment{from: 1, to: 2, amount: 30, payer: "alice"}
	bob := payment{from: 2, to: 1, amount: 10, payer: "bob"}
	attempts, err := payBoth(ctx, out, b, policy, alice, bob)
	if err != nil {
		return err
	}

	balances, err := b.read(ctx, b.db)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nalice has %d, bob has %d, together %d\n", balances[0], balances[1], balances[0]+balances[1])
	return check(balances, attempts)
}

type payment struct {
	from, to, amount int
	payer            string
}

// payBoth makes the payments at the same time and returns how many attempts that
// took.
func payBoth(ctx context.Context, out io.Writer, b *bank, policy retry.Policy, payments ...payment) (attempts int, err error) {
	var mu sync.Mutex // guards out and attempts
	var calls sync.WaitGroup
	errs := make([]error, len(payments))
	meet := meeting(len(payments))
	for i, p := range payments {
		policy := policy
		policy.OnEvent = func(_ context.Context, e retry.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == retry.AttemptStarted {
				attempts++
			}
			fmt.Fprintf(out, "%-5s  %s\n", p.payer, describe(e))
		}
		calls.Go(func() {
			errs[i] = retrysql.Tx(ctx, b.db, b.opts, policy, func(ctx context.Context, tx *sql.Tx) error {
				return b.pay(ctx, tx, p, meet)
			})
		})
	}
	calls.Wait()
	return attempts, errors.Join(errs...)
}

// meeting returns a function whose first n callers wait for each other. Later
// callers do not wait.
func meeting(n int) func(context.Context) error {
	var arrived atomic.Int64
	all := make(chan struct{})
	return func(ctx context.Context) error {
		if arrived.Add(1) == int64(n) {
			close(all)
		}
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func describe(e retry.Event) string {
	switch e.Kind {
	case retry.AttemptStarted:
		return fmt.Sprintf("attempt %d of %d", e.Attempt, e.Max)
	case retry.AttemptFinished:
		if e.Err == nil {
			return fmt.Sprintf("attempt %d committed after %v", e.Attempt, e.Took.Round(time.Microsecond))
		}
		return fmt.Sprintf("attempt %d failed: %v", e.Attempt, e.Err)
	case retry.RetryScheduled:
		return fmt.Sprintf("again in %v", e.Delay.Round(time.Microsecond))
	default:
		return fmt.Sprintf("stopped: %v", e.Reason)
	}
}

// check returns an error if the payments were not made once each, or did not
// collide.
func check(balances [2]int, attempts int) error {
	if want := [2]int{80, 120}; balances != want {
		return fmt.Errorf("the balances are %v and must be %v", balances, want)
	}
	if attempts < 3 {
		return fmt.Errorf("the payments took %d attempts: they did not collide", attempts)
	}
	return nil
}
