package retry_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// The function `refused` closes g for a key: it calls a function whose error asks for a wait.
func refused(t *testing.T, g *retry.Gate, key string, wait time.Duration) {
	t.Helper()
	err := g.Hold(key, failWith(retry.After(wait, errBoom)))(t.Context())
	require.Equal(t, wait, retry.RetryAfterOf(err), "the gate returns the error of the function unchanged")
}

// The function `held` returns how long the gate holds a function back, and the error of this
// function.
func held(ctx context.Context, g *retry.Gate, key string, fn func(context.Context) error) (time.Duration, error) {
	start := time.Now()
	err := g.Hold(key, fn)(ctx)
	return time.Since(start), err
}

func TestGate(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		name  string
		max   time.Duration
		fail  error
		key   string // the key of the second function; the key of the first is "a"
		least time.Duration
	}{
		{"a wait", 0, retry.After(8*s, errBoom), "a", 8 * s},
		{"another key", 0, retry.After(8*s, errBoom), "b", 0},
		{"the method RetryAfter of an error inside", 0, fmt.Errorf("call: %w", asksFor(8*s)), "a", 8 * s},
		{"a permanent error with a wait", 0, retry.Permanent(retry.After(8*s, errBoom)), "a", 8 * s},
		{"no wait", 0, errBoom, "a", 0},
		{"a success", 0, nil, "a", 0},
		{"a wait of zero", 0, retry.After(0, errBoom), "a", 0},
		{"longer than a minute", 0, retry.After(time.Hour, errBoom), "a", time.Minute},
		{"longer than Max", 4 * s, retry.After(time.Hour, errBoom), "a", 4 * s},
		{"Max below zero", -1, retry.After(time.Hour, errBoom), "a", time.Minute},
		{"the longest Max", math.MaxInt64, retry.After(100*time.Hour, errBoom), "a", 100 * time.Hour},
	} {
		bubble(t, row.name, func(t *testing.T) {
			g := &retry.Gate{Max: row.max}
			assert.Equal(t, row.fail, g.Hold("a", failWith(row.fail))(t.Context()))
			runs := 0
			waited, err := held(t.Context(), g, row.key, fails(&runs))
			assert.Equal(t, errDial, err)
			assert.Equal(t, 1, runs)
			assert.GreaterOrEqual(t, waited, row.least)
			assert.LessOrEqual(t, waited, row.least+row.least/4, "the random part is at most a quarter of the wait")
			again, _ := held(t.Context(), g, row.key, fails(&runs))
			assert.LessOrEqual(t, again, row.least/4, "after the pause, only its random part is left")
		})
	}
	t.Run("nil", func(t *testing.T) {
		var g *retry.Gate
		assert.Equal(t, errDial, g.Hold("a", failWith(errDial))(t.Context()))
		assert.Nil(t, new(retry.Gate).Hold("a", nil), "so Do reports a nil function")
	})
}

type asksFor time.Duration

func (asksFor) Error() string               { return "busy" }
func (d asksFor) RetryAfter() time.Duration { return time.Duration(d) }

// After the wait, the callers start at random times within a quarter of the wait.
func TestGateSpreadsItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g retry.Gate
		refused(t, &g, "a", 40*time.Second)
		var mu sync.Mutex
		left, start := map[time.Duration]int{}, time.Now()
		for range 1000 {
			go func() {
				_ = g.Hold("a", func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					left[time.Since(start)/time.Second]++
					return nil
				})(t.Context())
			}()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Len(t, left, 10, "callers start in each of the seconds 40 to 49")
		for second, callers := range left {
			assert.True(t, 40 <= second && second < 50 && 40 < callers && callers < 160, "%d at %d", callers, second)
		}
	})
}

// An uncomparable error contains a map, so == and errors.Is panic.
type uncomparable struct {
	wait   time.Duration
	fields any
}

func (uncomparable) Error() string               { return "uncomparable" }
func (e uncomparable) RetryAfter() time.Duration { return e.wait }

// In an errgroup, a call that is asked to wait cancels another call, and is the cause of its end. The
// other call returns the cause, as net/http does. This closes only the gate of the first call.
func TestGateOfACallThatAnotherCallCancels(t *testing.T) {
	other := retry.After(time.Minute, errBoom)
	for _, tt := range []struct {
		name       string
		cause, err error
		closed     int
	}{
		{"the call returns the cause", other, nil, 0},
		{"the call returns an error that contains the cause", other, fmt.Errorf("get: %w", other), 0},
		{"the call was asked to wait as long as the other call", other, retry.After(time.Minute, errBoom), 1},
		{"the call was asked to wait, and then canceled", other, errors.Join(retry.After(time.Hour, errBoom), other), 1},
		{"a cause that cannot be compared", uncomparable{time.Minute, map[string]int{}}, nil, 1},
		{"the call was asked to wait for another time", retry.After(time.Minute, errBoom), retry.After(time.Second, errBoom), 1},
		{"the call was asked to wait before it was canceled", errBoom, retry.After(time.Minute, errBoom), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			closed := 0
			gate := &retry.Gate{OnClose: func(string, time.Duration, error) { closed++ }}
			ctx, cancel := context.WithCancelCause(t.Context())
			_ = gate.Hold("billing", func(ctx context.Context) error {
				cancel(tt.cause)
				return cmp.Or(tt.err, context.Cause(ctx))
			})(ctx)
			assert.Equal(t, tt.closed, closed)
		})
	}
}

// If an inner gate does not let an attempt through, the outer gate does not close, even with a Do
// between the two gates. If the server asks for a wait, both gates close.
func TestGateInsideAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var account, model retry.Gate
		call := func(name string, fn func(context.Context) error) error {
			fn = model.Hold(name, fn)
			return account.Hold("account", func(ctx context.Context) error {
				return retry.Do(ctx, retry.Policy{MaxAttempts: 2}, fn)
			})(within(t.Context(), time.Second, nil))
		}
		refused(t, &model, "large", 30*time.Second)
		assert.ErrorContains(t, call("large", failWith(nil)), "nothing was sent")
		assert.NoError(t, call("small", failWith(nil)))
		assert.ErrorIs(t, call("small", failWith(retry.After(30*time.Second, errBoom))), errBoom)
		assert.ErrorContains(t, call("tiny", failWith(nil)), "nothing was sent: a server asked all callers of \"account\"")
	})
}

// If the server asks an attempt in flight for a wait during a pause, the pause becomes longer for
// the attempts that are held back. OnClose is called once for the pause.
func TestRefusalInFlightClosesTheGateAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed []string
		g := retry.Gate{OnClose: func(key string, wait time.Duration, cause error) {
			closed = append(closed, fmt.Sprint(key, " ", wait, " ", cause))
		}}
		go func() {
			_ = g.Hold("a", func(context.Context) error {
				time.Sleep(5 * time.Second)
				return retry.After(30*time.Second, errDial)
			})(t.Context())
		}()
		synctest.Wait()
		refused(t, &g, "a", 8*time.Second)
		waited, err := held(t.Context(), &g, "a", failWith(nil))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, waited, 35*time.Second)
		assert.LessOrEqual(t, waited, 35*time.Second+30*time.Second/4)
		time.Sleep(time.Minute)
		refused(t, &g, "a", 2*time.Second)
		assert.Equal(t, []string{"a 8s boom", "a 2s boom"}, closed)
	})
}

// An attempt that cannot wait long enough fails at once, and its error says so. The function is
// not called.
func TestGateFailsAttemptsThatCannotWait(t *testing.T) {
	never := func(context.Context) error { panic("called") }
	bubble(t, "a deadline before the end", func(t *testing.T) {
		var g retry.Gate
		refused(t, &g, "billing", 10*time.Second)
		for _, left := range []time.Duration{0, time.Second, 10 * time.Second} {
			waited, err := held(within(t.Context(), left, nil), &g, "billing", never)
			assert.Zero(t, waited)
			assert.EqualError(t, err, `nothing was sent: a server asked all callers of "billing" to wait, for 10s more`)
			assert.Equal(t, 10*time.Second, retry.RetryAfterOf(err), "the error asks for the rest of the wait")
		}
		for n := range time.Duration(20) { // the first deadline leaves no time for a random part
			var g retry.Gate
			refused(t, &g, "billing", 40*time.Second)
			waited, err := held(within(t.Context(), 40*time.Second+1+n*200*time.Millisecond, nil), &g, "billing", failWith(nil))
			assert.NoError(t, err)
			assert.LessOrEqual(t, waited, 42*time.Second, "the attempt gets half of the time before the deadline")
		}
	})
	bubble(t, "canceled while it waits", func(t *testing.T) {
		var g retry.Gate
		refused(t, &g, "billing", 10*time.Second)
		waited, err := held(canceledIn(3*time.Second, errShutdown)(t.Context()), &g, "billing", never)
		assert.Equal(t, 3*time.Second, waited)
		assert.EqualError(t, err, `nothing was sent: a server asked all callers of "billing" to wait: context canceled`)
		assert.ErrorIs(t, err, context.Canceled)
	})
	bubble(t, "in a call: AttemptTimeout includes the wait at the gate", func(t *testing.T) {
		var g retry.Gate
		refused(t, &g, "billing", 10*time.Second)
		p := everySecond
		p.AttemptTimeout = time.Second
		start, runs := time.Now(), 0
		err := retry.Do(t.Context(), p, g.Hold("billing", func(context.Context) error { runs++; return nil }))
		require.NoError(t, err)
		assert.Equal(t, 1, runs)
		assert.GreaterOrEqual(t, time.Since(start), 10*time.Second, "the loop waits for the rest of the pause")
	})
}
