package convert

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// writeCenkalti returns a Go expression. Version 4 applies the maximum before
// it draws a delay around the result, so a delay can exceed the maximum.
func writeCenkalti(w *writer) any {
	if w.attempts == 1 {
		return "&backoff.StopBackOff{}"
	}
	b := "&backoff.ZeroBackOff{}"
	if w.curve != none {
		b = fmt.Sprintf("backoff.NewExponentialBackOff(\n\tbackoff.WithInitialInterval(%s),\n\tbackoff.WithMultiplier(%v),\n\tbackoff.WithRandomizationFactor(%v),\n\tbackoff.WithMaxInterval(%s),\n\tbackoff.WithMaxElapsedTime(%s),\n)",
			goDuration(w.base), w.factor, w.share(), goDuration(cmp.Or(w.cap, w.longest())), goDuration(w.elapsed))
	} else if w.elapsed > 0 {
		w.add("max_elapsed", w.elapsed, "a ZeroBackOff has none")
	}
	if w.attempts != retry.Unlimited {
		b = fmt.Sprintf("backoff.WithMaxRetries(%s, %d)", b, w.attempts-1)
	}
	return b
}

// goDuration returns a Go expression for a duration, in the largest unit that
// divides it.
func goDuration(d time.Duration) string {
	for _, unit := range []struct {
		name string
		d    time.Duration
	}{{"Hour", time.Hour}, {"Minute", time.Minute}, {"Second", time.Second}, {"Millisecond", time.Millisecond}, {"Microsecond", time.Microsecond}} {
		if d != 0 && d%unit.d == 0 {
			return fmt.Sprintf("%d*time.%s", d/unit.d, unit.name)
		}
	}
	return strconv.FormatInt(int64(d), 10)
}

// protoSeconds formats a duration as protocol buffers do: 0.2s.
func protoSeconds(d time.Duration) string {
	return strconv.FormatInt(int64(d/time.Second), 10) + strings.TrimRight(strings.TrimRight(fmt.Sprintf(".%09d", d%time.Second), "0"), ".") + "s"
}
