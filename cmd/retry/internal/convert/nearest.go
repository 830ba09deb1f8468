package convert

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
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

// repair returns the policy closest to p that a system has fewer faults with about
// a key, and no more in all.
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
	if repairs[key] == nil {
		return p, false
	}
	aboutBefore, allBefore := faults(p)
	least := math.Inf(1)
	for _, q := range repairs[key](p) {
		if q.Validate() != nil {
			continue
		}
		about, all := faults(q)
		d := distance(p, q)
		if all == allBefore {
			d += 1e6 // only if nothing else helps
		}
		if about < aboutBefore && all <= allBefore && d < least {
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
	all = append(all, p)
	all[0].Backoff, all[0].MaxDelay = slices.Compact(p.Delays(100)), 0 // a list, whose jitter goes beyond its last delay
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

// distance says how far two policies are from each other: in attempts, and in the
// ends of the ranges of their first delays.
func distance(p, q retry.Policy) (total float64) {
	ratio := func(a, b time.Duration) float64 { // below a millisecond nothing matters
		return math.Abs(math.Log((float64(a) + 1e6) / (float64(b) + 1e6)))
	}
	a, b := unbounded(p).Plan(20), unbounded(q).Plan(20)
	for n := range min(len(a), len(b)) {
		total += ratio(a[n].Lo, b[n].Lo) + ratio(a[n].Hi, b[n].Hi)
	}
	attempts := func(p retry.Policy) float64 {
		if n := p.EffectiveMax(); n > 0 {
			return math.Log(float64(n))
		}
		return math.Log(math.MaxInt32) + 1
	}
	return total + 10*math.Abs(attempts(p)-attempts(q)) + ratio(p.AttemptTimeout, q.AttemptTimeout) + ratio(p.MaxElapsed, q.MaxElapsed)/100
}

// unbounded returns p without the bound that may leave delays out of its plan.
func unbounded(p retry.Policy) retry.Policy {
	if p.MaxAttempts == 0 && p.MaxRetries == 0 && p.MaxElapsed > 0 {
		p.MaxAttempts = retry.Unlimited
	}
	p.MaxElapsed = 0
	return p
}

// effect says what a repair changes: the attempts, or the range of the delay that
// changes most, or what bounds the time.
func effect(p, q retry.Policy) string {
	number := func(p retry.Policy) string {
		switch n := p.EffectiveMax(); n {
		case retry.Unlimited:
			return "unlimited attempts"
		case 1:
			return "1 attempt"
		default:
			return fmt.Sprint(n, " attempts")
		}
	}
	if number(p) != number(q) {
		within := ""
		if q.MaxElapsed > 0 {
			within = fmt.Sprintf(" within %v", q.MaxElapsed)
		}
		return fmt.Sprintf("%s become %s%s", number(p), number(q), within)
	}
	a, b := unbounded(p).Plan(20), unbounded(q).Plan(20)
	at, most := -1, time.Duration(0)
	for n := range min(len(a), len(b)) {
		if d := max((a[n].Lo - b[n].Lo).Abs(), (a[n].Hi - b[n].Hi).Abs()); d > most {
			at, most = n, d
		}
	}
	switch {
	case at >= 0:
		return fmt.Sprintf("the wait after attempt %d, %v to %v, becomes %v to %v", at+1, a[at].Lo, a[at].Hi, b[at].Lo, b[at].Hi)
	case p.MaxElapsed != q.MaxElapsed && q.MaxElapsed > 0:
		return fmt.Sprintf("becomes %v", q.MaxElapsed)
	case p.MaxElapsed != q.MaxElapsed && len(b) > 0:
		return fmt.Sprintf("without it retry %d starts up to %v after the first attempt", len(b), b[len(b)-1].Total)
	case p.AttemptTimeout != q.AttemptTimeout && q.AttemptTimeout > 0:
		return fmt.Sprintf("becomes %v", q.AttemptTimeout)
	case p.AttemptTimeout != q.AttemptTimeout:
		return "without it an attempt may take any time"
	default:
		return "left out"
	}
}
