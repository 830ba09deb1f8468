package retryamqp_test

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryamqp"
)

// serve handles messages until ctx is done or a connection fails.
func serve(ctx context.Context, policy retry.Policy, send func(context.Context, []byte) error) error {
	retries, err := retryamqp.New(policy, "amqp://localhost", "orders")
	if err != nil {
		return retry.Permanent(err)
	}
	if err := retries.Declare(ctx); err != nil {
		return err
	}
	return retries.Consume(ctx, func(ctx context.Context, d amqp.Delivery) error {
		return send(ctx, d.Body)
	})
}

// sendEmail makes one attempt. The policy only needs the error that it returns.
func sendEmail(_ context.Context, mail []byte) error {
	switch to := string(mail); to {
	case "":
		return retry.Permanent(errors.New("no address"))
	case "busy@example.com":
		return retry.After(30*time.Second, errors.New("450 mailbox busy"))
	default:
		return nil
	}
}

func Example() {
	policy := retry.Policy{
		MaxAttempts:    8,
		Backoff:        retry.Exponential{Base: time.Second},
		MaxDelay:       10 * time.Minute,
		Jitter:         retry.Proportional(0.2),
		AttemptTimeout: time.Minute,
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	// Connect again for as long as the program runs.
	reconnect := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second)}
	err := retry.Do(ctx, reconnect, func(ctx context.Context) error {
		return serve(ctx, policy, sendEmail)
	})
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}
