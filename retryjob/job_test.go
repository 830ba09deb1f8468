package retryjob_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrylog"
)

var (
	errBoom    = errors.New("boom")
	errExpired = errors.New("token expired")
	backoff    = retry.Exponential{Base: 100 * time.Millisecond}
)

// expired is a Classify that allows one retry after errExpired.
func expired(err error) *retry.Class {
	if errors.Is(err, errExpired) {
		return &retry.Class{Name: "expired", Policy: &retry.Policy{MaxAttempts: 2}}
	}
	return nil
}

// fixed returns a Source that always draws the same.
func fixed(seed uint64) func() uint64 { return func() uint64 { return seed } }

// run calls Run and returns the outcome.
func run(ctx context.Context, p retry.Policy, job retryjob.Job, fn func(context.Context) error) (o retryjob.Outcome) {
	retryjob.Run(ctx, p, job, fn, func(settled retryjob.Outcome) { o = settled })
	return o
}

func failing(context.Context) error { return errBoom }

// queued makes the attempts of a job as a queue does that never runs one late, and
// stores how often each class has failed.
func queued(ctx context.Context, p retry.Policy, job retryjob.Job, fn func(context.Context) error) error {
	job.Began, job.Classes = time.Now(), map[string]int{}
	for job.Attempt = 1; ; job.Attempt++ {
		o := run(ctx, p, job, fn)
		if !o.Retry() {
			return o.Err
		}
		if o.Class != "" {
			job.Classes[o.Class]++
		}
		time.Sleep(o.Delay)
	}
}

// decision returns the part of a Decision that an Outcome has.
func decision(d retry.Decision) retryjob.Outcome {
	return retryjob.Outcome{Reason: d.Reason, Delay: d.Delay, Class: d.Class}
}

// decided returns o without what a Decision does not have.
func decided(o retryjob.Outcome) retryjob.Outcome {
	return retryjob.Outcome{Reason: o.Reason, Delay: o.Delay, Class: o.Class}
}

func TestRunReadsAsDo(t *testing.T) {
	slow := func(errs ...error) func(int) error {
		return func(attempt int) error {
			time.Sleep(30 * time.Millisecond)
			if attempt > len(errs) {
				return nil
			}
			return errs[attempt-1]
		}
	}
	always := func(err error) func(int) error { return slow(err, err, err, err, err, err, err) }
	full := retry.Policy{MaxAttempts: 4, Backoff: backoff, Jitter: retry.FullJitter}
	with := func(change func(p *retry.Policy)) func() retry.Policy {
		return func() retry.Policy {
			p := full
			change(&p)
			return p
		}
	}
	same := with(func(*retry.Policy) {})

	for name, row := range map[string]struct {
		policy func() retry.Policy
		limit  int
		do     func(attempt int) error
		want   retry.Reason
	}{
		"success at once":    {same, 0, slow(), retry.ReasonSuccess},
		"success after two":  {same, 0, slow(errBoom, errBoom), retry.ReasonSuccess},
		"exhausted":          {same, 0, always(errBoom), retry.ReasonExhausted},
		"the job's limit":    {same, 2, always(errBoom), retry.ReasonExhausted},
		"the policy's limit": {same, 50, always(errBoom), retry.ReasonExhausted},
		"no limit":           {with(func(p *retry.Policy) { p.MaxAttempts = 0 }), 0, always(errBoom), retry.ReasonExhausted},
		"unlimited":          {with(func(p *retry.Policy) { p.MaxAttempts = retry.Unlimited }), 0, slow(errBoom, errBoom), retry.ReasonSuccess},
		"cap":                {with(func(p *retry.Policy) { p.AttemptCap = 3 }), 0, always(errBoom), retry.ReasonExhausted},
		"not retryable":      {with(func(p *retry.Policy) { p.NonRetryable = true }), 0, always(errBoom), retry.ReasonNonRetryable},
		"permanent":          {same, 0, slow(errBoom, retry.Permanent(errBoom)), retry.ReasonPermanent},
		"rejected":           {with(func(p *retry.Policy) { p.RetryIf = func(err error) bool { return err != errBoom } }), 0, slow(context.Canceled, errBoom), retry.ReasonRejected},
		"a class": {with(func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class {
				return &retry.Class{Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour)}}
			}
		}), 0, always(errBoom), retry.ReasonExhausted},
		"a class by name": {with(func(p *retry.Policy) { p.Classify = expired }), 0,
			slow(errBoom, errExpired, errBoom, errExpired), retry.ReasonExhausted},
		"a class that is invalid": {with(func(p *retry.Policy) {
			p.Classify = func(error) *retry.Class { return &retry.Class{Policy: &retry.Policy{MaxDelay: -1}} }
		}), 0, always(errBoom), retry.ReasonInvalid},
		"Retry-After":          {same, 0, slow(retry.After(time.Second, errBoom)), retry.ReasonSuccess},
		"Retry-After exactly":  {with(func(p *retry.Policy) { p.ExactRetryAfter = true }), 0, slow(retry.After(10*time.Millisecond, errBoom)), retry.ReasonSuccess},
		"Retry-After too long": {same, 0, slow(errBoom, retry.After(time.Hour, errBoom)), retry.ReasonRetryAfter},
		"elapsed":              {with(func(p *retry.Policy) { p.MaxElapsed, p.Jitter = 500*time.Millisecond, nil }), 0, always(errBoom), retry.ReasonElapsed},
		"elapsed alone":        {with(func(p *retry.Policy) { p.MaxElapsed, p.MaxAttempts = time.Minute, 0 }), 0, slow(errBoom), retry.ReasonSuccess},
		"budget":               {with(func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 1} }), 0, always(errBoom), retry.ReasonBudget},
		"timeout":              {with(func(p *retry.Policy) { p.AttemptTimeout = time.Millisecond }), 0, always(context.DeadlineExceeded), retry.ReasonExhausted},
		"no delay":             {with(func(p *retry.Policy) { p.Backoff, p.Jitter = nil, nil }), 0, always(errBoom), retry.ReasonExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			// one returns the log and the error of one way to make the attempts.
			one := func(way func(context.Context, retry.Policy, func(context.Context) error) error) (log []retrylog.Record, err error) {
				synctest.Test(t, func(t *testing.T) {
					var recorder retrylog.Recorder
					attempt := 0
					p := row.policy()
					p.OnEvent = recorder.OnEvent
					err = way(retrylog.WithKey(t.Context(), "job-1"), p, func(context.Context) error {
						attempt++
						return row.do(attempt)
					})
					log = recorder.Records()
				})
				return log, err
			}
			wantLog, want := one(func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error {
				p.Source = fixed(retry.SeedOf("job-1"))
				return retry.Do(ctx, p.ForJob(row.limit), fn)
			})
			log, err := one(func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error {
				return queued(ctx, p, retryjob.Job{Key: "job-1", MaxAttempts: row.limit}, fn)
			})

			require.Equal(t, row.want, retry.ReasonOf(err))
			assert.Equal(t, texts(t, wantLog), texts(t, log))
			if want != nil {
				var e, wanted *retry.Error
				require.ErrorAs(t, err, &e)
				require.ErrorAs(t, want, &wanted)
				wanted.Waited = 0 // the queue waited, in other processes
				assert.EqualError(t, e, wanted.Error())
			} else {
				assert.NoError(t, err)
			}
			calls, err := retrylog.Replay(log)
			require.NoError(t, err)
			require.Len(t, calls, 1)
			assert.NoError(t, calls[0].Check(row.policy().ForJob(row.limit)))
		})
	}
}

// texts returns a log as its lines.
func texts(t *testing.T, log []retrylog.Record) (lines []string) {
	for _, r := range log {
		line, err := r.MarshalJSON()
		require.NoError(t, err)
		lines = append(lines, string(line))
	}
	return lines
}

func TestRunRefusesAJobWithoutAttemptsLeft(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: backoff}
	forbidden := retry.Policy{MaxAttempts: 3, NonRetryable: true}
	for name, row := range map[string]struct {
		policy retry.Policy
		job    retryjob.Job
		want   retry.Reason // "": it runs
		text   string
	}{
		"the first":                 {p, retryjob.Job{Attempt: 1}, "", ""},
		"below the first":           {p, retryjob.Job{Attempt: -5}, "", ""},
		"the last":                  {p, retryjob.Job{Attempt: 3}, "", ""},
		"one too many":              {p, retryjob.Job{Attempt: 4}, retry.ReasonExhausted, "retry: attempts exhausted after 3 attempts"},
		"handed out ever again":     {p, retryjob.Job{Attempt: 99}, retry.ReasonExhausted, "retry: attempts exhausted after 3 attempts"},
		"the job's limit":           {p, retryjob.Job{Attempt: 2, MaxAttempts: 1}, retry.ReasonExhausted, "retry: attempts exhausted after 1 attempt"},
		"its last":                  {p, retryjob.Job{Attempt: 2, MaxAttempts: 2}, "", ""},
		"cap":                       {retry.Policy{MaxAttempts: 9, AttemptCap: 2}, retryjob.Job{Attempt: 3}, retry.ReasonExhausted, "retry: attempts exhausted after 2 attempts"},
		"no limit":                  {retry.Policy{}, retryjob.Job{Attempt: 2}, retry.ReasonExhausted, "retry: gave up after 1 attempt (no limit is set, so there is no retry)"},
		"not retryable, the first":  {forbidden, retryjob.Job{Attempt: 1}, "", ""},
		"not retryable, the second": {forbidden, retryjob.Job{Attempt: 2}, retry.ReasonNonRetryable, "retry: not retryable after 1 attempt"},
		"unlimited":                 {retry.Policy{MaxAttempts: retry.Unlimited, Backoff: backoff}, retryjob.Job{Attempt: math.MaxInt}, "", ""},
		"by time alone":             {retry.Policy{MaxElapsed: time.Minute, Backoff: backoff}, retryjob.Job{Attempt: 99, Began: time.Now().Add(-time.Hour)}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ran := false
			var events []retry.Event
			row.policy.OnEvent = func(_ context.Context, e retry.Event) { events = append(events, e) }
			o := run(t.Context(), row.policy, row.job, func(context.Context) error { ran = true; return nil })

			assert.Equal(t, ran, o.Ran)
			if row.want == "" {
				assert.True(t, ran)
				assert.NoError(t, o.Err)
				assert.Equal(t, retry.ReasonSuccess, o.Reason)
				assert.Equal(t, max(1, row.job.Attempt), events[0].Attempt)
				return
			}
			assert.False(t, ran)
			assert.Equal(t, retryjob.Outcome{Reason: row.want}, decided(o))
			assert.Equal(t, events[0].Max, o.Attempts)
			assert.False(t, o.Interrupted())
			assert.EqualError(t, o.Err, row.text)
			require.Len(t, events, 1)
			assert.Equal(t, retry.Stopped, events[0].Kind)
			assert.Equal(t, events[0].Max, events[0].Attempt)
			assert.Equal(t, row.want, events[0].Reason)
		})
	}
}

// A bad configuration does not bury the jobs in flight without a run.
func TestAnInvalidPolicyRunsTheJobOnce(t *testing.T) {
	for _, attempt := range []int{0, 1, 2, 99} {
		p := retry.Policy{MaxAttempts: -2, Backoff: backoff}
		job := retryjob.Job{Attempt: attempt, MaxAttempts: 1}
		o := run(t.Context(), p, job, func(context.Context) error { return nil })
		assert.Equal(t, retryjob.Outcome{Reason: retry.ReasonSuccess, Attempts: max(1, attempt), Ran: true}, o)

		o = run(t.Context(), p, job, failing)
		assert.Equal(t, retry.ReasonInvalid, o.Reason)
		assert.Equal(t, max(1, attempt), o.Attempts)
		assert.True(t, o.Ran)
		assert.False(t, o.Retry() || o.Interrupted())
		assert.ErrorIs(t, o.Err, errBoom)
		assert.ErrorContains(t, o.Err, "MaxAttempts is -2")
	}
}

// A class is counted by the queue: 1 retry after errExpired, whatever else failed.
func TestRunCountsAClassByItsName(t *testing.T) {
	p := retry.Policy{MaxAttempts: 9, Backoff: backoff, Classify: expired}
	for name, row := range map[string]struct {
		classes map[string]int
		err     error
		want    retryjob.Outcome
	}{
		"none before":           {map[string]int{}, errExpired, retryjob.Outcome{Reason: retry.ReasonRetry, Class: "expired"}},
		"others before":         {map[string]int{"busy": 3}, errExpired, retryjob.Outcome{Reason: retry.ReasonRetry, Class: "expired"}},
		"one before":            {map[string]int{"expired": 1}, errExpired, retryjob.Outcome{Reason: retry.ReasonExhausted, Class: "expired"}},
		"not known":             {nil, errExpired, retryjob.Outcome{Reason: retry.ReasonExhausted, Class: "expired"}},
		"a failure of no class": {map[string]int{"expired": 1}, errBoom, retryjob.Outcome{Reason: retry.ReasonRetry, Delay: 800 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(t.Context(), p, retryjob.Job{Attempt: 4, Classes: row.classes}, func(context.Context) error { return row.err })
			assert.Equal(t, row.want, decided(o))
			assert.Equal(t, 4, o.Attempts)
		})
	}
}

func TestAttempts(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: backoff}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for name, row := range map[string]struct {
		ctx  context.Context
		job  retryjob.Job
		fn   func(context.Context) error
		want int
	}{
		"success":            {t.Context(), retryjob.Job{Attempt: 3}, func(context.Context) error { return nil }, 3},
		"failure":            {t.Context(), retryjob.Job{Attempt: 2}, failing, 2},
		"below the first":    {t.Context(), retryjob.Job{Attempt: -7}, failing, 1},
		"a success below it": {t.Context(), retryjob.Job{Attempt: -7}, func(context.Context) error { return nil }, 1},
		"no attempt is left": {t.Context(), retryjob.Job{Attempt: 99}, failing, 3},
		"before it ran":      {done, retryjob.Job{Attempt: 3}, failing, 2},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.want, run(row.ctx, p, row.job, row.fn).Attempts)
		})
	}
}

func TestTheZeroOutcomeIsNoRetry(t *testing.T) {
	assert.False(t, retryjob.Outcome{}.Retry())
	assert.False(t, retryjob.Outcome{}.Interrupted())
}

// Below a queue there is no other package of this library, nor log/slog.
func TestWhatRunNeeds(t *testing.T) {
	deps, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	var ours []string
	for _, path := range strings.Fields(string(deps)) {
		if strings.HasPrefix(path, "github.com/goretry/retry/") && !strings.HasPrefix(path, "github.com/goretry/retry/internal/") {
			ours = append(ours, path)
		}
	}
	assert.Equal(t, []string{"github.com/goretry/retry/retryjob"}, ours)
	assert.NotContains(t, strings.Fields(string(deps)), "log/slog")
}

func TestRunInterrupted(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: backoff, Budget: &retry.Budget{Size: 1}}
	for name, row := range map[string]struct {
		attempt int
		err     error
	}{
		"an attempt":       {1, context.Canceled},
		"the last attempt": {3, errBoom},
		"a permanent one":  {1, retry.Permanent(errBoom)},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			o := run(ctx, p, retryjob.Job{Key: "a", Attempt: row.attempt}, func(context.Context) error {
				cancel(errors.New("the worker stops"))
				return row.err
			})
			assert.True(t, o.Ran)
			assert.True(t, o.Interrupted())
			assert.Equal(t, retry.ReasonCanceled, o.Reason)
			assert.Equal(t, 100*time.Millisecond<<(row.attempt-1), o.Delay, "a queue may wait this long before it hands the job out again")
			assert.ErrorIs(t, o.Err, row.err)
			assert.ErrorContains(t, o.Err, "the worker stops")
			assert.Equal(t, 1, p.Budget.Left())
		})
	}

	t.Run("before it ran", func(t *testing.T) {
		for _, attempt := range []int{1, 3} {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			o := run(ctx, p, retryjob.Job{Attempt: attempt}, failing)
			assert.False(t, o.Ran)
			assert.True(t, o.Interrupted())
			assert.Equal(t, retryjob.Outcome{Reason: retry.ReasonCanceled}, decided(o))
			assert.Equal(t, attempt-1, o.Attempts)
		}
		ctx, cancel := context.WithTimeout(t.Context(), -1)
		defer cancel()
		o := run(ctx, p, retryjob.Job{Attempt: 1}, failing)
		assert.False(t, o.Ran)
		assert.True(t, o.Interrupted())
		assert.Equal(t, retry.ReasonDeadline, o.Reason)
	})

	t.Run("success stands", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		o := run(ctx, p, retryjob.Job{Attempt: 1}, func(context.Context) error { cancel(); return nil })
		assert.NoError(t, o.Err)
		assert.False(t, o.Interrupted())
	})
}

// Queue libraries bound each attempt by a deadline of its context.
func TestADeadlineBoundsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Hour)}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := run(ctx, p, retryjob.Job{Attempt: 1}, failing)
		assert.Equal(t, retry.ReasonRetry, o.Reason, "the retry is after the deadline, in another context")
		assert.Equal(t, time.Hour, o.Delay)

		o = run(ctx, p, retryjob.Job{Attempt: 2}, wait)
		assert.Equal(t, retry.ReasonRetry, o.Reason)
		assert.ErrorIs(t, o.Err, context.DeadlineExceeded)
		assert.False(t, o.Interrupted())

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o = run(ctx, p, retryjob.Job{Attempt: 3}, wait)
		assert.Equal(t, retry.ReasonExhausted, o.Reason)
		assert.False(t, o.Interrupted())

		p.AttemptTimeout = time.Minute
		began := time.Now()
		o = run(t.Context(), p, retryjob.Job{Attempt: 1}, wait)
		assert.Equal(t, retry.ReasonRetry, o.Reason)
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

func TestTheErrorOfAnAttemptThatAnotherFollows(t *testing.T) {
	o := run(t.Context(), retry.Policy{MaxAttempts: 3, Backoff: backoff}, retryjob.Job{Attempt: 2}, failing)
	assert.True(t, o.Retry())
	assert.EqualError(t, o.Err, "retry: trying again after 2 attempts (the next delay is 200ms): boom")
	assert.Equal(t, errBoom, retry.LastError(o.Err))
}

func TestRunPaysTheBudgets(t *testing.T) {
	own, outer := &retry.Budget{Size: 2, Ratio: 0.5}, &retry.Budget{Size: 1}
	p := retry.Policy{MaxAttempts: 9, Backoff: backoff, Budget: own}
	ctx := retry.WithBudget(t.Context(), outer)

	assert.Equal(t, retry.ReasonRetry, run(ctx, p, retryjob.Job{Attempt: 5}, failing).Reason)
	assert.Equal(t, 1, own.Left())
	assert.Equal(t, 0, outer.Left())

	o := run(ctx, p, retryjob.Job{Attempt: 6}, failing)
	assert.Equal(t, retry.ReasonBudget, o.Reason, "the Budget of the context is empty")
	assert.Equal(t, backoff.Delay(6), o.Delay)
	assert.Equal(t, 1, own.Left())

	assert.Equal(t, retry.ReasonRetry, run(t.Context(), p, retryjob.Job{Attempt: 1}, failing).Reason)
	assert.Equal(t, retry.ReasonBudget, run(t.Context(), p, retryjob.Job{Attempt: 1}, failing).Reason)
	for range 2 {
		run(t.Context(), p, retryjob.Job{Attempt: 1}, func(context.Context) error { return nil })
	}
	assert.Equal(t, 1, own.Left(), "two successes put one retry back")
}

func TestAPanicIsSettledAndGoesOn(t *testing.T) {
	for name, row := range map[string]struct {
		attempt int
		end     func()
		passes  any
		want    retry.Reason
	}{
		"panic":             {1, func() { panic("oh") }, "oh", retry.ReasonRetry},
		"in the last":       {3, func() { panic("oh") }, "oh", retry.ReasonExhausted},
		"runtime.Goexit":    {1, runtime.Goexit, nil, retry.ReasonRetry},
		"Goexit, the last":  {3, runtime.Goexit, nil, retry.ReasonExhausted},
		"while it is ended": {1, nil, "oh", retry.ReasonRetry},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var recorder retrylog.Recorder
				budget := &retry.Budget{Size: 1}
				p := retry.Policy{MaxAttempts: 3, Backoff: backoff, Jitter: retry.FullJitter, Budget: budget, OnEvent: recorder.OnEvent}
				job := retryjob.Job{Key: "a", Attempt: row.attempt, Began: time.Now().Add(-time.Minute)}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var settled []retryjob.Outcome
				var passed any
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					defer func() { passed = recover() }()
					retryjob.Run(ctx, p, job, func(context.Context) error {
						time.Sleep(time.Second)
						if row.end == nil {
							cancel()
							panic("oh")
						}
						row.end()
						return nil
					}, func(o retryjob.Outcome) { settled = append(settled, o) })
				}()
				<-ended

				assert.Equal(t, row.passes, passed)
				require.Len(t, settled, 1)
				o := settled[0]
				want := p.Next(retry.Attempt{Number: row.attempt, Err: retryjob.ErrPanicked, Seed: retry.SeedOf("a")})
				assert.Equal(t, decision(want), decided(o))
				assert.Equal(t, row.want, o.Reason)
				assert.ErrorIs(t, o.Err, retryjob.ErrPanicked)
				assert.True(t, o.Ran)
				assert.Equal(t, row.attempt, o.Attempts)
				assert.Equal(t, o.Retry(), budget.Left() == 0, "the retry is taken from the Budget once")

				calls, err := retrylog.Replay(recorder.Records())
				require.NoError(t, err)
				require.Len(t, calls, 1)
				require.Len(t, calls[0].Attempts, 1)
				assert.Equal(t, time.Second, calls[0].Attempts[0].Took)
				assert.ErrorIs(t, calls[0].Attempts[0].Err, retryjob.ErrPanicked)
				assert.Equal(t, time.Minute+time.Second, calls[0].Records[1].Event.Elapsed)
				assert.NoError(t, calls[0].Check(p))
			})
		})
	}
}

// An error whose own methods panic is a failure like any other: the job is decided
// on, and its Outcome names the type.
func TestAnErrorThatPanicsIsSettled(t *testing.T) {
	for name, err := range map[string]error{
		"Error":  (*textless)(nil),
		"Unwrap": unwrapless{},
		"As":     asless{},
	} {
		t.Run(name, func(t *testing.T) {
			var settled []retryjob.Outcome
			p := retry.Policy{MaxAttempts: 3, Backoff: backoff}
			retryjob.Run(t.Context(), p, retryjob.Job{Key: "a", Attempt: 1}, func(context.Context) error { return err }, func(o retryjob.Outcome) { settled = append(settled, o) })
			require.Len(t, settled, 1)
			assert.Equal(t, retry.ReasonRetry, settled[0].Reason)
			assert.True(t, settled[0].Ran)
			assert.ErrorContains(t, settled[0].Err, fmt.Sprintf("%T panicked", err))
		})
	}
}

type textless struct{ text string }

func (e *textless) Error() string { return e.text }

type unwrapless struct{}

func (unwrapless) Error() string { return "unwrapless" }
func (unwrapless) Unwrap() error { panic("no Unwrap") }

type asless struct{}

func (asless) Error() string { return "asless" }
func (asless) As(any) bool   { panic("no As") }

// A callback of the policy that panics is not called again, because it would panic
// again.
func TestAPanicOfThePolicyIsSettled(t *testing.T) {
	for name, row := range map[string]struct {
		change func(p *retry.Policy)
		ran    bool
	}{
		"OnEvent, at the start": {func(p *retry.Policy) { p.OnEvent = panics(retry.AttemptStarted) }, false},
		"OnEvent, at the end":   {func(p *retry.Policy) { p.OnEvent = panics(retry.AttemptFinished) }, true},
		"OnEvent, decided":      {func(p *retry.Policy) { p.OnEvent = panics(retry.RetryScheduled) }, true},
		"RetryIf":               {func(p *retry.Policy) { p.RetryIf = func(error) bool { panic("oh") } }, true},
		"Classify":              {func(p *retry.Policy) { p.Classify = func(error) *retry.Class { panic("oh") } }, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 3, Backoff: backoff, Budget: &retry.Budget{Size: 5}}
			row.change(&p)
			var settled []retryjob.Outcome
			assert.PanicsWithValue(t, "oh", func() {
				retryjob.Run(t.Context(), p, retryjob.Job{Attempt: 2}, failing, func(o retryjob.Outcome) { settled = append(settled, o) })
			})
			require.Len(t, settled, 1)
			assert.Equal(t, row.ran, settled[0].Ran)
			assert.Equal(t, retry.ReasonRetry, settled[0].Reason)
			assert.Equal(t, 200*time.Millisecond, settled[0].Delay)
			assert.Equal(t, 2, settled[0].Attempts)
			assert.Equal(t, 4, p.Budget.Left(), "the retry is taken from the Budget once")
		})
	}

	standard := retry.Default().Next(retry.Attempt{Number: 2, Err: errBoom, Seed: 1})
	for name, change := range map[string]func(p *retry.Policy){
		"Backoff": func(p *retry.Policy) { p.Backoff = retry.BackoffFunc(func(int) time.Duration { panic("oh") }) },
		"Jitter":  func(p *retry.Policy) { p.Jitter = panicking{} },
		"Source":  func(p *retry.Policy) { p.Source = func() uint64 { panic("oh") } },
	} {
		t.Run(name, func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 3, Backoff: backoff, Jitter: retry.FullJitter, Budget: &retry.Budget{Size: 5}}
			change(&p)
			var settled []retryjob.Outcome
			assert.PanicsWithValue(t, "oh", func() {
				retryjob.Run(t.Context(), p, retryjob.Job{Attempt: 2}, failing, func(o retryjob.Outcome) { settled = append(settled, o) })
			})
			require.Len(t, settled, 1)
			assert.True(t, settled[0].Ran)
			assert.Equal(t, retry.ReasonRetry, settled[0].Reason)
			assert.GreaterOrEqual(t, settled[0].Delay, standard.Lo)
			assert.LessOrEqual(t, settled[0].Delay, standard.Hi)
			assert.Equal(t, 4, p.Budget.Left(), "the retry is taken from the Budget once")
		})
	}

	t.Run("after one of the attempt", func(t *testing.T) {
		for _, kind := range []retry.EventKind{retry.AttemptFinished, retry.RetryScheduled} {
			p := retry.Policy{MaxAttempts: 3, Backoff: backoff, Budget: &retry.Budget{Size: 5}, OnEvent: panics(kind)}
			var settled []retryjob.Outcome
			assert.PanicsWithValue(t, "the attempt's", func() {
				retryjob.Run(t.Context(), p, retryjob.Job{}, func(context.Context) error { panic("the attempt's") }, func(o retryjob.Outcome) { settled = append(settled, o) })
			})
			require.Len(t, settled, 1)
			assert.Equal(t, retry.ReasonRetry, settled[0].Reason)
			assert.ErrorIs(t, settled[0].Err, retryjob.ErrPanicked)
			assert.Equal(t, 4, p.Budget.Left(), "the retry is taken from the Budget once")
		}
	})

	t.Run("runtime.Goexit after a panic of the attempt", func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 3, Backoff: backoff, Budget: &retry.Budget{Size: 5}, OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.AttemptFinished {
				runtime.Goexit()
			}
		}}
		var settled []retryjob.Outcome
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			retryjob.Run(t.Context(), p, retryjob.Job{}, func(context.Context) error { panic("the attempt's") }, func(o retryjob.Outcome) { settled = append(settled, o) })
		}()
		<-ended
		require.Len(t, settled, 1)
		assert.Equal(t, retry.ReasonRetry, settled[0].Reason)
		assert.Equal(t, 4, p.Budget.Left(), "the retry is taken from the Budget once")
	})

	t.Run("a context that was canceled before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p := retry.Policy{MaxAttempts: 3, OnEvent: panics(retry.Stopped)}
		var o retryjob.Outcome
		assert.PanicsWithValue(t, "oh", func() {
			retryjob.Run(ctx, p, retryjob.Job{Attempt: 3}, failing, func(settled retryjob.Outcome) { o = settled })
		})
		assert.True(t, o.Interrupted())
		assert.False(t, o.Ran)
	})

	t.Run("what the attempt returned counts", func(t *testing.T) {
		for result, want := range map[error]retry.Reason{nil: retry.ReasonSuccess, retry.Permanent(errBoom): retry.ReasonPermanent, errBoom: retry.ReasonRetry} {
			p := retry.Policy{MaxAttempts: 3, OnEvent: panics(retry.AttemptFinished)}
			var o retryjob.Outcome
			assert.PanicsWithValue(t, "oh", func() {
				retryjob.Run(t.Context(), p, retryjob.Job{}, func(context.Context) error { return result }, func(settled retryjob.Outcome) { o = settled })
			})
			assert.Equal(t, want, o.Reason)
			assert.ErrorIs(t, o.Err, result)
		}
	})

	t.Run("a success puts back once", func(t *testing.T) {
		p := retry.Policy{Budget: &retry.Budget{Size: 5, Ratio: 1}, OnEvent: panics(retry.Stopped)}
		for range 3 {
			p.Budget.Take()
		}
		assert.Panics(t, func() {
			retryjob.Run(t.Context(), p, retryjob.Job{}, func(context.Context) error { return nil }, func(retryjob.Outcome) {})
		})
		assert.Equal(t, 3, p.Budget.Left())
	})

	t.Run("settle", func(t *testing.T) {
		settled := 0
		assert.PanicsWithValue(t, "oh", func() {
			retryjob.Run(t.Context(), retry.Policy{}, retryjob.Job{}, failing, func(retryjob.Outcome) { settled++; panic("oh") })
		})
		assert.Equal(t, 1, settled)
	})
}

// panicking is a Jitter.
type panicking struct{}

func (panicking) Window(time.Duration) (lo, hi time.Duration) { panic("oh") }

func panics(kind retry.EventKind) func(context.Context, retry.Event) {
	return func(_ context.Context, e retry.Event) {
		if e.Kind == kind {
			panic("oh")
		}
	}
}

// A panic of OnEvent before a later attempt must not put a retry back that this
// process never took.
func TestAPanicBeforeALaterAttemptGivesNothingBack(t *testing.T) {
	p := retry.Policy{MaxAttempts: 9, Backoff: backoff, Budget: &retry.Budget{Size: 5}, OnEvent: panics(retry.AttemptStarted)}
	for range 3 {
		p.Budget.Take()
	}
	assert.Panics(t, func() {
		retryjob.Run(t.Context(), p, retryjob.Job{Attempt: 4}, failing, func(retryjob.Outcome) {})
	})
	assert.Equal(t, 1, p.Budget.Left(), "the retry that was settled is taken from the Budget")
}

func TestTheKey(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: backoff, Jitter: retry.FullJitter, Source: fixed(42)}
	seeds := map[string]uint64{"a": retry.SeedOf("a"), "b": retry.SeedOf("b"), "": 42}
	for key, seed := range seeds {
		var keys, inner []string
		p.OnEvent = func(ctx context.Context, e retry.Event) { keys = append(keys, retrylog.Key(ctx)) }
		ctx := retrylog.WithKey(t.Context(), "outer")
		o := run(ctx, p, retryjob.Job{Key: key, Attempt: 2}, func(ctx context.Context) error {
			inner = append(inner, retrylog.Key(ctx))
			return errBoom
		})
		assert.Equal(t, decision(p.Next(retry.Attempt{Number: 2, Err: errBoom, Seed: seed})), decided(o))
		want := key
		if key == "" {
			want = "outer"
		}
		assert.Equal(t, []string{want, want, want}, keys)
		assert.Equal(t, []string{"outer"}, inner)
	}

	p.Source = nil
	drawn := map[time.Duration]bool{}
	for range 10 {
		drawn[run(t.Context(), p, retryjob.Job{Attempt: 2}, failing).Delay] = true
	}
	assert.Greater(t, len(drawn), 1, "without a key and a Source, math/rand/v2 draws")
}

func TestBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{MaxElapsed: 10 * time.Second, Backoff: retry.Fixed(4 * time.Second)}
		for _, row := range []struct {
			ago  time.Duration // 0: Began is zero
			want time.Duration // elapsed at the start
			then retry.Reason
		}{
			{0, 0, retry.ReasonRetry},
			{5 * time.Second, 5 * time.Second, retry.ReasonRetry},
			{5*time.Second + 1, 5*time.Second + 1, retry.ReasonElapsed},
			{time.Hour, time.Hour, retry.ReasonElapsed},
			{-time.Hour, 0, retry.ReasonRetry},
		} {
			var events []retry.Event
			p.OnEvent = func(_ context.Context, e retry.Event) { events = append(events, e) }
			job := retryjob.Job{Attempt: 2}
			if row.ago != 0 {
				job.Began = time.Now().Add(-row.ago)
			}
			now := time.Now()
			o := run(t.Context(), p, job, func(context.Context) error {
				time.Sleep(time.Second)
				return errBoom
			})
			assert.Equal(t, row.then, o.Reason)
			require.Len(t, events, 3)
			assert.Equal(t, now, events[0].Time)
			assert.Equal(t, row.want, events[0].Elapsed)
			assert.Equal(t, row.want+time.Second, events[1].Elapsed)
			assert.Equal(t, row.want+time.Second, events[2].Elapsed)
		}
	})
}

func TestDecide(t *testing.T) {
	var recorder retrylog.Recorder
	p := retry.Policy{MaxAttempts: 3, Backoff: backoff, OnEvent: recorder.OnEvent}
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	o := retryjob.Decide(ended, p, retryjob.Job{Key: "a", Attempt: 1}, errBoom)
	assert.True(t, o.Retry())
	assert.Equal(t, 100*time.Millisecond, o.Delay)
	assert.ErrorIs(t, o.Err, errBoom)
	o = retryjob.Decide(ended, p, retryjob.Job{Key: "b", Attempt: 3}, errBoom)
	assert.Equal(t, retry.ReasonExhausted, o.Reason)
	o = retryjob.Decide(ended, p, retryjob.Job{Key: "c", Attempt: 1}, nil)
	assert.Equal(t, retry.ReasonSuccess, o.Reason)
	assert.NoError(t, o.Err)
	o = retryjob.Decide(ended, p, retryjob.Job{Key: "d", Attempt: 1}, retry.Permanent(errBoom))
	assert.Equal(t, retry.ReasonPermanent, o.Reason)

	calls, err := retrylog.Replay(recorder.Records())
	require.NoError(t, err)
	require.Len(t, calls, 4)
	for _, c := range calls {
		assert.NoError(t, c.Check(p))
	}
}

func TestRunOfNothing(t *testing.T) {
	var none context.Context
	o := run(none, retry.Policy{MaxAttempts: 3, Backoff: backoff}, retryjob.Job{Attempt: 1}, failing)
	assert.Equal(t, retry.ReasonInvalid, o.Reason)
	assert.False(t, o.Ran)
	o = run(t.Context(), retry.Policy{MaxAttempts: 3, Backoff: backoff}, retryjob.Job{Attempt: 1}, nil)
	assert.Equal(t, retry.ReasonInvalid, o.Reason)
	assert.False(t, o.Ran)
	assert.ErrorContains(t, o.Err, "nil function")
}

// FuzzRun checks that Run makes the same decision as Next.
func FuzzRun(f *testing.F) {
	f.Add(3, 0, 0, 1, 0, int64(time.Second), 0.2, uint8(0), int64(0))
	f.Add(-1, 5, 4, 2, 3, int64(0), 1.0, uint8(1), int64(time.Minute))
	f.Add(0, 0, 0, 9, 1, int64(1), 0.0, uint8(2), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, attempts, cap, own, number, base int, d int64, jitter float64, failure uint8, after int64) {
		p := retry.Policy{MaxAttempts: attempts, AttemptCap: cap, Backoff: retry.Exponential{Base: time.Duration(d)}, Jitter: retry.Proportional(jitter)}
		err := []error{errBoom, retry.Permanent(errBoom), retry.After(time.Duration(after), errBoom), fmt.Errorf("two: %w", retry.After(1, errBoom))}[failure%4]
		key := fmt.Sprint(base)
		job := retryjob.Job{Key: key, Attempt: number, MaxAttempts: own}
		calls := 0
		o := run(t.Context(), p, job, func(context.Context) error { calls++; return err })

		q := p.ForJob(own)
		eligible := q.Validate() != nil || q.Eligible(max(1, number)-1)
		require.Equal(t, eligible, o.Ran)
		require.Equal(t, eligible, calls == 1)
		require.Error(t, o.Err)
		if eligible {
			require.Equal(t, decision(q.Next(retry.Attempt{Number: number, Err: err, Seed: retry.SeedOf(key)})), decided(o))
			require.Equal(t, max(1, number), o.Attempts)
		} else {
			require.False(t, o.Retry())
		}
	})
}
