// Package gate keeps the pauses of retry.Gate and retryhttp.Gate.
package gate

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/goretry/retry/internal/wait"
)

// Pauses keeps the last pause of each key, for at most 10,000 keys. The zero value keeps no
// pause and is ready to use, by any number of goroutines.
type Pauses struct {
	mu    sync.Mutex
	last  map[string]Pause
	sweep int // how many pauses may begin before finished pauses are deleted
}

const most = 10_000

// A Pause holds callers until a time that is drawn for each caller, between Until and
// Until + Spread.
type Pause struct {
	Until time.Time
	wait  time.Duration
}

// Spread returns the time after Until during which the callers leave. It is a quarter of the
// wait, or less if wait + Spread would overflow a duration.
func (p Pause) Spread() time.Duration { return min(p.wait/4, math.MaxInt64-p.wait) }

// Over reports whether the pause no longer holds any caller.
func (p Pause) Over(now time.Time) bool { return !now.Before(p.Until.Add(p.Spread())) }

// Last returns the last pause of a key. It may be over. If there was no pause, it is zero.
func (g *Pauses) Last(key string) Pause {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last[key]
}

// Hold waits until the gate is open for a key. left is the rest of the pause. room returns the
// part of the spread that the caller has time for, or an error if the caller cannot wait.
// While a caller waits, another refusal may begin a new pause. Hold then waits for that pause
// too. drawn is the end of the last pause that this caller has waited for.
func (g *Pauses) Hold(
	ctx context.Context, key string, drawn *time.Time,
	room func(left, spread time.Duration) (time.Duration, error),
) error {
	for {
		now := time.Now()
		p := g.Last(key)
		if p.Over(now) || p.Until.Equal(*drawn) {
			return nil
		}
		*drawn = p.Until
		left := p.Until.Sub(now)
		spread, err := room(left, p.Spread())
		if err == nil {
			_, err = wait.For(ctx, left+rand.N(max(0, spread)+1))
		}
		if err != nil {
			return err
		}
	}
}

// Within returns the spread that fits before the deadline of ctx. This is at most half of the
// time from the end of the pause to the deadline, because the attempt needs time too. left is
// the rest of the pause. The second result is false if the deadline comes before the end of the
// pause.
func Within(ctx context.Context, left, spread time.Duration) (time.Duration, bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return spread, true
	}
	room := time.Until(deadline) - left
	return min(spread, room/2), room > 0
}

// Begin makes the pause of a key last for d from now on, unless the pause already lasts longer.
// It reports whether a new pause has begun. It returns false if a pause became longer.
func (g *Pauses) Begin(key string, d time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	until, last := now.Add(d), g.last[key].Until
	if !until.After(last) {
		return false
	}
	if g.last == nil {
		g.last = make(map[string]Pause)
	}
	g.last[key] = Pause{until, d}
	if g.sweep--; g.sweep < 0 {
		maps.DeleteFunc(g.last, func(_ string, p Pause) bool { return p.Over(now) })
		g.sweep = len(g.last) + 16
	}
	for other := range g.last {
		if len(g.last) <= most {
			break
		}
		if other != key { // any other key will do: its attempts may get one more refusal
			delete(g.last, other)
		}
	}
	return !now.Before(last)
}

// Held is the error of an attempt that a gate does not let through. It closes no other gate,
// because no server has asked for this wait.
type Held struct{ Err error }

func (h Held) Error() string { return h.Err.Error() }
func (h Held) Unwrap() error { return h.Err }
