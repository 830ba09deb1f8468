package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// bareLoop is what a careful engineer writes by hand, and what everything else
// is measured against.
var bareLoop = library{name: "bare", prepare: func(p plan) calls {
	return calls{
		run: func(ctx context.Context, n int, op opFunc) (err error) {
			operation := func(ctx context.Context) error { return op(ctx) }
			for range n {
				err = p.bare(ctx, operation)
			}
			return err
		},
		value: func(ctx context.Context, n int, op valueFunc) (v int, err error) {
			operation := func(ctx context.Context) (int, error) { return op(ctx) }
			for range n {
				v, err = bareValue(ctx, p, operation)
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				d = p.delay(attempt)
			}
			return d
		},
	}
}}

func (p *plan) bare(ctx context.Context, op func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := op(ctx)
		if err == nil || attempt == p.attempts {
			return err
		}
		if d := p.delay(attempt); d > 0 {
			t := time.NewTimer(d)
			select {
			case <-ctx.Done():
				t.Stop()
				return ctx.Err()
			case <-t.C:
			}
		}
	}
}

// bareValue is bare once more, as one writes it for a function with a result.
func bareValue[T any](ctx context.Context, p plan, op func(context.Context) (T, error)) (zero T, err error) {
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return zero, err
		}
		v, err := op(ctx)
		if err == nil {
			return v, nil
		}
		if attempt == p.attempts {
			return zero, err
		}
		if d := p.delay(attempt); d > 0 {
			t := time.NewTimer(d)
			select {
			case <-ctx.Done():
				t.Stop()
				return zero, ctx.Err()
			case <-t.C:
			}
		}
	}
}

func (p *plan) delay(attempt int) time.Duration {
	if p.base == 0 {
		return 0
	}
	d := min(p.base<<min(attempt-1, 20), p.most)
	return d + time.Duration((2*rand.Float64()-1)*p.jitter*float64(d))
}
