package program

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
)

var errGone = errors.New("gone")

func ping(ctx context.Context) error { return ctx.Err() }

// A variable, its fields, and a literal with a mark.
func variable(ctx context.Context) error {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = time.Second
	b.MaxElapsedTime = time.Minute
	b.Reset()
	return backoff.Retry(func() error {
		if err := ping(ctx); errors.Is(err, errGone) {
			return backoff.Permanent(err)
		}
		return nil // a comment
	}, backoff.WithContext(b, ctx))
}

// An operation in a variable, a notification, and a question about the time.
func notified(op func() error) error {
	ping := func() error { return ping(context.TODO()) }
	if err := backoff.RetryNotify(ping, backoff.NewConstantBackOff(time.Second), func(error, time.Duration) {}); err != nil {
		return err
	}
	b := backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(time.Minute))
	if err := backoff.Retry(op, b); err != nil {
		if b.NextBackOff() == backoff.Stop {
			return errGone
		}
	}
	return backoff.Retry(op, &backoff.StopBackOff{})
}

// A method that makes the backoff, with the context of its caller.
type client struct{ retries uint64 }

func (c *client) backoff(ctx context.Context) backoff.BackOff {
	b := backoff.WithMaxRetries(backoff.WithContext(&backoff.ExponentialBackOff{
		InitialInterval: time.Second,
		Multiplier:      backoff.DefaultMultiplier,
		Stop:            backoff.Stop,
	}, ctx), c.retries)
	b.Reset()
	return b
}

func (c *client) get(parent context.Context) (int, error) {
	b := c.backoff(parent)
	return backoff.RetryWithData[int](func() (int, error) { return 1, ping(parent) }, b)
}

// What stays: backoffs from elsewhere, shared with others, or used otherwise.
func given(b backoff.BackOff) error { return backoff.Retry(func() error { return nil }, b) }

type Shared struct{ Backoff backoff.BackOff }

func (s *Shared) call() error { return backoff.Retry(func() error { return nil }, s.Backoff) }

func both() time.Duration {
	b := backoff.NewConstantBackOff(time.Second)
	_ = backoff.Retry(func() error { return nil }, b)
	return b.NextBackOff()
}

// A test uses it otherwise.
func tested() backoff.BackOff { return backoff.NewConstantBackOff(1) }

func callTested() error { return backoff.Retry(func() error { return nil }, tested()) }
