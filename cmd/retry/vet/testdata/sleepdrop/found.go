package sleepdrop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/goretry/retry"
)

var errGone = errors.New("gone")

type client struct{ policy retry.Policy }

func (c *client) ping(ctx context.Context) error { return ctx.Err() }

func (c *client) pingSlowly(ctx context.Context) error {
	if err := c.ping(ctx); err != nil {
		time.Sleep(time.Second) // want `time.Sleep adds to the delay of the policy, and does not end when the context does: set the policy's Backoff, or return retry.After\(d, err\) if the server asked for the wait`
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

func methodValue(ctx context.Context, c *client) error {
	return retry.Do(ctx, c.policy, c.pingSlowly)
}

func sleepFirst(ctx context.Context, c *client) error {
	op := func(ctx context.Context) error {
		time.Sleep(5 * time.Second) // want `time.Sleep adds`
		return c.ping(ctx)
	}
	return retry.Do(ctx, c.policy, op)
}

func sleepLast(ctx context.Context, c *client) (err error) {
	return retry.Do(ctx, c.policy, func(ctx context.Context) error {
		err := c.ping(ctx)
		time.Sleep(time.Second) // want `time.Sleep adds`
		return err
	})
}

func loopInside(ctx context.Context, c *client) error {
	return retry.Do(ctx, c.policy, func(ctx context.Context) error {
		var err error
		for i := 0; i < 3; i++ { // want `this loop retries inside of retry.Do, so its attempts and those of the policy multiply: call once for each attempt, and move the limit and the wait into the policy`
			if err = c.ping(ctx); err == nil {
				return nil
			}
			time.Sleep(time.Duration(i) * time.Second)
		}
		return err
	})
}

func get(ctx context.Context) (*http.Response, error) {
	for range 5 { // want `this loop retries inside of retry.DoValue`
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost", nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		return resp, nil
	}
	return nil, errGone
}

func named(ctx context.Context, p retry.Policy) (*http.Response, error) {
	return retry.DoValue(ctx, p, get)
}

func generic[T any](ctx context.Context, p retry.Policy, load func(context.Context) (T, error)) (T, error) {
	return retry.DoValue(ctx, p, func(ctx context.Context) (v T, err error) {
		for { // want `this loop retries inside of retry.DoValue`
			v, err = load(ctx)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return v, err
			}
		}
		return v, nil
	})
}

func droppedPermanent(ctx context.Context, c *client) error {
	return retry.Do(ctx, c.policy, func(ctx context.Context) error {
		err := c.ping(ctx)
		if errors.Is(err, errGone) {
			retry.Permanent(err) // want `the error that retry.Permanent returns is dropped, so nothing is marked: return it`
		}
		return err
	})
}

func droppedAfter(ctx context.Context, c *client) error {
	return retry.Do(ctx, c.policy, func(ctx context.Context) error {
		err := c.ping(ctx)
		if err != nil {
			retry.After(time.Second, err) // want `the error that retry.After returns is dropped`
			return err
		}
		return nil
	})
}

func (c *client) load(ctx context.Context) (n int, err error) {
	if err := c.ping(ctx); err != nil {
		defer retry.Permanent(err) // want `the error that retry.Permanent returns is dropped`
		n++
		return n, err
	}
	if err := c.ping(ctx); err != nil {
		retry.Permanent(err) // want `the error that retry.Permanent returns is dropped`
		return n, err
	}
	return n, nil
}
