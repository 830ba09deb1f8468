package convert

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"time"

	"github.com/goretry/retry"
)

// Nearest is [Write] for the closest policy that the system can express. It
// returns that policy's settings, and what is lost of p: each setting with its
// size. If nothing is, there are no losses. The error is an *[Error] if no change
// of p helps.
func Nearest(to string, p retry.Policy, o Options) (text string, losses []string, err error) {
	for range 3 * len(repairs) { // a repair may make another one necessary
		text, err = Write(to, p, o)
		refused := new(Error)
		if !errors.As(err, &refused) {
			return text, losses, err
		}
		repaired := false
		for _, fault := range refused.Faults {
			if q, ok := repair(to, p, o, keyOf(fault)); ok {
				losses = append(losses, fmt.Sprintf("%s; %s", fault, effect(p, q)))
				p, repaired = q, true
				break
			}
		}
		if !repaired {
			return "", nil, err
		}
	}
	return "", nil, err
}

var faultKey = regexp.MustCompile(`^(?:[A-Z]\w* \((\w+)\)|([a-z_]+)\S*) is `)

// keyOf returns the key of a policy with which a fault begins.
func keyOf(fault string) string {
	match := faultKey.FindStringSubmatch(fault)
	if match == nil {
		return ""
	}
	return match[1] + match[2]
}

// repair returns the policy closest to p that a system has fewer faults with,
// among the changes of a key, or else as many, but none about this key.
func repair(to string, p retry.Policy, o Options, key string) (closest retry.Policy, ok bool) {
	faults := func(p retry.Policy) (about, all int) {
		_, err := Write(to, p, o)
		refused := new(Error)
		_ = errors.As(err, &refused)
		for _, fault := range refused.Faults {
			if keyOf(fault) == key {
				about++
			}
		}
		return about, len(refused.Faults)
	}
	change := repairs[key]
	if change == nil {
		return p, false
	}
	_, before := faults(p)
	least := math.Inf(1)
	for _, q := range change(p) {
		if q.Validate() != nil {
			continue
		}
		about, after := faults(q)
		if after > before || after == before && about > 0 {
			continue
		}
		d := distance(p, q)
		if after == before {
			d += 1e6
		}
		if d < least {
			closest, least, ok = q, d, true
		}
	}
	return closest, ok
}

// repairs are the changes of a policy that may help, by the key that a system
// does not take.
var repairs map[string]func(retry.Policy) []retry.Policy

func init() {
	without := func(change func(*retry.Policy)) func(retry.Policy) []retry.Policy {
		return func(p retry.Policy) []retry.Policy {
			change(&p)
			return []retry.Policy{p}
		}
	}
	repairs = map[string]func(retry.Policy) []retry.Policy{
		"max_elapsed": func(p retry.Policy) (all []retry.Policy) {
			longer, none := p, p
			longer.MaxElapsed = max(p.MaxElapsed, p.MaxDelay)
			for _, d := range p.Delays(20) {
				longer.MaxElapsed = max(longer.MaxElapsed, d)
			}
			if none.MaxElapsed = 0; none.MaxAttempts == 0 && none.MaxRetries == 0 {
				none.MaxAttempts = retry.Unlimited
			}
			return []retry.Policy{longer, none}
		},
		"max_retry_after":   without(func(p *retry.Policy) { p.MaxRetryAfter = 0 }),
		"exact_retry_after": without(func(p *retry.Policy) { p.ExactRetryAfter = false }),
		"healthy_after":     without(func(p *retry.Policy) { p.HealthyAfter = 0 }),
		"attempt_timeout": func(p retry.Policy) []retry.Policy {
			rounded, none := p, p
			rounded.AttemptTimeout = round(p.AttemptTimeout, time.Millisecond)
			none.AttemptTimeout = 0
			return []retry.Policy{rounded, none}
		},
		"jitter": func(p retry.Policy) (all []retry.Policy) {
			for _, j := range []retry.Jitter{nil, retry.FullJitter, retry.Proportional(0.2), retry.Proportional(1. / 3), retry.Proportional(1)} {
				p.Jitter = j
				all = append(all, p)
			}
			return all
		},
		"max_attempts": func(p retry.Policy) (all []retry.Policy) {
			for _, n := range []int{2, 5, stepMostRetries + 1, math.MaxInt32, retry.Unlimited} {
				q := p
				q.MaxAttempts, q.MaxRetries, q.AttemptCap, q.NonRetryable = n, 0, 0, false
				if n == retry.Unlimited && p.MaxElapsed == 0 && p.EffectiveMax() > 1 {
					plan := p.Plan(retry.Unlimited)
					q.MaxElapsed = plan[len(plan)-1].Total // the same time, as far as the delays go
				}
				if q.Backoff == nil {
					q.Backoff = retry.Fixed(0)
				}
				all = append(all, q)
			}
			return all
		},
		"backoff":   curves,
		"max_delay": curves,
	}
}

// curves returns policies with a fixed or an exponential curve near that of p.
func curves(p retry.Policy) (all []retry.Policy) {
	delays := p.Delays(20)
	if len(delays) == 0 {
		delays = retry.Schedule{0}
	}
	first, longest := delays[0], delays[0]
	for _, d := range delays {
		longest = max(longest, d)
	}
	factors := []float64{1, 2}
	if b, ok := p.Backoff.(retry.Exponential); ok && b.Factor > 1 {
		factors = append(factors, b.Factor)
	}
	if n := len(delays); n > 1 && first > 0 && delays[1] > first {
		factors = append(factors, float64(delays[1])/float64(first), math.Pow(float64(longest)/float64(first), 1/float64(n-1)))
	}
	for _, unit := range []time.Duration{1, time.Millisecond, time.Second} {
		for _, base := range []time.Duration{first, longest, longest / 10} {
			base = round(base, unit)
			for _, factor := range factors {
				for _, most := range []time.Duration{p.MaxDelay, 0, longest, 10 * base, max(longest*6/5, p.MaxDelay), longest * 2} {
					q := p
					q.Backoff, q.MaxDelay = retry.Exponential{Base: base, Factor: factor}, round(most, unit)
					if factor == 1 {
						q.Backoff = retry.Fixed(base)
					}
					all = append(all, q)
				}
			}
		}
	}
	return all
}

// round rounds to a multiple of a unit, at least one of it unless d is 0.
func round(d, unit time.Duration) time.Duration {
	if d <= 0 {
		return unit * time.Duration(min(1, max(0, int64(unit)-1)))
	}
	return max(unit, d.Round(unit))
}

// windowsOf returns the ranges of the first 20 delays of p.
func windowsOf(p retry.Policy) (windows [][2]time.Duration) {
	for n := 1; n <= 20; n++ {
		d := p.Next(retry.Attempt{Number: n, Seed: 1})
		if !d.Retry() {
			break
		}
		windows = append(windows, [2]time.Duration{d.Lo, d.Hi})
	}
	return windows
}

// distance says how far two policies are from each other: in attempts, and in the
// ends of the ranges of their delays.
func distance(p, q retry.Policy) float64 {
	a, b := windowsOf(p), windowsOf(q)
	total := 0.0
	for n := range min(len(a), len(b)) {
		for end := range 2 {
			x, y := float64(a[n][end])+1e6, float64(b[n][end])+1e6 // below a millisecond nothing matters
			total += math.Abs(math.Log(x / y))
		}
	}
	attempts := func(p retry.Policy) float64 {
		if n := p.EffectiveMax(); n > 0 {
			return math.Log(float64(n))
		}
		return math.Log(math.MaxInt32) + 1
	}
	if p.MaxElapsed != q.MaxElapsed {
		total++
	}
	if p.AttemptTimeout != q.AttemptTimeout {
		total += math.Abs(math.Log(float64(p.AttemptTimeout+1) / float64(q.AttemptTimeout+1)))
	}
	return total + 10*math.Abs(attempts(p)-attempts(q))
}

// effect says what a repair changes: the attempts, and the range of the delay that
// changes most.
func effect(p, q retry.Policy) string {
	text := "written without"
	if a, b := p.EffectiveMax(), q.EffectiveMax(); a != b {
		text = fmt.Sprintf("%s become %s", attemptsText(a), attemptsText(b))
		if q.MaxElapsed != p.MaxElapsed {
			text += fmt.Sprintf(" within %v", q.MaxElapsed)
		}
		return text
	}
	a, b := windowsOf(p), windowsOf(q)
	at, most := -1, 0.0
	for n := range min(len(a), len(b)) {
		for end := range 2 {
			if d := math.Abs(float64(a[n][end] - b[n][end])); d > most {
				at, most = n, d
			}
		}
	}
	switch {
	case at >= 0:
		return fmt.Sprintf("the wait after attempt %d, %s, becomes %s", at+1, windowText(a[at]), windowText(b[at]))
	case p.MaxElapsed != q.MaxElapsed && q.MaxElapsed > 0:
		return fmt.Sprintf("written as %v", q.MaxElapsed)
	case p.AttemptTimeout != q.AttemptTimeout && q.AttemptTimeout > 0:
		return fmt.Sprintf("written as %v", q.AttemptTimeout)
	default:
		return text
	}
}

func attemptsText(n int) string {
	switch n {
	case retry.Unlimited:
		return "unlimited attempts"
	case 1:
		return "1 attempt"
	default:
		return fmt.Sprintf("%d attempts", n)
	}
}

func windowText(w [2]time.Duration) string {
	if w[0] == w[1] {
		return w[0].String()
	}
	return fmt.Sprintf("%v to %v", w[0], w[1])
}
