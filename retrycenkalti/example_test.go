package retrycenkalti_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrycenkalti"
)

// Convert the BackOff that a program has, and set a limit on attempts.
func ExamplePolicy() {
	b := backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(time.Minute))

	p, err := retrycenkalti.Policy(b)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p)

	p.MaxAttempts = 3 + 1 // was backoff.WithMaxRetries(b, 3)
	fmt.Println(p)
	// Output:
	// unlimited attempts, exponential 500ms x1.5, at most 1m0s, ±50%, within 1m0s
	// 4 attempts, exponential 500ms x1.5, at most 1m0s, ±50%, within 1m0s
}

// connect stands for code that takes a BackOff.
func connect(dial func() error, b backoff.BackOff) error {
	return backoff.RetryNotify(dial, b, func(err error, d time.Duration) { fmt.Println(err, "- again in", d) })
}

// Code that takes a BackOff can follow a policy. With Observe, the errors count too.
func ExampleNew() {
	b, err := retrycenkalti.New(retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(10 * time.Millisecond)})
	if err != nil {
		fmt.Println(err)
		return
	}
	answers := []error{errors.New("timeout"), retry.After(20*time.Millisecond, errors.New("busy")), retry.Permanent(errors.New("no such user"))}
	err = connect(func() error {
		answer := answers[0]
		answers = answers[1:]
		return b.Observe(answer)
	}, b)
	fmt.Println(err)
	// Output:
	// timeout - again in 10ms
	// busy - again in 20ms
	// no such user
}

// An operation that was written for v4 keeps its backoff.Permanent.
func ExampleTranslate() {
	login := func() error { return backoff.Permanent(errors.New("wrong password")) }

	err := retry.Do(context.Background(), retry.Default(), func(context.Context) error {
		return retrycenkalti.Translate(login())
	})
	fmt.Println(err)
	// Output:
	// retry: permanent error after 1 attempt: wrong password
}
