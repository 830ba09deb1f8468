package policyfile

import (
	"cmp"
	"math"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// readTemporal reads the RetryPolicy of an activity or a workflow. If a setting is 0, readTemporal
// uses the default of this setting, as Temporal's server does.
func readTemporal(f *form) {
	f.base = cmp.Or(f.time("initialInterval", 0, 0), time.Second)
	zeroOrFromOne := func(x float64) bool { return x == 0 || x >= 1 }
	f.factor = cmp.Or(f.number("backoffCoefficient", "1 or more, or 0 for 2", 0, zeroOrFromOne), 2)
	f.cap = f.time("maximumInterval", 0, 0)
	if f.cap > 0 && f.cap < f.base {
		f.fault("maximumInterval", f.cap, say("at least the initialInterval, %v", f.base))
	}
	f.cap = cmp.Or(f.cap, saturate.Mul(100, f.base))
	f.attempts = cmp.Or(f.whole("maximumAttempts", 0, math.MaxInt32, 0), retry.Unlimited)
	f.skip("", "nonRetryableErrorTypes")
}
