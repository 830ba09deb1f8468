package retrytemporal

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// These tests cover the information about an activity that a real server sends and
// the SDK's test environment does not.

func TestJobOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := time.Now().Add(-17 * time.Hour) // the server has another clock
		never, year9999 := time.Unix(0, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, tc := range []struct {
			name   string
			change func(*activity.Info)
			want   func(*retryjob.Job)
		}{
			{"", func(*activity.Info) {}, func(*retryjob.Job) {}},
			{"no limit", func(i *activity.Info) { i.RetryPolicy = &temporal.RetryPolicy{} }, func(*retryjob.Job) {}},
			{"a limit", func(i *activity.Info) { i.RetryPolicy = &temporal.RetryPolicy{MaximumAttempts: 9} }, func(j *retryjob.Job) { j.MaxAttempts = 9 }},
			{"without a workflow", func(i *activity.Info) { i.WorkflowExecution, i.ActivityRunID = workflow.Execution{}, "run-2" }, func(j *retryjob.Job) { j.Key = "5/run-2" }},
			{"never scheduled", func(i *activity.Info) { i.ScheduledTime = never }, func(j *retryjob.Job) { j.Began = time.Now() }},
			{"scheduled in the year 1", func(i *activity.Info) { i.ScheduledTime = time.Time{} }, func(j *retryjob.Job) { j.Began = time.Now() }},
			{"never started", func(i *activity.Info) { i.StartedTime = never }, func(j *retryjob.Job) { j.Began = time.Now() }},
			{"started in the year 1, scheduled in 9999", func(i *activity.Info) { i.StartedTime, i.ScheduledTime = time.Time{}, year9999 }, func(j *retryjob.Job) { j.Began = time.Now() }},
			{"started in the year 9999", func(i *activity.Info) { i.StartedTime = year9999 }, func(j *retryjob.Job) { j.Began = time.Now().Add(-math.MaxInt64) }},
			{"the most attempts", func(i *activity.Info) { i.Attempt = math.MaxInt32 }, func(j *retryjob.Job) { j.Attempt = math.MaxInt32 }},
			{"negative numbers", func(i *activity.Info) { i.Attempt, i.RetryPolicy = -5, &temporal.RetryPolicy{MaximumAttempts: -1} }, func(j *retryjob.Job) { j.Attempt, j.MaxAttempts = -5, -1 }},
		} {
			info := activity.Info{
				WorkflowExecution: workflow.Execution{ID: "order-7", RunID: "run-1"}, ActivityID: "5",
				Attempt: 3, ScheduledTime: server, StartedTime: server.Add(time.Minute),
			}
			tc.change(&info)
			want := retryjob.Job{Key: "order-7/run-1/5", Attempt: 3, Began: time.Now().Add(-time.Minute)}
			tc.want(&want)
			assert.Equal(t, want, jobOf(info), tc.name)
		}
	})
}

func TestMark(t *testing.T) {
	errBoom := errors.New("boom")
	stock := temporal.NewApplicationError("no stock", "Stock")
	types := func(names ...string) *temporal.RetryPolicy {
		return &temporal.RetryPolicy{NonRetryableErrorTypes: names}
	}
	for _, tc := range []struct {
		name      string
		err       error
		server    *temporal.RetryPolicy
		permanent bool
		wait      time.Duration
	}{
		{"success", nil, types("errorString"), false, 0},
		{"a plain error", errBoom, nil, false, 0},
		{"a type that is not retryable", stock, types("Other", "Stock"), true, 0},
		{"another type", stock, types("Other"), false, 0},
		{"the type of a plain error", errBoom, types("errorString"), true, 0},
		{"the type of a marked error", retry.After(time.Second, retry.Permanent(errBoom)), types("errorString"), true, time.Second},
		{"a wrapped error has the type of its wrapper", fmt.Errorf("ship: %w", stock), types("Stock"), false, 0},
		{"non-retryable", temporal.NewNonRetryableApplicationError("no stock", "Stock", nil), nil, true, 0},
		{"non-retryable, wrapped", fmt.Errorf("ship: %w", temporal.NewNonRetryableApplicationError("no stock", "Stock", nil)), nil, true, 0},
		{"a wait", temporal.NewApplicationErrorWithOptions("busy", "Busy", temporal.ApplicationErrorOptions{NextRetryDelay: time.Minute}), nil, false, time.Minute},
		{"a wait, wrapped", fmt.Errorf("ship: %w", temporal.NewApplicationErrorWithOptions("busy", "Busy", temporal.ApplicationErrorOptions{NextRetryDelay: time.Minute})), nil, false, time.Minute},
	} {
		err := mark(tc.err, tc.server)
		assert.Equal(t, tc.permanent, retry.IsPermanent(err), tc.name)
		assert.Equal(t, tc.wait, retry.RetryAfterOf(err), tc.name)
		assert.ErrorIs(t, err, tc.err, tc.name)
	}
}
