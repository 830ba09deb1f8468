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

func Example() {
	retries, err := retrynats.New(retry.Policy{
		MaxAttempts: 8,
		Backoff:     retry.Exponential{Base: time.Second},
		MaxDelay:    10 * time.Minute,
		Jitter:      retry.Proportional(0.2),
	}, "dead.orders")
	if err != nil {
		log.Fatal(err)
	}
	conn, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	consumer, err := js.CreateOrUpdateConsumer(ctx, "ORDERS", retries.ConsumerConfig("mailer"))
	if err != nil {
		log.Fatal(err)
	}
	err = retries.Consume(ctx, js, consumer, func(_ context.Context, msg jetstream.Msg) error {
		if len(msg.Data()) == 0 {
			return retry.Permanent(errors.New("no address"))
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
