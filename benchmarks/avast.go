package main

import (
	"context"
	"time"

	avast4retry "github.com/avast/retry-go/v4"
	avast5retry "github.com/avast/retry-go/v5"
	codegrooveretry "github.com/codeGROOVE-dev/retry"
)

// These three libraries are related: avast5 is the successor of avast4, and
// codegroove is a fork of it. Of their options only the context is built for each
// call. Their jitter adds between zero and MaxJitter to the delay; here MaxJitter
// makes it as wide as in the other libraries at the first delay. They keep all the
// errors of a call unless an option says to keep only the last, as the other
// libraries do. For no delay they use FixedDelay, because the ordinary curve of
// avast4 and codegroove turns a delay of 0 into 1, 2 and 4 ns.

// avast4 takes its options in each call.
var avast4 = library{name: "avast-v4", module: "github.com/avast/retry-go/v4", prepare: func(p plan) calls {
	attempts, last := avast4retry.Attempts(uint(p.attempts)), avast4retry.LastErrorOnly(true)
	base, most, jitter := avast4retry.Delay(p.base), avast4retry.MaxDelay(p.most), avast4retry.MaxJitter(p.spread())
	curve := avast4retry.CombineDelay(avast4retry.BackOffDelay, avast4retry.RandomDelay)
	var config avast4retry.Config
	base(&config)
	jitter(&config)
	if p.base == 0 {
		jitter = avast4retry.DelayType(avast4retry.FixedDelay)
	} else {
		curve(1, errFailed, &config) // its first use writes to config
	}
	return calls{
		run: func(ctx context.Context, n int, op opFunc) (err error) {
			operation := func() error { return op(ctx) }
			for range n {
				err = avast4retry.Do(operation, avast4retry.Context(ctx), attempts, last, base, most, jitter)
			}
			return err
		},
		value: func(ctx context.Context, n int, op valueFunc) (v int, err error) {
			operation := func() (int, error) { return op(ctx) }
			for range n {
				v, err = avast4retry.DoWithData(operation, avast4retry.Context(ctx), attempts, last, base, most, jitter)
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				d = min(curve(uint(attempt), errFailed, &config), p.most)
			}
			return d
		},
	}
}}

// avast5 has a Retrier that is built once. It holds the context, so there is one
// for each context, which means one for each request.
var avast5 = library{name: "avast-v5", module: "github.com/avast/retry-go/v5", prepare: func(p plan) calls {
	attempts, last := avast5retry.Attempts(uint(p.attempts)), avast5retry.LastErrorOnly(true)
	base, most, jitter := avast5retry.Delay(p.base), avast5retry.MaxDelay(p.most), avast5retry.MaxJitter(p.spread())
	curve := avast5retry.CombineDelay(avast5retry.BackOffDelay, avast5retry.RandomDelay)
	config := avast5retry.New(base, jitter)
	if p.base == 0 {
		jitter = avast5retry.DelayType(avast5retry.FixedDelay)
	}
	return calls{
		run: func(ctx context.Context, n int, op opFunc) (err error) {
			operation := func() error { return op(ctx) }
			for range n {
				err = avast5retry.New(avast5retry.Context(ctx), attempts, last, base, most, jitter).Do(operation)
			}
			return err
		},
		value: func(ctx context.Context, n int, op valueFunc) (v int, err error) {
			operation := func() (int, error) { return op(ctx) }
			for range n {
				v, err = avast5retry.NewWithData[int](avast5retry.Context(ctx), attempts, last, base, most, jitter).Do(operation)
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				d = min(curve(uint(attempt), errFailed, config), p.most)
			}
			return d
		},
	}
}}

// codegroove takes its options in each call.
var codegroove = library{name: "codeGROOVE", module: "github.com/codeGROOVE-dev/retry", prepare: func(p plan) calls {
	attempts, last := codegrooveretry.Attempts(uint(p.attempts)), codegrooveretry.LastErrorOnly(true)
	base, most, jitter := codegrooveretry.Delay(p.base), codegrooveretry.MaxDelay(p.most), codegrooveretry.MaxJitter(p.spread())
	curve := codegrooveretry.CombineDelay(codegrooveretry.BackOffDelay, codegrooveretry.RandomDelay)
	var config codegrooveretry.Config
	base(&config)
	jitter(&config)
	if p.base == 0 {
		jitter = codegrooveretry.DelayType(codegrooveretry.FixedDelay)
	}
	return calls{
		run: func(ctx context.Context, n int, op opFunc) (err error) {
			operation := func() error { return op(ctx) }
			for range n {
				err = codegrooveretry.Do(operation, codegrooveretry.Context(ctx), attempts, last, base, most, jitter)
			}
			return err
		},
		value: func(ctx context.Context, n int, op valueFunc) (v int, err error) {
			operation := func() (int, error) { return op(ctx) }
			for range n {
				v, err = codegrooveretry.DoWithData(operation, codegrooveretry.Context(ctx), attempts, last, base, most, jitter)
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				d = min(curve(uint(attempt), errFailed, &config), p.most)
			}
			return d
		},
	}
}}

// spread returns the jitter of the first delay.
func (p plan) spread() time.Duration { return time.Duration(p.jitter * float64(p.base)) }
