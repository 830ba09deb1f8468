package retry_test

import (
	"fmt"

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

// A NATS consumer takes its delays as a list, without jitter.
func ExamplePolicy_Delays() {
	fmt.Println(retry.Default().Delays(10))
	// Output: [200ms 400ms 800ms 1.6s]
}
