package retryflow_test

import (
	"context"
	"errors"
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

// failures returns a function for retry.Do that fails with one error after
// another, and the times at which it is called.
func failures(errs ...error) (call func(context.Context) error, began *[]time.Duration) {
	birth := time.Now()
	began = new([]time.Duration)
	return func(context.Context) error {
		*began = append(*began, time.Since(birth))
		return errs[min(len(*began), len(errs))-1]
	}, began
}

func TestSelectWithoutAPipeline(t *testing.T) {
	rules := Rules{
		{When: IfErr(is(errRateLimit)), Do: Retry, Policy: retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Second}}},
		{When: IfErr(is(errDeadlock)), Do: Retry, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(10 * time.Millisecond)}},
		{When: IfErr(is(context.Canceled)), Do: Continue},
	}
	for name, row := range map[string]struct {
		errs   []error
		reason retry.Reason
		began  []time.Duration
	}{
		"each its own policy":          {[]error{errRateLimit, errDeadlock, errRateLimit, nil}, retry.ReasonSuccess, []time.Duration{0, time.Second, 1010 * time.Millisecond, 5010 * time.Millisecond}},
		"one count for all":            {[]error{errRateLimit, errRateLimit, errDeadlock}, retry.ReasonExhausted, []time.Duration{0, time.Second, 3 * time.Second}},
		"nothing for the rest":         {[]error{errBoom}, retry.ReasonNonRetryable, []time.Duration{0}},
		"nothing for other directives": {[]error{context.Canceled}, retry.ReasonNonRetryable, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call, began := failures(row.errs...)
				err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 10, Select: rules.Select}, call)
				assert.Equal(t, row.reason, retry.ReasonOf(err))
				assert.Equal(t, row.began, *began)
			})
		})
	}
}

func TestSelectIsBoundedByItsPolicy(t *testing.T) {
	rules := Rules{{Do: Retry, Policy: retry.Policy{MaxAttempts: 100}}}
	call, began := failures(errBoom)
	err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 2, Select: rules.Select}, call)
	assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
	assert.Len(t, *began, 2)
}

func TestSelectComputesTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := Rules{{Do: Retry, Policy: retry.Policy{MaxAttempts: 3}, Delay: waits(7 * time.Second)}}
		call, began := failures(errBoom)
		_ = retry.Do(t.Context(), retry.Policy{MaxAttempts: 10, Select: rules.Select}, call)
		assert.Equal(t, []time.Duration{0, 7 * time.Second, 14 * time.Second}, *began)
	})
}

func TestSelectOfWhatCannotBeAsked(t *testing.T) {
	cannot := errors.New("cannot tell")
	again := retry.Policy{MaxAttempts: 9}
	for name, rules := range map[string]Rules{
		"none":       nil,
		"When fails": {{When: func(Outcome) (bool, error) { return true, cannot }, Do: Retry, Policy: again}},
		"Delay fails": {{Do: Retry, Policy: again, Delay: func(Outcome) (time.Duration, error) { return 0, cannot }},
			{Do: Retry, Policy: again}},
	} {
		assert.Equal(t, &retry.Policy{NonRetryable: true}, rules.Select(errBoom), name)
	}
	asked := Rules{{When: func(Outcome) (bool, error) { return true, cannot }, Do: Fail}, {Do: Retry, Policy: again}}
	assert.Equal(t, &again, asked.Select(errBoom), "a rule whose When fails does not match")
}

func TestSelectLeavesTheRulesAsTheyAre(t *testing.T) {
	rules := Rules{{Do: Retry, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Linear(time.Hour)}, Delay: waits(time.Second)}}
	p := rules.Select(errBoom)
	p.MaxAttempts = 99
	assert.Equal(t, retry.Policy{MaxAttempts: 3, Backoff: retry.Linear(time.Hour)}, rules[0].Policy)
}

func TestNextAsksTheRules(t *testing.T) {
	rules := Rules{{When: IfErr(is(errDeadlock)), Do: Retry, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}}}
	p := retry.Policy{MaxAttempts: 10, Select: rules.Select}
	assert.Equal(t, retry.Decision{Delay: time.Second, Reason: retry.ReasonRetry, Lo: time.Second, Hi: time.Second}, p.Next(retry.Attempt{Number: 2, Err: errDeadlock}))
	assert.Equal(t, retry.Decision{Delay: time.Second, Reason: retry.ReasonExhausted, Lo: time.Second, Hi: time.Second}, p.Next(retry.Attempt{Number: 3, Err: errDeadlock}))
	assert.Equal(t, retry.Decision{Reason: retry.ReasonNonRetryable}, p.Next(retry.Attempt{Number: 1, Err: errBoom}))
}

func TestIfErr(t *testing.T) {
	when := IfErr(func(error) bool { return true })
	for want, o := range map[bool]Outcome{true: failure, false: success} {
		matches, err := when(o)
		assert.Equal(t, want, matches)
		assert.NoError(t, err)
	}
	matches, _ := IfErr(is(errDeadlock))(failure)
	assert.False(t, matches)
}
