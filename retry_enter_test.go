package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

func TestEnter(t *testing.T) {
	everyWay(t, "Enter is called between the wait and the attempt", func(t *testing.T, call caller) {
		var log []string
		p := everySecond
		start := time.Now()
		say := func(what string, e retry.Event) {
			log = append(log, fmt.Sprintf("%s %s %d %d of %d at %v after %v", what, e.Kind, e.Attempt, e.Number, e.Max, e.Time.Sub(start), e.Elapsed))
		}
		p.OnEvent = func(_ context.Context, e retry.Event) { say("event", e) }
		p.Enter = func(_ context.Context, e retry.Event) error {
			say("enter", e)
			time.Sleep(10 * time.Second)
			return nil
		}
		err := call(t.Context(), p, func(context.Context) error {
			if len(log) > 5 {
				return nil
			}
			return errDial
		})
		require.NoError(t, err)
		assert.Equal(t, []string{
			"enter attempt_started 1 1 of 3 at 0s after 0s",
			"event attempt_started 1 1 of 3 at 10s after 10s",
			"event attempt_finished 1 1 of 3 at 10s after 10s",
			"event retry_scheduled 1 1 of 3 at 10s after 10s",
			"enter attempt_started 2 2 of 3 at 11s after 11s",
			"event attempt_started 2 2 of 3 at 21s after 21s",
			"event attempt_finished 2 2 of 3 at 21s after 21s",
			"event call_finished 2 2 of 3 at 21s after 21s",
		}, log)
	})
	everyWay(t, "the time in Enter is not part of the attempt", func(t *testing.T, call caller) {
		var told watch
		p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second), AttemptTimeout: time.Second, HealthyAfter: 500 * time.Millisecond, OnEvent: told.event}
		p.Enter = func(context.Context, retry.Event) error { time.Sleep(time.Hour); return nil }
		err := call(t.Context(), p, func(ctx context.Context) error {
			require.NoError(t, ctx.Err())
			return errDial
		})
		assert.EqualError(t, err, "retry: attempts exhausted after 2 attempts (1s waited): dial tcp: connection refused")
		for _, e := range told.of(retry.AttemptFinished) {
			assert.Zero(t, e.Took)
		}
	})
	everyWay(t, "a policy with only Enter", func(t *testing.T, call caller) {
		var log []string
		p := retry.Policy{MaxAttempts: 2, Enter: func(_ context.Context, e retry.Event) error {
			log = append(log, fmt.Sprint("enter ", e.Attempt))
			return nil
		}}
		_ = call(t.Context(), p, func(context.Context) error { log = append(log, "attempt"); return errDial })
		assert.Equal(t, []string{"enter 1", "attempt", "enter 2", "attempt"}, log)
	})
	everyWay(t, "Enter gets the Number, which counts from the last attempt that ran past HealthyAfter", func(t *testing.T, call caller) {
		var log []string
		p := retry.Policy{MaxAttempts: 2, HealthyAfter: time.Minute, Enter: func(_ context.Context, e retry.Event) error {
			log = append(log, fmt.Sprintf("%d %d after %v", e.Attempt, e.Number, e.Elapsed))
			return nil
		}}
		runs := 0
		err := call(t.Context(), p, func(context.Context) error {
			if runs++; runs == 2 {
				time.Sleep(time.Hour)
			}
			return errDial
		})
		assert.Equal(t, []string{"1 1 after 0s", "2 2 after 10ms", "3 2 after 10ms"}, log)
		assert.Equal(t, 3, stopped(t, err).Attempts)
	})
	for took, attempts := range map[time.Duration]int{time.Millisecond - 1: 2, time.Millisecond: 1} {
		everyWay(t, fmt.Sprint("MaxElapsed has passed, and Enter takes ", took), func(t *testing.T, call caller) {
			p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second), MaxElapsed: time.Second, Enter: func(_ context.Context, e retry.Event) error {
				if e.Attempt == 2 {
					time.Sleep(took)
				}
				return nil
			}}
			runs := 0
			err := call(t.Context(), p, fails(&runs))
			assert.Equal(t, attempts, runs, "%v", err)
			assert.Equal(t, attempts == 1, retry.ReasonOf(err) == retry.ReasonElapsed)
		})
	}
	bubble(t, "Once does not call Enter", func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 2, Enter: func(context.Context, retry.Event) error { panic("called") }}
		_, err := retry.Once(t.Context(), p, retry.Attempt{Number: 1}, failWith(errDial))
		assert.Equal(t, retry.ReasonRetry, retry.ReasonOf(err))
	})
}

// Each row stops a call in Enter, before the second attempt. The Budgets get the retry back.
func TestEnterRefuses(t *testing.T) {
	errFull := errors.New("the queue is full")
	ask := retry.Policy{MaxAttempts: 9, MaxRetryAfter: time.Second}
	_, long := retry.Once(context.Background(), ask, retry.Attempt{Number: 5}, failWith(retry.After(time.Hour, errFull)))
	for _, row := range []struct {
		name  string
		enter func(cancel func()) error
		want  string
		is    error
	}{
		{"an error", func(func()) error { return errFull }, "the wait failed after 1 attempt (1s waited, the queue is full): dial tcp: connection refused", errFull},
		{"an Error of another call", func(func()) error { return long }, "gave up after 1 attempt (1s waited, Retry-After is 1h0m0s, MaxRetryAfter is 1s): the queue is full", errFull},
		{"an Error with ReasonRetry", func(func()) error { return &retry.Error{Reason: retry.ReasonRetry} }, "the wait failed after 1 attempt (1s waited, retry: trying again before the first attempt): dial tcp: connection refused", nil},
		{"an Error with ReasonSuccess", func(func()) error { return &retry.Error{Reason: retry.ReasonSuccess} }, "the wait failed after 1 attempt (1s waited, retry: success before the first attempt): dial tcp: connection refused", nil},
		{"an Error with a Cause", func(func()) error { return &retry.Error{Reason: "quota", Cause: errFull} }, "quota after 1 attempt (1s waited, the queue is full): dial tcp: connection refused", errFull},
		{"an Error without a Reason", func(func()) error { return &retry.Error{Err: errFull} }, "the wait failed after 1 attempt (1s waited, retry: stopped before the first attempt: the queue is full): dial tcp: connection refused", errFull},
		{"a nil *Error", func(func()) error { return (*retry.Error)(nil) }, "the wait failed after 1 attempt (1s waited, <nil>): dial tcp: connection refused", nil},
		{"the context ends, and Enter returns its error", func(cancel func()) error { cancel(); return context.Canceled }, "canceled after 1 attempt (1s waited, context canceled): dial tcp: connection refused", context.Canceled},
		{"the context ends", func(cancel func()) error { cancel(); time.Sleep(time.Second); return nil }, "canceled after 1 attempt (1s waited, context canceled): dial tcp: connection refused", context.Canceled},
		{"Enter takes until MaxElapsed has passed", func(func()) error { time.Sleep(time.Minute); return nil }, "out of time after 1 attempt (1s waited, 1m1s have passed, MaxElapsed is 1m0s): dial tcp: connection refused", nil},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			var told watch
			own, outer := &retry.Budget{Size: 1}, &retry.Budget{Size: 1}
			p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), MaxElapsed: time.Minute, Budget: own, OnEvent: told.event}
			ctx, cancel := context.WithCancel(retry.WithBudget(t.Context(), outer))
			p.Enter = func(_ context.Context, e retry.Event) error {
				if e.Attempt == 1 {
					return nil
				}
				return row.enter(cancel)
			}
			runs := 0
			err := call(ctx, p, fails(&runs))
			assert.EqualError(t, err, "retry: "+row.want)
			assert.Equal(t, []int{1, 1, 1, 1}, []int{runs, own.Left(), outer.Left(), stopped(t, err).Attempts})
			assert.Equal(t, counts{1, 1, 1, 1}, told.counts())
			assert.Equal(t, 1, told.of(retry.CallFinished)[0].Number)
			assert.True(t, row.is == nil || errors.Is(err, row.is))
		})
	}
	everyWay(t, "before the first attempt", func(t *testing.T, call caller) {
		var told watch
		p := retry.Policy{MaxAttempts: 3, OnEvent: told.event, Enter: func(context.Context, retry.Event) error { return errFull }}
		err := call(t.Context(), p, failWith(nil))
		assert.EqualError(t, err, "retry: the wait failed before the first attempt (the queue is full)")
		assert.Equal(t, counts{0, 0, 0, 1}, told.counts())
	})
	everyWay(t, "a panic", func(t *testing.T, call caller) {
		own := &retry.Budget{Size: 1}
		p := retry.Policy{MaxAttempts: 3, Budget: own, Enter: func(_ context.Context, e retry.Event) error {
			if e.Attempt == 2 {
				panic("closed")
			}
			return nil
		}}
		recovered, _ := leaves(func() { _ = call(t.Context(), p, failWith(errDial)) })
		assert.Equal(t, "closed", recovered)
		assert.Equal(t, 1, own.Left())
	})
}

func TestSkipBudget(t *testing.T) {
	for _, row := range []struct {
		name                 string
		skips                int // how many failures at the start skip the Budget
		attempts, own, outer int
	}{
		{"no failure", 0, 3, 0, 3},
		{"the first failure", 1, 4, 0, 2},
		{"all failures", 9, 6, 2, 0},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			own, outer := &retry.Budget{Size: 2}, &retry.Budget{Size: 5}
			runs := 0
			p := retry.Policy{MaxAttempts: 9, Budget: own, Classify: func(error) *retry.Class { return &retry.Class{SkipBudget: runs <= row.skips} }}
			err := call(retry.WithBudget(t.Context(), outer), p, fails(&runs))
			assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(err))
			assert.Equal(t, []int{row.attempts, row.own, row.outer}, []int{runs, own.Left(), outer.Left()})
		})
	}
}

func TestNotAttempted(t *testing.T) {
	assert.NoError(t, retry.NotAttempted(nil))
	err := retry.NotAttempted(errDial)
	assert.EqualError(t, err, errDial.Error())
	assert.ErrorIs(t, err, errDial)
	inner := func() error {
		return retry.Do(context.Background(), retry.Policy{MaxAttempts: 1}, failWith(retry.NotAttempted(errDial)))
	}
	for _, row := range []struct {
		name string
		err  error
		left int // how many of 9 retries are left after two retries
	}{
		{"a plain error", errDial, 7},
		{"NotAttempted", retry.NotAttempted(errDial), 9},
		{"NotAttempted, wrapped", fmt.Errorf("get: %w", retry.NotAttempted(errDial)), 9},
		{"NotAttempted, joined", errors.Join(errBoom, retry.NotAttempted(errDial)), 9},
		{"NotAttempted around an inner call", retry.NotAttempted(inner()), 9},
		{"NotAttempted in an inner call", inner(), 7},
		{"NotAttempted in an inner call, wrapped", fmt.Errorf("get: %w", inner()), 7},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			own, outer := &retry.Budget{Size: 9}, &retry.Budget{Size: 9}
			err := call(retry.WithBudget(t.Context(), outer), retry.Policy{MaxAttempts: 3, Budget: own}, failWith(row.err))
			assert.Equal(t, 3, stopped(t, err).Attempts, "the attempts count")
			assert.Equal(t, []int{row.left, row.left}, []int{own.Left(), outer.Left()})
		})
	}
	assert.Equal(t, errDial, retry.Unwrap(retry.Do(context.Background(), retry.Policy{}, failWith(retry.NotAttempted(errDial)))))
	everyWay(t, "a retry that took nothing gives nothing back", func(t *testing.T, call caller) {
		own, outer := &retry.Budget{Size: 9}, &retry.Budget{Size: 9}
		_ = call(t.Context(), retry.Policy{MaxAttempts: 3, Budget: own}, failWith(errDial))
		p := retry.Policy{MaxAttempts: 5, Budget: own, Classify: func(error) *retry.Class { return &retry.Class{SkipBudget: true} }}
		_ = call(retry.WithBudget(t.Context(), outer), p, failWith(retry.NotAttempted(errDial)))
		assert.Equal(t, []int{7, 9}, []int{own.Left(), outer.Left()})
	})
}

func TestBudgetOfAnError(t *testing.T) {
	own, outer := &retry.Budget{Size: 1, Name: "db"}, &retry.Budget{Name: "the request", Borrowed: true}
	for _, row := range []struct {
		name string
		ctx  context.Context
		want string
		is   *retry.Budget
	}{
		{"the policy's Budget", context.Background(), "retry budget exhausted after 2 attempts (for db): boom", own},
		{"a Budget of the context", retry.WithBudget(context.Background(), outer), "borrowed retry budget exhausted after 1 attempt (for the request): boom", outer},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := retry.Do(row.ctx, retry.Policy{MaxAttempts: 5, Budget: own}, failWith(errBoom))
			assert.EqualError(t, err, "retry: "+row.want)
			assert.Same(t, row.is, stopped(t, err).Budget())
			e := stopped(t, err)
			e.Reason, e.Cause = "quota", errDial
			assert.Contains(t, e.Error(), " (dial tcp: connection refused): boom", "the text uses the exported fields, which a caller may change")
			own.Refund()
		})
	}
	err := retry.Do(context.Background(), retry.Policy{MaxAttempts: 2, Budget: own}, failWith(errBoom))
	assert.Nil(t, stopped(t, err).Budget(), "for another Reason, Budget returns nil")
	assert.Nil(t, (*retry.Error)(nil).Budget())
}

// OnEvent may start calls with the context that it gets. These calls share nothing with the call of
// OnEvent.
func TestCallsThatOnEventStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &retry.Budget{Size: 100}
		p := retry.Policy{MaxAttempts: 3, Budget: b}
		watched := p
		watched.OnEvent = func(ctx context.Context, e retry.Event) {
			go func() { _ = retry.Do(ctx, p, failWith(errDial)) }()
		}
		_ = retry.Do(t.Context(), watched, failWith(errDial))
		synctest.Wait()
		assert.Equal(t, 100-2-2*9, b.Left())
	})
}
