package retrytemporal

import (
	"errors"
	"fmt"
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
		of := func(change func(*activity.Info)) retryjob.Job {
			info := activity.Info{
				WorkflowExecution: workflow.Execution{ID: "order-7", RunID: "run-1"}, ActivityID: "5", ActivityRunID: "",
				Attempt: 3, ScheduledTime: server, StartedTime: server.Add(time.Minute),
			}
			change(&info)
			return jobOf(info)
		}
		want := retryjob.Job{Key: "order-7/run-1/5", Attempt: 3, Began: time.Now().Add(-time.Minute)}
		assert.Equal(t, want, of(func(*activity.Info) {}))
		assert.Equal(t, want, of(func(info *activity.Info) { info.RetryPolicy = &temporal.RetryPolicy{} }))
		want.MaxAttempts = 9
		assert.Equal(t, want, of(func(info *activity.Info) { info.RetryPolicy = &temporal.RetryPolicy{MaximumAttempts: 9} }))
		want.MaxAttempts, want.Key = 0, "5/run-2"
		assert.Equal(t, want, of(func(info *activity.Info) {
			info.WorkflowExecution, info.ActivityRunID = workflow.Execution{}, "run-2"
		}))
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
