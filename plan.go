package retry

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// A Plan is the schedule of a policy, known before it runs: a Step for each
// retry, in order.
type Plan []Step

// A Step is a retry of a [Plan].
type Step struct {
	Attempt int           // the attempt whose failure the retry follows: 1 for the first
	Lo, Hi  time.Duration // the least and the greatest delay before the retry
	Total   time.Duration // the latest time at which the retry starts, after the first attempt began
}

// maxSteps is where a plan ends whose policy does not: people read it, or
// servers that keep a list of delays.
const maxSteps = 10_000

// Plan returns the first retries of p, for an operation that always fails. If
// retries is negative, it returns all of them; it never returns more than
// 10,000. A policy that does not validate has none.
//
// Lo and Hi are the window that [Policy.Next] draws the delay from. Total adds
// up the greatest delays, and the AttemptTimeout of each attempt; without one,
// attempts count as taking no time. It is at most MaxElapsed. A retry that cannot
// start within MaxElapsed even after the least delays is not in the plan. The
// plan ignores what only a call knows: its context, the waits that servers ask
// for, Select, and the Budget.
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
		plan = append(plan, Step{Attempt: i + 1, Lo: lo, Hi: hi, Total: latest})
	}
	return plan
}

// Delays returns the delays of the first n retries by the curve and MaxDelay
// alone, without Jitter, for systems that take a list. If n is negative, it
// returns as many as EffectiveMax allows; it never returns more than 10,000. A
// policy that does not validate has none.
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
	for _, s := range plan {
		wait := brief(s.Hi)
		if least := brief(s.Lo); least != wait {
			wait = least + " to " + wait
		}
		fmt.Fprintf(w, "%d\t%s\t%s\n", s.Attempt, wait, brief(s.Total))
	}
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// brief writes a duration for people: 1h, not 1h0m0s.
func brief(d time.Duration) string {
	if d == saturate.Max {
		return "292 years"
	}
	s := short(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Preview describes for people what p will do: p itself, the table of its first
// retries (all of them if retries is negative), where the delays reach MaxDelay,
// how p ends, and how long that takes in the worst case. It leaves out what
// [Policy.Plan] leaves out.
func (p Policy) Preview(retries int) string {
	if p.faults() != nil {
		return p.String()
	}
	plan := p.Plan(Unlimited)
	shown := plan
	if 0 <= retries && retries < len(plan) {
		shown = plan[:retries]
	}
	text := []string{p.String(), ""}
	if len(shown) > 0 {
		text = append(text, shown.String())
		if len(shown) < len(plan) {
			text = append(text, "...")
		}
		text = append(text, "")
	}
	if p.MaxDelay > 0 {
		switch i := slices.Index(p.Delays(len(plan)), p.MaxDelay); {
		case i >= 0:
			text = append(text, fmt.Sprintf("The delays reach MaxDelay (max_delay), %s, after attempt %d.", brief(p.MaxDelay), i+1))
		case p.goesOn(plan):
			text = append(text, fmt.Sprintf("The delays do not reach MaxDelay (max_delay), %s, within the first 10,000.", brief(p.MaxDelay)))
		}
	}
	text = append(text, p.ending(plan))
	if worst := p.worstCase(plan); worst != "" {
		text = append(text, worst)
	}
	return strings.Join(text, "\n")
}

// goesOn reports whether p may make more retries than the plan, all that there
// can be of p, has.
func (p *Policy) goesOn(plan Plan) bool {
	return len(plan) == maxSteps && p.attempts()-1 != maxSteps
}

// ending says how p ends, of which plan is all.
func (p *Policy) ending(plan Plan) string {
	limit := p.attempts()
	within := fmt.Sprintf("no retry starts later than MaxElapsed (max_elapsed), %s, after the first attempt began", brief(p.MaxElapsed))
	switch {
	case p.NonRetryable:
		return "Ends after 1 attempt: the policy is NonRetryable (retryable: false)."
	case p.limit() == 0:
		return "Ends after 1 attempt: the policy sets no limit, MaxAttempts (max_attempts), MaxRetries (max_retries) or MaxElapsed (max_elapsed)."
	case limit == 1:
		return "Ends after 1 attempt."
	case len(plan) < p.steps(Unlimited):
		return fmt.Sprintf("Ends after at most %s: %s.", attemptsText(len(plan)+1), within)
	case p.MaxElapsed > 0 && limit == Unlimited:
		return fmt.Sprintf("Ends by time: %s.", within)
	case p.MaxElapsed > 0:
		return fmt.Sprintf("Ends after %s, or sooner: %s.", attemptsText(limit), within)
	case limit == Unlimited && p.Budget != nil:
		return "Ends when the Budget is empty: there is no limit on attempts or time."
	case limit == Unlimited:
		return "Never ends by itself: there is no limit on attempts or time."
	default:
		return fmt.Sprintf("Ends after %s.", attemptsText(limit))
	}
}

// worstCase says how long p takes at most, nothing if it takes no time or has
// no end. The plan is all of p's.
func (p *Policy) worstCase(plan Plan) string {
	limit, total := p.attempts(), time.Duration(0)
	if len(plan) > 0 {
		total = plan[len(plan)-1].Total
	}
	more := ""
	if p.goesOn(plan) {
		switch {
		case p.MaxElapsed > 0 && (limit == Unlimited || total == p.MaxElapsed):
			total = p.MaxElapsed
		case limit != Unlimited:
			more = "more than "
		default:
			return ""
		}
	}
	aside := ""
	if len(plan) > 0 && (p.MaxElapsed == 0 || total < p.MaxElapsed) {
		aside = ", servers' waits aside"
	}
	switch {
	case p.AttemptTimeout > 0:
		return fmt.Sprintf("Worst case: %s%s in all%s, if attempts end with their AttemptTimeout (attempt_timeout), %s.",
			more, brief(saturate.Add(total, p.AttemptTimeout)), aside, brief(p.AttemptTimeout))
	case p.MaxElapsed > 0 && len(plan) > 0:
		return fmt.Sprintf("Worst case: %s, and what the last attempt takes: there is no AttemptTimeout (attempt_timeout).", brief(p.MaxElapsed))
	case total > 0:
		return fmt.Sprintf("Worst case: %s%s of waiting%s, and what the attempts take: there is no AttemptTimeout (attempt_timeout).", more, brief(total), aside)
	default:
		return ""
	}
}
