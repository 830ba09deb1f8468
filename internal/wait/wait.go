// Package wait contains the wait of a gate, of retryhttp between two requests, and of a slow
// answer that a test injects. The loop of retry.Do has its own wait.
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
