package retrysim

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// system reads a system in its text form.
func system(t *testing.T, text string) (s System) {
	t.Helper()
	require.NoError(t, s.UnmarshalJSON([]byte(text)))
	require.NoError(t, s.Validate())
	return s
}

// often returns how often something random is tried: more in .ci/soak.
func often(short, long int) int {
	if os.Getenv("RETRY_LONG") != "" {
		return long
	}
	return short
}

// In the simulation calls have the events that retry.Do sends, to the nanosecond: 20
// calls each with 2,000 random policies, under a service that fails until one time,
// then works as long, and fails as long again.
func TestAttemptsAreThoseOfDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		const calls = 20
		attempts := 0
		for range often(2000, 20_000) {
			p := randomPolicy(r)
			work := []time.Duration{0, time.Duration(1 + 2*r.IntN(100_000_000))}[min(1, r.IntN(10))] // odd, so that it never ends with a timeout
			until := time.Duration(1 + r.Int64N(3e8<<r.IntN(5)))
			slow := time.Duration(1 + r.Int64N(5e8)) // from then on, for as long, the work takes four times as long
			start := time.Now()
			keep := func(events *[]retry.Event) func(context.Context, retry.Event) {
				return func(_ context.Context, ev retry.Event) {
					ev.Time, ev.Due = ev.Time.Round(0), ev.Due.Round(0) // without the monotonic clock
					*events = append(*events, ev)
				}
			}

			var simulated, real []retry.Event
			p.OnEvent = keep(&simulated)
			e := newEngine(System{Duration: time.Minute, Services: map[string]Service{
				"web":  {Calls: []Edge{{To: "db", Policy: p}}},
				"db":   {Work: work, Distribution: Fixed, Calls: []Edge{{To: "dead"}}},
				"dead": {},
			}, Events: []Trigger{
				{0, until, "dead", Fail, 1}, {2 * until, until, "dead", Fail, 1}, {slow, slow, "db", Slower, 4},
			}}, 9)
			e.epoch = start
			for i := range calls {
				for e.arrive(&e.services[2]); e.ended == i; {
					e.next()
				}
			}

			p.Source, p.OnEvent = newStream(9, "web", "seeds").Uint64, keep(&real)
			for range calls {
				_ = retry.Do(context.Background(), p, func(ctx context.Context) error {
					takes := work
					if at := time.Since(start); at >= slow && at < 2*slow {
						takes *= 4
					}
					timer := time.NewTimer(takes)
					defer timer.Stop()
					select {
					case <-ctx.Done():
						return ErrTimeout
					case <-timer.C:
					}
					if part := time.Since(start) / until; part == 0 || part == 2 {
						return ErrFailed
					}
					return nil
				})
			}
			require.Equal(t, real, simulated, p)
			attempts += len(real) / 3
		}
		assert.Greater(t, attempts, 3000, "the policies hardly retry")
	})
}

func randomPolicy(r *rand.Rand) retry.Policy {
	ms := func(n int) time.Duration { return time.Duration(r.IntN(n)) * time.Millisecond }
	return retry.Policy{
		MaxAttempts: 1 + r.IntN(6), MaxDelay: ms(900),
		Backoff:        []retry.Backoff{nil, retry.Fixed(ms(100)), retry.Linear(ms(100)), retry.Exponential{Base: ms(200)}, retry.Schedule{ms(50), ms(500)}}[r.IntN(5)],
		Jitter:         []retry.Jitter{nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(0.3)}[r.IntN(4)],
		MaxElapsed:     []time.Duration{0, 0, ms(2000)}[r.IntN(3)],
		AttemptTimeout: []time.Duration{0, 0, ms(300)}[r.IntN(3)],
		HealthyAfter:   []time.Duration{0, 0, 0, time.Millisecond + ms(200)}[r.IntN(4)],
		Budget:         []*retry.Budget{nil, nil, {Size: 1 + r.IntN(3), Ratio: r.Float64(), RefillEvery: time.Millisecond + ms(300), Remember: time.Duration(r.IntN(2)) * (time.Millisecond + ms(900)), Grace: time.Duration(r.IntN(2)) * (time.Millisecond + ms(900))}}[r.IntN(3)],
	}
}

// Whatever happens, each call from outside ends once, and then no request, worker
// or place in a queue is left.
func TestNothingIsLost(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	calls, failed := 0, 0
	for range often(150, 3000) {
		s := randomSystem(r)
		require.NoError(t, s.Validate(), s)
		e := newEngine(s, r.Uint64())
		require.NoError(t, second(s.goOn(e)))
		e.second-- // what is still going on is counted in the last one
		for i := range e.services {
			e.services[i].rate = 0
			e.services[i].arrival++
		}
		for len(e.events.events) > 0 && e.err == nil {
			e.next()
		}
		require.NoError(t, e.err)
		require.Zero(t, e.live, s)
		begun := 0
		for _, v := range e.services {
			require.Zero(t, v.busy+v.queued, s)
			for _, row := range v.rows {
				require.LessOrEqual(t, row.Worked, row.Calls, s)
				begun += row.Calls
				failed += row.Calls - row.Worked
			}
		}
		require.Equal(t, begun, e.ended, s)
		calls += begun
	}
	assert.Greater(t, calls, 10_000)
	assert.Greater(t, failed, calls/20, "the systems hardly fail")
}

func randomSystem(r *rand.Rand) System {
	ms := func(n int) time.Duration { return time.Duration(r.IntN(n)) * time.Millisecond }
	s := System{Services: map[string]Service{}, Duration: 18 * time.Second}
	n := 1 + r.IntN(5)
	name := func(i int) string { return string(rune('a' + i)) }
	for i := range n {
		v := Service{
			Workers: r.IntN(5), Work: ms(60), Queue: []int{0, NoQueue, 1, 5}[r.IntN(4)], Clients: r.IntN(4),
			Cancel:       []Cancel{"", CancelNone, CancelQueue, CancelWork}[r.IntN(4)],
			Distribution: []Distribution{"", Exponential, Fixed, Normal}[r.IntN(4)],
		}
		if i == 0 || r.IntN(4) == 0 {
			v.Rate, v.Lend = float64(1+r.IntN(30)), r.IntN(3)
		}
		for range r.IntN(3) {
			if i+1 < n {
				p := randomPolicy(r)
				p.HealthyAfter = 0 // what always fails later than that would go on for ever
				v.Calls = append(v.Calls, Edge{To: name(i + 1 + r.IntN(n-i-1)), Policy: p})
			}
		}
		s.Services[name(i)] = v
	}
	for range r.IntN(4) {
		of := []Trigger{
			{Service: name(r.IntN(n)), Change: Workers, Value: float64(r.IntN(3))}, {Service: name(r.IntN(n)), Change: Slower, Value: 4*r.Float64() + 0.1},
			{Service: name(r.IntN(n)), Change: Fail, Value: r.Float64()}, {Service: "a", Change: Rate, Value: float64(r.IntN(60))},
		}[r.IntN(4)]
		of.At, of.For = ms(4000), time.Millisecond+ms(4000)
		s.Events = append(s.Events, of)
	}
	return s
}

// The same systems give the same results on each platform that make check tests: every
// second of 60 random ones is in this hash.
func TestSameOnEveryPlatform(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	hash := sha256.New()
	for seed := range uint64(60) {
		result, err := Run(randomSystem(r), seed)
		require.NoError(t, err)
		require.NoError(t, json.NewEncoder(hash).Encode(result))
	}
	assert.Equal(t, "21ae2a7b58f9d107f341a467bea0ec69e575f1bec30b3b48fc5266de74d61d2b", fmt.Sprintf("%x", hash.Sum(nil)))
}

// A budget is a retry.Budget in simulated time, whatever the number of a retry in its call.
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
				if h := simulated.of[3]; h != nil && r.IntN(2) == 0 {
					left := b.Left() // lets time pass
					require.Equal(t, left, int((simulated.full-simulated.held(3, now).spent)/token), "history %d", history)
				}
				d := r.Int64N(2) * r.Int64N([]int64{1e8, 1e9, 1e11}[r.IntN(3)])
				time.Sleep(time.Duration(d))
				now += d
			}
		}
		least := often(1000, 50_000)
		assert.Greater(t, graced, least, "Grace is hardly met")
		assert.Greater(t, refused, least)
		assert.Greater(t, refunded, least)
	})
}

// takes reports whether b allows the retry of a call with this number.
func takes(t *testing.T, b *retry.Budget, number int) bool {
	p := retry.Policy{MaxAttempts: 100, Budget: b}
	_, err := retry.Once(t.Context(), p, retry.Attempt{Number: number}, func(context.Context) error { return ErrFailed })
	reason := retry.ReasonOf(err)
	require.Contains(t, []retry.Reason{retry.ReasonRetry, retry.ReasonBudget}, reason)
	return reason == retry.ReasonRetry
}

// A caller that gives up before the retry gives back what its budget gave for it, and
// nothing for a retry in its Grace.
func TestBudgetOfARetryThatIsNotMade(t *testing.T) {
	for _, row := range []struct {
		name           string
		cancel         Cancel
		size           int
		empty          bool
		before, after  int64 // retries that are held when the caller gives up, and then
		grace, timeout time.Duration
	}{
		{"paid", CancelWork, 5, false, 4, 5, time.Hour, time.Second},
		{"paid, without Grace", CancelWork, 5, false, 4, 5, 0, time.Second},
		{"allowed in Grace", CancelWork, 5, true, 0, 0, time.Hour, time.Second},
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
			holds := func() int64 { return (b.full - b.held(0, e.now).spent) / token }
			e.arrive(&e.services[0])
			require.Equal(t, row.before, holds())
			for e.ended == 0 {
				e.next()
			}
			assert.Equal(t, row.after, holds())
		})
	}
}

// A Budget allows in simulated time what a retry.Budget allows.
func TestBudgetOfOtherSimulations(t *testing.T) {
	rule := &retry.Budget{Size: 1, Ratio: 1, Grace: time.Second}
	b := NewBudget(rule)
	assert.True(t, b.Take(0, 1), "it is full")
	assert.True(t, b.Take(time.Second-1, 4), "in Grace")
	assert.False(t, b.Take(time.Second-1, 5), "the fifth retry of its call")
	assert.False(t, b.Take(time.Second, 1), "after Grace")
	b.Success(2 * time.Second)
	assert.True(t, b.Take(2*time.Second, 9), "a success put one back")
	assert.False(t, b.Take(2*time.Second, 1))
	b.Success(62*time.Second - 1)
	assert.True(t, b.Take(62*time.Second-1, 9))
	assert.False(t, b.Take(62*time.Second-1, 1), "less than a minute after a retry found it empty")
	b.Success(122*time.Second - 1)
	assert.True(t, b.Take(122*time.Second-1, 9))
	assert.True(t, b.Take(122*time.Second-1, 1), "a new Grace, a minute after")
	assert.Equal(t, 1, rule.Left(), "it is unchanged")

	none := NewBudget(nil)
	none.Success(0)
	assert.Nil(t, none)
	assert.True(t, none.Take(0, 1))
}
