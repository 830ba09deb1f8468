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
	say := func(is bool, format string, args ...any) {
		if is {
			lint = append(lint, fmt.Sprintf(format, args...))
		}
	}
	const limits = "MaxAttempts (max_attempts), MaxRetries (max_retries) " +
		"or MaxElapsed (max_elapsed)"
	limit := p.declared() // 0: none, so there is one attempt
	attempts, retries, unlimited := attemptsText(p.limit()), p.limit()-1, p.limit() == Unlimited
	first := time.Duration(0) // the delay of the curve after the first attempt
	if p.Backoff != nil && p.builtIn() {
		first = p.Backoff.Delay(1)
	}
	unset, sameDelays := limit == 0 && !p.NonRetryable, p.Classify == nil
	say(p.NonRetryable && (limit == Unlimited || limit > 1),
		"NonRetryable (retryable: false) beside a limit of %s, by "+limits+
			": there is only one attempt",
		attemptsText(limit))
	say(unset && p.Backoff != nil,
		"Backoff (backoff) without a limit: there is only one attempt, and no delay; "+
			"set "+limits)
	say(unset && p.Backoff == nil && p.AttemptCap > 0,
		"AttemptCap (attempt_cap) without a limit: there is only one attempt; set "+limits)
	say(unset && p.Classify != nil,
		"Classify without a limit: there is only one attempt, whatever a class allows; "+
			"set "+limits)
	say(p.AttemptTimeout > 0 && p.AttemptTimeout <= p.HealthyAfter,
		"AttemptTimeout (attempt_timeout) of %v ends every attempt before "+
			"HealthyAfter (healthy_after) of %v: none is ever healthy",
		p.AttemptTimeout, p.HealthyAfter)
	say(p.MaxAttempts != 0 && p.MaxRetries != 0,
		"MaxAttempts (max_attempts) and MaxRetries (max_retries) are both set: "+
			"the lower applies, %s; set one", attemptsText(p.count()))
	if s, ok := p.Backoff.(Schedule); ok && limit != 0 && !p.NonRetryable && !unlimited {
		say(len(s) > retries,
			"a Schedule (delays) of %d beside %s: the delay of %v and those after it "+
				"are never used; MaxAttempts (max_attempts) counts the first "+
				"attempt",
			len(s), attempts, s.Delay(retries+1))
	}
	endless, what := p.endless() && retries != 0 && sameDelays, "HealthyAfter (healthy_after)"
	if unlimited {
		what = attempts
	}
	say(endless && p.Backoff == nil,
		"%s without a Backoff (backoff): each wait is %v; set one", what, leastWait)
	_, greatest := p.ownWindow(math.MaxInt)
	say(endless && p.Backoff != nil && greatest < leastWait,
		"%s with delays below %v: each wait is %v instead", what, leastWait, leastWait)
	say(retries > 0 && sameDelays && p.Backoff == nil && p.HealthyAfter == 0,
		"%s without a Backoff (backoff): they follow each other at once; set one, "+
			"or Fixed(0) for no delay", attempts)
	say(unlimited && grows(p.Backoff) && p.MaxDelay == 0 && p.MaxElapsed == 0,
		"unlimited attempts on a Backoff (backoff) that grows: the delays reach years; "+
			"set MaxDelay (max_delay)")
	least, _ := p.ownWindow(1)
	say(p.MaxElapsed > 0 && least > p.MaxElapsed && retries != 0 && sameDelays &&
		p.RetryAfter != RetryAfterExact,
		"MaxElapsed (max_elapsed) of %v is shorter than the first delay of at least %v: "+
			"there is no retry", p.MaxElapsed, least)
	n := p.mostWithin()
	say(n > 1, "at most %d of %s fit into MaxElapsed (max_elapsed) of %v: "+
		"attempt %d and those after it never run", n, attempts, p.MaxElapsed, n+1)
	say(p.MaxElapsed > 0 && p.AttemptTimeout > p.MaxElapsed && retries != 0,
		"AttemptTimeout (attempt_timeout) of %v is longer than MaxElapsed (max_elapsed) "+
			"of %v: after one attempt that uses it up there is no retry",
		p.AttemptTimeout, p.MaxElapsed)
	worst, upTo := p.longest()
	say(worst > tooLong, "%s take %s %s: set MaxDelay (max_delay) or MaxElapsed (max_elapsed)",
		attempts, upTo, centuries(worst))
	say(p.MaxDelay > 0 && first > p.MaxDelay,
		"MaxDelay (max_delay) of %v is shorter than the first delay of %v: "+
			"it cuts even that one",
		p.MaxDelay, first)
	if b := p.Budget; b != nil {
		say(b.Remember > 0 && b.Ratio == 0,
			"Budget: Remember of %v beside a Ratio of 0: successes put nothing back; set Ratio",
			b.Remember)
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
	if !p.builtIn() || p.Backoff == nil || p.MaxElapsed > 0 || p.limit() < 2 {
		return 0, ""
	}
	plan := p.Plan(Unlimited)
	if worst = plan[len(plan)-1].Total; len(plan) < p.limit()-1 || worst == saturate.Max {
		return worst, "more than"
	}
	return worst, "up to"
}

// mostWithin returns how many attempts of a limit MaxElapsed leaves; 0 if it leaves all,
// or if a class, a Retry-After under RetryAfterExact or a Wait may make the delays shorter.
func (p *Policy) mostWithin() int {
	if p.limit() == Unlimited || !p.builtIn() || p.Classify != nil || p.Wait != nil ||
		p.RetryAfter == RetryAfterExact {
		return 0
	}
	if steps := len(p.Plan(Unlimited)); steps < p.steps(Unlimited) {
		return steps + 1
	}
	return 0
}

// builtIn reports whether the delays are computed by this package alone, which is safe
// to call.
func (p *Policy) builtIn() bool {
	switch p.Backoff.(type) {
	case nil, Fixed, Linear, Fibonacci, Exponential, Schedule:
	default:
		return false
	}
	switch p.Jitter.(type) {
	case nil, Proportional, Spread:
		return true
	default:
		return false
	}
}

// ownWindow returns the window of a delay without the least wait of a call that may go on
// for ever; 0 to the longest where that would call what the caller wrote.
func (p *Policy) ownWindow(attempt int) (lo, hi time.Duration) {
	if !p.builtIn() {
		return 0, saturate.Max
	}
	limited := *p
	limited.MaxAttempts, limited.HealthyAfter = 1, 0
	return limited.window(attempt, 0)
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
