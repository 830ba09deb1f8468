package retryjob_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry/retryjob"
)

// The results of Spread must not change in v1, so that processes with different versions compute
// the same times.
func TestSpread(t *testing.T) {
	for _, row := range []struct {
		key    string
		window time.Duration
		want   time.Duration
	}{
		{"mail-7", time.Hour, 3_288_179_472_704},
		{"mail-8", time.Hour, 2_898_547_187_641},
		{"", time.Hour, 1_981_335_826_431},
		{"mail-7", time.Minute, 54_802_991_212},
		{"mail-7", 0, 0},
		{"mail-7", -time.Hour, 0},
	} {
		assert.Equal(t, row.want, retryjob.Spread(row.key, row.window), "%q in %v", row.key, row.window)
	}
}

// The jobs are distributed evenly: of 1,000 jobs, each fifth of the window gets between 160 and
// 240.
func TestSpreadIsEven(t *testing.T) {
	const jobs, parts = 1000, 5
	for _, form := range []string{"%d", "job-%d", "ORDERS/%d", "jobs:%08x", "%d@example.com", "a71c9a5e-0000-4000-8000-%012d"} {
		for _, window := range []time.Duration{time.Second, time.Hour} {
			var counts [parts]int
			for n := 1; n <= jobs; n++ {
				at := retryjob.Spread(fmt.Sprintf(form, n), window)
				assert.GreaterOrEqual(t, at, time.Duration(0))
				assert.LessOrEqual(t, at, window)
				counts[min(parts-1, int(at*parts/window))]++
			}
			for _, n := range counts {
				assert.InDelta(t, jobs/parts, n, jobs/parts/parts, "%s in %v: %v", form, window, counts)
			}
		}
	}
}
