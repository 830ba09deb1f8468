package retry

import (
	"cmp"
	"math"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// Lint reports settings that are valid but probably unintended. It returns nil if it finds no such
// setting. If p is invalid, Lint returns nil too: see [Policy.Validate].
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

// A linted is a valid policy, together with values computed from it that several rules of Lint use.
type linted struct {
	Policy
	declared int           // the limit on attempts before AttemptCap lowers it; 0: no limit is set
	limit    int           // EffectiveMax
	retries  int           // limit - 1; below 0: unlimited
	unset    bool          // true: the policy sets neither a limit nor NonRetryable
	oneCurve bool          // true: Classify is nil, so no class can have a Backoff of its own
	endless  bool          // true: oneCurve is true, and the retries of a call may be unlimited
	first    time.Duration // Backoff.Delay(1); 0 if Backoff is nil, or if Lint must not call it
	attempts string        // EffectiveMax as text, such as "5 attempts"
}

func newLinted(p Policy) *linted {
	l := &linted{Policy: p, declared: p.declared(), limit: p.limit(), oneCurve: p.Classify == nil}
	l.retries, l.attempts = l.limit-1, attemptsText(l.limit)
	l.unset = l.declared == 0 && !p.NonRetryable
	l.endless = p.endless() && l.retries != 0 && l.oneCurve
	if p.Backoff != nil && p.builtIn() {
		l.first = p.Backoff.Delay(1)
	}
	return l
}

// The method `short` reports whether Backoff and Jitter give only delays shorter than leastWait
// after a very large number of attempts. If the attempts of a call may be unlimited, the call waits
// for leastWait instead of such a delay.
func (l *linted) short() bool {
	_, greatest := l.ownWindow(math.MaxInt)
	return l.Backoff != nil && greatest < leastWait
}

// A lintRule describes one kind of Finding of Lint.
type lintRule struct {
	code string
	name string // the token in allNames for the setting that the finding is about: "MaxDelay"
	text string // the parameter `format` of the function `finding`

	// applies returns nil if the rule does not apply, and otherwise the values for the format in the
	// field `text`.
	applies func(*linted) []any
}

// valuesIf returns nil if the parameter `applies` is false. Otherwise it returns the parameter
// `values`, with the text of each duration in place of the duration.
func valuesIf(applies bool, values ...any) []any {
	if !applies {
		return nil
	}
	return append([]any{}, saturate.Texts(values)...)
}

const lintLimits = "{MaxAttempts}, {MaxRetries} or {MaxElapsed}"

// lintRules lists the rules in the order in which Lint reports them.
var lintRules = []lintRule{
	{
		"unused_limit", "NonRetryable", "{NonRetryable} allows only one attempt: the limit of %s by " +
			lintLimits + " has no effect", func(l *linted) []any {
			limited := l.declared == Unlimited || l.declared > 1
			return valuesIf(l.NonRetryable && limited, attemptsText(l.declared))
		},
	},
	{
		"no_limit", "Backoff", "{Backoff} without a limit: there is only one attempt, and no " +
			"delay; set " + lintLimits, func(l *linted) []any {
			return valuesIf(l.unset && l.Backoff != nil)
		},
	},
	{
		"no_limit", "AttemptCap", "{AttemptCap} without a limit: there is only one attempt; set " +
			lintLimits, func(l *linted) []any {
			return valuesIf(l.unset && l.Backoff == nil && l.AttemptCap > 0)
		},
	},
	{
		"no_limit", "Classify", "Classify without a limit: there is only one attempt, whatever " +
			"a class allows; set " + lintLimits, func(l *linted) []any {
			return valuesIf(l.unset && l.Classify != nil)
		},
	},
	{
		"never_healthy", "AttemptTimeout", "{AttemptTimeout} of %v ends every attempt before " +
			"{HealthyAfter} of %v: a call never begins anew", func(l *linted) []any {
			never := l.AttemptTimeout > 0 && l.AttemptTimeout <= l.HealthyAfter
			return valuesIf(never, l.AttemptTimeout, l.HealthyAfter)
		},
	},
	{
		"two_limits", "MaxAttempts", "{MaxAttempts} and {MaxRetries} are both set: the lower " +
			"limit applies, %s; set one", func(l *linted) []any {
			return valuesIf(l.MaxAttempts != 0 && l.MaxRetries != 0, attemptsText(l.count()))
		},
	},
	{
		"unused_delays", "Schedule", "{a Schedule} of %d delays is too long for %s: the delay of %v " +
			"and all delays after it are never used; {MaxAttempts} counts the first attempt",
		func(l *linted) []any {
			s, _ := l.Backoff.(Schedule)
			limited := l.declared != 0 && !l.NonRetryable && l.limit != Unlimited
			return valuesIf(limited && len(s) > l.retries, len(s), l.attempts, s.Delay(l.retries+1))
		},
	},
	{
		"no_backoff", "Backoff", "unlimited attempts without {a Backoff}: each wait is %v; set " +
			"{a Backoff}", func(l *linted) []any {
			return valuesIf(l.endless && l.limit == Unlimited && l.Backoff == nil, leastWait)
		},
	},
	{
		"no_backoff", "Backoff", "{HealthyAfter} without {a Backoff}: each wait is %v; set " +
			"{a Backoff}", func(l *linted) []any {
			return valuesIf(l.endless && l.limit != Unlimited && l.Backoff == nil, leastWait)
		},
	},
	{
		"short_delays", "Backoff", "unlimited attempts with delays below %v: such a wait is %v " +
			"instead", func(l *linted) []any {
			return valuesIf(l.endless && l.limit == Unlimited && l.short(), leastWait, leastWait)
		},
	},
	{
		"short_delays", "Backoff", "{HealthyAfter} with delays below %v: such a wait is %v instead",
		func(l *linted) []any {
			return valuesIf(l.endless && l.limit != Unlimited && l.short(), leastWait, leastWait)
		},
	},
	{
		"no_backoff", "Backoff", "%s without {a Backoff}: the attempts follow each other at once; " +
			"set {a Backoff}, or {Fixed(0)} for no delay", func(l *linted) []any {
			atOnce := l.retries > 0 && l.oneCurve && l.Backoff == nil && l.HealthyAfter == 0
			return valuesIf(atOnce, l.attempts)
		},
	},
	{
		"growing_delays", "Backoff", "unlimited attempts on {a Backoff} that grows: the delays " +
			"reach years; set {MaxDelay}", func(l *linted) []any {
			unbounded := l.limit == Unlimited && l.MaxDelay == 0 && l.MaxElapsed == 0
			return valuesIf(unbounded && grows(l.Backoff))
		},
	},
	{
		"no_time", "MaxElapsed", "{MaxElapsed} of %v is shorter than the first delay of at " +
			"least %v: there is no retry", func(l *linted) []any {
			least, _ := l.ownWindow(1)
			retried := l.retries != 0 && l.oneCurve && l.RetryAfter != RetryAfterExact
			return valuesIf(retried && l.MaxElapsed > 0 && least > l.MaxElapsed, l.MaxElapsed, least)
		},
	},
	{
		"unused_attempts", "MaxElapsed", "at most %d of %s fit into {MaxElapsed} of %v: attempt " +
			"%d and all attempts after it never run", func(l *linted) []any {
			n := l.mostWithin()
			return valuesIf(n > 1, n, l.attempts, l.MaxElapsed, n+1)
		},
	},
	{
		"long_attempts", "AttemptTimeout", "{AttemptTimeout} of %v is longer than {MaxElapsed} of " +
			"%v: after one attempt that uses it up there is no retry", func(l *linted) []any {
			longer := l.MaxElapsed > 0 && l.AttemptTimeout > l.MaxElapsed && l.retries != 0
			return valuesIf(longer, l.AttemptTimeout, l.MaxElapsed)
		},
	},
	{
		"too_long", "MaxDelay", "%s take %s %v: set {MaxDelay} or {MaxElapsed}",
		func(l *linted) []any {
			worst, upTo := l.longest()
			return valuesIf(worst > tooLong, l.attempts, upTo, worst)
		},
	},
	{
		"short_max_delay", "MaxDelay", "{MaxDelay} of %v is shorter than the first delay of %v: " +
			"it cuts even the first delay", func(l *linted) []any {
			return valuesIf(l.MaxDelay > 0 && l.first > l.MaxDelay, l.MaxDelay, l.first)
		},
	},
	{
		"no_ratio", "Budget.Ratio", "{Budget.Remember} of %v without a {Budget.Ratio}: successes " +
			"put nothing back; set {Budget.Ratio}", func(l *linted) []any {
			b := cmp.Or(l.Budget, new(Budget))
			return valuesIf(b.Remember > 0 && b.Ratio == 0, b.Remember)
		},
	},
}

// tooLong is the longest time that all retries of a policy may take without a Finding. Even the
// most patient queues give up after three weeks.
const tooLong = 31 * 24 * time.Hour

// The method `longest` returns the longest possible time from the start of the first attempt to the
// start of the last retry. It returns 0 if p has a MaxElapsed, no retry, or no delay. It also
// returns 0 if Lint must not call the Backoff or the Jitter of p (see builtIn). The result `upTo`
// is "up to", or "more than" if p has more retries than a plan can show.
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

// mostWithin returns how many attempts fit into MaxElapsed. It returns 0 if all attempts fit, or if
// EffectiveMax is Unlimited. It also returns 0 if the delays may be shorter than in the Plan of p,
// which may happen in two cases: p sets Classify, RetryAfterExact or Wait, or Lint must not call
// the Backoff or the Jitter of p (see builtIn).
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

// builtIn reports whether Lint may call the Backoff and the Jitter of p. It returns true if each of
// them is nil or has a type of this package other than BackoffFunc.
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

// ownWindow returns the window from which the delay after an attempt is drawn. A call with
// unlimited attempts or with a HealthyAfter raises a window that ends below leastWait to leastWait.
// ownWindow does not raise such a window. If Lint must not call the Backoff or the Jitter of p (see
// builtIn), ownWindow returns a window from 0 to the longest duration.
func (p *Policy) ownWindow(attempt int) (lo, hi time.Duration) {
	if !p.builtIn() {
		return 0, saturate.Max
	}
	limited := *p
	limited.MaxAttempts, limited.HealthyAfter = 1, 0
	return limited.window(attempt, 0)
}

// The function `grows` reports whether b is a Backoff of this package whose delay grows without
// end.
func grows(b Backoff) bool {
	switch b := b.(type) {
	case Linear, Fibonacci, Exponential:
		return b.Delay(math.MaxInt) > b.Delay(1)
	default:
		return false
	}
}
