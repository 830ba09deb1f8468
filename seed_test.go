package retry_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	randv2 "math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	exprand "golang.org/x/exp/rand"

	"github.com/goretry/retry"
)

// counter has a Source that counts its calls.
type counter struct{ calls, value uint64 }

func (s *counter) draw() uint64 { s.calls++; return s.value + s.calls - 1 }

func TestOneSeedACall(t *testing.T) {
	everyWay(t, "the delays are those of Next with that seed", func(t *testing.T, call caller) {
		source := &counter{value: 42}
		var told watch
		p := retry.Policy{
			MaxAttempts: 12, Backoff: retry.Exponential{Base: 100 * time.Millisecond}, MaxDelay: 5 * time.Second, Jitter: retry.EqualJitter,
			MaxRetryAfter: time.Hour, Source: source.draw, OnEvent: told.event,
		}
		attempt := 0
		fail := func() error {
			if attempt%4 == 0 {
				return retry.After(time.Duration(attempt)*time.Second, errDial)
			}
			return errDial
		}
		for i := range uint64(3) {
			told.events, attempt = nil, 0
			start := time.Now()
			e := stopped(t, call(t.Context(), p, func(context.Context) error { attempt++; return fail() }))
			waited := time.Duration(0)
			for n := 1; n < 12; n++ {
				attempt = n
				want := p.Next(retry.Attempt{Number: n, Err: fail(), Seed: 42 + i})
				require.True(t, want.Retry())
				got := told.of(retry.RetryScheduled)[n-1]
				assert.Equal(t, n, got.Attempt)
				assert.Equal(t, 42+i, got.Seed)
				assert.Equal(t, want.Delay, got.Delay)
				again := p.Next(retry.Attempt{Number: got.Attempt, Err: retry.After(got.RetryAfter, errDial), Seed: got.Seed})
				assert.Equal(t, got.Delay, again.Delay, "the event holds everything that its delay is computed from")
				assert.Equal(t, got.Delay, retry.Draw(got.Seed, got.Attempt, got.Lo, got.Hi), "and needs no policy")
				waited += want.Delay
			}
			assert.Equal(t, waited, e.Waited)
			assert.Equal(t, waited, time.Since(start))
			assert.Equal(t, i+1, source.calls, "the Source is called once for each call")
		}
	})
	everyWay(t, "the Source is not called without jitter", func(t *testing.T, call caller) {
		var told watch
		p := everySecond
		source := new(counter)
		p.Source, p.OnEvent = source.draw, told.event
		runs := 0
		stopped(t, call(t.Context(), p, fails(&runs)))
		assert.Zero(t, source.calls)
		for _, e := range told.of(retry.RetryScheduled) {
			assert.Zero(t, e.Seed)
		}
	})
	everyWay(t, "the Source is not called on success", func(t *testing.T, call caller) {
		p := everySecond
		source := new(counter)
		p.Source, p.Jitter = source.draw, retry.FullJitter
		require.NoError(t, call(t.Context(), p, func(context.Context) error { return nil }))
		assert.Zero(t, source.calls)
	})
	everyWay(t, "a Source that draws 0 is treated as one that draws 1", func(t *testing.T, call caller) {
		var told watch
		p := everySecond
		source := new(counter)
		p.Source, p.Jitter, p.OnEvent = source.draw, retry.FullJitter, told.event
		runs := 0
		stopped(t, call(t.Context(), p, fails(&runs)))
		assert.EqualValues(t, 1, source.calls)
		for i, e := range told.of(retry.RetryScheduled) {
			assert.EqualValues(t, 1, e.Seed)
			assert.Equal(t, p.Next(retry.Attempt{Number: i + 1, Seed: 1}).Delay, e.Delay)
		}
	})
	everyWay(t, "the seed comes from the policy of the call, not of the class", func(t *testing.T, call caller) {
		var told watch
		p := everySecond
		p.Source, p.OnEvent = constant(9), told.event
		p.Classify = unnamed(&retry.Policy{Backoff: retry.Fixed(time.Minute), Jitter: retry.FullJitter, Source: constant(1000)})
		runs := 0
		stopped(t, call(t.Context(), p, fails(&runs)))
		require.Len(t, told.of(retry.RetryScheduled), 2)
		for i, e := range told.of(retry.RetryScheduled) {
			assert.EqualValues(t, 9, e.Seed)
			assert.Equal(t, p.Next(retry.Attempt{Number: i + 1, Err: errDial, Seed: 9}).Delay, e.Delay)
		}
	})
}

// A retry without a draw has no seed in its event, even if an earlier retry
// drew one.
func TestEventSeedOnlyWhereItDrew(t *testing.T) {
	everyWay(t, "no delay after one that was drawn", func(t *testing.T, call caller) {
		var told watch
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{time.Second, 0}, Jitter: retry.FullJitter, OnEvent: told.event}
		stopped(t, call(t.Context(), p, func(context.Context) error { return errDial }))
		scheduled := told.of(retry.RetryScheduled)
		assert.NotZero(t, scheduled[0].Seed)
		assert.Zero(t, scheduled[1].Seed)
	})
}

func TestSeedOf(t *testing.T) {
	plain := func(key string) uint64 {
		h := fnv.New64a()
		h.Write([]byte(key))
		z := h.Sum64()
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	for _, key := range []string{"", "a", "job-1", "job-2", "réservé", "\x00", "\x00\x00", "\xff\xfe", strings.Repeat("long", 1000)} {
		assert.Equal(t, plain(key), retry.SeedOf(key), "%q", key)
		assert.NotZero(t, retry.SeedOf(key))
	}

	const hashesToZero = "\xd5\x6b\xb9\x53\x42\x87\x08\x36"
	require.Zero(t, plain(hashesToZero))
	assert.EqualValues(t, 1, retry.SeedOf(hashesToZero), "0 would mean that a seed is to be drawn")

	seen := map[uint64]bool{}
	for i := range 10_000 {
		seen[retry.SeedOf(fmt.Sprint(i))] = true
	}
	assert.Len(t, seen, 10_000)
}

func TestSourceIsAskedOnlyForASeedThatIsNeeded(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		name    string
		policy  retry.Policy
		attempt retry.Attempt
		asked   int
	}{
		{"seed 0", retry.Default(), retry.Attempt{Number: 1, Err: boom}, 1},
		{"a seed", retry.Default(), retry.Attempt{Number: 1, Err: boom, Seed: 1}, 0},
		{"no jitter", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}, retry.Attempt{Number: 1, Err: boom}, 0},
		{"no jitter, with a hint", retry.Policy{MaxAttempts: 3}, retry.Attempt{Number: 1, Err: retry.After(time.Second, boom)}, 0},
		{"jitter without a delay", retry.Policy{MaxAttempts: 3, Jitter: retry.FullJitter}, retry.Attempt{Number: 1, Err: boom}, 0},
		{"an invalid policy", retry.Policy{MaxAttempts: -2, Backoff: retry.Fixed(time.Second), Jitter: retry.FullJitter}, retry.Attempt{Number: 1, Err: boom}, 0},
		{"a stop also has a delay", retry.Default(), retry.Attempt{Number: 5, Err: boom}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			asked := 0
			row.policy.Source = func() uint64 { asked++; return 42 }
			first := row.policy.Next(row.attempt)
			assert.Equal(t, row.asked, asked)
			if row.asked > 0 {
				row.attempt.Seed = 42
				assert.Equal(t, row.policy.Next(row.attempt), first, "the number that the Source draws is the seed")
			}
		})
	}

	t.Run("a Source that draws 0", func(t *testing.T) {
		p := retry.Default()
		p.Source = constant(0)
		assert.Equal(t, p.Next(retry.Attempt{Number: 1, Seed: 1}), p.Next(retry.Attempt{Number: 1}), "0 means that none was drawn")
	})
}

// locked makes a Source safe for concurrent use.
func locked(source func() uint64) func() uint64 {
	var mu sync.Mutex
	return func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return source()
	}
}

// Each Source draws its own sequence of seeds, and the same sequence for the
// same seed.
func TestSources(t *testing.T) {
	for name, source := range map[string]func() func() uint64{
		"math/rand/v2 PCG":        func() func() uint64 { return randv2.NewPCG(1, 2).Uint64 },
		"math/rand/v2 ChaCha8":    func() func() uint64 { return randv2.NewChaCha8([32]byte{1, 2, 3}).Uint64 },
		"math/rand/v2 Rand":       func() func() uint64 { return randv2.New(randv2.NewPCG(1, 2)).Uint64 },
		"math/rand/v2 PCG locked": func() func() uint64 { return locked(randv2.NewPCG(1, 2).Uint64) },
		"x/exp/rand":              func() func() uint64 { return exprand.NewSource(7).Uint64 },
		"x/exp/rand Rand":         func() func() uint64 { return exprand.New(exprand.NewSource(7)).Uint64 },
		"x/exp/rand LockedSource": func() func() uint64 { s := new(exprand.LockedSource); s.Seed(7); return s.Uint64 },
	} {
		t.Run(name, func(t *testing.T) {
			require.NotNil(t, source())
			a, b, plain := retry.Default(), retry.Default(), retry.Default()
			a.Source, b.Source = source(), source()
			seeds := source()
			distinct := map[time.Duration]bool{}
			for range 1000 {
				d := a.Next(retry.Attempt{Number: 3}).Delay
				require.Equal(t, d, b.Next(retry.Attempt{Number: 3}).Delay, "the same sequence again")
				require.Equal(t, d, plain.Next(retry.Attempt{Number: 3, Seed: seeds()}).Delay, "one number of the Source is one seed")
				distinct[d] = true
			}
			assert.GreaterOrEqual(t, len(distinct), 990)
		})
	}
}

// These Sources are safe for concurrent use by that many goroutines. Run it
// under the race detector.
func TestSourcesInManyGoroutines(t *testing.T) {
	expLocked := new(exprand.LockedSource)
	expLocked.Seed(7)
	for name, source := range map[string]func() uint64{
		"none":                    nil,
		"math/rand/v2 PCG locked": locked(randv2.NewPCG(1, 2).Uint64),
		"ChaCha8 locked":          locked(randv2.NewChaCha8([32]byte{}).Uint64),
		"x/exp/rand LockedSource": expLocked.Uint64,
	} {
		t.Run(name, func(t *testing.T) {
			p := retry.Default()
			p.Source = source
			delays := make([][]time.Duration, 8)
			var wg sync.WaitGroup
			for i := range delays {
				wg.Go(func() {
					for range 250 {
						delays[i] = append(delays[i], p.Next(retry.Attempt{Number: 3}).Delay)
					}
				})
			}
			wg.Wait()
			distinct := map[time.Duration]bool{}
			for _, ds := range delays {
				for _, d := range ds {
					distinct[d] = true
				}
			}
			assert.GreaterOrEqual(t, len(distinct), 1980, "of 2000: no two goroutines draw the same")
		})
	}
}
