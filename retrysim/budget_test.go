package retrysim

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// A budget and a retry.Budget make the same decisions. The test compares them in random histories,
// and for every number that a retry can have in its call.
func TestBudgetIsTheRealOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 1))
		some := func(ms int) time.Duration { return time.Duration(r.IntN(2)*(r.IntN(ms)+1)) * time.Millisecond }
		graced, refused, refunded := 0, 0, 0
		for history := range often(2000, 100_000) {
			b := &retry.Budget{Size: 1 + r.IntN(20), Ratio: r.Float64(), RefillEvery: some(1000), Remember: some(60_000), Grace: some(4000)}
			simulated, now, given := newBudget(b), int64(0), 0
			for range r.IntN(40) {
				for range r.IntN(2) * r.IntN(20) {
					number := 1 + r.IntN(6)
					allowed, paid := simulated.take(3, now, number)
					require.Equal(t, takes(t, b, number), allowed, "history %d", history)
					switch {
					case paid:
						given++
					case allowed:
						graced++
					default:
						refused++
					}
				}
				for range r.IntN(2) * r.IntN(20) {
					b.Success()
					simulated.success(3, now)
				}
				for ; r.IntN(4) == 0 && given > 0; given-- {
					b.Refund()
					simulated.putBack(3, token)
					refunded++
				}
				if h := simulated.accounts[3]; h != nil && r.IntN(2) == 0 {
					left := b.Left() // applies the refills and decays that are due
					require.Equal(t, left, int((simulated.full-simulated.account(3, now).spent)/token), "history %d", history)
				}
				d := r.Int64N(2) * r.Int64N([]int64{1e8, 1e9, 1e11}[r.IntN(3)])
				time.Sleep(time.Duration(d))
				now += d
			}
		}
		least := often(1000, 50_000)
		assert.Greater(t, graced, least, "Grace allows too few retries for this test")
		assert.Greater(t, refused, least)
		assert.Greater(t, refunded, least)
	})
}

// The function `takes` reports whether b allows a retry. The parameter `number` is the number of
// the retry in its call.
func takes(t *testing.T, b *retry.Budget, number int) bool {
	p := retry.Policy{MaxAttempts: 100, Budget: b}
	_, err := retry.Once(t.Context(), p, retry.Attempt{Number: number}, func(context.Context) error { return ErrFailed })
	reason := retry.ReasonOf(err)
	require.Contains(t, []retry.Reason{retry.ReasonRetry, retry.ReasonBudget}, reason)
	return reason == retry.ReasonRetry
}

// If a caller gives up before a retry begins, the retry is put back into the budget. If Grace
// allowed the retry, nothing is put back.
func TestRefundOfARetryThatIsNotMade(t *testing.T) {
	for _, row := range []struct {
		name           string
		cancel         Cancel
		size           int
		empty          bool
		before, after  int64 // the retries that the budget holds before and after the caller gives up
		grace, timeout time.Duration
	}{
		{"the budget paid for the retry", CancelWork, 5, false, 4, 5, time.Hour, time.Second},
		{"the budget paid for the retry, without Grace", CancelWork, 5, false, 4, 5, 0, time.Second},
		{"Grace allowed the retry", CancelWork, 5, true, 0, 0, time.Hour, time.Second},
		{"the retry is in flight", CancelWork, 5, false, 4, 4, time.Hour, 2500 * time.Millisecond},
		{"the call goes on", CancelNone, 5, false, 4, 4, time.Hour, time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := newEngine(System{Duration: time.Minute, Services: map[string]Service{
				"app": {Calls: []Edge{{To: "web", Policy: retry.Policy{MaxAttempts: 1, AttemptTimeout: row.timeout}}}},
				"web": {Cancel: row.cancel, Calls: []Edge{{To: "db", Policy: retry.Policy{
					MaxAttempts: 2, Backoff: retry.Fixed(2 * time.Second),
					Budget: &retry.Budget{Size: row.size, Grace: row.grace},
				}}}},
				"db": {Work: 10 * time.Second, Distribution: Fixed},
			}, Events: []Trigger{{0, time.Second, "db", Fail, 1}}}, 1)
			web := &e.services[2]
			b := web.edges[0].budget
			for range row.size {
				if row.empty {
					b.take(0, 0, 9)
				}
			}
			holds := func() int64 { return (b.full - b.account(0, e.now).spent) / token }
			e.arrive(&e.services[0])
			require.Equal(t, row.before, holds())
			for e.ended == 0 {
				e.handleNext()
			}
			assert.Equal(t, row.after, holds())
		})
	}
}

// A Budget allows the same retries in simulated time as a retry.Budget in real time.
func TestBudget(t *testing.T) {
	real := &retry.Budget{Size: 1, Ratio: 1, Grace: time.Second}
	b := NewBudget(real)
	assert.True(t, b.Take(0, 1), "the budget is full")
	assert.True(t, b.Take(time.Second-1, 4), "the fourth retry of a call, in Grace")
	assert.False(t, b.Take(time.Second-1, 5), "the fifth retry of a call, in Grace")
	assert.False(t, b.Take(time.Second, 1), "after Grace")
	b.Success(2 * time.Second)
	assert.True(t, b.Take(2*time.Second, 9), "a success has put a retry back")
	assert.False(t, b.Take(2*time.Second, 1))
	b.Success(62*time.Second - 1)
	assert.True(t, b.Take(62*time.Second-1, 9))
	assert.False(t, b.Take(62*time.Second-1, 1), "no Grace within a minute after a retry found the budget empty")
	b.Success(122*time.Second - 1)
	assert.True(t, b.Take(122*time.Second-1, 9))
	assert.True(t, b.Take(122*time.Second-1, 1), "a new Grace a minute later")
	assert.Equal(t, 1, real.Left(), "NewBudget does not change it")

	none := NewBudget(nil)
	none.Success(0)
	assert.Nil(t, none)
	assert.True(t, none.Take(0, 1))
}
