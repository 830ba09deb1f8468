package retrycenkalti_test

import (
	"errors"
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

// rising is a Source that counts up from a seed.
type rising struct{ from, asked uint64 }

func (r *rising) draw() uint64 { r.asked++; return r.from + r.asked - 1 }

func newBackOff(t *testing.T, p retry.Policy) *retrycenkalti.BackOff {
	t.Helper()
	b, err := retrycenkalti.New(p)
	require.NoError(t, err)
	return b
}

// A BackOff draws the same seeds from a Source as Do: one seed for each call with jitter, before
// its first delay.
func TestBackOffDrawsAsDo(t *testing.T) {
	const h = time.Hour
	class := func(j retry.Jitter) func(error) *retry.Class {
		return func(error) *retry.Class { return &retry.Class{Backoff: retry.Fixed(h), Jitter: j} }
	}
	for _, test := range []struct {
		name   string
		policy retry.Policy
		asked  uint64 // how many seeds three calls draw
	}{
		{"±50 %", retry.Policy{MaxAttempts: 6, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: 5 * time.Second, Jitter: retry.Proportional(0.5)}, 3},
		{"no jitter", retry.Policy{MaxAttempts: 6, Backoff: retry.Exponential{Base: time.Second}}, 0},
		{"jitter of a first delay of nothing", retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{0, h}, Jitter: retry.FullJitter}, 2},
		{"a class without jitter", retry.Policy{MaxAttempts: 3, Classify: class(nil)}, 0},
		{"a class with jitter", retry.Policy{MaxAttempts: 3, Classify: class(retry.FullJitter)}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := func(loop func(retry.Policy) loop) (did []trace) {
				source, p := &rising{}, test.policy // the first number is 0, which is not a seed
				p.Source = source.draw
				call := loop(p)
				for _, s := range []script{failsTimes(1), fails, fails} {
					trace, _ := play(t, s, call)
					did = append(did, trace)
				}
				assert.Equal(t, test.asked, source.asked)
				return did
			}
			assert.Equal(t, calls(do), calls(func(p retry.Policy) loop { return observing(t, p) }))
		})
	}
}

func TestResetStartsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &rising{from: 1}
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Minute}, Jitter: retry.FullJitter, Source: source.draw, MaxElapsed: time.Hour}
		drawn := func(seed uint64) []time.Duration {
			return []time.Duration{p.Next(retry.Attempt{Number: 1, Seed: seed}).Delay, p.Next(retry.Attempt{Number: 2, Seed: seed}).Delay, backoff.Stop}
		}
		b := newBackOff(t, p)
		time.Sleep(time.Hour + 1)
		assert.Equal(t, backoff.Stop, b.NextBackOff(), "without a Reset, the call started with New")
		source.asked = 0
		assert.Equal(t, drawn(1), nextBackOffs(b, 3))
		assert.Equal(t, backoff.Stop, b.NextBackOff(), "a stopped BackOff never retries")
		assert.Equal(t, drawn(2), nextBackOffs(b, 3), "Reset starts the count and the time again, with another seed")

		classified := newBackOff(t, retry.Policy{MaxAttempts: 9, Classify: func(error) *retry.Class { return &retry.Class{Name: "twice", MaxAttempts: 2} }})
		for range 2 {
			classified.Reset()
			classified.Observe(errBoom)
			assert.NotEqual(t, backoff.Stop, classified.NextBackOff(), "Reset starts the count of each class again")
			classified.Observe(retry.Permanent(errBoom))
			assert.Equal(t, backoff.Stop, classified.NextBackOff())
			classified.Observe(retry.Permanent(errBoom)) // Reset forgets this error
		}
	})
}

func TestObserveIsForOneAttempt(t *testing.T) {
	b := newBackOff(t, retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(time.Second)})
	assert.Equal(t, errBoom, b.Observe(errBoom))
	assert.NoError(t, b.Observe(nil))
	b.Observe(retry.After(time.Minute, errBoom))
	assert.Equal(t, time.Minute, b.NextBackOff())
	assert.Equal(t, time.Second, b.NextBackOff(), "the second failure was not observed")
}

// The loop of v4 waits itself, so a BackOff returns its delays even under NoWait.
func TestBackOffUnderNoWait(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Hour}}
	assert.Equal(t, []time.Duration{time.Hour, 2 * time.Hour}, nextBackOffs(newBackOff(t, retrytest.NoWait(p)), 2))
}

func TestZeroBackOffNeverRetries(t *testing.T) {
	did, err := play(t, fails, retryV4(&retrycenkalti.BackOff{}))
	assert.Equal(t, at(false, 0), did)
	assert.Equal(t, errBoom, err)
	assert.Panics(t, (*retrycenkalti.BackOff)(nil).Reset)
}

func TestNewOfAnInvalidPolicy(t *testing.T) {
	p := retry.Policy{MaxAttempts: -2, Jitter: retry.Proportional(2)}
	b, err := retrycenkalti.New(p)
	assert.Nil(t, b)
	assert.Equal(t, p.Validate(), errors.Unwrap(err))
	assert.EqualError(t, err, "retrycenkalti: invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited; "+
		"Jitter: Proportional is 2: write a share between 0 and 1: 0.2 is ±20 %")
}

func TestBudgetOfABackOff(t *testing.T) {
	budget := &retry.Budget{Size: 3, Ratio: 0.5}
	call := func(attempts int, s script) trace {
		did, _ := play(t, s, observing(t, retry.Policy{MaxAttempts: attempts, Backoff: retry.Fixed(time.Second), Budget: budget}))
		return did
	}
	assert.Equal(t, at(true, 0, time.Second), call(10, failsTimes(1)))
	assert.Equal(t, at(false, 0), call(1, fails), "a retry that is not made takes nothing")
	assert.Equal(t, at(false, 0, time.Second, 2*time.Second), call(10, fails), "3 - 1 + 0.5 = 2.5 tokens")
	assert.Equal(t, at(false, 0), call(10, fails), "the Budget has half a retry")
	assert.Equal(t, at(true, 0), call(10, failsTimes(0)))
	assert.True(t, budget.Take(), "the success put the other half of a retry back")
	assert.False(t, budget.Take())
}
