package retrytest

import (
	"context"
	"sync"
	"time"
)

// An Op is an operation that fails as told and records when it was executed.
// It takes no time and does not look at its context. It is safe for concurrent
// use; the zero Op always succeeds.
type Op struct {
	errs []error

	mu    sync.Mutex
	times []time.Time
}

// NewOp returns an Op whose executions return these errors, one after the
// other, nil being a success. Past the end the last one repeats: NewOp(err)
// always fails, NewOp(err, err, nil) fails twice and then succeeds.
func NewOp(errs ...error) *Op { return &Op{errs: errs} }

// Run executes o. It is a function for [retry.Do], and for the body of a
// [retry.Loop].
func (o *Op) Run(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.times = append(o.times, time.Now())
	if len(o.errs) == 0 {
		return nil
	}
	return o.errs[min(len(o.times), len(o.errs))-1]
}

// Value returns a function for [retry.DoValue] that executes o, and returns v
// where o succeeds and the zero T where it fails.
func Value[T any](o *Op, v T) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		if err := o.Run(ctx); err != nil {
			return *new(T), err
		}
		return v, nil
	}
}

// Executions returns how often o was executed.
func (o *Op) Executions() int { return len(o.Times()) }

// Times returns when o was executed.
func (o *Op) Times() []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]time.Time(nil), o.times...)
}

// Gaps returns the time from each execution to the next: in a bubble of
// [testing/synctest] exactly the delays that were waited.
func (o *Op) Gaps() []time.Duration {
	times := o.Times()
	var gaps []time.Duration
	for i := 1; i < len(times); i++ {
		gaps = append(gaps, times[i].Sub(times[i-1]))
	}
	return gaps
}
