package retryasynq

import (
	"context"

	"github.com/hibiken/asynq"
)

// Attempt is exported for tests.
func (r *Retries) Attempt(ctx context.Context, next asynq.Handler, task *asynq.Task, id string, retried, maxRetry int) error {
	return r.attempt(ctx, next, task, id, retried, maxRetry)
}
