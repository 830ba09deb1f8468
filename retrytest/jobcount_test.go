package retrytest_test

import (
	"context"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrytest"
)

func TestJobCount(t *testing.T) {
	three := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(1), RetryIf: func(error) bool { return false }}
	for name, row := range map[string]struct {
		policy  retry.Policy
		first   int // the Attempt of the first run
		step    int // how much the queue adds to the count each time
		refuses int // after this many runs, the queue hands out nothing
		ran     string
		want    string // "": JobCount reports nothing
	}{
		"from 1":                  {three, 1, 1, 9, "", ""},
		"one attempt":             {retry.Policy{}, 1, 1, 9, "", ""},
		"from 0":                  {three, 0, 1, 9, "1, 1, 2, 3", "1, 2, 3"},
		"from 2":                  {three, 2, 1, 9, "2, 3", "1, 2, 3"},
		"the count never changes": {three, 1, 0, 9, "1, 1, 1, 1", "1, 2, 3"},
		"by two":                  {three, 1, 2, 9, "1, 3", "1, 2, 3"},
		"the job is lost":         {three, 1, 1, 2, "1, 2", "1, 2, 3"},
		"the job never ran":       {three, 1, 1, 0, "none", "1, 2, 3"},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(t testing.TB) {
				attempt, runs, dead := row.first, 0, false
				retrytest.JobCount(t, row.policy, func(p retry.Policy, fn func(context.Context) error) {
					if dead || runs == row.refuses {
						return
					}
					runs++
					retryjob.Run(context.Background(), p, retryjob.Job{Attempt: attempt}, fn, func(o retryjob.Outcome) { dead = !o.Retry() })
					attempt += row.step
				})
			}
			if row.want == "" {
				check(t)
				return
			}
			fails(t, check, "retrytest: "+row.policy.String(), "the job ran as the attempts "+row.ran, "want                        "+row.want,
				"Job.Attempt counts the attempt that begins: count when the job is handed out, or add 1")
		})
	}
	unlimited := retry.Policy{MaxAttempts: retry.Unlimited}
	fails(t, func(t testing.TB) { retrytest.JobCount(t, unlimited, nil) }, "retrytest: "+unlimited.String(), "JobCount needs a limit on attempts")
}
