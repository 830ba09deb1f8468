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

// sendEmail makes one attempt. The policy only needs the error that it returns.
func sendEmail(_ context.Context, d amqp.Delivery) error {
	switch to := string(d.Body); to {
	case "":
		return retry.Permanent(errors.New("no address"))
	case "busy@example.com":
		return retry.After(30*time.Second, errors.New("450 mailbox busy"))
	default:
		return nil
	}
}

func Example() {
	retries, err := retryamqp.New(retry.Policy{
		MaxAttempts:    8,
		Backoff:        retry.Exponential{Base: time.Second},
		MaxDelay:       10 * time.Minute,
		Jitter:         retry.Proportional(0.2),
		AttemptTimeout: time.Minute,
	}, "email")
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	// Connect again for as long as the program runs.
	reconnect := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second)}
	err = retry.Do(ctx, reconnect, func(ctx context.Context) error {
		conn, err := amqp.Dial("amqp://localhost")
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := retries.Declare(conn); err != nil {
			return err
		}
		return retries.Consume(ctx, conn, sendEmail)
	})
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}
