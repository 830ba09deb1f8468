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

// The outer call holds a connection forever, and the inner call uses it.
func reconnect(ctx context.Context) error {
	return retry.Do(ctx, forever, func(ctx context.Context) error {
		return errors.Join(ping(ctx), retry.Do(ctx, three, ping))
	})
}

func single(ctx context.Context) error {
	return retry.Do(ctx, four, func(ctx context.Context) error { return retry.Do(ctx, once, ping) })
}

// The inner error is permanent, so the outer call makes no other attempt.
func final(ctx context.Context) error {
	return retry.Do(ctx, four, func(ctx context.Context) error {
		err := retry.Do(ctx, three, ping)
		if err != nil {
			return retry.Permanent(err)
		}
		return ping(ctx)
	})
}

// The outer call may retry only other errors.
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

// The attempt starts or keeps a function, but does not wait for it.
func detached(ctx context.Context, handle func(func() error)) error {
	return retry.Do(ctx, four, func(ctx context.Context) error {
		go func() { _ = retry.Do(ctx, three, ping) }()
		handle(func() error { return retry.Do(ctx, three, ping) })
		return ping(ctx)
	})
}

// A policy from elsewhere may allow one attempt.
func unknown(ctx context.Context, outer, inner retry.Policy) error {
	return retry.Do(ctx, outer, func(ctx context.Context) error { return retry.Do(ctx, inner, ping) })
}
