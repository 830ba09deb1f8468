package retrytemporal

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/goretry/retry/retryjob"
)

// jobOf returns the retryjob.Job of an activity. The times in `info` are from the server's clock,
// but Job.Began must be from this machine's clock. If the server has not sent a time, the time in
// `info` is in 1970, and jobOf ignores it.
func jobOf(info activity.Info) retryjob.Job {
	var waited time.Duration
	if info.ScheduledTime.Unix() > 0 {
		waited = max(0, info.StartedTime.Sub(info.ScheduledTime))
	}
	workflow := info.WorkflowExecution
	job := retryjob.Job{
		Key:     fmt.Sprintf("%s/%s/%s", workflow.ID, workflow.RunID, info.ActivityID),
		Attempt: int(info.Attempt),
		Began:   time.Now().Add(-waited),
	}
	if workflow.ID == "" { // the activity runs outside a workflow
		job.Key = info.ActivityID + "/" + info.ActivityRunID
	}
	if info.RetryPolicy != nil {
		job.MaxAttempts = int(info.RetryPolicy.MaximumAttempts)
	}
	return job
}
