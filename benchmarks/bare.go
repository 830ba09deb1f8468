package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"
)

// bareLoop is the loop that a careful engineer writes by hand. Everything else is
// measured against it.
var bareLoop = library{name: "bare", duties: true, prepare: func(p plan) calls {
	return calls{
		run: func(ctx context.Context, n int, op opFunc) (err error) {
			operation := func(ctx context.Context) error { return op(ctx) }
			if p.within > 0 || p.timeout > 0 || p.watched {
				for range n {
					err = p.bareWithDuties(ctx, operation)
				}
				return err
			}
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
		read: func(log []byte) (events int, err error) {
			for line := range bytes.Lines(log) {
				var event map[string]any
				if err := json.Unmarshal(line, &event); err != nil {
					return 0, err
				}
				events++
			}
			return events, nil
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

// bareWithDuties is bare as an engineer writes it for a plan with a duty.
func (p *plan) bareWithDuties(ctx context.Context, op func(context.Context) error) error {
	var start time.Time
	if p.within > 0 || p.watched {
		start = time.Now()
	}
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.watched {
			step(attempt, time.Since(start))
		}
		err := p.once(ctx, op)
		if p.watched {
			step(attempt, time.Since(start))
		}
		if err == nil || attempt == p.attempts {
			return err
		}
		d := p.delay(attempt)
		if p.within > 0 && time.Since(start)+d > p.within {
			return err
		}
		if d > 0 {
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

func (p *plan) once(ctx context.Context, op func(context.Context) error) error {
	if p.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	return op(ctx)
}

// step is called for each step. It does too little to be measured, and too much
// to be optimized away.
//
//go:noinline
func step(int, time.Duration) {}

// bareValue is bare for a function with a result.
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
