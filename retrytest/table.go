package retrytest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
)

// A Row says what a policy decides after a number of attempts. Write Delay where
// there is only one, or Lo and Hi for the window that it is drawn from. The delay is
// checked if the Reason is ReasonRetry, and for any other Reason unless all three are
// zero.
type Row struct {
	Attempts int           // attempts that were made; 0 or below: none, which checks only Eligible
	Err      error         // the error of the last one; nil: decided only by count and time
	Elapsed  time.Duration // since the first attempt began
	Seed     uint64        // checks the one delay that it draws; 0: checks the whole window

	Eligible bool         // the result of Policy.Eligible, which looks only at the count
	Reason   retry.Reason // the Reason of Policy.Next; "": ReasonRetry if Eligible, else any other

	Delay  time.Duration
	Lo, Hi time.Duration
}

// Table checks that p decides as the rows say. It reports every row that p disagrees
// with, and the decision of p, in one failure. A row does not say which class the
// earlier failures had: each class is counted by all failures.
func Table(t testing.TB, p retry.Policy, rows []Row) {
	t.Helper()
	var lines []string
	for i, row := range rows {
		if faults := row.faults(p); faults != nil {
			lines = append(lines, fmt.Sprintf("rows[%d], %s: %s", i, row.name(), strings.Join(faults, ", ")))
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

// faults returns where p disagrees with the row.
func (row Row) faults(p retry.Policy) (faults []string) {
	differ := func(what string, got, want any) {
		faults = append(faults, fmt.Sprintf("%s is %v, want %v", what, got, want))
	}
	if got := p.Eligible(row.Attempts); got != row.Eligible {
		differ("eligible", got, row.Eligible)
	}
	if row.Attempts <= 0 {
		if row.Reason != "" || row.want() != (window{}) {
			faults = append(faults, "the row has a reason or a delay, and there is neither before the first attempt")
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

// decide returns the reason why p retries or stops after the row's attempt, and
// the window of its delay. Without a Seed the reason may depend on the draw,
// because MaxElapsed may leave time for a short delay and not for a long one.
func (row Row) decide(p retry.Policy) (reason string, w window) {
	d := p.Next(retry.Attempt{Number: row.Attempts, Err: row.Err, Elapsed: row.Elapsed, Seed: max(1, row.Seed)})
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

// after returns ReasonRetry if the MaxElapsed of p allows a retry after this
// delay, and otherwise the reason to stop.
func (row Row) after(p retry.Policy, delay time.Duration) retry.Reason {
	fixed := retry.Policy{MaxRetries: 1, Backoff: retry.Fixed(delay), MaxElapsed: p.MaxElapsed}
	return fixed.Next(retry.Attempt{Number: 1, Elapsed: row.Elapsed}).Reason
}

// A window is the least and the greatest delay that may be drawn.
type window struct{ lo, hi time.Duration }

func (w window) String() string {
	if w.lo == w.hi {
		return w.lo.String()
	}
	return fmt.Sprintf("%v to %v", w.lo, w.hi)
}
