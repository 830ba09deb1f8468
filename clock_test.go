package retry_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// slowAt returns an OnEvent that records every event and takes d for each event
// of the given kind.
func slowAt(told *watch, kind retry.EventKind, d time.Duration) func(context.Context, retry.Event) {
	return func(ctx context.Context, e retry.Event) {
		told.event(ctx, e)
		if e.Kind == kind {
			time.Sleep(d)
		}
	}
}

func TestAWaitEndsAtDueWhateverOnEventTook(t *testing.T) {
	for _, row := range []struct {
		name    string
		onEvent time.Duration
		starts  time.Duration // of the second attempt, since the start
	}{
		{"nothing", 0, 10 * time.Second},
		{"a part of the wait", 4 * time.Second, 10 * time.Second},
		{"all but a nanosecond", 10*time.Second - 1, 10 * time.Second},
		{"just the wait", 10 * time.Second, 10 * time.Second},
		{"more than the wait", 25 * time.Second, 25 * time.Second},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			start := time.Now()
			var told watch
			p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(10 * time.Second), Budget: &retry.Budget{Size: 5}}
			p.OnEvent = slowAt(&told, retry.RetryScheduled, row.onEvent)
			runs := 0
			e := stopped(t, call(t.Context(), p, fails(&runs)))
			assert.Equal(t, start.Add(10*time.Second), told.of(retry.RetryScheduled)[0].Due)
			assert.Equal(t, start.Add(row.starts), told.of(retry.AttemptStarted)[1].Time)
			assert.Equal(t, 10*time.Second, e.Waited, "the whole delay, even if OnEvent takes part of it")
			assert.Equal(t, 4, tokens(p.Budget))
		})
	}
}

// Time that the user's functions take before the decision has elapsed too: the
// clock is read once, after they have returned.
func TestSlowFunctionsAreJudgedWithTheDelay(t *testing.T) {
	slow := func(d time.Duration) map[string]retry.Policy {
		base := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}
		retryIf, choose, curve := base, base, base
		retryIf.RetryIf = func(error) bool { time.Sleep(d); return true }
		choose.Classify = func(error) *retry.Class { time.Sleep(d); return nil }
		curve.Backoff = retry.BackoffFunc(func(int) time.Duration { time.Sleep(d); return time.Second })
		return map[string]retry.Policy{"RetryIf": retryIf, "Classify": choose, "Backoff": curve}
	}
	for _, row := range []struct {
		name    string
		takes   time.Duration
		elapsed retry.Reason
	}{
		{"in time", 4 * time.Second, retry.ReasonRetry},
		{"too late by a nanosecond", 4*time.Second + 1, retry.ReasonElapsed},
		{"much too late", time.Hour, retry.ReasonElapsed},
	} {
		for function, p := range slow(row.takes) {
			everyWay(t, row.name+"/"+function+", MaxElapsed", func(t *testing.T, call caller) {
				p := p
				p.MaxElapsed = 5 * time.Second
				start := time.Now()
				var told watch
				p.OnEvent = told.event
				runs := 0
				err := call(t.Context(), p, fails(&runs))
				assert.Equal(t, retry.ReasonElapsed, retry.ReasonOf(err), "at the second failure at the latest")
				if row.elapsed == retry.ReasonElapsed {
					assert.Equal(t, counts{1, 1, 0, 1}, told.counts())
					return
				}
				scheduled := told.of(retry.RetryScheduled)[0]
				assert.Equal(t, row.takes, scheduled.Elapsed, "the same reading of the clock as the decision")
				assert.Equal(t, start.Add(row.takes+time.Second), scheduled.Due)
				assert.Equal(t, scheduled.Due, told.of(retry.AttemptStarted)[1].Time)
			})
			everyWay(t, row.name+"/"+function+", deadline", func(t *testing.T, call caller) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second+1)
				defer cancel()
				start, runs := time.Now(), 0
				err := call(ctx, p, fails(&runs))
				assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
				if row.elapsed == retry.ReasonElapsed {
					assert.Equal(t, 1, runs)
					assert.Equal(t, row.takes, time.Since(start), "nothing of the wait")
				} else {
					assert.Equal(t, 2, runs)
				}
			})
		}
	}
}

// At the time of the decision, every scheduled retry was within MaxElapsed.
func TestElapsedAndDelayOfEveryRetryScheduledAreWithinMaxElapsed(t *testing.T) {
	everyWay(t, "slow everywhere", func(t *testing.T, call caller) {
		var told watch
		p := retry.Policy{MaxElapsed: 30 * time.Second, Backoff: retry.Linear(time.Second), Jitter: retry.Proportional(.5), Source: constant(7)}
		p.RetryIf = func(error) bool { time.Sleep(300 * time.Millisecond); return true }
		p.OnEvent = slowAt(&told, retry.AttemptFinished, 700*time.Millisecond)
		runs := 0
		err := call(t.Context(), p, fails(&runs))
		assert.Equal(t, retry.ReasonElapsed, retry.ReasonOf(err))
		require.Greater(t, runs, 3)
		for _, e := range told.of(retry.RetryScheduled) {
			assert.LessOrEqual(t, e.Elapsed+e.Delay, p.MaxElapsed)
		}
	})
}

// If OnEvent takes longer than the wait, the retry is checked once more.
func TestARetryThatOnEventMadeTooLateIsNotStarted(t *testing.T) {
	everyWay(t, "for MaxElapsed", func(t *testing.T, call caller) {
		for _, row := range []struct {
			onEvent time.Duration
			runs    int
		}{{5 * time.Second, 2}, {5*time.Second + 1, 1}, {10 * time.Second, 1}} {
			var told watch
			p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second), MaxElapsed: 5 * time.Second, Budget: &retry.Budget{Size: 3}}
			p.OnEvent = slowAt(&told, retry.RetryScheduled, row.onEvent)
			shared := &retry.Budget{Size: 3}
			start, runs := time.Now(), 0
			err := call(retry.WithBudget(t.Context(), shared), p, fails(&runs))
			require.Equal(t, row.runs, runs)
			if runs == 2 {
				continue
			}
			assert.Equal(t, row.onEvent, time.Since(start))
			assert.Equal(t, counts{1, 1, 1, 1}, told.counts())
			assert.Equal(t, &retry.Error{Reason: retry.ReasonElapsed, Attempts: 1, Delay: time.Second, Err: errDial}, plain(err))
			assert.EqualError(t, err, "retry: out of time after 1 attempt ("+row.onEvent.Round(time.Second).String()+" have passed, MaxElapsed is 5s): dial tcp: connection refused",
				"the text rounds durations")
			assert.Equal(t, []int{3, 3}, []int{p.Budget.Left(), shared.Left()}, "every token comes back")
		}
	})
	everyWay(t, "for the deadline, whose timer has not fired", func(t *testing.T, call caller) {
		var told watch
		p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second), Budget: &retry.Budget{Size: 3}}
		p.OnEvent = slowAt(&told, retry.RetryScheduled, 5*time.Second)
		runs := 0
		err := call(late{t.Context(), time.Now().Add(5 * time.Second)}, p, fails(&runs))
		assert.Equal(t, 1, runs)
		assert.Equal(t, counts{1, 1, 1, 1}, told.counts())
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualError(t, err, "retry: deadline too close after 1 attempt (the next delay is 1s, 0s are left): dial tcp: connection refused")
		assert.Equal(t, 3, p.Budget.Left())
	})
	everyWay(t, "a wait of 0: OnEvent must not exceed either bound", func(t *testing.T, call caller) {
		var told watch
		p := retry.Policy{MaxAttempts: 2, MaxElapsed: time.Second}
		p.OnEvent = slowAt(&told, retry.RetryScheduled, 2*time.Second)
		runs := 0
		assert.Equal(t, retry.ReasonElapsed, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
		assert.Equal(t, 1, runs)
	})
	everyWay(t, "time that OnEvent takes at AttemptStarted does not stop the call", func(t *testing.T, call caller) {
		var told watch
		p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second), MaxElapsed: 5 * time.Second}
		p.OnEvent = func(ctx context.Context, e retry.Event) {
			told.event(ctx, e)
			if e.Kind == retry.AttemptStarted && e.Attempt == 2 {
				time.Sleep(time.Hour)
			}
		}
		runs := 0
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
		assert.Equal(t, 2, runs)
	})
}

// late is a context whose deadline has passed without ending it, as happens
// between the deadline and the firing of its timer.
type late struct {
	context.Context
	deadline time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.deadline, true }

// waiter returns everySecond with a Wait.
func waiter(wait func(ctx context.Context, d time.Duration) (time.Duration, error)) retry.Policy {
	p := everySecond
	p.Wait = wait
	return p
}

func TestWaitBeforeARetry(t *testing.T) {
	everyWay(t, "the retry starts when it returns", func(t *testing.T, call caller) {
		start, runs, calls := time.Now(), 0, 0
		p := waiter(func(_ context.Context, d time.Duration) (time.Duration, error) {
			calls++
			assert.Equal(t, time.Second, d)
			time.Sleep(400 * time.Millisecond)
			return 0, nil
		})
		e := stopped(t, call(t.Context(), p, fails(&runs)))
		assert.Equal(t, 2, calls, "once for each retry")
		assert.Equal(t, 800*time.Millisecond, time.Since(start))
		assert.Equal(t, 800*time.Millisecond, e.Waited)
	})
	everyWay(t, "without a delay", func(t *testing.T, call caller) {
		runs, calls := 0, 0
		p := waiter(func(_ context.Context, d time.Duration) (time.Duration, error) {
			calls++
			assert.Zero(t, d)
			return 0, nil
		})
		p.Backoff = nil
		stopped(t, call(t.Context(), p, fails(&runs)))
		assert.Equal(t, 2, calls)
	})
	everyWay(t, "after RetryScheduled", func(t *testing.T, call caller) {
		var order []string
		p := waiter(func(context.Context, time.Duration) (time.Duration, error) {
			order = append(order, "the wait")
			return 0, nil
		})
		p.MaxAttempts = 2
		p.OnEvent = func(_ context.Context, e retry.Event) { order = append(order, string(e.Kind)) }
		runs := 0
		stopped(t, call(t.Context(), p, fails(&runs)))
		assert.Equal(t, []string{"attempt_started", "attempt_finished", "retry_scheduled", "the wait", "attempt_started", "attempt_finished", "stopped"}, order)
	})
	everyWay(t, "with the context of the call", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := waiter(func(got context.Context, _ time.Duration) (time.Duration, error) {
			assert.True(t, ctx == got)
			return 0, nil
		})
		p.AttemptTimeout = time.Hour
		runs := 0
		stopped(t, call(ctx, p, fails(&runs)))
		assert.Equal(t, 3, runs)
	})
	everyWay(t, "a panic gives the token back", func(t *testing.T, call caller) {
		p := waiter(func(context.Context, time.Duration) (time.Duration, error) { panic("wait") })
		p.Budget = &retry.Budget{Size: 3}
		runs := 0
		assert.PanicsWithValue(t, "wait", func() { _ = call(t.Context(), p, fails(&runs)) })
		assert.Equal(t, 3, p.Budget.Left())
	})
	everyWay(t, "it cancels the context: the call stops", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		p := waiter(func(context.Context, time.Duration) (time.Duration, error) { cancel(); return 0, nil })
		start, runs := time.Now(), 0
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(call(ctx, p, fails(&runs))))
		assert.Equal(t, 1, runs)
		assert.Zero(t, time.Since(start))
	})
}

// skips is a Wait that skips all of it.
func skips(_ context.Context, d time.Duration) (time.Duration, error) { return d, nil }

func TestASkippedWaitHasPassedOnTheClockOfTheCall(t *testing.T) {
	everyWay(t, "the events are those of a call that waits", func(t *testing.T, call caller) {
		p := retry.Policy{
			MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.Proportional(.2), Source: constant(7),
			MaxElapsed: time.Minute, Budget: &retry.Budget{Size: 9},
		}
		fail := func(context.Context) error { time.Sleep(time.Millisecond); return retry.After(3*time.Second, errDial) }
		run := func(p retry.Policy) (events []retry.Event, e *retry.Error, took time.Duration) {
			var told watch
			p.OnEvent = told.event
			start := time.Now()
			e = plain(call(t.Context(), p, fail))
			took = time.Since(start)
			for _, event := range told.events { // with times relative to the start
				event.Time = time.Time{}.Add(event.Time.Sub(start))
				if !event.Due.IsZero() {
					event.Due = time.Time{}.Add(event.Due.Sub(start))
				}
				event.Err, event.Cause = nil, nil
				events = append(events, event)
			}
			e.Err = nil
			return events, e, took
		}
		waited, e, _ := run(p)
		p.Wait = skips
		skipped, same, took := run(p)
		assert.Equal(t, waited, skipped)
		assert.Equal(t, e, same)
		assert.Equal(t, 4*time.Millisecond, took)
	})
	everyWay(t, "MaxElapsed and the deadline count the delays that were skipped", func(t *testing.T, call caller) {
		p := retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Fixed(7 * time.Second), Wait: skips}
		start, runs := time.Now(), 0
		assert.Equal(t, retry.ReasonElapsed, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
		assert.Equal(t, 9, runs)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		runs = 0
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(call(ctx, p, fails(&runs))))
		assert.Equal(t, 5, runs)
		assert.Zero(t, time.Since(start))
	})
}
