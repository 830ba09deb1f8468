package retry_test

import (
	"fmt"
	"math"
	"time"

	"github.com/goretry/retry"
)

// Quadratic is a Backoff of d, 4d, 9d, 16d and so on.
type Quadratic time.Duration

// Delay returns attempt * attempt * q, or the longest duration if the product overflows. Without
// this check, a product that overflows may be negative, which would mean no delay.
func (q Quadratic) Delay(attempt int) time.Duration {
	d, n := time.Duration(max(0, q)), time.Duration(max(1, attempt))
	if d > math.MaxInt64/n/n {
		return math.MaxInt64
	}
	return d * n * n
}

// Any type with a Delay method is a Backoff. retrytest.TestBackoff checks that
// it works for every attempt.
func ExampleBackoff() {
	policy := retry.Policy{MaxAttempts: 6, Backoff: Quadratic(time.Second), MaxDelay: 10 * time.Second}

	fmt.Println(policy.Delays(retry.Unlimited))
	fmt.Println(Quadratic(time.Second).Delay(math.MaxInt))
	// Output:
	// [1s 4s 9s 10s 10s]
	// 2562047h47m16.854775807s
}

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
