package retryamqp_test

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/readmetest"
	"github.com/goretry/retry/adapters/retryamqp"
)

func TestREADME(t *testing.T) { readmetest.Run(t) }

// The snippet of the README handles one message.
func TestREADMEConsume(t *testing.T) {
	q, err := open(serverURL(t), "orders")
	require.NoError(t, err)
	defer func() { assert.NoError(t, q.Close(context.Background(), true)) }()
	require.NoError(t, q.publish(t.Context(), amqp.Publishing{Body: []byte("a book")}))

	conn, policy := q.conn, retry.Default()
	ctx, stop := context.WithCancel(t.Context())
	var sent string
	send := func(_ context.Context, body []byte) error {
		stop()
		sent = string(body)
		return nil
	}
	readme := func() error {
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
	require.NoError(t, readme())
	assert.Equal(t, "a book", sent)
}
