// Package retryamqp retries the messages of a RabbitMQ queue according to a retry.Policy. If
// a handler fails, the policy decides whether and when the message is handled again. A failed
// message that is not retried becomes a dead letter, which contains the reason.
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
// The package declares all queues that it uses. All of these queues are quorum queues.
//
//	queue               what it holds
//	orders              messages to handle: publish to it, or bind it to exchanges
//	orders.dead         dead letters: DeadLetterOf reads them
//	orders.wait.1024ms  messages that wait for 1024 ms; each delay has such a queue
//
// The package declares a wait queue when a message first needs the queue. Each delay needs a queue
// of its own: RabbitMQ delivers the messages of a queue in order, so a message with a short delay
// would wait for a message with a long delay.
//
// To limit the number of wait queues, the package rounds delays up, for example to 1024, 1152,
// 1280 or 1408 ms. From 1024 to 2048 ms, there are eight such steps. So a delay is at most an
// eighth longer than the policy says. A delay above a year is shortened to a year.
//
// Do not set a maximum length for the queues of this package, because RabbitMQ could then drop
// messages.
//
// # What happens to a message
//
// The handler must not acknowledge the message. If the handler returns nil, the package
// acknowledges the message. If the handler fails, the package copies the message to a wait queue or
// to the dead letters. When the other queue has stored the copy, the package acknowledges the
// message. So no message is lost. If the worker is killed or the connection breaks between the copy
// and the acknowledgment, the message is in both queues. Then the message may be handled more often
// than the policy says.
//
// If a handler panics, the attempt has failed. The package does not recover the panic, so the panic
// ends the program. If the policy allows a retry of the message, Consume first stops taking
// messages, because a message that arrives before the program has ended would use up an attempt. If
// the policy allows no retry, the message becomes a dead letter.
//
// The documentation of [Retries.Consume] says how attempts are counted. The documentation of
// [Retries] says what a copy of a message keeps, and what happens during a memory or disk alarm.
// [Retries.Redrive] moves dead letters back. docs/queues.md in the library's repository explains
// what all adapters for queues have in common.
package retryamqp

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// Retries handles messages according to policies. Set the fields and call SetType before the first
// Consume. After the first Consume has begun, Retries is safe for concurrent use.
//
// # What a copy of a message keeps
//
// A message that is retried or becomes a dead letter is copied to another queue. The copy
// keeps the headers and the properties of the message, with these exceptions:
//
//   - Expiration is removed, because it would end the wait early.
//   - UserId is removed, because RabbitMQ refuses the UserId of another user.
//   - Each copy is persistent.
//   - The headers CC and BCC are removed. Headers that RabbitMQ or a plugin has added, such as
//     x-death, x-opt-* and x-delay, are removed as well.
//
// The package adds up to 12 KiB of headers to a copy, and RabbitMQ accepts at most 128 KiB of
// headers. If the message's own headers leave no room, the message is not retried. It becomes a
// dead letter without the message's own headers, and the header retry-left-out says so. A dead
// letter also lacks the body of its message if the body is longer than the server's setting
// max_message_size allows, for example because the setting was lowered after the message was
// published.
//
// # Alarms, and why there are two connections
//
// During a memory or disk alarm, RabbitMQ does not read from connections that publish. So each
// Consume and each Redrive opens two connections. One connection gets messages and acknowledges
// them, and the other connection publishes the copies. During an alarm, messages that succeed are
// acknowledged as usual. If a message fails, its worker waits until the alarm is over. If all
// workers wait, no message is handled. If Consume or Redrive ends during the alarm, RabbitMQ may
// still store the last copy when the alarm is over. Then the message is in its old queue, and its
// copy is in the other queue.
//
// You pass a URL and not a connection, because nobody else may publish on the connection that
// acknowledges messages. The package must also be able to close the sockets of its connections,
// even if RabbitMQ does not read from them.
type Retries struct {
	// Workers is the number of messages that one call of Consume handles at once. The maximum is
	// 65,535. If Workers is 0 or below, Consume handles 10 messages at once. One call of Consume
	// copies one message at a time to another queue, whatever the value of Workers.
	Workers int

	// Config is the argument of [amqp.DialConfig] for both connections. It may contain TLS settings,
	// logins and a connection name. The zero Config connects as [amqp.Dial] does. Config.Recovery must
	// be nil, because a message that was delivered before a recovery cannot be acknowledged after the
	// recovery. Config.Dial may choose between several servers. Config.Dial must return after a
	// limited time.
	Config amqp.Config

	policies retryjob.Policies
	url      string
	uri      amqp.URI
	queue    string
}

// New returns Retries that apply the policy to each message of the given queue. The parameter `url`
// is the URL of the RabbitMQ server. New does not connect to the server. It returns an error if the
// policy is invalid or has no limit, as [retryjob.NewPolicies] does. It also returns an error if
// the URL is invalid, or if the name of the queue is empty or too long.
func New(policy retry.Policy, url, queue string) (*Retries, error) {
	policies, err := retryjob.NewPolicies("retryamqp", policy)
	if err != nil {
		return nil, err
	}
	uri, err := amqp.ParseURI(url)
	if err != nil { // do not wrap err, because it may contain a part of the password
		return nil, errors.New("retryamqp: the URL of the server cannot be parsed: pass a URL " +
			"such as amqp://user:password@host:5672/vhost, and encode special characters: write / as %2F")
	}
	const longestName = 255 - len(".wait.4026531840ms")
	if queue == "" || len(queue) > longestName {
		return nil, fmt.Errorf("retryamqp: the name of the queue has %d bytes: "+
			"choose a name of 1 to %d bytes, because the names of its wait queues are longer, "+
			"and RabbitMQ allows 255 bytes", len(queue), longestName)
	}
	return &Retries{policies: policies, url: url, uri: uri, queue: queue}, nil
}

// SetType sets the policy for messages whose property Type is typename. It returns an error if the
// policy is invalid or has no limit, as [retryjob.NewPolicies] does.
func (r *Retries) SetType(typename string, policy retry.Policy) error {
	return r.policies.Set("retryamqp: type", typename, policy)
}
