package retryflow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	. "github.com/goretry/retry/retryflow"
)

var (
	errRateLimit = errors.New("429 Too Many Requests")
	errDeadlock  = errors.New("deadlock detected")
)

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func TestClassifyWithoutAPipeline(t *testing.T) {
	rules := Rules{
		{When: IfErr(is(errRateLimit)), Do: Retry, Policy: retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Second}}},
		{When: IfErr(is(errDeadlock)), Do: Retry, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(10 * time.Millisecond)}},
		{When: IfErr(is(context.Canceled)), Do: Continue},
		{When: IfErr(is(errBoom)), Do: Retry, Policy: retry.Policy{MaxAttempts: 100}, Delay: waits(7 * time.Second)},
	}
	for name, row := range map[string]struct {
		errs   []error
		reason retry.Reason
		began  []time.Duration
	}{
		"each error has its own policy": {[]error{errRateLimit, errDeadlock, errRateLimit, nil}, retry.ReasonSuccess, []time.Duration{0, time.Second, 1010 * time.Millisecond, 5010 * time.Millisecond}},
		"all errors share one count":    {[]error{errRateLimit, errRateLimit, errDeadlock}, retry.ReasonExhausted, []time.Duration{0, time.Second, 3 * time.Second}},
		"no rule matches":               {[]error{io.EOF}, retry.ReasonNonRetryable, []time.Duration{0}},
		"the policy bounds the rule":    {[]error{errBoom}, retry.ReasonExhausted, []time.Duration{0, 7 * time.Second, 14 * time.Second, 21 * time.Second}},
		"another directive":             {[]error{context.Canceled}, retry.ReasonNonRetryable, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				task := newScript()
				for _, err := range row.errs {
					task.outcomes = append(task.outcomes, Outcome{Err: err})
				}
				err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 4, Classify: rules.Classify}, func(ctx context.Context) error { return task.run(ctx, nil).Err })
				assert.Equal(t, row.reason, retry.ReasonOf(err))
				assert.Equal(t, row.began, task.began)
			})
		})
	}
}

// If a function of a rule fails, the error is not retried and says why.
func TestClassifyIfARuleFails(t *testing.T) {
	cannot := errors.New("cannot tell")
	again := retry.Policy{MaxAttempts: 9}
	failingWhen := func(Outcome) (bool, error) { return true, cannot }
	noMatch := func(Outcome) (bool, error) { return true, fmt.Errorf("no key: %w", ErrNoMatch) }
	for _, row := range []struct {
		name  string
		rules Rules
		cause string // "": no cause
	}{
		{"no rules", nil, ""},
		{"no rule matches", Rules{{When: IfErr(is(errDeadlock)), Do: Retry, Policy: again}}, ""},
		{"When fails", Rules{{When: failingWhen, Do: Retry, Policy: again}}, "rule 0: when: cannot tell"},
		{"Delay fails", Rules{{Do: Retry, Policy: again, Delay: func(Outcome) (time.Duration, error) { return 0, cannot }}, {Do: Retry, Policy: again}}, "rule 0: delay: cannot tell"},
		{"Attempts fails", Rules{{Do: Retry, Attempts: func(Outcome) (int, error) { return 0, cannot }}}, "rule 0: attempts: cannot tell"},
		{"When fails before a rule that retries", Rules{{When: failingWhen, Do: Fail}, {Do: Retry, Policy: again}}, "rule 0: when: cannot tell"},
		{"When of a rule and Delay of the next rule fail", Rules{{When: noMatch, Do: Fail}, {Do: Retry, Policy: again, Delay: func(Outcome) (time.Duration, error) { return 0, cannot }}}, "rule 0: when: no key: the rule does not match\nrule 1: delay: cannot tell"},
	} {
		t.Run(row.name, func(t *testing.T) {
			class := row.rules.Classify(errBoom)
			assert.Empty(t, class.Name)
			assert.True(t, class.NonRetryable)
			if row.cause == "" {
				assert.NoError(t, class.Cause)
				return
			}
			assert.EqualError(t, class.Cause, row.cause)
			err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 10, Classify: row.rules.Classify}, func(context.Context) error { return errBoom })
			assert.EqualError(t, err, "retry: not retryable after 1 attempt ("+strings.ReplaceAll(row.cause, "\n", "; ")+"): boom")
			assert.ErrorIs(t, err, cannot)
			assert.Equal(t, errBoom, retry.Unwrap(err))
		})
	}
	asked := Rules{{When: noMatch, Do: Fail}, {Do: Retry, Policy: again}}
	assert.False(t, asked.Classify(errBoom).NonRetryable, "the next rule is tried")
}

// The class has the limits and the delays of the rule. A field that is zero in the rule is
// zero in the class, so the policy of the call applies.
func TestClassOfARule(t *testing.T) {
	for want, policy := range map[retry.Class]retry.Policy{
		{}:                                   {MaxAttempts: retry.Unlimited},
		{MaxAttempts: 1}:                     {},
		{MaxAttempts: 4}:                     {MaxAttempts: 9, MaxRetries: 3},
		{MaxAttempts: 5}:                     {MaxAttempts: retry.Unlimited, AttemptCap: 5},
		{MaxAttempts: 1, NonRetryable: true}: {MaxAttempts: 3, NonRetryable: true},
		{MaxAttempts: 2, Backoff: retry.Linear(1), MaxDelay: 2, Jitter: retry.FullJitter}: {MaxRetries: 1, Backoff: retry.Linear(1), MaxDelay: 2, Jitter: retry.FullJitter},
	} {
		assert.Equal(t, &want, Rules{{Do: Retry, Policy: policy}}.Classify(errBoom))
	}
}
