package retrysim

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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

// A failure is when an attempt failed, and with what.
type failure struct {
	at  time.Duration
	err error
}

// In the simulation a call makes the attempts that retry.Do makes, to the
// nanosecond: 2,000 random policies under a service that works for a while and then
// fails, until one time, and later succeeds.
func TestAttemptsAreThoseOfDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		attempts := 0
		for range often(2000, 20_000) {
			p := randomPolicy(r)
			work := time.Duration(1 + 2*r.IntN(100_000_000)) // odd, so that it never ends with a timeout
			until := time.Duration(1 + r.Int64N(6e9))
			slow := time.Duration(1 + r.Int64N(5e8)) // from then on, for as long, the work takes four times as long

			var simulated, real []failure
			e := newEngine(System{Duration: time.Minute, Services: map[string]Service{
				"web":  {Calls: []Edge{{To: "db", Policy: p}}},
				"db":   {Work: work, Distribution: Fixed, Calls: []Edge{{To: "dead"}}},
				"dead": {},
			}, Events: []Trigger{{For: until, Service: "dead", Change: Fail, Value: 1}, {At: slow, For: slow, Service: "db", Change: Slower, Value: 4}}}, 9)
			web := &e.edges[e.services[2].first]
			web.policy.RetryIf = func(err error) bool {
				simulated = append(simulated, failure{time.Duration(e.now), err})
				return true
			}
			e.arrive(2)
			for e.ended == 0 {
				e.next()
			}

			p.Source = newStream(9, "web", "seeds").Uint64
			start := time.Now()
			p.RetryIf = func(err error) bool {
				real = append(real, failure{time.Since(start), err})
				return true
			}
			err := retry.Do(context.Background(), p, func(ctx context.Context) error {
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
				if time.Since(start) < until {
					return ErrFailed
				}
				return nil
			})
			require.Equal(t, real, simulated, p)
			require.EqualValues(t, time.Since(start), e.now, p)
			require.Equal(t, err == nil, e.took.n == 1, p)
			attempts += len(real)
		}
		assert.Greater(t, attempts, 600, "the policies hardly retry")
	})
}

func randomPolicy(r *rand.Rand) retry.Policy {
	ms := func(n int) time.Duration { return time.Duration(r.IntN(n)) * time.Millisecond }
	p := retry.Policy{
		MaxAttempts: 1 + r.IntN(6), MaxDelay: ms(900),
		Backoff: []retry.Backoff{nil, retry.Fixed(ms(100)), retry.Linear(ms(100)), retry.Exponential{Base: ms(200)}, retry.Schedule{ms(50), ms(500)}}[r.IntN(5)],
		Jitter:  []retry.Jitter{nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(0.3)}[r.IntN(4)],
	}
	one := func(n int) bool { return r.IntN(n) == 0 }
	if one(3) {
		p.MaxElapsed = ms(2000)
	}
	if one(3) {
		p.AttemptTimeout = ms(300)
	}
	if one(4) {
		p.HealthyAfter = time.Millisecond + ms(200)
	}
	if one(3) {
		p.Budget = &retry.Budget{Size: 1 + r.IntN(3), Ratio: r.Float64(), RefillEvery: time.Millisecond + ms(300)}
	}
	if one(4) {
		q := &retry.Policy{MaxAttempts: 1 + r.IntN(4), Backoff: retry.Fixed(ms(400)), Jitter: retry.FullJitter}
		slow, failed := &retry.Class{Name: "slow", Policy: q}, &retry.Class{Name: "failed", Policy: q}
		p.Classify = func(err error) *retry.Class {
			if errors.Is(err, ErrTimeout) {
				return slow
			}
			return failed
		}
	}
	return p
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
		require.NoError(t, e.run())
		e.second-- // what is still going on is counted in the last one
		for i := range e.services {
			e.services[i].rate = 0
			e.services[i].arrival++
		}
		for len(e.events.events) > 0 && e.err == nil {
			e.next()
		}
		require.NoError(t, e.err)
		require.Equal(t, e.begun, e.ended, s)
		require.Zero(t, e.requests.live, s)
		for _, v := range e.services {
			require.Zero(t, v.busy, s)
			require.Zero(t, v.queued, s)
			sum := 0
			for _, row := range v.rows {
				if row.Worked > row.Calls {
					t.Fatalf("%d of %d calls worked: %+v", row.Worked, row.Calls, s)
				}
				sum += row.Worked
			}
			failed -= sum
		}
		for _, to := range e.edges {
			require.Zero(t, to.timeouts.n)
		}
		calls += e.begun
		failed += e.begun
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
		t := Trigger{At: ms(4000), For: time.Millisecond + ms(4000), Service: name(r.IntN(n))}
		switch r.IntN(4) {
		case 0:
			t.Change, t.Value = Workers, float64(r.IntN(3))
		case 1:
			t.Change, t.Value = Slower, 4*r.Float64()+0.1
		case 2:
			t.Change, t.Value = Fail, r.Float64()
		default:
			t.Service, t.Change, t.Value = "a", Rate, float64(r.IntN(60))
		}
		s.Events = append(s.Events, t)
	}
	return s
}

// The same systems give the same results on each platform that .ci/run tests: every
// second of 60 random ones is in this hash.
func TestSameOnEveryPlatform(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	hash := sha256.New()
	for seed := range uint64(60) {
		result, err := Run(randomSystem(r), seed)
		require.NoError(t, err)
		require.NoError(t, json.NewEncoder(hash).Encode(result))
	}
	assert.Equal(t, "010536e7a41e85d0bb674b465ab10200106d41a66ee927b9b01429c516a30a16", fmt.Sprintf("%x", hash.Sum(nil)))
}
