package retrycenkalti

import (
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry"
)

// A BackOff implements the interface BackOff of cenkalti/backoff/v4, and decides according to a
// policy. It keeps the state of one call, so use a new BackOff for each call, or call Reset
// between two calls. A BackOff is not safe for concurrent use. The zero BackOff follows the
// zero Policy, so it never retries. The methods of a nil *BackOff panic.
type BackOff struct {
	policy   retry.Policy
	began    time.Time
	failures int
	classes  map[string]int // the number of failures of each class, by the name of the class
	seed     uint64         // the seed of all delays of the call, or 0 before the first delay
	err      error          // the error of the last attempt, or nil if Observe did not get it
}

var _ backoff.BackOff = (*BackOff)(nil)

// New returns a BackOff that follows p, or nil and an error if p is invalid.
//
// NextBackOff counts its calls and measures the time since Reset. From the count and the time
// it decides as [retry.Do] would, according to the limits of p, its Backoff, MaxDelay, Jitter,
// MaxElapsed and Budget. All delays of a call have one seed, which NextBackOff draws from
// Source. If you pass the errors to [BackOff.Observe], NextBackOff also applies
// retry.Permanent, RetryIf, Classify, retry.After and MaxRetryAfter.
//
// AttemptTimeout, HealthyAfter, Wait and OnEvent have no effect, because only a loop can apply
// them. The loops of v4 really sleep, even if p comes from retrytest.NoWait. If you wrap the
// BackOff with backoff.WithContext, the context's deadline ends a wait. Unlike Do, v4 starts a
// wait even if the deadline will end it. If a wait is canceled, the retry that the BackOff took
// from the Budget is lost.
func New(p retry.Policy) (*BackOff, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("retrycenkalti: %w", err)
	}
	b := &BackOff{policy: p}
	b.Reset()
	return b, nil
}

// Reset starts a new call: it forgets the failures, restarts the time, and makes NextBackOff
// draw another seed. v4's Retry and NewTicker call Reset before the first attempt.
func (b *BackOff) Reset() {
	*b = BackOff{policy: b.policy, began: time.Now(), classes: map[string]int{}}
}

// Observe tells b how an attempt ended, and returns err unchanged. A nil err counts as a success,
// which adds the Ratio of the policy's Budget to this Budget. Pass each error of the operation
// through Observe:
//
//	func() error { return b.Observe(call()) }
//	func() (T, error) { v, err := call(); return v, b.Observe(err) }
//
// Do not use Observe with a Ticker: the goroutine of a Ticker calls NextBackOff before the
// operation has ended.
func (b *BackOff) Observe(err error) error {
	b.err = err
	if err == nil {
		b.policy.Budget.Success()
	}
	return err
}

// NextBackOff counts one more failure. It returns the delay before the next attempt, or
// backoff.Stop if there is no next attempt.
func (b *BackOff) NextBackOff() time.Duration {
	b.failures++
	d := b.policy.Next(retry.Attempt{
		Number: b.failures, Classes: b.classes, Err: b.err,
		Elapsed: time.Since(b.began), Seed: b.seed,
	})
	b.err = nil
	if d.Class != "" {
		b.classes[d.Class]++
	}
	if d.Seed != 0 {
		b.seed = d.Seed
	}
	if !d.Retry() || !b.policy.Budget.Take() {
		return backoff.Stop
	}
	return d.Delay
}
