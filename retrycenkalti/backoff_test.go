package retrycenkalti_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrycenkalti"
	"github.com/goretry/retry/retrytest"
)

// rising has a Source that counts up from a seed.
type rising struct{ from, asked uint64 }

func (r *rising) draw() uint64 { r.asked++; return r.from + r.asked - 1 }

func newBackOff(t *testing.T, p retry.Policy) *retrycenkalti.BackOff {
	t.Helper()
	b, err := retrycenkalti.New(p)
	require.NoError(t, err)
	return b
}

// TestTheBackOffDoesWhatThePolicyDoes runs the same operation through both
// loops, that of v4 with a BackOff that observes its errors.
func TestTheBackOffDoesWhatThePolicyDoes(t *testing.T) {
	const s, m = time.Second, time.Minute
	errOther := errors.New("other")
	exponential := retry.Exponential{Base: s, Factor: 2}
	tests := []struct {
		name   string
		policy retry.Policy
		script script
		want   trace
	}{
		{"the zero policy", retry.Policy{}, fails, at(false, 0)},
		{"three attempts without a delay", retry.Policy{MaxAttempts: 3}, fails, at(false, 0, 0, 0)},
		{"success after two failures", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(s)}, failsTimes(2), at(true, 0, s, 2*s)},
		{"exponential", retry.Policy{MaxAttempts: 5, Backoff: exponential}, fails, at(false, 0, s, 3*s, 7*s, 15*s)},
		{"a retry that would start 1ns later", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: exponential, MaxElapsed: 7*s - 1}, fails, at(false, 0, s, 3*s)},
		{"attempts count for MaxElapsed", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: exponential, MaxElapsed: 10 * s},
			script{{takes: 3 * s, err: errBoom}}, trace{began: []time.Duration{0, 4 * s, 9 * s}, ended: 12 * s}},

		{"retry.Permanent", retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(s)}, failsTimes(1)[:1].then(retry.Permanent(errBoom)), at(false, 0, s)},
		{"retry.Permanent within another error", retry.Policy{MaxAttempts: 5}, script{{err: fmt.Errorf("call: %w", retry.Permanent(errBoom))}}, at(false, 0)},
		{"RetryIf says no", retry.Policy{MaxAttempts: 5, RetryIf: func(err error) bool { return err != errOther }}, failsTimes(2)[:2].then(errOther), at(false, 0, 0, 0)},
		{"a class with a name has a count of its own", retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(s), Classify: func(err error) *retry.Class {
			if err == errOther {
				return &retry.Class{Name: "other", MaxAttempts: 3, Backoff: retry.Linear(m)}
			}
			return nil
		}}, failsTimes(2)[:2].then(errOther).then(errBoom).then(errOther).then(errOther), at(false, 0, s, 2*s, 2*s+m, 3*s+m, 3*s+3*m)},
		{"retry.After", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(s)}, script{{err: retry.After(30*s, errBoom)}, {err: errBoom}}, at(false, 0, 30*s, 31*s)},
		{"retry.After beyond MaxRetryAfter", retry.Policy{MaxAttempts: 2, MaxRetryAfter: m}, script{{err: retry.After(m+1, errBoom)}}, at(false, 0)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ours, err := play(t, test.script, do(test.policy))
			assert.Equal(t, test.want, ours, "ours")
			last := test.script[min(len(test.want.began), len(test.script))-1].err
			assert.ErrorIs(t, err, last)

			theirs, err := play(t, test.script, func(ctx context.Context, op func() error) error {
				b := newBackOff(t, test.policy)
				return backoff.Retry(func() error { return b.Observe(op()) }, backoff.WithContext(b, ctx))
			})
			assert.Equal(t, test.want, theirs, "v4")
			assert.Equal(t, last, err, "v4 returns the error as it is, marks included")
		})
	}
}

// Calls that share a Source draw the same from it in whichever loop: a BackOff asks as
// soon and as often as Do, which is once for all delays of a call, if one has jitter.
func TestTheBackOffDrawsWhatThePolicyDraws(t *testing.T) {
	const h = time.Hour
	class := func(j retry.Jitter) func(error) *retry.Class {
		return func(error) *retry.Class { return &retry.Class{Backoff: retry.Fixed(h), Jitter: j} }
	}
	for _, test := range []struct {
		name   string
		policy retry.Policy
		asked  uint64 // by three calls
	}{
		{"±50 %", retry.Policy{MaxAttempts: 6, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: 5 * time.Second, Jitter: retry.Proportional(0.5)}, 3},
		{"no jitter", retry.Policy{MaxAttempts: 6, Backoff: retry.Exponential{Base: time.Second}}, 0},
		{"jitter of a first delay of nothing", retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{0, h}, Jitter: retry.FullJitter}, 2},
		{"a class without jitter", retry.Policy{MaxAttempts: 3, Classify: class(nil)}, 0},
		{"a class with jitter", retry.Policy{MaxAttempts: 3, Classify: class(retry.FullJitter)}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := func(loop func(retry.Policy) loop) (did []trace) {
				source, p := &rising{}, test.policy // from 0, which is no seed
				p.Source = source.draw
				call := loop(p)
				for _, s := range []script{failsTimes(1), fails, fails} {
					trace, _ := play(t, s, call)
					did = append(did, trace)
				}
				assert.Equal(t, test.asked, source.asked)
				return did
			}
			theirs := calls(func(p retry.Policy) loop {
				b := newBackOff(t, p)
				return func(_ context.Context, op func() error) error {
					return backoff.Retry(func() error { return b.Observe(op()) }, b)
				}
			})
			assert.Equal(t, calls(do), theirs)
		})
	}
}

func TestResetBeginsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &rising{from: 1}
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Minute}, Jitter: retry.FullJitter, Source: source.draw, MaxElapsed: time.Hour}
		drawn := func(seed uint64) []time.Duration {
			return []time.Duration{p.Next(retry.Attempt{Number: 1, Seed: seed}).Delay, p.Next(retry.Attempt{Number: 2, Seed: seed}).Delay, backoff.Stop}
		}
		b := newBackOff(t, p)
		time.Sleep(time.Hour + 1)
		assert.Equal(t, backoff.Stop, b.NextBackOff(), "without a Reset the call began with New")
		source.asked = 0
		assert.Equal(t, drawn(1), nextBackOffs(b, 3))
		assert.Equal(t, backoff.Stop, b.NextBackOff(), "it stays stopped")
		assert.Equal(t, drawn(2), nextBackOffs(b, 3), "counts and times anew, with another seed")

		classified := newBackOff(t, retry.Policy{MaxAttempts: 9, Classify: func(error) *retry.Class { return &retry.Class{Name: "twice", MaxAttempts: 2} }})
		for range 2 {
			classified.Reset()
			classified.Observe(errBoom)
			assert.NotEqual(t, backoff.Stop, classified.NextBackOff(), "counts each class anew")
			classified.Observe(retry.Permanent(errBoom))
			assert.Equal(t, backoff.Stop, classified.NextBackOff())
			classified.Observe(retry.Permanent(errBoom)) // which Reset forgets
		}
	})
}

func TestAnErrorIsObservedOnce(t *testing.T) {
	b := newBackOff(t, retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(time.Second)})
	assert.Equal(t, errBoom, b.Observe(errBoom))
	assert.NoError(t, b.Observe(nil))
	b.Observe(retry.After(time.Minute, errBoom))
	assert.Equal(t, time.Minute, b.NextBackOff())
	assert.Equal(t, time.Second, b.NextBackOff(), "this failure was not observed")
}

// The loop of v4 waits itself, so it is given the delays.
func TestTheBackOffUnderNoWait(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Hour}}
	assert.Equal(t, []time.Duration{time.Hour, 2 * time.Hour}, nextBackOffs(newBackOff(t, retrytest.NoWait(p)), 2))
}

func TestTheZeroBackOffNeverRetries(t *testing.T) {
	did, err := play(t, fails, retryV4(&retrycenkalti.BackOff{}))
	assert.Equal(t, at(false, 0), did)
	assert.Equal(t, errBoom, err)
	assert.Panics(t, (*retrycenkalti.BackOff)(nil).Reset)
}

func TestNewSaysWhatIsWrongWithThePolicy(t *testing.T) {
	p := retry.Policy{MaxAttempts: -2, Jitter: retry.Proportional(2)}
	b, err := retrycenkalti.New(p)
	assert.Nil(t, b)
	assert.Equal(t, p.Validate(), errors.Unwrap(err))
	assert.EqualError(t, err, "retrycenkalti: invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited; "+
		"Jitter: Proportional is 2: write a share between 0 and 1: 0.2 is ±20 %")
}

func TestTheBackOffStaysInItsBudget(t *testing.T) {
	budget := &retry.Budget{Size: 3, Ratio: 0.5}
	call := func(attempts int, s script) trace {
		did, _ := play(t, s, func(_ context.Context, op func() error) error {
			b := newBackOff(t, retry.Policy{MaxAttempts: attempts, Backoff: retry.Fixed(time.Second), Budget: budget})
			return backoff.Retry(func() error { return b.Observe(op()) }, b)
		})
		return did
	}
	assert.Equal(t, at(true, 0, time.Second), call(10, failsTimes(1)))
	assert.Equal(t, at(false, 0), call(1, fails), "takes nothing for a retry that is not made")
	assert.Equal(t, at(false, 0, time.Second, 2*time.Second), call(10, fails), "3 - 1 + 0.5 = 2.5 tokens")
	assert.Equal(t, at(false, 0), call(10, fails), "half a token")
	assert.Equal(t, at(true, 0), call(10, failsTimes(0)))
	assert.True(t, budget.Take(), "the success put the other half back")
	assert.False(t, budget.Take())
}
