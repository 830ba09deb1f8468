//go:build soak

package servertest

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrytemporal"
)

// The server retries by exported policies without an interceptor. It also accepts
// policies at the limits of what it can express.
func TestExport(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	rows := []struct {
		name   string
		policy retry.Policy
		fails  int
	}{
		{"one attempt", retry.Policy{MaxAttempts: 1}, 9},
		{"fixed", retry.Policy{MaxRetries: 2, Backoff: retry.Fixed(time.Second)}, 9},
		{"exponential", retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Second}}, 9},
		{"capped", retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Second, Factor: 1.5}, MaxDelay: 2 * time.Second}, 9},
		{"unlimited", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Base: time.Millisecond, Factor: 10}, MaxDelay: time.Second}, 5},
		{"a nanosecond", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(1)}, 9},
		{"100 years", retry.Policy{MaxAttempts: math.MaxInt32, Backoff: retry.Fixed(century)}, 0},
		{"up to 100 years", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Base: 1, Factor: math.MaxFloat64}, MaxDelay: century}, 0},
	}
	times := make([][]time.Time, len(rows))
	var mu sync.Mutex // guards times

	address, namespace := server()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: address, Namespace: namespace, Logger: quiet{}})
	require.NoError(t, err)
	defer c.Close()
	w := worker.New(c, "export", worker.Options{})
	attempt := func(_ context.Context, row int) error {
		mu.Lock()
		defer mu.Unlock()
		times[row] = append(times[row], time.Now())
		if len(times[row]) <= rows[row].fails {
			return errors.New("boom")
		}
		return nil
	}
	w.RegisterActivity(attempt)
	job := func(ctx workflow.Context, row int) error {
		exported, err := retrytemporal.Export(rows[row].policy)
		if err != nil {
			return err
		}
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: exported})
		return workflow.ExecuteActivity(ctx, attempt, row).Get(ctx, nil)
	}
	w.RegisterWorkflow(job)
	require.NoError(t, w.Start())
	defer w.Stop()

	jobs := make([]client.WorkflowRun, len(rows))
	for row := range rows {
		jobs[row], err = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "export", WorkflowExecutionTimeout: time.Minute}, job, row)
		require.NoError(t, err)
	}
	for row, tc := range rows {
		t.Run(tc.name, func(t *testing.T) {
			attempts := tc.fails + 1
			if limit := tc.policy.EffectiveMax(); limit != retry.Unlimited {
				attempts = min(attempts, limit)
			}
			assert.Equal(t, attempts <= tc.fails, jobs[row].Get(t.Context(), nil) != nil)
			require.Len(t, times[row], attempts)
			for n := 1; n < attempts; n++ {
				planned, seen := tc.policy.Next(retry.Attempt{Number: n}).Delay, times[row][n].Sub(times[row][n-1])
				t.Logf("attempt %d: planned %v, seen %v", n+1, planned, seen.Round(time.Millisecond))
				assert.GreaterOrEqual(t, seen, planned)
				assert.LessOrEqual(t, seen-planned, late)
			}
		})
	}
}
