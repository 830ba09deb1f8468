package retrycenkalti_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
)

// Each line of the page in the package documentation is written out in this
// file: what stands in the left column and what stands in the right one, as
// they stand there, in one statement that proves them equal. See
// TestThePageIsWrittenOut.

func onRetry(notify func(error, time.Duration)) func(context.Context, retry.Event) {
	return func(_ context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			notify(e.Err, e.Delay)
		}
	}
}

func TestThePageOnTypes(t *testing.T) {
	type T = int
	var _ func(backoff.Operation) func(context.Context) error
	var _ func(backoff.OperationWithData[T]) func(context.Context) (T, error)
	var _ func(backoff.Notify) func(context.Context, retry.Event)
	var _ func(backoff.BackOff) retry.Backoff
}

func TestThePageOnPolicies(t *testing.T) {
	const d, f, m, n = 3 * time.Second, 0.25, 2.5, 4

	assert.Equal(t, fieldsOf(t, backoff.NewExponentialBackOff()), retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff: retry.Exponential{Base: 500 * time.Millisecond,
			Factor: 1.5},
		MaxDelay:   time.Minute,
		Jitter:     retry.Proportional(0.5),
		MaxElapsed: 15 * time.Minute,
	})

	set := func(option backoff.ExponentialBackOffOpts, set func(p *retry.Policy)) {
		p := fieldsOf(t, backoff.NewExponentialBackOff())
		set(&p)
		assert.Equal(t, fieldsOf(t, backoff.NewExponentialBackOff(option)), p)
	}
	set(backoff.WithInitialInterval(d), func(p *retry.Policy) { p.Backoff = retry.Exponential{Base: d, Factor: 1.5} })
	set(backoff.WithMultiplier(m), func(p *retry.Policy) { p.Backoff = retry.Exponential{Base: 500 * time.Millisecond, Factor: m} })
	set(backoff.WithMaxInterval(d), func(p *retry.Policy) { p.MaxDelay = d })
	set(backoff.WithRandomizationFactor(f), func(p *retry.Policy) { p.Jitter = retry.Proportional(f) })
	set(backoff.WithMaxElapsedTime(d), func(p *retry.Policy) { p.MaxElapsed = d })

	assert.Equal(t, fieldsOf(t, backoff.NewConstantBackOff(d)), retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(d)})
	assert.Equal(t, fieldsOf(t, &backoff.ConstantBackOff{Interval: d}), retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(d)})

	same := func(b backoff.BackOff, p retry.Policy) {
		theirs, _ := play(t, fails, retryV4(b))
		ours, _ := play(t, fails, do(p))
		assert.Equal(t, theirs, ours)
		assert.NoError(t, p.Validate())
	}
	same(backoff.WithMaxRetries(&backoff.ZeroBackOff{}, n-1), retry.Policy{MaxAttempts: n})
	same(&backoff.StopBackOff{}, retry.Policy{})

	limited := func(b backoff.BackOff, limit func(p *retry.Policy)) {
		p := policyOf(t, backoff.NewConstantBackOff(d))
		limit(&p)
		same(b, p)
	}
	for n := range uint64(4) {
		b := backoff.NewConstantBackOff(d)
		limited(backoff.WithMaxRetries(b, n), func(p *retry.Policy) { p.MaxAttempts = retry.Retries(int(n)) })
	}
}

// TestThePageOnLoops runs each call of v4, and what replaces it, in a bubble of
// its own.
func TestThePageOnLoops(t *testing.T) {
	const d = 3 * time.Second
	var (
		ctx   context.Context
		start time.Time
		fault error // what the operation fails with
		did   trace
		told  []time.Duration
	)
	op := func() error { did.began = append(did.began, time.Since(start)); return fault }
	fn := func(context.Context) error { return op() }
	notify := func(_ error, d time.Duration) { told = append(told, d) }
	b := backoff.WithMaxRetries(backoff.NewConstantBackOff(d), 2)
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(d)}

	canceled := time.Hour
	run := func(loop func() error) (trace, []time.Duration) {
		did, told, fault = trace{}, nil, errBoom
		synctest.Test(t, func(t *testing.T) {
			var cancel func()
			ctx, cancel = context.WithCancel(t.Context())
			defer time.AfterFunc(canceled, cancel).Stop()
			start = time.Now()
			did.ok = loop() == nil
			did.ended = time.Since(start)
		})
		return did, told
	}
	same := func(executions int, v4, instead func() error) {
		t.Helper()
		var fails error
		theirs, theyTold := run(func() error { fails = v4(); return fails })
		ours, weTold := run(func() error {
			err := instead()
			assert.ErrorIs(t, err, fails)
			return err
		})
		assert.Len(t, theirs.began, executions)
		assert.Equal(t, theirs, ours)
		assert.Equal(t, theyTold, weTold)
	}
	same(3, func() error { return backoff.Retry(op, b) }, func() error { return retry.Do(ctx, p, fn) })
	{
		op := func() (int, error) { return 0, op() }
		fn := func(context.Context) (int, error) { return op() }
		second := func(_ int, err error) error { return err }
		same(3, func() error { return second(backoff.RetryWithData(op, b)) }, func() error { return second(retry.DoValue(ctx, p, fn)) })

		p := p
		same(3, func() error { return second(backoff.RetryNotifyWithData(op, b, notify)) },
			func() error { p.OnEvent = onRetry(notify); return second(retry.DoValue(ctx, p, fn)) })
	}
	{
		p := p
		same(3, func() error { return backoff.RetryNotify(op, b, notify) }, func() error { p.OnEvent = onRetry(notify); return retry.Do(ctx, p, fn) })
		assert.Equal(t, []time.Duration{d, d}, told)
	}

	canceled = d + 1
	same(2, func() error { return backoff.Retry(op, backoff.WithContext(b, ctx)) }, func() error { return retry.Do(ctx, p, fn) })

	err := errBoom
	same(1, func() error { fault = backoff.Permanent(err); return backoff.Retry(op, b) },
		func() error { fault = retry.Permanent(err); return retry.Do(ctx, p, fn) })
	same(1, func() error { fault = &backoff.PermanentError{Err: err}; return backoff.Retry(op, b) },
		func() error { fault = retry.Permanent(err); return retry.Do(ctx, p, fn) })
}

func TestThePageOnTickers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const d = 3 * time.Second
		b := backoff.WithMaxRetries(backoff.NewConstantBackOff(d), 2)
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(d)}
		ctx := t.Context()

		ticks := func(ticker *backoff.Ticker) (waited []time.Duration) {
			start := time.Now()
			for range ticker.C {
				waited = append(waited, time.Since(start))
			}
			return waited
		}
		var start time.Time
		var waited []time.Duration
		fn := func(context.Context) error {
			waited = append(waited, time.Since(start))
			return errBoom
		}
		turns := func(do func() error) []time.Duration {
			start = time.Now()
			assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(do()))
			return waited
		}
		assert.Equal(t, ticks(backoff.NewTicker(b)), turns(func() error { return retry.Do(ctx, p, fn) }))
	})
}

func TestThePageOnDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := exponential(opts(time.Second, 2, time.Minute), backoff.WithMaxElapsedTime(7*time.Second))
		p := policyOf(t, b)
		began, seed, err := time.Now(), retry.SeedOf("job 17"), errBoom
		for n := 1; n <= 4; n++ {
			elapsed := time.Since(began)
			wait, d := b.NextBackOff(), p.Next(retry.Attempt{Number: n, Err: err, Elapsed: elapsed, Seed: seed})
			assert.Equal(t, wait == backoff.Stop, !d.Retry())
			assert.Equal(t, n == 4, !d.Retry())
			if d.Retry() {
				assert.Equal(t, wait, d.Delay)
				time.Sleep(d.Delay)
			}
			assert.Equal(t, b.GetElapsedTime(), time.Since(began))
		}
	})
}
