package retryjob_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// A worker makes one attempt of a job, and then tells the queue what to do with the job. If the
// worker stops during an attempt, the attempt does not count.
func ExampleRun() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}}
	attempts := 0 // stored by the queue

	for delivery := 1; delivery <= 5; delivery++ {
		attempts++ // the queue counts the attempt when a worker gets the job
		ctx, shutDown := context.WithCancel(context.Background())
		job := retryjob.Job{Key: "mail-7", Attempt: attempts}
		send := func(context.Context) error {
			if delivery == 3 {
				shutDown() // during the last attempt
			}
			return errors.New("connection refused")
		}
		retryjob.Run(ctx, policy, job, send, func(o retryjob.Outcome) {
			switch {
			case o.Err == nil:
				fmt.Println("done")
			case o.Retry():
				fmt.Println("again after", o.Delay)
			case o.Interrupted():
				attempts = job.Attempt - 1
				fmt.Println("given back")
			default:
				fmt.Println("dead letter:", o.Reason, "-", o.Err)
			}
		})
		shutDown()
	}
	// Output:
	// again after 1s
	// again after 2s
	// given back
	// dead letter: attempts_exhausted - retry: attempts exhausted after 3 attempts: connection refused
	// dead letter: attempts_exhausted - retry: attempts exhausted after 3 attempts
}

// Decide is for an attempt that was made elsewhere. For example, a task reports its failure by
// calling a function.
func ExampleDecide() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}}
	failed := retry.After(30*time.Second, errors.New("429 Too Many Requests"))

	o := retryjob.Decide(context.Background(), policy, retryjob.Job{Key: "export-1", Attempt: 1}, failed)
	fmt.Println(o.Retry(), o.Delay)
	// Output: true 30s
}

// Every queue stores a dead letter like this one for a job that does not run again.
func ExampleOutcome_DeadLetter() {
	job := retryjob.Job{Key: "mail-7", Attempt: 1}
	err := retry.Permanent(errors.New("550 no such mailbox"))

	letter := retryjob.Decide(context.Background(), retry.Default(), job, err).DeadLetter(job)
	fmt.Println(letter.Key, letter.Reason, letter.Attempts)
	fmt.Println(letter.Err)
	// Output:
	// mail-7 permanent_error 1
	// retry: permanent error after 1 attempt: 550 no such mailbox
}

// The Redrive of an adapter reads the dead letters of its queue. Walk does everything else.
func ExampleRedriveOptions_Walk() {
	dead := map[string]retryjob.DeadLetter{ // a map stands for the queue
		"mail-7": {Key: "mail-7", Reason: retry.ReasonExhausted, Attempts: 3},
		"mail-8": {Key: "mail-8", Reason: retry.ReasonPermanent, Attempts: 1},
	}
	redrive := func(ctx context.Context, o retryjob.RedriveOptions) (retryjob.RedriveResult, error) {
		return o.Walk("mapqueue", func(w *retryjob.Walk) error {
			total := len(dead)
			for key, letter := range dead {
				if err := ctx.Err(); err != nil {
					return err
				}
				err := w.Look(letter, nil, total, func(due time.Time) (bool, error) {
					delete(dead, key) // a real queue would also add a new job that runs at due
					return true, nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}

	result, err := redrive(context.Background(), retryjob.RedriveOptions{
		Window: time.Hour,
		Filter: func(d retryjob.DeadLetter) bool { return d.Reason == retry.ReasonExhausted },
	})
	fmt.Printf("%+v %v\n", result, err)
	// Output: {Found:2 Moved:1 Skipped:1} <nil>
}
