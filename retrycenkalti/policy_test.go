package retrycenkalti_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrycenkalti"
)

// exponential returns a BackOff with these options, without randomization and without a
// MaxElapsedTime.
func exponential(opts ...backoff.ExponentialBackOffOpts) *backoff.ExponentialBackOff {
	plain := []backoff.ExponentialBackOffOpts{backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0)}
	return backoff.NewExponentialBackOff(append(plain, opts...)...)
}

func opts(initial time.Duration, multiplier float64, max time.Duration) backoff.ExponentialBackOffOpts {
	return func(b *backoff.ExponentialBackOff) {
		b.InitialInterval, b.Multiplier, b.MaxInterval = initial, multiplier, max
	}
}

// Each row runs three loops: retry.Do with the policy, the loop of v4 with our BackOff of this
// policy, and the loop of v4 with a BackOff of v4, if there is one. Our BackOff observes the
// errors.
func TestAllLoopsDoTheSame(t *testing.T) {
	const ms, s, m = time.Millisecond, time.Second, time.Minute
	const forever = math.MaxUint64
	errOther := errors.New("other")
	second := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(s)}
	rejects, classified := second, second
	rejects.RetryIf = func(err error) bool { return err != errOther }
	classified.MaxAttempts = 9
	classified.Classify = func(err error) *retry.Class {
		if err == errOther {
			return &retry.Class{Name: "other", MaxAttempts: 3, Backoff: retry.Linear(m)}
		}
		return nil
	}
	for _, row := range []struct {
		name    string
		v4      backoff.BackOff // nil if v4 has no such BackOff
		retries uint64          // the argument of WithMaxRetries
		policy  retry.Policy    // if v4 is nil
		script  script
		want    trace
	}{
		{"the defaults without randomization", exponential(backoff.WithMaxElapsedTime(15 * m)), 6, retry.Policy{}, fails,
			at(false, 0, 500*ms, 1250*ms, 2375*ms, 4062500*time.Microsecond, 6593750*time.Microsecond, 10390625*time.Microsecond)},
		{"doubling up to the cap", exponential(opts(s, 2, 5*s)), 5, retry.Policy{}, fails, at(false, 0, 1*s, 3*s, 7*s, 12*s, 17*s)},
		{"a cap that the second delay passes", exponential(opts(s, 10, 1500*ms)), 3, retry.Policy{}, fails, at(false, 0, 1*s, 2500*ms, 4*s)},
		{"multiplier 1", exponential(opts(s, 1, m)), 3, retry.Policy{}, fails, at(false, 0, 1*s, 2*s, 3*s)},
		{"no first delay", exponential(opts(0, 2, m)), 3, retry.Policy{}, fails, at(false, 0, 0, 0, 0)},
		{"constant", backoff.NewConstantBackOff(7 * s), 3, retry.Policy{}, fails, at(false, 0, 7*s, 14*s, 21*s)},
		{"zero", &backoff.ZeroBackOff{}, 3, retry.Policy{}, fails, at(false, 0, 0, 0, 0)},
		{"stop", &backoff.StopBackOff{}, forever, retry.Policy{}, fails, at(false, 0)},
		{"success after two failures", exponential(), forever, retry.Policy{}, failsTimes(2), at(true, 0, 500*ms, 1250*ms)},
		{"a retry that starts at MaxElapsedTime", exponential(opts(s, 2, m), backoff.WithMaxElapsedTime(7*s)), forever, retry.Policy{}, fails,
			at(false, 0, 1*s, 3*s, 7*s)},
		{"a retry that would start 1ns later", exponential(opts(s, 2, m), backoff.WithMaxElapsedTime(7*s-1)), forever, retry.Policy{}, fails,
			at(false, 0, 1*s, 3*s)},
		{"attempts count for MaxElapsedTime", exponential(opts(s, 2, m), backoff.WithMaxElapsedTime(10*s)), forever, retry.Policy{},
			script{{takes: 3 * s, err: errBoom}}, trace{began: []time.Duration{0, 4 * s, 9 * s}, ended: 12 * s}},
		{"backoff.Permanent after a failure", exponential(), forever, retry.Policy{}, failsTimes(1)[:1].then(backoff.Permanent(errBoom)),
			at(false, 0, 500*ms)},
		{"backoff.Permanent within another error", exponential(), forever, retry.Policy{},
			script{{err: fmt.Errorf("call: %w", backoff.Permanent(errBoom))}}, at(false, 0)},

		{"the zero policy", nil, 0, retry.Policy{}, fails, at(false, 0)},
		{"retry.Permanent", nil, 0, second, failsTimes(1)[:1].then(retry.Permanent(errBoom)), at(false, 0, s)},
		{"retry.Permanent within another error", nil, 0, second, script{{err: fmt.Errorf("call: %w", retry.Permanent(errBoom))}}, at(false, 0)},
		{"RetryIf says no", nil, 0, rejects, failsTimes(2)[:2].then(errOther), at(false, 0, s, 2*s)},
		{"a class with a name has a count of its own", nil, 0, classified,
			failsTimes(2)[:2].then(errOther).then(errBoom).then(errOther).then(errOther), at(false, 0, s, 2*s, 2*s+m, 3*s+m, 3*s+3*m)},
		{"retry.After", nil, 0, second, script{{err: retry.After(30*s, errBoom)}, {err: errBoom}}, at(false, 0, 30*s, 31*s, 32*s, 33*s)},
		{"retry.After beyond MaxRetryAfter", nil, 0, retry.Policy{MaxAttempts: 2, MaxRetryAfter: m}, script{{err: retry.After(m+1, errBoom)}},
			at(false, 0)},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, loops := row.policy, map[string]loop{}
			if row.v4 != nil {
				loops["v4"] = retryV4(backoff.WithMaxRetries(row.v4, row.retries))
				p = policyOf(t, row.v4)
				if row.retries != forever {
					p.MaxAttempts = int(row.retries) + 1
				}
			}
			require.NoError(t, p.Validate())
			loops["retry.Do"], loops["v4 with our BackOff"] = do(p), observing(t, p)
			for name, loop := range loops {
				did, err := play(t, row.script, loop)
				assert.Equal(t, row.want, did, name)
				assert.Equal(t, !row.want.ok, errors.Is(err, errBoom) || errors.Is(err, errOther), name)
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

// fieldsOf returns the policy of a BackOff of v4 without its RetryIf, because functions cannot be
// compared.
func fieldsOf(t *testing.T, b backoff.BackOff) retry.Policy {
	t.Helper()
	p := policyOf(t, b)
	assert.False(t, p.RetryIf(backoff.Permanent(errBoom)))
	assert.True(t, p.RetryIf(errBoom))
	p.RetryIf = nil
	return p
}

// Policy neither reads nor changes the counts of a BackOff. For our BackOff it returns the policy
// of New unchanged, so backoff.Permanent has no effect unless the RetryIf is Retryable.
func TestPolicyOnlyReadsTheBackOff(t *testing.T) {
	theirs, ours := exponential(), newBackOff(t, retry.Default())
	theirs.NextBackOff()
	ours.NextBackOff()
	assert.Equal(t, fieldsOf(t, exponential()), fieldsOf(t, theirs))
	assert.Equal(t, 750*time.Millisecond, theirs.NextBackOff())
	assert.Equal(t, retry.Default(), policyOf(t, ours))

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

// Without a limit, a policy for a BackOff without delays waits 10ms before each retry.
func TestPolicyWithoutDelays(t *testing.T) {
	for _, b := range []backoff.BackOff{&backoff.ZeroBackOff{}, backoff.NewConstantBackOff(0), exponential(opts(0, 2, time.Minute))} {
		p := policyOf(t, b)
		assert.Equal(t, 10*time.Millisecond, p.Plan(1)[0].Hi)
		p.MaxAttempts = 3
		assert.Zero(t, p.Plan(1)[0].Hi)
	}
}

type foreign struct{ backoff.ZeroBackOff }

// value is a BackOff whose type is not a pointer, so it is never nil.
type value struct{}

func (value) NextBackOff() time.Duration { return 0 }
func (value) Reset()                     {}

type clock struct{}

func (clock) Now() time.Time { return time.Time{} }

func TestPolicyFaults(t *testing.T) {
	const (
		of            = "retrycenkalti: *backoff.ExponentialBackOff: "
		isNil         = "the BackOff is nil: write backoff.NewExponentialBackOff()"
		multiplier    = ": write a finite number of at least 1"
		randomization = ": write a number from 0 to 1"
		maxInterval   = ": write the longest delay, or math.MaxInt64 for no cap: with 0 v4 waits once and then retries without a pause"
		hides         = ": it hides the BackOff inside it: convert the innermost BackOff, pass the ctx of WithContext to retry.Do, and set MaxAttempts to int(n) + 1 for the n of WithMaxRetries"
		unknown       = ": the state of this type cannot be read: write the delay after the n-th failure as a retry.BackoffFunc, and set it as Policy.Backoff"
	)
	nan := math.NaN()
	tests := []struct {
		name    string
		backoff backoff.BackOff
		want    string
	}{
		{"nil", nil, "retrycenkalti: <nil>: " + isNil},
		{"nil ExponentialBackOff", (*backoff.ExponentialBackOff)(nil), of + isNil},
		{"nil of a foreign type", (*foreign)(nil), "retrycenkalti: *retrycenkalti_test.foreign: " + isNil},

		{"all at once", &backoff.ExponentialBackOff{InitialInterval: -1, RandomizationFactor: -0.1}, of + "InitialInterval is -1ns: write the first delay; Multiplier is 0" +
			multiplier + "; RandomizationFactor is -0.1" + randomization + "; MaxInterval is 0s" + maxInterval},
		{"NaN", exponential(backoff.WithMultiplier(nan), backoff.WithRandomizationFactor(nan)), of + "Multiplier is NaN" + multiplier + "; RandomizationFactor is NaN" + randomization},
		{"too much", exponential(backoff.WithMultiplier(math.Inf(1)), backoff.WithRandomizationFactor(1.5)),
			of + "Multiplier is +Inf" + multiplier + "; RandomizationFactor is 1.5" + randomization},
		{"just below 1", exponential(backoff.WithMultiplier(math.Nextafter(1, 0))), of + "Multiplier is 0.9999999999999999" + multiplier},
		{"negative MaxElapsedTime", exponential(func(b *backoff.ExponentialBackOff) { b.MaxElapsedTime = -1 }), of + "MaxElapsedTime is -1ns: write for how long to retry, or 0 for no bound"},
		{"Stop below that of v4", exponential(backoff.WithMaxElapsedTime(1), backoff.WithRetryStopDuration(-2)),
			of + "Stop is -2ns: write backoff.Stop: with any other value v4 goes on after MaxElapsedTime"},
		{"another clock", exponential(backoff.WithMaxElapsedTime(time.Minute), backoff.WithClockProvider(clock{})),
			of + "Clock is a retrycenkalti_test.clock: leave it out: a policy reads the system's clock, and in a test the clock of testing/synctest"},
		{"negative Interval", backoff.NewConstantBackOff(-1), "retrycenkalti: *backoff.ConstantBackOff: Interval is -1ns: write a duration of at least 0, or a StopBackOff for no retry"},

		{"WithContext", backoff.WithContext(exponential(), context.Background()), "retrycenkalti: *backoff.backOffContext" + hides},
		{"WithMaxRetries", backoff.WithMaxRetries(exponential(), 3), "retrycenkalti: *backoff.backOffTries" + hides},
		{"foreign", &foreign{}, "retrycenkalti: *retrycenkalti_test.foreign" + unknown},
		{"foreign, no pointer", value{}, "retrycenkalti: retrycenkalti_test.value" + unknown},
	}
	for _, test := range tests {
		p, err := retrycenkalti.Policy(test.backoff)
		assert.EqualError(t, err, test.want, test.name)
		assert.Equal(t, retry.Policy{}, p)
	}
}

// Without a MaxElapsedTime, Stop and Clock have no effect, so any value is valid. A policy needs
// no Clock. In v4, Reset panics without a Clock.
func TestPolicyIgnoresFieldsWithoutEffect(t *testing.T) {
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

func TestTranslate(t *testing.T) {
	ours, theirs := retry.Permanent(errBoom), backoff.Permanent(errBoom)
	inner := func(reason retry.Reason, err error) error { return &retry.Error{Reason: reason, Attempts: 1, Err: err} }
	tests := []struct {
		name      string
		err       error
		permanent bool
		same      bool // Translate returns the error unchanged
	}{
		{"nothing marked", errBoom, false, true},
		{"an inner call that is exhausted", inner(retry.ReasonExhausted, errBoom), false, true},
		{"retry.Permanent", ours, true, false},
		{"retry.Permanent of joined errors", errors.Join(errors.New("first"), ours, errBoom), true, false},
		{"retry.Permanent in an inner call", inner(retry.ReasonPermanent, ours), true, false},
		{"an inner call that is not valid", inner(retry.ReasonInvalid, errBoom), true, false},
		{"backoff.Permanent", theirs, true, false},
		{"backoff.Permanent within another", fmt.Errorf("call: %w", theirs), true, false},
		{"backoff.Permanent in an inner call", inner(retry.ReasonRejected, theirs), true, false},
		{"retry.Permanent in backoff.Permanent", backoff.Permanent(ours), true, true},
		{"backoff.Permanent in retry.Permanent", retry.Permanent(theirs), true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := retrycenkalti.Translate(test.err)
			assert.Equal(t, test.err.Error(), got.Error(), "the text is unchanged")
			assert.ErrorIs(t, got, errBoom)
			assert.ErrorIs(t, got, test.err)
			if test.same {
				assert.Equal(t, test.err, got)
			}
			assert.Equal(t, got, retrycenkalti.Translate(got), "a second Translate changes nothing")

			attempts, reason := 3, retry.ReasonExhausted
			if test.permanent {
				attempts, reason = 1, retry.ReasonPermanent
			}
			did, err := play(t, script{{err: got}}, do(retry.Policy{MaxAttempts: 3}))
			assert.Len(t, did.began, attempts, "in our loop")
			assert.Equal(t, reason, retry.ReasonOf(err))
			did, err = play(t, script{{err: got}}, retryV4(backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 2)))
			assert.Len(t, did.began, attempts, "in the loop of v4")
			assert.ErrorIs(t, err, errBoom)
		})
	}
	assert.NoError(t, retrycenkalti.Translate(nil))

	_, err := play(t, script{{err: retrycenkalti.Translate(theirs)}}, do(retry.Policy{MaxAttempts: 3}))
	assert.Same(t, theirs, retry.Unwrap(err), "the error keeps the PermanentError")
}

func TestPermanentErrorWithoutErr(t *testing.T) {
	empty := &backoff.PermanentError{}
	did, err := play(t, script{{err: empty}}, retryV4(&backoff.ZeroBackOff{}))
	require.NoError(t, err, "v4 counts it as a success")
	assert.Equal(t, at(true, 0), did)
	assert.NoError(t, retrycenkalti.Translate(empty))
	assert.NoError(t, retrycenkalti.Translate(fmt.Errorf("call: %w", empty)))

	did, err = play(t, script{{err: empty}}, do(policyOf(t, backoff.NewConstantBackOff(time.Second))))
	assert.Equal(t, at(false, 0), did)
	assert.Equal(t, retry.ReasonRejected, retry.ReasonOf(err))
	assert.Panics(t, func() { _ = err.Error() })
	assert.Panics(t, func() { _ = empty.Error() })

	var none *backoff.PermanentError
	fn := func(context.Context) error { return none }
	assert.Panics(t, func() { _ = retrycenkalti.Translate(none) })
	assert.Panics(t, func() { _ = backoff.Retry(func() error { return none }, &backoff.StopBackOff{}) })
	assert.Panics(t, func() { _ = retry.Do(t.Context(), retry.Policy{}, fn) })
}
