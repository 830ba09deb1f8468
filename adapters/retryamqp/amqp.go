// Package retryamqp retries the messages of a RabbitMQ queue according to a
// [retry.Policy]. If a handler fails, the policy decides whether and when the message is
// handled again. A message that is not retried becomes a dead letter that says why.
//
//	retries, err := retryamqp.New(policy, "amqp://localhost", "orders")
//	if err != nil {
//		return err
//	}
//	if err := retries.Declare(ctx); err != nil {
//		return err
//	}
//	return retries.Consume(ctx, func(ctx context.Context, d amqp.Delivery) error {
//		return send(ctx, d.Body)
//	})
//
// # Queues
//
// The package declares its own queues and uses no others. All of them are quorum queues.
//
//	queue               what it holds
//	orders              messages to handle: publish to it, or bind it to exchanges
//	orders.dead         dead letters: DeadLetterOf reads them
//	orders.wait.1024ms  messages that wait for 1024 ms; each delay has such a queue
//
// A wait queue is declared when a message first needs it. RabbitMQ delivers the messages
// of a queue in order. If delays shared a queue, short delays would wait for long ones.
//
// Delays are rounded up to one of eight steps between a power of two milliseconds and the
// next power, so they are at most an eighth longer than the policy says. A delay above a
// year becomes a year. Do not limit the length of these queues.
//
// # What happens to a message
//
// The handler must not acknowledge the message. If the handler returns nil, the package
// acknowledges the message. If the handler fails, the package copies the message to the
// queue for its delay or to the dead letters. It acknowledges the message when that queue
// has stored the copy, so no message is lost. If the worker is killed or the connection
// breaks before the acknowledgment, the message is in both queues. Then its handler may
// run more often than the policy says.
//
// If a handler panics, the attempt has failed. The panic is not recovered, and Consume
// takes no more messages.
//
// [Retries.Consume] says how attempts are counted. [Retries] says what a copy keeps, and
// what happens during an alarm. [Retries.Redrive] moves dead letters back. docs/queues.md
// in the library's repository describes what all queues share.
package retryamqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// Retries handles messages according to policies. Set its fields and policies before the
// first Consume. After that, Retries is safe for concurrent use.
//
// # What a copy keeps
//
// A message that is retried or becomes a dead letter is copied to another queue. The copy
// keeps the headers and the properties of the message, with these exceptions:
//
//   - Expiration is removed, because it would end the wait early.
//   - UserId is removed, because RabbitMQ refuses the UserId of another user.
//   - Each copy is persistent.
//   - The headers CC and BCC are removed, and so are headers in which RabbitMQ or a plugin
//     records the path of a message, such as x-death, x-opt-* and x-delay.
//
// A copy needs up to 12 KiB more in its headers, and RabbitMQ accepts 128 KiB. A message
// that leaves no room for these headers is not retried. It becomes a dead letter without
// its headers, and the header retry-left-out says so. A body that is larger than a
// lowered max_message_size is left out too.
//
// # Two connections, and alarms
//
// During a memory or disk alarm RabbitMQ reads nothing from a connection that publishes. So
// each Consume and each Redrive opens two connections. One connection gets messages and
// acknowledges them, and the other connection publishes the copies. During an alarm, a
// message that succeeds is acknowledged. A message that fails waits with its worker until
// the alarm is over. If as many messages wait as there are Workers, they hold up all other
// messages. If Consume or Redrive ends meanwhile, RabbitMQ may still store the unconfirmed
// copy when the alarm is over. Then the message is in both queues.
//
// The package opens both connections itself, from a URL. Nobody else may publish on the
// connection that acknowledges, and only the owner of a connection can cut it while RabbitMQ
// does not read it.
type Retries struct {
	// Workers is how many messages one Consume handles at once, at most 65,535. Zero and
	// below mean 10. Copies are sent to the server one after the other.
	Workers int

	// Config has the TLS settings, the logins and the name of the connections, for
	// [amqp.DialConfig]. The zero value connects as [amqp.Dial] does. Recovery must be nil:
	// messages that were delivered before a recovery cannot be acknowledged after it. If
	// Dial is set, it can choose between servers, and must limit its own time.
	Config amqp.Config

	policies retryjob.Policies
	url      string
	uri      amqp.URI
	queue    string
}

// New returns Retries that apply policy to each message of queue on the server at url. It
// returns an error if policy is invalid, or has none of MaxAttempts, MaxRetries and
// MaxElapsed. It does not connect.
func New(policy retry.Policy, url, queue string) (*Retries, error) {
	policies, err := retryjob.NewPolicies("retryamqp", policy)
	if err != nil {
		return nil, err
	}
	uri, err := amqp.ParseURI(url)
	if err != nil { // the error may contain a part of the password
		return nil, errors.New("retryamqp: the URL of the server cannot be read: " +
			"write amqp://user:password@host:5672/vhost, and % and two digits for special characters")
	}
	const longestName = 255 - len(".wait.4026531840ms")
	if queue == "" || len(queue) > longestName {
		return nil, fmt.Errorf("retryamqp: the name of the queue has %d bytes: write 1 to %d, "+
			"because the names of its wait queues are longer", len(queue), longestName)
	}
	return &Retries{policies: policies, url: url, uri: uri, queue: queue}, nil
}

// SetType sets the policy for messages whose property Type is typename. It returns an error
// if policy is invalid, or has none of MaxAttempts, MaxRetries and MaxElapsed.
func (r *Retries) SetType(typename string, policy retry.Policy) error {
	return r.policies.Set("retryamqp: type", typename, policy)
}

// Declare declares the queue for the messages and the queue for the dead letters. It
// returns an error if a queue of the same name has other properties.
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
