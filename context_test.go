package retry_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// failed is a context with its own error.
type failed struct {
	context.Context
	err error
}

func (c failed) Err() error { return c.err }

func TestContextEndedBeforeTheFirstAttempt(t *testing.T) {
	ends := []struct {
		name   string
		ctx    func(t *testing.T) context.Context
		reason retry.Reason
		is     []error
	}{
		{"canceled", func(t *testing.T) context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx
		}, retry.ReasonCanceled, []error{context.Canceled}},
		{"canceled with a cause", func(t *testing.T) context.Context {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errShutdown)
			return ctx
		}, retry.ReasonCanceled, []error{context.Canceled, errShutdown}},
		{"past its deadline", func(t *testing.T) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), 0)
			t.Cleanup(cancel)
			return ctx
		}, retry.ReasonDeadline, []error{context.DeadlineExceeded}},
		{"past its deadline with a cause", func(t *testing.T) context.Context {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 0, errShutdown)
			t.Cleanup(cancel)
			return ctx
		}, retry.ReasonDeadline, []error{context.DeadlineExceeded, errShutdown}},
		{"with its own error", func(t *testing.T) context.Context {
			return failed{t.Context(), errShutdown}
		}, retry.ReasonCanceled, []error{errShutdown}},
		{"with an error that wraps DeadlineExceeded", func(t *testing.T) context.Context {
			return failed{t.Context(), fmt.Errorf("quota: %w", context.DeadlineExceeded)}
		}, retry.ReasonDeadline, []error{context.DeadlineExceeded}},
	}
	policies := []struct {
		name   string
		policy retry.Policy
	}{
		{"", everySecond},
		{", watched", retry.Policy{MaxAttempts: 3, OnEvent: func(context.Context, retry.Event) {}}},
		{", with MaxElapsed", retry.Policy{MaxAttempts: 3, MaxElapsed: time.Hour}},
		{", no retry allowed", retry.Policy{}},
	}
	for _, end := range ends {
		for _, p := range policies {
			everyWay(t, end.name+p.name, func(t *testing.T, call caller) {
				start, runs := time.Now(), 0
				err := call(end.ctx(t), p.policy, fails(&runs))
				assert.Equal(t, &retry.Error{Reason: end.reason, Cause: stopped(t, err).Cause}, plain(err))
				for _, is := range end.is {
					assert.ErrorIs(t, err, is)
				}
				assert.Zero(t, runs)
				assert.Zero(t, time.Since(start))
			})
		}
	}
}

func TestContextEndedWhileFnRuns(t *testing.T) {
	everyWay(t, "and fn succeeds: success stands", func(t *testing.T, call caller) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start, runs := time.Now(), 0
		err := call(ctx, everySecond, func(context.Context) error { runs++; time.Sleep(time.Minute); return nil })
		require.NoError(t, err)
		assert.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		assert.Equal(t, 1, runs)
		assert.Equal(t, time.Minute, time.Since(start))
	})
	everyWay(t, "and fn succeeds at the second attempt: success stands", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		require.NoError(t, call(ctx, everySecond, func(context.Context) error {
			if runs++; runs == 1 {
				return errDial
			}
			cancel()
			return nil
		}))
		assert.Equal(t, 2, runs)
	})
	everyWay(t, "and fn fails: no wait and no further attempt", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancelCause(t.Context())
		start, runs := time.Now(), 0
		err := call(ctx, everySecond, func(context.Context) error { runs++; cancel(errShutdown); return errDial })
		e := stopped(t, err)
		assert.Equal(t, &retry.Error{Reason: retry.ReasonCanceled, Attempts: 1, Err: errDial, Cause: e.Cause}, plain(err), "no delay was decided")
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, errShutdown)
		assert.ErrorIs(t, err, errDial)
		assert.Equal(t, 1, runs)
		assert.Zero(t, time.Since(start))
	})
	everyWay(t, "and fn fails with a permanent error: the context is the reason", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		err := call(ctx, everySecond, func(context.Context) error { cancel(); return retry.Permanent(errDial) })
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
	})
	everyWay(t, "past its deadline, and fn fails", func(t *testing.T, call caller) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := call(ctx, everySecond, func(ctx context.Context) error { <-ctx.Done(); return errDial })
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, errDial)
		assert.Equal(t, time.Second, time.Since(start))
	})
	everyWay(t, "with no delay before the retry", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		err := call(ctx, retry.Policy{MaxAttempts: 3}, func(context.Context) error { runs++; cancel(); return errDial })
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.Equal(t, 1, runs)
	})
	everyWay(t, "in the last attempt: the context is the reason", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		err := call(ctx, retry.Policy{MaxAttempts: 1}, func(context.Context) error { cancel(); return errDial })
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.ErrorIs(t, err, errDial)
	})
}

// ending is a context that ends by the clock and notifies no one.
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

func TestContextIsCheckedAgainAfterEverySleep(t *testing.T) {
	for sleep := range 4 {
		everyWay(t, fmt.Sprintf("ended in sleep %d", sleep+1), func(t *testing.T, call caller) {
			after := time.Duration(sleep)*time.Second + 300*time.Millisecond
			ctx, cancel := context.WithTimeoutCause(t.Context(), after, errShutdown)
			defer cancel()
			start, runs := time.Now(), 0
			p := everySecond
			p.MaxAttempts = 10
			err := call(hidden{ctx}, p, fails(&runs))
			assert.Equal(t, &retry.Error{
				Reason: retry.ReasonDeadline, Attempts: sleep + 1, Waited: time.Duration(sleep) * time.Second,
				Delay: time.Second, Err: errDial, Cause: stopped(t, err).Cause,
			}, plain(err))
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorIs(t, err, errShutdown)
			assert.Equal(t, after, time.Since(start))
			assert.Equal(t, sleep+1, runs)
		})
	}
	everyWay(t, "ended without a notification", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		p := everySecond
		p.MaxAttempts = 10
		err := call(ending{t.Context(), start.Add(2500 * time.Millisecond)}, p, fails(&runs))
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.Equal(t, 3, runs)
		assert.Equal(t, 3*time.Second, time.Since(start))
	})
}

// A lookout is a context that remembers when its Err was last called and what
// that returned.
type lookout struct {
	context.Context
	asked time.Time
	said  error
}

func (c *lookout) Err() error {
	c.asked, c.said = time.Now(), c.Context.Err()
	return c.said
}

func TestContextEndsAtTheSameInstantAsTheSleep(t *testing.T) {
	const trials = 1000
	for _, end := range []struct {
		name   string
		always bool // the context has always ended when the sleep has
		ctx    func(d time.Duration) (context.Context, context.CancelFunc)
	}{
		{"by a goroutine that sleeps as long", false, func(d time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			go func() { time.Sleep(d); cancel() }()
			return ctx, cancel
		}},
		{"by time.AfterFunc", false, func(d time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(d, cancel)
			return ctx, cancel
		}},
		{"by context.AfterFunc", false, func(d time.Duration) (context.Context, context.CancelFunc) {
			parent, stop := context.WithTimeout(context.Background(), d)
			ctx, cancel := context.WithCancel(context.Background())
			context.AfterFunc(parent, cancel)
			return ctx, func() { cancel(); stop() }
		}},
		{"by a hidden deadline", false, func(d time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			return hidden{ctx}, cancel
		}},
		{"by WithTimeout", true, func(d time.Duration) (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), d)
		}},
		{"by the clock", true, func(d time.Duration) (context.Context, context.CancelFunc) {
			return ending{context.Background(), time.Now().Add(d)}, func() {}
		}},
	} {
		everyWay(t, end.name, func(t *testing.T, call caller) {
			interrupted := 0
			for range trials {
				ctx, cancel := end.ctx(time.Second)
				looked := &lookout{Context: ctx}
				runs := 0
				p := everySecond
				p.MaxAttempts = 2
				err := call(looked, p, func(context.Context) error {
					runs++
					// fn must not call Err itself: the context may end between
					// the last call and its own.
					require.NoError(t, looked.said, "fn runs in a context that is done")
					require.Equal(t, time.Now(), looked.asked, "fn runs in a context that was not checked after the sleep")
					return errDial
				})
				require.ErrorIs(t, err, errDial)
				if runs == 1 {
					interrupted++
					require.Contains(t, []retry.Reason{retry.ReasonCanceled, retry.ReasonDeadline}, retry.ReasonOf(err))
				}
				cancel()
			}
			if end.always {
				assert.Equal(t, trials, interrupted)
			} else {
				// If the sleep wins the tie, the context has not ended.
				assert.Positive(t, interrupted, "no trial in which the context won")
			}
		})
	}
}

func TestContextEndedByACallback(t *testing.T) {
	type callback struct {
		name   string
		policy func(p *retry.Policy, cancel func())
		runs   int
	}
	at := func(kind retry.EventKind, attempt int, cancel func()) func(context.Context, retry.Event) {
		return func(_ context.Context, e retry.Event) {
			if e.Kind == kind && e.Attempt == attempt {
				cancel()
			}
		}
	}
	for _, c := range []callback{
		{"RetryIf", func(p *retry.Policy, cancel func()) {
			p.RetryIf = func(error) bool { cancel(); return true }
		}, 1},
		{"RetryIf that says no", func(p *retry.Policy, cancel func()) {
			p.RetryIf = func(error) bool { cancel(); return false }
		}, 1},
		{"Classify", func(p *retry.Policy, cancel func()) {
			p.Classify = func(error) *retry.Class { cancel(); return nil }
		}, 1},
		{"Backoff", func(p *retry.Policy, cancel func()) {
			p.Backoff = retry.BackoffFunc(func(int) time.Duration { cancel(); return time.Second })
		}, 1},
		{"OnEvent, an attempt has finished", func(p *retry.Policy, cancel func()) {
			p.OnEvent = at(retry.AttemptFinished, 1, cancel)
		}, 1},
		{"OnEvent, a retry is scheduled", func(p *retry.Policy, cancel func()) {
			p.OnEvent = at(retry.RetryScheduled, 1, cancel)
		}, 1},
		{"OnEvent, a retry is scheduled at once", func(p *retry.Policy, cancel func()) {
			p.Backoff = nil
			p.OnEvent = at(retry.RetryScheduled, 1, cancel)
		}, 1},
		// An attempt that has been announced runs, and sees for itself that the
		// context is done.
		{"OnEvent, the first attempt starts", func(p *retry.Policy, cancel func()) {
			p.OnEvent = at(retry.AttemptStarted, 1, cancel)
		}, 1},
		{"OnEvent, the second attempt starts", func(p *retry.Policy, cancel func()) {
			p.OnEvent = at(retry.AttemptStarted, 2, cancel)
		}, 2},
	} {
		everyWay(t, c.name, func(t *testing.T, call caller) {
			ctx, cancel := context.WithCancelCause(t.Context())
			start, runs := time.Now(), 0
			p := everySecond
			c.policy(&p, func() { cancel(errShutdown) })
			err := call(ctx, p, fails(&runs))
			assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
			assert.ErrorIs(t, err, context.Canceled)
			assert.ErrorIs(t, err, errShutdown)
			assert.ErrorIs(t, err, errDial)
			assert.Equal(t, c.runs, runs)
			assert.Equal(t, c.runs, stopped(t, err).Attempts)
			assert.Equal(t, time.Duration(c.runs-1)*time.Second, time.Since(start))
		})
	}
	everyWay(t, "OnEvent, the call has stopped: nothing changes", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		p := everySecond
		p.OnEvent = at(retry.Stopped, 3, cancel)
		err := call(ctx, p, fails(&runs))
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.NotErrorIs(t, err, context.Canceled)
		assert.Equal(t, 3, runs)
	})
}

func TestFnsOwnTimeoutIsAnOrdinaryError(t *testing.T) {
	for _, own := range []error{context.DeadlineExceeded, context.Canceled} {
		everyWay(t, own.Error(), func(t *testing.T, call caller) {
			start, runs := time.Now(), 0
			err := call(t.Context(), everySecond, func(context.Context) error { runs++; return fmt.Errorf("query: %w", own) })
			assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
			assert.ErrorIs(t, err, own)
			assert.NoError(t, stopped(t, err).Cause)
			assert.Equal(t, 3, runs)
			assert.Equal(t, 2*time.Second, time.Since(start))
		})
	}
}

// doneEarly is a context that breaks the contract: its Done channel is closed
// before it has an error.
type doneEarly struct {
	context.Context
	done chan struct{}
}

func (d doneEarly) Done() <-chan struct{} { return d.done }

func TestContextThatIsDoneWithoutAnErrorEndsTheCall(t *testing.T) {
	everyWay(t, "in the sleep", func(t *testing.T, call caller) {
		done := make(chan struct{})
		close(done)
		runs, start := 0, time.Now()
		e := stopped(t, call(doneEarly{t.Context(), done}, everySecond, fails(&runs)))
		assert.Equal(t, retry.ReasonCanceled, e.Reason)
		assert.Equal(t, 1, runs, "it does not spin")
		assert.Zero(t, time.Since(start))
		assert.Equal(t, "retry: canceled after 1 attempt (the next delay is 1s, <nil>): dial tcp: connection refused", e.Error())
	})
}

// errList is an error type whose values cannot be compared.
type errList []error

func (errList) Error() string { return "several" }

type listContext struct{ context.Context }

func (listContext) Err() error { return errList{context.Canceled} }

func TestContextWhoseErrorCannotBeCompared(t *testing.T) {
	err := retry.Do(listContext{t.Context()}, retry.Policy{}, func(context.Context) error { return nil })
	assert.NotPanics(t, func() { assert.ErrorContains(t, err, "retry: canceled before the first attempt (several") })
}
