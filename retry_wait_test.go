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

func TestWait(t *testing.T) {
	times := func(factor float64) func(time.Duration) time.Duration {
		return func(d time.Duration) time.Duration { return time.Duration(factor * float64(d)) }
	}
	minute := func(time.Duration) time.Duration { return time.Minute }
	p := retry.Policy{MaxAttempts: 4, Backoff: retry.Linear(time.Second)}
	short := retry.Policy{MaxElapsed: 4 * time.Second, Backoff: retry.Fixed(time.Second)}
	for _, row := range []struct {
		name   string
		policy retry.Policy
		sleeps func(time.Duration) time.Duration
		skips  func(time.Duration) time.Duration
		took   time.Duration // how long the call takes in virtual time
		want   string
	}{
		{"early: the network is back", p, times(.5), times(0), 3 * time.Second, "attempts exhausted after 4 attempts (3s waited)"},
		{"late", p, times(2), times(0), 12 * time.Second, "attempts exhausted after 4 attempts (12s waited)"},
		{"late by less than a millisecond, as timers are", p, func(d time.Duration) time.Duration { return d + 999*time.Microsecond }, times(0),
			6*time.Second + 2997*time.Microsecond, "attempts exhausted after 4 attempts (6s waited)"},
		{"late by a millisecond", p, func(d time.Duration) time.Duration { return d + time.Millisecond }, times(0),
			6*time.Second + 3*time.Millisecond, "attempts exhausted after 4 attempts (6.003s waited)"},
		{"skips the whole wait", p, times(0), times(1), 0, "attempts exhausted after 4 attempts (6s waited)"},
		{"skips more than the wait", p, times(0), times(10), 0, "attempts exhausted after 4 attempts (6s waited)"},
		{"skips a negative time", p, times(0), times(-1), 0, "attempts exhausted after 4 attempts"},
		{"skipped waits count for MaxElapsed", short, times(0), times(1), 0,
			"out of time after 5 attempts (4s waited, the next delay of 1s would exceed MaxElapsed 4s)"},
		{"skipped waits count for a deadline in an hour", retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(25 * time.Minute)}, times(0), times(1), 0,
			"deadline too close after 3 attempts (50m0s waited, the next delay is 25m0s, 10m0s are left)"},
		{"late, after MaxElapsed", short, minute, times(0), time.Minute,
			"out of time after 1 attempt (1m0s waited, 1m0s have passed, MaxElapsed is 4s)"},
		{"late without a delay", retry.Policy{MaxAttempts: 3, MaxElapsed: time.Second}, minute, times(0), time.Minute,
			"out of time after 1 attempt (1m0s waited, 1m0s have passed, MaxElapsed is 1s)"},
		{"skips the whole wait, and is late", short, minute, times(1), time.Minute, "out of time after 1 attempt (1m1s waited, 1m1s have passed, MaxElapsed is 4s)"},
	} {
		for _, watch := range []func(context.Context, retry.Event){nil, func(context.Context, retry.Event) {}} {
			bubble(t, row.name, func(t *testing.T) {
				row.policy.OnEvent = watch
				row.policy.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) {
					time.Sleep(row.sleeps(d))
					return row.skips(d), nil
				}
				start := time.Now()
				err := retry.Do(within(t.Context(), time.Hour, nil), row.policy, failWith(errBoom))
				assert.EqualError(t, err, "retry: "+row.want+": boom")
				assert.Equal(t, row.took, time.Since(start))
			})
		}
	}
}

// Wait is called once for each retry, after the RetryScheduled, even if the delay is 0. Its
// arguments are the context of the call and the rest of the delay.
func TestWhenWaitIsCalled(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		ctx := context.WithValue(t.Context(), key{}, "the call's")
		var log []string
		p := retry.Policy{MaxAttempts: 4, Backoff: retry.Schedule{0, time.Second, time.Second}, AttemptTimeout: time.Hour}
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				log = append(log, fmt.Sprintf("scheduled %v", e.Delay))
				time.Sleep([]time.Duration{0, 400 * time.Millisecond, 2 * time.Second}[e.Attempt-1])
			}
		}
		p.Wait = func(ctx context.Context, d time.Duration) (time.Duration, error) {
			_, bounded := ctx.Deadline()
			log = append(log, fmt.Sprintf("wait %v, context %v, bounded %v", d, ctx.Value(key{}), bounded))
			return d, nil
		}
		err := retry.Do(ctx, p, func(context.Context) error { log = append(log, "attempt"); return errBoom })
		assert.Equal(t, []string{
			"attempt",
			"scheduled 0s", "wait 0s, context the call's, bounded false", "attempt",
			"scheduled 1s", "wait 600ms, context the call's, bounded false", "attempt",
			"scheduled 1s", "wait 0s, context the call's, bounded false", "attempt",
		}, log)
		assert.Equal(t, 2*time.Second, stopped(t, err).Waited, "Waited includes the part of the wait that OnEvent took")
	})
}

func TestAWaitThatFails(t *testing.T) {
	for _, row := range []struct {
		name string
		wait func(cancel func(), d time.Duration) error
		want string
		is   error
	}{
		{"the error of Wait is the Cause", func(func(), time.Duration) error { return errShutdown },
			"the wait failed after 1 attempt (the next delay is 1h0m0s, the server shuts down)", errShutdown},
		{"the context is canceled, and Wait returns an error", func(cancel func(), _ time.Duration) error { cancel(); return errShutdown },
			"canceled after 1 attempt (the next delay is 1h0m0s, context canceled)", context.Canceled},
		{"the context is canceled, and Wait returns nil", func(cancel func(), _ time.Duration) error { cancel(); return nil },
			"canceled after 1 attempt (the next delay is 1h0m0s, context canceled)", context.Canceled},
		{"the deadline passes during Wait", func(_ func(), d time.Duration) error { time.Sleep(3 * d); return nil },
			"deadline exceeded after 1 attempt (the next delay is 1h0m0s, context deadline exceeded)", context.DeadlineExceeded},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			own, outer := &retry.Budget{Size: 3}, &retry.Budget{Size: 3}
			ctx, cancel := context.WithCancel(within(retry.WithBudget(t.Context(), outer), 2*time.Hour, nil))
			defer cancel()
			var told watch
			p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Hour), Budget: own, OnEvent: told.event}
			p.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) { return 0, row.wait(cancel, d) }
			err := call(ctx, p, failWith(errBoom))
			assert.EqualError(t, err, "retry: "+row.want+": boom")
			require.ErrorIs(t, err, row.is)
			assert.Equal(t, row.is == errShutdown, errors.Is(err, errShutdown))
			assert.Equal(t, map[bool]error{true: errBoom, false: row.is}[row.is == errShutdown], retry.Unwrap(err))
			e, last := stopped(t, err), told.of(retry.CallFinished)[0]
			assert.Equal(t, []any{e.Reason, e.Cause}, []any{last.Reason, last.Cause})
			assert.Equal(t, []int{3, 3}, []int{own.Left(), outer.Left()}, "the Budgets get the retry back")
		})
	}
}

// The time that the user's functions take before the decision counts as elapsed too. The reason is
// that the clock is read once, after these functions have returned.
func TestSlowFunctionsAreJudgedWithTheDelay(t *testing.T) {
	for function, slow := range map[string]func(p *retry.Policy, d time.Duration){
		"RetryIf": func(p *retry.Policy, d time.Duration) {
			p.RetryIf = func(error) bool { time.Sleep(d); return true }
		},
		"Classify": func(p *retry.Policy, d time.Duration) {
			p.Classify = func(error) *retry.Class { time.Sleep(d); return nil }
		},
		"Backoff": func(p *retry.Policy, d time.Duration) {
			p.Backoff = retry.BackoffFunc(func(int) time.Duration { time.Sleep(d); return time.Second })
		},
		"OnEvent": func(p *retry.Policy, d time.Duration) {
			record := p.OnEvent
			p.OnEvent = func(ctx context.Context, e retry.Event) {
				if record(ctx, e); e.Kind == retry.AttemptFinished {
					time.Sleep(d)
				}
			}
		},
	} {
		for takes, runs := range map[time.Duration]int{4 * time.Second: 2, 4*time.Second + 1: 1, time.Hour: 1} {
			for bound, reason := range map[string]retry.Reason{"MaxElapsed": retry.ReasonElapsed, "deadline": retry.ReasonDeadline} {
				everyWay(t, fmt.Sprintf("%s takes %v/%s", function, takes, bound), func(t *testing.T, call caller) {
					var told watch
					ctx, p := t.Context(), retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), OnEvent: told.event}
					if p.MaxElapsed = 5 * time.Second; reason == retry.ReasonDeadline {
						p.MaxElapsed = 0
						ctx = within(ctx, 5*time.Second+1, nil)
					}
					slow(&p, takes)
					start := time.Now()
					err := call(ctx, p, failWith(errDial))
					assert.Equal(t, reason, retry.ReasonOf(err), "the call stops at the first or the second failure")
					assert.Equal(t, counts{runs, runs, runs - 1, 1}, told.counts())
					for _, scheduled := range told.of(retry.RetryScheduled) {
						assert.Equal(t, takes, scheduled.Elapsed, "Elapsed is the time of the decision")
						assert.Equal(t, start.Add(takes+time.Second), scheduled.Due)
						assert.Equal(t, scheduled.Due, told.of(retry.AttemptStarted)[1].Time)
					}
					if runs == 1 {
						assert.Equal(t, takes, time.Since(start), "the call stops without waiting")
					}
				})
			}
		}
	}
}

// The type `late` is a context whose deadline may have passed while the context is not done yet. A
// real context is in this state after its deadline until its timer fires.
type late struct {
	context.Context
	deadline time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.deadline, true }

// The time that OnEvent takes is part of the wait, which ends at Due. If OnEvent takes longer than
// the wait, MaxElapsed and the deadline are checked again.
func TestAWaitEndsAtDueWhateverOnEventTook(t *testing.T) {
	second := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}
	bounded := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second), MaxElapsed: 5 * time.Second}
	for _, row := range []struct {
		name    string
		policy  retry.Policy
		kind    retry.EventKind // the kind of event for which OnEvent is slow
		onEvent time.Duration
		late    bool   // the context has a deadline in 5s, but never ends
		want    string // the text of the error; "": the retry is made
	}{
		{"nothing", second, retry.RetryScheduled, 0, false, ""},
		{"a part of the wait", second, retry.RetryScheduled, 400 * time.Millisecond, false, ""},
		{"all but a nanosecond", second, retry.RetryScheduled, time.Second - 1, false, ""},
		{"exactly the wait", second, retry.RetryScheduled, time.Second, false, ""},
		{"more than the wait", second, retry.RetryScheduled, time.Hour, false, ""},
		{"MaxElapsed, just in time", bounded, retry.RetryScheduled, 5 * time.Second, false, ""},
		{"MaxElapsed, a nanosecond late: the text rounds durations", bounded, retry.RetryScheduled, 5*time.Second + 1, false,
			"out of time after 1 attempt (5s have passed, MaxElapsed is 5s)"},
		{"MaxElapsed, late", bounded, retry.RetryScheduled, 10 * time.Second, false, "out of time after 1 attempt (10s have passed, MaxElapsed is 5s)"},
		{"the deadline, just in time", second, retry.RetryScheduled, 5*time.Second - 1, true, ""},
		{"the deadline", second, retry.RetryScheduled, 5 * time.Second, true, "deadline too close after 1 attempt (the next delay is 1s, 0s are left)"},
		{"a wait of 0", retry.Policy{MaxAttempts: 2, MaxElapsed: time.Second}, retry.RetryScheduled, 2 * time.Second, false,
			"out of time after 1 attempt (2s have passed, MaxElapsed is 1s)"},
		{"a slow OnEvent of an AttemptStarted does not stop the call", bounded, retry.AttemptStarted, 3 * time.Second, false, ""},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			var told watch
			p, own, shared := row.policy, &retry.Budget{Size: 3}, &retry.Budget{Size: 3}
			p.Budget = own
			p.OnEvent = func(ctx context.Context, e retry.Event) {
				if told.event(ctx, e); e.Kind == row.kind {
					time.Sleep(row.onEvent)
				}
			}
			ctx := retry.WithBudget(t.Context(), shared)
			if row.late {
				ctx = late{ctx, time.Now().Add(5 * time.Second)}
			}
			start := time.Now()
			err := call(ctx, p, failWith(errDial))
			if scheduled := told.of(retry.RetryScheduled)[0]; row.want == "" {
				assert.Equal(t, counts{2, 2, 1, 1}, told.counts())
				assert.Equal(t, scheduled.Time.Add(time.Second), scheduled.Due)
				if row.kind == retry.RetryScheduled {
					assert.Equal(t, scheduled.Time.Add(max(time.Second, row.onEvent)), told.of(retry.AttemptStarted)[1].Time)
				}
				assert.Equal(t, time.Second, stopped(t, err).Waited, "the whole delay, even if OnEvent takes part of it")
				assert.Equal(t, []int{2, 2}, []int{own.Left(), shared.Left()})
				return
			}
			assert.EqualError(t, err, "retry: "+row.want+": dial tcp: connection refused")
			assert.Equal(t, row.onEvent, time.Since(start))
			assert.Equal(t, counts{1, 1, 1, 1}, told.counts())
			assert.Equal(t, []int{3, 3}, []int{own.Left(), shared.Left()}, "the Budgets get the retry back")
			assert.Equal(t, row.late, errors.Is(err, context.DeadlineExceeded))
		})
	}
}

// The function `running` returns a function whose attempts run for these times and then fail.
// Further attempts run for the last of these times.
func running(times ...time.Duration) func(context.Context) error {
	n := 0
	return func(context.Context) error {
		n++
		time.Sleep(times[min(n, len(times))-1])
		return errBoom
	}
}

func TestHealthyAfter(t *testing.T) {
	const hour = time.Hour
	five := func(timeout time.Duration) retry.Policy {
		return retry.Policy{MaxAttempts: 5, HealthyAfter: time.Minute, AttemptTimeout: timeout}
	}
	for _, row := range []struct {
		name   string
		policy retry.Policy
		times  []time.Duration
		want   string
		resets int
	}{
		{"five quick failures end a call of five", five(0), []time.Duration{time.Second}, "attempts exhausted after 5 attempts (40ms waited)", 0},
		{"the first attempt runs past HealthyAfter", five(0), []time.Duration{hour, 0}, "attempts exhausted after 5 attempts (40ms waited)", 1},
		{"several attempts run past HealthyAfter", five(0), []time.Duration{0, hour, 0, 0, hour, hour, 0}, "attempts exhausted after 10 attempts (90ms waited, 5 count, because attempt 6 ran past HealthyAfter)", 3},
		{"an attempt that runs exactly HealthyAfter counts", five(0), []time.Duration{time.Minute, 0}, "attempts exhausted after 5 attempts (40ms waited)", 1},
		{"an attempt that runs a nanosecond less does not count", five(0), []time.Duration{time.Minute - 1, 0}, "attempts exhausted after 5 attempts (40ms waited)", 0},
		{"with MaxAttempts 1, there is no retry after HealthyAfter", retry.Policy{MaxAttempts: 1, HealthyAfter: time.Minute}, []time.Duration{hour},
			"attempts exhausted after 1 attempt", 1},
		{"an AttemptTimeout below HealthyAfter ends every attempt before", five(time.Minute), []time.Duration{2 * time.Minute, 0}, "attempts exhausted after 5 attempts (40ms waited)", 0},
		{"an AttemptTimeout above HealthyAfter, reached", five(hour), []time.Duration{hour, 0}, "attempts exhausted after 5 attempts (40ms waited)", 0},
		{"an AttemptTimeout above HealthyAfter, not reached", five(hour), []time.Duration{hour - 1, 0}, "attempts exhausted after 5 attempts (40ms waited)", 1},
		{"MaxElapsed counts from the end of the attempt past HealthyAfter",
			retry.Policy{MaxElapsed: 10 * time.Second, HealthyAfter: time.Minute, Backoff: retry.Fixed(3 * time.Second)}, []time.Duration{hour, 0},
			"out of time after 4 attempts (9s waited, the next delay of 3s would exceed MaxElapsed 10s)", 1},
		{"Waited includes the waits before the attempt past HealthyAfter", retry.Policy{MaxAttempts: 2, HealthyAfter: time.Minute, Backoff: retry.Fixed(time.Second)},
			[]time.Duration{0, hour, 0}, "attempts exhausted after 3 attempts (2s waited, 2 count, because attempt 2 ran past HealthyAfter)", 1},
		{"each wait is at least 10ms, whatever the delay is", retry.Policy{MaxAttempts: 2, HealthyAfter: time.Millisecond, MaxDelay: 3, Backoff: retry.Fixed(2 * time.Second)},
			[]time.Duration{hour, hour, hour, 0}, "attempts exhausted after 4 attempts (30ms waited, 2 count, because attempt 3 ran past HealthyAfter)", 3},
		{"an invalid policy does not begin anew", retry.Policy{MaxAttempts: 5, HealthyAfter: time.Minute, MaxDelay: -1}, []time.Duration{hour},
			"invalid policy after 1 attempt (MaxDelay is -1ns: write 0 for none, or a positive duration)", 0},
	} {
		for _, watched := range []bool{false, true} {
			bubble(t, row.name, func(t *testing.T) {
				resets := 0
				if watched {
					row.policy.OnEvent = func(_ context.Context, e retry.Event) {
						if e.Reset {
							resets++
						}
					}
				}
				err := retry.Do(t.Context(), row.policy, running(row.times...))
				assert.EqualError(t, err, "retry: "+row.want+": boom")
				if !watched {
					return
				}
				assert.Equal(t, row.resets, resets)
			})
		}
	}
}

func TestTenHealthyDaysDoNotDrainABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, outer := &retry.Budget{Size: 3}, &retry.Budget{Size: 3}
		var told watch
		p := retry.Policy{MaxAttempts: 100, Backoff: retry.Fixed(time.Second), HealthyAfter: time.Minute, Budget: own, OnEvent: told.event}
		days := make([]time.Duration, 240+1) // 240 attempts of an hour, and then attempts that fail at once
		for i := range 240 {
			days[i] = time.Hour
		}
		err := retry.Do(retry.WithBudget(t.Context(), outer), p, running(days...))
		assert.EqualError(t, err, "retry: retry budget exhausted after 244 attempts (4m3s waited, 5 count, because attempt 240 ran past HealthyAfter, a retry would have waited 1s): boom",
			"240 retries take nothing, and three take a token")
		assert.Equal(t, 243, told.counts().scheduled)
		assert.Equal(t, []int{0, 0}, []int{own.Left(), outer.Left()})
	})
}

// A retry that took nothing from a Budget gives nothing back.
func TestACanceledRetryAfterAHealthyAttemptRefundsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &retry.Budget{Size: 3}
		require.True(t, b.Take())
		ctx, cancel := context.WithCancel(t.Context())
		p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Hour), HealthyAfter: time.Minute, Budget: b}
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				cancel()
			}
		}
		err := retry.Do(ctx, p, running(2*time.Minute))
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.Equal(t, 2, b.Left())
	})
}

func TestEventsOfAHealthyAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Linear(time.Second), HealthyAfter: time.Minute}
		p.Classify = func(error) *retry.Class { return &retry.Class{Name: "x", Backoff: p.Backoff} }
		p.OnEvent = func(_ context.Context, e retry.Event) {
			log = append(log, fmt.Sprintf("%s attempt %d number %d reset %t elapsed %v delay %v", e.Kind, e.Attempt, e.Number, e.Reset, e.Elapsed, e.Delay))
		}
		err := retry.Do(t.Context(), p, running(0, time.Hour, 0))
		assert.EqualError(t, err, `retry: attempts exhausted after 4 attempts (4s waited, 3 count, because attempt 2 ran past HealthyAfter): boom`)
		assert.Equal(t, []string{
			"attempt_started attempt 1 number 1 reset false elapsed 0s delay 0s",
			"attempt_finished attempt 1 number 1 reset false elapsed 0s delay 0s",
			"retry_scheduled attempt 1 number 1 reset false elapsed 0s delay 1s",
			"attempt_started attempt 2 number 2 reset false elapsed 1s delay 0s",
			"attempt_finished attempt 2 number 2 reset false elapsed 1h0m1s delay 0s",
			"retry_scheduled attempt 2 number 1 reset true elapsed 0s delay 1s", // also the first delay of the class
			"attempt_started attempt 3 number 2 reset false elapsed 1s delay 0s",
			"attempt_finished attempt 3 number 2 reset false elapsed 1s delay 0s",
			"retry_scheduled attempt 3 number 2 reset false elapsed 1s delay 2s",
			"attempt_started attempt 4 number 3 reset false elapsed 3s delay 0s",
			"attempt_finished attempt 4 number 3 reset false elapsed 3s delay 0s",
			"call_finished attempt 4 number 3 reset false elapsed 3s delay 0s",
		}, log)
	})
}

// Next knows only from the field Took that the call begins anew.
func TestNextAfterAHealthyAttempt(t *testing.T) {
	linear := retry.Policy{
		MaxAttempts: 3, Backoff: retry.Linear(time.Second), Jitter: retry.FullJitter, MaxElapsed: time.Minute,
		HealthyAfter: time.Minute, AttemptTimeout: time.Hour,
	}
	classed := linear
	classed.Classify = func(error) *retry.Class {
		return &retry.Class{Name: "x", MaxAttempts: 2, Backoff: retry.Linear(time.Hour), Jitter: retry.Proportional(0)}
	}
	exhausted := drawnFrom(3, 2*time.Hour, retry.ReasonExhausted)
	elapsed := drawnFrom(1, time.Hour, retry.ReasonElapsed)
	exhausted.Class, elapsed.Class, elapsed.Reset = "x", "x", true
	last := retry.Attempt{Number: 3, Classes: map[string]int{"x": 1}, Elapsed: 3 * time.Hour, Seed: 42, Err: errBoom}
	for _, row := range []struct {
		name   string
		policy retry.Policy
		took   time.Duration
		want   retry.Decision
	}{
		{"Took below HealthyAfter", classed, time.Minute - 1, exhausted},
		{"Took at HealthyAfter", classed, time.Minute, elapsed},
		{"ended by AttemptTimeout", classed, time.Hour, exhausted},
		{"the delay is the delay of attempt 1", linear, time.Minute,
			retry.Decision{Reason: retry.ReasonRetry, Delay: retry.Draw(42, 1, 0, time.Second), Hi: time.Second, Number: 1, Seed: 42, Reset: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			last := last
			last.Took = row.took
			assert.Equal(t, row.want, row.policy.Next(last))
			assert.Equal(t, map[string]int{"x": 1}, last.Classes, "Next does not change the map")
		})
	}
}

// The failure after which a call begins anew counts in its class, in Do as in Next.
func TestTheFailureOfAHealthyAttemptCountsInItsClass(t *testing.T) {
	p := retry.Policy{MaxAttempts: 5, HealthyAfter: time.Minute, Backoff: retry.Fixed(time.Second), Jitter: retry.Proportional(0)}
	p.Classify = func(error) *retry.Class { return &retry.Class{Name: "x", MaxAttempts: 2} }
	synctest.Test(t, func(t *testing.T) {
		err := retry.Do(t.Context(), p, running(0, time.Hour, 0))
		assert.EqualError(t, err, "retry: attempts exhausted after 3 attempts (2s waited, 2 count, because attempt 2 ran past HealthyAfter, 2 of \"x\"): boom")
	})
	first := p.Next(retry.Attempt{Number: 2, Classes: map[string]int{"x": 1}, Took: time.Hour, Err: errBoom})
	assert.Equal(t, [...]any{retry.ReasonRetry, true}, [...]any{first.Reason, first.Reset})
	second := p.Next(retry.Attempt{Number: first.Number + 1, Classes: map[string]int{"x": 1}, Err: errBoom})
	assert.Equal(t, retry.ReasonExhausted, second.Reason)
}
