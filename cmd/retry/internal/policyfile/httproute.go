package policyfile

import (
	"fmt"
	"math"
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
