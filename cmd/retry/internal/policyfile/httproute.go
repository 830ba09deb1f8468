package policyfile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// readHTTPRoute reads the retry settings of a rule of an HTTPRoute. The Gateway API leaves many
// decisions to its implementations.
func readHTTPRoute(f *form) {
	f.attempts = 1 + f.whole("attempts", 0, math.MaxInt32, 2)
	if f.attempts == 1 {
		f.b.note("attempts", "with 0 nothing is retried; implementations of older versions refuse 0")
	}
	if !f.isSet("attempts") {
		f.b.note("attempts", "it is left out, and the implementation decides; here it is 2, as in Istio")
	}
	for _, code := range take[[]int](f, "codes", "a list of statuses, such as [503]", nil, nil) {
		if code < 400 || code > 599 {
			f.fault("codes", code, "statuses from 400 to 599")
		}
		f.retryOn = strings.TrimPrefix(fmt.Sprintf("%s,%d", f.retryOn, code), ",")
	}
	if f.retryOn == "" {
		f.b.note("codes", "it is left out, so only failures of the connection are retried")
	}
	f.constraint()
	least := time.Millisecond
	if f.attempts == 1 {
		least = 0
	}
	backoff := f.time("backoff", least, 0)
	switch {
	case f.attempts == 1:
		return
	case f.isSet("backoff"):
		f.base, f.factor = backoff, 1
		f.b.note("backoff",
			"it is the first delay; the implementation decides how delays grow, and about jitter")
		return
	}
	f.base, f.factor, f.cap, f.jitter = 25*time.Millisecond, 2, 250*time.Millisecond, retry.FullJitter
	f.b.note("backoff",
		"it is left out, and the implementation decides; here it is the backoff of Envoy")
}

// constraint reads the budget in an XBackendTrafficPolicy for a backend of an HTTPRoute.
func (f *form) constraint() {
	backends := f.textsAt(f.b.beside, "backendRefs.*.name")
	for _, policy := range f.resources("XBackendTrafficPolicy") {
		targets := f.textsAt(policy, "spec.targetRefs.*.name")
		for _, in := range f.places(policy, "spec.retryConstraint") {
			i := slices.IndexFunc(targets, func(name string) bool { return slices.Contains(backends, name) })
			if i < 0 {
				continue
			}
			count, interval := max(1, int(f.amount(in, "minRetryRate.count", 10))), time.Second
			if every, err := time.ParseDuration(f.textAt(in, "minRetryRate.interval")); err == nil {
				interval = every
			}
			f.budget = &retry.Budget{
				Size:        count,
				Ratio:       min(1, f.amount(in, "budget.percent", 20)/100),
				RefillEvery: max(time.Millisecond, interval/time.Duration(count)),
			}
			f.b.note("retryConstraint",
				fmt.Sprintf("here the budget of %s is {size: %d, ratio: %v, refill_every: %v}; a gateway "+
					"counts the retries in an interval, and responds with 503 to more",
					targets[i], count, f.budget.Ratio, f.budget.RefillEvery))
		}
	}
}
