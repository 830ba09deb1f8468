// Package preview describes what a policy in a file will do, in sentences.
package preview

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// Text describes a policy with a summary in one line, a table of its first retries, and the
// sentences of [Ending]. If the parameter `retries` is negative, the table has all retries that
// [retry.Policy.Plan] returns. The parameter b contains the timeouts of the policy file: the
// timeouts in the policy p itself, and the timeouts in settings next to the policy.
func Text(p retry.Policy, retries int, b policyfile.Bounds) string {
	summary := p.String()
	p.AttemptTimeout = b.Each
	plan := Within(p.Plan(retry.Unlimited), b.All)
	shown := plan
	if 0 <= retries && retries < len(plan) {
		shown = plan[:retries]
	}
	text := []string{summary, ""}
	if len(shown) > 0 {
		text = append(text, shown.String())
		if len(shown) < len(plan) {
			text = append(text, "...")
		}
		text = append(text, "")
	}
	return strings.Join(append(text, Ending(p, b)...), "\n")
}

// Within returns the steps of a plan whose retries can start before the timeout of all attempts. A
// timeout of 0 is no limit.
func Within(plan retry.Plan, timeout time.Duration) retry.Plan {
	if timeout == 0 {
		return plan
	}
	plan = slices.Clone(plan)
	earliest := time.Duration(0)
	for i, step := range plan {
		if earliest = saturate.Add(earliest, step.Lo); earliest >= timeout {
			return plan[:i]
		}
		plan[i].Total = min(step.Total, timeout)
	}
	return plan
}

// Ending returns sentences about a policy: when its delays reach MaxDelay, how it ends, and how
// long it takes in the worst case.
func Ending(p retry.Policy, b policyfile.Bounds) []string {
	p.AttemptTimeout = b.Each
	w := writer{p, p.Plan(retry.Unlimited), p.EffectiveMax(), b}
	var lines []string
	for _, line := range []string{w.reachesCap(), w.ends(), w.startsOver(), w.fits(), w.worstCase()} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// A writer writes sentences about a policy.
type writer struct {
	retry.Policy
	plan  retry.Plan // all steps that [retry.Policy.Plan] returns
	limit int        // the result of [retry.Policy.EffectiveMax]
	policyfile.Bounds
}

// MostSteps is the largest number of steps that [retry.Policy.Plan] returns.
const MostSteps = 10_000

// goesOn reports whether the policy may make more retries than the plan has steps.
func (w *writer) goesOn() bool { return len(w.plan) == MostSteps && w.limit-1 != MostSteps }

func (w *writer) reachesCap() string {
	if w.MaxDelay == 0 {
		return ""
	}
	switch i := slices.Index(w.Delays(len(w.plan)), w.MaxDelay); {
	case i >= 0:
		return fmt.Sprintf("The delays reach max_delay, %s, after attempt %d.", Brief(w.MaxDelay), i+1)
	case w.goesOn():
		return fmt.Sprintf("None of the first 10,000 delays reaches max_delay, %s.", Brief(w.MaxDelay))
	default:
		return ""
	}
}

// fits says how many attempts end before the timeout of all attempts. If a single attempt has no
// timeout, `fits` says how many attempts can start before the timeout of all attempts.
func (w *writer) fits() string {
	n := w.Fits(w.Policy)
	switch {
	case n < 0 || w.limit == 1:
		return ""
	case w.Each > 0 && (n < w.limit || w.limit == retry.Unlimited):
		fit := "fit"
		if n == 1 {
			fit = "fits"
		}
		return fmt.Sprintf(
			"%s %s into %s, %s, if each attempt takes its %s and each wait is the longest.",
			attempts(n), fit, w.AllKey, Brief(w.All), Brief(w.Each))
	case w.Each > 0:
		return fmt.Sprintf("All attempts fit into %s, %s.", w.AllKey, Brief(w.All))
	case n == w.limit:
		return fmt.Sprintf("The waits leave %s of %s for %s.",
			Brief(w.All-w.plan[len(w.plan)-1].Total), w.AllKey, attempts(n))
	default:
		return fmt.Sprintf("Within %s, %s, at most %s can start if each wait is the longest.",
			w.AllKey, Brief(w.All), attempts(n))
	}
}

// ends says after how many attempts or after what time the policy ends.
func (w *writer) ends() string {
	within := fmt.Sprintf("no retry starts later than max_elapsed, %s, after the first attempt began",
		Brief(w.MaxElapsed))
	switch {
	case w.NonRetryable:
		return "Ends after 1 attempt: the policy says retryable: false."
	case w.MaxAttempts == 0 && w.MaxRetries == 0 && w.MaxElapsed == 0:
		return "Ends after 1 attempt: the policy sets no limit, such as max_attempts, max_retries or " +
			"max_elapsed."
	case w.limit == 1:
		return "Ends after 1 attempt."
	case len(w.plan) < len(w.Delays(retry.Unlimited)): // MaxElapsed ends the plan early
		return fmt.Sprintf("Ends after at most %s: %s.", attempts(len(w.plan)+1), within)
	case w.MaxElapsed > 0 && w.limit == retry.Unlimited:
		return fmt.Sprintf("Ends by time: %s.", within)
	case w.MaxElapsed > 0:
		return fmt.Sprintf("Ends after %s, or sooner: %s.", attempts(w.limit), within)
	case w.limit == retry.Unlimited && w.All > 0:
		return fmt.Sprintf("Ends by time: %s ends the call after %s.", w.AllKey, Brief(w.All))
	case w.limit == retry.Unlimited:
		return "Never ends by itself: there is no limit on attempts or time."
	default:
		return fmt.Sprintf("Ends after %s.", attempts(w.limit))
	}
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return Thousands(n) + " attempts"
}

// resets reports whether an attempt can run past HealthyAfter. After such an attempt, attempts
// count from 1 again.
func (w *writer) resets() bool {
	return w.HealthyAfter > 0 && w.limit != 1 &&
		(w.AttemptTimeout == 0 || w.AttemptTimeout > w.HealthyAfter)
}

func (w *writer) startsOver() string {
	if !w.resets() {
		return ""
	}
	return fmt.Sprintf("Starts over after a failed attempt that ran at least healthy_after, %s.",
		Brief(w.HealthyAfter))
}

// worstCase says how long the policy takes in the worst case. It returns "" if the policy takes no
// time or never ends.
func (w *writer) worstCase() string {
	if w.resets() {
		return ""
	}
	total := time.Duration(0)
	if len(w.plan) > 0 {
		total = w.plan[len(w.plan)-1].Total
	}
	each := w.AttemptTimeout
	if w.All > 0 && (each == 0 || w.goesOn() || saturate.Add(total, each) > w.All) {
		return fmt.Sprintf("Worst case: %s in all: %s ends all attempts and waits then.",
			Brief(w.All), w.AllKey)
	}
	more := ""
	if w.goesOn() {
		switch {
		case w.MaxElapsed > 0 && (w.limit == retry.Unlimited || total == w.MaxElapsed):
			total = w.MaxElapsed
		case w.limit != retry.Unlimited:
			more = "more than "
		default:
			return ""
		}
	}
	aside := ""
	if len(w.plan) > 0 && (w.MaxElapsed == 0 || total < w.MaxElapsed) {
		aside = ", without Retry-After"
	}
	switch {
	case each > 0:
		return fmt.Sprintf("Worst case: %s%s in all%s, if every attempt runs into its %s, %s.",
			more, Brief(saturate.Add(total, each)), aside, w.EachKey, Brief(each))
	case w.MaxElapsed > 0 && len(w.plan) > 0:
		return fmt.Sprintf("Worst case: %s plus the time of the last attempt, which nothing bounds.",
			Brief(w.MaxElapsed))
	case total > 0:
		return fmt.Sprintf("Worst case: %s%s of waiting%s, plus the time of the attempts, which nothing "+
			"bounds.", more, Brief(total), aside)
	default:
		return ""
	}
}

// Brief returns a duration as text, without units that are 0: 1h instead of 1h0m0s.
func Brief(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			d = d.Round(unit / 1000)
			break
		}
	}
	s := saturate.Text(d)
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Thousands returns a number as text with commas: 10,000.
func Thousands[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// TargetBudget returns the Budget that retryhttp, retrygrpc and retryconnect make for each target
// if a policy has no Budget.
func TargetBudget() *retry.Budget {
	var targets retry.Budgets
	budget, _ := targets.For("a target")
	return budget
}

// BudgetText returns a Budget as text, with the keys of the text form. It leaves out durations that
// are 0.
func BudgetText(b *retry.Budget) string {
	text := fmt.Sprintf("size %d, ratio %v", b.Size, b.Ratio)
	for _, of := range []struct {
		key   string
		value time.Duration
	}{{"refill_every", b.RefillEvery}, {"remember", b.Remember}, {"grace", b.Grace}} {
		if of.value != 0 {
			text += ", " + of.key + " " + Brief(of.value)
		}
	}
	return text
}
