package retry

import (
	"fmt"
	"math"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// Lint reports settings that are valid but probably unintended, one line each,
// with the name of each field in Go and in the text form. It returns nil if it
// finds none, and if p is invalid.
func (p Policy) Lint() []string {
	if p.faults() != nil {
		return nil
	}
	var lint []string
	say := func(format string, args ...any) { lint = append(lint, fmt.Sprintf(format, args...)) }

	const setLimit = "set MaxAttempts (max_attempts), MaxRetries (max_retries) or MaxElapsed (max_elapsed)"
	limit := p.declared() // 0: none, so there is one attempt
	retries := p.limit() - 1
	first := time.Duration(0) // the delay of the curve after the first attempt
	if builtIn(p.Backoff) {
		first = p.Backoff.Delay(1)
	}
	switch {
	case p.NonRetryable && (limit == Unlimited || limit > 1):
		say("NonRetryable (retryable: false) beside a limit of %s, by MaxAttempts (max_attempts), MaxRetries (max_retries) or MaxElapsed (max_elapsed): there is only one attempt", attemptsText(limit))
	case p.NonRetryable:
	case limit == 0 && p.Backoff != nil:
		say("Backoff (backoff) without a limit: there is only one attempt, and no delay; " + setLimit)
	case limit == 0 && p.AttemptCap > 0:
		say("AttemptCap (attempt_cap) without a limit: there is only one attempt; " + setLimit)
	}
	if p.Classify != nil && limit == 0 && !p.NonRetryable {
		say("Classify without a limit: there is only one attempt, whatever a class allows; " + setLimit)
	}
	if p.AttemptTimeout > 0 && p.AttemptTimeout <= p.HealthyAfter {
		say("AttemptTimeout (attempt_timeout) of %v ends every attempt before HealthyAfter (healthy_after) of %v: none is ever healthy", p.AttemptTimeout, p.HealthyAfter)
	}
	if p.MaxAttempts != 0 && p.MaxRetries != 0 {
		say("MaxAttempts (max_attempts) and MaxRetries (max_retries) are both set: the lower applies, %s; set one", attemptsText(p.count()))
	}
	if s, ok := p.Backoff.(Schedule); ok && limit != 0 && !p.NonRetryable && retries >= 0 && len(s) > retries {
		say("a Schedule (delays) of %d beside %s: the delay of %v and those after it are never used; MaxAttempts (max_attempts) counts the first attempt", len(s), attemptsText(retries+1), s[retries])
	}
	if p.Backoff == nil && p.Classify == nil && retries != 0 {
		say("%s without a Backoff (backoff): they follow each other at once; set one, or Fixed(0) for no delay", attemptsText(retries+1))
	}
	if grows(p.Backoff) && retries < 0 && p.MaxDelay == 0 && p.MaxElapsed == 0 {
		say("unlimited attempts on a Backoff (backoff) that grows: the delays reach years; set MaxDelay (max_delay)")
	}
	if least := p.leastFirst(first); p.MaxElapsed > 0 && least > p.MaxElapsed && retries != 0 && p.Classify == nil && !p.ExactRetryAfter {
		say("MaxElapsed (max_elapsed) of %v is shorter than the first delay of at least %v: there is no retry", p.MaxElapsed, least)
	}
	if p.MaxElapsed > 0 && p.AttemptTimeout > p.MaxElapsed && retries != 0 {
		say("AttemptTimeout (attempt_timeout) of %v is longer than MaxElapsed (max_elapsed) of %v: after one attempt that uses it up there is no retry", p.AttemptTimeout, p.MaxElapsed)
	}
	if worst, upTo := p.longest(); worst > tooLong {
		say("%s take %s %v: set MaxDelay (max_delay) or MaxElapsed (max_elapsed)", attemptsText(retries+1), upTo, worst)
	}
	if p.MaxDelay > 0 && first > p.MaxDelay {
		say("MaxDelay (max_delay) of %v is shorter than the first delay of %v: it cuts even that one", p.MaxDelay, first)
	}
	return lint
}

// tooLong is a worst case that is probably not intended. The queues that try for
// the longest give up after three weeks.
const tooLong = 31 * 24 * time.Hour

// longest returns when the last retry starts in the worst case, 0 if nothing or
// MaxElapsed bounds it, and whether that is "up to" then or "more than" what a plan
// has. What the caller wrote is not called.
func (p *Policy) longest() (worst time.Duration, upTo string) {
	custom := false
	switch p.Jitter.(type) {
	case nil, Proportional, Spread:
	default:
		custom = true
	}
	if custom || !builtIn(p.Backoff) || p.MaxElapsed > 0 || p.limit() < 2 {
		return 0, ""
	}
	plan := p.Plan(Unlimited)
	if worst = plan[len(plan)-1].Total; len(plan) < p.limit()-1 || worst == saturate.Max {
		return worst, "more than"
	}
	return worst, "up to"
}

// leastFirst returns the low end of the first delay's window, where first is
// what the curve says. A custom Jitter is not called: it may say 0.
func (p *Policy) leastFirst(first time.Duration) time.Duration {
	switch j := p.Jitter.(type) {
	case nil:
	case Proportional, Spread:
		lo, _ := j.Window(p.capped(first))
		return lo
	default:
		return 0
	}
	return p.capped(first)
}

// grows reports whether a built-in curve grows without end.
func grows(b Backoff) bool {
	switch b := b.(type) {
	case Linear, Fibonacci, Exponential:
		return b.Delay(math.MaxInt) > b.Delay(1)
	default:
		return false
	}
}
