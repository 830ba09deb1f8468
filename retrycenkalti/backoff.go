package retrycenkalti

import (
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry"
)

// A BackOff is a backoff.BackOff that follows a policy through one call. Like every BackOff it
// keeps the state of that call. So use a new BackOff for each call, or call Reset between two
// calls. A BackOff is not safe for concurrent use. The zero BackOff follows the zero Policy, so
// it never retries. A nil *BackOff panics.
type BackOff struct {
	policy   retry.Policy
	began    time.Time
	failures int
	classes  map[string]int // the number of failures of each class, by the name of the class
	seed     uint64         // the seed of all delays of the call; 0: not drawn yet
	err      error          // the error of the last attempt; nil: not observed
}

var _ backoff.BackOff = (*BackOff)(nil)

// New returns a BackOff that follows p, or nil and an error if p is invalid.
//
// NextBackOff counts its calls, and measures the time since Reset. With these it decides as
// [retry.Do] does, according to the limits, the curve, MaxDelay, Jitter, MaxElapsed and the
// Budget. All delays of a call have one seed, drawn from Source. If you pass the errors to
// [BackOff.Observe], NextBackOff also decides according to retry.Permanent, RetryIf, Classify,
// and retry.After within MaxRetryAfter.
//
// AttemptTimeout, HealthyAfter, Wait and OnEvent have no effect, because only a loop can apply
// them. The loop of v4 waits itself, so it sleeps even under retrytest.NoWait. A deadline of the
// context ends a wait if a backoff.WithContext is around the BackOff, but it does not prevent
// the wait. If a wait is canceled, the retry that the BackOff took from the Budget is lost.
func New(p retry.Policy) (*BackOff, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("retrycenkalti: %w", err)
	}
	b := &BackOff{policy: p}
	b.Reset()
	return b, nil
}

// Reset starts a new call: it forgets the failures, starts the time again, and makes
// NextBackOff draw another seed. Retry and NewTicker of v4 call it before the first attempt.
func (b *BackOff) Reset() {
	*b = BackOff{policy: b.policy, began: time.Now(), classes: map[string]int{}}
}

// Observe tells b how an attempt ended, and returns err unchanged. A nil err is a success,
// which puts Ratio of a retry back into the Budget. Pass each error of the operation through
// Observe:
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

// NextBackOff counts one more failure. It returns the delay after this failure, or backoff.Stop.
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
