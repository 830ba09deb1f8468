// Package retrytest tests retry policies: what they decide, when they wait,
// and code that is run by them.
//
//   - [Table] checks decisions, a row for each.
//   - [Schedule] checks all the delays of a policy at once.
//   - [Op] is an operation that fails as told and records its executions.
//   - [NoWait] is a policy with its waits taken out.
//   - [TestBackoff] and [TestJitter] check curves and jitters of your own.
//
// None of them sleeps. Everything takes a [testing.TB], reports with Errorf,
// and works inside and outside of [testing/synctest], in which a policy waits
// in no time and to the nanosecond.
package retrytest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
)

// A Row says what a policy decides after a number of executions.
type Row struct {
	Attempts int           // executions that have run; 0: none has, and only Eligible is asked
	Err      error         // what the last one failed with; nil: decided by count and time alone
	Elapsed  time.Duration // since the first execution began
	Seed     uint64        // of the one delay to compare; 0: the whole window is

	Eligible bool         // what Eligible says, which goes by count alone
	Reason   retry.Reason // why, as Next says; 0: it says to retry if Eligible, and not to if not

	// The delay, compared where Next says to retry, and elsewhere if it is not
	// zero: either the only one there is, or the least and the greatest.

	Delay  time.Duration
	Lo, Hi time.Duration
}

// Table checks that p decides as the rows say. It lists every row that p does
// not agree with, and what p says instead.
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

// name says what the row asks about.
func (row Row) name() string {
	s := fmt.Sprintf("after %d executions", row.Attempts)
	if row.Attempts == 1 {
		s = "after 1 execution"
	}
	if row.Err != nil {
		s += fmt.Sprintf(" and %q", row.Err)
	}
	return s
}

// faults returns where p does not agree with the row.
func (row Row) faults(p retry.Policy) (faults []string) {
	differ := func(what string, got, want any) {
		faults = append(faults, fmt.Sprintf("%s is %v, want %v", what, got, want))
	}
	if got := p.Eligible(row.Attempts); got != row.Eligible {
		differ("eligible", got, row.Eligible)
	}
	if row.Attempts <= 0 {
		if row.Reason != 0 || row.want() != (window{}) {
			faults = append(faults, "the row has a reason or a delay, which there is none of before the first execution")
		}
		return faults
	}

	reason, got := row.decide(p)
	switch {
	case row.Reason != 0 && reason != row.Reason.String():
		differ("reason", reason, row.Reason)
	case row.Reason == 0 && (reason == retry.ReasonRetry.String()) != row.Eligible:
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
	case got != want && (want != window{} || reason == retry.ReasonRetry.String()):
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

// decide returns why p retries or not after the row's attempt, and its delay.
// Without a Seed both may depend on the draw: a long delay can pass MaxElapsed
// where a short one does not.
func (row Row) decide(p retry.Policy) (reason string, w window) {
	a := retry.Attempt{Number: row.Attempts, Err: row.Err, Elapsed: row.Elapsed, Seed: row.Seed}
	if a.Seed != 0 {
		d := p.Next(a)
		return d.Reason.String(), window{d.Delay, d.Delay}
	}
	lo, hi := ends(p, a)
	reason = lo.Reason.String()
	if hi.Reason != lo.Reason {
		reason = fmt.Sprintf("%v or %v, by the delay that is drawn (a Seed picks one)", lo.Reason, hi.Reason)
	}
	return reason, window{lo.Delay, hi.Delay}
}

// A window is the least and the greatest of the delays that may be drawn.
type window struct{ lo, hi time.Duration }

func (w window) String() string {
	if w.lo == w.hi {
		return w.lo.String()
	}
	return fmt.Sprintf("%v to %v", w.lo, w.hi)
}

// ends returns what p decides where the least and where the greatest delay is
// drawn. Policy draws in proportion to the attempt-th output of the splitmix64
// generator of the seed, and that generator can be run backwards: there is one
// seed for which this output is 0, and one for which it is the greatest.
func ends(p retry.Policy, a retry.Attempt) (lo, hi retry.Decision) {
	const (
		step = 0x9e3779b97f4a7c15 // what the state grows by for each output
		most = 0xcf9a04affa6badc0 // the state that puts out math.MaxUint64; 0 puts out 0
	)
	a.Seed = 0 - uint64(a.Number)*step
	lo = p.Next(a)
	a.Seed = most - uint64(a.Number)*step
	return lo, p.Next(a)
}
