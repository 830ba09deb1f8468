// Package retryjob runs one attempt of a job from a job queue and decides what happens next:
// the job is done, it runs again after a delay, or it becomes a dead letter with a reason.
//
// A queue hands the attempts of one job to different workers in different processes, perhaps
// hours apart. So a loop that waits cannot retry a job. [Run] makes one attempt of a job, with
// the same policy, decisions, errors and events as [retry.Do]:
//
//	job := retryjob.Job{Key: row.ID, Attempt: row.Attempts, Began: row.FirstRunAt}
//	retryjob.Run(ctx, policy, job,
//		func(ctx context.Context) error { return send(ctx, row.Payload) },
//		func(o retryjob.Outcome) {
//			switch {
//			case o.Err == nil:
//				done(row)
//			case o.Retry() || o.Interrupted(): // methods, not fields
//				runAgainAfter(row, o.Delay, o.Err)
//			default:
//				bury(row, o.DeadLetter(job))
//			}
//		})
//
// The queue counts an attempt when it hands out the job, before the attempt runs. So a worker
// that dies has used up an attempt. If that attempt was the last one, Run makes no further
// attempt, and the job becomes a dead letter.
//
// No goroutine waits while a job is in its queue. So if a server asks for a wait with
// retry.After, the job waits up to a day. A MaxRetryAfter in the policy changes this limit: see
// [retry.Policy.ForJob].
//
// A [DeadLetter] has the same form in all queues. The Redrive of each adapter lets the jobs of
// dead letters run again, spread over a window: see [RedriveOptions].
//
// There are adapters for River, asynq, NATS JetStream, RabbitMQ and Temporal's activities: see
// https://github.com/goretry/retry/blob/main/docs/queues.md. The program
// examples/programs/jobqueue uses a table in SQLite or PostgreSQL.
package retryjob
