package retryriver_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryriver"
	"github.com/goretry/retry/retryjob"
)

// EmailArgs are the arguments of a job.
type EmailArgs struct {
	To string `json:"to"`
}

// Kind names the job.
func (EmailArgs) Kind() string { return "email" }

// EmailWorker sends mail. The policy only needs the error that Work returns.
type EmailWorker struct {
	river.WorkerDefaults[EmailArgs]
}

// Work makes one attempt.
func (EmailWorker) Work(_ context.Context, job *river.Job[EmailArgs]) error {
	switch job.Args.To {
	case "":
		return retry.Permanent(errors.New("no address"))
	case "busy@example.com":
		return retry.After(30*time.Second, errors.New("450 mailbox busy"))
	default:
		return nil
	}
}

// newClient returns a client that works jobs by a policy.
func newClient(pool *pgxpool.Pool, policy retry.Policy, workers *river.Workers, queues map[string]river.QueueConfig) (*river.Client[pgx.Tx], error) {
	plugin, err := retryriver.New(policy)
	if err != nil {
		return nil, err
	}
	config := &river.Config{Workers: workers, Queues: queues}
	plugin.Configure(config) // clients that insert jobs need it too
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	return client, err
}

func Example() {
	policy := retry.Policy{
		MaxAttempts: 8,
		Backoff:     retry.Exponential{Base: time.Second},
		MaxDelay:    10 * time.Minute,
		Jitter:      retry.Proportional(0.2),
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, EmailWorker{})
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/jobs")
	if err != nil {
		log.Fatal(err)
	}
	client, err := newClient(pool, policy, workers, map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}})
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Start(ctx); err != nil {
		log.Fatal(err)
	}
}

// The mail server works again. Within the next hour, the mails that it refused are sent again.
func ExampleRedrive() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/jobs")
	if err != nil {
		log.Fatal(err)
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		log.Fatal(err)
	}
	result, err := retryriver.Redrive(ctx, client, retryjob.RedriveOptions{
		Filter: func(d retryjob.DeadLetter) bool { return strings.Contains(d.Err, "450 mailbox busy") },
		Window: time.Hour,
		DryRun: true, // first see what Redrive would do
	})
	fmt.Println(result.Moved, err)
}
