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
			p.Budget = &retry.Budget{Size: 5, Ratio: 1}
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
				p.Budget = &retry.Budget{Size: 5}
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
