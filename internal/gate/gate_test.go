package gate

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Pauses
		assert.True(t, g.Begin("a", 8*time.Second))
		assert.True(t, g.Begin("b", time.Second), "another key")
		assert.False(t, g.Begin("a", 7*time.Second), "a shorter wait changes nothing")
		assert.Equal(t, time.Now().Add(8*time.Second), g.Last("a").Until)
		assert.False(t, g.Begin("a", 9*time.Second), "a longer wait does not begin a new pause")
		assert.Equal(t, time.Now().Add(9*time.Second), g.Last("a").Until)
		time.Sleep(9 * time.Second)
		assert.True(t, g.Begin("a", 1), "after the end of a pause, a new pause begins")
	})
}

func TestOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Pauses
		assert.True(t, g.Last("a").Over(time.Now()), "the key had no pause")
		for wait, spread := range map[time.Duration]time.Duration{
			3: 0, 4: 1, 8 * time.Second: 2 * time.Second, math.MaxInt64 - 1: 1, math.MaxInt64: 0,
		} {
			p := Pause{Until: time.Now(), length: wait}
			assert.Equal(t, spread, p.Spread())
			assert.False(t, p.Over(p.Until.Add(spread-1)))
			assert.True(t, p.Over(p.Until.Add(spread)))
		}
	})
}

// Keys whose pause is over are deleted, so that a key for each request costs no memory. Of the
// other keys, the newest are kept.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Pauses
		g.Begin("long", time.Hour)
		for i := range 10_000 {
			g.Begin(fmt.Sprint(i), time.Second)
			time.Sleep(100 * time.Millisecond) // so that about 13 pauses are not over
		}
		assert.LessOrEqual(t, len(g.last), 50)
		assert.False(t, g.Last("long").Over(time.Now()), "a pause that is not over is kept")
		for i := range 20_000 {
			key := fmt.Sprint(i)
			g.Begin(key, time.Hour)
			if g.Last(key).Over(time.Now()) {
				t.Fatal("the newest pause is missing")
			}
		}
		assert.Len(t, g.last, 10_000)
	})
}
