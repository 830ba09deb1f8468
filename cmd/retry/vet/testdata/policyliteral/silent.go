package policyliteral

import (
	"context"
	"encoding/json"
	"time"

	"github.com/goretry/retry"
)

// One attempt for each call, on purpose.
func zero(ctx context.Context, ping func(context.Context) error) error {
	return retry.Do(ctx, retry.Policy{}, ping)
}

// Fields that are set later or elsewhere complete the policy.
func later(ctx context.Context, backoff retry.Backoff, ping func(context.Context) error) error {
	p := retry.Policy{MaxAttempts: 3}
	p.Backoff = backoff
	return retry.Do(ctx, p, ping)
}

func decoded(ctx context.Context, file []byte, ping func(context.Context) error) error {
	p := retry.Policy{Backoff: retry.Fixed(time.Second)}
	if err := json.Unmarshal(file, &p); err != nil {
		return err
	}
	return retry.Do(ctx, p, ping)
}

// The job sets the limit.
func job(ctx context.Context, attempts int, ping func(context.Context) error) error {
	p := retry.Policy{Backoff: retry.Fixed(time.Second)}
	return retry.Do(ctx, p.ForJob(attempts), ping)
}

// A default that users override.
type config struct{ Retry retry.Policy }

func defaults() config { return config{retry.Policy{MaxAttempts: 3}} }

func reset(c *config) { c.Retry = retry.Policy{Backoff: retry.Fixed(time.Second)} }

// Numbers from elsewhere are not known.
var flagged = 3

func unknown(ctx context.Context, attempts int, ping func(context.Context) error) error {
	p := &flagged
	*p = attempts
	return retry.Do(ctx, retry.Policy{MaxAttempts: attempts, MaxRetries: flagged, Backoff: retry.Fixed(time.Second)}, ping)
}

// A custom Backoff is not checked.
func custom(ctx context.Context, ping func(context.Context) error) error {
	return retry.Do(ctx, retry.Policy{MaxAttempts: -1, Backoff: retry.BackoffFunc(func(int) time.Duration { return 0 })}, ping)
}

// Fields that are set later complete the budget.
func budgets(ctx context.Context, size int, ping func(context.Context) error) error {
	budget := &retry.Budget{Ratio: 0.1}
	budget.Size = size
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Budget: budget}
	if err := retry.Do(ctx, p, ping); err != nil {
		return err
	}
	return retry.Do(ctx, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Budget: &retry.Budget{Size: size}}, ping)
}

// A class may leave out what the policy sets, such as a limit and a delay.
func leftOut(ctx context.Context, ping func(context.Context) error) error {
	return retry.Do(ctx, retry.Policy{
		MaxAttempts:  3,
		HealthyAfter: time.Minute,
		Classify: func(err error) *retry.Class {
			return &retry.Class{Name: err.Error(), MaxAttempts: 2}
		},
	}, ping)
}

// The policy is one of two.
func either(ctx context.Context, fast bool, ping func(context.Context) error) error {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}
	if fast {
		p = retry.Policy{MaxAttempts: 3}
	}
	return retry.Do(ctx, p, ping)
}

// Another type with the same name.
type Policy struct{ MaxAttempts int }

var namesake = Policy{MaxAttempts: -7}
