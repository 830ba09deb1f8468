package convert

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// Nearest is [Write] for the closest policy that the system can express. It
// returns that policy's settings, and what is lost of p: each setting with its
// size. If nothing is, there are no losses. If no change of p helps, the error is the
// one of Write.
func Nearest(to string, p retry.Policy, o Options) (text string, losses []string, err error) {
	for range 30 { // a change may make another one necessary
		text, err = Write(to, p, o)
		all := faultsIn(err)
		if all == nil {
			return text, losses, err
		}
		cost := ""
		for i := 0; i < len(all) && cost == ""; i++ {
			var q retry.Policy
			if q, cost = closest(to, p, o, all, keyOf(all[i])); cost != "" {
				losses = append(losses, all[i]+"; "+cost)
				p = q
			}
		}
		if cost == "" {
			break
		}
	}
	return "", nil, err
}

var faultKey = regexp.MustCompile(`^(?:[A-Z]\w* \((\w+)\)|([a-z_]+)\S*) is `)

// keyOf returns the key of a policy with which a fault begins.
func keyOf(fault string) string {
	if match := faultKey.FindStringSubmatch(fault); match != nil {
		return match[1] + match[2]
	}
	return ""
}

// closest returns the policy closest to p that a system has fewer faults with about
// a key, and no more in all, and what it costs; "" if there is none.
func closest(to string, p retry.Policy, o Options, before []string, key string) (found retry.Policy, cost string) {
	about := func(faults []string) (n int) {
		for _, fault := range faults {
			if keyOf(fault) == key {
				n++
			}
		}
		return n
	}
	least := math.Inf(1)
	for _, q := range changes(p, key) {
		if q.Validate() != nil {
			continue
		}
		_, err := Write(to, q, o)
		after := faultsIn(err)
		far, lost := difference(p, q)
		if len(after) == len(before) {
			far += 1e6 // only if nothing else helps
		}
		if about(after) < about(before) && len(after) <= len(before) && far < least {
			found, least, cost = q, far, lost
		}
	}
	return found, cost
}

// changes returns policies like p, where a system does not take a key of p. Some
// change another key: they do not help.
func changes(p retry.Policy, key string) (all []retry.Policy) {
	add := func(change func(q *retry.Policy)) {
		q := p
		change(&q)
		all = append(all, q)
	}
	add(func(q *retry.Policy) { q.MaxRetryAfter = 0 })
	add(func(q *retry.Policy) { q.ExactRetryAfter = false })
	add(func(q *retry.Policy) { q.HealthyAfter = 0 })
	add(func(q *retry.Policy) { q.AttemptTimeout = round(p.AttemptTimeout, time.Millisecond) })
	add(func(q *retry.Policy) { q.AttemptTimeout = 0 })
	add(func(q *retry.Policy) { q.MaxElapsed = max(p.MaxElapsed, p.MaxDelay, slices.Max(firstDelays(p))) })
	add(func(q *retry.Policy) {
		if q.MaxElapsed = 0; p.MaxAttempts == 0 && p.MaxRetries == 0 {
			q.MaxAttempts = retry.Unlimited
		}
	})
	switch key {
	case "jitter":
		for _, j := range []retry.Jitter{nil, retry.FullJitter, retry.Proportional(0.2), retry.Proportional(1. / 3), retry.Proportional(1)} {
			add(func(q *retry.Policy) { q.Jitter = j })
		}
	case "max_attempts":
		for _, n := range []int{2, 5, stepMostRetries + 1, math.MaxInt32, retry.Unlimited} {
			add(func(q *retry.Policy) {
				q.MaxAttempts, q.MaxRetries, q.AttemptCap, q.NonRetryable = n, 0, 0, false
				if n == retry.Unlimited && p.MaxElapsed == 0 && p.EffectiveMax() > 1 {
					plan := p.Plan(retry.Unlimited)
					q.MaxElapsed = max(plan[len(plan)-1].Total, p.MaxDelay) // the same time, as far as the delays go
				}
				if q.Backoff == nil {
					q.Backoff = retry.Fixed(0)
				}
			})
		}
	case "backoff", "max_delay":
		return curves(p)
	}
	return all
}

// firstDelays returns the first delays of p, and then 0.
func firstDelays(p retry.Policy) []time.Duration { return append(p.Delays(20), 0) }

// curves returns policies with a fixed or an exponential curve near the curve of p.
func curves(p retry.Policy) []retry.Policy {
	delays := firstDelays(p)
	first, longest := delays[0], slices.Max(delays)
	list := p
	list.Backoff, list.MaxDelay = retry.Schedule(slices.Compact(p.Delays(100))), 0 // whose jitter goes beyond its last delay
	all, factors := []retry.Policy{list}, []float64{1, 2}
	if b, ok := p.Backoff.(retry.Exponential); ok && b.Factor > 1 {
		factors = append(factors, b.Factor)
	}
	if first > 0 && delays[1] > first {
		factors = append(factors, float64(delays[1])/float64(first), math.Pow(float64(longest)/float64(first), 1/float64(len(delays)-2)))
	}
	for _, unit := range []time.Duration{1, time.Millisecond, time.Second} {
		for _, base := range []time.Duration{first, longest, longest / 10} {
			base = round(base, unit)
			for _, factor := range factors {
				for _, most := range []time.Duration{p.MaxDelay, 0, longest, 10 * base, max(longest*6/5, p.MaxDelay), longest * 2} {
					q := p
					q.Backoff, q.MaxDelay = retry.Exponential{Base: base, Factor: factor}, round(most, unit)
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

// firstSteps returns the plan of p without the bound that may leave delays out.
func firstSteps(p retry.Policy) retry.Plan {
	if p.MaxAttempts == 0 && p.MaxRetries == 0 && p.MaxElapsed > 0 {
		p.MaxAttempts = retry.Unlimited
	}
	p.MaxElapsed = 0
	return p.Plan(20)
}

// difference says how far q is from p, and what it costs: attempts, or the range of the
// delay that changes most, or what bounds the time.
func difference(p, q retry.Policy) (far float64, cost string) {
	ratio := func(a, b time.Duration) float64 { // below a millisecond nothing matters
		return math.Abs(math.Log((float64(a) + 1e6) / (float64(b) + 1e6)))
	}
	attempts := func(p retry.Policy) (size float64, text string) {
		text, _, _ = strings.Cut(p.String(), ",") // which begins with them
		if n := p.EffectiveMax(); n != retry.Unlimited {
			return math.Log(float64(n)), text
		}
		return math.Log(math.MaxInt32) + 1, text
	}
	size, text := attempts(p)
	newSize, newText := attempts(q)
	far = 10*math.Abs(size-newSize) + ratio(p.AttemptTimeout, q.AttemptTimeout) + ratio(p.MaxElapsed, q.MaxElapsed)/100
	a, b := firstSteps(p), firstSteps(q)
	most := time.Duration(0)
	for n := range min(len(a), len(b)) {
		far += ratio(a[n].Lo, b[n].Lo) + ratio(a[n].Hi, b[n].Hi)
		if d := max((a[n].Lo - b[n].Lo).Abs(), (a[n].Hi - b[n].Hi).Abs()); d > most {
			most, cost = d, fmt.Sprintf("the wait after attempt %d, %v to %v, becomes %v to %v", n+1, a[n].Lo, a[n].Hi, b[n].Lo, b[n].Hi)
		}
	}
	switch {
	case text != newText && q.MaxElapsed > 0:
		return far, fmt.Sprintf("%s become %s within %v", text, newText, q.MaxElapsed)
	case text != newText:
		return far, fmt.Sprintf("%s become %s", text, newText)
	case cost != "":
		return far, cost
	case p.MaxElapsed > 0 && q.MaxElapsed == 0 && len(b) > 0:
		return far, fmt.Sprintf("without it retry %d starts up to %v after the first attempt", len(b), b[len(b)-1].Total)
	case p.MaxElapsed != q.MaxElapsed:
		return far, fmt.Sprintf("becomes %v", q.MaxElapsed)
	case p.AttemptTimeout > 0 && q.AttemptTimeout == 0:
		return far, "without it an attempt may take any time"
	case p.AttemptTimeout != q.AttemptTimeout:
		return far, fmt.Sprintf("becomes %v", q.AttemptTimeout)
	}
	return far, "left out"
}
