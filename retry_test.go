package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

func TestDoValue(t *testing.T) {
	for _, row := range []struct {
		name   string
		policy retry.Policy
		done   bool // the context is done before the call
		fn     func(run int, cancel func()) (int, error)
		want   int
	}{
		{"the value of the attempt that succeeded", retry.Policy{MaxAttempts: 3}, false, func(run int, _ func()) (int, error) {
			if run < 3 {
				return -run, errDial
			}
			return 7, nil
		}, 7},
		{"zero if there is an error", retry.Policy{MaxAttempts: 3}, false, func(int, func()) (int, error) { return 7, errDial }, 0},
		{"zero if the context ends in the attempt", retry.Policy{MaxAttempts: 3}, false,
			func(_ int, cancel func()) (int, error) { cancel(); return 7, errDial }, 0},
		{"zero if no attempt was made", retry.Policy{MaxAttempts: 3}, true, func(int, func()) (int, error) { return 7, nil }, 0},
		{"the value under an invalid policy", retry.Policy{MaxAttempts: -2}, false, func(int, func()) (int, error) { return 7, nil }, 7},
		{"the value is returned even if the context is done", retry.Policy{MaxAttempts: 3}, false,
			func(_ int, cancel func()) (int, error) { cancel(); return 7, nil }, 7},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			if row.done {
				cancel()
			}
			runs := 0
			got, err := retry.DoValue(ctx, row.policy, func(context.Context) (int, error) { runs++; return row.fn(runs, cancel) })
			assert.Equal(t, row.want, got)
			assert.Equal(t, row.want == 0, err != nil)
		})
	}
}

func TestOnePolicyForManyGoroutines(t *testing.T) {
	type key struct{}
	everyWay(t, "the same seed gives the same delays", func(t *testing.T, call caller) {
		const goroutines = 100
		p := retry.Policy{
			MaxAttempts: 10, Backoff: retry.Exponential{Base: 100 * time.Millisecond}, MaxDelay: 3 * time.Second, Jitter: retry.FullJitter,
			MaxElapsed: time.Hour, AttemptTimeout: time.Minute, Source: constant(7), Budget: &retry.Budget{Size: goroutines * 9, Ratio: .5},
			RetryIf: func(error) bool { return true }, Classify: func(error) *retry.Class { return nil },
			OnEvent: func(ctx context.Context, e retry.Event) {
				if e.Kind == retry.RetryScheduled {
					delays := ctx.Value(key{}).(*[]time.Duration)
					*delays = append(*delays, e.Delay)
				}
			},
		}
		var want []time.Duration
		for n := 1; n < 10; n++ {
			want = append(want, p.Next(retry.Attempt{Number: n, Err: errDial, Seed: 7}).Delay)
		}
		var all sync.WaitGroup
		got := make([][]time.Duration, goroutines)
		for i := range got {
			all.Go(func() {
				err := call(context.WithValue(t.Context(), key{}, &got[i]), p, failWith(errDial))
				assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
			})
		}
		all.Wait()
		for _, delays := range got {
			assert.Equal(t, want, delays)
		}
	})
}

// The type `failed` is a context with its own error.
type failed struct {
	context.Context
	err error
}

func (c failed) Err() error { return c.err }

// errList is an error type whose values cannot be compared.
type errList []error

func (errList) Error() string { return "several" }

// incomparable is a context that panics when it is compared.
type incomparable struct {
	context.Context
	fields []string
}

func TestContextEndedBeforeTheFirstAttempt(t *testing.T) {
	own := func(err error) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context { return failed{ctx, err} }
	}
	for _, end := range []struct {
		name   string
		ctx    func(context.Context) context.Context
		reason retry.Reason
		is     []error
	}{
		{"canceled", canceledBy(nil), retry.ReasonCanceled, []error{context.Canceled}},
		{"canceled with a cause", canceledBy(errShutdown), retry.ReasonCanceled, []error{context.Canceled, errShutdown}},
		{"past its deadline", endingIn(0, nil), retry.ReasonDeadline, []error{context.DeadlineExceeded}},
		{"past its deadline with a cause", endingIn(0, errShutdown), retry.ReasonDeadline, []error{context.DeadlineExceeded, errShutdown}},
		{"a context with its own error", own(errShutdown), retry.ReasonCanceled, []error{errShutdown}},
		{"a context with an error that wraps DeadlineExceeded", own(fmt.Errorf("quota: %w", context.DeadlineExceeded)),
			retry.ReasonDeadline, []error{context.DeadlineExceeded}},
		{"a context with an error that cannot be compared", own(errList{context.Canceled}), retry.ReasonCanceled, nil},
		{"a context that cannot be compared", func(ctx context.Context) context.Context {
			return incomparable{canceledBy(errShutdown)(ctx), []string{"trace"}}
		}, retry.ReasonCanceled, []error{context.Canceled, errShutdown}},
	} {
		for name, p := range map[string]retry.Policy{
			"a retry allowed":   everySecond,
			"watched":           {MaxAttempts: 3, OnEvent: func(context.Context, retry.Event) {}},
			"with MaxElapsed":   {MaxAttempts: 3, MaxElapsed: time.Hour},
			"no retry allowed":  {},
			"with HealthyAfter": {MaxAttempts: 3, HealthyAfter: time.Hour},
			"an AttemptTimeout": {MaxAttempts: 3, AttemptTimeout: time.Hour},
		} {
			everyWay(t, end.name+", "+name, func(t *testing.T, call caller) {
				start, runs := time.Now(), 0
				err := call(end.ctx(t.Context()), p, fails(&runs))
				assert.Equal(t, &retry.Error{Reason: end.reason, Cause: stopped(t, err).Cause}, plain(err))
				assert.ErrorContains(t, err, "before the first attempt")
				for _, is := range append(end.is, stopped(t, err).Cause) {
					assert.ErrorIs(t, err, is)
				}
				assert.Zero(t, runs)
				assert.Zero(t, time.Since(start))
			})
		}
	}
}

func TestContextEndedWhileFnRuns(t *testing.T) {
	// The context of each row ends after a minute, or when fn calls cancel.
	for _, row := range []struct {
		name   string
		policy retry.Policy
		fn     func(ctx context.Context, cancel func(), run int) error
		runs   int
		took   time.Duration
		reason retry.Reason
	}{
		{"and fn succeeds: Do returns nil", everySecond, func(_ context.Context, cancel func(), _ int) error {
			cancel()
			return nil
		}, 1, 0, retry.ReasonSuccess},
		{"past its deadline, and fn succeeds: Do returns nil", everySecond, func(context.Context, func(), int) error {
			time.Sleep(time.Hour)
			return nil
		}, 1, time.Hour, retry.ReasonSuccess},
		{"and fn succeeds at the second attempt: Do returns nil", everySecond, func(_ context.Context, cancel func(), run int) error {
			if run == 1 {
				return errDial
			}
			cancel()
			return nil
		}, 2, time.Second, retry.ReasonSuccess},
		{"and fn fails: no wait and no further attempt", everySecond, cancelAndFail(errDial), 1, 0, retry.ReasonCanceled},
		{"and fn fails with a permanent error: the context is the reason", everySecond, cancelAndFail(retry.Permanent(errDial)), 1, 0, retry.ReasonCanceled},
		{"with no delay before the retry", retry.Policy{MaxAttempts: 3}, cancelAndFail(errDial), 1, 0, retry.ReasonCanceled},
		{"in the last attempt: the context is the reason", retry.Policy{MaxAttempts: 1}, cancelAndFail(errDial), 1, 0, retry.ReasonCanceled},
		{"past its deadline, and fn fails", everySecond, func(ctx context.Context, _ func(), _ int) error {
			<-ctx.Done()
			return errDial
		}, 1, time.Minute, retry.ReasonDeadline},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx, cancel := context.WithCancelCause(within(t.Context(), time.Minute, errShutdown))
			start, runs := time.Now(), 0
			err := call(ctx, row.policy, func(ctx context.Context) error { runs++; return row.fn(ctx, func() { cancel(errShutdown) }, runs) })
			assert.Equal(t, row.runs, runs)
			assert.Equal(t, row.took, time.Since(start))
			require.Error(t, ctx.Err())
			if row.reason == retry.ReasonSuccess {
				require.NoError(t, err)
				return
			}
			e := stopped(t, err)
			assert.Equal(t, &retry.Error{Reason: row.reason, Attempts: 1, Err: e.Err, Cause: e.Cause}, plain(err), "there is no Delay")
			for _, is := range []error{ctx.Err(), errShutdown, errDial} {
				assert.ErrorIs(t, err, is)
			}
		})
	}
}

func cancelAndFail(err error) func(ctx context.Context, cancel func(), run int) error {
	return func(_ context.Context, cancel func(), _ int) error { cancel(); return err }
}

// The type `ending` is a context that ends by the clock, and whose Done channel is never closed.
type ending struct {
	context.Context
	at time.Time
}

func (c ending) Err() error {
	if time.Now().Before(c.at) {
		return nil
	}
	return context.DeadlineExceeded
}

// Do checks the context once more after the wait, because the context and the wait may end at the
// same instant.
func TestContextEndsAtTheSameInstantAsTheSleep(t *testing.T) {
	everyWay(t, "by the clock", func(t *testing.T, call caller) {
		runs := 0
		err := call(ending{t.Context(), time.Now().Add(time.Second)}, retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}, fails(&runs))
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.ErrorIs(t, err, errDial)
		assert.Equal(t, 1, runs)
	})
}

func TestContextEndedByACallback(t *testing.T) {
	type change = func(p *retry.Policy, cancel func())
	at := func(kind retry.EventKind, attempt int, backoff retry.Backoff) change {
		return func(p *retry.Policy, cancel func()) {
			p.Backoff = backoff
			p.OnEvent = func(_ context.Context, e retry.Event) {
				if e.Kind == kind && e.Attempt == attempt {
					cancel()
				}
			}
		}
	}
	second := retry.Fixed(time.Second)
	for _, c := range []struct {
		name   string
		change change
		runs   int
		reason retry.Reason
	}{
		{"RetryIf", func(p *retry.Policy, cancel func()) {
			p.RetryIf = func(error) bool { cancel(); return true }
		}, 1, retry.ReasonCanceled},
		{"Classify", func(p *retry.Policy, cancel func()) {
			p.Classify = func(error) *retry.Class { cancel(); return nil }
		}, 1, retry.ReasonCanceled},
		{"Backoff", func(p *retry.Policy, cancel func()) {
			p.Backoff = retry.BackoffFunc(func(int) time.Duration { cancel(); return time.Second })
		}, 1, retry.ReasonCanceled},
		{"OnEvent, an attempt has finished", at(retry.AttemptFinished, 1, second), 1, retry.ReasonCanceled},
		{"OnEvent, a retry is scheduled", at(retry.RetryScheduled, 1, second), 1, retry.ReasonCanceled},
		// If the context ends while OnEvent handles an AttemptStarted, the attempt is still made.
		{"OnEvent, the first attempt starts", at(retry.AttemptStarted, 1, second), 1, retry.ReasonCanceled},
		{"OnEvent, the second attempt starts", at(retry.AttemptStarted, 2, second), 2, retry.ReasonCanceled},
		{"OnEvent, the call has stopped: nothing changes", at(retry.CallFinished, 3, second), 3, retry.ReasonExhausted},
	} {
		everyWay(t, c.name, func(t *testing.T, call caller) {
			ctx, cancel := context.WithCancelCause(t.Context())
			start, runs := time.Now(), 0
			p := everySecond
			c.change(&p, func() { cancel(errShutdown) })
			err := call(ctx, p, fails(&runs))
			assert.Equal(t, c.reason, retry.ReasonOf(err))
			for _, is := range []error{context.Canceled, errShutdown} {
				assert.Equal(t, c.reason == retry.ReasonCanceled, errors.Is(err, is))
			}
			assert.ErrorIs(t, err, errDial)
			assert.Equal(t, []int{c.runs, c.runs}, []int{runs, stopped(t, err).Attempts})
			assert.Equal(t, time.Duration(c.runs-1)*time.Second, time.Since(start))
		})
	}
}

// doneEarly is a context that breaks the contract: its Done channel is closed
// before it has an error.
type doneEarly struct {
	context.Context
	done <-chan struct{}
}

func (d doneEarly) Done() <-chan struct{} { return d.done }

func TestContextThatIsDoneWithoutAnErrorEndsTheCall(t *testing.T) {
	everyWay(t, "in the wait", func(t *testing.T, call caller) {
		runs, start := 0, time.Now()
		err := call(doneEarly{t.Context(), canceledBy(nil)(t.Context()).Done()}, everySecond, fails(&runs))
		assert.EqualError(t, err, "retry: canceled after 1 attempt (the next delay is 1s, <nil>): dial tcp: connection refused")
		assert.Equal(t, 1, runs, "there is no further attempt")
		assert.Zero(t, time.Since(start))
	})
}

func TestDeadlineAndMaxElapsed(t *testing.T) {
	const hour = time.Hour
	for _, row := range []struct {
		name       string
		deadline   time.Duration // the time until the context's deadline; 0: the deadline is now, but the context is not done
		maxElapsed time.Duration
		delay      time.Duration
		took       time.Duration // how long each attempt runs
		reason     retry.Reason
		runs       int
		elapsed    time.Duration
	}{
		{"deadline one nanosecond before the first retry", time.Second - 1, 0, time.Second, 0, retry.ReasonDeadline, 1, 0},
		{"deadline exactly at the first retry", time.Second, 0, time.Second, 0, retry.ReasonDeadline, 1, 0},
		{"deadline one nanosecond after the first retry", time.Second + 1, 0, time.Second, 0, retry.ReasonDeadline, 2, time.Second},
		{"a deadline ahead, and no delay", 1, 0, 0, 0, retry.ReasonExhausted, 3, 0},
		{"a deadline that has come, and no delay: only the end of the context stops the call", 0, 0, 0, 0, retry.ReasonExhausted, 3, 0},
		{"deadline, the longest delay", hour, 0, math.MaxInt64, 0, retry.ReasonDeadline, 1, 0},
		{"MaxElapsed exactly at the last retry", hour, 2 * time.Second, time.Second, 0, retry.ReasonExhausted, 3, 2 * time.Second},
		{"MaxElapsed one nanosecond before the last retry", hour, 2*time.Second - 1, time.Second, 0, retry.ReasonElapsed, 2, time.Second},
		{"MaxElapsed, the attempts take time too", hour, 3 * time.Second, time.Second, time.Second, retry.ReasonElapsed, 2, 3 * time.Second},
		{"MaxElapsed without a delay", hour, time.Minute, 0, time.Minute, retry.ReasonElapsed, 2, 2 * time.Minute},
		{"MaxElapsed does not end an attempt", hour, 2 * time.Minute, time.Second, 2*time.Minute - time.Second, retry.ReasonElapsed, 2, 4*time.Minute - time.Second},
		{"the longest MaxElapsed", 9 * hour, math.MaxInt64, time.Second, hour, retry.ReasonExhausted, 3, 3*hour + 2*time.Second},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(row.delay), MaxElapsed: row.maxElapsed}
			for range 2 { // each call starts its own clock
				var ctx context.Context = late{t.Context(), time.Now()}
				if row.deadline > 0 {
					ctx = within(t.Context(), row.deadline, errShutdown)
				}
				start, runs := time.Now(), 0
				err := call(ctx, p, func(context.Context) error { runs++; time.Sleep(row.took); return errDial })
				assert.Equal(t, &retry.Error{
					Reason: row.reason, Attempts: runs, Waited: row.elapsed - time.Duration(runs)*row.took, Delay: row.delay,
					Err: errDial, Cause: stopped(t, err).Cause,
				}, plain(err), "the Error has the Delay of the retry that was not made")
				assert.Equal(t, row.runs, runs)
				assert.Equal(t, row.elapsed, time.Since(start), "the call stops without waiting")
				assert.Equal(t, row.reason == retry.ReasonDeadline, stopped(t, err).Cause != nil)
				assert.Equal(t, row.reason == retry.ReasonDeadline, errors.Is(err, context.DeadlineExceeded))
				assert.NoError(t, ctx.Err(), "the context has not ended")
				time.Sleep(hour)
			}
		})
	}
}

func TestAttemptTimeout(t *testing.T) {
	type key struct{}
	minute, hour := everySecond, everySecond
	minute.AttemptTimeout, hour.AttemptTimeout = time.Minute, time.Hour
	everyWay(t, "each attempt has its own context", func(t *testing.T, call caller) {
		var attempts []context.Context
		err := call(context.WithValue(t.Context(), key{}, "value"), minute, func(ctx context.Context) error {
			for _, earlier := range attempts {
				assert.ErrorIs(t, earlier.Err(), context.Canceled, "the context of an attempt ends when fn returns")
			}
			attempts = append(attempts, ctx)
			deadline, _ := ctx.Deadline()
			assert.Equal(t, time.Minute, time.Until(deadline))
			assert.Equal(t, "value", ctx.Value(key{}))
			if len(attempts) == 3 {
				return nil
			}
			return errDial
		})
		require.NoError(t, err)
		require.Len(t, attempts, 3)
		assert.ErrorIs(t, attempts[2].Err(), context.Canceled, "after a success, the context of the attempt ends too")
	})
	watched, timed := minute, minute
	watched.OnEvent, timed.MaxElapsed = func(context.Context, retry.Event) {}, time.Hour
	for name, p := range map[string]retry.Policy{"alone": minute, "with OnEvent": watched, "with MaxElapsed": timed} {
		everyWay(t, "the timeout is an ordinary error, "+name, func(t *testing.T, call caller) {
			start, runs := time.Now(), 0
			err := call(t.Context(), p, func(ctx context.Context) error { runs++; <-ctx.Done(); return ctx.Err() })
			assert.Equal(t, &retry.Error{
				Reason: retry.ReasonExhausted, Attempts: 3, Waited: 2 * time.Second, Delay: time.Second, Err: context.DeadlineExceeded,
			}, plain(err))
			assert.Equal(t, 3, runs)
			assert.Equal(t, 3*time.Minute+2*time.Second, time.Since(start))
		})
	}
	everyWay(t, "an earlier deadline of the caller applies and is the reason", func(t *testing.T, call caller) {
		ctx := within(t.Context(), time.Minute, errShutdown)
		start, runs := time.Now(), 0
		err := call(ctx, hour, func(attempt context.Context) error {
			runs++
			want, _ := ctx.Deadline()
			got, _ := attempt.Deadline()
			assert.Equal(t, want, got)
			<-attempt.Done()
			return attempt.Err()
		})
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.ErrorIs(t, err, errShutdown)
		assert.Equal(t, 1, runs)
		assert.Equal(t, time.Minute, time.Since(start))
	})
	everyWay(t, "a cancellation by the caller reaches the attempt", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := call(ctx, hour, func(attempt context.Context) error {
			cancel(errShutdown)
			assert.ErrorIs(t, attempt.Err(), context.Canceled)
			return context.Cause(attempt)
		})
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.Same(t, errShutdown, stopped(t, err).Err)
	})
	everyWay(t, "0: the attempt has the caller's context", func(t *testing.T, call caller) {
		ctx := context.WithValue(t.Context(), key{}, "value")
		require.NoError(t, call(ctx, everySecond, func(attempt context.Context) error {
			assert.True(t, ctx == attempt)
			return nil
		}))
	})
	everyWay(t, "a panic ends the context", func(t *testing.T, call caller) {
		var attempt context.Context
		assert.PanicsWithValue(t, errShutdown, func() {
			_ = call(t.Context(), minute, func(ctx context.Context) error { attempt = ctx; panic(errShutdown) })
		})
		assert.ErrorIs(t, attempt.Err(), context.Canceled)
	})
}

func TestPanicAndGoexitPassThrough(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("fn") }, "Goexit": runtime.Goexit} {
		for attempt := 1; attempt <= 3; attempt++ {
			everyWay(t, fmt.Sprintf("%s in attempt %d", name, attempt), func(t *testing.T, call caller) {
				p := everySecond
				p.Budget = &retry.Budget{Size: 5}
				runs := 0
				recovered, returned := leaves(func() {
					_ = call(t.Context(), p, func(context.Context) error {
						if runs++; runs == attempt {
							leave()
						}
						return errDial
					})
				})
				assert.False(t, returned)
				assert.Equal(t, name == "panic", recovered == "fn")
				assert.Equal(t, attempt, runs)
				assert.Equal(t, 5-(attempt-1), tokens(p.Budget), "the Budget paid for each retry that was made")
			})
		}
		for _, kind := range []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.RetryScheduled, retry.CallFinished} {
			everyWay(t, fmt.Sprintf("%s in OnEvent of %s", name, kind), func(t *testing.T, call caller) {
				p := everySecond
				p.Budget = &retry.Budget{Size: 5}
				p.OnEvent = func(_ context.Context, e retry.Event) {
					if e.Kind == kind {
						leave()
					}
				}
				runs := 0
				_, returned := leaves(func() { _ = call(t.Context(), p, fails(&runs)) })
				assert.False(t, returned)
				assert.Equal(t, 5-max(0, runs-1), tokens(p.Budget), "after %d runs: a retry that was not made takes nothing", runs)
			})
		}
	}
}

// A call without an AttemptTimeout allocates nothing if its first attempt succeeds.
func TestSuccessAtOnceAllocatesNothing(t *testing.T) {
	ctx := retry.WithBudget(t.Context(), &retry.Budget{Size: 9})
	p := retry.Default()
	p.MaxElapsed, p.HealthyAfter, p.Budget = time.Minute, time.Minute, &retry.Budget{Size: 9, Ratio: .1, RefillEvery: time.Minute, Remember: time.Minute}
	p.OnEvent = func(context.Context, retry.Event) {}
	value := func(context.Context) (int, error) { return 42, nil }
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = retry.DoValue(ctx, p, value) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = retry.Do(ctx, p, failWith(nil)) }))
}
