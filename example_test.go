package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

func Example() {
	policy := retry.Policy{
		MaxAttempts: 4, // attempts in all: the first and three retries
		Backoff:     retry.Exponential{Base: 10 * time.Millisecond},
		MaxDelay:    time.Second,
		Jitter:      retry.Proportional(0.5), // ±50 %
	}
	calls := 0
	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		if calls++; calls < 3 {
			return errors.New("connection refused")
		}
		return nil
	})
	fmt.Println(calls, err)
	// Output: 3 <nil>
}

func ExampleDo() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}
	errRefused := errors.New("connection refused")

	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		return errRefused
	})
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
	calls := 0

	greeting, err := retry.DoValue(context.Background(), policy, func(ctx context.Context) (string, error) {
		if calls++; calls == 1 {
			return "", errors.New("connection refused")
		}
		return "hello", nil
	})
	fmt.Println(greeting, err)
	// Output: hello <nil>
}

// Polling retries one error, "not ready yet", and gives up at any other error.
// In this example it ends after a minute.
func ExampleDoValue_polling() {
	errNotReady := errors.New("not ready yet")
	poll := retry.Policy{
		MaxElapsed: time.Minute,
		Backoff:    retry.Fixed(10 * time.Millisecond),
		RetryIf:    func(err error) bool { return errors.Is(err, errNotReady) },
	}
	states := []string{"queued", "running", "done"}
	state, err := retry.DoValue(context.Background(), poll, func(ctx context.Context) (string, error) {
		state := states[0]
		states = states[1:]
		if state != "done" {
			return "", fmt.Errorf("the build is %s: %w", state, errNotReady)
		}
		return state, nil
	})
	fmt.Println(state, err)
	// Output: done <nil>
}

// A connection, a watch or a stream lives long before it fails. One that was up
// for HealthyAfter begins the call anew: the first delay comes first again. One
// that fails sooner is an attempt like any other, and the delays grow. Here 250ms
// stand for a minute.
func ExampleDo_reconnect() {
	reconnect := retry.Policy{
		MaxAttempts:  retry.Unlimited,
		Backoff:      retry.Exponential{Base: 10 * time.Millisecond},
		MaxDelay:     30 * time.Second,
		HealthyAfter: 250 * time.Millisecond,
		OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				fmt.Printf("attempt %d: %v, again in %v\n", e.Attempt, e.Err, e.Delay)
			}
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	// serve stands for a function that connects, and serves until the connection is
	// lost.
	lives := []time.Duration{0, 0, 250 * time.Millisecond, 0, 0}
	serve := func(ctx context.Context) error {
		time.Sleep(lives[0])
		if lives = lives[1:]; len(lives) == 0 {
			cancel() // the program shuts down
		}
		return errors.New("connection lost")
	}

	err := retry.Do(ctx, reconnect, serve) // attempts are unlimited: if Do returns an error, stop
	fmt.Println(err)
	// Output:
	// attempt 1: connection lost, again in 10ms
	// attempt 2: connection lost, again in 20ms
	// attempt 1: connection lost, again in 10ms
	// attempt 2: connection lost, again in 20ms
	// retry: canceled after 5 attempts (60ms waited, 3 from the last healthy one on, context canceled): connection lost
}

// A request that is rejected gets one more attempt with a new token. If that is
// rejected too, the token was not the reason, and a retry cannot help. A 503 in
// between changes nothing: the failures of a class with a name are counted apart.
func ExampleDo_refreshToken() {
	errUnauthorized, errUnavailable := errors.New("401 Unauthorized"), errors.New("503 Service Unavailable")
	token, requests := "old", 0
	get := func(ctx context.Context) error { // stands for a request
		requests++
		fmt.Println("GET /orders with the", token, "token")
		switch {
		case requests == 1:
			return errUnavailable
		case token == "old":
			token = "new" // stands for asking for a token
			return errUnauthorized
		default:
			return nil
		}
	}

	unauthorized := &retry.Class{Name: "unauthorized", MaxAttempts: 2}
	policy := retry.Policy{
		MaxAttempts: 4,
		Backoff:     retry.Fixed(time.Millisecond),
		Classify: func(err error) *retry.Class {
			if errors.Is(err, errUnauthorized) {
				return unauthorized
			}
			return nil
		},
	}
	fmt.Println(retry.Do(context.Background(), policy, get))
	// Output:
	// GET /orders with the old token
	// GET /orders with the old token
	// GET /orders with the new token
	// <nil>
}

// One refusal holds all callers of an API until the server's wait is over.
func ExampleGate() {
	gate := retry.Gate{OnClose: func(key string, wait time.Duration, cause error) {
		fmt.Println("all calls of", key, "wait for", wait, "because of", cause)
	}}
	answers := []error{retry.After(20*time.Millisecond, errors.New("429 Too Many Requests")), nil}
	charge := gate.Hold("billing", func(ctx context.Context) error {
		answer := answers[0] // stands for a call of the API
		answers = answers[1:]
		return answer
	})
	fmt.Println(retry.Do(context.Background(), retry.Default(), charge))
	// Output:
	// all calls of billing wait for 20ms because of 429 Too Many Requests
	// <nil>
}
