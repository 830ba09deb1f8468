package repeated

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/goretry/retry"
)

func (s *store) unlocked(ctx context.Context, p retry.Policy) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		s.mu.Lock()
		all := s.pending
		s.mu.Unlock()
		return s.send(ctx, all...)
	})
}

func own(ctx context.Context, p retry.Policy, ping func(context.Context) error) error {
	var wg sync.WaitGroup
	return retry.Do(ctx, p, func(ctx context.Context) error {
		done := make(chan struct{})
		wg.Add(1)
		go func() {
			defer wg.Done()
			<-done
		}()
		close(done)
		return ping(ctx)
	})
}

func atEnd(ctx context.Context, p retry.Policy, ping func(context.Context) error) error {
	up := make(chan struct{})
	return retry.Do(ctx, p, func(ctx context.Context) error {
		if err := ping(ctx); err != nil {
			return err
		}
		close(up)
		return nil
	})
}

// The answer to what the attempt has sent, and a slot of a semaphore.
func answered(ctx context.Context, p retry.Policy, s *store, answers, slots chan string) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		if err := s.send(ctx, "?"); err != nil {
			return err
		}
		answer := <-answers
		return s.send(ctx, answer)
	})
}

func putBack(ctx context.Context, p retry.Policy, s *store, jobs chan string) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		job := <-jobs
		err := s.send(ctx, job)
		if err != nil {
			jobs <- job
		}
		return err
	})
}

func (s *store) restored(ctx context.Context, p retry.Policy) error {
	return retry.Do(ctx, p, func(ctx context.Context) error {
		all := s.pending
		s.pending = nil
		if err := s.send(ctx, all...); err != nil {
			s.pending = all
			return err
		}
		return nil
	})
}

// It may retry because the id was taken, and another name is not for the receiver.
func another(ctx context.Context, place func(context.Context, order) error, trace func(ctx context.Context, requestID int64) error) error {
	p := retry.Policy{MaxAttempts: 3, RetryIf: func(error) bool { return true }}
	return retry.Do(ctx, p, func(ctx context.Context) error {
		if err := trace(ctx, rand.Int64()); err != nil {
			return err
		}
		return place(ctx, order{OrderID: rand.Int64()})
	})
}
