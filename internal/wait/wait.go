// Package wait waits outside the loop of package retry: at a gate, between requests of
// retryhttp, and for a fault in a test.
package wait

import (
	"context"
	"time"
)

// For waits until d has passed or ctx is done, and returns the error of ctx. A d of 0 or below
// does not wait. For has the form of retry.Policy.Wait, and skipped is always 0.
func For(ctx context.Context, d time.Duration) (skipped time.Duration, err error) {
	if d <= 0 {
		return 0, ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return 0, ctx.Err()
}
