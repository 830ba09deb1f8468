package retrylog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
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
	t.Run("a stop that the policy does not allow", func(t *testing.T) {
		for _, reason := range []string{"not_retryable", "elapsed", "budget_exhausted"} {
			calls := replay(t, strings.Replace(log, "attempts_exhausted", reason, 1))
			assert.ErrorContains(t, calls[0].Check(policy), "line 9", reason)
		}
	})
	t.Run("a window that does not come from the policy", func(t *testing.T) {
		p := policy
		p.Backoff = retry.Exponential{Base: 200*time.Millisecond + 1}
		calls := replay(t, logOf(t, context.Background(), p, failing(errRefused)))
		assert.ErrorContains(t, calls[0].Check(policy), "drawn from 160.000001ms to 240.000001ms with seed 42), and the policy says in 160ms to 240ms")
	})
}

// Lo and Hi say what a delay was drawn from. An event that has neither, as from a
// queue that does not know, is compared by its delay.
func TestCheckWithoutAWindow(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing(errRefused, errRefused, errRefused))
	log = strings.NewReplacer(`"lo":"160ms","hi":"240ms",`, "", `"lo":"320ms","hi":"480ms",`, "").Replace(log)
	call := replay(t, log)[0]
	require.Zero(t, call.Attempts[0].Hi)
	assert.NoError(t, call.Check(policy))
	p := policy
	p.Jitter = retry.Proportional(0.1)
	assert.ErrorContains(t, call.Check(p), "line 3: attempt 1 is retried in 219.325191ms, at 00:00:00.249 (by the curve), and the policy says in 209.6625")
}

// The spread above a Retry-After is cut to the time that was left: of MaxElapsed,
// which the policy knows, and of the deadline, which it does not.
func TestCheckOfASpreadThatWasCut(t *testing.T) {
	p := policy
	p.Jitter = retry.FullJitter
	p.MaxElapsed = 1030*time.Millisecond + 100
	for _, row := range []struct {
		name    string
		policy  retry.Policy
		timeout time.Duration
		hi      time.Duration
	}{
		{"to nothing", policy, 0, 1400 * time.Millisecond},
		{"to MaxElapsed", p, 0, time.Second + 100},
		{"to half of what the deadline leaves", policy, 1530 * time.Millisecond, 1250 * time.Millisecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			var log bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if row.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, row.timeout)
					defer cancel()
				}
				p := row.policy
				p.OnEvent = retrylog.NewWriter(&log).OnEvent
				_ = retry.Do(ctx, p, failing(retry.After(time.Second, errRefused)))
			})
			call := replay(t, log.String())[0]
			assert.Equal(t, row.hi, call.Attempts[0].Hi)
			assert.NoError(t, call.Check(row.policy))
			wider := row.policy
			wider.MaxElapsed = 0
			assert.NoError(t, call.Check(wider), "a deadline may have cut it")
			narrower := row.policy
			narrower.Jitter = nil
			assert.ErrorContains(t, call.Check(narrower), "and the policy says in 1s")
		})
	}
	full := policy
	full.Jitter = retry.FullJitter
	records := recordsOf(
		retry.Event{Kind: retry.AttemptStarted, Attempt: 1},
		retry.Event{Kind: retry.AttemptFinished, Attempt: 1, Err: errRefused},
		retry.Event{Kind: retry.RetryScheduled, Attempt: 1, Err: errRefused, Hi: 100 * time.Millisecond, Seed: 42, Delay: retry.Draw(42, 1, 0, 100*time.Millisecond)},
	)
	calls, err := retrylog.Replay(records)
	require.NoError(t, err)
	assert.ErrorContains(t, calls[0].Check(full), "and the policy says in 0s to 200ms", "only the spread above a Retry-After is cut")
}

// recordsOf returns the records of a call of three attempts at most, whose events
// need no time.
func recordsOf(events ...retry.Event) []retrylog.Record {
	records := make([]retrylog.Record, len(events))
	at := time.Unix(0, 0)
	for i, e := range events {
		e.Time, e.Max, e.Elapsed = at, 3, at.Sub(time.Unix(0, 0))
		if e.Kind == retry.RetryScheduled {
			at = at.Add(e.Delay)
			e.Due = at
		}
		records[i].Event = e
	}
	return records
}

// Only a Wait may return early.
func TestCheckOfAWaitThatReturnsEarly(t *testing.T) {
	slow := policy
	slow.Backoff, slow.Jitter = retry.Fixed(5*time.Second), nil
	p := slow
	p.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) { time.Sleep(d / 2); return 0, nil }
	call := replay(t, logOf(t, context.Background(), p, failing(errRefused)))[0]
	assert.NoError(t, call.Check(p))
	assert.EqualError(t, call.Check(slow), "retrylog: line 4: attempt 2 of 3 started, and that is 2.5s before it was due, but the policy has no Wait")
}

// A call begins anew only with an attempt that was healthy under the policy. A job
// of a queue never does.
func TestCheckOfLongLife(t *testing.T) {
	p := policy
	p.HealthyAfter = 30 * time.Millisecond
	call := replay(t, logOf(t, context.Background(), p, failing(errRefused, errRefused, errRefused, errRefused, errRefused)))[0]
	require.Equal(t, 5, call.Resets)
	assert.NoError(t, call.Check(p))
	for name, change := range map[string]func(*retry.Policy){
		"not at all":       func(p *retry.Policy) { p.HealthyAfter = 0 },
		"later":            func(p *retry.Policy) { p.HealthyAfter = 31 * time.Millisecond },
		"never in time":    func(p *retry.Policy) { p.AttemptTimeout = 30 * time.Millisecond },
		"of a wrong field": func(p *retry.Policy) { p.HealthyAfter, p.AttemptTimeout = 0, time.Hour },
	} {
		changed := p
		change(&changed)
		assert.ErrorContains(t, call.Check(changed), "line 3: the attempt was healthy, so the call begins anew (reset 1): attempt 1 is retried in 219.325191ms", name)
		assert.ErrorContains(t, call.Check(changed), "and under the policy an attempt of 30ms is not healthy", name)
	}
	job := replay(t, logOf(t, context.Background(), policy, failing(errRefused)))[0]
	assert.NoError(t, job.Check(p))
}

// What code decided is accepted, and counted.
func TestCheckOfWhatCodeDecided(t *testing.T) {
	unauthorized, busy := errors.New("401"), errors.New("503")
	file := policy // what an operator has
	file.MaxAttempts, file.MaxElapsed = 5, time.Hour
	file.Wait = func(ctx context.Context, d time.Duration) (time.Duration, error) { time.Sleep(d); return 0, ctx.Err() }
	program := func(change func(*retry.Policy)) retry.Policy {
		p := file
		p.Classify = func(err error) *retry.Class {
			switch err {
			case unauthorized:
				return &retry.Class{Name: "unauthorized", Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Millisecond)}}
			case busy:
				return &retry.Class{Policy: &retry.Policy{NonRetryable: true}, Cause: errors.New("it may have been processed")}
			}
			return nil
		}
		if change != nil {
			change(&p)
		}
		return p
	}
	for _, row := range []struct {
		name   string
		change func(*retry.Policy)
		errs   []error
		by     int // decisions that the policy in the file cannot make
		stop   bool
	}{
		{"nothing", nil, []error{errRefused}, 0, false},
		{"the policy's own limit", nil, []error{errRefused, errRefused, errRefused, errRefused, errRefused}, 0, false},
		{"the delay of a class", nil, []error{unauthorized}, 1, false},
		{"the limit of a class", nil, []error{unauthorized, errRefused, unauthorized}, 2, true},
		{"the policy's own limit, by a class", nil, []error{errRefused, errRefused, errRefused, errRefused, unauthorized}, 0, false},
		{"no retry of a class, with a cause", nil, []error{errRefused, busy}, 1, true},
		{"RetryIf", func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } }, []error{errRefused}, 1, true},
		{"a permanent error", nil, []error{errRefused, retry.Permanent(errRefused)}, 1, true},
		{"a Wait that fails", func(p *retry.Policy) {
			p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, errors.New("no link") }
		}, []error{errRefused}, 1, true},
		{"a server", nil, []error{retry.After(time.Hour, errRefused)}, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := program(row.change)
			var recorder retrylog.Recorder
			synctest.Test(t, func(t *testing.T) {
				p := p
				p.OnEvent = recorder.OnEvent
				_ = retry.Do(t.Context(), p, failing(row.errs...))
			})
			inMemory, err := retrylog.Replay(recorder.Records()) // with the errors themselves
			require.NoError(t, err)
			for _, call := range []retrylog.Call{inMemory[0], replay(t, logOf(t, context.Background(), p, failing(row.errs...)))[0]} {
				assert.NoError(t, call.Check(p))
				assert.NoError(t, call.Check(file))
				by := call.ByCode(file)
				assert.Len(t, by, row.by)
				assert.Equal(t, row.stop, len(by) > 0 && by[len(by)-1].Event.Kind == retry.Stopped)
			}
		})
	}
	t.Run("with a Classify, no window can be known", func(t *testing.T) {
		call := replay(t, logOf(t, context.Background(), program(nil), failing(errRefused, errRefused)))[0]
		assert.Len(t, call.ByCode(program(nil)), 2)
		asked := file
		asked.Classify = func(error) *retry.Class { panic("Check called Classify") }
		asked.Backoff = retry.Fixed(time.Minute)
		assert.NoError(t, call.Check(asked))
		asked.MaxElapsed = 100 * time.Millisecond
		assert.ErrorContains(t, call.Check(asked), "the policy says to stop (elapsed)", "but its own bounds hold")
		asked.NonRetryable = true
		assert.ErrorContains(t, call.Check(asked), "max is 5, and the policy says 1")
	})
	t.Run("an unnamed class that is not retried, without a cause", func(t *testing.T) {
		p := program(func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class { return &retry.Class{Policy: &retry.Policy{NonRetryable: true}} }
		})
		call := replay(t, logOf(t, context.Background(), p, failing(errRefused)))[0]
		assert.NoError(t, call.Check(p))
		assert.Len(t, call.ByCode(p), 1)
		assert.ErrorContains(t, call.Check(file), "and the policy says retry", "the line has nothing that could only be from code")
	})
	t.Run("an invalid class", func(t *testing.T) {
		p := program(func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class { return &retry.Class{Policy: &retry.Policy{MaxAttempts: -2}} }
		})
		call := replay(t, logOf(t, context.Background(), p, failing(errRefused)))[0]
		require.Equal(t, retry.ReasonInvalid, call.Reason)
		assert.NoError(t, call.Check(p))
		assert.Len(t, call.ByCode(p), 1)
		assert.ErrorContains(t, call.Check(file), "and the policy says retry", "the policy in the file is valid")
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
		{"a Budget of the context", func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 1} }, func(p *retry.Policy) { p.Budget = nil }, retry.ReasonBudget},
		{"it draws nothing from Source", func(*retry.Policy) {}, func(p *retry.Policy) { p.Source = func() uint64 { panic("the Source was called") } }, retry.ReasonExhausted},
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

// The reason of a stop may be impossible under the policy, or come after
// another one that applies.
func TestCheckFindsAStopForAnotherReason(t *testing.T) {
	all := policy // may stop for any of the reasons
	all.MaxElapsed, all.Budget, all.RetryIf = time.Hour, &retry.Budget{Size: 1}, func(error) bool { return false }
	invalid := retry.Policy{MaxAttempts: -2, RetryIf: all.RetryIf}
	waits := policy
	waits.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, nil }
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
		{retry.ReasonRejected, policy, 1, true}, // by code
		{retry.ReasonRejected, invalid, 1, false},
		{retry.ReasonExhausted, policy, 1, false},
		{retry.ReasonNonRetryable, policy, 1, false},
		{retry.ReasonInvalid, policy, 1, false},
		{retry.ReasonInvalid, invalid, 1, true},
		{retry.ReasonPermanent, policy, 1, true},
		{retry.ReasonPermanent, invalid, 1, false},
		{retry.ReasonWait, policy, 1, false},
		{retry.ReasonWait, waits, 1, true},
		{"bored", policy, 1, true}, // of a newer version
		{"bored", invalid, 1, false},
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
					d := row.policy.Next(retry.Attempt{Number: n, Seed: 42})
					add(retry.Event{Kind: retry.RetryScheduled, Attempt: n, Err: errRefused, Seed: 42, Delay: d.Delay, Lo: d.Lo, Hi: d.Hi})
				}
			}
			stopped := retry.Event{Kind: retry.Stopped, Attempt: row.attempts, Reason: row.reason}
			if row.attempts > 0 {
				stopped.Err = errRefused
			}
			switch row.reason {
			case retry.ReasonWait: // which is between two attempts
				d := row.policy.Next(retry.Attempt{Number: row.attempts, Seed: 42})
				add(retry.Event{Kind: retry.RetryScheduled, Attempt: row.attempts, Err: errRefused, Seed: 42, Delay: d.Delay, Lo: d.Lo, Hi: d.Hi})
				stopped.Cause = errors.New("no link")
			case retry.ReasonInvalid:
				stopped.Cause = errors.New("fault")
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

// An invalid policy is reported even if its only attempt succeeds.
func TestCheckOfAnInvalidPolicy(t *testing.T) {
	invalid := retry.Policy{MaxAttempts: -2}
	once := replay(t, logOf(t, context.Background(), retry.Policy{}, failing()))[0]
	assert.NoError(t, once.Check(retry.Policy{}))
	assert.ErrorContains(t, once.Check(invalid), "line 3: stopped after 1 attempt: it succeeded, and the policy says invalid")

	fault := replay(t, logOf(t, context.Background(), invalid, failing()))[0]
	assert.NoError(t, fault.Check(invalid))
	assert.ErrorContains(t, fault.Check(retry.Policy{}), "(invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited), and the policy is valid")

	failed := replay(t, logOf(t, context.Background(), invalid, failing(errRefused)))[0]
	assert.NoError(t, failed.Check(invalid))
	assert.ErrorContains(t, failed.Check(retry.Policy{}), "line 3: stopped after 1 attempt: the policy, a class, or the call is invalid")
}

// A queue makes one attempt under an invalid policy, whatever its number is, and
// Max is then that number.
func TestCheckOfAnInvalidPolicyInAQueue(t *testing.T) {
	invalid := policy
	invalid.MaxDelay = -1
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, row := range []struct {
		name string
		ctx  context.Context
		errs []error
		max  int
	}{
		{"failed", context.Background(), []error{errRefused}, 2},
		{"succeeded", context.Background(), nil, 2},
		{"canceled before", ended, nil, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			var recorder retrylog.Recorder
			once := func(ctx context.Context, p retry.Policy, number int, errs ...error) {
				p.OnEvent = recorder.OnEvent
				_, _ = retry.Once(retrylog.WithKey(ctx, "job"), p, retry.Attempt{Number: number, Elapsed: time.Duration(number-1) * time.Minute, Seed: 42}, failing(errs...))
			}
			synctest.Test(t, func(t *testing.T) {
				once(row.ctx, invalid, 2, row.errs...)
			})
			calls, err := retrylog.Replay(recorder.Records())
			require.NoError(t, err)
			require.Len(t, calls, 1)
			assert.Equal(t, row.max, calls[0].Max)
			assert.Error(t, calls[0].Fault)
			assert.NoError(t, calls[0].Check(invalid))
			assert.Error(t, calls[0].Check(policy))

			// The policy was valid when the job began.
			recorder = retrylog.Recorder{}
			synctest.Test(t, func(t *testing.T) {
				once(context.Background(), policy, 1, errRefused)
				time.Sleep(time.Minute)
				once(row.ctx, invalid, 2, row.errs...)
			})
			calls, err = retrylog.Replay(recorder.Records())
			require.NoError(t, err)
			require.Len(t, calls, 1)
			assert.Error(t, calls[0].Fault)
		})
	}
}

// An invalid call ends like a call with an invalid policy.
func TestCheckOfAnInvalidCall(t *testing.T) {
	for name, call := range map[string]func(context.Context, retry.Policy){
		"nil function":              func(ctx context.Context, p retry.Policy) { _ = retry.Do(ctx, p, nil) },
		"nil function with a value": func(ctx context.Context, p retry.Policy) { _, _ = retry.DoValue[int](ctx, p, nil) },
		"nil function of a job": func(ctx context.Context, p retry.Policy) {
			_, _ = retry.Once(ctx, p, retry.Attempt{Number: 2}, nil)
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
