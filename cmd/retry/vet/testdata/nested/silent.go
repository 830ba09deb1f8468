package nested

import (
	"context"
	"errors"
	"time"

	"github.com/goretry/retry"
)

var once = retry.Policy{}

var forever = retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second)}

func budgeted(ctx context.Context) error {
	ctx = retry.WithBudget(ctx, &retry.Budget{Size: 3})
	return retry.Do(ctx, four, func(ctx context.Context) error { return retry.Do(ctx, three, ping) })
}

func (c *client) budgeted(ctx context.Context) error {
	return retry.Do(retry.WithBudget(ctx, &retry.Budget{Size: 3}), four, c.within)
}

func (c *client) within(ctx context.Context) error { return retry.Do(ctx, three, ping) }

// A connection that is held for ever, and what is done on it.
func reconnect(ctx context.Context) error {
	return retry.Do(ctx, forever, func(ctx context.Context) error {
		return errors.Join(ping(ctx), retry.Do(ctx, three, ping))
	})
}

func single(ctx context.Context) error {
	return retry.Do(ctx, four, func(ctx context.Context) error { return retry.Do(ctx, once, ping) })
}

// No attempt of the outer one follows.
func final(ctx context.Context) error {
	return retry.Do(ctx, four, func(ctx context.Context) error {
		err := retry.Do(ctx, three, ping)
		if err != nil {
			return retry.Permanent(err)
		}
		return ping(ctx)
	})
}

// What the outer one retries may be something else.
func selective(ctx context.Context, errLogin error) error {
	login := four
	p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(0), RetryIf: func(err error) bool { return errors.Is(err, errLogin) }}
	return errors.Join(retry.Do(ctx, p, func(ctx context.Context) error { return retry.Do(ctx, login, ping) }))
}

func classified(ctx context.Context, classify func(error) *retry.Class) error {
	p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(0), Classify: classify}
	return retry.Do(ctx, p, func(ctx context.Context) error { return retry.Do(ctx, three, ping) })
}

func shared(ctx context.Context, budget *retry.Budget) error {
	p := retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(0), Budget: budget}
	return retry.Do(ctx, p, func(ctx context.Context) error { return retry.Do(ctx, three, ping) })
}

// What is started or kept does not run in the attempt.
func detached(ctx context.Context, handle func(func() error)) error {
	return retry.Do(ctx, four, func(ctx context.Context) error {
		go func() { _ = retry.Do(ctx, three, ping) }()
		handle(func() error { return retry.Do(ctx, three, ping) })
		return ping(ctx)
	})
}

// Policies from elsewhere may be limited there.
func unknown(ctx context.Context, outer, inner retry.Policy) error {
	return retry.Do(ctx, outer, func(ctx context.Context) error { return retry.Do(ctx, inner, ping) })
}
