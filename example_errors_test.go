package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

// These are the error texts, one for each Reason.
func ExampleError() {
	refused := errors.New("dial tcp: connection refused")
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute)}
	with := func(change func(*retry.Policy)) retry.Policy {
		p := policy
		change(&p)
		return p
	}
	print := func(ctx context.Context, p retry.Policy, fail error) {
		fmt.Println(retry.Do(ctx, retrytest.NoWait(p), func(context.Context) error { return fail }))
	}
	ctx := context.Background()
	canceled, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("the server shuts down"))
	passed, cancelPassed := context.WithDeadline(ctx, time.Now())
	defer cancelPassed()

	print(ctx, policy, refused)
	print(ctx, retry.Policy{}, refused)
	print(ctx, with(func(p *retry.Policy) { p.NonRetryable = true }), refused)
	print(ctx, policy, retry.Permanent(refused))
	print(ctx, with(func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } }), refused)
	print(ctx, policy, retry.After(time.Hour, refused))
	print(ctx, with(func(p *retry.Policy) { p.MaxElapsed = 90 * time.Second }), refused)
	print(passed, policy, refused)
	print(canceled, policy, refused)
	print(retry.WithBudget(ctx, &retry.Budget{}), policy, refused)
	print(ctx, with(func(p *retry.Policy) { p.MaxAttempts = -3 }), refused)
	fmt.Println(retry.Do(ctx, policy, nil))

	// Output:
	// retry: attempts exhausted after 3 attempts (2m0s waited): dial tcp: connection refused
	// retry: gave up after 1 attempt (no limit is set, so there is no retry): dial tcp: connection refused
	// retry: not retryable after 1 attempt: dial tcp: connection refused
	// retry: permanent error after 1 attempt: dial tcp: connection refused
	// retry: rejected by RetryIf after 1 attempt: dial tcp: connection refused
	// retry: gave up after 1 attempt (Retry-After is 1h0m0s, MaxRetryAfter is 1m0s): dial tcp: connection refused
	// retry: out of time after 2 attempts (1m0s waited, the next delay of 1m0s would exceed MaxElapsed 1m30s): dial tcp: connection refused
	// retry: deadline exceeded before the first attempt (context deadline exceeded)
	// retry: canceled before the first attempt (context canceled: the server shuts down)
	// retry: retry budget exhausted after 1 attempt (a retry would have waited 1m0s): dial tcp: connection refused
	// retry: invalid policy after 1 attempt (MaxAttempts is -3: write how many, 0 for not set, or -1 for unlimited): dial tcp: connection refused
	// retry: invalid call before the first attempt (nil function)
}

// errors.As finds the Error, which contains the details of the call.
func ExampleError_as() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Millisecond}}
	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		return errors.New("connection refused")
	})

	var e *retry.Error
	if errors.As(err, &e) {
		fmt.Println("reason:", e.Reason)
		fmt.Println("attempts:", e.Attempts)
		fmt.Println("waited:", e.Waited)
		fmt.Println("last error:", e.Err)
	}
	// Output:
	// reason: attempts_exhausted
	// attempts: 3
	// waited: 3ms
	// last error: connection refused
}

// A shutdown ends a wait at once. The error contains the reason for stopping, the cause of the
// cancellation, and the error of the last attempt.
func ExampleReasonOf() {
	errRefused := errors.New("connection refused")
	errShutdown := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(context.Background())

	policy := retry.Policy{
		MaxAttempts: 5,
		Backoff:     retry.Fixed(time.Hour),
		OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				cancel(errShutdown)
			}
		},
	}
	err := retry.Do(ctx, policy, func(ctx context.Context) error { return errRefused })

	switch retry.ReasonOf(err) {
	case retry.ReasonCanceled, retry.ReasonDeadline:
		fmt.Println("interrupted:", errors.Is(err, context.Canceled), errors.Is(err, errShutdown), errors.Is(err, errRefused))
	default:
		fmt.Println("failed:", err)
	}
	fmt.Println(err)
	// Output:
	// interrupted: true true true
	// retry: canceled after 1 attempt (the next delay is 1h0m0s, context canceled: shutting down): connection refused
}

// Unwrap is for code that compares an error with == or switches on its type. Both fail while
// the error is inside an Error.
func ExampleUnwrap() {
	policy := retry.Policy{MaxAttempts: 2}
	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		return io.EOF
	})
	fmt.Println(err)
	fmt.Println(err == io.EOF)

	err = retry.Unwrap(err)
	fmt.Println(err)
	fmt.Println(err == io.EOF)
	// Output:
	// retry: attempts exhausted after 2 attempts: EOF
	// false
	// EOF
	// true
}

// Permanent stops the call at this failure, whatever the policy allows.
func ExamplePermanent() {
	policy := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second)}
	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		return retry.Permanent(errors.New("no such user"))
	})
	fmt.Println(err)
	// Output: retry: permanent error after 1 attempt: no such user
}

// A server can ask for a wait. A wait longer than MaxRetryAfter ends the call.
func ExampleAfter() {
	policy := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second), MaxRetryAfter: 2 * time.Minute}
	for _, wait := range []time.Duration{30 * time.Second, time.Hour} {
		err := retry.After(wait, errors.New("503 Service Unavailable"))
		d := policy.Next(retry.Attempt{Number: 1, Err: err})
		fmt.Println(d.Reason, d.Delay)
	}
	// Output:
	// retry 30s
	// retry_after_too_long 1h0m0s
}

// A queue checks whether an error is Permanent before it runs a job again.
func ExampleIsPermanent() {
	noUser := fmt.Errorf("charge: %w", retry.Permanent(errors.New("no such user")))
	fmt.Println(retry.IsPermanent(noUser), retry.IsPermanent(io.EOF))
	// Output: true false
}

// RetryAfterOf returns how long a server has asked its clients to wait.
func ExampleRetryAfterOf() {
	busy := fmt.Errorf("search: %w", retry.After(30*time.Second, errors.New("429 Too Many Requests")))
	fmt.Println(retry.RetryAfterOf(busy), retry.RetryAfterOf(io.EOF))
	// Output: 30s 0s
}
