package retrycenkalti

import (
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry"
)

// A BackOff is a backoff.BackOff that follows a policy through one call. Like
// every BackOff it keeps the state of that call: create one for each call, or
// at least never share one between calls that run at the same time. The zero
// BackOff follows the zero Policy, so it never retries. A nil *BackOff panics.
type BackOff struct {
	policy   retry.Policy
	began    time.Time
	failures int
	classes  map[string]int // the failures that had a class, by its name
	seed     uint64         // for all delays of the call; 0: not drawn yet
	err      error          // of the last attempt; nil: not observed
}

var _ backoff.BackOff = (*BackOff)(nil)

// New returns a BackOff that follows p, or nil and an error if p is invalid.
//
// NextBackOff knows how often it was called, and how long ago Reset was. From
// that it decides as [retry.Do] does, by the limits, the curve, MaxDelay, Jitter
// (one seed for all delays of a call, drawn from Source), MaxElapsed, and what
// the Budget has left. If you pass it the errors, with [BackOff.Observe], it also
// decides by retry.Permanent, RetryIf, Classify, and retry.After within
// MaxRetryAfter.
//
// It cannot do what only a loop can: AttemptTimeout, HealthyAfter, Wait and
// OnEvent have no effect. The loop of v4 waits itself, so under retrytest.NoWait
// it still sleeps. A deadline of the context ends a wait, if a backoff.WithContext
// is around the BackOff, but does not prevent it. If a wait is canceled, the retry
// that it took from the Budget is lost.
func New(p retry.Policy) (*BackOff, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("retrycenkalti: %w", err)
	}
	b := &BackOff{policy: p}
	b.Reset()
	return b, nil
}

// Reset starts a new call, with no failures, no time elapsed, and another seed.
// Retry and NewTicker of v4 call it before the first attempt.
func (b *BackOff) Reset() {
	*b = BackOff{policy: b.policy, began: time.Now(), classes: map[string]int{}}
}

// Observe tells b how an attempt ended, and returns err unchanged. A nil err is a
// success, whose share goes into the Budget. Pass the operation's error through
// it:
//
//	func() error { return b.Observe(call()) }
//	func() (T, error) { v, err := call(); return v, b.Observe(err) }
//
// Do not call it with a Ticker, because the goroutine of a Ticker asks for the
// next delay before the operation has ended.
func (b *BackOff) Observe(err error) error {
	b.err = err
	if err == nil {
		b.policy.Budget.Success()
	}
	return err
}

// NextBackOff returns the delay after one more failure, or backoff.Stop.
func (b *BackOff) NextBackOff() time.Duration {
	b.failures++
	d := b.policy.Next(retry.Attempt{Number: b.failures, Classes: b.classes, Err: b.err, Elapsed: time.Since(b.began), Seed: b.seed})
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
