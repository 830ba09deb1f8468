package ratelimiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/queues/ratelimiter"
)

func TestNew(t *testing.T) {
	_, err := ratelimiter.New[string](retry.Policy{MaxAttempts: -2})
	assert.ErrorContains(t, err, "MaxAttempts is -2")

	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.EqualJitter}
	limiter, err := ratelimiter.New[string](policy)
	require.NoError(t, err)
	for n := 1; n <= 5; n++ { // beyond the limit too
		want := policy.Next(retry.Attempt{Number: n, Seed: retry.SeedOf("default/web")}).Delay
		assert.NotZero(t, want)
		assert.Equal(t, want, limiter.When("default/web"))
		assert.Equal(t, n, limiter.NumRequeues("default/web"))
	}
	assert.Zero(t, limiter.NumRequeues("default/db"))
	limiter.Forget("default/web")
	assert.Zero(t, limiter.NumRequeues("default/web"))
}

// A controller's loop: an item fails twice and is then reconciled.
func TestQueue(t *testing.T) {
	limiter, err := ratelimiter.New[string](retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Millisecond)})
	require.NoError(t, err)
	queue := workqueue.NewTypedRateLimitingQueue(limiter)
	queue.Add("default/web")
	for n := 1; ; n++ {
		item, down := queue.Get()
		require.False(t, down)
		queue.Done(item)
		if n == 3 {
			queue.Forget(item)
			break
		}
		queue.AddRateLimited(item)
	}
	assert.Zero(t, queue.NumRequeues("default/web"))
	queue.ShutDown()
}
