package retrynats_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/adapters/internal/readmetest"
	"github.com/goretry/retry/adapters/retrynats"
)

func TestREADME(t *testing.T) { readmetest.Run(t) }

// The snippet of the README handles one message.
func TestREADMEConsume(t *testing.T) {
	js, policy := newQueue(t).js, quick
	for stream, subjects := range map[string]string{"ORDERS": "orders.>", "DEAD": "dead.>"} {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{subjects}})
		require.NoError(t, err)
		defer func() { assert.NoError(t, js.DeleteStream(context.Background(), stream)) }()
	}
	_, err := js.Publish(t.Context(), "orders.new", []byte("a book"))
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	var sent string
	send := func(_ context.Context, data []byte) error {
		stop()
		sent = string(data)
		return nil
	}
	readme := func() error {
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
	require.NoError(t, readme())
	assert.Equal(t, "a book", sent)
}
