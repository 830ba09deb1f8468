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

// The tests of this file pin what the package documentation says under "What
// differs".

// TestTheCapDiffers: TestWindowsAreEqualUpToTheCap shows that v4 leaks.
func TestTheCapDiffers(t *testing.T) {
	window := func(b backoff.BackOff, n int) []time.Duration {
		step := policyOf(t, b).Plan(n)[n-1]
		return []time.Duration{step.Lo, step.Hi}
	}
	const s = time.Second
	assert.Equal(t, []time.Duration{30 * s, 60 * s}, window(backoff.NewExponentialBackOff(), 20))
	crosses := exponential(opts(6*s, 2, 8*s), backoff.WithRandomizationFactor(0.5))
	assert.Equal(t, []time.Duration{3 * s, 8 * s}, window(crosses, 1))

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

// playWith plays fails in a loop whose context ends after d, and looks in the
// bubble for what else the error is.
func playWith(t *testing.T, d time.Duration, end func(context.Context, time.Duration) (context.Context, context.CancelFunc),
	loop func(context.Context, func() error) error, is ...error) (trace, error) {
	t.Helper()
	return play(t, fails, func(ctx context.Context, op func() error) error {
		ctx, cancel := end(ctx, d)
		defer cancel()
		err := loop(ctx, op)
		for _, target := range is {
			assert.ErrorIs(t, err, target)
		}
		return err
	})
}

// withCancel is context.WithTimeout for a cancel without a deadline.
func withCancel(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	time.AfterFunc(d, cancel)
	return ctx, cancel
}

func TestTheContextDiffers(t *testing.T) {
	const ms = time.Millisecond
	p := policyOf(t, exponential()) // 500ms, 750ms
	t.Run("ended before the first execution", func(t *testing.T) {
		theirs, err := playWith(t, 0, context.WithTimeout, retryV4WithContext(exponential()))
		assert.Equal(t, at(false, 0), theirs)
		assert.Equal(t, context.DeadlineExceeded, err, "and loses what the operation failed with")

		ours, err := playWith(t, 0, context.WithTimeout, do(p), context.DeadlineExceeded)
		assert.Equal(t, trace{}, ours)
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
	})
	t.Run("a deadline before the next try", func(t *testing.T) {
		theirs, err := playWith(t, 1200*ms, context.WithTimeout, retryV4WithContext(exponential()))
		assert.Equal(t, trace{began: []time.Duration{0, 500 * ms}, ended: 1200 * ms}, theirs, "it waits for the deadline")
		assert.Equal(t, context.DeadlineExceeded, err)

		ours, err := playWith(t, 1200*ms, context.WithTimeout, do(p), context.DeadlineExceeded, errBoom)
		assert.Equal(t, at(false, 0, 500*ms), ours)
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
	})
	t.Run("ended as the wait ends", func(t *testing.T) {
		// select of v4 picks either way, each as likely as the other.
		canceled := func(loop func(ctx context.Context, op func() error, cancel func()) error) (executions [3]int) {
			for range 200 {
				did, _ := play(t, fails, func(ctx context.Context, op func() error) error {
					ctx, cancel := context.WithCancel(ctx)
					defer cancel()
					err := loop(ctx, op, cancel)
					assert.ErrorIs(t, err, context.Canceled)
					return err
				})
				executions[len(did.began)]++
			}
			return executions
		}
		theirs := canceled(func(ctx context.Context, op func() error, cancel func()) error {
			notify := func(error, time.Duration) { cancel() }
			return backoff.RetryNotify(op, backoff.WithContext(&backoff.ZeroBackOff{}, ctx), notify)
		})
		assert.NotZero(t, theirs[1])
		assert.NotZero(t, theirs[2], "once more after the context has ended, but for a chance of 1e-60")

		ours := canceled(func(ctx context.Context, op func() error, cancel func()) error {
			p := policyOf(t, &backoff.ZeroBackOff{})
			p.MaxAttempts = 9
			p.OnEvent = onRetry(func(error, time.Duration) { cancel() })
			return do(p)(ctx, op)
		})
		assert.Equal(t, [3]int{1: 200}, ours)
	})
}

// TestACancelEndsTheWaitOfEitherLoop: here nothing differs but the error.
func TestACancelEndsTheWaitOfEitherLoop(t *testing.T) {
	const ms = time.Millisecond
	want := trace{began: []time.Duration{0, 500 * ms}, ended: 1200 * ms}
	p := policyOf(t, exponential())
	did, err := playWith(t, 1200*ms, withCancel, retryV4WithContext(exponential()))
	assert.Equal(t, want, did, "v4")
	assert.Equal(t, context.Canceled, err)

	did, err = playWith(t, 1200*ms, withCancel, retryV4WithContext(newBackOff(t, p)))
	assert.Equal(t, want, did, "v4 with a BackOff of ours")
	assert.Equal(t, context.Canceled, err)

	did, err = playWith(t, 1200*ms, withCancel, do(p), context.Canceled, errBoom)
	assert.Equal(t, want, did, "ours")
	assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
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
		executions   int
	}{
		{"v4 in v4", v4(), v4(), backoff.Permanent(errBoom), 3},
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
			assert.Len(t, did.began, test.executions)
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

// TestNotifyAndOnEvent: both tell of the same retries, of none that is not
// made.
func TestNotifyAndOnEvent(t *testing.T) {
	type notice struct {
		err error
		d   time.Duration
		at  time.Duration
	}
	errOther := errors.New("other")
	notices := func(s script, loop func(op func() error, notify func(error, time.Duration)) error) (told []notice) {
		synctest.Test(t, func(t *testing.T) {
			start, n := time.Now(), 0
			_ = loop(func() error {
				n++
				return s[min(n, len(s))-1].err
			}, func(err error, d time.Duration) { told = append(told, notice{err, d, time.Since(start)}) })
		})
		return told
	}
	const s = time.Second
	for name, test := range map[string]struct {
		script script
		want   []notice
	}{
		"it fails":            {failsTimes(1)[:1].then(errOther), []notice{{errBoom, s, 0}, {errOther, 2 * s, s}}},
		"it succeeds at last": {failsTimes(1), []notice{{errBoom, s, 0}}},
		"it succeeds at once": {failsTimes(0), nil},
		"it is permanent":     {failsTimes(1)[:1].then(backoff.Permanent(errOther)), []notice{{errBoom, s, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := exponential(opts(s, 2, time.Minute))
			theirs := notices(test.script, func(op func() error, notify func(error, time.Duration)) error {
				return backoff.RetryNotify(op, backoff.WithMaxRetries(b, 2), notify)
			})
			assert.Equal(t, test.want, theirs, "v4")
			ours := notices(test.script, func(op func() error, notify func(error, time.Duration)) error {
				p := policyOf(t, b)
				p.MaxAttempts = 3
				p.OnEvent = onRetry(notify)
				return do(p)(context.Background(), op)
			})
			assert.Equal(t, test.want, ours, "ours")
		})
	}
}
