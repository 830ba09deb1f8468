package retryamqp_test

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/readmetest"
	"github.com/goretry/retry/adapters/retryamqp"
)

func TestREADME(t *testing.T) { readmetest.Run(t) }

// The snippet of the README is only compiled: it is what the engine of the other tests does.
var _ = func(ctx context.Context, conn *amqp.Connection, policy retry.Policy, send func(context.Context, []byte) error) error {
	retries, err := retryamqp.New(policy, "orders")
	if err != nil {
		return err
	}
	if err := retries.Declare(conn); err != nil {
		return err
	}
	return retries.Consume(ctx, conn, func(ctx context.Context, d amqp.Delivery) error {
		return send(ctx, d.Body)
	})
}
