// Package retryjob makes one attempt of a job that a queue keeps, and decides
// what follows: done, again after a delay, or a dead letter with a reason.
//
// A queue hands the attempts of one job to different workers, hours and
// processes apart, so a loop that waits cannot retry them. [Run] makes the one
// attempt that a worker was handed, by the same policy, with the same decisions,
// errors and events as [retry.Do]:
//
//	retryjob.Run(ctx, policy, retryjob.Job{Key: row.ID, Attempt: row.Attempts, Began: row.FirstRunAt},
//		func(ctx context.Context) error { return send(ctx, row.Payload) },
//		func(o retryjob.Outcome) {
//			switch {
//			case o.Err == nil:
//				done(row)
//			case o.Retry() || o.Interrupted():
//				runAgainAfter(row, o.Delay, o.Err)
//			default:
//				deadLetter(row, o.Reason, o.Err)
//			}
//		})
//
// The queue counts the attempt when it hands the job out, before it runs.
// A worker that dies has then used one up, and where that was the last one, Run
// refuses the job instead of running it again. The modules below adapters do
// this for River, asynq, NATS JetStream and RabbitMQ; examples/jobqueue does it
// for a table in SQLite or PostgreSQL. Package jobtest tests such an integration
// against its real server.
package retryjob
