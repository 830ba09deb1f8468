package queues

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

const ms = time.Millisecond

// windows are the delays that p may draw, after each execution. MaxDelay cuts
// the fourth, and those beyond the limit repeat it.
var windows = [][2]time.Duration{
	{800 * ms, 1200 * ms}, {1600 * ms, 2400 * ms}, {3200 * ms, 4800 * ms}, {4000 * ms, 5000 * ms},
	{4000 * ms, 5000 * ms}, {4000 * ms, 5000 * ms},
}

// use makes policy the one of the hooks for this test.
func use(t *testing.T, policy retry.Policy) {
	before := p
	t.Cleanup(func() { p = before })
	p = policy
}

// exact returns p without jitter.
func exact() retry.Policy {
	policy := p
	policy.Jitter = nil
	return policy
}

// drawn returns p with the same draws in each run.
func drawn() retry.Policy {
	policy := p
	policy.Source = rand.NewPCG(1, 2)
	return policy
}

// fills checks that the delays a hook draws stay in the window and reach both
// of its ends, to a hundredth.
func fills(t *testing.T, window [2]time.Duration, draw func() time.Duration) {
	t.Helper()
	var delays []time.Duration
	for range 1000 {
		delays = append(delays, draw())
	}
	lo, hi := slices.Min(delays), slices.Max(delays)
	assert.GreaterOrEqual(t, lo, window[0])
	assert.LessOrEqual(t, hi, window[1])
	assert.GreaterOrEqual(t, hi-lo, (window[1]-window[0])*98/100)
}

func TestValidate(t *testing.T) {
	assert.NoError(t, Validate())
	use(t, retry.Policy{MaxAttempts: -2})
	assert.ErrorContains(t, Validate(), "MaxAttempts")
}

// nextRetry returns how far ahead NextRetry puts a job after an attempt, by a
// clock that stands still.
func nextRetry(attempt int) time.Duration {
	return time.Until((&W{}).NextRetry(&river.Job[A]{JobRow: &rivertype.JobRow{Attempt: attempt}}))
}

func TestRiver(t *testing.T) {
	require.NoError(t, river.AddWorkerSafely(river.NewWorkers(), &W{}))
	synctest.Test(t, func(t *testing.T) {
		use(t, drawn())
		for i, window := range windows {
			fills(t, window, func() time.Duration { return nextRetry(i + 1) })
		}
		use(t, exact())
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
			assert.Equal(t, want, nextRetry(i+1), "attempt %d", i+1)
		}
	})
}

// River takes a zero time as none, and one in the past as a fault.
func TestRiverNeverGetsATimeInThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			name    string
			backoff retry.Backoff
			attempt int
			want    time.Duration
		}{
			{"no delay", nil, 1, 0},
			{"the longest delay", retry.Fixed(math.MaxInt64), 1, math.MaxInt64},
			{"a curve past its end", retry.Exponential{Base: time.Hour}, math.MaxInt, math.MaxInt64},
			{"an attempt that was never made", retry.Fixed(time.Second), 0, time.Second},
		} {
			use(t, retry.Policy{MaxAttempts: 5, Backoff: row.backoff})
			assert.Equal(t, row.want, nextRetry(row.attempt), row.name)
		}
	})
}

func TestAsynq(t *testing.T) {
	delay := AsynqConfig().RetryDelayFunc
	use(t, drawn())
	for n, window := range windows {
		fills(t, window, func() time.Duration { return delay(n, errDown, nil) })
	}

	use(t, exact())
	for _, row := range []struct {
		name string
		n    int
		err  error
		want time.Duration
	}{
		{"first failure", 0, errDown, time.Second},
		{"first retry failed", 1, errDown, 2 * time.Second},
		{"second", 2, errDown, 4 * time.Second},
		{"cap", 3, errDown, 5 * time.Second},
		{"at the policy's limit", 4, errDown, 5 * time.Second},
		{"asynq's own limit", 25, errDown, 5 * time.Second},
		{"no error", 1, nil, 2 * time.Second},
		{"an error that asynq retries all the same", 1, retry.Permanent(errDown), 2 * time.Second},
		{"a server's wait", 0, retry.After(30*time.Second, errDown), 30 * time.Second},
		{"a server's wait shorter than the delay", 2, retry.After(time.Second, errDown), 4 * time.Second},
		{"a server's wait that Do would not wait", 0, retry.After(time.Hour, errDown), time.Hour},
	} {
		assert.Equal(t, row.want, delay(row.n, row.err, nil), row.name)
	}
}

func TestNATS(t *testing.T) {
	s := time.Second
	second := retry.Exponential{Base: s}
	for _, row := range []struct {
		name       string
		policy     retry.Policy
		maxDeliver int
		backOff    retry.Schedule
	}{
		{"p: no jitter", p, 5, retry.Schedule{s, 2 * s, 4 * s, 5 * s}},
		{"one execution", retry.Policy{MaxAttempts: 1, Backoff: second}, 1, retry.Schedule{}},
		{"no limit set", retry.Policy{Backoff: second}, 1, retry.Schedule{}},
		{"two", retry.Policy{MaxRetries: 1, Backoff: second}, 2, retry.Schedule{s}},
		{"exactly n retries", retry.Policy{MaxAttempts: 11, Backoff: retry.Fixed(s)}, 11, retry.Schedule{s, s, s, s, s, s, s, s, s, s}},
		{"more than n", retry.Policy{MaxAttempts: 100, Backoff: retry.Linear(s)}, 100, retry.Schedule{s, 2 * s, 3 * s, 4 * s, 5 * s, 6 * s, 7 * s, 8 * s, 9 * s, 10 * s}},
		{"unlimited", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: second, MaxDelay: 5 * s}, -1, retry.Schedule{s, 2 * s, 4 * s, 5 * s, 5 * s, 5 * s, 5 * s, 5 * s, 5 * s, 5 * s}},
		{"a ceiling on unlimited", retry.Policy{MaxAttempts: retry.Unlimited, AttemptCap: 3, Backoff: second}, 3, retry.Schedule{s, 2 * s}},
	} {
		t.Run(row.name, func(t *testing.T) {
			use(t, row.policy)
			c := ConsumerConfig()
			assert.Equal(t, row.maxDeliver, c.MaxDeliver)
			assert.Equal(t, []time.Duration(row.backOff), c.BackOff)
			// What the server insists on, and MaxDeliver 0 it takes as unlimited.
			assert.NotZero(t, c.MaxDeliver)
			if c.MaxDeliver > 0 {
				assert.LessOrEqual(t, len(c.BackOff), c.MaxDeliver)
			}
		})
	}
}

// What goes over the wire: nanoseconds, and no empty list.
func TestNATSRequest(t *testing.T) {
	for _, row := range []struct {
		policy retry.Policy
		want   string
	}{
		{p, `{"max_deliver": 5, "backoff": [1000000000, 2000000000, 4000000000, 5000000000]}`},
		{retry.Policy{}, `{"max_deliver": 1}`},
	} {
		use(t, row.policy)
		request, err := json.Marshal(ConsumerConfig())
		require.NoError(t, err)
		var all map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(request, &all))
		got := map[string]json.RawMessage{}
		for _, key := range []string{"max_deliver", "backoff", "ack_wait"} {
			if value, ok := all[key]; ok {
				got[key] = value
			}
		}
		text, err := json.Marshal(got)
		require.NoError(t, err)
		assert.JSONEq(t, row.want, string(text))
	}
}

// Why the README says: after Validate.
func TestInvalidPolicyHasNoDelay(t *testing.T) {
	use(t, retry.Policy{MaxAttempts: -2, Backoff: retry.Fixed(time.Hour)})
	synctest.Test(t, func(t *testing.T) { assert.Zero(t, nextRetry(1)) })
	assert.Zero(t, AsynqConfig().RetryDelayFunc(0, errDown, nil))
	assert.Equal(t, 1, ConsumerConfig().MaxDeliver)
	assert.Empty(t, ConsumerConfig().BackOff)
}

func TestFailed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, row := range []struct {
		name string
		job  Job // with MaxAttempts and Attempts
		err  error
		want Job // with State, RunAt and Note
	}{
		{"first failure", Job{Attempts: 1}, errDown, Job{State: "scheduled", RunAt: now.Add(time.Second)}},
		{"second", Job{Attempts: 2}, errDown, Job{State: "scheduled", RunAt: now.Add(2 * time.Second)}},
		{"third and last", Job{Attempts: 3}, errDown, Job{State: "dead", Note: "attempts_exhausted: connection refused"}},
		{"the job allows fewer", Job{Attempts: 2, MaxAttempts: 2}, errDown, Job{State: "dead", Note: "attempts_exhausted: connection refused"}},
		{"the job asks for more", Job{Attempts: 3, MaxAttempts: 9}, errDown, Job{State: "dead", Note: "attempts_exhausted: connection refused"}},
		{"a server's wait", Job{Attempts: 1}, retry.After(30*time.Second, errDown), Job{State: "scheduled", RunAt: now.Add(30 * time.Second)}},
		{"a wait too long", Job{Attempts: 1}, retry.After(time.Hour, errDown), Job{State: "dead", Note: "retry_after_too_long: connection refused"}},
		{"no retry can help", Job{Attempts: 1}, retry.Permanent(errDown), Job{State: "dead", Note: "permanent_error: connection refused"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			job := row.job
			Failed(policy, &job, row.err, now)
			row.want.Attempts, row.want.MaxAttempts = row.job.Attempts, row.job.MaxAttempts
			assert.Equal(t, row.want, job)
		})
	}
}

// The seed is the job's, so that every worker computes the same delay.
func TestFailedDrawsByJob(t *testing.T) {
	spread := policy
	spread.Jitter = retry.FullJitter
	runAt := func(id string) time.Time {
		job := Job{ID: id, Attempts: 1}
		Failed(spread, &job, errDown, time.Time{})
		return job.RunAt
	}
	assert.Equal(t, runAt("job-1"), runAt("job-1"))
	assert.NotEqual(t, runAt("job-1"), runAt("job-2"))
}

func TestWhatNow(t *testing.T) {
	fails := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	canceled, cancel := context.WithCancelCause(t.Context())
	errShutdown := errors.New("shutdown")
	cancel(errShutdown)
	soon, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	hour := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Hour)}
	spent := retry.NewBudget(1, 0)
	require.True(t, spent.Take())

	for _, row := range []struct {
		name   string
		ctx    context.Context
		policy retry.Policy
		fails  error
		want   string
		is     []error // what errors.Is finds
	}{
		{"success", t.Context(), hour, nil, Nothing, nil},
		{"canceled", canceled, hour, errDown, GiveUp, []error{context.Canceled, errShutdown}},
		{"deadline ahead", soon, hour, errDown, GiveUp, []error{context.DeadlineExceeded, errDown}},
		{"exhausted", t.Context(), retry.Policy{MaxAttempts: 2}, errDown, TryLater, []error{errDown}},
		{"elapsed", t.Context(), retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Hour), MaxElapsed: time.Minute}, errDown, TryLater, []error{errDown}},
		{"budget", t.Context(), retry.Policy{MaxAttempts: 3, Budget: spent}, errDown, TryLater, []error{errDown}},
		{"retry after", t.Context(), hour, retry.After(2*time.Hour, errDown), TryLater, []error{errDown}},
		{"invalid", t.Context(), retry.Policy{MaxAttempts: -2}, errDown, MendThePolicy, []error{errDown}},
		{"permanent", t.Context(), hour, retry.Permanent(errDown), MendTheCall, []error{errDown}},
		{"not retryable", t.Context(), retry.Policy{MaxAttempts: 3, NonRetryable: true}, errDown, MendTheCall, []error{errDown}},
		{"rejected", t.Context(), retry.Policy{MaxAttempts: 3, RetryIf: func(error) bool { return false }}, errDown, MendTheCall, []error{errDown}},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := retry.Do(row.ctx, row.policy, fails(row.fails))
			assert.Equal(t, row.want, WhatNow(err), err)
			for _, target := range row.is {
				assert.ErrorIs(t, err, target)
			}
		})
	}
	assert.Equal(t, MendTheCall, WhatNow(errDown), "an error that is not of Do")
}
