package retrysim_test

import (
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysim"
)

// The function `shop` returns a system with a database that can handle 30 requests a second. The
// database gets 21 requests a second, and hangs for 10s.
func shop(calls retry.Policy) retrysim.System {
	return retrysim.System{
		Services: map[string]retrysim.Service{
			"web": {Rate: 21, Calls: []retrysim.Edge{{To: "db", Policy: calls}}},
			"db":  {Workers: 3, Work: 100 * time.Millisecond},
		},
		Events: []retrysim.Trigger{{At: 20 * time.Second, For: 10 * time.Second, Service: "db", Change: retrysim.Workers, Value: 0}},
	}
}

// One retry makes the outage permanent.
func ExampleCheck() {
	p := retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second}
	fmt.Println(retrysim.Check(shop(p), retrysim.RecoversWithin(time.Minute), retrysim.LoadAtMost("db", 1.5)))
	p.MaxAttempts = 1
	fmt.Println(retrysim.Check(shop(p), retrysim.RecoversWithin(3*time.Minute)))
	// Output:
	// retrysim: recovers within 1m0s: stays down, missed in 10 of 10 runs; load on db at most 1.50 times its normal load: 2.32 times at 91s, missed in 10 of 10 runs
	// <nil>
}

func ExampleExplain() {
	for attempts := range 3 {
		p := retry.Policy{MaxAttempts: attempts + 1, AttemptTimeout: time.Second}
		answer, err := retrysim.Explain(shop(p), 10)
		fmt.Printf("%d attempts: %.0f calls a second, %v\n", attempts+1, answer.Margin, err)
	}
	// Output:
	// 1 attempts: 25 calls a second, <nil>
	// 2 attempts: 14 calls a second, <nil>
	// 3 attempts: 9 calls a second, <nil>
}
