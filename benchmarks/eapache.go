package main

import (
	"context"

	"github.com/eapache/go-resiliency/retrier"
)

// eapache has a Retrier to build once, and no form with a value: its users
// assign a variable.
var eapache = library{name: "eapache", module: "github.com/eapache/go-resiliency", prepare: func(p plan) calls {
	r := retrier.New(retrier.LimitedExponentialBackoff(p.attempts-1, p.base, p.most), nil)
	r.SetJitter(p.jitter)
	return calls{
		run: func(ctx context.Context, n int, op func(context.Context) error) (err error) {
			for range n {
				err = r.RunCtx(ctx, op)
			}
			return err
		},
		value: func(ctx context.Context, n int, op func(context.Context) (int, error)) (v int, err error) {
			for range n {
				var result int
				err = r.RunCtx(ctx, func(ctx context.Context) (err error) { result, err = op(ctx); return err })
				v = result
			}
			return v, err
		},
	}
}}
