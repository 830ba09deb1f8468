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

// The function `often` returns how often a test repeats something random: `long` times in .ci/soak,
// and otherwise `short` times.
func often(short, long int) int {
	if os.Getenv("RETRY_LONG") != "" {
		return long
	}
	return short
}

// Simulated calls have the same events as retry.Do, to the nanosecond. The test makes 20 calls with
// each of 2,000 random policies. The calls go to a service that fails for a while, then succeeds
// for as long, and then fails again for as long.
func TestSameEventsAsDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		const calls = 20
		attempts := 0
		for range often(2000, 20_000) {
			p := randomPolicy(r)
			work := []time.Duration{0, time.Duration(1 + 2*r.IntN(100_000_000))}[min(1, r.IntN(10))] // odd, so that work never ends at the same time as a timeout
			until := time.Duration(1 + r.Int64N(3e8<<r.IntN(5)))
			slow := time.Duration(1 + r.Int64N(5e8)) // work takes four times as long from this time on, until twice this time
			start := time.Now()
			keep := func(events *[]retry.Event) func(context.Context, retry.Event) {
				return func(_ context.Context, ev retry.Event) {
					ev.Time, ev.Due = ev.Time.Round(0), ev.Due.Round(0) // removes the monotonic clock
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
					e.handleNext()
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
		assert.Greater(t, attempts, 3000, "the policies retry too rarely for this test")
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

// Each call from outside ends exactly once. At the end of a run no request is in flight, no
// worker is busy, and no queue has an entry.
func TestEveryCallEndsOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	calls, failed := 0, 0
	for range often(150, 3000) {
		s := randomSystem(r)
		require.NoError(t, s.Validate(), s)
		e := newEngine(s, r.Uint64())
		require.NoError(t, second(s.goOn(e)))
		e.second-- // the last row also counts the calls that end after it
		for i := range e.services {
			e.services[i].rate = 0
			e.services[i].arrival++
		}
		for len(e.events.events) > 0 && e.err == nil {
			e.handleNext()
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
	assert.Greater(t, failed, calls/20, "the systems fail too rarely for this test")
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
				p.HealthyAfter = 0 // a call whose attempts all run past HealthyAfter would never end
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

// The same systems must give the same results on every platform, so the test compares a hash of the
// results of 60 random systems.
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

// Each client has its own budget. Policies of one service that share a Budget share the
// simulated budget too.
func TestBudgetsOfClients(t *testing.T) {
	for _, tc := range []struct {
		clients int
		shared  bool
		want    int
	}{{1, false, 20}, {1, true, 10}, {7, false, 140}, {7, true, 70}} {
		retries := 0
		s := system(t, `{"services": {"db": {}, "web": {"rate": "100/s", "calls": [
				{"to": "db", "retry": {"max_attempts": 2}, "budget": {"size": 10}}]}},
			"events": [{"at": "0s", "for": "30s", "service": "db", "fail": 0.5}], "duration": "40s"}`)
		s.edit("web", func(v *Service) {
			v.Clients = tc.clients
			v.Calls[0].Policy.OnEvent = func(_ context.Context, ev retry.Event) {
				if ev.Kind == retry.RetryScheduled {
					retries++
				}
			}
			again := v.Calls[0]
			if !tc.shared {
				again.Policy.Budget = &retry.Budget{Size: 10}
			}
			v.Calls = append(v.Calls, again)
		})
		require.NoError(t, second(s.simulate(1)))
		assert.Equal(t, tc.want, retries, tc)
	}
}

// A run ends with an error if it has too many requests in flight or too many events.
func TestTooMuchInFlight(t *testing.T) {
	s := system(t, `{"services": {"web": {"rate": "1000000/s", "workers": 1, "work": "1h"}}, "duration": "20s"}`)
	e := newEngine(s, 1)
	e.live = MaxInFlight - 5
	assert.ErrorContains(t, second(s.goOn(e)), "more than 1000000 requests are in flight after ")
	e = newEngine(s, 1)
	e.popped = MaxEvents - 1000
	assert.ErrorContains(t, second(s.goOn(e)), "more than 1000000000 events after ")
}
