package retrytest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/saturate"
)

// Schedule checks the delays of p for an operation that always fails and takes no time. p must wait
// exactly the delays in `want`, and then stop. If p never stops, because it is unlimited and has no
// MaxElapsed, Schedule checks only that the delays of p start with `want`.
//
// With a Jitter, each delay is drawn from a window. To check the delays without jitter, set
// p.Jitter to nil. To check the windows, use [Table].
func Schedule(t testing.TB, p retry.Policy, want ...time.Duration) {
	t.Helper()
	got, end := schedule(p, len(want)+1)
	if p.EffectiveMax() == retry.Unlimited && p.MaxElapsed == 0 {
		got, end = got[:len(want)], ", and so on"
	}
	wanted := make([]window, len(want))
	for i, d := range want {
		wanted[i] = window{d, d}
	}
	if !slices.Equal(got, wanted) {
		report(t, p, []string{
			"waits " + list(got) + end,
			"want  " + list(wanted),
		})
	}
}

// schedule returns the first n delays of p. Its second result says in words what follows these
// delays.
func schedule(p retry.Policy, n int) (delays []window, end string) {
	elapsed := time.Duration(0)
	for attempt := 1; ; attempt++ {
		reason, w := Row{Attempts: attempt, Elapsed: elapsed}.decide(p)
		switch {
		case reason != string(retry.ReasonRetry):
			return delays, ", then stops: " + reason
		case len(delays) == n:
			return delays, ", and more"
		}
		delays = append(delays, w)
		elapsed = saturate.Add(elapsed, w.hi)
	}
}

func list(delays []window) string {
	if len(delays) == 0 {
		return "nothing"
	}
	text := make([]string, len(delays))
	for i, w := range delays {
		text[i] = w.String()
	}
	return strings.Join(text, " -> ")
}
