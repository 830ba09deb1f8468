package retry_test

import (
	"fmt"
	"time"

	"github.com/goretry/retry"
)

func ExamplePolicy_Plan() {
	plan := retry.Default().Plan(retry.Unlimited)
	fmt.Println(plan)
	fmt.Println("the last retry starts within", plan[len(plan)-1].Total)
	// Output:
	// after attempt   wait             total at most
	// 1               160ms to 240ms   240ms
	// 2               320ms to 480ms   720ms
	// 3               640ms to 960ms   1.68s
	// 4               1.28s to 1.92s   3.6s
	// the last retry starts within 3.6s
}

func ExamplePolicy_Preview() {
	policy := retry.Policy{
		MaxRetries:     retry.Unlimited,
		Backoff:        retry.Linear(5 * time.Second),
		MaxDelay:       15 * time.Second,
		MaxElapsed:     10 * time.Minute,
		AttemptTimeout: 2 * time.Second,
	}
	fmt.Println(policy.Preview(4))
	// Output:
	// unlimited attempts, linear 5s, at most 15s, within 10m0s, 2s for each
	//
	// after attempt   wait   total at most
	// 1               5s     7s
	// 2               10s    19s
	// 3               15s    36s
	// 4               15s    53s
	// ...
	//
	// The delays reach MaxDelay (max_delay), 15s, after attempt 3.
	// Ends after at most 42 attempts: no retry starts later than MaxElapsed (max_elapsed), 10m, after the first attempt began.
	// Worst case: 10m2s in all, if attempts end with their AttemptTimeout (attempt_timeout), 2s.
}

// A NATS consumer takes its delays as a list, without jitter.
func ExamplePolicy_Delays() {
	fmt.Println(retry.Default().Delays(10))
	// Output: [200ms 400ms 800ms 1.6s]
}
