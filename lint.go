package retry

import (
	"cmp"
	"math"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// Lint reports settings that are valid but probably unintended. It returns nil if it finds
// none, and if p is invalid.
func (p Policy) Lint() (found []Finding) {
	if p.faults() != nil {
		return nil
	}
	l := newLinted(p)
	for _, rule := range lintRules {
		if values := rule.applies(l); values != nil {
			found = append(found, finding(rule.code, rule.name, rule.text, values...))
		}
	}
	return found
}

// A linted is a valid policy with what several rules ask of it.
type linted struct {
	Policy
	declared int           // the limit on attempts that is set; 0: none, so there is one attempt
	limit    int           // EffectiveMax
	retries  int           // limit - 1
	unset    bool          // there is no limit, and NonRetryable does not explain it
	curve    bool          // each delay comes from the curve of the policy, not of a class
	endless  bool          // such a call may go on for ever
	first    time.Duration // the delay of the curve after the first attempt
	attempts string        // the limit as text
}

func newLinted(p Policy) *linted {
	l := &linted{Policy: p, declared: p.declared(), limit: p.limit(), curve: p.Classify == nil}
	l.retries, l.attempts = l.limit-1, attemptsText(l.limit)
	l.unset = l.declared == 0 && !p.NonRetryable
	l.endless = p.endless() && l.retries != 0 && l.curve
	if p.Backoff != nil && p.builtIn() {
		l.first = p.Backoff.Delay(1)
	}
	return l
}

// short reports whether no delay is as long as the least wait of an endless call.
func (l *linted) short() bool {
	_, greatest := l.ownWindow(math.MaxInt)
	return l.Backoff != nil && greatest < leastWait
}

// A lintRule is one thing that Lint looks for.
type lintRule struct {
	code string
	name string // a token of words: the setting that the finding is about
	text string // for fmt, with tokens in braces

	// applies returns nil if the rule does not apply, and otherwise the values in its text.
	applies func(*linted) []any
}

// when returns the values of a rule that applies if is is true.
func when(is bool, values ...any) []any {
	if !is {
		return nil
	}
	return append([]any{}, saturate.Texts(values)...)
}

const lintLimits = "{MaxAttempts}, {MaxRetries} or {MaxElapsed}"

// lintRules are in the order in which Lint reports.
var lintRules = []lintRule{
	{
		"unused_limit", "NonRetryable", "{NonRetryable} beside a limit of %s, by " + lintLimits +
			": there is only one attempt", func(l *linted) []any {
			limited := l.declared == Unlimited || l.declared > 1
			return when(l.NonRetryable && limited, attemptsText(l.declared))
		},
	},
	{
		"no_limit", "Backoff", "{Backoff} without a limit: there is only one attempt, and no " +
			"delay; set " + lintLimits, func(l *linted) []any {
			return when(l.unset && l.Backoff != nil)
		},
	},
	{
		"no_limit", "AttemptCap", "{AttemptCap} without a limit: there is only one attempt; set " +
			lintLimits, func(l *linted) []any {
			return when(l.unset && l.Backoff == nil && l.AttemptCap > 0)
		},
	},
	{
		"no_limit", "Classify", "Classify without a limit: there is only one attempt, whatever " +
			"a class allows; set " + lintLimits, func(l *linted) []any {
			return when(l.unset && l.Classify != nil)
		},
	},
	{
		"never_healthy", "AttemptTimeout", "{AttemptTimeout} of %v ends every attempt before " +
			"{HealthyAfter} of %v: none is ever healthy", func(l *linted) []any {
			never := l.AttemptTimeout > 0 && l.AttemptTimeout <= l.HealthyAfter
			return when(never, l.AttemptTimeout, l.HealthyAfter)
		},
	},
	{
		"two_limits", "MaxAttempts", "{MaxAttempts} and {MaxRetries} are both set: the lower " +
			"applies, %s; set one", func(l *linted) []any {
			return when(l.MaxAttempts != 0 && l.MaxRetries != 0, attemptsText(l.count()))
		},
	},
	{
		"unused_delays", "Schedule", "{a Schedule} of %d delays beside %s: the delay of %v and those " +
			"after it are never used; {MaxAttempts} counts the first attempt",
		func(l *linted) []any {
			s, _ := l.Backoff.(Schedule)
			limited := l.declared != 0 && !l.NonRetryable && l.limit != Unlimited
			return when(limited && len(s) > l.retries, len(s), l.attempts, s.Delay(l.retries+1))
		},
	},
	{
		"no_backoff", "Backoff", "unlimited attempts without {a Backoff}: each wait is %v; set one",
		func(l *linted) []any {
			return when(l.endless && l.limit == Unlimited && l.Backoff == nil, leastWait)
		},
	},
	{
		"no_backoff", "Backoff", "{HealthyAfter} without {a Backoff}: each wait is %v; set one",
		func(l *linted) []any {
			return when(l.endless && l.limit != Unlimited && l.Backoff == nil, leastWait)
		},
	},
	{
		"short_delays", "Backoff", "unlimited attempts with delays below %v: each wait is %v " +
			"instead", func(l *linted) []any {
			return when(l.endless && l.limit == Unlimited && l.short(), leastWait, leastWait)
		},
	},
	{
		"short_delays", "Backoff", "{HealthyAfter} with delays below %v: each wait is %v instead",
		func(l *linted) []any {
			return when(l.endless && l.limit != Unlimited && l.short(), leastWait, leastWait)
		},
	},
	{
		"no_backoff", "Backoff", "%s without {a Backoff}: they follow each other at once; set " +
			"one, or {Fixed(0)} for no delay", func(l *linted) []any {
			atOnce := l.retries > 0 && l.curve && l.Backoff == nil && l.HealthyAfter == 0
			return when(atOnce, l.attempts)
		},
	},
	{
		"growing_delays", "Backoff", "unlimited attempts on {a Backoff} that grows: the delays " +
			"reach years; set {MaxDelay}", func(l *linted) []any {
			unbounded := l.limit == Unlimited && l.MaxDelay == 0 && l.MaxElapsed == 0
			return when(unbounded && grows(l.Backoff))
		},
	},
	{
		"no_time", "MaxElapsed", "{MaxElapsed} of %v is shorter than the first delay of at " +
			"least %v: there is no retry", func(l *linted) []any {
			least, _ := l.ownWindow(1)
			retried := l.retries != 0 && l.curve && l.RetryAfter != RetryAfterExact
			return when(retried && l.MaxElapsed > 0 && least > l.MaxElapsed, l.MaxElapsed, least)
		},
	},
	{
		"unused_attempts", "MaxElapsed", "at most %d of %s fit into {MaxElapsed} of %v: attempt " +
			"%d and those after it never run", func(l *linted) []any {
			n := l.mostWithin()
			return when(n > 1, n, l.attempts, l.MaxElapsed, n+1)
		},
	},
	{
		"long_attempts", "AttemptTimeout", "{AttemptTimeout} of %v is longer than {MaxElapsed} of " +
			"%v: after one attempt that uses it up there is no retry", func(l *linted) []any {
			longer := l.MaxElapsed > 0 && l.AttemptTimeout > l.MaxElapsed && l.retries != 0
			return when(longer, l.AttemptTimeout, l.MaxElapsed)
		},
	},
	{
		"too_long", "MaxDelay", "%s take %s %v: set {MaxDelay} or {MaxElapsed}",
		func(l *linted) []any {
			worst, upTo := l.longest()
			return when(worst > tooLong, l.attempts, upTo, worst)
		},
	},
	{
		"short_max_delay", "MaxDelay", "{MaxDelay} of %v is shorter than the first delay of %v: " +
			"it cuts even that one", func(l *linted) []any {
			return when(l.MaxDelay > 0 && l.first > l.MaxDelay, l.MaxDelay, l.first)
		},
	},
	{
		"no_ratio", "Budget.Ratio", "{Budget.Remember} of %v beside a {Budget.Ratio} of 0: " +
			"successes put nothing back; set {Budget.Ratio}", func(l *linted) []any {
			b := cmp.Or(l.Budget, new(Budget))
			return when(b.Remember > 0 && b.Ratio == 0, b.Remember)
		},
	},
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
