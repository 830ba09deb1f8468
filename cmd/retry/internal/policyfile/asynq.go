package policyfile

import (
	"math"
	"strings"
	"time"

	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// readAsynq reads the retries of a task. After n retries, asynq draws a delay between n^4+15 and
// n^4+15+29(n+1) seconds.
func readAsynq(f *form) {
	f.attempts = 1 + f.whole("max_retry", 0, 1000, 25)
	f.timeout = time.Duration(f.whole("timeout_seconds", 0, math.MaxInt32, 0)) * time.Second
	if f.timeout == 0 && !f.isSet("deadline") {
		f.timeout = 30 * time.Minute
		f.b.note("timeout_seconds", "30m, the default of asynq without a deadline, ends each attempt")
	}
	for n := range uint64(f.attempts - 1) {
		f.delays = append(f.delays, saturate.Mul(2*n*n*n*n+30+29*(n+1), time.Second/2))
	}
	if last := time.Duration(29*(f.attempts-1)) * time.Second / 2; last > 0 {
		f.b.note("max_retry",
			say("asynq draws each delay from a range; here a delay is the middle of its range, so the "+
				"first may be off by 14.5s, and the last by %v", last))
	}
	f.skip("", strings.Fields(`id queue type payload state start_time retried last_failed_at
		error_message deadline next_process_at ttl_seconds completed_at result group is_orphaned`)...)
}
