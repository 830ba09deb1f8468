package retrytest_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

var errBusy = errors.New("too many requests")

// outcome is how an operation ended under a policy.
type outcome struct {
	executions int
	reason     retry.Reason
}

func run(t *testing.T, p retry.Policy, errs ...error) (o outcome, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		op := retrytest.NewOp(errs...)
		began := time.Now()
		err := retry.Do(t.Context(), p, func(ctx context.Context) error {
			if op.Executions() == 100 {
				return retry.Permanent(errDown) // far too often: do not go on for ever
			}
			return op.Run(ctx)
		})
		o, took = outcome{op.Executions(), retry.ReasonOf(err)}, time.Since(began)
	})
	return o, took
}

func TestNoWaitEndsAsThePolicyDoes(t *testing.T) {
	linear := retry.Policy{MaxAttempts: 9, Backoff: retry.Linear(time.Second)}
	with := func(p retry.Policy, change func(*retry.Policy)) retry.Policy { change(&p); return p }
	selecting := func(p retry.Policy, q *retry.Policy) retry.Policy {
		return with(p, func(p *retry.Policy) {
			p.Select = func(err error) *retry.Policy {
				if errors.Is(err, errBusy) {
					return q
				}
				return nil
			}
		})
	}

	for _, tc := range []struct {
		name   string
		policy retry.Policy
		errs   []error
		want   outcome
	}{
		{"exhausted", linear, []error{errDown}, outcome{9, retry.ReasonExhausted}},
		{"the zero policy", retry.Policy{}, []error{errDown}, outcome{1, retry.ReasonExhausted}},
		{"success", linear, []error{errDown, errDown, nil}, outcome{3, retry.ReasonSuccess}},
		{"not retryable", with(linear, func(p *retry.Policy) { p.NonRetryable = true }), []error{errDown}, outcome{1, retry.ReasonNonRetryable}},
		{"permanent", linear, []error{errDown, retry.Permanent(errDown)}, outcome{2, retry.ReasonPermanent}},
		{"rejected", with(linear, func(p *retry.Policy) { p.RetryIf = func(err error) bool { return err != errBusy } }),
			[]error{errDown, errBusy}, outcome{2, retry.ReasonRejected}},
		{"budget", with(linear, func(p *retry.Policy) { p.Budget = retry.NewBudget(2, 0) }), []error{errDown}, outcome{3, retry.ReasonBudget}},
		{"jitter", with(linear, func(p *retry.Policy) { p.Jitter = retry.FullJitter }), []error{errDown}, outcome{9, retry.ReasonExhausted}},
		{"unlimited", with(linear, func(p *retry.Policy) { p.MaxAttempts = retry.Unlimited }), []error{errDown, errDown, errDown, nil}, outcome{4, retry.ReasonSuccess}},
		{"unlimited, a curve of others", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.BackoffFunc(func(int) time.Duration { return time.Second })},
			[]error{errDown, errDown, nil}, outcome{3, retry.ReasonSuccess}},

		// What is not valid must not become valid.
		{"invalid", with(linear, func(p *retry.Policy) { p.MaxAttempts = -2 }), []error{errDown}, outcome{1, retry.ReasonInvalid}},
		{"unlimited without a curve", retry.Policy{MaxAttempts: retry.Unlimited}, []error{errDown}, outcome{1, retry.ReasonInvalid}},
		{"unlimited, a nil function for a curve", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.BackoffFunc(nil)}, []error{errDown}, outcome{1, retry.ReasonInvalid}},
		{"unlimited, a curve that ends at 0", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Schedule{time.Second, 0}}, []error{errDown}, outcome{1, retry.ReasonInvalid}},
		{"negative curve", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(-1)}, []error{errDown}, outcome{1, retry.ReasonInvalid}},
		{"negative cap", with(linear, func(p *retry.Policy) { p.MaxDelay = -1 }), []error{errDown}, outcome{1, retry.ReasonInvalid}},
		{"jitter above 1", with(linear, func(p *retry.Policy) { p.Jitter = retry.Proportional(2) }), []error{errDown}, outcome{1, retry.ReasonInvalid}},

		{"a curve that ends at 0", retry.Policy{MaxAttempts: 5, Backoff: retry.Schedule{time.Second, 0}}, []error{errDown}, outcome{5, retry.ReasonExhausted}},
		{"a server's wait that is too long", linear, []error{errDown, retry.After(time.Hour, errDown)}, outcome{2, retry.ReasonRetryAfter}},
		{"a server's wait, just longer than a minute", linear, []error{retry.After(time.Minute+1, errDown)}, outcome{1, retry.ReasonRetryAfter}},
		{"a server's wait, longer than a long cap", with(linear, func(p *retry.Policy) { p.MaxDelay = 2 * time.Hour }),
			[]error{retry.After(2*time.Hour+1, errDown)}, outcome{1, retry.ReasonRetryAfter}},
		{"a server's wait, longer than allowed", with(linear, func(p *retry.Policy) { p.MaxRetryAfter = time.Second }),
			[]error{retry.After(time.Second+1, errDown)}, outcome{1, retry.ReasonRetryAfter}},

		// 1s, 3s, 6s after the first execution.
		{"elapsed", with(linear, func(p *retry.Policy) { p.MaxElapsed = 6 * time.Second }), []error{errDown}, outcome{4, retry.ReasonElapsed}},
		{"elapsed, just before a retry", with(linear, func(p *retry.Policy) { p.MaxElapsed = 6*time.Second - 1 }), []error{errDown}, outcome{3, retry.ReasonElapsed}},
		{"elapsed, no retry at all", with(linear, func(p *retry.Policy) { p.MaxElapsed = 1 }), []error{errDown}, outcome{1, retry.ReasonElapsed}},
		{"elapsed, capped", with(linear, func(p *retry.Policy) { p.MaxElapsed, p.MaxDelay = 6*time.Second, time.Second }), []error{errDown}, outcome{7, retry.ReasonElapsed}},
		{"elapsed, unlimited", with(linear, func(p *retry.Policy) { p.MaxElapsed, p.MaxAttempts = time.Minute, retry.Unlimited }), []error{errDown}, outcome{11, retry.ReasonElapsed}},
		{"elapsed, exhausted before", with(linear, func(p *retry.Policy) { p.MaxElapsed = time.Hour }), []error{errDown}, outcome{9, retry.ReasonExhausted}},
		{"elapsed, a curve that ends at 0", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Schedule{time.Second, 0}, MaxElapsed: time.Second - 1},
			[]error{errDown}, outcome{1, retry.ReasonElapsed}},

		{"selected", selecting(linear, &retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour)}), []error{errDown, errBusy}, outcome{2, retry.ReasonExhausted}},
		{"selected, not retryable", selecting(linear, &retry.Policy{NonRetryable: true}), []error{errBusy}, outcome{1, retry.ReasonNonRetryable}},
		{"selected, only slower", selecting(linear, &retry.Policy{Backoff: retry.Fixed(time.Hour)}), []error{errBusy, errDown, errBusy}, outcome{9, retry.ReasonExhausted}},
		{"selected, invalid", selecting(linear, &retry.Policy{MaxDelay: -1}), []error{errDown, errBusy}, outcome{2, retry.ReasonInvalid}},
		{"selected, unlimited, within the limit of the outer", selecting(linear, &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Schedule{time.Second, 0}}),
			[]error{errBusy}, outcome{9, retry.ReasonExhausted}},
		{"selected, nothing slows the pair down", selecting(with(linear, func(p *retry.Policy) { p.MaxAttempts = retry.Unlimited }), &retry.Policy{}),
			[]error{errDown, errBusy}, outcome{2, retry.ReasonInvalid}},
		{"selected, elapsed", selecting(with(linear, func(p *retry.Policy) { p.MaxElapsed = 3 * time.Second }), &retry.Policy{Backoff: retry.Fixed(time.Second)}),
			[]error{errBusy}, outcome{4, retry.ReasonElapsed}},
		{"selected, a server's wait that is too long", selecting(linear, &retry.Policy{MaxDelay: time.Hour}),
			[]error{retry.After(time.Hour+1, errBusy)}, outcome{1, retry.ReasonRetryAfter}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := tc.policy
			if p.Budget != nil {
				p.Budget = retry.NewBudget(2, 0) // the other one is used up by the first run
			}
			got, _ := run(t, tc.policy, tc.errs...)
			require.Equal(t, tc.want, got, "the policy itself")
			got, took := run(t, retrytest.NoWait(p), tc.errs...)
			assert.Equal(t, tc.want, got)
			assert.Zero(t, took, "no wait")
		})
	}
}

// Sums of delays stop at the longest duration instead of starting over.
func TestNoWaitOfTheLongestDelays(t *testing.T) {
	p := retrytest.NoWait(retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(math.MaxInt64 / 2), MaxElapsed: math.MaxInt64 - 1})
	retrytest.Table(t, p, []retrytest.Row{
		{Attempts: 2, Eligible: true},
		{Attempts: 3, Eligible: true, Reason: retry.ReasonElapsed},
		{Attempts: 4, Eligible: true, Reason: retry.ReasonElapsed},
	})
}

// Each delay is asked for once, whoever asks and in whatever order, and no
// further than to the first that passes MaxElapsed.
func TestNoWaitAddsUpEachDelayOnce(t *testing.T) {
	var asked atomic.Int64
	curve := retry.BackoffFunc(func(n int) time.Duration { asked.Add(1); return time.Duration(max(n, 1)) })
	p := retrytest.NoWait(retry.Policy{MaxAttempts: math.MaxInt, Backoff: curve, MaxElapsed: 500_499}) // the first 999
	asked.Store(0)
	var together sync.WaitGroup
	for range 4 {
		together.Go(func() {
			for _, n := range rand.Perm(2000) {
				want := time.Duration(0)
				if n >= 1000 {
					want = 500_500
				}
				assert.Equal(t, want, p.Backoff.Delay(n), n)
			}
		})
	}
	together.Wait()
	assert.Equal(t, int64(1000), asked.Load())
	retrytest.TestBackoff(t, p.Backoff)
}

// What an error asks for is waited, and as long as p itself would let it.
func TestNoWaitWaitsWhereAnErrorAsksForIt(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), MaxDelay: time.Hour, Jitter: retry.FullJitter}
	busy := retry.After(30*time.Minute, errBusy)
	got, took := run(t, retrytest.NoWait(p), busy, nil)
	assert.Equal(t, outcome{2, retry.ReasonSuccess}, got)
	assert.Equal(t, 30*time.Minute, took)

	slower := p
	p.MaxDelay = 0
	p.Select = func(error) *retry.Policy { return &slower }
	got, took = run(t, retrytest.NoWait(p), busy, nil)
	assert.Equal(t, outcome{2, retry.ReasonSuccess}, got)
	assert.Equal(t, 30*time.Minute, took)
}

// A retry that would have passed MaxElapsed is not made, and the error says
// how late it would have been.
func TestNoWaitSaysHowLateTheRetryWouldHaveBeen(t *testing.T) {
	p := retrytest.NoWait(retry.Policy{MaxAttempts: 9, Backoff: retry.Linear(time.Second), MaxElapsed: 5 * time.Second})
	synctest.Test(t, func(t *testing.T) {
		err := retry.Do(t.Context(), p, retrytest.NewOp(errDown).Run)
		require.EqualError(t, err, "retry: elapsed after 3 attempts (the next delay of 6s would pass MaxElapsed): connection refused")
	})
}

// The real time that executions take still counts.
func TestNoWaitCountsWhatExecutionsTake(t *testing.T) {
	p := retrytest.NoWait(retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(1), MaxElapsed: 5 * time.Second})
	synctest.Test(t, func(t *testing.T) {
		op := retrytest.NewOp(errDown)
		err := retry.Do(t.Context(), p, func(ctx context.Context) error {
			time.Sleep(2 * time.Second) // the operation of a user, in a bubble
			return op.Run(ctx)
		})
		assert.Equal(t, retry.ReasonElapsed, retry.ReasonOf(err))
		assert.Equal(t, 3, op.Executions())
	})
}

// Neither p nor what its Select picks is changed.
func TestNoWaitLeavesThePolicyAsItIs(t *testing.T) {
	picked := plain
	p := wide
	p.Select = func(error) *retry.Policy { return &picked }
	retrytest.NoWait(p).Next(retry.Attempt{Number: 1, Err: errDown})
	assert.Equal(t, plain, picked)
	retrytest.Table(t, p, []retrytest.Row{
		{Attempts: 1, Eligible: true, Lo: 800 * ms, Hi: 1100 * ms},
		{Attempts: 1, Err: errDown, Eligible: true, Delay: time.Second},
	})
}

// The fields that do not wait are kept.
func TestNoWaitKeepsTheOtherFields(t *testing.T) {
	budget := retry.NewBudget(1, 0)
	p := retrytest.NoWait(retry.Policy{
		MaxAttempts: 1, MaxRetries: 2, AttemptCap: 3, NonRetryable: true, Backoff: retry.Fixed(4), MaxDelay: 5, Jitter: retry.FullJitter,
		MaxRetryAfter: 6, MaxElapsed: 7, AttemptTimeout: 8, Budget: budget,
	})
	p.Backoff = nil
	assert.Equal(t, retry.Policy{
		MaxAttempts: 1, MaxRetries: 2, AttemptCap: 3, NonRetryable: true,
		MaxRetryAfter: 6, MaxElapsed: 7, AttemptTimeout: 8, Budget: budget,
	}, p)
}
