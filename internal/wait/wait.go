// Package wait waits for the packages of this library that must wait outside the
// loop of package retry: before a jump of a flow, at a gate, and for a fault in a test.
package wait

import (
	"context"
	"time"
)

// For waits for d, or until ctx is done, and returns the error of ctx. It skips
// nothing: it has the form of retry.Policy.Wait.
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
