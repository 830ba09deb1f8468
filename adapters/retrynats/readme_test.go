package retrynats_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/readmetest"
	"github.com/goretry/retry/adapters/retrynats"
)

func TestREADME(t *testing.T) { readmetest.Run(t) }

// The snippet of the README is only compiled: it is what the engine of the other tests does.
var _ = func(ctx context.Context, js jetstream.JetStream, policy retry.Policy, send func(context.Context, []byte) error) error {
	retries, err := retrynats.New(policy, "dead.orders") // a subject that another stream stores
	if err != nil {
		return err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, "ORDERS", retries.ConsumerConfig("mailer"))
	if err != nil {
		return err
	}
	return retries.Consume(ctx, js, consumer, func(ctx context.Context, msg jetstream.Msg) error {
		return send(ctx, msg.Data()) // retry.Permanent and retry.After where that is known
	})
}
