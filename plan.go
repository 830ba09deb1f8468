package retry

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// A Plan lists the retries that a policy allows, before any call is made. It has one Step for
// each retry, in order.
type Plan []Step

// A Step describes one retry of a [Plan]. plan[0] is the retry after attempt 1.
type Step struct {
	Lo, Hi time.Duration // the shortest and the longest delay before the retry
	Total  time.Duration // the latest start of the retry, counted from the start of the first attempt
}

// maxSteps is the greatest length of a plan and of a list of delays. Without this limit, the plan
// of a policy with unlimited attempts would have no end. A length of 10,000 is more than people
// read in a plan, and short enough for a server that stores a list of delays.
const maxSteps = 10_000

// Plan returns the first retries of p for an operation that always fails. The parameter `retries`
// is the number of retries to return. If it is negative, Plan returns all retries. Plan never
// returns more than 10,000 retries. The plan of an invalid policy is empty.
//
// In each Step, Lo and Hi are the window from which [Policy.Next] draws the delay. Total is the
// sum of the longest delays up to this Step, plus the AttemptTimeout of each attempt. Without
// an AttemptTimeout, an attempt counts as taking no time.
//
// If p has a MaxElapsed, Total is at most MaxElapsed. Retries that cannot start within
// MaxElapsed, even after the shortest delays, are left out. The plan does not know what happens
// in a call: it ignores the context, the waits that servers ask for, the classes of failures,
// and the Budget.
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

// Delays returns the delays before the first n retries, without jitter. It is for systems that take
// a list of delays. MaxDelay limits each delay. If n is negative, Delays returns the delays of all
// retries that EffectiveMax allows. Delays never returns more than 10,000 delays. An invalid policy
// has no delays.
func (p Policy) Delays(n int) Schedule {
	delays := make(Schedule, p.steps(n))
	p.Jitter = nil
	for i := range delays {
		delays[i], _ = p.window(i+1, 0)
	}
	return delays
}

// The method `steps` counts how many of the first n retries are within the limits on attempts. The
// result is at most maxSteps. A negative n means all retries.
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

// String returns a table for people to read, with one line for each step.
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
