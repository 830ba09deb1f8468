// Package retryjob runs one attempt of a job from a job queue and decides what happens next:
// the job is done, it runs again after a delay, or it becomes a dead letter with a reason.
//
// A queue hands the attempts of one job to different workers in different processes, perhaps hours
// apart. So a job cannot be retried by a loop that waits, such as [retry.Do]. [Run] makes a single
// attempt of a job. Run has the same policies, decisions, errors and events as retry.Do:
//
//	job := retryjob.Job{Key: row.ID, Attempt: row.Attempts, Began: row.FirstRunAt}
//	retryjob.Run(ctx, policy, job,
//		func(ctx context.Context) error { return send(ctx, row.Payload) },
//		func(o retryjob.Outcome) {
//			ctx := context.WithoutCancel(ctx) // a shutdown cancels ctx
//			switch {
//			case o.Err == nil:
//				done(ctx, row)
//			case o.Retry(): // a method, not a field
//				runAgainAfter(ctx, row, o.Delay, o.Err)
//			case o.Interrupted(): // the worker is shutting down: the attempt does not count
//				giveBack(ctx, row, job.Attempt-1)
//			default:
//				bury(ctx, row, o.DeadLetter(job))
//			}
//		})
//
// The queue counts an attempt when it hands the job to a worker, before the attempt runs. So an
// attempt counts even if its worker dies. If a worker dies in the last attempt, the queue hands
// out the job once more. Run then makes no attempt, and the job becomes a dead letter.
//
// A job that waits in its queue occupies no goroutine, so a job can wait for a long time. If
// an attempt returns an error of [retry.After], the job waits as long as that error says, by
// default up to a day. To change this limit, set MaxRetryAfter: see [retry.Policy.ForJob].
//
// A [DeadLetter] has the same JSON form in all queues. To run dead letters again, call Redrive
// of the adapter. The jobs start at different times in a window that you choose: see
// [RedriveOptions].
//
// There are adapters for River, asynq, NATS JetStream, RabbitMQ and Temporal's activities: see
// https://github.com/goretry/retry/blob/main/docs/queues.md. The program
// examples/programs/jobqueue is a job queue in a table of SQLite or PostgreSQL.
package retryjob
