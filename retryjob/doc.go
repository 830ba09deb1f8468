// Package retryjob runs one attempt of a job from a job queue and decides what
// happens next: the job is done, it runs again after a delay, or it becomes a dead
// letter with a reason.
//
// A queue hands the attempts of one job to different workers, hours and
// processes apart, so a loop that waits cannot retry them. [Run] makes the one
// attempt that a worker was handed, with the same policy, decisions, errors and
// events as [retry.Do]:
//
//	job := retryjob.Job{Key: row.ID, Attempt: row.Attempts, Began: row.FirstRunAt}
//	retryjob.Run(ctx, policy, job,
//		func(ctx context.Context) error { return send(ctx, row.Payload) },
//		func(o retryjob.Outcome) {
//			switch {
//			case o.Err == nil:
//				done(row)
//			case o.Retry() || o.Interrupted():
//				runAgainAfter(row, o.Delay, o.Err)
//			default:
//				bury(row, o.DeadLetter(job))
//			}
//		})
//
// The queue counts the attempt when it hands the job out, before it runs. A worker
// that dies has then used up an attempt. If that was the last one, Run makes no
// further attempt, and the job becomes a dead letter.
//
// No goroutine waits while a job is in its queue. So a job waits up to a day for a server
// that asks for it with retry.After, unless the policy has a MaxRetryAfter: see
// [retry.Policy.ForJob].
//
// A [DeadLetter] has one form in all queues. The Redrive of each adapter lets dead
// letters run again, spread over a window: see [RedriveOptions].
//
// The modules below adapters do this for River, asynq, NATS JetStream, RabbitMQ and
// Temporal's activities; examples/programs/jobqueue does it for a table in SQLite or
// PostgreSQL.
package retryjob
