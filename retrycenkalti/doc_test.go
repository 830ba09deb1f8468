package retrycenkalti_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrycenkalti"
)

// The policies in the table of the documentation of Policy are the policies that Policy returns.
func TestTableOfPolicy(t *testing.T) {
	const d, f, m = 3 * time.Second, 1, 2.5
	defaults := func(set func(p *retry.Policy)) retry.Policy {
		p := retry.Policy{
			MaxAttempts: retry.Unlimited,
			Backoff: retry.Exponential{Base: 500 * time.Millisecond,
				Factor: 1.5},
			MaxDelay:   time.Minute,
			Jitter:     retry.Proportional(0.5),
			MaxElapsed: 15 * time.Minute,
		}
		set(&p)
		return p
	}
	for _, row := range []struct {
		v4      backoff.BackOff
		instead retry.Policy
	}{
		{backoff.NewExponentialBackOff(), defaults(func(*retry.Policy) {})},
		{backoff.NewExponentialBackOff(backoff.WithInitialInterval(d)), defaults(func(p *retry.Policy) { p.Backoff = retry.Exponential{Base: d, Factor: 1.5} })},
		{backoff.NewExponentialBackOff(backoff.WithMultiplier(m)), defaults(func(p *retry.Policy) { p.Backoff = retry.Exponential{Base: 500 * time.Millisecond, Factor: m} })},
		{backoff.NewExponentialBackOff(backoff.WithMaxInterval(d)), defaults(func(p *retry.Policy) { p.MaxDelay = d })},
		{backoff.NewExponentialBackOff(backoff.WithRandomizationFactor(f)), defaults(func(p *retry.Policy) { p.Jitter = retry.Proportional(f) })},
		{backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(d)), defaults(func(p *retry.Policy) { p.MaxElapsed = d })},
		{backoff.NewConstantBackOff(d), retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(d)}},
		{&backoff.ConstantBackOff{Interval: d}, retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(d)}},
		{&backoff.ZeroBackOff{}, retry.Policy{MaxAttempts: retry.Unlimited}},
		{&backoff.StopBackOff{}, retry.Policy{NonRetryable: true}},
	} {
		assert.Equal(t, row.instead, fieldsOf(t, row.v4))
	}
}

// onRetry is the function in the documentation of Policy.
func onRetry(notify func(error, time.Duration)) func(context.Context, retry.Event) {
	return func(_ context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			notify(e.Err, e.Delay)
		}
	}
}

// Both loops call a Notify with the same arguments, once for each retry that is made.
func TestNotifyOfTheDocumentation(t *testing.T) {
	const d = 3 * time.Second
	type notice struct {
		err error
		d   time.Duration
	}
	for name, test := range map[string]struct {
		script
		told int
	}{
		"failures": {fails, 2}, "success": {failsTimes(0), 0}, "a failure": {failsTimes(1), 1}, "a permanent error": {script{{err: backoff.Permanent(errBoom)}}, 0},
	} {
		var told []notice
		notify := func(err error, d time.Duration) { told = append(told, notice{err, d}) }
		_, _ = play(t, test.script, func(_ context.Context, op func() error) error {
			return backoff.RetryNotify(op, backoff.WithMaxRetries(backoff.NewConstantBackOff(d), 2), notify)
		})
		want := told
		told = nil
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(d), RetryIf: retrycenkalti.Retryable, OnEvent: onRetry(notify)}
		_, _ = play(t, test.script, do(p))
		assert.Equal(t, want, told, name)
		assert.Len(t, told, test.told, name)
	}
}

// The tests below are about the section "What differs" of the package documentation.

// The jitter windows are equal below the cap. In v4 a window may reach above the cap.
func TestTheCapDiffers(t *testing.T) {
	const s = time.Second
	step := policyOf(t, backoff.NewExponentialBackOff()).Plan(20)[19]
	assert.Equal(t, []time.Duration{30 * s, 60 * s}, []time.Duration{step.Lo, step.Hi})
	beyond := exponential(opts(time.Hour, 2, s))
	assert.Equal(t, []time.Duration{time.Hour, s, s}, nextBackOffs(beyond, 3))
	assert.Equal(t, retry.Schedule{s, s, s}, policyOf(t, beyond).Delays(3))

	b := exponential(opts(3*s/2, 2, 8*s), backoff.WithRandomizationFactor(0.5))
	windows := [][2]time.Duration{{3 * s / 4, 9 * s / 4}, {3 * s / 2, 9 * s / 2}, {3 * s, 9 * s}, {4 * s, 12 * s}} // in v4
	for i, step := range policyOf(t, b).Plan(len(windows)) {
		assert.Equal(t, [2]time.Duration{windows[i][0], min(windows[i][1], 8*s)}, [2]time.Duration{step.Lo, step.Hi})
	}
	longest := make([]time.Duration, len(windows))
	for range 2000 {
		for i, d := range nextBackOffs(b, len(windows)) {
			assert.True(t, windows[i][0] <= d && d <= windows[i][1], "%d: %v", i, d)
			longest[i] = max(longest[i], d)
		}
	}
	assert.Greater(t, longest[2], 8*s, "fails with a probability of 0.83^2000")
	assert.Greater(t, longest[3], 11*s)
}

func TestRoundingDiffers(t *testing.T) {
	delays := func(initial time.Duration) (theirs, ours []time.Duration) {
		b := exponential(opts(initial, 1.5, time.Minute))
		return nextBackOffs(b, 100), policyOf(t, b).Delays(100)
	}
	theirs, ours := delays(500 * time.Millisecond)
	assert.Equal(t, []time.Duration{28832519530, 43248779295}, theirs[10:12])
	ours[10]--
	ours[11]--
	assert.Equal(t, theirs, ours, "all other delays are equal")
	theirs, ours = delays(time.Microsecond)
	assert.Equal(t, []time.Duration{55966446694, 55977744874}, []time.Duration{theirs[44], ours[44]})
	theirs, ours = delays(1)
	assert.Equal(t, []time.Duration{1, time.Minute}, []time.Duration{theirs[99], ours[99]})
}

func TestTheContextDiffers(t *testing.T) {
	const ms = time.Millisecond
	p := policyOf(t, exponential()) // 500ms, 750ms
	cancel := func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(d, cancel)
		return ctx, cancel
	}
	cut := trace{began: []time.Duration{0, 500 * ms}, ended: 1200 * ms}
	for _, test := range []struct {
		name         string
		end          func(context.Context, time.Duration) (context.Context, context.CancelFunc)
		after        time.Duration
		theirs, ours trace
		cause, is    error
		reason       retry.Reason
	}{
		{"done before the first attempt", context.WithTimeout, 0, at(false, 0), trace{}, context.DeadlineExceeded, context.DeadlineExceeded, retry.ReasonDeadline},
		{"a deadline before the next try, for which v4 waits", context.WithTimeout, 1200 * ms, cut, at(false, 0, 500*ms), context.DeadlineExceeded, errBoom, retry.ReasonDeadline},
		{"a cancel, which ends the wait of either loop", cancel, 1200 * ms, cut, cut, context.Canceled, errBoom, retry.ReasonCanceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			within := func(loop loop) (trace, error) {
				return play(t, fails, func(ctx context.Context, op func() error) error {
					ctx, cancel := test.end(ctx, test.after)
					defer cancel()
					err := loop(ctx, op)
					assert.ErrorIs(t, err, test.cause) // inside the bubble
					assert.Equal(t, test.cause, retry.Unwrap(err))
					return err
				})
			}
			for name, b := range map[string]backoff.BackOff{"v4": exponential(), "v4 with a retrycenkalti.BackOff": newBackOff(t, p)} {
				did, err := within(retryV4(b))
				assert.Equal(t, test.theirs, did, name)
				assert.Equal(t, test.cause, err, "%s loses what the operation failed with", name)
			}
			ours, err := within(do(p))
			assert.Equal(t, test.ours, ours)
			assert.ErrorIs(t, err, test.is)
			assert.Equal(t, test.reason, retry.ReasonOf(err))
		})
	}

	// When the wait ends, the select of v4 picks either case with the same probability.
	attempts := [3]int{}
	for range 200 {
		did, _ := play(t, fails, func(ctx context.Context, op func() error) error {
			ctx, cancel := context.WithCancel(ctx)
			return backoff.RetryNotify(op, backoff.WithContext(&backoff.ZeroBackOff{}, ctx), func(error, time.Duration) { cancel() })
		})
		attempts[len(did.began)]++
	}
	assert.NotZero(t, attempts[1])
	assert.NotZero(t, attempts[2], "v4 runs the operation after the context is done; this fails with a probability of 1e-60")
}

func TestResultsDiffer(t *testing.T) {
	for _, err := range []error{io.EOF, backoff.Permanent(io.EOF)} {
		_, theirs := play(t, script{{err: err}}, retryV4(&backoff.StopBackOff{}))
		assert.True(t, theirs == io.EOF, "the error itself, without the wrapper")
		_, ours := play(t, script{{err: err}}, do(policyOf(t, &backoff.StopBackOff{})))
		assert.IsType(t, (*retry.Error)(nil), ours)
		assert.ErrorIs(t, ours, io.EOF)
	}

	n := 0
	op := func() (int, error) { n++; return n, errBoom }
	last, err := backoff.RetryWithData(op, backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 2))
	assert.Equal(t, []any{3, errBoom}, []any{last, err})
	p := policyOf(t, &backoff.ZeroBackOff{})
	p.MaxAttempts = 3
	zero, err := retry.DoValue(t.Context(), p, func(context.Context) (int, error) { return op() })
	assert.ErrorIs(t, err, errBoom)
	assert.Equal(t, []int{6, 0}, []int{n, zero})
}

func TestNestedLoopsDiffer(t *testing.T) {
	plain := retry.Policy{MaxAttempts: 3}
	converted := policyOf(t, &backoff.ZeroBackOff{})
	converted.MaxAttempts = 3
	replaced := converted
	replaced.RetryIf = func(error) bool { return true }
	v4 := retryV4(backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 2))
	translated := func(ctx context.Context, op func() error) error {
		return do(plain)(ctx, func() error { return retrycenkalti.Translate(op()) })
	}
	theirs := backoff.Permanent(errBoom)
	for name, test := range map[string]struct {
		outer, inner loop
		err          error
		attempts     int
	}{
		"v4 in v4":                                 {retryV4(backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 2)), v4, theirs, 3},
		"converted in converted":                   {do(converted), do(converted), theirs, 1},
		"converted in plain":                       {do(plain), do(converted), theirs, 3},
		"converted in plain, retry.Permanent":      {do(plain), do(converted), retry.Permanent(errBoom), 1},
		"plain in plain, through Translate":        {do(plain), translated, theirs, 1},
		"converted in one that replaces Retryable": {do(replaced), do(converted), theirs, 3},
	} {
		did, err := play(t, script{{err: test.err}}, func(ctx context.Context, op func() error) error {
			return test.outer(ctx, func() error { return test.inner(ctx, op) })
		})
		assert.ErrorIs(t, err, errBoom, name)
		assert.Len(t, did.began, test.attempts, name)
	}
}

func TestTickersMeasureFromTheStart(t *testing.T) {
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
