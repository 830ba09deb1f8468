package main

import (
	"context"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// failsafeGo has a policy and an executor that are built once, and a copy of the
// executor for each context.
var failsafeGo = library{name: "failsafe", module: "github.com/failsafe-go/failsafe-go", prepare: func(p plan) calls {
	builder := retrypolicy.NewBuilder[int]().WithMaxAttempts(p.attempts)
	if p.base > 0 {
		builder.WithBackoff(p.base, p.most).WithJitterFactor(p.jitter)
	}
	executor := failsafe.With[int](builder.Build())
	return calls{
		run: func(ctx context.Context, n int, op opFunc) (err error) {
			operation := func() error { return op(ctx) }
			for range n {
				err = executor.WithContext(ctx).Run(operation)
			}
			return err
		},
		value: func(ctx context.Context, n int, op valueFunc) (v int, err error) {
			operation := func() (int, error) { return op(ctx) }
			for range n {
				v, err = executor.WithContext(ctx).Get(operation)
			}
			return v, err
		},
	}
}}
