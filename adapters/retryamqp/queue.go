package retryamqp

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A queue holds the name of a RabbitMQ queue, and the arguments with which the queue is declared.
type queue struct {
	name string
	args amqp.Table
}

// Declare declares the queue for the messages and the queue for the dead letters. It returns an
// error if one of these queues exists with other arguments.
func (r *Retries) Declare(ctx context.Context) error {
	in, err := r.connect(ctx)
	if err != nil {
		return fmt.Errorf("retryamqp: %w", err)
	}
	defer in.end()
	if err := in.until(ctx, func() error {
		channel, err := in.Channel()
		if err != nil {
			return err
		}
		return cmp.Or(r.work().declare(channel), r.dead().declare(channel))
	}); err != nil {
		return fmt.Errorf("retryamqp: %w", err)
	}
	return nil
}

// `kept` contains the arguments for a queue that keeps its messages until they are acknowledged.
// Without x-delivery-limit, RabbitMQ 4.0 and later drop a message after 20 deliveries.
var kept = amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(math.MaxInt32)}

func (r *Retries) work() queue { return queue{r.queue, kept} }
func (r *Retries) dead() queue { return queue{r.queue + ".dead", kept} }

// The method `waiting` returns the wait queue whose TTL is `step`. RabbitMQ moves each message from
// there to the work queue when the message has waited for the duration `step`. With the strategy
// at-least-once, a message stays in the wait queue until the work queue has stored it.
func (r *Retries) waiting(step time.Duration) queue {
	return queue{fmt.Sprintf("%s.wait.%dms", r.queue, step.Milliseconds()), amqp.Table{
		"x-queue-type":              "quorum",
		"x-message-ttl":             step.Milliseconds(),
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": r.queue,
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish", // at-least-once requires it
	}}
}

func (q queue) declare(channel *amqp.Channel) error {
	if _, err := channel.QueueDeclare(q.name, true, false, false, false, q.args); err != nil {
		return fmt.Errorf("queue %s: %w", q.name, err)
	}
	return nil
}

// longestTTL is the longest TTL of a wait queue: 46 days. RabbitMQ allows at most 49 days.
const longestTTL = 15 << 28 * time.Millisecond

// longestDelay is the longest delay of a message. A longer delay is shortened to longestDelay,
// because a message that is due later could outlive its queue.
const longestDelay = 365 * 24 * time.Hour

// stepOf returns the shortest TTL of a wait queue that is at least `delay`. TTLs are rounded up, so
// that many delays share a wait queue: in binary, only the first four digits of a TTL in
// milliseconds can be 1. If `delay` exceeds longestTTL, stepOf returns longestTTL.
func stepOf(delay time.Duration) time.Duration {
	ms := uint64((delay + time.Millisecond - 1) / time.Millisecond)
	if delay >= longestTTL {
		return longestTTL
	}
	// Round ms up to a number that has only zeros after its first four binary digits.
	if cut := bits.Len64(ms) - 4; cut > 0 {
		ms = (ms + 1<<cut - 1) >> cut << cut
	}
	return time.Duration(ms) * time.Millisecond
}

// stepBelow returns the longest TTL of a wait queue that is at most `delay`. The parameter `delay`
// must be at least a millisecond.
func stepBelow(delay time.Duration) time.Duration {
	ms := uint64(min(delay, longestTTL) / time.Millisecond)
	cut := max(0, bits.Len64(ms)-4)
	return time.Duration(ms>>cut<<cut) * time.Millisecond
}
