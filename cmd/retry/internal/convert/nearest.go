package convert

import (
	"cmp"
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
	_, err = Write(to, p, o)
	least := math.Inf(1)
	for _, detour := range []float64{0, 1e6} { // a change that needs another one may lead closer, or astray
		q, faults, found := reached(to, p, o, detour)
		far := distance(p, q)
		if !found || far >= least {
			continue
		}
		least, losses = far, nil
		text, err = Write(to, q, o)
		for _, fault := range faults {
			if size := lost(p, q, subject(fault)); size != "" {
				losses = append(losses, fault+"; "+size)
			}
		}
	}
	return text, losses, err
}

// reached changes p until a system takes it. It returns the new policy with the faults
// of p, and the faults of changed policies that are about something else.
func reached(to string, p retry.Policy, o Options, detour float64) (q retry.Policy, faults []string, found bool) {
	q = p
	for i := range 30 { // a change may make another one necessary
		_, err := Write(to, q, o)
		all := faultsIn(err)
		if all == nil {
			return q, faults, true
		}
		for _, fault := range all {
			if i == 0 || !slices.ContainsFunc(faults, func(f string) bool { return subject(f) == subject(fault) }) {
				faults = append(faults, fault)
			}
		}
		next, found := q, false
		for j := 0; j < len(all) && !found; j++ {
			next, found = closest(to, p, q, o, all, keyOf(all[j]), detour)
		}
		if !found {
			break
		}
		q = next
	}
	return q, nil, false
}

var faultKey = regexp.MustCompile(`^(?:[A-Z]\w* \((\w+)\)|([a-z_]+)\S*) is `)

// keyOf returns the key of a policy with which a fault begins.
func keyOf(fault string) string {
	if match := faultKey.FindStringSubmatch(fault); match != nil {
		return match[1] + match[2]
	}
	return ""
}

// subject returns what a fault is about: its key, or "delays" for all keys that
// shape them.
func subject(fault string) string {
	key := keyOf(fault)
	if slices.Contains([]string{"backoff", "max_delay", "jitter"}, key) {
		return "delays"
	}
	return key
}

// closest changes q, which p has become. It returns the policy closest to p that a
// system has fewer faults with about a key, and no more in all. A policy with as many
// is farther by a detour.
func closest(to string, p, q retry.Policy, o Options, before []string, key string, detour float64) (best retry.Policy, found bool) {
	about := func(faults []string) int {
		return len(slices.DeleteFunc(slices.Clone(faults), func(fault string) bool { return keyOf(fault) != key }))
	}
	least := math.Inf(1)
	for _, change := range changes(p, q, key) {
		if change.Validate() != nil {
			continue
		}
		_, err := Write(to, change, o)
		after := faultsIn(err)
		if about(after) >= about(before) || len(after) > len(before) {
			continue
		}
		far := distance(p, change)
		if len(after) == len(before) {
			far += detour
		}
		if far < least {
			best, least, found = change, far, true
		}
	}
	return best, found
}

// changes returns policies like q, which p has become, where a system does not take a
// key of q. Some change another key: they do not help.
func changes(p, q retry.Policy, key string) (all []retry.Policy) {
	add := func(change func(c *retry.Policy)) {
		c := q
		change(&c)
		all = append(all, c)
	}
	add(func(c *retry.Policy) { c.MaxRetryAfter = 0 })
	add(func(c *retry.Policy) { c.RetryAfter = "" })
	add(func(c *retry.Policy) { c.Budget = nil })
	add(func(c *retry.Policy) { c.HealthyAfter = 0 })
	add(func(c *retry.Policy) { c.AttemptTimeout = round(q.AttemptTimeout, time.Millisecond) })
	add(func(c *retry.Policy) { c.AttemptTimeout = 0 })
	add(func(c *retry.Policy) {
		if c.MaxElapsed = 0; q.MaxAttempts == 0 && q.MaxRetries == 0 {
			c.MaxAttempts = retry.Unlimited
		}
	})
	delays := append(q.Delays(len(ownSteps(p, 20))), 0)
	add(func(c *retry.Policy) { c.MaxElapsed = max(q.MaxElapsed, q.MaxDelay, slices.Max(delays)) })
	switch key {
	case "jitter":
		for _, j := range []retry.Jitter{nil, retry.FullJitter, retry.Proportional(0.2)} {
			add(func(c *retry.Policy) { c.Jitter = j })
		}
		if q.Jitter != nil {
			all = append(all, centered(q))
		}
	case "max_attempts":
		for _, n := range []int{2, 5, stepMostRetries + 1, math.MaxInt32, retry.Unlimited} {
			if p.EffectiveMax() == 1 {
				break // what is forbidden to retry is not retried
			}
			add(func(c *retry.Policy) {
				c.MaxAttempts, c.MaxRetries, c.AttemptCap, c.NonRetryable = n, 0, 0, false
				if n == retry.Unlimited && q.MaxElapsed == 0 && q.EffectiveMax() > 1 {
					plan := q.Plan(retry.Unlimited)
					c.MaxElapsed = max(plan[len(plan)-1].Total, q.MaxDelay) // the same time, as far as the delays go
				}
				if c.Backoff == nil {
					c.Backoff = retry.Fixed(0)
				}
			})
		}
	case "backoff", "max_delay":
		return curves(q, delays)
	}
	return all
}

// centered returns the policy that draws delays from the ranges of q, each of which is
// the middle and a share to both sides.
func centered(q retry.Policy) retry.Policy {
	lo, hi := q.Jitter.Window(time.Hour)
	middle := float64(lo+hi) / float64(2*time.Hour) // of the range for a delay of 1
	q.Jitter = retry.Proportional(float64(hi-lo) / float64(hi+lo))
	delays := shortened(q.Delays(100))
	for i, d := range delays {
		delays[i] = time.Duration(middle * float64(d))
	}
	q.Backoff, q.MaxDelay = retry.Schedule(delays), 0 // whose jitter goes beyond its last delay
	return q
}

// curves returns policies with a fixed or an exponential curve near the curve of q, of
// which delays has the first, and then 0.
func curves(q retry.Policy, delays []time.Duration) []retry.Policy {
	first, longest := delays[0], slices.Max(delays)
	steps := len(delays) - 1
	if steps == 20 { // and there are more
		steps = 100
	}
	list := q
	list.Backoff, list.MaxDelay = retry.Schedule(shortened(q.Delays(steps))), 0 // whose jitter goes beyond its last delay
	all := []retry.Policy{list}
	for _, unit := range []time.Duration{1, time.Millisecond, time.Second} {
		for _, base := range []time.Duration{first, longest, longest / 10} {
			base = round(base, unit)
			factors := []float64{1, 2}
			if b, ok := q.Backoff.(retry.Exponential); ok && b.Factor > 1 {
				factors = append(factors, b.Factor)
			}
			if n := slices.Index(delays, longest); n > 0 && base > 0 { // which the curve reaches when q does
				fitted := math.Pow(float64(longest)/float64(base), 1/float64(n))
				factors = append(factors, float64(delays[1])/float64(base), math.Ceil(100*fitted)/100)
			}
			for _, factor := range factors {
				for _, most := range []time.Duration{q.MaxDelay, 0, longest, 10 * base, max(longest*6/5, q.MaxDelay), longest * 2} {
					c := q
					c.Backoff, c.MaxDelay = retry.Exponential{Base: base, Factor: factor}, round(most, unit)
					all = append(all, c)
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

// ownSteps returns the plan of p as far as p goes, and one step at least.
func ownSteps(p retry.Policy, n int) retry.Plan { return firstSteps(p, max(1, len(p.Plan(n)))) }

// firstSteps returns the plan of p without the bound that may leave delays out.
func firstSteps(p retry.Policy, n int) retry.Plan {
	if p.MaxAttempts == 0 && p.MaxRetries == 0 && p.MaxElapsed > 0 {
		p.MaxAttempts = retry.Unlimited
	}
	p.MaxElapsed = 0
	return p.Plan(n)
}

// distance says how far q is from p.
func distance(p, q retry.Policy) (far float64) {
	ratio := func(a, b time.Duration) float64 { // below a millisecond nothing matters
		return math.Abs(math.Log((float64(a) + 1e6) / (float64(b) + 1e6)))
	}
	spread := func(s retry.Step) float64 { return float64(s.Hi-s.Lo) / float64(max(1, s.Hi)) }
	attempts := func(p retry.Policy) float64 {
		if n := p.EffectiveMax(); n != retry.Unlimited {
			return math.Log(float64(n))
		}
		return math.Log(math.MaxInt32) + 1
	}
	far = 10*math.Abs(attempts(p)-attempts(q)) + ratio(p.AttemptTimeout, q.AttemptTimeout)
	if p.MaxElapsed > 0 {
		far += ratio(p.MaxElapsed, cmp.Or(q.MaxElapsed, math.MaxInt64))
	}
	a, b := ownSteps(p, 20), firstSteps(q, 20)
	for n := range min(len(a), len(b)) {
		far += ratio(a[n].Hi, b[n].Hi) + math.Abs(spread(a[n])-spread(b[n]))
	}
	return far
}

// lost says what p loses where q takes its place: attempts, the range of the delay
// that changes most, or what bounds the time; "" if nothing.
func lost(p, q retry.Policy, subject string) (size string) {
	switch subject {
	case "max_attempts":
		text, _, _ := strings.Cut(p.String(), ",") // which begins with them
		newText, _, _ := strings.Cut(q.String(), ",")
		if q.MaxElapsed > 0 {
			newText += fmt.Sprintf(" within %v", q.MaxElapsed)
		}
		return fmt.Sprintf("%s become %s", text, newText)
	case "delays":
		most := 20 * time.Nanosecond // which floats round
		a, b := ownSteps(p, retry.Unlimited), firstSteps(q, retry.Unlimited)
		for n := range min(len(a), len(b)) {
			if n == 20 && size != "" {
				break // what is far off matters only by itself
			}
			if d := max((a[n].Lo - b[n].Lo).Abs(), (a[n].Hi - b[n].Hi).Abs()); d > most {
				most, size = d, fmt.Sprintf("the wait after attempt %d, %v to %v, becomes %v to %v", n+1, a[n].Lo, a[n].Hi, b[n].Lo, b[n].Hi)
			}
		}
		return size
	case "max_elapsed":
		timed := q
		timed.AttemptTimeout = p.AttemptTimeout // which is a loss of its own
		b := firstSteps(timed, 20)
		switch {
		case p.MaxElapsed == q.MaxElapsed || p.MaxElapsed == 0 || len(b) == 0:
			return ""
		case q.MaxElapsed == 0:
			return fmt.Sprintf("without it retry %d starts up to %v after the first attempt", len(b), b[len(b)-1].Total)
		}
		return fmt.Sprintf("becomes %v", q.MaxElapsed)
	case "attempt_timeout":
		if q.AttemptTimeout == 0 {
			return "without it an attempt may take any time"
		}
		return fmt.Sprintf("becomes %v", q.AttemptTimeout)
	}
	return "left out"
}
