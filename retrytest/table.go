package retrytest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
)

// A Row is the expected decision of a policy after a number of attempts.
type Row struct {
	Attempts int           // the count of attempts that were made; 0 or below: check only Eligible
	Err      error         // the error of the last attempt; nil: only limits and time decide
	Elapsed  time.Duration // the time since the first attempt began
	Seed     uint64        // check the one delay that this seed draws; 0: check the window

	// Eligible is the expected result of Policy.Eligible, which depends only on Attempts.
	Eligible bool

	// Reason is the expected Reason of Policy.Next. "": ReasonRetry if Eligible is true, and
	// otherwise any Reason except ReasonRetry.
	Reason retry.Reason

	// Delay is the expected delay, if there is only one. Lo and Hi are the window from which
	// the delay is drawn. Write Delay, or Lo and Hi. If all three are 0, the delay is checked
	// only if the Reason of Policy.Next is ReasonRetry.
	Delay  time.Duration
	Lo, Hi time.Duration
}

// Table checks that p makes the decision of each row. One failure reports all rows for which p
// makes another decision. A Row does not contain the classes of earlier failures, so the limit
// of each class counts all failures.
func Table(t testing.TB, p retry.Policy, rows []Row) {
	t.Helper()
	var lines []string
	for i, row := range rows {
		if faults := row.faults(p); faults != nil {
			text := strings.Join(faults, ", ")
			lines = append(lines, fmt.Sprintf("rows[%d], %s: %s", i, row.name(), text))
		}
	}
	report(t, p, lines)
}

// report fails t if there are lines to report.
func report(t testing.TB, p retry.Policy, lines []string) {
	t.Helper()
	if lines != nil {
		t.Errorf("retrytest: %v\n    %s", p, strings.Join(lines, "\n    "))
	}
}

// name describes the attempt of the row.
func (row Row) name() string {
	s := fmt.Sprintf("after %d attempts", row.Attempts)
	if row.Attempts == 1 {
		s = "after 1 attempt"
	}
	if row.Err != nil {
		s += fmt.Sprintf(" and %q", row.Err)
	}
	return s
}

// faults returns a text for each difference between the row and the decision of p.
func (row Row) faults(p retry.Policy) (faults []string) {
	differ := func(what string, got, want any) {
		faults = append(faults, fmt.Sprintf("%s is %v, want %v", what, got, want))
	}
	if got := p.Eligible(row.Attempts); got != row.Eligible {
		differ("eligible", got, row.Eligible)
	}
	if row.Attempts <= 0 {
		if row.Reason != "" || row.want() != (window{}) {
			faults = append(faults, "the row has a reason or a delay, "+
				"and there is neither before the first attempt")
		}
		return faults
	}

	reason, got := row.decide(p)
	switch {
	case row.Reason != "" && reason != string(row.Reason):
		differ("reason", reason, row.Reason)
	case row.Reason == "" && (reason == string(retry.ReasonRetry)) != row.Eligible:
		want := "any but retry"
		if row.Eligible {
			want = "retry"
		}
		differ("reason", reason, want)
	}
	want := row.want()
	switch {
	case row.Delay != 0 && (row.Lo != 0 || row.Hi != 0):
		faults = append(faults, "the row has both Delay and Lo or Hi: write one")
	case got != want && (want != window{} || reason == string(retry.ReasonRetry)):
		differ("delay", got, want)
	}
	return faults
}

func (row Row) want() window {
	if row.Delay != 0 {
		return window{row.Delay, row.Delay}
	}
	return window{row.Lo, row.Hi}
}

// decide returns the reason why p retries or stops after the row's attempt, and the window of
// the delay. Without a Seed, the reason may depend on the draw, because MaxElapsed may leave
// time for a short delay and not for a long delay.
func (row Row) decide(p retry.Policy) (reason string, w window) {
	d := p.Next(retry.Attempt{
		Number: row.Attempts, Err: row.Err, Elapsed: row.Elapsed, Seed: max(1, row.Seed),
	})
	if row.Seed != 0 {
		return string(d.Reason), window{d.Delay, d.Delay}
	}
	w = window{d.Lo, d.Hi}
	if d.Reason == retry.ReasonRetry || d.Reason == retry.ReasonElapsed {
		if lo, hi := row.after(p, d.Lo), row.after(p, d.Hi); lo != hi {
			return fmt.Sprintf("%v or %v, by the delay that is drawn (a Seed picks one)", lo, hi), w
		}
	}
	return string(d.Reason), w
}

// after returns ReasonRetry if the MaxElapsed of p allows a retry after this delay, and otherwise
// the reason to stop.
func (row Row) after(p retry.Policy, delay time.Duration) retry.Reason {
	fixed := retry.Policy{MaxRetries: 1, Backoff: retry.Fixed(delay), MaxElapsed: p.MaxElapsed}
	return fixed.Next(retry.Attempt{Number: 1, Elapsed: row.Elapsed}).Reason
}

// A window is the shortest and the longest delay that may be drawn.
type window struct{ lo, hi time.Duration }

func (w window) String() string {
	if w.lo == w.hi {
		return w.lo.String()
	}
	return fmt.Sprintf("%v to %v", w.lo, w.hi)
}
