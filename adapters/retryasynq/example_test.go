package retryasynq_test

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/hibiken/asynq"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryasynq"
)

// sendEmail makes one attempt. The policy only needs the error that it returns.
func sendEmail(_ context.Context, task *asynq.Task) error {
	switch to := string(task.Payload()); to {
	case "":
		return retry.Permanent(errors.New("no address"))
	case "busy@example.com":
		return retry.After(30*time.Second, errors.New("450 mailbox busy"))
	default:
		return nil
	}
}

// serve runs tasks until a signal ends it.
func serve(policy retry.Policy, redis asynq.RedisConnOpt) error {
	retries, err := retryasynq.New(policy)
	if err != nil {
		return err
	}
	config := asynq.Config{Concurrency: 10}
	retries.Configure(&config)
	mux := asynq.NewServeMux()
	mux.Use(retries.Middleware)
	mux.HandleFunc("email", sendEmail)
	return asynq.NewServer(redis, config).Run(mux)
}

func Example() {
	policy := retry.Policy{
		MaxAttempts:    8,
		Backoff:        retry.Exponential{Base: time.Second},
		MaxDelay:       10 * time.Minute,
		Jitter:         retry.Proportional(0.2),
		AttemptTimeout: time.Minute,
	}
	if err := serve(policy, asynq.RedisClientOpt{Addr: "localhost:6379"}); err != nil {
		log.Fatal(err)
	}
}

// A program that enqueues tasks needs no policy.
func ExampleNewTask() {
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: "localhost:6379"})
	defer client.Close()
	if _, err := client.Enqueue(retryasynq.NewTask("email", []byte("ann@example.com"), asynq.MaxRetry(3))); err != nil {
		log.Print(err)
	}
}
