package retryflow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/goretry/retry"
)

func waitingFor(label string, o Outcome) error {
	return withOutcome(fmt.Errorf("waiting for task %q", label), o)
}

// pause waits for d, if d is above 0. When the wait begins, it calls the function `scheduled`. It
// returns nil after the whole wait. Otherwise the error says why the wait did not begin or why it
// ended early.
func (r *run) pause(
	ctx context.Context, d time.Duration, scheduled func(now time.Time),
) *retry.Error {
	if d <= 0 {
		return nil
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	began := time.Now()
	deadline, bounded := ctx.Deadline()
	switch left := deadline.Sub(began); {
	case ctx.Err() != nil:
		return contextError(ctx, d)
	case bounded && left <= d:
		cause := &tooCloseError{max(0, left)}
		return &retry.Error{Reason: retry.ReasonDeadline, Delay: d, Cause: cause}
	}
	scheduled(began.Add(r.skipped))
	var err error
	if ctx.Err() == nil {
		_, err = r.wait(ctx, max(0, d-time.Since(began)))
	}
	switch {
	case ctx.Err() != nil:
		return contextError(ctx, d)
	case err != nil:
		return &retry.Error{Reason: retry.ReasonWait, Delay: d, Cause: err}
	default:
		return nil
	}
}

// contextError returns the error of a task whose context was done before its jump. d is the delay
// before the jump.
func contextError(ctx context.Context, d time.Duration) *retry.Error {
	e := &retry.Error{Reason: retry.ReasonCanceled, Delay: d, Cause: ctx.Err()}
	if errors.Is(e.Cause, context.DeadlineExceeded) {
		e.Reason = retry.ReasonDeadline
	}
	if cause := context.Cause(ctx); !errors.Is(e.Cause, cause) {
		e.Cause = fmt.Errorf("%w: %w", e.Cause, cause)
	}
	return e
}

// A tooCloseError is the Cause of an error if the wait before a jump would go past the deadline
// of the context.
type tooCloseError struct{ left time.Duration }

func (e *tooCloseError) Error() string {
	left := e.left.Round(time.Millisecond)
	return fmt.Sprintf("the context's deadline is too close: %v are left", left)
}

func (*tooCloseError) Unwrap() error { return context.DeadlineExceeded }

// wait waits for the time d. If the Wait of the policy is set, `wait` calls it. In a test, Wait may
// skip time: it returns before d has passed, and reports how much time it skipped. Then the method
// `wait` sets the clock of r ahead by the skipped time.
func (r *run) wait(ctx context.Context, d time.Duration) (skipped time.Duration, err error) {
	if r.Policy.Wait == nil {
		return 0, sleep(ctx, d)
	}
	skipped, err = r.Policy.Wait(ctx, d)
	r.skipped += min(max(0, skipped), d, math.MaxInt64-r.skipped)
	return skipped, err
}

// sleep waits for d or until ctx is done. It returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err()
}

// now returns the time on the clock of r. This clock is ahead of the real clock by r.skipped, which
// is the time that Wait skipped.
func (r *run) now() time.Time { return time.Now().Add(r.skipped) }

// bounded returns a context that ends when the clock of r reaches the deadline of ctx. The clock of
// r is ahead of the real clock by r.skipped, so the deadline of the new context is earlier by
// r.skipped.
func (r *run) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.skipped > 0 {
		if deadline, ok := ctx.Deadline(); ok {
			return context.WithDeadline(ctx, deadline.Add(-r.skipped))
		}
	}
	return ctx, func() {}
}
