package retrytest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

// t stands for the *testing.T of a test function. It prints the reported failures.
var t testing.TB = printer{}

type printer struct{ testing.TB }

func (printer) Helper() {}

func (printer) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// In a test function, pass the *testing.T as t. Two rows are wrong on purpose, and the failure
// lists both.
func ExampleTable() {
	policy := retry.Policy{
		MaxAttempts: 3,
		Backoff:     retry.Exponential{Base: time.Second},
		Jitter:      retry.Proportional(0.1),
	}
	down := errors.New("connection refused")

	retrytest.Table(t, policy, []retrytest.Row{
		{Attempts: 0, Eligible: true},
		{Attempts: 1, Eligible: true, Lo: 900 * time.Millisecond, Hi: 1100 * time.Millisecond},
		{Attempts: 1, Eligible: true, Err: retry.Permanent(down), Reason: retry.ReasonPermanent},
		{Attempts: 1, Eligible: true, Err: retry.After(time.Hour, down), Reason: retry.ReasonRetryAfter},
		{Attempts: 3, Eligible: false, Reason: retry.ReasonExhausted},
		{Attempts: 3, Eligible: true},
		{Attempts: 1, Eligible: true, Delay: time.Second},
	})
	// Output:
	// retrytest: 3 attempts, exponential 1s x2, ±10%
	//     rows[5], after 3 attempts: eligible is false, want true, reason is attempts_exhausted, want retry
	//     rows[6], after 1 attempt: delay is 900ms to 1.1s, want 1s
}

// In a test function, pass the *testing.T as t. The schedule is wrong on purpose.
func ExampleSchedule() {
	policy := retry.Policy{MaxRetries: 3, Backoff: retry.Linear(time.Minute)}

	retrytest.Schedule(t, policy, time.Minute, 2*time.Minute, 3*time.Minute)
	retrytest.Schedule(t, policy, time.Minute, 2*time.Minute)
	// Output:
	// retrytest: 4 attempts, linear 1m0s
	//     waits 1m0s -> 2m0s -> 3m0s, then stops: attempts_exhausted
	//     want  1m0s -> 2m0s
}

func ExampleNoWait() {
	policy := retry.Policy{
		Backoff:    retry.Exponential{Base: time.Second},
		MaxDelay:   10 * time.Minute,
		MaxElapsed: time.Hour,
	}
	op := retrytest.NewOp(errors.New("connection refused"))

	err := retry.Do(context.Background(), retrytest.NoWait(policy), op.Run)
	fmt.Println(op.Attempts(), "attempts in no time:", retry.ReasonOf(err))
	// Output:
	// 15 attempts in no time: elapsed
}

func ExampleNewOp() {
	down := errors.New("connection refused")
	op := retrytest.NewOp(down, down, nil)

	err := retry.Do(context.Background(), retrytest.NoWait(retry.Default()), op.Run)
	fmt.Println(op.Attempts(), err)
	// Output:
	// 3 <nil>
}

func ExampleValue() {
	op := retrytest.NewOp(errors.New("connection refused"), nil)
	fetch := retrytest.Value(op, "hello")

	text, err := retry.DoValue(context.Background(), retrytest.NoWait(retry.Default()), fetch)
	fmt.Println(op.Attempts(), text, err)
	// Output:
	// 2 hello <nil>
}

// In a test function, pass the *testing.T as t. The Backoff overflows for large attempts.
func ExampleTestBackoff() {
	squares := retry.BackoffFunc(func(attempt int) time.Duration {
		return time.Duration(attempt) * time.Duration(attempt) * time.Second
	})

	retrytest.TestBackoff(t, squares)
	// Output:
	// retrytest: retry.BackoffFunc: Delay(2147483646) is -2386092h56m28s: it must not be negative
}
