package sleepdrop

import (
	"context"
	"time"

	"github.com/goretry/retry"
)

// A test that pretends to be slow.
func slowPing(ctx context.Context, c *client) error {
	return retry.Do(ctx, c.policy, func(ctx context.Context) error {
		time.Sleep(time.Second)
		return c.ping(ctx)
	})
}
