package retrycenkalti_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrycenkalti"
)

// What the table in the documentation of Policy says to write in place of v4 is
// written out here beside it, and does the same.

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
	for n, b := uint64(0), backoff.NewConstantBackOff(d); n < 4; n++ {
		limited(backoff.WithMaxRetries(b, n), func(p *retry.Policy) { p.MaxAttempts = int(n) + 1 })
	}
}

// A notice is what a Notify gets, and when.
type notice struct {
	err   error
	d, at time.Duration
}

// TestThePageOnLoops runs each call of v4, and what replaces it, in a bubble of
// its own.
func TestThePageOnLoops(t *testing.T) {
	const d = 3 * time.Second
	var (
		ctx      context.Context
		start    time.Time
		fault    error // what the operation fails with
		succeeds int   // at which attempt
		did      trace
		told     []notice
	)
	op := func() error {
		did.began = append(did.began, time.Since(start))
		if len(did.began) == succeeds {
			return nil
		}
		return fault
	}
	fn := func(context.Context) error { return op() }
	notify := func(err error, d time.Duration) { told = append(told, notice{err, d, time.Since(start)}) }
	b := backoff.WithMaxRetries(backoff.NewConstantBackOff(d), 2)
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(d)}

	canceled := time.Hour
	run := func(loop func() error) (trace, []notice) {
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
	same := func(attempts int, v4, instead func() error) {
		t.Helper()
		var fails error
		theirs, theyTold := run(func() error { fails = v4(); return fails })
		ours, weTold := run(func() error {
			err := instead()
			assert.ErrorIs(t, err, fails)
			return err
		})
		assert.Len(t, theirs.began, attempts)
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
		assert.Equal(t, []notice{{errBoom, d, 0}, {errBoom, d, d}}, told)
		for succeeds = 1; succeeds < 3; succeeds++ { // neither reports a retry that it does not make
			same(succeeds, func() error { return backoff.RetryNotify(op, b, notify) }, func() error { return retry.Do(ctx, p, fn) })
			assert.Len(t, told, succeeds-1)
		}
		succeeds = 0
		same(1, func() error { fault = backoff.Permanent(errBoom); return backoff.RetryNotify(op, b, notify) },
			func() error { fault = retry.Permanent(errBoom); return retry.Do(ctx, p, fn) })
		assert.Empty(t, told)
	}

	ticks := func(ticker *backoff.Ticker) (err error) {
		for range ticker.C {
			err = op()
		}
		return err
	}
	same(3, func() error { return ticks(backoff.NewTicker(b)) }, func() error { return retry.Do(ctx, p, fn) })

	canceled = d + 1
	same(2, func() error { return backoff.Retry(op, backoff.WithContext(b, ctx)) }, func() error { return retry.Do(ctx, p, fn) })

	err := errBoom
	same(1, func() error { fault = backoff.Permanent(err); return backoff.Retry(op, b) },
		func() error { fault = retry.Permanent(err); return retry.Do(ctx, p, fn) })
	same(1, func() error { fault = &backoff.PermanentError{Err: err}; return backoff.Retry(op, b) },
		func() error { fault = retry.Permanent(err); return retry.Do(ctx, p, fn) })
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

// The tests below pin what the package documentation says under "What differs".

// TestTheCapDiffers: TestWindowsAreEqualUpToTheCap shows that v4 leaks.
func TestTheCapDiffers(t *testing.T) {
	const s = time.Second
	step := policyOf(t, backoff.NewExponentialBackOff()).Plan(20)[19]
	assert.Equal(t, []time.Duration{30 * s, 60 * s}, []time.Duration{step.Lo, step.Hi})
	beyond := exponential(opts(time.Hour, 2, s))
	assert.Equal(t, []time.Duration{time.Hour, s, s}, nextBackOffs(beyond, 3))
	assert.Equal(t, retry.Schedule{s, s, s}, policyOf(t, beyond).Delays(3))
}

func TestRoundingDiffers(t *testing.T) {
	delays := func(initial time.Duration) (theirs, ours []time.Duration) {
		b := exponential(opts(initial, 1.5, time.Minute))
		return nextBackOffs(b, 100), policyOf(t, b).Delays(100)
	}
	theirs, ours := delays(500 * time.Millisecond)
	assert.Equal(t, []time.Duration{28832519530, 43248779295, time.Minute}, theirs[10:13])
	assert.Equal(t, []time.Duration{28832519531, 43248779296, time.Minute}, ours[10:13])
	ours[10]--
	ours[11]--
	assert.Equal(t, theirs, ours, "these are the only ones")

	theirs, ours = delays(time.Microsecond)
	assert.Equal(t, 55966446694*time.Nanosecond, theirs[44])
	assert.Equal(t, 55977744874*time.Nanosecond, ours[44])

	theirs, ours = delays(1)
	assert.Equal(t, time.Nanosecond, theirs[99])
	assert.Equal(t, time.Minute, ours[99])
}

func TestTheContextDiffers(t *testing.T) {
	const ms = time.Millisecond
	p := policyOf(t, exponential()) // 500ms, 750ms
	for _, test := range []struct {
		name         string
		ends         time.Duration
		cancel       bool
		theirs, ours trace
		is           error // beside that of the context
		reason       retry.Reason
	}{
		{"ended before the first attempt", 0, false, at(false, 0), trace{}, context.DeadlineExceeded, retry.ReasonDeadline},
		{"a deadline before the next try, for which v4 waits", 1200 * ms, false, trace{began: []time.Duration{0, 500 * ms}, ended: 1200 * ms},
			at(false, 0, 500*ms), errBoom, retry.ReasonDeadline},
		{"a cancel, which ends the wait of either loop", 1200 * ms, true, trace{began: []time.Duration{0, 500 * ms}, ended: 1200 * ms},
			trace{began: []time.Duration{0, 500 * ms}, ended: 1200 * ms}, errBoom, retry.ReasonCanceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			end := context.WithTimeout
			cause := context.DeadlineExceeded
			if test.cancel {
				cause = context.Canceled
				end = func(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancel(parent)
					time.AfterFunc(d, cancel)
					return ctx, cancel
				}
			}
			within := func(loop func(context.Context, func() error) error) (trace, error) {
				return play(t, fails, func(ctx context.Context, op func() error) error {
					ctx, cancel := end(ctx, test.ends)
					defer cancel()
					err := loop(ctx, op)
					assert.ErrorIs(t, err, cause) // in the bubble
					assert.Equal(t, cause, retry.Unwrap(err))
					return err
				})
			}
			for name, b := range map[string]backoff.BackOff{"v4": exponential(), "v4 with a retrycenkalti.BackOff": newBackOff(t, p)} {
				did, err := within(retryV4WithContext(b))
				assert.Equal(t, test.theirs, did, name)
				assert.Equal(t, cause, err, "%s loses what the operation failed with", name)
			}
			ours, err := within(do(p))
			assert.Equal(t, test.ours, ours)
			assert.ErrorIs(t, err, test.is)
			assert.Equal(t, test.reason, retry.ReasonOf(err))
		})
	}
	t.Run("ended as the wait ends", func(t *testing.T) {
		// select of v4 picks either way, each as likely as the other.
		canceled := func(loop func(ctx context.Context, op func() error, cancel func()) error) (attempts [3]int) {
			for range 200 {
				did, _ := play(t, fails, func(ctx context.Context, op func() error) error {
					ctx, cancel := context.WithCancel(ctx)
					defer cancel()
					err := loop(ctx, op, cancel)
					assert.ErrorIs(t, err, context.Canceled)
					return err
				})
				attempts[len(did.began)]++
			}
			return attempts
		}
		theirs := canceled(func(ctx context.Context, op func() error, cancel func()) error {
			notify := func(error, time.Duration) { cancel() }
			return backoff.RetryNotify(op, backoff.WithContext(&backoff.ZeroBackOff{}, ctx), notify)
		})
		assert.NotZero(t, theirs[1])
		assert.NotZero(t, theirs[2], "once more after the context is done, except with a chance of 1e-60")

		ours := canceled(func(ctx context.Context, op func() error, cancel func()) error {
			p := policyOf(t, &backoff.ZeroBackOff{})
			p.MaxAttempts = 9
			p.OnEvent = onRetry(func(error, time.Duration) { cancel() })
			return do(p)(ctx, op)
		})
		assert.Equal(t, [3]int{1: 200}, ours)
	})
}

func TestResultsDiffer(t *testing.T) {
	t.Run("the error", func(t *testing.T) {
		var permanent *backoff.PermanentError
		for _, err := range []error{io.EOF, backoff.Permanent(io.EOF)} {
			_, theirs := play(t, script{{err: err}}, retryV4(&backoff.StopBackOff{}))
			assert.True(t, theirs == io.EOF, "as it is, but without the mark")
			assert.False(t, errors.As(theirs, &permanent))

			_, ours := play(t, script{{err: err}}, do(policyOf(t, &backoff.StopBackOff{})))
			assert.IsType(t, (*retry.Error)(nil), ours)
			assert.ErrorIs(t, ours, io.EOF)
		}
	})
	t.Run("the value", func(t *testing.T) {
		n := 0
		op := func() (int, error) { n++; return n, errBoom }
		last, err := backoff.RetryWithData(op, backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 2))
		assert.Equal(t, errBoom, err)
		assert.Equal(t, 3, last)

		p := policyOf(t, &backoff.ZeroBackOff{})
		p.MaxAttempts = 3
		zero, err := retry.DoValue(t.Context(), p, func(context.Context) (int, error) { return op() })
		assert.ErrorIs(t, err, errBoom)
		assert.Equal(t, 6, n)
		assert.Zero(t, zero)
	})
}

func TestNestedLoopsDiffer(t *testing.T) {
	plain := retry.Policy{MaxAttempts: 3}
	converted := policyOf(t, &backoff.ZeroBackOff{})
	converted.MaxAttempts = 3
	replaced := converted
	replaced.RetryIf = func(error) bool { return true }
	both := replaced
	both.RetryIf = func(err error) bool { return retrycenkalti.Retryable(err) && replaced.RetryIf(err) }
	v4 := func() func(context.Context, func() error) error {
		return retryV4(backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 2))
	}
	translated := func(ctx context.Context, op func() error) error {
		return do(plain)(ctx, func() error { return retrycenkalti.Translate(op()) })
	}
	tests := []struct {
		name         string
		outer, inner func(context.Context, func() error) error
		err          error
		attempts     int
	}{
		{"v4 in v4", v4(), v4(), backoff.Permanent(errBoom), 3},
		{"v4 in v4, retry.Permanent", v4(), v4(), retry.Permanent(errBoom), 9},
		{"converted in converted", do(converted), do(converted), backoff.Permanent(errBoom), 1},
		{"converted in plain", do(plain), do(converted), backoff.Permanent(errBoom), 3},
		{"converted in plain, retry.Permanent", do(plain), do(converted), retry.Permanent(errBoom), 1},
		{"plain in plain, retry.Permanent", do(plain), do(plain), retry.Permanent(errBoom), 1},
		{"plain in plain, through Translate", do(plain), translated, backoff.Permanent(errBoom), 1},
		{"converted in one with another RetryIf", do(replaced), do(converted), backoff.Permanent(errBoom), 3},
		{"converted in one whose RetryIf calls Retryable", do(both), do(converted), backoff.Permanent(errBoom), 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			did, err := play(t, script{{err: test.err}}, func(ctx context.Context, op func() error) error {
				return test.outer(ctx, func() error { return test.inner(ctx, op) })
			})
			assert.ErrorIs(t, err, errBoom)
			assert.Len(t, did.began, test.attempts)
		})
	}
}

func TestWhatAServerAsksForDiffers(t *testing.T) {
	asks := script{{err: retry.After(30*time.Second, errBoom)}}
	b := backoff.NewConstantBackOff(time.Second)
	theirs, _ := play(t, asks, retryV4(backoff.WithMaxRetries(b, 1)))
	assert.Equal(t, at(false, 0, time.Second), theirs)

	p := policyOf(t, b)
	p.MaxAttempts = 2
	ours, _ := play(t, asks, do(p))
	assert.Equal(t, at(false, 0, 30*time.Second), ours)
}

func TestTickersDiffer(t *testing.T) {
	const s = time.Second
	permanent := script{{takes: 3 * s, err: errBoom}, {takes: 3 * s, err: backoff.Permanent(errBoom)}}
	b := backoff.NewConstantBackOff(s)

	theirs, _ := play(t, permanent, func(_ context.Context, op func() error) (err error) {
		ticker := backoff.NewTicker(backoff.WithMaxRetries(b, 3))
		for range ticker.C {
			err = op()
		}
		return err
	})
	assert.Equal(t, trace{began: []time.Duration{0, 3 * s, 6 * s, 9 * s}, ended: 12 * s}, theirs)

	ours, _ := play(t, permanent, do(policyOf(t, b)))
	assert.Equal(t, trace{began: []time.Duration{0, 4 * s}, ended: 7 * s}, ours)
}
