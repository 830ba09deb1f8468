package main

import (
	"context"
	"time"

	backoff4 "github.com/cenkalti/backoff/v4"
	backoff5 "github.com/cenkalti/backoff/v5"
	backoff7 "github.com/cenkalti/backoff/v7"
)

// A BackOff of cenkalti keeps the state of a call, so each call builds its own. It
// is a literal, because the constructors fill the fields twice. The limit of 15
// minutes is not set, because the plan has none.

var cenkalti4 = library{name: "cenkalti-v4", module: "github.com/cenkalti/backoff/v4", prepare: func(p plan) calls {
	retries := uint64(p.attempts - 1)
	return calls{
		run: func(ctx context.Context, n int, op opFunc) (err error) {
			operation := func() error { return op(ctx) }
			for range n {
				err = backoff4.Retry(operation, backoff4.WithContext(backoff4.WithMaxRetries(p.backOff4(), retries), ctx))
			}
			return err
		},
		value: func(ctx context.Context, n int, op valueFunc) (v int, err error) {
			operation := func() (int, error) { return op(ctx) }
			for range n {
				v, err = backoff4.RetryWithData(operation, backoff4.WithContext(backoff4.WithMaxRetries(p.backOff4(), retries), ctx))
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				b := p.exponential4()
				b.Reset()
				for range attempt {
					d = b.NextBackOff()
				}
			}
			return d
		},
	}
}}

func (p plan) backOff4() backoff4.BackOff {
	if p.base == 0 {
		return &backoff4.ZeroBackOff{}
	}
	return p.exponential4()
}

func (p plan) exponential4() *backoff4.ExponentialBackOff {
	return &backoff4.ExponentialBackOff{InitialInterval: p.base, Multiplier: 2, RandomizationFactor: p.jitter, MaxInterval: p.most,
		Stop: backoff4.Stop, Clock: backoff4.SystemClock}
}

// cenkalti5 and cenkalti7 only have the form with a value. Of their options only
// the BackOff is built for each call.
var cenkalti5 = library{name: "cenkalti-v5", module: "github.com/cenkalti/backoff/v5", prepare: func(p plan) calls {
	tries, forever := backoff5.WithMaxTries(uint(p.attempts)), backoff5.WithMaxElapsedTime(0)
	return calls{
		run: func(ctx context.Context, n int, op opFunc) (err error) {
			operation := func() (struct{}, error) { return struct{}{}, op(ctx) }
			for range n {
				_, err = backoff5.Retry(ctx, operation, backoff5.WithBackOff(p.backOff5()), tries, forever)
			}
			return err
		},
		value: func(ctx context.Context, n int, op valueFunc) (v int, err error) {
			operation := func() (int, error) { return op(ctx) }
			for range n {
				v, err = backoff5.Retry(ctx, operation, backoff5.WithBackOff(p.backOff5()), tries, forever)
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				b := p.exponential5()
				b.Reset()
				for range attempt {
					d = b.NextBackOff()
				}
			}
			return d
		},
	}
}}

func (p plan) backOff5() backoff5.BackOff {
	if p.base == 0 {
		return &backoff5.ZeroBackOff{}
	}
	return p.exponential5()
}

func (p plan) exponential5() *backoff5.ExponentialBackOff {
	return &backoff5.ExponentialBackOff{InitialInterval: p.base, Multiplier: 2, RandomizationFactor: p.jitter, MaxInterval: p.most}
}

var cenkalti7 = library{name: "cenkalti-v7", module: "github.com/cenkalti/backoff/v7", prepare: func(p plan) calls {
	tries, forever := backoff7.WithMaxTries(uint(p.attempts)), backoff7.WithMaxElapsedTime(0)
	return calls{
		run: func(ctx context.Context, n int, op opFunc) (err error) {
			operation := func() (struct{}, error) { return struct{}{}, op(ctx) }
			for range n {
				_, err = backoff7.Retry(ctx, operation, backoff7.WithBackOff(p.backOff7()), tries, forever)
			}
			return err
		},
		value: func(ctx context.Context, n int, op valueFunc) (v int, err error) {
			operation := func() (int, error) { return op(ctx) }
			for range n {
				v, err = backoff7.Retry(ctx, operation, backoff7.WithBackOff(p.backOff7()), tries, forever)
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				b := p.exponential7()
				b.Reset()
				for range attempt {
					d = b.NextBackOff()
				}
			}
			return d
		},
	}
}, wait: func(ctx context.Context, _ int, op opFunc) error {
	_, err := backoff7.Retry(ctx, func() (struct{}, error) { return struct{}{}, op(ctx) }, hourly.options7()...)
	return err
}}

// options7 keeps the options off the stack of a waiting call. With them the stack
// outgrows the 2 KiB that a goroutine starts with; the stack of cenkalti5 does not. It
// takes 4 more allocations.
//
//go:noinline
func (p plan) options7() []backoff7.RetryOption {
	return []backoff7.RetryOption{backoff7.WithBackOff(p.backOff7()), backoff7.WithMaxTries(uint(p.attempts)), backoff7.WithMaxElapsedTime(0)}
}

func (p plan) backOff7() backoff7.BackOff {
	if p.base == 0 {
		return &backoff7.ZeroBackOff{}
	}
	return p.exponential7()
}

func (p plan) exponential7() *backoff7.ExponentialBackOff {
	return &backoff7.ExponentialBackOff{InitialInterval: p.base, Multiplier: 2, RandomizationFactor: p.jitter, MaxInterval: p.most}
}
