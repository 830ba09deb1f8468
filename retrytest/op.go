package retrytest

import (
	"context"
	"sync"
	"time"
)

// An Op is an operation that returns the errors you list and records the times of its attempts.
// An attempt takes no time and ignores its context. An Op is safe for concurrent use. The zero
// Op always succeeds.
type Op struct {
	errs []error

	mu    sync.Mutex
	times []time.Time
}

// NewOp returns an Op whose attempts return these errors in order. A nil in the list is a
// success. After the end of the list, the Op repeats the last entry: NewOp(err) always fails,
// and NewOp(err, err, nil) fails twice and then always succeeds.
func NewOp(errs ...error) *Op { return &Op{errs: errs} }

// Run makes one attempt. Pass o.Run to [retry.Do].
func (o *Op) Run(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.times = append(o.times, time.Now())
	if len(o.errs) == 0 {
		return nil
	}
	return o.errs[min(len(o.times), len(o.errs))-1]
}

// Value returns a function for [retry.DoValue]. The function calls o.Run. If o.Run succeeds, the
// function returns v. Otherwise it returns the zero value of T and the error of o.Run.
func Value[T any](o *Op, v T) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		if err := o.Run(ctx); err != nil {
			return *new(T), err
		}
		return v, nil
	}
}

// Attempts returns how many attempts o has made.
func (o *Op) Attempts() int { return len(o.Times()) }

// Times returns the times at which the attempts of o were made.
func (o *Op) Times() []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]time.Time(nil), o.times...)
}

// Gaps returns the times between consecutive attempts. In a bubble of [testing/synctest], the
// gaps are exactly the delays.
func (o *Op) Gaps() []time.Duration {
	times := o.Times()
	var gaps []time.Duration
	for i := 1; i < len(times); i++ {
		gaps = append(gaps, times[i].Sub(times[i-1]))
	}
	return gaps
}
