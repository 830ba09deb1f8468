package retry_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

func TestPanicAndGoexitPassThrough(t *testing.T) {
	leaves := map[string]func(){
		"panic":  func() { panic("fn") },
		"Goexit": runtime.Goexit,
	}
	// run runs f in its own goroutine. It returns what f panicked with, and
	// whether f returned.
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
				assert.Equal(t, 5-max(0, runs-1), tokens(p.Budget), "%v after %d runs: a retry that was not made costs nothing", kind, runs)
			}
		})
	}
}

func TestLoopPanicAndGoexit(t *testing.T) {
	for name, exit := range map[string]func(){"panic": func() { panic("body") }, "Goexit": runtime.Goexit} {
		for _, row := range []struct {
			name   string
			before error
			leave  leave
			want   error
		}{
			{"iteration 1, unassigned: as before the loop, nil", nil, leave{1, false, nil}, nil},
			{"iteration 1, unassigned: as before the loop, an error", errShutdown, leave{1, false, nil}, errShutdown},
			{"iteration 1, with an error: as the body left it", nil, leave{1, true, errDial}, errDial},
			{"iteration 1, with nil: as the body left it", errShutdown, leave{1, true, nil}, nil},
			{"iteration 2, unassigned: the previous error", nil, leave{2, false, nil}, errDial},
			{"iteration 2, with an error: as the body left it", nil, leave{2, true, errShutdown}, errShutdown},
		} {
			bubble(t, name+"/"+row.name, func(t *testing.T) {
				p, told := watched()
				err := row.before
				var recovered any
				returned := false
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { recovered = recover() }()
					for attempt := range retry.Loop(t.Context(), p, &err) {
						if row.leave.body(attempt, &err) {
							exit()
						}
					}
					returned = true
				}()
				<-done
				assert.False(t, returned)
				assert.Equal(t, name == "panic", recovered == "body")
				assert.True(t, row.want == err, "err is %v; want %v", err, row.want)
				n := row.leave.turn
				assert.Equal(t, counts{n, n - 1, n - 1, 0}, told.counts())
				assert.Equal(t, 5-(n-1), tokens(p.Budget), "as many as retries were made")
			})
		}
	}
	bubble(t, "a panic in OnEvent before the first iteration: as before the loop", func(t *testing.T) {
		err := errShutdown
		p := everySecond
		p.OnEvent = func(context.Context, retry.Event) { panic("OnEvent") }
		assert.PanicsWithValue(t, "OnEvent", func() {
			for range retry.Loop(t.Context(), p, &err) {
				t.Error("the body runs")
			}
		})
		assert.Same(t, errShutdown, err)
	})
}
