package retrydialect

import (
	"cmp"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

// A target is a system that is given a policy and makes the decisions itself.
type target struct {
	name    string
	instead map[string]string // by field: what to do about one that the target does not have
}

// unsayable adds a fault for each field of p that the target cannot express.
// Source and Wait are none: the target draws from the same windows, and waits
// itself.
func (t target) unsayable(f *strict.Faults, p *retry.Policy) {
	for _, field := range []struct {
		name, key string
		set       bool
		value     any
		write     string
	}{
		{"RetryAfter", "retry_after", p.RetryAfter != "", p.RetryAfter, "spread"},
		{"MaxRetryAfter", "max_retry_after", p.MaxRetryAfter != 0, p.MaxRetryAfter, "0s"},
		{"MaxElapsed", "max_elapsed", p.MaxElapsed != 0, p.MaxElapsed, "0s"},
		{"AttemptTimeout", "attempt_timeout", p.AttemptTimeout != 0, p.AttemptTimeout, "0s"},
		{"HealthyAfter", "healthy_after", p.HealthyAfter != 0, p.HealthyAfter, "0s"},
		{"RetryIf", "", p.RetryIf != nil, "set", "nil"},
		{"Classify", "", p.Classify != nil, "set", "nil"},
		{"Budget", "", p.Budget != nil, "set", "nil"},
		{"OnEvent", "", p.OnEvent != nil, "set", "nil"},
	} {
		if !field.set {
			continue
		}
		name := field.name
		if field.key != "" {
			name += " (" + field.key + ")"
		}
		f.Add(name, field.value, fmt.Sprintf("%s (%s)", field.write, t.instead[field.name]))
	}
}

// leastWait is what a policy without a limit on attempts waits at least.
const leastWait = 10 * time.Millisecond

// geometric returns the curve of p as a first delay and the factor from each
// delay to the next. If p has no such curve, or no delay, it adds a fault and
// first is 0.
func geometric(f *strict.Faults, p *retry.Policy) (first time.Duration, factor float64) {
	switch b := p.Backoff.(type) {
	case retry.Fixed:
		first, factor = time.Duration(b), 1
	case retry.Exponential:
		first, factor = b.Base, b.Factor
		if factor == 0 {
			factor = 2
		}
	case nil:
	default:
		f.Add("Backoff (backoff)", fmt.Sprintf("a %T", b), "a Fixed (fixed) or an Exponential (exponential)")
		return 0, 0
	}
	if first == 0 {
		f.Add("Backoff (backoff)", "no delay", "a Fixed (fixed) or an Exponential (exponential) of at least 1ns")
	}
	if unlimited := p.EffectiveMax() == retry.Unlimited; unlimited && first > 0 && min(first, cmp.Or(p.MaxDelay, first)) < leastWait {
		f.Add("Backoff (backoff)", fmt.Sprintf("from %v on without a limit", first), fmt.Sprintf("delays of at least %v, as the policy waits without a limit", leastWait))
	}
	return first, factor
}

// jitterText returns the text form of a jitter, or the type of a custom one.
func jitterText(j retry.Jitter) string {
	switch j := j.(type) {
	case nil:
		return "none"
	case retry.Proportional, retry.Spread:
		return fmt.Sprint(j)
	default:
		return fmt.Sprintf("a %T", j)
	}
}
