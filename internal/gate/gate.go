// Package gate stores, for each key, the time until which callers must wait. It is the common part
// of retry.Gate and retryhttp.Gate.
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

// Pauses keeps the last pause of each key, for at most 10,000 keys. The zero Pauses contains no
// pause. It is ready to use, by any number of goroutines.
type Pauses struct {
	mu    sync.Mutex
	last  map[string]Pause
	sweep int // after this many new pauses, the pauses that are over are deleted
}

const most = 10_000

// A Pause holds callers. Each caller is held until a time drawn at random, between Until and
// Until + Spread.
type Pause struct {
	Until  time.Time
	length time.Duration
}

// Spread returns the length of the time after Until in which the held callers go on, one by one.
// Spread is a quarter of the pause's length. It is less if the length plus a quarter would overflow
// a duration.
func (p Pause) Spread() time.Duration { return min(p.length/4, math.MaxInt64-p.length) }

// Over reports whether the pause has ended at the time `now`, so that it no longer holds any
// caller.
func (p Pause) Over(now time.Time) bool { return !now.Before(p.Until.Add(p.Spread())) }

// Last returns the last pause of a key, which may be over. If the key had no pause, Last
// returns the zero Pause.
func (g *Pauses) Last(key string) Pause {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last[key]
}

// Hold waits until the gate is open for a key. For each pause, Hold calls the function `room` with
// the time `left` until the end of the pause. After this end, the callers start one by one during
// the time `spread`. `room` returns how much of `spread` the caller has time for. If the caller has
// no time to wait, `room` returns an error, and Hold returns this error. While Hold waits, the
// server may refuse a request of another caller, which begins a new pause. Then Hold waits for the
// new pause too. The parameter lastEnd points to the end of the last pause for which this caller
// has waited.
func (g *Pauses) Hold(
	ctx context.Context, key string, lastEnd *time.Time,
	room func(left, spread time.Duration) (time.Duration, error),
) error {
	for {
		now := time.Now()
		p := g.Last(key)
		if p.Over(now) || p.Until.Equal(*lastEnd) {
			return nil
		}
		*lastEnd = p.Until
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

// Within returns how much of the time `spread` fits between the end of a pause and the deadline
// of ctx. During `spread`, after the end of the pause, the callers start one by one. The result
// is at most half of the time between the end of the pause and the deadline, because the wait
// may end late, and the attempt needs time too. The parameter `left` is the time until the end of
// the pause. The second result is false if the deadline comes before the end of the pause.
func Within(ctx context.Context, left, spread time.Duration) (time.Duration, bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return spread, true
	}
	room := time.Until(deadline) - left
	return min(spread, room/2), room > 0
}

// Begin makes the pause of a key last for d from now on. It does nothing if the pause already
// lasts longer. Begin returns true if it began a new pause, and false if it made a pause longer
// or did nothing.
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
		// There are too many pauses, so the pause of the key `other` is deleted. Then the next attempt
		// with this key does not wait for the end of the pause, and a server may refuse it.
		if other != key {
			delete(g.last, other)
		}
	}
	return !now.Before(last)
}

// Held is the error of an attempt that a gate did not allow. If this error reaches an outer gate,
// the outer gate does not close, because no server has asked for a wait.
type Held struct{ Err error }

func (h Held) Error() string { return h.Err.Error() }
func (h Held) Unwrap() error { return h.Err }
