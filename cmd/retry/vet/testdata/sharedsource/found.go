package sharedsource

import (
	"context"
	oldrand "math/rand"
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

var policy = retry.Policy{
	MaxAttempts: 3,
	Source:      rand.New(rand.NewPCG(1, 2)).Uint64, // want `a \*rand.Rand is not safe for concurrent use, and policy is a policy of the whole package: leave Source out, which draws from math/rand/v2, or lock around Uint64`
}

var policies = map[string]*retry.Policy{
	"slow": {MaxAttempts: 9, Source: rand.NewPCG(1, 2).Uint64}, // want `a \*rand.PCG is not safe .* policies is a policy of the whole package`
}

var generator = oldrand.New(oldrand.NewSource(1))

func init() {
	policy.Source = generator.Uint64 // want `a \*rand.Rand is not safe`
}

type client struct {
	mu     sync.Mutex
	policy retry.Policy
}

func newClient() *client {
	c := &client{policy: retry.Policy{Source: rand.NewChaCha8([32]byte{}).Uint64}} // want `a \*rand.ChaCha8 is not safe .* client has a lock because many goroutines use it`
	c.policy.Source = generator.Uint64                                             // want `client has a lock`
	return c
}

func transport() http.RoundTripper {
	return &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 3, Source: generator.Uint64}} // want `Transport is an http.RoundTripper, which many goroutines use`
}

func goroutines[T any](ctx context.Context, values []T, send func(context.Context, T) error) {
	p := retry.Policy{MaxAttempts: 3, Source: rand.New(rand.NewPCG(1, 2)).Uint64} // want `p is used by several goroutines`
	for _, v := range values {
		go func() {
			_ = retry.Do(ctx, p, func(ctx context.Context) error { return send(ctx, v) })
		}()
	}
}

func twoGoroutines(ctx context.Context, c *client) {
	var group sync.WaitGroup
	var p retry.Policy
	p.Source = generator.Uint64 // want `p is used by several goroutines`
	group.Go(func() { _ = retry.Do(ctx, p, c.get) })
	group.Go(func() { _ = retry.Do(ctx, p, c.get) })
	group.Wait()
}

// A generator inside something that has no method of its own.
type dealer struct {
	*rand.Rand
	name string
}

func named(ctx context.Context, c *client, d dealer) {
	source := d.Uint64
	p := retry.Policy{MaxAttempts: 3, Source: source} // want `a \*rand.Rand is not safe .* p is used by several goroutines`
	for range 3 {
		go func() { _ = retry.Do(ctx, p, c.get) }()
	}
}

func handler(c *client) http.HandlerFunc {
	p := retry.Default()
	p.Source = generator.Uint64 // want `p is used by an HTTP handler, which runs in many goroutines`
	return func(w http.ResponseWriter, r *http.Request) {
		_ = retry.Do(r.Context(), p, c.get)
	}
}

func (c *client) get(context.Context) error { return nil }
