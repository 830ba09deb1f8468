package policyliteral

import (
	"context"
	"net/http"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

const tooMuch = 1.5

// Each fault is reported at the line of its field.
var faulty = retry.Policy{
	MaxAttempts: -2, // want `^MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited \[policyliteral\]$`
	AttemptCap:  -1, // want `^AttemptCap is -1: write 0 for no cap, or how many attempts it allows \[policyliteral\]$`
	Backoff: retry.Exponential{ // want `^Backoff: Exponential.Base is -1s: write 0 for no delay, or a positive duration \[policyliteral\]$` `^Backoff: Exponential.Factor is 0.5: write 0 for 2, or a finite number of at least 1 \[policyliteral\]$`
		Base:   -time.Second,
		Factor: 0.5,
	},
	MaxDelay:   -1,                          // want `^MaxDelay is -1ns: write 0 for none, or a positive duration \[policyliteral\]$`
	Jitter:     retry.Proportional(tooMuch), // want `^Jitter: Proportional is 1.5: write a share between 0 and 1: 0.2 is ±20 % \[policyliteral\]$`
	RetryAfter: "exactly",                   // want `^RetryAfter is "exactly": write RetryAfterSpread, RetryAfterAtLeast or RetryAfterExact \[policyliteral\]$`
	Budget:     &retry.Budget{Ratio: 10},    // want `^Budget.Size is 0: write how many retries it holds, at least 1 \[policyliteral\]$` `^Budget.Ratio is 10: write a share between 0 and 1: 0.1 is one retry for ten successes \[policyliteral\]$`

	HealthyAfter: time.Microsecond, // want `^HealthyAfter is 1µs: write 0 for never, or at least 1ms \[policyliteral\]$`
}

// Policies that no known call uses: only the faults of Validate are reported.
func elements(attempts int) []*retry.Policy {
	byName := map[string]retry.Policy{
		"mail": {MaxAttempts: attempts, MaxElapsed: -time.Minute}, // want `^MaxElapsed is -1m0s: `
	}
	p := byName["mail"]
	p.MaxRetries = -5 // want `^MaxRetries is -5: `
	return []*retry.Policy{&p, {
		MaxAttempts: attempts,
		Backoff: retry.Schedule{ // want `^Backoff: Schedule\[1\] is -1ns: `
			time.Second,
			-1,
		},
	}}
}

func generic[T any](ctx context.Context, load func(context.Context) (T, error)) (T, error) {
	return retry.DoValue(ctx, retry.Policy{ // want `^unlimited attempts without a Backoff: each wait is 10ms`
		MaxAttempts: retry.Unlimited,
	}, load)
}

type client struct{ ping func(context.Context) error }

func (c *client) method(ctx context.Context) error {
	return retry.Do(ctx, retry.Policy{MaxAttempts: 3}, c.ping) // want `^3 attempts without a Backoff: the attempts follow each other at once; set a Backoff, or Fixed\(0\) for no delay \[policyliteral\]$`
}

var delays = retry.Schedule{time.Second, 2 * time.Second, 3 * time.Second}

func assigned(ctx context.Context, ping func(context.Context) error) error {
	const once = 1
	p := retry.Policy{
		MaxRetries: once,
		Backoff:    delays, // want `^a Schedule of 3 delays is too long for 2 attempts: the delay of 2s and all delays after it are never used`
		RetryIf:    func(error) bool { return true },
	}
	return retry.Do(ctx, p, ping)
}

var noLimit = retry.Policy{
	Backoff: retry.Fixed(time.Second), // want `^Backoff without a limit: there is only one attempt, and no delay`
}

func once(ctx context.Context, c *client) error { return retry.Do(ctx, noLimit, c.ping) }

func classed(ctx context.Context, ping func(context.Context) error) error {
	return retry.Do(ctx, retry.Policy{
		Classify: classify, // want `^Classify without a limit: there is only one attempt, whatever a class allows; set MaxAttempts`
	}, ping)
}

func classify(error) *retry.Class {
	return &retry.Class{ // want `^Classify gives every error this Class, so a mistake in the request is retried like an outage: .*$`
		Name:        "login",
		MaxAttempts: -3,                      // want `^MaxAttempts is -3: write how many failures end the call, or 0 for no limit`
		Jitter:      retry.Proportional(1.5), // want `^Jitter: Proportional is 1.5: write a share between 0 and 1`
	}
}

func stream(ctx context.Context, c *client) error {
	return retry.Do(ctx, retry.Policy{
		MaxAttempts:    5,
		Backoff:        retry.Fixed(time.Second),
		HealthyAfter:   time.Minute,
		AttemptTimeout: 10 * time.Second, // want `^AttemptTimeout of 10s ends every attempt before HealthyAfter of 1m0s: a call never begins anew \[policyliteral\]$`
	}, c.ping)
}

func transport() *http.Client {
	return &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{
		MaxAttempts: 3,
		MaxDelay:    time.Second, // want `^MaxDelay of 1s is shorter than the first delay of 2s: it cuts even the first delay \[policyliteral\]$`
		Backoff:     retry.Linear(2 * time.Second),
		Jitter:      retry.EqualJitter,
	}}}
}

func budgeted(ctx context.Context, ping func(context.Context) error) error {
	budget := &retry.Budget{Size: 10, Ratio: 0.1, RefillEvery: time.Microsecond}
	return retry.Do(ctx, retry.Policy{
		MaxAttempts: 3,
		Backoff:     retry.Fixed(0),
		Budget:      budget, // want `^Budget.RefillEvery is 1µs: write 0 for never, or at least 1ms \[policyliteral\]$`
	}, ping)
}
