package retry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
)

var errRefused = errors.New("connection refused")

// failing returns a function that fails as often as it is told, and then
// succeeds.
func failing(times int, err error) func(context.Context) error {
	return func(context.Context) error {
		if times--; times >= 0 {
			return err
		}
		return nil
	}
}

func ExampleDo() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}
	err := retry.Do(context.Background(), policy, failing(5, errRefused))

	fmt.Println(err)
	fmt.Println(retry.ReasonOf(err))
	fmt.Println(errors.Is(err, errRefused))
	// Output:
	// retry: attempts exhausted after 3 attempts (2ms waited): connection refused
	// attempts_exhausted
	// true
}

func ExampleDoValue() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}
	dial := failing(1, errRefused)
	greeting, err := retry.DoValue(context.Background(), policy, func(ctx context.Context) (string, error) {
		if err := dial(ctx); err != nil {
			return "", err
		}
		return "hello", nil
	})
	fmt.Println(greeting, err)
	// Output: hello <nil>
}

// The body of a Loop may return any number of results, and leave as it likes.
func ExampleLoop() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}
	dial := failing(1, errRefused)

	var err error
	for attempt, ctx := range retry.Loop(context.Background(), policy, &err) {
		err = dial(ctx) // assign it with =, for := would declare another
		fmt.Println("attempt", attempt, err)
	}
	if err != nil {
		fmt.Println("gave up:", err)
		return
	}
	fmt.Println("connected")
	// Output:
	// attempt 1 connection refused
	// attempt 2 <nil>
	// connected
}

// A policy is a value: copy it and set what differs.
func ExamplePolicy_derived() {
	base := retry.Default()

	search := base
	search.MaxElapsed = 2 * time.Second

	payment := base
	payment.NonRetryable = true

	fmt.Println(base)
	fmt.Println(search)
	fmt.Println(payment)
	// Output:
	// 5 attempts, exponential 200ms x2, at most 5s, ±20%
	// 5 attempts, exponential 200ms x2, at most 5s, ±20%, within 2s
	// 1 attempt, exponential 200ms x2, at most 5s, ±20%
}

// All calls to one target share one budget: while it is down they make, beyond
// the first executions, no more retries than the bucket holds.
func ExampleBudget() {
	policy := retry.Policy{MaxAttempts: 4, Budget: retry.NewBudget(5, 0.1)}

	calls := 0
	var err error
	for range 100 {
		err = retry.Do(context.Background(), policy, func(context.Context) error {
			calls++
			return errRefused
		})
	}
	fmt.Println(calls, "executions of 100 calls")
	fmt.Println(err)
	// Output:
	// 105 executions of 100 calls
	// retry: budget exhausted after 1 attempt: connection refused
}

// A server that is throttled is given more time than one that is restarted.
func ExamplePolicy_select() {
	errThrottled := errors.New("429 Too Many Requests")
	throttled := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(30 * time.Second)}
	policy := retry.Policy{
		MaxAttempts: 5,
		Backoff:     retry.Fixed(time.Second),
		Select: func(err error) *retry.Policy {
			if errors.Is(err, errThrottled) {
				return &throttled
			}
			return nil // as the policy itself says
		},
	}
	for attempt := 2; attempt <= 3; attempt++ {
		for _, err := range []error{errRefused, errThrottled} {
			d := policy.Next(retry.Attempt{Number: attempt, Err: err})
			fmt.Println(attempt, err, "->", d.Reason, d.Delay)
		}
	}
	// Output:
	// 2 connection refused -> retry 1s
	// 2 429 Too Many Requests -> retry 30s
	// 3 connection refused -> retry 1s
	// 3 429 Too Many Requests -> attempts_exhausted 30s
}

// A job queue keeps the count in a row and asks the policy what follows. The
// seed is the job's own, so that any worker computes the same delay.
func ExamplePolicy_Next() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{5 * time.Minute, 15 * time.Minute}, Jitter: retry.Proportional(0.1)}
	job := struct {
		ID       string
		Attempts int
	}{ID: "invoice-17"}

	for {
		job.Attempts++ // when the job is claimed, so that a crash counts
		d := policy.Next(retry.Attempt{Number: job.Attempts, Err: errRefused, Seed: retry.SeedOf(job.ID)})
		if !d.Retry() {
			fmt.Println("dead letter after", job.Attempts, "attempts:", d.Reason)
			break
		}
		fmt.Println("run again in", d.Delay.Round(time.Second))
	}
	// Output:
	// run again in 5m15s
	// run again in 14m5s
	// dead letter after 3 attempts: attempts_exhausted
}

// Polling is a retry of "not ready yet".
func ExampleDoValue_polling() {
	errNotReady := errors.New("not ready yet")
	poll := retry.Policy{
		MaxRetries: retry.Unlimited,
		MaxElapsed: time.Minute,
		Backoff:    retry.Fixed(time.Millisecond),
		RetryIf:    func(err error) bool { return errors.Is(err, errNotReady) },
	}
	build := failing(3, errNotReady)
	state, err := retry.DoValue(context.Background(), poll, func(ctx context.Context) (string, error) {
		if err := build(ctx); err != nil {
			return "", err
		}
		return "built", nil
	})
	fmt.Println(state, err)
	// Output: built <nil>
}

// A shutdown ends the sleep at once. The error knows why the call stopped, and
// what it had failed with.
func ExampleReasonOf() {
	errShutdown := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(5*time.Millisecond, func() { cancel(errShutdown) })

	policy := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Hour)}
	err := retry.Do(ctx, policy, failing(5, errRefused))

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

// An execution that hangs is cut off and tried again.
func ExamplePolicy_attemptTimeout() {
	policy := retry.Policy{MaxAttempts: 3, AttemptTimeout: 5 * time.Millisecond}
	calls := 0
	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		if calls++; calls < 3 {
			<-ctx.Done() // hangs until it is cut off
			return ctx.Err()
		}
		return nil
	})
	fmt.Println(calls, err)
	// Output: 3 <nil>
}

// A connection that has lived is a success, so the next call of Do starts the
// schedule anew; one that never came up goes on along the schedule.
func ExampleDo_reconnect() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var waits []string
	reconnect := retry.Policy{
		MaxRetries: retry.Unlimited,
		Backoff:    retry.Exponential{Base: time.Millisecond},
		MaxDelay:   30 * time.Second,
		OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				waits = append(waits, e.Delay.String())
			}
		},
	}
	lives := []time.Duration{0, 0, time.Hour, 0, time.Hour} // of each connection
	for ctx.Err() == nil {
		err := retry.Do(ctx, reconnect, func(ctx context.Context) error {
			lived := lives[0]
			if lives = lives[1:]; len(lives) == 0 {
				cancel() // enough for an example
			}
			if lived < time.Minute {
				return errRefused // even if it came up: a server that drops us at once is not to be called at once
			}
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(strings.Join(waits, " "))
	// Output: 1ms 2ms 1ms
}

// A mark on an error speaks for this one failure.
func ExamplePermanent() {
	policy := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second)}
	err := retry.Do(context.Background(), policy, func(context.Context) error {
		return retry.Permanent(errors.New("no such user"))
	})
	fmt.Println(err)
	// Output: retry: permanent error after 1 attempt: no such user
}

// A server that says when to come back is believed, within MaxRetryAfter.
func ExampleAfter() {
	policy := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second), MaxRetryAfter: 2 * time.Minute}
	for _, wait := range []time.Duration{30 * time.Second, time.Hour} {
		d := policy.Next(retry.Attempt{Number: 1, Err: retry.After(wait, errRefused)})
		fmt.Println(d.Reason, d.Delay)
	}
	// Output:
	// retry 30s
	// retry_after_too_long 1h0m0s
}

func ExamplePolicy_Eligible() {
	policy := retry.Policy{MaxAttempts: 3}
	for attempts := range 4 {
		fmt.Println(attempts, policy.Eligible(attempts))
	}
	// Output:
	// 0 true
	// 1 true
	// 2 true
	// 3 false
}

func ExamplePolicy_Lint() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{5 * time.Minute, 15 * time.Minute, time.Hour}}
	for _, line := range policy.Lint() {
		fmt.Println(line)
	}
	// Output: a Schedule (delays) of 3 beside 3 attempts: the delay of 1h0m0s and what follows is never reached; MaxAttempts (max_attempts) counts the first execution
}
