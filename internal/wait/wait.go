// Package wait waits for a duration, or until a context is done. The gates use it, retryhttp uses
// it between two requests, and retryhttp/httpfault uses it before a slow answer. The loop of
// retry.Do has its own wait.
package wait

import (
	"context"
	"time"
)

// The function For waits until d has passed or ctx is done, and returns the error of ctx. If d is 0
// or below, the function returns at once. Its signature is that of retry.Policy.Wait, where the
// result `skipped` is the part of d that was skipped. Here `skipped` is always 0.
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
