package sharedsource

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/goretry/retry"
)

// A generator with a lock, the one that needs none, and ones that are not known.
type locked struct {
	mu sync.Mutex
	*rand.Rand
}

func (l *locked) Uint64() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Rand.Uint64()
}

type counter uint64

func (c *counter) Uint64() uint64 { *c++; return uint64(*c) }

var (
	lockedPolicy  = retry.Policy{Source: (&locked{Rand: rand.New(rand.NewPCG(1, 2))}).Uint64}
	safePolicy    = retry.Policy{Source: rand.Uint64}
	counterPolicy = retry.Policy{Source: new(counter).Uint64}
	fixedPolicy   = retry.Policy{Source: func() uint64 { return 4 }}
	defaultPolicy = retry.Policy{MaxAttempts: 3}
)

// A policy that one goroutine uses.
func local(ctx context.Context, c *client) error {
	p := retry.Policy{MaxAttempts: 3, Source: rand.NewPCG(1, 2).Uint64}
	if err := retry.Do(ctx, p, c.get); err != nil {
		return err
	}
	return retry.Do(ctx, retry.Policy{Source: generator.Uint64}, c.get)
}

func oneGoroutine(ctx context.Context, c *client) {
	p := retry.Policy{MaxAttempts: 3, Source: rand.NewPCG(1, 2).Uint64}
	go func() { _ = retry.Do(ctx, p, c.get) }()
}

func oneEach(ctx context.Context, c *client) {
	for range 3 {
		p := retry.Policy{MaxAttempts: 3, Source: rand.NewPCG(1, 2).Uint64}
		go func() { _ = retry.Do(ctx, p, c.get) }()
	}
}

// A function that runs in this goroutine.
func sequential(ctx context.Context, c *client, each func(func())) {
	p := retry.Policy{MaxAttempts: 3, Source: rand.NewPCG(1, 2).Uint64}
	for range 3 {
		each(func() { _ = retry.Do(ctx, p, c.get) })
	}
}

// A struct that may have one user, and a table of a test.
type simulation struct{ policy retry.Policy }

func newSimulation(seed uint64) *simulation {
	return &simulation{policy: retry.Policy{Source: rand.NewPCG(seed, seed).Uint64}}
}

func table() []retry.Decision {
	var decisions []retry.Decision
	for _, row := range []struct {
		name   string
		policy retry.Policy
	}{
		{"pcg", retry.Policy{Source: rand.NewPCG(1, 2).Uint64}},
		{"chacha8", retry.Policy{Source: rand.NewChaCha8([32]byte{}).Uint64}},
	} {
		decisions = append(decisions, row.policy.Next(retry.Attempt{Number: 1}))
	}
	return decisions
}

// The generator by itself.
var dice = rand.New(rand.NewPCG(1, 2))

func (s *simulation) roll() int { return dice.IntN(6) }

// A field of the same name in another type.
type shuffle struct{ Source func() uint64 }

var shuffled = shuffle{Source: rand.NewPCG(1, 2).Uint64}
