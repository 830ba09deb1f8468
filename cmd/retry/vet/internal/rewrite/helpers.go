package main

// helpers is a file that is added to rewritten packages, with the functions
// that their code calls.
const helpers = `package helpers

import (
	"context"
	"errors"
	"time"

	goretry "github.com/goretry/retry"
)

func rewrittenOperation(op func() error) func(context.Context) error {
	return func(context.Context) error { return op() }
}

func rewrittenOperationValue[T any](op func() (T, error)) func(context.Context) (T, error) {
	return func(context.Context) (T, error) { return op() }
}

func rewrittenMaxRetries(p goretry.Policy, n uint64) goretry.Policy {
	p.MaxAttempts = goretry.Retries(int(n))
	return p
}

func rewrittenMaxTries(p goretry.Policy, n uint) goretry.Policy {
	p.MaxAttempts = int(n)
	if n == 0 {
		p.MaxAttempts = goretry.Unlimited
	}
	return p
}

func rewrittenMaxDuration(p goretry.Policy, d time.Duration) goretry.Policy {
	p.MaxElapsed = d
	return p
}

func rewrittenCappedDuration(p goretry.Policy, d time.Duration) goretry.Policy {
	p.MaxDelay = d
	return p
}

func rewrittenJitterPercent(p goretry.Policy, j uint64) goretry.Policy {
	p.Jitter = goretry.Proportional(float64(j) / 100)
	return p
}

func rewrittenBase(p goretry.Policy, d time.Duration) goretry.Policy {
	curve, _ := p.Backoff.(goretry.Exponential)
	curve.Base = d
	p.Backoff = curve
	return p
}

func rewrittenFactor(p goretry.Policy, factor float64) goretry.Policy {
	curve, _ := p.Backoff.(goretry.Exponential)
	curve.Factor = factor
	p.Backoff = curve
	return p
}

func rewrittenNotify(p goretry.Policy, notify func(error, time.Duration)) goretry.Policy {
	var err error
	p.OnEvent = func(_ context.Context, e goretry.Event) {
		switch e.Kind {
		case goretry.AttemptFinished:
			err = e.Err
		case goretry.RetryScheduled:
			notify(err, e.Delay)
		}
	}
	return p
}

func rewrittenOnRetry(p goretry.Policy, onRetry func(uint, error)) goretry.Policy {
	p.OnEvent = func(_ context.Context, e goretry.Event) {
		if e.Kind == goretry.AttemptFinished && e.Err != nil {
			onRetry(uint(e.Attempt-1), e.Err)
		}
	}
	return p
}

type rewrittenMark struct{ error }

func (m rewrittenMark) Unwrap() error { return m.error }

func rewrittenRetryable(err error) error {
	if err == nil {
		return nil
	}
	return rewrittenMark{err}
}

func rewrittenIsRetryable(err error) bool {
	var mark rewrittenMark
	return errors.As(err, &mark)
}
`
