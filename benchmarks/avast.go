package main

import (
	"context"
	"time"

	avast4retry "github.com/avast/retry-go/v4"
	avast5retry "github.com/avast/retry-go/v5"
	codegrooveretry "github.com/codeGROOVE-dev/retry"
)

// The jitter of avast's library is added to the delay, from nothing up to
// MaxJitter: here as wide as everybody's at the first delay. It keeps all the
// errors of a call unless it is told to keep the last, as everybody does.

// avast4 takes its options in each call.
var avast4 = library{name: "avast-v4", module: "github.com/avast/retry-go/v4", prepare: func(p plan) calls {
	return calls{
		run: func(ctx context.Context, n int, op func(context.Context) error) (err error) {
			operation := func() error { return op(ctx) }
			for range n {
				err = avast4retry.Do(operation, avast4retry.Context(ctx), avast4retry.Attempts(uint(p.attempts)), avast4retry.LastErrorOnly(true),
					avast4retry.Delay(p.base), avast4retry.MaxDelay(p.most), avast4retry.MaxJitter(p.spread()))
			}
			return err
		},
		value: func(ctx context.Context, n int, op func(context.Context) (int, error)) (v int, err error) {
			operation := func() (int, error) { return op(ctx) }
			for range n {
				v, err = avast4retry.DoWithData(operation, avast4retry.Context(ctx), avast4retry.Attempts(uint(p.attempts)), avast4retry.LastErrorOnly(true),
					avast4retry.Delay(p.base), avast4retry.MaxDelay(p.most), avast4retry.MaxJitter(p.spread()))
			}
			return v, err
		},
	}
}}

// avast5 has a Retrier to build once. It holds the context, so there is one for
// each context, which is one for each request.
var avast5 = library{name: "avast-v5", module: "github.com/avast/retry-go/v5", prepare: func(p plan) calls {
	retrier := avast5retry.New(avast5retry.Delay(p.base), avast5retry.MaxDelay(p.most), avast5retry.MaxJitter(p.spread()))
	delay := avast5retry.CombineDelay(avast5retry.BackOffDelay, avast5retry.RandomDelay)
	return calls{
		run: func(ctx context.Context, n int, op func(context.Context) error) (err error) {
			operation := func() error { return op(ctx) }
			for range n {
				err = avast5retry.New(avast5retry.Context(ctx), avast5retry.Attempts(uint(p.attempts)), avast5retry.LastErrorOnly(true),
					avast5retry.Delay(p.base), avast5retry.MaxDelay(p.most), avast5retry.MaxJitter(p.spread())).Do(operation)
			}
			return err
		},
		value: func(ctx context.Context, n int, op func(context.Context) (int, error)) (v int, err error) {
			operation := func() (int, error) { return op(ctx) }
			for range n {
				v, err = avast5retry.NewWithData[int](avast5retry.Context(ctx), avast5retry.Attempts(uint(p.attempts)), avast5retry.LastErrorOnly(true),
					avast5retry.Delay(p.base), avast5retry.MaxDelay(p.most), avast5retry.MaxJitter(p.spread())).Do(operation)
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				d = min(delay(uint(attempt), errFailed, retrier), p.most)
			}
			return d
		},
	}
}}

// codegroove is a fork of avast4.
var codegroove = library{name: "codeGROOVE", module: "github.com/codeGROOVE-dev/retry", prepare: func(p plan) calls {
	return calls{
		run: func(ctx context.Context, n int, op func(context.Context) error) (err error) {
			operation := func() error { return op(ctx) }
			for range n {
				err = codegrooveretry.Do(operation, codegrooveretry.Context(ctx), codegrooveretry.Attempts(uint(p.attempts)), codegrooveretry.LastErrorOnly(true),
					codegrooveretry.Delay(p.base), codegrooveretry.MaxDelay(p.most), codegrooveretry.MaxJitter(p.spread()))
			}
			return err
		},
		value: func(ctx context.Context, n int, op func(context.Context) (int, error)) (v int, err error) {
			operation := func() (int, error) { return op(ctx) }
			for range n {
				v, err = codegrooveretry.DoWithData(operation, codegrooveretry.Context(ctx), codegrooveretry.Attempts(uint(p.attempts)), codegrooveretry.LastErrorOnly(true),
					codegrooveretry.Delay(p.base), codegrooveretry.MaxDelay(p.most), codegrooveretry.MaxJitter(p.spread()))
			}
			return v, err
		},
	}
}}

// spread returns the jitter of the first delay; for none 1 ns, below which
// there is nothing to draw, since avast4 panics at 0.
func (p *plan) spread() time.Duration { return max(1, time.Duration(p.jitter*float64(p.base))) }
