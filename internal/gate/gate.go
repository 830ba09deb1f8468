// Package gate keeps the pauses of a gate: of retry.Gate, and of retryhttp.Gate.
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

// Pauses has the last pause of each key, of at most 10,000 keys. The zero value has none.
type Pauses struct {
	mu    sync.Mutex
	last  map[string]Pause
	sweep int // how many pauses may begin before those that are over are deleted
}

const most = 10_000

// A Pause is over for a caller when the time has come that was drawn for it, and for
// all callers when its spread has passed too.
type Pause struct {
	Until time.Time
	wait  time.Duration
}

// Spread returns the time after Until in which the callers leave, a quarter of the
// wait. It never reaches beyond what a duration holds from now.
func (p Pause) Spread() time.Duration { return min(p.wait/4, math.MaxInt64-p.wait) }

// Over reports whether all callers may have left.
func (p Pause) Over(now time.Time) bool { return !now.Before(p.Until.Add(p.Spread())) }

// Last returns the last pause of a key, which may be over.
func (g *Pauses) Last(key string) Pause {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last[key]
}

// Hold waits until the gate is open for a key. room returns how much of the spread a caller
// has time for after the rest of the pause, or why it cannot wait. While a caller waits, another
// refusal may begin a new pause; drawn is the end of the last pause for which this caller has
// drawn its time to leave.
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

// Within cuts a spread to half of what the deadline of ctx leaves after the pause, because the
// attempt needs time too. It reports whether the deadline leaves anything.
func Within(ctx context.Context, left, spread time.Duration) (time.Duration, bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return spread, true
	}
	room := time.Until(deadline) - left
	return min(spread, room/2), room > 0
}

// Begin makes the pause of a key last for d from now on, if it does not last longer,
// and reports whether a pause has begun with that.
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
		if other != key { // whichever it is: it may meet one refusal more
			delete(g.last, other)
		}
	}
	return !now.Before(last)
}

// Held is what an attempt fails with that a gate does not let through. It closes no other
// gate, for no server has said it.
type Held struct{ Err error }

func (h Held) Error() string { return h.Err.Error() }
func (h Held) Unwrap() error { return h.Err }
