package retrytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goretry/retry"
)

// JobCount checks that your own queue counts the attempts of a job as retryjob needs them: the
// count must include the attempt that begins, so the first attempt has number 1. Before you call
// JobCount, put one job into the queue. The function `work` must do what a worker of your queue
// does: take the job, and run it with the policy and the function that JobCount passes. If the job
// has ended, `work` must do nothing.
//
//	retrytest.JobCount(t, policy, func(p retry.Policy, fn func(context.Context) error) {
//		row := claim(t, db) // counts the attempt
//		job := retryjob.Job{Key: row.ID, Attempt: row.Attempts, Began: row.FirstRunAt}
//		retryjob.Run(t.Context(), p, job, fn, settle(t, db, row))
//	})
//
// fn always fails, and there are no delays. The job must run as often as p allows, as attempt
// 1, attempt 2 and so on. p must have a limit on attempts.
func JobCount(
	t testing.TB, p retry.Policy, work func(p retry.Policy, fn func(context.Context) error),
) {
	t.Helper()
	limit := p.EffectiveMax()
	if limit == retry.Unlimited {
		report(t, p, []string{"JobCount needs a limit on attempts"})
		return
	}
	var began, want []int
	for n := range limit {
		want = append(want, n+1)
	}
	watched := retry.Policy{MaxAttempts: limit, OnEvent: func(_ context.Context, e retry.Event) {
		if e.Kind == retry.AttemptStarted {
			began = append(began, e.Attempt)
		}
	}}
	fail := func(context.Context) error { return errors.New("retrytest: this job always fails") }
	for range limit + 1 { // before the last call of the function `work`, the job has ended
		work(watched, fail)
	}
	if !slices.Equal(began, want) {
		report(t, p, []string{
			"the job ran as the attempts " + numbers(began),
			"want                        " + numbers(want),
			"Job.Attempt counts the attempt that begins: count when the job is handed out, or add 1",
		})
	}
}

// numbers returns the numbers of attempts as text.
func numbers(attempts []int) string {
	if len(attempts) == 0 {
		return "none"
	}
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(attempts)), ", "), "[]")
}
