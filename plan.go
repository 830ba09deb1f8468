package retry

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// A Plan is the schedule of a policy, known before it runs: a Step for each
// retry, in order.
type Plan []Step

// A Step is a retry of a [Plan]. plan[0] follows the failure of attempt 1.
type Step struct {
	Lo, Hi time.Duration // the least and the greatest delay before the retry
	Total  time.Duration // when the retry starts at the latest, after the first attempt began
}

// maxSteps is where a plan ends whose policy does not: people read it, or
// servers that keep a list of delays.
const maxSteps = 10_000

// Plan returns the first retries of p, for an operation that always fails. If
// retries is negative, it returns all of them; it never returns more than
// 10,000. An invalid policy has none.
//
// Lo and Hi are the window that [Policy.Next] draws the delay from. Total adds
// up the greatest delays, and the AttemptTimeout of each attempt; without one,
// attempts take no time. It is at most MaxElapsed. A retry that cannot
// start within MaxElapsed even after the least delays is not in the plan. The
// plan ignores what only a call knows: its context, the waits that servers ask
// for, the classes of its failures, and the Budget.
func (p Policy) Plan(retries int) Plan {
	var plan Plan
	var earliest, latest time.Duration
	for i := range p.steps(retries) {
		lo, hi := p.window(i+1, 0)
		earliest = saturate.Add(earliest, lo)
		latest = saturate.Add(latest, saturate.Add(p.AttemptTimeout, hi))
		if p.MaxElapsed > 0 {
			if earliest > p.MaxElapsed {
				break
			}
			latest = min(latest, p.MaxElapsed)
		}
		plan = append(plan, Step{Lo: lo, Hi: hi, Total: latest})
	}
	return plan
}

// Delays returns the delays of the first n retries by the curve and MaxDelay
// alone, without Jitter, for systems that take a list. If n is negative, it
// returns as many as EffectiveMax allows; it never returns more than 10,000. A
// policy that is invalid has none.
func (p Policy) Delays(n int) Schedule {
	delays := make(Schedule, p.steps(n))
	p.Jitter = nil
	for i := range delays {
		delays[i], _ = p.window(i+1, 0)
	}
	return delays
}

// steps returns how many of p's first n retries go into a plan.
func (p *Policy) steps(n int) int {
	steps := maxSteps
	if n >= 0 {
		steps = min(steps, n)
	}
	if limit := p.EffectiveMax(); limit != Unlimited {
		steps = min(steps, limit-1)
	}
	return steps
}

// String returns a table for people, a line for each step.
func (plan Plan) String() string {
	if len(plan) == 0 {
		return "no retry"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "after attempt\twait\ttotal at most")
	for i, s := range plan {
		wait := brief(s.Hi)
		if least := brief(s.Lo); least != wait {
			wait = least + " to " + wait
		}
		fmt.Fprintf(w, "%d\t%s\t%s\n", i+1, wait, brief(s.Total))
	}
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// brief writes a duration for people: 1h, not 1h0m0s.
func brief(d time.Duration) string { return noZeros.Replace(short(d)) }

var noZeros = strings.NewReplacer("h0m0s", "h", "m0s", "m")
