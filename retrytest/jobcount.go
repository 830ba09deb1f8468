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

// JobCount checks that a queue of your own counts the attempts of a job as retryjob needs
// it: with the one that begins, so that the first is 1. work hands out the only job of the
// queue as a worker does, and runs it with the policy and the function that it gets. If
// the job has ended, work does nothing.
//
//	retrytest.JobCount(t, policy, func(p retry.Policy, fn func(context.Context) error) {
//		row := claim(t, db) // counts the attempt
//		retryjob.Run(t.Context(), p, retryjob.Job{Key: row.ID, Attempt: row.Attempts}, fn, settle(t, db, row))
//	})
//
// The job always fails, without delays. It must run as often as p allows, as attempt 1, 2
// and so on. p must have a limit on attempts.
func JobCount(t testing.TB, p retry.Policy, work func(p retry.Policy, fn func(context.Context) error)) {
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
	for range limit + 1 { // once more than it may run
		work(watched, func(context.Context) error { return errors.New("retrytest: this job always fails") })
	}
	if !slices.Equal(began, want) {
		report(t, p, []string{
			"the job ran as the attempts " + numbers(began),
			"want                        " + numbers(want),
			"Job.Attempt counts the attempt that begins: count when the job is handed out, or add 1",
		})
	}
}

// numbers writes the numbers of attempts.
func numbers(attempts []int) string {
	if len(attempts) == 0 {
		return "none"
	}
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(attempts)), ", "), "[]")
}
