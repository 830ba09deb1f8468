package sleepdrop

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/goretry/retry"
)

// A wait that is a part of what the attempt does.
func settles(ctx context.Context, c *client, start func() error) error {
	return retry.Do(ctx, c.policy, func(ctx context.Context) error {
		if err := start(); err != nil {
			return err
		}
		time.Sleep(time.Second)
		return c.ping(ctx)
	})
}

// Code that only pretends to be slow.
func slow(ctx context.Context, p retry.Policy) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		time.Sleep(time.Second)
		return errGone
	})
}

func slowly(ctx context.Context, p retry.Policy) (int, error) {
	return retry.DoValue(ctx, p, func(ctx context.Context) (int, error) {
		time.Sleep(time.Second)
		return 1, nil
	})
}

// A goroutine of its own.
func background(ctx context.Context, c *client) error {
	return retry.Do(ctx, c.policy, func(ctx context.Context) error {
		go func() {
			if err := c.ping(ctx); err != nil {
				time.Sleep(time.Second)
			}
			for {
				if err := c.ping(ctx); err == nil {
					return
				}
			}
		}()
		return c.ping(ctx)
	})
}

// Loops over different things.
func failover(ctx context.Context, p retry.Policy, hosts []string, dial func(context.Context, string) error, next func(context.Context) error) error {
	current := ""
	return retry.Do(ctx, p, func(ctx context.Context) error {
		err := errGone
		for _, host := range hosts {
			if err = dial(ctx, host); err == nil {
				return nil
			}
		}
		for _, host := range hosts {
			current = host
			if err = dial(ctx, current); err == nil {
				return nil
			}
		}
		for range hosts {
			if err = next(ctx); err == nil { // which moves on
				return nil
			}
		}
		for i := 0; i < len(hosts); i++ {
			if err = dial(ctx, hosts[i]); err == nil {
				return nil
			}
		}
		for {
			host := hosts[time.Now().Nanosecond()%len(hosts)]
			if err = dial(ctx, host); err == nil {
				return nil
			}
		}
	})
}

func pages(ctx context.Context, c *client, r io.Reader) error {
	return retry.Do(ctx, c.policy, func(ctx context.Context) error {
		buffer := make([]byte, 100)
		for {
			_, err := r.Read(buffer)
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
}

// A loop that goes on with the next one where one fails.
func each(ctx context.Context, c *client) error {
	return retry.Do(ctx, c.policy, func(ctx context.Context) error {
		failed := 0
		for range 10 {
			if err := c.ping(ctx); err != nil {
				failed++
				continue
			}
		}
		passed := 0
		for range 10 {
			if err := c.ping(ctx); err == nil {
				passed++
			}
		}
		if failed == 10 || passed == 0 {
			return errGone
		}
		return nil
	})
}

// A loop that waits until something is done, and fails with the first error.
func poll(ctx context.Context, p retry.Policy, ready func(context.Context) (bool, error)) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		for {
			done, err := ready(ctx)
			if err != nil {
				return err
			}
			if done {
				return nil
			}
		}
	})
}

// Marks that are used.
func marked(ctx context.Context, c *client) error {
	return retry.Do(ctx, c.policy, func(ctx context.Context) error {
		err := c.ping(ctx)
		if errors.Is(err, errGone) {
			err = retry.Permanent(err)
		}
		if errors.Is(err, io.EOF) {
			return retry.After(time.Minute, err)
		}
		_ = retry.Permanent(err) // said to be unused
		return err
	})
}

// Permanent belongs to another type.
type marker struct{}

func (marker) Permanent(error) {}

func otherMarker(m marker, err error) { m.Permanent(err) }
