package retrynats_test

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrynats"
)

// serve handles messages until ctx ends.
func serve(ctx context.Context, js jetstream.JetStream, policy retry.Policy, send func(context.Context, []byte) error) error {
	retries, err := retrynats.New(policy, "dead.orders") // a subject that another stream stores
	if err != nil {
		return err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, "ORDERS", retries.ConsumerConfig("mailer"))
	if err != nil {
		return err
	}
	return retries.Consume(ctx, js, consumer, func(ctx context.Context, msg jetstream.Msg) error {
		return send(ctx, msg.Data()) // may wrap errors with retry.Permanent or retry.After
	})
}

func Example() {
	policy := retry.Policy{
		MaxAttempts: 8,
		Backoff:     retry.Exponential{Base: time.Second},
		MaxDelay:    10 * time.Minute,
		Jitter:      retry.Proportional(0.2),
	}
	conn, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	err = serve(context.Background(), js, policy, func(_ context.Context, mail []byte) error {
		if len(mail) == 0 {
			return retry.Permanent(errors.New("no address"))
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
