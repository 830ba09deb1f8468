package queues

import (
	"errors"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

var (
	policy  = retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}}
	errDown = errors.New("connection refused")
)

func TestPolicy(t *testing.T) {
	retrytest.Schedule(t, policy, time.Second, 2*time.Second) // these delays, and then no more
	retrytest.Table(t, policy, []retrytest.Row{{Attempts: 3, Eligible: false, Reason: retry.ReasonExhausted}})
	op := retrytest.NewOp(errDown, errDown, nil) // fails twice
	if err := retry.Do(t.Context(), retrytest.NoWait(policy), op.Run); err != nil || op.Executions() != 3 {
		t.Errorf("%d executions: %v", op.Executions(), err)
	}
}
