package repeated

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
)

type store struct {
	mu      sync.Mutex
	once    sync.Once
	pending []string
	batch   atomic.Pointer[[]string]
	send    func(context.Context, ...string) error
}

func (s *store) locked(ctx context.Context, p retry.Policy) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		s.mu.Lock() // want `an attempt that fails leaves s.mu locked`
		if err := s.send(ctx); err != nil {
			return err
		}
		s.mu.Unlock()
		return nil
	})
}

func (s *store) connect(ctx context.Context, p retry.Policy) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		var err error
		s.once.Do(func() { err = s.send(ctx) }) // want `s.once runs its function in the first attempt only`
		return err
	})
}

func cached(ctx context.Context, p retry.Policy, load func() (string, error)) (string, error) {
	get := sync.OnceValues(load)
	return retry.DoValue(ctx, p, func(context.Context) (string, error) {
		return get() // want `get runs once and keeps its error`
	})
}

func closed(ctx context.Context, p retry.Policy, ping func(context.Context) error) error {
	started := make(chan struct{})
	return retry.Do(ctx, p, func(ctx context.Context) error {
		close(started) // want `each attempt closes started`
		return ping(ctx)
	})
}

func received(ctx context.Context, p retry.Policy, jobs <-chan string, s *store) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		job := <-jobs // want `the attempt takes from jobs`
		return s.send(ctx, job)
	})
}

func selected(ctx context.Context, p retry.Policy, jobs <-chan string, s *store) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		select {
		case job := <-jobs: // want `the attempt takes from jobs`
			return s.send(ctx, job)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func drained(ctx context.Context, p retry.Policy, jobs <-chan string, s *store) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		for job := range jobs { // want `the attempt takes from jobs`
			if err := s.send(ctx, job); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *store) shifted(ctx context.Context, p retry.Policy) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		head := s.pending[0]
		s.pending = s.pending[1:] // want `the attempt takes from s.pending`
		return s.send(ctx, head)
	})
}

func (s *store) swapped(ctx context.Context, p retry.Policy) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		all := s.batch.Swap(nil) // want `the attempt takes from s.batch`
		return s.send(ctx, *all...)
	})
}

func popped(ctx context.Context, p retry.Policy, queue heap.Interface, s *store) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		item := heap.Pop(queue).(string) // want `the attempt takes from queue`
		return s.send(ctx, item)
	})
}

type order struct{ OrderID, IdempotencyKey int64 }

func keyed(ctx context.Context, p retry.Policy, place func(context.Context, order) error, pay func(ctx context.Context, idempotencyKey int64) error) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		if err := pay(ctx, rand.Int64()); err != nil { // want `each attempt makes a new idempotencyKey`
			return err
		}
		return place(ctx, order{
			OrderID: time.Now().UnixNano(), // want `each attempt makes a new OrderID`
		})
	})
}
