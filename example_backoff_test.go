package retry_test

import (
	"fmt"
	"math"
	"time"

	"github.com/goretry/retry"
)

// Quadratic is a Backoff of d, 4d, 9d, 16d and so on.
type Quadratic time.Duration

// Delay returns attempt * attempt * q, or the longest duration if that
// overflows: a negative product would mean no delay.
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
