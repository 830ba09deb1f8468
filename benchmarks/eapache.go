package main

import (
	"context"

	"github.com/eapache/go-resiliency/retrier"
)

// eapache makes the first attempt without checking the context. eapacheGuarded
// checks it first, as the loop written by hand does.
var (
	eapache        = eapacheLibrary("eapache", false)
	eapacheGuarded = eapacheLibrary("eapache-guarded", true)
)

// eapacheLibrary has a Retrier that is built once. It has no form with a value, so
// its users assign a variable in a closure; both are built for each call. It calls
// RunFn, because RunCtx only adds a closure to it.
func eapacheLibrary(name string, guarded bool) library {
	return library{name: name, module: "github.com/eapache/go-resiliency", prepare: func(p plan) calls {
		r := retrier.New(retrier.LimitedExponentialBackoff(p.attempts-1, p.base, p.most), nil)
		r.SetJitter(p.jitter)
		return calls{
			run: func(ctx context.Context, n int, op opFunc) (err error) {
				operation := func(ctx context.Context, _ int) error { return op(ctx) }
				for range n {
					if guarded && ctx.Err() != nil {
						err = ctx.Err()
						continue
					}
					err = r.RunFn(ctx, operation)
				}
				return err
			},
			value: func(ctx context.Context, n int, op valueFunc) (v int, err error) {
				for range n {
					if guarded && ctx.Err() != nil {
						err = ctx.Err()
						continue
					}
					var got int
					err = r.RunFn(ctx, func(ctx context.Context, _ int) (err error) { got, err = op(ctx); return err })
					v = got
				}
				return v, err
			},
		}
	}}
}
