package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/avast/retry-go/v5"
	"github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	sethvargo "github.com/sethvargo/go-retry"
	"k8s.io/apimachinery/pkg/util/wait"

	ours "github.com/goretry/retry"
)

// A plan describes a retry policy. Each library is configured with the same plan, in the library's
// own way.
type plan struct {
	attempts int
	base     time.Duration // the first delay, which doubles after each attempt; 0: no delay

	// The fields below are used only with the handwritten loop and with this library. The
	// handwritten loop has neither classes nor a budget.
	within, timeout time.Duration // limits on the time of a call and of an attempt; 0: no limit
	watched         bool          // the function `step` is called for each step of a call
	classes         bool          // failures have a class with a name and a limit
	budget          bool          // the policy has the default Budget of a target
}

const (
	jitter = 0.2
	most   = 24 * time.Hour // the longest delay; no benchmark reaches it
)

var (
	ordinary  = plan{attempts: 5, base: 200 * time.Millisecond}
	hourly    = plan{attempts: 5, base: time.Hour}
	noDelay   = plan{attempts: 10}
	errFailed = errors.New("connection refused")
)

type operation = func(context.Context) error

// A library is a retry library in the form that the benchmarks need. prepare makes the values
// that users of the library make once for a policy. It returns a function that makes n calls of an
// operation and returns the error of the last call. A value that keeps the state or the
// context of a call is made for each call.
type library struct {
	name    string
	prepare func(plan) func(ctx context.Context, n int, op operation) error
}

var bare = library{"bare", func(p plan) func(context.Context, int, operation) error {
	loop := p.bare
	if p.within > 0 || p.timeout > 0 || p.watched {
		loop = p.bareWithDuties
	}
	return func(ctx context.Context, n int, op operation) (err error) {
		for range n {
			err = loop(ctx, op)
		}
		return err
	}
}}

var retryDo = library{"retry", func(p plan) func(context.Context, int, operation) error {
	policy := p.policy()
	return func(ctx context.Context, n int, op operation) (err error) {
		for range n {
			err = ours.Do(ctx, policy, op)
		}
		return err
	}
}}

var retryOnce = library{"retry", func(p plan) func(context.Context, int, operation) error {
	policy := p.policy()
	return func(ctx context.Context, n int, op operation) (err error) {
		for range n {
			_, err = ours.Once(ctx, policy, ours.Attempt{Number: 1}, op)
		}
		return err
	}
}}

// peers are other retry libraries, in the versions of go.mod. Each library is called in the fastest
// way that it documents.
var peers = []library{
	{"cenkalti", func(p plan) func(context.Context, int, operation) error {
		tries, forever := backoff.WithMaxTries(uint(p.attempts)), backoff.WithMaxElapsedTime(0)
		return func(ctx context.Context, n int, op operation) (err error) {
			value := func() (struct{}, error) { return struct{}{}, op(ctx) }
			for range n {
				var b backoff.BackOff = &backoff.ZeroBackOff{}
				if p.base > 0 {
					// NewExponentialBackOff would take longer, because it sets default values first.
					b = &backoff.ExponentialBackOff{
						InitialInterval:     p.base,
						Multiplier:          2,
						RandomizationFactor: jitter,
						MaxInterval:         most,
					}
				}
				_, err = backoff.Retry(ctx, value, backoff.WithBackOff(b), tries, forever)
			}
			return err
		}
	}},
	{"avast", func(p plan) func(context.Context, int, operation) error {
		options := []retry.Option{
			retry.Attempts(uint(p.attempts)),
			retry.LastErrorOnly(true),
			retry.Delay(p.base),
			retry.MaxDelay(most),
			retry.MaxJitter(time.Duration(jitter * float64(p.base))),
			nil, // options[5]: each call stores an option with the context of the call here
		}
		if p.base == 0 {
			options[4] = retry.DelayType(retry.FixedDelay)
		}
		return func(ctx context.Context, n int, op operation) (err error) {
			run := func() error { return op(ctx) }
			for range n {
				options[5] = retry.Context(ctx)
				err = retry.New(options...).Do(run)
			}
			return err
		}
	}},
	{"sethvargo", func(p plan) func(context.Context, int, operation) error {
		noWait := func() (time.Duration, bool) { return 0, false }
		return func(ctx context.Context, n int, op operation) (err error) {
			marked := func(ctx context.Context) error { return sethvargo.RetryableError(op(ctx)) }
			for range n {
				var b sethvargo.Backoff = sethvargo.BackoffFunc(noWait)
				if p.base > 0 {
					b = sethvargo.WithCappedDuration(most, sethvargo.NewExponential(p.base))
					b = sethvargo.WithJitterPercent(100*jitter, b)
				}
				err = sethvargo.Do(ctx, sethvargo.WithMaxRetries(uint64(p.attempts-1), b), marked)
			}
			return err
		}
	}},
	{"failsafe", func(p plan) func(context.Context, int, operation) error {
		builder := retrypolicy.NewBuilder[any]().WithMaxAttempts(p.attempts)
		if p.base > 0 {
			builder.WithBackoff(p.base, most).WithJitterFactor(jitter)
		}
		executor := failsafe.With(builder.Build())
		return func(ctx context.Context, n int, op operation) (err error) {
			run := func() error { return op(ctx) }
			for range n {
				err = executor.WithContext(ctx).Run(run)
			}
			return err
		}
	}},
	{"k8s", func(p plan) func(context.Context, int, operation) error {
		// No Cap is set, because a delay that reaches the Cap would end the retries.
		b := wait.Backoff{Steps: p.attempts, Duration: p.base, Factor: 2, Jitter: jitter}
		return func(ctx context.Context, n int, op operation) (err error) {
			var last error
			condition := func(ctx context.Context) (bool, error) { last = op(ctx); return last == nil, nil }
			for range n {
				if err = wait.ExponentialBackoffWithContext(ctx, b, condition); err != nil && ctx.Err() == nil {
					err = last
				}
			}
			return err
		}
	}},
}

func (p plan) policy() ours.Policy {
	policy := ours.Policy{MaxAttempts: p.attempts, MaxElapsed: p.within, AttemptTimeout: p.timeout}
	if p.base > 0 {
		policy.Backoff, policy.MaxDelay = ours.Exponential{Base: p.base}, most
		policy.Jitter = ours.Proportional(jitter)
	}
	if p.watched {
		policy.OnEvent = func(_ context.Context, e ours.Event) { step(e.Attempt, e.Elapsed) }
	}
	if p.budget {
		policy.Budget, _ = new(ours.Budgets).For("http://db:8080")
	}
	if p.classes {
		refused := &ours.Class{Name: "refused", MaxAttempts: p.attempts}
		policy.Classify = func(error) *ours.Class { return refused }
	}
	return policy
}

// bare is the loop that a careful engineer writes by hand.
func (p plan) bare(ctx context.Context, op operation) error {
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := op(ctx)
		if err == nil || attempt == p.attempts {
			return err
		}
		if err := p.sleep(ctx, attempt); err != nil {
			return err
		}
	}
}

// bareWithDuties is the handwritten loop with extra work. If p.within or p.timeout is set, the loop
// limits the time of the call or of each attempt. If p.watched is set, the loop calls the function
// `step` before and after each attempt.
func (p plan) bareWithDuties(ctx context.Context, op operation) error {
	var start time.Time
	if p.within > 0 || p.watched {
		start = time.Now()
	}
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.watched {
			step(attempt, time.Since(start))
		}
		err := p.attempt(ctx, op)
		if p.watched {
			step(attempt, time.Since(start))
		}
		if err == nil || attempt == p.attempts || p.within > 0 && time.Since(start) > p.within {
			return err
		}
		if err := p.sleep(ctx, attempt); err != nil {
			return err
		}
	}
}

func (p plan) attempt(ctx context.Context, op operation) error {
	if p.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	return op(ctx)
}

func (p plan) sleep(ctx context.Context, attempt int) error {
	if p.base == 0 {
		return nil
	}
	d := min(p.base<<min(attempt-1, 20), most)
	t := time.NewTimer(d + time.Duration((2*rand.Float64()-1)*jitter*float64(d)))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// step is called for each step of a call: by the handwritten loop, and by OnEvent if package retry
// is measured. It does nothing. The compiler cannot remove the calls of `step`, because it is not
// inlined.
//
//go:noinline
func step(int, time.Duration) {}
