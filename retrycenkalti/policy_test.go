package retrycenkalti_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrycenkalti"
)

// exponential returns a BackOff without randomization and without a bound in
// time, changed by the options.
func exponential(opts ...backoff.ExponentialBackOffOpts) *backoff.ExponentialBackOff {
	plain := []backoff.ExponentialBackOffOpts{backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0)}
	return backoff.NewExponentialBackOff(append(plain, opts...)...)
}

func opts(initial time.Duration, multiplier float64, max time.Duration) backoff.ExponentialBackOffOpts {
	return func(b *backoff.ExponentialBackOff) {
		b.InitialInterval, b.Multiplier, b.MaxInterval = initial, multiplier, max
	}
}

const forever = math.MaxUint64

// TestPolicyDoesWhatTheBackOffDoes runs the same operation through both loops.
func TestPolicyDoesWhatTheBackOffDoes(t *testing.T) {
	const ms, s, m = time.Millisecond, time.Second, time.Minute
	tests := []struct {
		name    string
		backoff backoff.BackOff
		retries uint64 // WithMaxRetries
		script  script
		want    trace
	}{
		{"the defaults without randomization", exponential(backoff.WithMaxElapsedTime(15 * m)), 6, fails,
			at(false, 0, 500*ms, 1250*ms, 2375*ms, 4062500*time.Microsecond, 6593750*time.Microsecond, 10390625*time.Microsecond)},
		{"doubling up to the cap", exponential(opts(s, 2, 5*s)), 5, fails, at(false, 0, 1*s, 3*s, 7*s, 12*s, 17*s)},
		{"doubling that meets the cap", exponential(opts(s, 2, 4*s)), 4, fails, at(false, 0, 1*s, 3*s, 7*s, 11*s)},
		{"a cap that the second delay passes", exponential(opts(s, 10, 1500*ms)), 3, fails, at(false, 0, 1*s, 2500*ms, 4*s)},
		{"multiplier 1", exponential(opts(s, 1, m)), 3, fails, at(false, 0, 1*s, 2*s, 3*s)},
		{"multiplier 3", exponential(opts(s, 3, m)), 3, fails, at(false, 0, 1*s, 4*s, 13*s)},
		{"no cap", exponential(opts(s, 2, math.MaxInt64)), 4, fails, at(false, 0, 1*s, 3*s, 7*s, 15*s)},
		{"no first delay", exponential(opts(0, 2, m)), 3, fails, at(false, 0, 0, 0, 0)},
		{"constant", backoff.NewConstantBackOff(7 * s), 3, fails, at(false, 0, 7*s, 14*s, 21*s)},
		{"constant of nothing", backoff.NewConstantBackOff(0), 3, fails, at(false, 0, 0, 0, 0)},
		{"zero", &backoff.ZeroBackOff{}, 3, fails, at(false, 0, 0, 0, 0)},
		{"stop", &backoff.StopBackOff{}, forever, fails, at(false, 0)},
		{"no retry", exponential(), 0, fails, at(false, 0)},
		{"one retry", exponential(), 1, fails, at(false, 0, 500*ms)},
		{"success at once", exponential(), forever, failsTimes(0), at(true, 0)},
		{"success after two failures", exponential(), forever, failsTimes(2), at(true, 0, 500*ms, 1250*ms)},
		{"success one try too late", exponential(), 1, failsTimes(2), at(false, 0, 500*ms)},

		{"a retry that starts at MaxElapsedTime", exponential(opts(s, 2, m), backoff.WithMaxElapsedTime(7*s)), forever, fails,
			at(false, 0, 1*s, 3*s, 7*s)},
		{"a retry that would start 1ns later", exponential(opts(s, 2, m), backoff.WithMaxElapsedTime(7*s-1)), forever, fails,
			at(false, 0, 1*s, 3*s)},
		{"MaxElapsedTime below the first delay", exponential(opts(s, 2, m), backoff.WithMaxElapsedTime(s-1)), forever, fails, at(false, 0)},
		{"executions count for MaxElapsedTime", exponential(opts(s, 2, m), backoff.WithMaxElapsedTime(10*s)), forever,
			script{{takes: 3 * s, err: errBoom}}, trace{began: []time.Duration{0, 4 * s, 9 * s}, ended: 12 * s}},
		{"a first execution beyond MaxElapsedTime", exponential(backoff.WithMaxElapsedTime(15 * m)), forever,
			script{{takes: 16 * m, err: errBoom}}, trace{began: []time.Duration{0}, ended: 16 * m}},

		{"backoff.Permanent at once", exponential(), forever, script{{err: backoff.Permanent(errBoom)}}, at(false, 0)},
		{"backoff.Permanent after a failure", exponential(), forever, failsTimes(1)[:1].then(backoff.Permanent(errBoom)), at(false, 0, 500*ms)},
		{"backoff.Permanent within another error", exponential(), forever, script{{err: wrapped{backoff.Permanent(errBoom)}}}, at(false, 0)},
		{"backoff.Permanent under zero", &backoff.ZeroBackOff{}, 9, failsTimes(1)[:1].then(backoff.Permanent(errBoom)), at(false, 0, 0)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			theirs, err := play(t, test.script, retryV4(backoff.WithMaxRetries(test.backoff, test.retries)))
			assert.Equal(t, test.want, theirs, "v4")
			if !test.want.ok {
				assert.ErrorIs(t, err, errBoom)
			}

			p := policyOf(t, test.backoff)
			if test.retries != forever {
				p.MaxAttempts = int(test.retries) + 1
			}
			require.NoError(t, p.Validate())
			ours, err := play(t, test.script, do(p))
			assert.Equal(t, test.want, ours, "ours")
			if !test.want.ok {
				assert.ErrorIs(t, err, errBoom)
			}
		})
	}
}

// policyOf returns the policy of a BackOff of v4.
func policyOf(t *testing.T, b backoff.BackOff) retry.Policy {
	t.Helper()
	p, err := retrycenkalti.Policy(b)
	require.NoError(t, err)
	return p
}

// fieldsOf returns the policy of a BackOff of v4 without its RetryIf, for a
// func is equal to nothing.
func fieldsOf(t *testing.T, b backoff.BackOff) retry.Policy {
	t.Helper()
	p := policyOf(t, b)
	assert.False(t, p.RetryIf(backoff.Permanent(errBoom)))
	assert.True(t, p.RetryIf(errBoom))
	p.RetryIf = nil
	return p
}

// TestPolicyOfABackOffOfOurs: the policy comes back as it was, so backoff.Permanent
// means nothing to it, unless it has Retryable.
func TestPolicyOfABackOffOfOurs(t *testing.T) {
	b := newBackOff(t, retry.Default())
	assert.Equal(t, retry.Default(), policyOf(t, b), "there and back")
	b.NextBackOff()
	assert.Equal(t, retry.Default(), policyOf(t, b), "what it has counted and drawn is left out")

	permanent := script{{err: backoff.Permanent(errBoom)}}
	p := retry.Policy{MaxAttempts: 5}
	did, _ := play(t, permanent, retryV4(newBackOff(t, p)))
	assert.Len(t, did.began, 1)
	did, _ = play(t, permanent, do(policyOf(t, newBackOff(t, p))))
	assert.Len(t, did.began, 5)
	p.RetryIf = retrycenkalti.Retryable
	did, _ = play(t, permanent, do(policyOf(t, newBackOff(t, p))))
	assert.Len(t, did.began, 1)
}

// A StopBackOff allows no retry, and so no limit of a job raises it.
func TestPolicyOfAStopBackOff(t *testing.T) {
	assert.Equal(t, retry.Policy{NonRetryable: true}, fieldsOf(t, &backoff.StopBackOff{}))
}

func TestPolicyOnlyReadsTheBackOff(t *testing.T) {
	b := exponential()
	b.NextBackOff()
	assert.Equal(t, fieldsOf(t, exponential()), fieldsOf(t, b))
	assert.Equal(t, 750*time.Millisecond, b.NextBackOff())
}

// What v4 repeats without a pause waits 10ms each time, until it has a limit.
func TestAPolicyThatNeverWaits(t *testing.T) {
	for _, b := range []backoff.BackOff{&backoff.ZeroBackOff{}, backoff.NewConstantBackOff(0), exponential(opts(0, 2, time.Minute))} {
		p := policyOf(t, b)
		assert.Equal(t, 10*time.Millisecond, p.Plan(1)[0].Hi)
		p.MaxAttempts = 3
		assert.Zero(t, p.Plan(1)[0].Hi)
	}
}

type foreign struct{ backoff.ZeroBackOff }

// value is a BackOff that is no pointer, and so never nil.
type value struct{}

func (value) NextBackOff() time.Duration { return 0 }
func (value) Reset()                     {}

// foreignContext has the method that WithContext adds.
type foreignContext struct{ backoff.ZeroBackOff }

func (foreignContext) Context() context.Context { return context.Background() }

type clock struct{}

func (clock) Now() time.Time { return time.Time{} }

func TestPolicySaysWhatItCannotConvert(t *testing.T) {
	const (
		of            = "retrycenkalti: *backoff.ExponentialBackOff: "
		isNil         = "the BackOff is nil: write backoff.NewExponentialBackOff()"
		multiplier    = ": write a finite number of at least 1"
		randomization = ": write a number from 0 to 1"
		maxInterval   = ": write the longest delay, or math.MaxInt64 for no cap: with 0 v4 waits once and then retries without a pause"
		hides         = ": it hides what it wraps: convert the innermost BackOff, give the ctx of WithContext to retry.Do, and set MaxAttempts to int(n) + 1 for the n of WithMaxRetries"
		unknown       = ": the state of this type is not known here: write the delay after the n-th failure as a retry.BackoffFunc, and set it as Policy.Backoff"
	)
	tests := []struct {
		name    string
		backoff backoff.BackOff
		want    string
	}{
		{"nil", nil, "retrycenkalti: <nil>: " + isNil},
		{"nil ExponentialBackOff", (*backoff.ExponentialBackOff)(nil), of + isNil},
		{"nil ConstantBackOff", (*backoff.ConstantBackOff)(nil), "retrycenkalti: *backoff.ConstantBackOff: " + isNil},
		{"nil ZeroBackOff", (*backoff.ZeroBackOff)(nil), "retrycenkalti: *backoff.ZeroBackOff: " + isNil},
		{"nil StopBackOff", (*backoff.StopBackOff)(nil), "retrycenkalti: *backoff.StopBackOff: " + isNil},
		{"nil BackOff of ours", (*retrycenkalti.BackOff)(nil), "retrycenkalti: *retrycenkalti.BackOff: " + isNil},
		{"nil of a foreign type", (*foreign)(nil), "retrycenkalti: *retrycenkalti_test.foreign: " + isNil},

		{"negative InitialInterval", exponential(func(b *backoff.ExponentialBackOff) { b.InitialInterval = -1 }), of + "InitialInterval is -1ns: write the first delay"},
		{"Multiplier 0", exponential(func(b *backoff.ExponentialBackOff) { b.Multiplier = 0 }), of + "Multiplier is 0" + multiplier},
		{"Multiplier just below 1", exponential(func(b *backoff.ExponentialBackOff) { b.Multiplier = math.Nextafter(1, 0) }), of + "Multiplier is 0.9999999999999999" + multiplier},
		{"negative Multiplier", exponential(func(b *backoff.ExponentialBackOff) { b.Multiplier = -2 }), of + "Multiplier is -2" + multiplier},
		{"Multiplier NaN", exponential(func(b *backoff.ExponentialBackOff) { b.Multiplier = math.NaN() }), of + "Multiplier is NaN" + multiplier},
		{"infinite Multiplier", exponential(func(b *backoff.ExponentialBackOff) { b.Multiplier = math.Inf(1) }), of + "Multiplier is +Inf" + multiplier},
		{"negative RandomizationFactor", exponential(func(b *backoff.ExponentialBackOff) { b.RandomizationFactor = -0.1 }), of + "RandomizationFactor is -0.1" + randomization},
		{"RandomizationFactor above 1", exponential(func(b *backoff.ExponentialBackOff) { b.RandomizationFactor = 1.5 }), of + "RandomizationFactor is 1.5" + randomization},
		{"RandomizationFactor NaN", exponential(func(b *backoff.ExponentialBackOff) { b.RandomizationFactor = math.NaN() }), of + "RandomizationFactor is NaN" + randomization},
		{"MaxInterval 0", exponential(func(b *backoff.ExponentialBackOff) { b.MaxInterval = 0 }), of + "MaxInterval is 0s" + maxInterval},
		{"negative MaxInterval", exponential(func(b *backoff.ExponentialBackOff) { b.MaxInterval = -time.Second }), of + "MaxInterval is -1s" + maxInterval},
		{"negative MaxElapsedTime", exponential(func(b *backoff.ExponentialBackOff) { b.MaxElapsedTime = -1 }), of + "MaxElapsedTime is -1ns: write for how long to retry, or 0 for no bound"},
		{"Stop that does not stop", &backoff.ExponentialBackOff{InitialInterval: 1, Multiplier: 1, MaxInterval: 1, MaxElapsedTime: 1},
			of + "Stop is 0s: write backoff.Stop: with anything else v4 goes on after MaxElapsedTime"},
		{"Stop below that of v4", exponential(backoff.WithMaxElapsedTime(1), backoff.WithRetryStopDuration(-2)),
			of + "Stop is -2ns: write backoff.Stop: with anything else v4 goes on after MaxElapsedTime"},
		{"another clock", exponential(backoff.WithMaxElapsedTime(time.Minute), backoff.WithClockProvider(clock{})),
			of + "Clock is a retrycenkalti_test.clock: leave it out: a policy is timed by the system's clock, and in a test by that of testing/synctest"},
		{"all at once", &backoff.ExponentialBackOff{RandomizationFactor: 2},
			of + "Multiplier is 0" + multiplier + "; RandomizationFactor is 2" + randomization + "; MaxInterval is 0s" + maxInterval},
		{"negative Interval", backoff.NewConstantBackOff(-1), "retrycenkalti: *backoff.ConstantBackOff: Interval is -1ns: write a duration of at least 0, or a StopBackOff for no retry"},

		{"WithContext", backoff.WithContext(exponential(), context.Background()), "retrycenkalti: *backoff.backOffContext" + hides},
		{"WithMaxRetries", backoff.WithMaxRetries(exponential(), 3), "retrycenkalti: *backoff.backOffTries" + hides},
		{"WithMaxRetries of WithContext", backoff.WithMaxRetries(backoff.WithContext(exponential(), context.Background()), 3), "retrycenkalti: *backoff.backOffTries" + hides},
		{"foreign", &foreign{}, "retrycenkalti: *retrycenkalti_test.foreign" + unknown},
		{"foreign, no pointer", value{}, "retrycenkalti: retrycenkalti_test.value" + unknown},
		{"foreign, with a context", &foreignContext{}, "retrycenkalti: *retrycenkalti_test.foreignContext" + unknown},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := retrycenkalti.Policy(test.backoff)
			assert.EqualError(t, err, test.want)
			assert.Equal(t, retry.Policy{}, p)
		})
	}
}

// TestPolicyTakesWhatHasNoEffect: Stop and Clock are of no effect without a
// MaxElapsedTime, and a policy needs no Clock, where Reset of v4 panics.
func TestPolicyTakesWhatHasNoEffect(t *testing.T) {
	literal := &backoff.ExponentialBackOff{InitialInterval: time.Second, Multiplier: 2, MaxInterval: time.Minute}
	assert.Panics(t, literal.Reset)
	for name, b := range map[string]*backoff.ExponentialBackOff{
		"a literal without Stop and Clock":      literal,
		"a clock without a bound":               exponential(backoff.WithClockProvider(clock{})),
		"a literal with Stop and without Clock": {InitialInterval: time.Second, Multiplier: 2, MaxInterval: time.Minute, MaxElapsedTime: time.Hour, Stop: backoff.Stop},
	} {
		assert.NoError(t, policyOf(t, b).Validate(), name)
	}
}

func nextBackOffs(b backoff.BackOff, n int) []time.Duration {
	b.Reset()
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = b.NextBackOff()
	}
	return all
}

// TestWindowsAreEqualUpToTheCap compares what v4 draws with the windows of the
// policy. Up to the cap they are the same; v4 goes beyond it, at the cap and
// already where a window only crosses it.
func TestWindowsAreEqualUpToTheCap(t *testing.T) {
	for _, factor := range []float64{0.1, 0.5, 1} {
		const draws = 5000
		b := exponential(opts(1500*time.Millisecond, 2, 8*time.Second), backoff.WithRandomizationFactor(factor))
		p := policyOf(t, b)
		plan := p.Plan(5) // 1.5s, 3s, 6s, 8s, 8s

		lo, hi := nextBackOffs(b, len(plan)), make([]time.Duration, len(plan))
		for range draws {
			for i, d := range nextBackOffs(b, len(plan)) {
				lo[i], hi[i] = min(lo[i], d), max(hi[i], d)
			}
		}
		for i, step := range plan {
			curve := min(1500*time.Millisecond<<i, 8*time.Second)
			width := time.Duration(factor * float64(curve))
			assert.Equal(t, curve-width, step.Lo)
			assert.Equal(t, min(curve+width, p.MaxDelay), step.Hi, "the cap holds")

			// Of 5000 draws one is in the outermost fiftieth, or 1e-44 is.
			near := width / 25
			assert.GreaterOrEqual(t, lo[i], step.Lo, "v4, delay %d, factor %v", i+1, factor)
			assert.Less(t, lo[i], step.Lo+near, "v4, delay %d, factor %v", i+1, factor)
			assert.LessOrEqual(t, hi[i], curve+width, "v4, delay %d, factor %v", i+1, factor)
			assert.Greater(t, hi[i], curve+width-near, "v4, delay %d, factor %v: it leaks by 1 + factor", i+1, factor)
		}
	}
}

// wrapped is an error around another.
type wrapped struct{ error }

func (w wrapped) Unwrap() error { return w.error }
