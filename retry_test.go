package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

var (
	errDial     = errors.New("dial tcp: connection refused")
	errShutdown = errors.New("the server shuts down")
)

// A caller executes fn under a policy. Everything that Do promises, DoValue
// and Loop promise too.
type caller func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error

var callers = []struct {
	name string
	call caller
}{
	{"Do", retry.Do},
	{"DoValue", func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error {
		_, err := retry.DoValue(ctx, p, func(ctx context.Context) (string, error) { return "value", fn(ctx) })
		return err
	}},
	{"Loop", func(ctx context.Context, p retry.Policy, fn func(context.Context) error) (err error) {
		for _, ctx := range retry.Loop(ctx, p, &err) {
			err = fn(ctx)
		}
		return err
	}},
}

// bubble runs a subtest in virtual time. Its end waits for every goroutine
// that was started in it, so one that is left over fails the test.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// everyWay runs a subtest in virtual time for Do, DoValue and Loop.
func everyWay(t *testing.T, name string, f func(t *testing.T, call caller)) {
	t.Helper()
	for _, c := range callers {
		bubble(t, name+"/"+c.name, func(t *testing.T) { f(t, c.call) })
	}
}

// stopped returns err as the *Error that every failed call returns.
func stopped(t *testing.T, err error) *retry.Error {
	t.Helper()
	e, ok := err.(*retry.Error)
	require.True(t, ok, "%v is a %T, not an *Error", err, err)
	return e
}

// fails returns a function that counts its executions and fails each time.
func fails(runs *int) func(context.Context) error {
	return func(context.Context) error { *runs++; return errDial }
}

// noContext is what a caller passes who forgets the context.
var noContext context.Context

// everySecond is a policy of three attempts, one second apart.
var everySecond = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}

func TestCallers(t *testing.T) {
	everyWay(t, "success at once is not repeated", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		require.NoError(t, call(t.Context(), everySecond, func(context.Context) error { runs++; return nil }))
		assert.Equal(t, 1, runs)
		assert.Zero(t, time.Since(start))
	})
	everyWay(t, "success at the third attempt", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		require.NoError(t, call(t.Context(), everySecond, func(context.Context) error {
			if runs++; runs < 3 {
				return errDial
			}
			return nil
		}))
		assert.Equal(t, 3, runs)
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
	everyWay(t, "every attempt fails", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		e := stopped(t, call(t.Context(), everySecond, fails(&runs)))
		assert.Equal(t, 3, runs)
		assert.Equal(t, 2*time.Second, time.Since(start), "there is no sleep after the last attempt")
		assert.Equal(t, retry.ReasonExhausted, e.Reason)
		assert.Equal(t, 3, e.Attempts)
		assert.Equal(t, 2*time.Second, e.Waited)
		assert.Equal(t, time.Second, e.Delay)
		assert.Same(t, errDial, e.Err)
		assert.NoError(t, e.Cause)
	})
	everyWay(t, "no delay takes no time", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		e := stopped(t, call(t.Context(), retry.Policy{MaxAttempts: 1000}, fails(&runs)))
		assert.Equal(t, 1000, runs)
		assert.Zero(t, time.Since(start))
		assert.Zero(t, e.Waited)
	})
}

func TestDoValue(t *testing.T) {
	type answer struct{ text string }
	value := &answer{"partial"}

	t.Run("the value of the execution that succeeded", func(t *testing.T) {
		runs := 0
		got, err := retry.DoValue(t.Context(), retry.Policy{MaxAttempts: 3}, func(context.Context) (int, error) {
			if runs++; runs < 3 {
				return -runs, errDial
			}
			return 7, nil
		})
		require.NoError(t, err)
		assert.Equal(t, 7, got)
	})
	t.Run("zero where there is an error", func(t *testing.T) {
		got, err := retry.DoValue(t.Context(), retry.Policy{MaxAttempts: 3}, func(context.Context) (*answer, error) { return value, errDial })
		require.ErrorIs(t, err, errDial)
		assert.Nil(t, got)
	})
	t.Run("zero struct where there is an error", func(t *testing.T) {
		got, err := retry.DoValue(t.Context(), retry.Policy{}, func(context.Context) (answer, error) { return *value, errDial })
		require.ErrorIs(t, err, errDial)
		assert.Zero(t, got)
	})
	t.Run("zero where the context ends in the execution", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		got, err := retry.DoValue(ctx, retry.Policy{MaxAttempts: 3}, func(context.Context) (int, error) { cancel(); return 7, errDial })
		require.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, got)
	})
	t.Run("zero where nothing ran", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		got, err := retry.DoValue(ctx, retry.Policy{MaxAttempts: 3}, func(context.Context) (int, error) { return 7, nil })
		require.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, got)
	})
	t.Run("the value of a policy that is not valid", func(t *testing.T) {
		got, err := retry.DoValue(t.Context(), retry.Policy{MaxAttempts: -2}, func(context.Context) (int, error) { return 7, nil })
		require.NoError(t, err)
		assert.Equal(t, 7, got)
	})
	t.Run("the value stands if the context ended meanwhile", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		got, err := retry.DoValue(ctx, retry.Policy{MaxAttempts: 3}, func(context.Context) (int, error) { cancel(); return 7, nil })
		require.NoError(t, err)
		assert.Equal(t, 7, got)
	})
}

// hidden is a context that does not tell its deadline.
type hidden struct{ context.Context }

func (hidden) Deadline() (time.Time, bool) { return time.Time{}, false }

// ending is a context that ends by the clock and tells nobody.
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

// failed is a context with an error of its own.
type failed struct {
	context.Context
	err error
}

func (c failed) Err() error { return c.err }

func TestContextEndedBeforeTheFirstExecution(t *testing.T) {
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
		{"with an error of its own", func(t *testing.T) context.Context {
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
		{", in bounded time", retry.Policy{MaxAttempts: 3, MaxElapsed: time.Hour}},
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

// plain returns a copy of an *Error with its exported fields alone.
func plain(err error) *retry.Error {
	e := err.(*retry.Error)
	return &retry.Error{Reason: e.Reason, Attempts: e.Attempts, Waited: e.Waited, Delay: e.Delay, Err: e.Err, Cause: e.Cause}
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
	everyWay(t, "and fn fails: nothing is slept and nothing runs again", func(t *testing.T, call caller) {
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
	everyWay(t, "and fn fails with a permanent error: the context names the reason", func(t *testing.T, call caller) {
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
	everyWay(t, "in the last attempt: the context names the reason", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		err := call(ctx, retry.Policy{MaxAttempts: 1}, func(context.Context) error { cancel(); return errDial })
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.ErrorIs(t, err, errDial)
	})
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
	everyWay(t, "ended without a word", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		p := everySecond
		p.MaxAttempts = 10
		err := call(ending{t.Context(), start.Add(2500 * time.Millisecond)}, p, fails(&runs))
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.Equal(t, 3, runs)
		assert.Equal(t, 3*time.Second, time.Since(start))
	})
}

// A lookout is a context that remembers when it was last asked whether it has
// ended, and what it said.
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
		always bool // the context has ended whenever the sleep has
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
		{"by a deadline that is not told", false, func(d time.Duration) (context.Context, context.CancelFunc) {
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
					// fn cannot look itself: between the last look and its
					// own the context may end.
					require.NoError(t, looked.said, "fn runs in a context that has ended")
					require.Equal(t, time.Now(), looked.asked, "fn runs in a context that was not asked after the sleep")
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
				// Where the sleep wins the tie, the context still lives.
				assert.Greater(t, interrupted, trials/20, "no trial in which the context won")
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
		{"Select", func(p *retry.Policy, cancel func()) {
			p.Select = func(error) *retry.Policy { cancel(); return nil }
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
		// What has been told to start runs, and sees the context's end itself.
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

func TestDeadlineThatWouldBePassed(t *testing.T) {
	for _, row := range []struct {
		name    string
		timeout time.Duration
		delay   time.Duration
		reason  retry.Reason
		runs    int
		elapsed time.Duration
	}{
		{"one nanosecond before the first retry", time.Second - 1, time.Second, retry.ReasonDeadline, 1, 0},
		{"exactly at the first retry", time.Second, time.Second, retry.ReasonDeadline, 1, 0},
		{"one nanosecond after the first retry", time.Second + 1, time.Second, retry.ReasonDeadline, 2, time.Second},
		{"exactly at the second retry", 2 * time.Second, time.Second, retry.ReasonDeadline, 2, time.Second},
		{"one nanosecond after the second retry", 2*time.Second + 1, time.Second, retry.ReasonExhausted, 3, 2 * time.Second},
		{"no delay passes no deadline", 1, 0, retry.ReasonExhausted, 3, 0},
		{"the longest delay", time.Hour, math.MaxInt64, retry.ReasonDeadline, 1, 0},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), row.timeout, errShutdown)
			defer cancel()
			start, runs := time.Now(), 0
			p := everySecond
			p.Backoff = retry.Fixed(row.delay)
			err := call(ctx, p, fails(&runs))
			e := stopped(t, err)
			assert.Equal(t, row.reason, e.Reason)
			assert.Equal(t, row.runs, runs)
			assert.Equal(t, row.elapsed, time.Since(start), "a stop is decided before the sleep it would need")
			assert.Equal(t, row.elapsed, e.Waited)
			assert.Equal(t, row.delay, e.Delay)
			assert.ErrorIs(t, err, errDial)
			assert.Equal(t, row.reason == retry.ReasonDeadline, errors.Is(err, context.DeadlineExceeded))
			assert.NoError(t, ctx.Err(), "the context still lives")
		})
	}
}

// expiring is a context whose deadline has come and that has not ended yet.
type expiring struct{ context.Context }

func (expiring) Deadline() (time.Time, bool) { return time.Now(), true }

func TestADeadlineThatHasComeDoesNotStopARetryWithoutDelay(t *testing.T) {
	everyWay(t, "only the context's end does", func(t *testing.T, call caller) {
		runs := 0
		err := call(expiring{t.Context()}, retry.Policy{MaxAttempts: 3}, fails(&runs))
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.Equal(t, 3, runs)
	})
}

func TestMaxElapsed(t *testing.T) {
	for _, row := range []struct {
		name    string
		max     time.Duration
		took    time.Duration // each execution
		reason  retry.Reason
		runs    int
		elapsed time.Duration
	}{
		{"exactly at the last retry", 2 * time.Second, 0, retry.ReasonExhausted, 3, 2 * time.Second},
		{"one nanosecond before the last retry", 2*time.Second - 1, 0, retry.ReasonElapsed, 2, time.Second},
		{"exactly at the first retry", time.Second, 0, retry.ReasonElapsed, 2, time.Second},
		{"one nanosecond before the first retry", time.Second - 1, 0, retry.ReasonElapsed, 1, 0},
		{"one nanosecond", 1, 0, retry.ReasonElapsed, 1, 0},
		{"the executions count", 3 * time.Second, time.Second, retry.ReasonElapsed, 2, 3 * time.Second},
		{"the first execution counts", time.Minute, 16 * time.Minute, retry.ReasonElapsed, 1, 16 * time.Minute},
		{"no execution is cut short", 2 * time.Minute, 2*time.Minute - time.Second, retry.ReasonElapsed, 2, 4*time.Minute - time.Second},
		{"the longest", math.MaxInt64, time.Hour, retry.ReasonExhausted, 3, 3*time.Hour + 2*time.Second},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			start, runs := time.Now(), 0
			p := everySecond
			p.MaxElapsed = row.max
			err := call(t.Context(), p, func(context.Context) error { runs++; time.Sleep(row.took); return errDial })
			e := stopped(t, err)
			assert.Equal(t, row.reason, e.Reason)
			assert.Equal(t, row.runs, runs)
			assert.Equal(t, row.elapsed, time.Since(start), "a stop is decided before the sleep it would need")
			assert.Equal(t, time.Second, e.Delay)
			assert.NoError(t, e.Cause)
		})
	}
	everyWay(t, "the clock starts with the call, not with the policy", func(t *testing.T, call caller) {
		p := everySecond
		p.MaxElapsed = 10 * time.Second
		for range 3 {
			time.Sleep(time.Hour)
			runs := 0
			assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
			assert.Equal(t, 3, runs)
		}
	})
}

func TestOrderOfTheReasons(t *testing.T) {
	// Each row takes away what the row above it stops for.
	empty := retry.NewBudget(1, 0)
	require.True(t, empty.Take())
	p := retry.Policy{
		MaxAttempts: -2, NonRetryable: true, Backoff: retry.Fixed(2 * time.Second), MaxRetryAfter: time.Minute, MaxElapsed: time.Second,
		RetryIf: func(error) bool { return false }, Budget: empty,
	}
	fail := retry.Permanent(retry.After(time.Hour, errDial))
	ended := true
	deadline := time.Second
	for _, row := range []struct {
		reason retry.Reason
		remove func()
	}{
		{retry.ReasonInvalid, func() { p.MaxAttempts = 1 }},
		{retry.ReasonCanceled, func() { ended = false }},
		{retry.ReasonPermanent, func() { fail = retry.After(time.Hour, errDial) }},
		{retry.ReasonRejected, func() { p.RetryIf = nil }},
		{retry.ReasonNonRetryable, func() { p.NonRetryable = false }},
		{retry.ReasonExhausted, func() { p.MaxAttempts = 2 }},
		{retry.ReasonRetryAfter, func() { fail = errDial }},
		{retry.ReasonElapsed, func() { p.MaxElapsed = 0 }},
		{retry.ReasonDeadline, func() { deadline = time.Hour }},
		{retry.ReasonBudget, func() { p.Budget = nil }},
	} {
		everyWay(t, row.reason.String(), func(t *testing.T, call caller) {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			start := time.Now()
			err := call(ctx, p, func(context.Context) error {
				if ended {
					cancel()
				}
				return fail
			})
			assert.Equal(t, row.reason, retry.ReasonOf(err))
			assert.Zero(t, time.Since(start), "a stop is decided before the sleep it would need")
		})
		row.remove()
	}
	everyWay(t, "nothing is left to stop for", func(t *testing.T, call caller) {
		runs := 0
		require.NoError(t, call(t.Context(), p, func(context.Context) error {
			if runs++; runs < 2 {
				return fail
			}
			return nil
		}))
	})
}

// absurd is a policy with every fault that does not need another policy.
var absurd = retry.Policy{
	MaxAttempts: math.MinInt, MaxRetries: math.MinInt, AttemptCap: math.MinInt, Backoff: retry.Exponential{Base: math.MinInt64, Factor: math.NaN()},
	MaxDelay: math.MinInt64, Jitter: retry.Proportional(math.NaN()), MaxRetryAfter: math.MinInt64, MaxElapsed: math.MinInt64,
	AttemptTimeout: math.MinInt64, Budget: retry.NewBudget(math.MinInt, math.NaN()),
}

func invalidPolicies() map[string]retry.Policy {
	return map[string]retry.Policy{
		"MaxAttempts below -1":      {MaxAttempts: -2},
		"MaxRetries below -1":       {MaxRetries: -2},
		"AttemptCap negative":       {MaxAttempts: 5, AttemptCap: -1},
		"MaxDelay negative":         {MaxAttempts: 5, MaxDelay: -1},
		"MaxRetryAfter negative":    {MaxAttempts: 5, MaxRetryAfter: -1},
		"MaxElapsed negative":       {MaxAttempts: 5, MaxElapsed: -1},
		"AttemptTimeout negative":   {MaxAttempts: 5, AttemptTimeout: -1},
		"Fixed negative":            {MaxAttempts: 5, Backoff: retry.Fixed(-1)},
		"Linear negative":           {MaxAttempts: 5, Backoff: retry.Linear(-1)},
		"Fibonacci negative":        {MaxAttempts: 5, Backoff: retry.Fibonacci(-1)},
		"Exponential negative":      {MaxAttempts: 5, Backoff: retry.Exponential{Base: -1}},
		"Schedule negative":         {MaxAttempts: 5, Backoff: retry.Schedule{time.Second, -1}},
		"Factor NaN":                {MaxAttempts: 5, Backoff: retry.Exponential{Base: 1, Factor: math.NaN()}},
		"Factor below 1":            {MaxAttempts: 5, Backoff: retry.Exponential{Base: 1, Factor: .5}},
		"Factor infinite":           {MaxAttempts: 5, Backoff: retry.Exponential{Base: 1, Factor: math.Inf(1)}},
		"Proportional above 1":      {MaxAttempts: 5, Jitter: retry.Proportional(1.1)},
		"Proportional NaN":          {MaxAttempts: 5, Jitter: retry.Proportional(math.NaN())},
		"Budget of no size":         {MaxAttempts: 5, Budget: retry.NewBudget(0, .1)},
		"Budget ratio above 1":      {MaxAttempts: 5, Budget: retry.NewBudget(1, 2)},
		"Budget that was not built": {MaxAttempts: 5, Budget: new(retry.Budget)},
		"hot loop":                  {MaxAttempts: retry.Unlimited},
		"everything absurd":         absurd,
	}
}

func TestPrinciple09FailSafe(t *testing.T) {
	for name, p := range invalidPolicies() {
		fault := p.Validate()
		require.Error(t, fault, name)
		everyWay(t, name+"/never retries and reports both errors", func(t *testing.T, call caller) {
			start, runs := time.Now(), 0
			err := call(t.Context(), p, fails(&runs))
			e := stopped(t, err)
			assert.Equal(t, 1, runs)
			assert.Zero(t, time.Since(start))
			assert.Equal(t, &retry.Error{Reason: retry.ReasonInvalid, Attempts: 1, Err: errDial, Cause: e.Cause}, plain(err))
			assert.EqualError(t, e.Cause, fault.Error())
			assert.EqualError(t, err, "retry: invalid after 1 attempt ("+fault.Error()+"): dial tcp: connection refused")
		})
		everyWay(t, name+"/success is success", func(t *testing.T, call caller) {
			runs := 0
			require.NoError(t, call(t.Context(), p, func(context.Context) error { runs++; return nil }))
			assert.Equal(t, 1, runs)
		})
		everyWay(t, name+"/events are 1, 1, 0, 1 and name the fault either way", func(t *testing.T, call caller) {
			for _, result := range []error{nil, errDial} {
				var told watch
				watched := p
				watched.OnEvent = told.event
				require.ErrorIs(t, call(t.Context(), watched, func(context.Context) error { return result }), result)
				assert.Equal(t, counts{1, 1, 0, 1}, told.counts())
				last := told.events[len(told.events)-1]
				assert.Equal(t, retry.ReasonInvalid, last.Reason)
				assert.EqualError(t, last.Err, fault.Error())
				assert.Equal(t, 1, last.Max)
			}
		})
	}
}

func TestInvalidPolicyInADeadContext(t *testing.T) {
	for name, p := range invalidPolicies() {
		everyWay(t, name, func(t *testing.T, call caller) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errShutdown)
			runs := 0
			err := call(ctx, p, fails(&runs))
			e := stopped(t, err)
			assert.Zero(t, runs)
			assert.Equal(t, &retry.Error{Reason: retry.ReasonInvalid, Cause: e.Cause}, plain(err))
			assert.ErrorIs(t, err, context.Canceled)
			assert.ErrorIs(t, err, errShutdown)
			assert.ErrorContains(t, err, p.Validate().Error())
			assert.NotContains(t, err.Error(), "\n")
		})
	}
	everyWay(t, "the context ends in the one execution", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		err := call(ctx, retry.Policy{MaxAttempts: -2}, func(context.Context) error { cancel(); return errDial })
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
	})
	everyWay(t, "an invalid policy keeps its AttemptTimeout", func(t *testing.T, call caller) {
		start := time.Now()
		err := call(t.Context(), retry.Policy{MaxAttempts: -2, AttemptTimeout: time.Second}, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		assert.Equal(t, time.Second, time.Since(start))
	})
	everyWay(t, "a hot loop of MaxElapsed, Budget or Backoff is none", func(t *testing.T, call caller) {
		for _, p := range []retry.Policy{
			{MaxAttempts: retry.Unlimited, MaxElapsed: time.Hour},
			{MaxAttempts: retry.Unlimited, Budget: retry.NewBudget(10, 0)},
			{MaxAttempts: retry.Unlimited, Backoff: retry.BackoffFunc(func(int) time.Duration { return 0 })},
		} {
			runs := 0
			require.NoError(t, call(t.Context(), p, func(context.Context) error {
				if runs++; runs <= 10 {
					return errDial
				}
				return nil
			}))
			assert.Equal(t, 11, runs)
		}
	})
}

func TestBadInput(t *testing.T) {
	for _, row := range []struct {
		name  string
		call  func(context.Context, retry.Policy) error
		when  string
		told  counts
		ended retry.Reason // in a dead context
	}{
		{"Do", func(ctx context.Context, p retry.Policy) error {
			return retry.Do(ctx, p, nil)
		}, "before the first attempt", counts{0, 0, 0, 1}, retry.ReasonInvalid},
		{"DoValue", func(ctx context.Context, p retry.Policy) error {
			value, err := retry.DoValue[int](ctx, p, nil)
			assert.Zero(t, value)
			return err
		}, "after 1 attempt", counts{1, 1, 0, 1}, retry.ReasonCanceled},
	} {
		bubble(t, "nil fn/"+row.name, func(t *testing.T) {
			var told watch
			for _, p := range []retry.Policy{{}, everySecond, {MaxAttempts: 3, MaxElapsed: time.Minute}, {MaxAttempts: 3, OnEvent: told.event}} {
				err := row.call(t.Context(), p)
				assert.EqualError(t, err, "retry: invalid "+row.when+" (the function to execute is nil)")
				assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
			}
			assert.Equal(t, row.told, told.counts())
			assert.EqualError(t, told.events[len(told.events)-1].Err, "the function to execute is nil")
			for _, e := range told.of(retry.AttemptFinished) {
				assert.EqualError(t, e.Err, "the function to execute is nil", "it is no success")
			}
		})
		bubble(t, "nil fn in a dead context/"+row.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			assert.Equal(t, row.ended, retry.ReasonOf(row.call(ctx, everySecond)))
		})
		bubble(t, "nil fn under an invalid policy/"+row.name, func(t *testing.T) {
			err := row.call(t.Context(), retry.Policy{MaxAttempts: -2})
			assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
			assert.ErrorContains(t, err, "the function to execute is nil")
			assert.ErrorContains(t, err, "MaxAttempts is -2")
		})
	}

	everyWay(t, "nil context", func(t *testing.T, call caller) {
		var told watch
		for _, p := range []retry.Policy{{}, everySecond, {MaxAttempts: 3, MaxElapsed: 1}, {MaxAttempts: 3, AttemptTimeout: 1}, {MaxAttempts: 3, OnEvent: told.event}} {
			runs := 0
			err := call(noContext, p, fails(&runs))
			assert.Zero(t, runs)
			assert.EqualError(t, err, "retry: invalid before the first attempt (the context is nil: write context.Background() where there is none)")
			assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		}
		assert.Equal(t, counts{0, 0, 0, 1}, told.counts())
		assert.NotNil(t, told.contexts[0], "OnEvent never gets a nil context")
	})
	everyWay(t, "nil context under an invalid policy", func(t *testing.T, call caller) {
		err := call(noContext, retry.Policy{MaxAttempts: -2}, func(context.Context) error { return nil })
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		assert.ErrorContains(t, err, "the context is nil")
		assert.ErrorContains(t, err, "MaxAttempts is -2")
	})

	everyWay(t, "a third party's Backoff that returns negative delays waits not at all", func(t *testing.T, call caller) {
		for _, d := range []time.Duration{-1, -time.Hour, math.MinInt64} {
			for _, j := range []retry.Jitter{nil, retry.Proportional(1), retry.FullJitter, retry.EqualJitter} {
				start, runs := time.Now(), 0
				p := retry.Policy{MaxAttempts: 3, Backoff: retry.BackoffFunc(func(int) time.Duration { return d }), Jitter: j}
				e := stopped(t, call(t.Context(), p, fails(&runs)))
				assert.Equal(t, 3, runs)
				assert.Zero(t, time.Since(start))
				assert.Zero(t, e.Waited)
				assert.Zero(t, e.Delay)
			}
		}
	})
	everyWay(t, "a nil BackoffFunc waits not at all", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		stopped(t, call(t.Context(), retry.Policy{MaxAttempts: 3, Backoff: retry.BackoffFunc(nil)}, fails(&runs)))
		assert.Equal(t, 3, runs)
		assert.Zero(t, time.Since(start))
	})
	everyWay(t, "a third party's Backoff, Jitter, RetryIf or Select that panics: the panic passes through", func(t *testing.T, call caller) {
		for name, p := range map[string]retry.Policy{
			"Backoff": {MaxAttempts: 3, Backoff: retry.BackoffFunc(func(int) time.Duration { panic("Backoff") })},
			"Jitter":  {MaxAttempts: 3, Jitter: jitterFunc(func(time.Duration) (lo, hi time.Duration) { panic("Jitter") })},
			"RetryIf": {MaxAttempts: 3, RetryIf: func(error) bool { panic("RetryIf") }},
			"Select":  {MaxAttempts: 3, Select: func(error) *retry.Policy { panic("Select") }},
		} {
			p.Budget = retry.NewBudget(1, 0)
			runs := 0
			assert.PanicsWithValue(t, name, func() { _ = call(t.Context(), p, fails(&runs)) })
			assert.Equal(t, 1, runs)
			assert.True(t, p.Budget.Take(), "%s: the retry that was not made is paid for", name)
		}
	})
	everyWay(t, "a third party's Jitter that is upside down is put right", func(t *testing.T, call caller) {
		for _, row := range []struct{ lo, hi, least, most time.Duration }{
			{2 * time.Second, time.Second, time.Second, 2 * time.Second},
			{time.Second, -time.Second, 0, time.Second},
			{-time.Second, -2 * time.Second, 0, 0},
			{time.Hour, time.Hour - time.Second, time.Minute - time.Second, time.Minute}, // above the cap
		} {
			for range 100 {
				start := time.Now()
				p := retry.Policy{MaxAttempts: 2, MaxDelay: time.Minute, Jitter: jitterFunc(func(time.Duration) (lo, hi time.Duration) { return row.lo, row.hi })}
				e := stopped(t, call(t.Context(), p, func(context.Context) error { return errDial }))
				assert.Equal(t, e.Waited, time.Since(start))
				assert.GreaterOrEqual(t, e.Waited, row.least)
				assert.LessOrEqual(t, e.Waited, row.most)
			}
		}
	})
	everyWay(t, "the longest delay can be interrupted", func(t *testing.T, call caller) {
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(math.MaxInt64)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start, runs := time.Now(), 0
		err := call(hidden{ctx}, p, fails(&runs))
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.Equal(t, time.Hour, time.Since(start))
		assert.Equal(t, 1, runs)
	})
}

type jitterFunc func(time.Duration) (lo, hi time.Duration)

func (f jitterFunc) Window(d time.Duration) (lo, hi time.Duration) { return f(d) }

func TestSelectInTheLoop(t *testing.T) {
	errThrottled := errors.New("throttled")
	for _, row := range []struct {
		name     string
		selected *retry.Policy
		reason   retry.Reason
		runs     int
		elapsed  time.Duration
		cause    string
	}{
		{"nil: the policy itself", nil, retry.ReasonExhausted, 3, 2 * time.Second, ""},
		{"stricter", &retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Minute)}, retry.ReasonExhausted, 2, time.Minute, ""},
		{"stricter by MaxRetries", &retry.Policy{MaxRetries: 1, Backoff: retry.Fixed(time.Minute)}, retry.ReasonExhausted, 2, time.Minute, ""},
		{"stricter by AttemptCap", &retry.Policy{MaxAttempts: 9, AttemptCap: 2}, retry.ReasonExhausted, 2, 0, ""},
		{"stricter by NonRetryable", &retry.Policy{NonRetryable: true, MaxAttempts: 9}, retry.ReasonNonRetryable, 1, 0, ""},
		{"looser: the outer limit holds", &retry.Policy{MaxAttempts: 100, Backoff: retry.Fixed(time.Minute)}, retry.ReasonExhausted, 3, 2 * time.Minute, ""},
		{"unlimited: the outer limit holds", &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Minute)}, retry.ReasonExhausted, 3, 2 * time.Minute, ""},
		{"without a limit: the outer limit holds", &retry.Policy{Backoff: retry.Fixed(time.Minute)}, retry.ReasonExhausted, 3, 2 * time.Minute, ""},
		{"its MaxElapsed, AttemptTimeout, Budget, RetryIf and Select are not asked", &retry.Policy{
			Backoff: retry.Fixed(time.Minute), MaxElapsed: 1, AttemptTimeout: 1, Budget: retry.NewBudget(1, 0),
			RetryIf: func(error) bool { panic("RetryIf") }, Select: func(error) *retry.Policy { panic("Select") },
			OnEvent: func(context.Context, retry.Event) { panic("OnEvent") },
		}, retry.ReasonExhausted, 3, 2 * time.Minute, ""},
		{"invalid", &retry.Policy{MaxAttempts: -2, MaxDelay: -1}, retry.ReasonInvalid, 1, 0,
			"the policy that Select picks: invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited; MaxDelay is -1ns: write 0 for none, or a duration above it"},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			p := everySecond
			p.Select = func(err error) *retry.Policy {
				assert.Same(t, errThrottled, err)
				return row.selected
			}
			var before retry.Policy
			if row.selected != nil {
				before = *row.selected
			}
			start, runs := time.Now(), 0
			err := call(t.Context(), p, func(context.Context) error {
				if runs++; runs > 100 {
					return nil // rather than for ever
				}
				return errThrottled
			})
			e := stopped(t, err)
			assert.Equal(t, row.reason, e.Reason)
			assert.Equal(t, row.runs, runs)
			assert.Equal(t, row.elapsed, time.Since(start))
			assert.ErrorIs(t, err, errThrottled)
			if row.cause == "" {
				assert.NoError(t, e.Cause)
			} else {
				assert.EqualError(t, e.Cause, row.cause)
				assert.Zero(t, e.Delay)
			}
			if row.selected != nil {
				assert.Equal(t, fmt.Sprintf("%#v", before), fmt.Sprintf("%#v", *row.selected), "what Select returns is never modified")
			}
		})
	}
	everyWay(t, "a hot pair", func(t *testing.T, call caller) {
		p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second)}
		p.Select = func(error) *retry.Policy { return &retry.Policy{} }
		require.NoError(t, p.Validate())
		runs := 0
		err := call(t.Context(), p, func(context.Context) error {
			if runs++; runs > 100 {
				return nil // rather than for ever
			}
			return errDial
		})
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		assert.ErrorIs(t, err, errDial)
		assert.ErrorContains(t, err, "(the policy that Select picks: invalid policy: no limit on executions and no delay that lasts")
		assert.Equal(t, 1, runs)
	})
	everyWay(t, "a pair is not hot if the outer policy has a limit", func(t *testing.T, call caller) {
		p := everySecond
		p.Select = func(error) *retry.Policy { return &retry.Policy{MaxAttempts: retry.Unlimited} }
		start, runs := time.Now(), 0
		err := call(t.Context(), p, fails(&runs))
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.Equal(t, 3, runs)
		assert.Zero(t, time.Since(start))
	})
	everyWay(t, "invalid goes before an ended context", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		p := everySecond
		p.Select = func(error) *retry.Policy { return &retry.Policy{MaxAttempts: -2} }
		err := call(ctx, p, func(context.Context) error { cancel(); return errDial })
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
	})
	everyWay(t, "each failure is asked about", func(t *testing.T, call caller) {
		p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second)}
		slow := &retry.Policy{Backoff: retry.Fixed(time.Minute)}
		p.Select = func(err error) *retry.Policy {
			if errors.Is(err, errThrottled) {
				return slow
			}
			return nil
		}
		start, runs := time.Now(), 0
		err := call(t.Context(), p, func(context.Context) error {
			if runs++; runs%2 == 0 {
				return errThrottled
			}
			return errDial
		})
		assert.ErrorIs(t, err, errDial)
		assert.Equal(t, 5, runs)
		assert.Equal(t, 2*time.Minute+2*time.Second, time.Since(start))
	})
	everyWay(t, "RetryIf is asked first", func(t *testing.T, call caller) {
		p := everySecond
		p.RetryIf = func(error) bool { return false }
		p.Select = func(error) *retry.Policy { panic("Select is asked about an error that RetryIf rejects") }
		runs := 0
		assert.Equal(t, retry.ReasonRejected, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
	})
}

func TestAttemptTimeout(t *testing.T) {
	type key struct{}
	everyWay(t, "each attempt has a context of its own", func(t *testing.T, call caller) {
		p := everySecond
		p.AttemptTimeout = time.Minute
		var attempts []context.Context
		err := call(context.WithValue(t.Context(), key{}, "value"), p, func(ctx context.Context) error {
			for _, earlier := range attempts {
				assert.ErrorIs(t, earlier.Err(), context.Canceled, "the context of an attempt ends when fn returns")
			}
			attempts = append(attempts, ctx)
			deadline, ok := ctx.Deadline()
			assert.True(t, ok)
			assert.Equal(t, time.Minute, time.Until(deadline))
			assert.Equal(t, "value", ctx.Value(key{}))
			return errDial
		})
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		require.Len(t, attempts, 3)
		assert.ErrorIs(t, attempts[2].Err(), context.Canceled, "the context of an attempt ends when fn returns")
	})
	everyWay(t, "its end is an ordinary error", func(t *testing.T, call caller) {
		p := everySecond
		p.AttemptTimeout = time.Minute
		start, runs := time.Now(), 0
		err := call(t.Context(), p, func(ctx context.Context) error { runs++; <-ctx.Done(); return ctx.Err() })
		assert.Equal(t, &retry.Error{
			Reason: retry.ReasonExhausted, Attempts: 3, Waited: 2 * time.Second, Delay: time.Second, Err: context.DeadlineExceeded,
		}, plain(err))
		assert.Equal(t, 3, runs)
		assert.Equal(t, 3*time.Minute+2*time.Second, time.Since(start))
	})
	everyWay(t, "success after its end stands", func(t *testing.T, call caller) {
		p := everySecond
		p.AttemptTimeout = time.Minute
		require.NoError(t, call(t.Context(), p, func(ctx context.Context) error { <-ctx.Done(); return nil }))
	})
	everyWay(t, "the context ends after a success too", func(t *testing.T, call caller) {
		var attempt context.Context
		require.NoError(t, call(t.Context(), retry.Policy{AttemptTimeout: time.Minute}, func(ctx context.Context) error { attempt = ctx; return nil }))
		assert.ErrorIs(t, attempt.Err(), context.Canceled)
	})
	everyWay(t, "a caller's deadline that is earlier holds, and names the reason", func(t *testing.T, call caller) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errShutdown)
		defer cancel()
		p := everySecond
		p.AttemptTimeout = time.Hour
		start, runs := time.Now(), 0
		err := call(ctx, p, func(attempt context.Context) error {
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
	everyWay(t, "a caller that cancels reaches the attempt", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancelCause(t.Context())
		p := everySecond
		p.AttemptTimeout = time.Hour
		err := call(ctx, p, func(attempt context.Context) error {
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
	everyWay(t, "a panic ends it", func(t *testing.T, call caller) {
		var attempt context.Context
		assert.Panics(t, func() {
			_ = call(t.Context(), retry.Policy{AttemptTimeout: time.Minute}, func(ctx context.Context) error { attempt = ctx; panic("fn") })
		})
		assert.ErrorIs(t, attempt.Err(), context.Canceled)
	})
}

// counter is a Source that counts how often it is asked.
type counter struct{ calls, value uint64 }

func (s *counter) Uint64() uint64 { s.calls++; return s.value + s.calls - 1 }

func TestOneSeedACall(t *testing.T) {
	everyWay(t, "the delays are those of Next with that seed", func(t *testing.T, call caller) {
		source := &counter{value: 42}
		var told watch
		p := retry.Policy{
			MaxAttempts: 12, Backoff: retry.Exponential{Base: 100 * time.Millisecond}, MaxDelay: 5 * time.Second, Jitter: retry.EqualJitter,
			MaxRetryAfter: time.Hour, Source: source, OnEvent: told.event,
		}
		attempt := 0
		fail := func() error {
			if attempt%4 == 0 {
				return retry.After(time.Duration(attempt)*time.Second, errDial)
			}
			return errDial
		}
		for i := range uint64(3) {
			told.events, attempt = nil, 0
			start := time.Now()
			e := stopped(t, call(t.Context(), p, func(context.Context) error { attempt++; return fail() }))
			waited := time.Duration(0)
			for n := 1; n < 12; n++ {
				attempt = n
				want := p.Next(retry.Attempt{Number: n, Err: fail(), Seed: 42 + i})
				require.True(t, want.Retry())
				got := told.of(retry.RetryScheduled)[n-1]
				assert.Equal(t, n, got.Attempt)
				assert.Equal(t, 42+i, got.Seed)
				assert.Equal(t, want.Delay, got.Delay)
				again := p.Next(retry.Attempt{Number: got.Attempt, Err: retry.After(got.Hint, errDial), Seed: got.Seed})
				assert.Equal(t, got.Delay, again.Delay, "the event holds all that its delay is computed from")
				waited += want.Delay
			}
			assert.Equal(t, waited, e.Waited)
			assert.Equal(t, waited, time.Since(start))
			assert.Equal(t, i+1, source.calls, "Source is asked once a call")
		}
	})
	everyWay(t, "without jitter Source is not asked", func(t *testing.T, call caller) {
		var told watch
		p := everySecond
		p.Source, p.OnEvent = &counter{}, told.event
		runs := 0
		stopped(t, call(t.Context(), p, fails(&runs)))
		assert.Zero(t, p.Source.(*counter).calls)
		for _, e := range told.of(retry.RetryScheduled) {
			assert.Zero(t, e.Seed)
		}
	})
	everyWay(t, "on success Source is not asked", func(t *testing.T, call caller) {
		p := everySecond
		p.Source, p.Jitter = &counter{}, retry.FullJitter
		require.NoError(t, call(t.Context(), p, func(context.Context) error { return nil }))
		assert.Zero(t, p.Source.(*counter).calls)
	})
	everyWay(t, "a Source that draws 0 counts as one that draws 1", func(t *testing.T, call caller) {
		var told watch
		p := everySecond
		p.Source, p.Jitter, p.OnEvent = &counter{}, retry.FullJitter, told.event
		runs := 0
		stopped(t, call(t.Context(), p, fails(&runs)))
		assert.EqualValues(t, 1, p.Source.(*counter).calls)
		for i, e := range told.of(retry.RetryScheduled) {
			assert.EqualValues(t, 1, e.Seed)
			assert.Equal(t, p.Next(retry.Attempt{Number: i + 1, Seed: 1}).Delay, e.Delay)
		}
	})
	everyWay(t, "the seed is the outer policy's where Select picks another", func(t *testing.T, call caller) {
		var told watch
		p := everySecond
		p.Source, p.OnEvent = &counter{value: 9}, told.event
		p.Select = func(error) *retry.Policy {
			return &retry.Policy{Backoff: retry.Fixed(time.Minute), Jitter: retry.FullJitter, Source: &counter{value: 1000}}
		}
		runs := 0
		stopped(t, call(t.Context(), p, fails(&runs)))
		require.Len(t, told.of(retry.RetryScheduled), 2)
		for i, e := range told.of(retry.RetryScheduled) {
			assert.EqualValues(t, 9, e.Seed)
			assert.Equal(t, p.Next(retry.Attempt{Number: i + 1, Err: errDial, Seed: 9}).Delay, e.Delay)
		}
	})
}

// tokens empties a budget and returns how many retries it held.
func tokens(b *retry.Budget) (n int) {
	for b.Take() {
		n++
	}
	return n
}

func TestBudgetInTheLoop(t *testing.T) {
	everyWay(t, "a retry takes one", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = retry.NewBudget(5, 0)
		runs := 0
		stopped(t, call(t.Context(), p, fails(&runs)))
		assert.Equal(t, 3, tokens(p.Budget))
	})
	everyWay(t, "empty: the retry is denied before its sleep, with the call's own error", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = retry.NewBudget(1, 0)
		start, runs := time.Now(), 0
		err := call(t.Context(), p, fails(&runs))
		assert.Equal(t, &retry.Error{Reason: retry.ReasonBudget, Attempts: 2, Waited: time.Second, Delay: time.Second, Err: errDial}, plain(err))
		assert.Equal(t, 2, runs)
		assert.Equal(t, time.Second, time.Since(start))
	})
	everyWay(t, "a ratio of 0 denies serial callers too", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = retry.NewBudget(1, 0)
		total := 0
		for range 10 {
			runs := 0
			assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
			total += runs
		}
		assert.Equal(t, 11, total)
	})
	everyWay(t, "a call that succeeds puts ratio back", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = retry.NewBudget(2, .5)
		tokens(p.Budget)
		for range 4 {
			require.NoError(t, call(t.Context(), p, func(context.Context) error { return nil }))
		}
		assert.Equal(t, 2, tokens(p.Budget))
	})
	everyWay(t, "a call that succeeds at its second attempt puts ratio back once", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = retry.NewBudget(5, 1)
		tokens(p.Budget)
		p.Budget.Put()
		runs := 0
		require.NoError(t, call(t.Context(), p, func(context.Context) error {
			if runs++; runs == 1 {
				return errDial
			}
			return nil
		}))
		assert.Equal(t, 1, tokens(p.Budget))
	})
	everyWay(t, "a sleep that is cancelled gives its token back", func(t *testing.T, call caller) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		p := everySecond
		p.Budget = retry.NewBudget(5, 0)
		runs := 0
		err := call(hidden{ctx}, p, fails(&runs))
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.Equal(t, 2, runs)
		assert.Equal(t, 4, tokens(p.Budget), "one retry was made, one was not")
	})
	everyWay(t, "a retry that OnEvent cancels gives its token back", func(t *testing.T, call caller) {
		for _, delay := range []time.Duration{0, time.Second} {
			ctx, cancel := context.WithCancel(t.Context())
			p := everySecond
			p.Backoff = retry.Fixed(delay)
			p.Budget = retry.NewBudget(5, 0)
			p.OnEvent = func(_ context.Context, e retry.Event) {
				if e.Kind == retry.RetryScheduled {
					cancel()
				}
			}
			runs := 0
			assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(call(ctx, p, fails(&runs))))
			assert.Equal(t, 1, runs)
			assert.Equal(t, 5, tokens(p.Budget))
		}
	})
	everyWay(t, "a call that stops for another reason takes none", func(t *testing.T, call caller) {
		for _, p := range []retry.Policy{
			{},
			{MaxAttempts: 3, NonRetryable: true},
			{MaxAttempts: 3, RetryIf: func(error) bool { return false }},
			{MaxAttempts: 3, Backoff: retry.Fixed(2), MaxElapsed: 1},
			{MaxAttempts: 3, Backoff: retry.Fixed(time.Hour)}, // passes the deadline
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			p.Budget = retry.NewBudget(5, 0)
			runs := 0
			stopped(t, call(ctx, p, fails(&runs)))
			assert.Equal(t, 1, runs)
			assert.Equal(t, 5, tokens(p.Budget))
			cancel()
		}
	})
	everyWay(t, "a call that fails puts nothing back", func(t *testing.T, call caller) {
		p := retry.Policy{Budget: retry.NewBudget(5, 1)}
		tokens(p.Budget)
		runs := 0
		stopped(t, call(t.Context(), p, fails(&runs)))
		assert.Zero(t, tokens(p.Budget))
	})
}

func TestPanicAndGoexitPassThrough(t *testing.T) {
	leaves := map[string]func(){
		"panic":  func() { panic("fn") },
		"Goexit": runtime.Goexit,
	}
	// run runs f in a goroutine of its own and returns what it panicked with,
	// and whether it returned.
	run := func(f func()) (recovered any, returned bool) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { recovered = recover() }()
			f()
			returned = true
		}()
		<-done
		return recovered, returned
	}
	for name, leave := range leaves {
		everyWay(t, name+" in fn leaves a shared Budget intact", func(t *testing.T, call caller) {
			p := everySecond
			p.Budget = retry.NewBudget(5, 1)
			for attempt := 1; attempt <= 3; attempt++ {
				runs := 0
				recovered, returned := run(func() {
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
				assert.Equal(t, 5-(attempt-1), tokens(p.Budget), "as many as retries were made")
				for range 5 {
					require.NoError(t, call(t.Context(), p, func(context.Context) error { return nil }))
				}
			}
			assert.Equal(t, 5, tokens(p.Budget))
		})
		everyWay(t, name+" in OnEvent passes through, whatever the event", func(t *testing.T, call caller) {
			for _, kind := range []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.RetryScheduled, retry.Stopped} {
				p := everySecond
				p.Budget = retry.NewBudget(5, 0)
				p.OnEvent = func(_ context.Context, e retry.Event) {
					if e.Kind == kind {
						leave()
					}
				}
				runs := 0
				_, returned := run(func() { _ = call(t.Context(), p, fails(&runs)) })
				assert.False(t, returned)
				taken := max(0, runs-1)
				if kind == retry.RetryScheduled {
					taken++ // a token is no permit: one that is lost is one retry less
				}
				assert.Equal(t, 5-taken, tokens(p.Budget), "%v after %d runs", kind, runs)
			}
		})
	}
}

func TestTwoMillionAttemptsDoNotGrowTheHeap(t *testing.T) {
	const attempts = 2_000_000
	for _, c := range callers {
		t.Run(c.name, func(t *testing.T) {
			runs := 0
			p := retry.Policy{MaxAttempts: attempts}
			fn := fails(&runs)
			ctx := t.Context()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			err := c.call(ctx, p, fn)
			runtime.ReadMemStats(&after)
			assert.Equal(t, attempts, runs)
			assert.Equal(t, attempts, stopped(t, err).Attempts)
			assert.Less(t, after.Mallocs-before.Mallocs, uint64(100), "allocations of all attempts together")
			assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(64<<10))
		})
	}
}

func TestOnePolicyForManyGoroutines(t *testing.T) {
	type key struct{}
	everyWay(t, "the same seed is the same schedule", func(t *testing.T, call caller) {
		const goroutines = 100
		p := retry.Policy{
			MaxAttempts: 10, Backoff: retry.Exponential{Base: 100 * time.Millisecond}, MaxDelay: 3 * time.Second, Jitter: retry.FullJitter,
			MaxElapsed: time.Hour, AttemptTimeout: time.Minute, Source: constant(7), Budget: retry.NewBudget(goroutines*9, .5),
			RetryIf: func(error) bool { return true }, Select: func(error) *retry.Policy { return nil },
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
				err := call(context.WithValue(t.Context(), key{}, &got[i]), p, func(context.Context) error { return errDial })
				assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
			})
		}
		all.Wait()
		for _, delays := range got {
			assert.Equal(t, want, delays)
		}
	})
	everyWay(t, "without a Source the schedules differ", func(t *testing.T, call caller) {
		p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour), Jitter: retry.FullJitter}
		waited := make(map[time.Duration]bool)
		for range 100 {
			runs := 0
			waited[stopped(t, call(t.Context(), p, fails(&runs))).Waited] = true
		}
		assert.Len(t, waited, 100)
	})
}

type constant uint64

func (c constant) Uint64() uint64 { return uint64(c) }

// What other libraries answer differently from one another, and what this one
// does.
func TestEdgeCases(t *testing.T) {
	everyWay(t, "a limit of 0 is not set: one execution", func(t *testing.T, call caller) {
		for _, p := range []retry.Policy{{}, {Backoff: retry.Fixed(1)}, {MaxAttempts: 1}, {MaxAttempts: retry.Retries(0)}} {
			runs := 0
			assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
			assert.Equal(t, 1, runs)
		}
	})
	everyWay(t, "a limit below -1 is a fault: one execution", func(t *testing.T, call caller) {
		for _, p := range []retry.Policy{{MaxAttempts: -5}, {MaxRetries: -5}} {
			runs := 0
			assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
			assert.Equal(t, 1, runs)
		}
	})
	everyWay(t, "a nil context is an error even if fn would succeed", func(t *testing.T, call caller) {
		err := call(noContext, everySecond, func(context.Context) error { panic("fn runs without a context") })
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
	})
	everyWay(t, "a panic in fn propagates with its own value", func(t *testing.T, call caller) {
		assert.PanicsWithValue(t, errShutdown, func() { _ = call(t.Context(), everySecond, func(context.Context) error { panic(errShutdown) }) })
	})
	everyWay(t, "a context that is cancelled before the call: fn does not run", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := call(ctx, everySecond, func(context.Context) error { panic("fn runs") })
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
	})
	everyWay(t, "cancelled in the sleep: the last error and the cause, limited or not", func(t *testing.T, call caller) {
		for _, limit := range []int{2, retry.Unlimited} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second/2, func() { cancel(errShutdown) })
			p := everySecond
			p.MaxAttempts = limit
			runs := 0
			err := call(ctx, p, fails(&runs))
			for _, is := range []error{context.Canceled, errShutdown, errDial} {
				assert.ErrorIs(t, err, is)
			}
		}
	})
	everyWay(t, "DeadlineExceeded is found beside a custom cause", func(t *testing.T, call caller) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second/2, errShutdown)
		defer cancel()
		runs := 0
		err := call(hidden{ctx}, everySecond, fails(&runs))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, errShutdown)
		assert.NotErrorIs(t, err, context.Canceled)
	})
	everyWay(t, "exhausted: the last error as fn returned it, its wrapping too", func(t *testing.T, call caller) {
		wrapped := fmt.Errorf("get /: %w", errDial)
		err := call(t.Context(), everySecond, func(context.Context) error { return wrapped })
		assert.Same(t, wrapped, stopped(t, err).Err)
		assert.NoError(t, errors.Unwrap(err), "an Error wraps two, so Unwrap of package errors gives neither")
	})
	everyWay(t, "a server's wait above MaxDelay is kept, and never shortened by jitter", func(t *testing.T, call caller) {
		p := everySecond
		p.MaxDelay = 5 * time.Second
		p.Jitter = retry.FullJitter
		for range 200 {
			runs := 0
			e := stopped(t, call(t.Context(), p, func(context.Context) error { runs++; return retry.After(30*time.Second, errDial) }))
			assert.Equal(t, 3, runs)
			assert.GreaterOrEqual(t, e.Waited, 2*30*time.Second)
			assert.LessOrEqual(t, e.Waited, 2*(30+5)*time.Second, "jitter adds at most MaxDelay")
		}
	})
	everyWay(t, "a server's wait above MaxRetryAfter stops, and is not cut", func(t *testing.T, call caller) {
		for _, row := range []struct {
			asked, most time.Duration
			runs        int
		}{
			{time.Minute, 0, 3},
			{time.Minute + 1, 0, 1},
			{time.Hour, time.Hour, 3},
			{time.Hour + 1, time.Hour, 1},
			{math.MaxInt64, time.Hour, 1},
		} {
			p := everySecond
			p.MaxRetryAfter = row.most
			start, runs := time.Now(), 0
			e := stopped(t, call(t.Context(), p, func(context.Context) error { runs++; return retry.After(row.asked, errDial) }))
			assert.Equal(t, row.runs, runs)
			assert.Equal(t, row.asked, e.Delay)
			assert.Equal(t, time.Duration(row.runs-1)*row.asked, time.Since(start))
			if row.runs == 1 {
				assert.Equal(t, retry.ReasonRetryAfter, e.Reason)
			}
		}
	})
	everyWay(t, "a server's wait beyond MaxElapsed stops before the sleep", func(t *testing.T, call caller) {
		p := everySecond
		p.MaxElapsed = 10 * time.Second
		start := time.Now()
		e := stopped(t, call(t.Context(), p, func(context.Context) error { return retry.After(30*time.Second, errDial) }))
		assert.Equal(t, retry.ReasonElapsed, e.Reason)
		assert.Equal(t, 30*time.Second, e.Delay)
		assert.Zero(t, time.Since(start))
	})
	everyWay(t, "a policy that is used again starts anew", func(t *testing.T, call caller) {
		p := retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Second}, MaxElapsed: time.Minute}
		for range 3 {
			start, runs := time.Now(), 0
			stopped(t, call(t.Context(), p, fails(&runs)))
			assert.Equal(t, 4, runs)
			assert.Equal(t, 7*time.Second, time.Since(start))
		}
	})
}

// Mistakes that were found in other retry loops.
func TestMistakesOfOthers(t *testing.T) {
	everyWay(t, "no hidden limit of time stops a loop that is unlimited", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		require.NoError(t, call(t.Context(), retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Hour)}, func(context.Context) error {
			if runs++; runs <= 10_000 {
				return errDial
			}
			return nil
		}))
		assert.Equal(t, 10_000*time.Hour, time.Since(start))
	})
	everyWay(t, "a stop never reads as a delay of nothing", func(t *testing.T, call caller) {
		p := everySecond
		p.MaxElapsed = time.Second / 2
		runs := 0
		e := stopped(t, call(t.Context(), p, fails(&runs)))
		assert.Equal(t, retry.ReasonElapsed, e.Reason)
		assert.Equal(t, time.Second, e.Delay)
	})
	everyWay(t, "the first execution counts against MaxElapsed: a long one is not retried", func(t *testing.T, call caller) {
		p := everySecond
		p.MaxElapsed = 15 * time.Minute
		runs := 0
		err := call(t.Context(), p, func(context.Context) error { runs++; time.Sleep(16 * time.Minute); return errDial })
		assert.Equal(t, 1, runs)
		assert.EqualError(t, err, "retry: elapsed after 1 attempt (the next delay of 1s would pass MaxElapsed): dial tcp: connection refused")
	})
	everyWay(t, "Permanent names the reason with a limit of one too", func(t *testing.T, call caller) {
		err := call(t.Context(), retry.Policy{MaxAttempts: 1}, func(context.Context) error { return retry.Permanent(errDial) })
		assert.EqualError(t, err, "retry: permanent error after 1 attempt: dial tcp: connection refused")
		assert.ErrorIs(t, err, errDial)
	})
	everyWay(t, "Permanent holds beside a RetryIf that says yes, limited or not", func(t *testing.T, call caller) {
		for _, limit := range []int{3, retry.Unlimited} {
			p := everySecond
			p.MaxAttempts = limit
			p.RetryIf = func(error) bool { return true }
			runs := 0
			err := call(t.Context(), p, func(context.Context) error { runs++; return retry.Permanent(errDial) })
			assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
			assert.Equal(t, 1, runs)
		}
	})
	everyWay(t, "After keeps the error that it marks", func(t *testing.T, call caller) {
		start := time.Now()
		err := call(t.Context(), retry.Policy{MaxAttempts: 2}, func(context.Context) error { return retry.After(30*time.Second, errDial) })
		assert.ErrorIs(t, err, errDial)
		assert.ErrorContains(t, err, "connection refused")
		assert.Equal(t, 30*time.Second, time.Since(start))
	})
	everyWay(t, "a typed nil *Error is an ordinary failure", func(t *testing.T, call caller) {
		runs := 0
		err := call(t.Context(), everySecond, func(context.Context) error { runs++; return (*retry.Error)(nil) })
		assert.Equal(t, 3, runs)
		assert.EqualError(t, err, "retry: attempts exhausted after 3 attempts (2s waited): <nil>")
	})
	everyWay(t, "after many attempts the last error is the last", func(t *testing.T, call caller) {
		runs := 0
		err := call(t.Context(), retry.Policy{MaxAttempts: 1500}, func(context.Context) error { runs++; return fmt.Errorf("failure %d", runs) })
		assert.EqualError(t, stopped(t, err).Err, "failure 1500")
	})
	everyWay(t, "an empty Budget still tells how long the wait would have been, and that it was not the server", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = retry.NewBudget(1, 0)
		tokens(p.Budget)
		runs := 0
		err := call(t.Context(), p, fails(&runs))
		assert.EqualError(t, err, "retry: budget exhausted after 1 attempt (the next delay is 1s): dial tcp: connection refused")
		assert.Equal(t, time.Second, stopped(t, err).Delay)
	})
	everyWay(t, "a zero policy is no endless loop", func(t *testing.T, call caller) {
		runs := 0
		err := call(t.Context(), retry.Policy{}, fails(&runs))
		assert.Equal(t, 1, runs)
		assert.EqualError(t, err, "retry: attempts exhausted after 1 attempt (the policy sets no limit): dial tcp: connection refused")
	})
	everyWay(t, "no goroutine waits for a context that never ends", func(t *testing.T, call caller) {
		before := runtime.NumGoroutine() // some of other tests may be about to end
		most := 0
		p := everySecond
		p.AttemptTimeout = time.Minute
		p.OnEvent = func(context.Context, retry.Event) { most = max(most, runtime.NumGoroutine()) }
		err := call(context.Background(), p, func(context.Context) error { most = max(most, runtime.NumGoroutine()); return errDial })
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.LessOrEqual(t, most, before)
	})
}

// What stopped a call is never hidden: a context that ended beside an invalid
// policy is found with it.
func TestInvalidPolicyDoesNotHideTheContext(t *testing.T) {
	invalid := retry.Policy{MaxAttempts: -2}
	for name, p := range map[string]retry.Policy{
		"of the call": invalid,
		"of Select":   {MaxAttempts: 3, Select: func(error) *retry.Policy { return &invalid }},
	} {
		everyWay(t, name, func(t *testing.T, call caller) {
			ctx, cancel := context.WithCancelCause(t.Context())
			err := call(ctx, p, func(context.Context) error { cancel(errShutdown); return errDial })
			e := stopped(t, err)
			assert.Equal(t, retry.ReasonInvalid, e.Reason)
			assert.ErrorIs(t, err, context.Canceled)
			assert.ErrorIs(t, err, errShutdown)
			assert.ErrorIs(t, err, errDial)
			assert.ErrorContains(t, err, "MaxAttempts is -2")
		})
	}
}

// doneEarly is a context that breaks the contract: it is done before it has an
// error.
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
		assert.Equal(t, 1, runs, "it does not run hot")
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

// A seed that was drawn once is not told of a retry that drew nothing.
func TestEventSeedOnlyWhereItDrew(t *testing.T) {
	everyWay(t, "no delay after one that was drawn", func(t *testing.T, call caller) {
		var told watch
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{time.Second, 0}, Jitter: retry.FullJitter, OnEvent: told.event}
		stopped(t, call(t.Context(), p, func(context.Context) error { return errDial }))
		scheduled := told.of(retry.RetryScheduled)
		assert.NotZero(t, scheduled[0].Seed)
		assert.Zero(t, scheduled[1].Seed)
	})
}

func TestMaxRetriesAloneIsALimit(t *testing.T) {
	err := retry.Do(t.Context(), retry.Policy{MaxRetries: 1}, func(context.Context) error { return errDial })
	assert.EqualError(t, err, "retry: attempts exhausted after 2 attempts: dial tcp: connection refused")
}

func TestMarkOnTheErrorOfAnInnerCall(t *testing.T) {
	inner := retry.Do(t.Context(), retry.Policy{}, func(context.Context) error { return errDial })
	d := retry.Policy{MaxAttempts: 3}.Next(retry.Attempt{Number: 1, Err: retry.Permanent(inner)})
	assert.Equal(t, retry.ReasonPermanent, d.Reason)
}

// hides is an error that shows what it wraps through As alone.
type hides struct{ err error }

func (hides) Error() string        { return "hidden" }
func (h hides) As(target any) bool { return errors.As(h.err, target) }

func TestMarksBehindAs(t *testing.T) {
	invalid := retry.Do(t.Context(), retry.Policy{MaxAttempts: -2}, func(context.Context) error { return errDial })
	exhausted := retry.Do(t.Context(), retry.Policy{}, func(context.Context) error { return errDial })
	for name, row := range map[string]struct {
		err  error
		want retry.Decision
	}{
		"an invalid inner call": {hides{invalid}, retry.Decision{Reason: retry.ReasonPermanent}},
		"an inner call":         {hides{exhausted}, retry.Decision{Reason: retry.ReasonRetry}},
		"permanent":             {hides{retry.Permanent(errDial)}, retry.Decision{Reason: retry.ReasonPermanent}},
		"after":                 {hides{retry.After(time.Second, errDial)}, retry.Decision{Reason: retry.ReasonRetry, Delay: time.Second}},
		"nothing":               {hides{errDial}, retry.Decision{Reason: retry.ReasonRetry}},
	} {
		assert.Equal(t, row.want, retry.Policy{MaxAttempts: 3}.Next(retry.Attempt{Number: 1, Err: row.err}), name)
	}
}

// The hint is told as the server gave it, whatever the jitter adds.
func TestRetryAfterTooLongTellsTheHint(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Jitter: retry.FullJitter}
	d := p.Next(retry.Attempt{Number: 1, Err: retry.After(time.Hour, errDial), Seed: 42})
	assert.Equal(t, retry.Decision{Delay: time.Hour, Reason: retry.ReasonRetryAfter}, d)
}

func TestErrorTextIsOneLine(t *testing.T) {
	e := &retry.Error{Reason: retry.ReasonExhausted, Attempts: 2, Err: errors.New("a\r\nb\nc\rd")}
	assert.Equal(t, "retry: attempts exhausted after 2 attempts: a; b; c; d", e.Error())
	assert.Equal(t, "retry: stopped before the first attempt", new(retry.Error).Error())
}
