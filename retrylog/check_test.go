package retrylog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

func TestCheckFindsAnotherPolicy(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing(errRefused, errRefused, errRefused))
	call := replay(t, log)[0]
	for _, row := range []struct {
		name   string
		change func(*retry.Policy)
		says   string
	}{
		{"another limit", func(p *retry.Policy) { p.MaxAttempts = 4 }, "line 1: max is 3, and the policy says 4"},
		{"another base", func(p *retry.Policy) { p.Backoff = retry.Exponential{Base: 100 * time.Millisecond} }, "line 3: attempt 1 is retried in 219.325191ms"},
		{"another jitter", func(p *retry.Policy) { p.Jitter = retry.Proportional(0.1) }, "line 3"},
		{"no jitter", func(p *retry.Policy) { p.Jitter = nil }, "and the policy says in 200ms"},
		{"a lower cap", func(p *retry.Policy) { p.MaxDelay = 300 * time.Millisecond }, "line 6"},
		{"a bound on time", func(p *retry.Policy) { p.MaxElapsed = 300 * time.Millisecond }, "line 6: attempt 2 is retried in"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := policy
			row.change(&p)
			assert.ErrorContains(t, call.Check(p), row.says)
		})
	}
	t.Run("another seed", func(t *testing.T) {
		records, err := retrylog.Read(strings.NewReader(strings.Replace(log, `"seed":"42"`, `"seed":"43"`, 1)))
		require.NoError(t, err)
		calls, err := retrylog.Replay(records)
		require.NoError(t, err)
		assert.ErrorContains(t, calls[0].Check(policy), "line 3")
	})
	t.Run("a stop that the policy does not allow", func(t *testing.T) {
		for _, reason := range []string{"not_retryable", "elapsed", "budget_exhausted", "rejected"} {
			records, err := retrylog.Read(strings.NewReader(strings.Replace(log, "attempts_exhausted", reason, 1)))
			require.NoError(t, err)
			calls, err := retrylog.Replay(records)
			require.NoError(t, err)
			assert.ErrorContains(t, calls[0].Check(policy), "line 9", reason)
		}
	})
}

// Check does not object to what a log does not contain.
func TestCheckAllows(t *testing.T) {
	for _, row := range []struct {
		name     string
		recorded func(*retry.Policy)
		checked  func(*retry.Policy) // changes the policy before Check
		reason   retry.Reason
	}{
		{"RetryIf that needs the error itself", func(*retry.Policy) {}, func(p *retry.Policy) {
			p.RetryIf = func(err error) bool { return errors.Is(err, errRefused) }
		}, retry.ReasonExhausted},
		{"a decision that took longer than MaxElapsed leaves", func(p *retry.Policy) {
			p.MaxElapsed = time.Second
			p.RetryIf = func(error) bool { time.Sleep(800 * time.Millisecond); return true }
		}, func(*retry.Policy) {}, retry.ReasonElapsed},
		{"a Budget of the context", func(p *retry.Policy) { p.Budget = retry.NewBudget(1, 0) }, func(p *retry.Policy) { p.Budget = nil }, retry.ReasonBudget},
		{"it draws nothing from Source", func(*retry.Policy) {}, func(p *retry.Policy) { p.Source = panicking{} }, retry.ReasonExhausted},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := policy
			row.recorded(&p)
			call := replay(t, logOf(t, context.Background(), p, failing(errRefused, errRefused, errRefused)))[0]
			require.Equal(t, row.reason, call.Reason)
			row.checked(&p)
			assert.NoError(t, call.Check(p))
		})
	}
}

type panicking struct{}

func (panicking) Uint64() uint64 { panic("the Source was called") }

// The reason of a stop may be impossible under the policy, or come after
// another one that applies.
func TestCheckFindsAStopForAnotherReason(t *testing.T) {
	all := policy // may stop for any of the reasons
	all.MaxElapsed, all.Budget, all.RetryIf = time.Hour, retry.NewBudget(1, 0), func(error) bool { return false }
	invalid := retry.Policy{MaxAttempts: -2, RetryIf: all.RetryIf}
	for _, row := range []struct {
		reason   retry.Reason
		policy   retry.Policy
		attempts int
		ok       bool
	}{
		{retry.ReasonElapsed, all, 1, true},
		{retry.ReasonElapsed, all, 3, false},
		{retry.ReasonElapsed, policy, 1, false},
		{retry.ReasonBudget, all, 1, true},
		{retry.ReasonBudget, all, 3, false},
		{retry.ReasonBudget, policy, 1, true}, // a Budget of the context
		{retry.ReasonBudget, invalid, 1, false},
		{retry.ReasonRetryAfter, policy, 1, true},
		{retry.ReasonRetryAfter, policy, 3, false},
		{retry.ReasonRejected, all, 1, true},
		{retry.ReasonRejected, policy, 1, false},
		{retry.ReasonRejected, invalid, 1, false},
		{retry.ReasonExhausted, policy, 1, false},
		{retry.ReasonNonRetryable, policy, 1, false},
		{retry.ReasonInvalid, policy, 1, false},
		{retry.ReasonInvalid, invalid, 1, true},
		{retry.ReasonPermanent, policy, 1, true},
		{retry.ReasonPermanent, invalid, 1, false},
		{retry.ReasonCanceled, invalid, 1, false},
		{retry.ReasonCanceled, invalid, 0, false},
		{retry.ReasonInvalid, invalid, 0, true},
		{retry.ReasonInvalid, policy, 0, true}, // the fn was nil
	} {
		t.Run(fmt.Sprintf("%v after %d attempts of %v", row.reason, row.attempts, row.policy), func(t *testing.T) {
			now := time.Unix(0, 0)
			limit := row.policy.EffectiveMax()
			var records []retrylog.Record
			add := func(e retry.Event) {
				e.Time, e.Max = now, limit
				e.Elapsed = e.Time.Sub(time.Unix(0, 0))
				if e.Kind == retry.RetryScheduled {
					e.Due = now.Add(e.Delay)
					now = e.Due
				}
				records = append(records, retrylog.Record{Event: e})
			}
			for n := 1; n <= row.attempts; n++ {
				add(retry.Event{Kind: retry.AttemptStarted, Attempt: n})
				add(retry.Event{Kind: retry.AttemptFinished, Attempt: n, Err: errRefused})
				if n < row.attempts {
					add(retry.Event{Kind: retry.RetryScheduled, Attempt: n, Seed: 42, Delay: row.policy.Next(retry.Attempt{Number: n, Seed: 42}).Delay})
				}
			}
			stopped := retry.Event{Kind: retry.Stopped, Attempt: row.attempts, Reason: row.reason}
			if row.reason == retry.ReasonInvalid {
				stopped.Err = errors.New("fault")
			}
			add(stopped)
			calls, err := retrylog.Replay(records)
			require.NoError(t, err)
			if err := calls[0].Check(row.policy); row.ok {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, fmt.Sprintf("line %d: stopped after", len(records)))
			}
		})
	}
}

// An invalid policy is reported even if its only attempt succeeds, or if the
// body leaves its Loop.
func TestCheckOfAnInvalidPolicy(t *testing.T) {
	invalid := retry.Policy{MaxAttempts: -2}
	once := replay(t, logOf(t, context.Background(), retry.Policy{}, failing()))[0]
	assert.NoError(t, once.Check(retry.Policy{}))
	assert.ErrorContains(t, once.Check(invalid), "line 3: stopped after 1 attempt: it succeeded, and the policy says invalid")

	assert.NoError(t, left(invalid).Check(invalid))
	assert.NoError(t, left(policy).Check(policy))
	assert.ErrorContains(t, left(retry.Policy{}).Check(invalid), "line 3: stopped after 1 attempt: the body of the loop was left, and the policy says invalid")
	assert.ErrorContains(t, left(invalid).Check(retry.Policy{}), "and the policy is valid")

	fault := replay(t, logOf(t, context.Background(), invalid, failing()))[0]
	assert.NoError(t, fault.Check(invalid))
	assert.ErrorContains(t, fault.Check(retry.Policy{}), "(invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited), and the policy is valid")
}

// Select is not called when the body leaves a Loop, so an invalid policy that
// it would return does not matter.
func TestCheckOfALoopThatWasLeft(t *testing.T) {
	p := policy
	p.Select = func(error) *retry.Policy { return &retry.Policy{MaxAttempts: -2} }
	assert.NoError(t, left(p).Check(p))
}

// left returns the call of a Loop that was left with an error.
func left(p retry.Policy) retrylog.Call {
	var recorder retrylog.Recorder
	p.OnEvent = recorder.OnEvent
	var err error
	for range retry.Loop(context.Background(), p, &err) {
		err = errRefused
		break
	}
	calls, replayed := retrylog.Replay(recorder.Records())
	if replayed != nil {
		panic(replayed)
	}
	return calls[0]
}

// An invalid call ends like a call with an invalid policy.
func TestCheckOfAnInvalidCall(t *testing.T) {
	for name, call := range map[string]func(context.Context, retry.Policy){
		"nil function":              func(ctx context.Context, p retry.Policy) { _ = retry.Do(ctx, p, nil) },
		"nil function with a value": func(ctx context.Context, p retry.Policy) { _, _ = retry.DoValue[int](ctx, p, nil) },
		"a body that assigns nothing": func(ctx context.Context, p retry.Policy) {
			for range retry.Loop(ctx, p, new(error)) {
				continue
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var recorder retrylog.Recorder
			p := policy
			p.OnEvent = recorder.OnEvent
			call(context.Background(), p)
			calls, err := retrylog.Replay(recorder.Records())
			require.NoError(t, err)
			require.Len(t, calls, 1)
			assert.Equal(t, retry.ReasonInvalid, calls[0].Reason)
			assert.NoError(t, calls[0].Check(policy))
			assert.NotContains(t, retrylog.Explain(calls[0].Records), "succeeded")
		})
	}
}

func TestCheckOfNothing(t *testing.T) {
	assert.NoError(t, retrylog.Call{}.Check(policy))
}
