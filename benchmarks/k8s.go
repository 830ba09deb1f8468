package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// k8s waits for a condition, so its users keep the error and the value in
// variables, as OnError of k8s.io/client-go/util/retry does. Its jitter is
// added to the delay. It has no Cap here, because the retries end when a Cap is
// reached.
var k8s = library{name: "k8s-wait", module: "k8s.io/apimachinery", prepare: func(p plan) calls {
	backoff := wait.Backoff{Steps: p.attempts, Duration: p.base, Factor: 2, Jitter: p.jitter}
	return calls{
		run: func(ctx context.Context, n int, op opFunc) (err error) {
			var last error
			condition := func(ctx context.Context) (bool, error) { last = op(ctx); return last == nil, nil }
			for range n {
				err = wait.ExponentialBackoffWithContext(ctx, backoff, condition)
				if err != nil && ctx.Err() == nil {
					err = last
				}
			}
			return err
		},
		value: func(ctx context.Context, n int, op valueFunc) (v int, err error) {
			for range n {
				var got int
				var last error
				err = wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
					got, last = op(ctx)
					return last == nil, nil
				})
				if err != nil && ctx.Err() == nil {
					err = last
				}
				v = got
			}
			return v, err
		},
		delay: func(n, attempt int) (d time.Duration) {
			for range n {
				b := backoff
				for range attempt {
					d = b.Step()
				}
			}
			return d
		},
	}
}}
