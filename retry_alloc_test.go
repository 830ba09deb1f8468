package retry_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

func TestAllocations(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	budgeted := retry.WithBudget(retry.WithBudget(ctx, &retry.Budget{Size: 1_000_000}), &retry.Budget{Size: 1_000_000})
	ordinary := retry.Policy{
		MaxAttempts: 5, Backoff: retry.Exponential{Base: 200 * time.Millisecond}, MaxDelay: 5 * time.Second, Jitter: retry.Proportional(.2),
		Budget: &retry.Budget{Size: 10, Ratio: .1}, RetryIf: func(error) bool { return true },
	}
	ten := retry.Policy{MaxAttempts: 10}
	ofClass := func(name string) retry.Policy {
		class := &retry.Class{Name: name}
		return retry.Policy{MaxAttempts: 10, Classify: func(error) *retry.Class { return class }}
	}
	timeout := testing.AllocsPerRun(100, func() {
		_, cancel := context.WithTimeout(ctx, time.Minute)
		cancel()
	})
	observed := retry.Policy{MaxAttempts: 5, MaxElapsed: time.Minute, OnEvent: func(context.Context, retry.Event) {}}
	for _, row := range []struct {
		name   string
		ctx    context.Context
		policy retry.Policy
		fail   error
		most   float64
	}{
		{"success at once", ctx, ordinary, nil, 0},
		{"success at once, with HealthyAfter", ctx, retry.Policy{MaxAttempts: 5, HealthyAfter: time.Minute}, nil, 0},
		{"success at once, with Budgets of the context", budgeted, ordinary, nil, 0},
		{"success at once, with MaxElapsed", ctx, retry.Policy{MaxAttempts: 5, MaxElapsed: time.Minute}, nil, 0},
		{"success at once, with MaxElapsed and OnEvent", ctx, observed, nil, 0},
		{"success at once, with AttemptTimeout", ctx, retry.Policy{MaxAttempts: 5, AttemptTimeout: time.Minute}, nil, timeout},
		{"ten failures", ctx, ten, errDial, 1},
		{"ten failures, with Budgets of the context", budgeted, ten, errDial, 2},
		{"ten failures of a class without a name", ctx, ofClass(""), errDial, 1},
		{"ten failures of a class with a name", ctx, ofClass("busy"), errDial, 2},
	} {
		var err error
		fn := failWith(row.fail)
		value := func(context.Context) (int, error) { return 42, row.fail }
		for name, call := range map[string]func(){
			"Do":      func() { err = retry.Do(row.ctx, row.policy, fn) },
			"DoValue": func() { _, err = retry.DoValue(row.ctx, row.policy, value) },
			"Once":    func() { _, err = retry.Once(row.ctx, row.policy, retry.Attempt{Number: 1}, fn) },
			"Once, later": func() {
				_, err = retry.Once(row.ctx, row.policy, retry.Attempt{Number: 3, Seed: 42}, fn)
			},
		} {
			t.Run(row.name+"/"+name, func(t *testing.T) {
				got := testing.AllocsPerRun(100, call)
				require.ErrorIs(t, err, row.fail)
				assert.LessOrEqual(t, got, row.most)
			})
		}
	}
	next := testing.AllocsPerRun(100, func() { ordinary.Next(retry.Attempt{Number: 3, Err: errDial, Seed: 42}) })
	assert.Zero(t, next, "Next with jitter and seed")
}
