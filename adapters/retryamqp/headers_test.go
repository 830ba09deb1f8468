package retryamqp_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryamqp"
	"github.com/goretry/retry/retryjob"
)

// These are headers of producers. RabbitMQ and its plugins do not read them.
var ofProducers = amqp.Table{
	"x-tenant": "acme", "x-request-id": "7f", "x-b3-traceid": "80f198ee56343ba8", "X-Death": "upper case", "x-deaths": int64(3),
	"x-delivery-counter": int32(1), "x-delayed": true, "x-optional": "no x-opt-", "x-originally": "no x-original-", "cc": []any{"a"},
	"x-correlation-id": "c", "x-message-id": "m", "x-priority": int64(3), "x-match": "all", "x-retry": amqp.Table{"x-death": "nested"},
	"x-deduplication-header":    "order-7",     // its plugin acts on its exchanges and on classic queues; the copies come to neither
	"x-recent-history-no-store": true,          // its plugin acts on its exchange
	"x-stream-filter-value":     "invoices",    // streams read it
	"x-amqp-1.0-app-properties": []byte("S$s"), // what a producer with AMQP 1.0 has sent
}

func TestLeftOut(t *testing.T) {
	for name := range ofProducers {
		assert.False(t, retryamqp.LeftOut(name), name)
	}
	for _, name := range []string{
		"CC", "BCC", "x-death", "x-first-death-queue", "x-first-death-reason", "x-first-death-exchange", "x-last-death-queue", "x-last-death-reason",
		"x-last-death-exchange", "x-delivery-count", "x-acquired-count", "x-original-exchange", "x-original-routing-key", "x-original-cc", "x-opt-",
		"x-opt-delivery-time", "x-opt-rabbitmq-received-time", "x-delay", "x-received-from", "x-routed-by", "x-shovelled", "x-shovelled-timestamp",
		"x-stream-offset", "x-invalid-headers", "x-mqtt-dup", "x-mqtt-publish-qos",
		"retry-due", "retry-dead-letter", "retry-classes", "retry-left-out",
	} {
		assert.True(t, retryamqp.LeftOut(name), name)
	}
}

// Each attempt, the dead letter and the redriven message have the headers of the producer. They
// lack the headers of RabbitMQ, unless RabbitMQ has written them again.
func TestHeadersOfProducers(t *testing.T) {
	q := newQueue(t)
	headers := maps.Clone(ofProducers)
	headers["x-delay"], headers["x-opt-delivery-time"] = int64(-5000), time.Now().Add(time.Hour).UnixMilli()
	var seen []amqp.Table
	fails := func(_ context.Context, d amqp.Delivery) error {
		seen = append(seen, d.Headers)
		return errBoom
	}
	check := func(got amqp.Table, what string) {
		kept := maps.Clone(got)
		maps.DeleteFunc(kept, func(name string, _ any) bool { return ofProducers[name] == nil })
		assert.Equal(t, ofProducers, kept, what)
	}
	letter := end(t, q, amqp.Publishing{MessageId: "a", Headers: headers}, fails)
	check(letter.Headers, "the dead letter")
	require.NoError(t, q.publishTo(t.Context(), q.name+".dead", amqp.Publishing{MessageId: "a", Headers: letter.Headers})) // end has taken it
	retries, err := retryamqp.New(retry.Policy{MaxAttempts: 1}, q.url, q.name)
	require.NoError(t, err)
	result, err := retries.Redrive(t.Context(), retryjob.RedriveOptions{})
	require.NoError(t, err)
	assert.Equal(t, 1, result.Moved)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	require.NoError(t, retries.Consume(ctx, func(ctx context.Context, d amqp.Delivery) error {
		defer stop()
		return fails(ctx, d)
	}))
	require.Len(t, seen, 3)
	for n, got := range seen {
		check(got, fmt.Sprint("attempt ", n+1))
		if n > 0 {
			names := slices.Collect(maps.Keys(got))
			assert.NotContains(t, names, "x-delay")
			assert.NotContains(t, names, "x-opt-delivery-time")
		}
	}
}

func TestDeadLetterOf(t *testing.T) {
	for _, row := range []struct {
		name  string
		value any
		want  retryjob.DeadLetter
		err   string
	}{
		{"a dead letter", `{"key":"k","reason":"attempts_exhausted","attempts":3}`,
			retryjob.DeadLetter{Key: "k", Reason: retry.ReasonExhausted, Attempts: 3}, ""},
		{"no header", nil, retryjob.DeadLetter{}, "retryamqp: the message is not a dead letter: the header retry-dead-letter is missing"},
		{"not a text", int64(7), retryjob.DeadLetter{}, "retryamqp: the message is not a dead letter: the header retry-dead-letter is missing"},
		{"no JSON", "boom", retryjob.DeadLetter{}, "retryamqp: header retry-dead-letter: invalid character"},
		{"cut off", `{"key":"k"`, retryjob.DeadLetter{}, "retryamqp: header retry-dead-letter: unexpected end"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d, err := retryamqp.DeadLetterOf(amqp.Table{"retry-dead-letter": row.value})
			assert.Equal(t, row.want, d)
			if row.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, row.err)
			}
		})
	}
}
