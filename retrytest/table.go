package retrytest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
)

// A Row is the decision that a policy is expected to make after a number of attempts.
type Row struct {
	Attempts int           // how many attempts were made; if 0 or below, only Eligible is checked
	Err      error         // the error of the last attempt; if nil, only limits and time decide
	Elapsed  time.Duration // the time since the first attempt began
	Seed     uint64        // if not 0, only the delay drawn with this seed is checked

	// Eligible is the expected result of Policy.Eligible. It depends only on Attempts.
	Eligible bool

	// Reason is the expected Reason of Policy.Next. If Reason is "", the expected Reason depends
	// on Eligible: ReasonRetry if Eligible is true, and any other Reason if Eligible is false.
	Reason retry.Reason

	// Delay is the expected delay. If the delay is drawn from a window, write Lo and Hi, the ends
	// of the window, instead of Delay. If Delay, Lo and Hi are all 0 and the policy decides to
	// retry, the delay must be 0. If all three are 0 and the policy decides to stop, the delay is
	// not checked.
	Delay  time.Duration
	Lo, Hi time.Duration
}

// Table checks that p makes the decision in each row. If p makes another decision in some rows, one
// failure lists all these rows. A Row does not say how many earlier failures had the same class. So
// if a [retry.Class] has a limit, all failures count toward it, whatever their class was.
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

// report fails t with the text of `lines`. It does nothing if there are no lines.
func report(t testing.TB, p retry.Policy, lines []string) {
	t.Helper()
	if lines != nil {
		t.Errorf("retrytest: %v\n    %s", p, strings.Join(lines, "\n    "))
	}
}

// name describes when the decision of the row is made, such as "after 2 attempts".
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

// faults returns one text for each difference between the row and the decision of p.
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
				"but before the first attempt there is no decision")
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

// decide returns the Reason of the decision of p in this row, and the window of the delay. If
// the row has no Seed, the Reason may depend on the delay that is drawn: MaxElapsed may leave
// time for a short delay, but not for a long delay.
func (row Row) decide(p retry.Policy) (reason string, w window) {
	d := p.Next(retry.Attempt{
		Number: row.Attempts, Err: row.Err, Elapsed: row.Elapsed, Seed: max(1, row.Seed),
	})
	if row.Seed != 0 {
		return string(d.Reason), window{d.Delay, d.Delay}
	}
	w = window{d.Lo, d.Hi}
	if d.Reason == retry.ReasonRetry || d.Reason == retry.ReasonElapsed {
		if lo, hi := row.reasonAfter(p, d.Lo), row.reasonAfter(p, d.Hi); lo != hi {
			const text = "%v or %v, depending on the delay that is drawn (set Seed to choose one)"
			return fmt.Sprintf(text, lo, hi), w
		}
	}
	return string(d.Reason), w
}

// reasonAfter returns ReasonRetry if the MaxElapsed of p allows a retry after this delay.
// Otherwise it returns the reason to stop.
func (row Row) reasonAfter(p retry.Policy, delay time.Duration) retry.Reason {
	fixed := retry.Policy{MaxRetries: 1, Backoff: retry.Fixed(delay), MaxElapsed: p.MaxElapsed}
	return fixed.Next(retry.Attempt{Number: 1, Elapsed: row.Elapsed}).Reason
}
