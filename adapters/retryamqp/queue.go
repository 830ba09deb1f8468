package retryamqp

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A queue holds the arguments of a declaration.
type queue struct {
	name string
	args amqp.Table
}

// kept has the arguments for a queue whose messages stay until they are acknowledged.
// Without x-delivery-limit, servers from 4.0 on drop a message after 20 deliveries.
var kept = amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(math.MaxInt32)}

func (r *Retries) work() queue { return queue{r.queue, kept} }
func (r *Retries) dead() queue { return queue{r.queue + ".dead", kept} }

// waiting returns a queue whose messages move to the work queue after step. The wait queue
// keeps each message until the work queue has stored the message.
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

// longest is the longest step, close to the maximum of x-message-ttl.
const longest = 15 << 28 * time.Millisecond

// stepOf returns the shortest step of at least delay. If delay exceeds longest, stepOf
// returns longest.
func stepOf(delay time.Duration) time.Duration {
	ms := uint64((delay + time.Millisecond - 1) / time.Millisecond)
	if delay >= longest {
		return longest
	}
	if cut := bits.Len64(ms) - 4; cut > 0 { // keep the four highest bits
		ms = (ms + 1<<cut - 1) >> cut << cut
	}
	return time.Duration(ms) * time.Millisecond
}
