// Package ratelimiter shows a policy as the rate limiter of client-go's work
// queue, which Kubernetes controllers use.
package ratelimiter

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/goretry/retry"
)

// New returns a rate limiter with the delays of policy. A controller reconciles for
// ever, so the limits of policy do not stop it: the delays go on as its Backoff and
// MaxDelay say.
func New[T comparable](policy retry.Policy) (workqueue.TypedRateLimiter[T], error) {
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	return &limiter[T]{policy: policy, failures: map[T]int{}}, nil
}

type limiter[T comparable] struct {
	policy retry.Policy

	mu       sync.Mutex // guards failures
	failures map[T]int
}

// When returns the delay after one more failure of item.
func (l *limiter[T]) When(item T) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures[item]++
	return l.policy.Next(retry.Attempt{Number: l.failures[item], Seed: retry.SeedOf(fmt.Sprint(item))}).Delay
}

// Forget is called when an item has been reconciled.
func (l *limiter[T]) Forget(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.failures, item)
}

// NumRequeues returns how often item has failed.
func (l *limiter[T]) NumRequeues(item T) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures[item]
}
