package retry_test

import (
	"fmt"
	"math"
	"time"

	"github.com/goretry/retry"
)

// Extra is a Jitter that adds up to this duration to each delay, and never
// shortens a delay.
type Extra time.Duration

// Window returns d and d + e, or the longest duration if the sum overflows.
func (e Extra) Window(d time.Duration) (lo, hi time.Duration) {
	d = max(0, d)
	return d, d + min(max(0, time.Duration(e)), math.MaxInt64-d)
}

// Any type with a Window method is a Jitter. retrytest.TestJitter checks that
// it works for every delay.
func ExampleJitter() {
	policy := retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Second}, Jitter: Extra(500 * time.Millisecond)}

	fmt.Println(policy.Plan(retry.Unlimited))
	fmt.Println(Extra(time.Second).Window(math.MaxInt64))
	// Output:
	// after attempt   wait         total at most
	// 1               1s to 1.5s   1.5s
	// 2               2s to 2.5s   4s
	// 3               4s to 4.5s   8.5s
	// 2562047h47m16.854775807s 2562047h47m16.854775807s
}
