package retrycenkalti

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry"
)

// A BackOff is a backoff.BackOff that follows a policy through one call. Like
// every BackOff it keeps the state of that call: build one for each call, or
// at least never share one between calls that run at once. The zero BackOff
// follows the zero Policy, and never retries; a nil one panics.
type BackOff struct {
	policy   retry.Policy
	began    time.Time
	failures int
	seed     uint64 // of all delays of the call; 0: not drawn yet
	err      error  // what the last execution failed with; nil: not observed
}

var _ backoff.BackOff = (*BackOff)(nil)

// New returns a BackOff that follows p, or nil and an error if p does not
// validate.
//
// NextBackOff knows how often it was called and when Reset was, and decides by
// that as [retry.Do] does: the limits, the curve, MaxDelay, Jitter (one seed
// for all delays of a call, drawn from Source), MaxElapsed, and what the Budget
// has left. With [BackOff.Observe] it knows the error too, and with it
// retry.Permanent, RetryIf, Select, and retry.After within MaxRetryAfter.
//
// What only a loop can do is not done: AttemptTimeout and OnEvent are of no
// effect, and a deadline of the context ends a wait instead of preventing it,
// if there is a backoff.WithContext around the BackOff. A token of the Budget
// that was taken for a wait which was cancelled is lost.
func New(p retry.Policy) (*BackOff, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("retrycenkalti: %w", err)
	}
	b := &BackOff{policy: p}
	b.Reset()
	return b, nil
}

// Reset begins a call: no failure, no time, another seed. Retry and NewTicker
// of v4 call it before the first execution.
func (b *BackOff) Reset() {
	*b = BackOff{policy: b.policy, began: time.Now()}
}

// Observe tells b what an execution failed with, and returns err as it is. nil
// is a success, which puts into the Budget. An operation hands its error
// through it:
//
//	func() error { return b.Observe(call()) }
//	func() (T, error) { v, err := call(); return v, b.Observe(err) }
//
// Never call it with a Ticker, whose own goroutine asks for the next delay
// before the operation has ended.
func (b *BackOff) Observe(err error) error {
	b.err = err
	if err == nil {
		b.policy.Budget.Put()
	}
	return err
}

// NextBackOff returns the delay after one more failure, or backoff.Stop.
func (b *BackOff) NextBackOff() time.Duration {
	b.failures++
	p := b.policy
	p.Source = (*seed)(b)
	d := p.Next(retry.Attempt{Number: b.failures, Err: b.err, Elapsed: time.Since(b.began)})
	b.err = nil
	if !d.Retry() || !b.policy.Budget.Take() {
		return backoff.Stop
	}
	return d.Delay
}

// seed is a BackOff as the Source of its policy: one number for all delays of
// the call, drawn when the first of them needs it, as Do draws it.
type seed BackOff

func (s *seed) Uint64() uint64 {
	if s.seed == 0 {
		draw := rand.Uint64
		if s.policy.Source != nil {
			draw = s.policy.Source.Uint64
		}
		s.seed = max(1, draw())
	}
	return s.seed
}
