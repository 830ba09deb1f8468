// Package retrynats retries the messages of a NATS JetStream consumer according to a
// retry.Policy. If a handler fails, the policy decides whether and when the message is
// handled again. A failed message that is not retried becomes a dead letter, which contains the
// reason.
//
//	retries, err := retrynats.New(policy, "dead.orders")
//	if err != nil {
//		return err
//	}
//	consumer, err := js.CreateOrUpdateConsumer(ctx, "ORDERS", retries.ConsumerConfig("mailer"))
//	if err != nil {
//		return err
//	}
//	return retries.Consume(ctx, js, consumer, func(ctx context.Context, msg jetstream.Msg) error {
//		return send(ctx, msg.Data())
//	})
//
// # What happens to a message
//
// If the handler returns nil, the package acknowledges the message, and waits until the server
// confirms the acknowledgment. If the handler fails and the policy allows a retry, the message
// is handled again after the policy's delay. If the policy allows no retry, the package
// publishes a dead letter, and then terminates the message. If a handler panics, the attempt
// has failed, and the package does not recover the panic. [Retries.Redrive] publishes the
// messages of dead letters again.
//
// A dead letter has the data and the headers of its message. Another header says why the
// message failed: see [DeadLetterOf]. The Key of a dead letter is "stream/consumer/sequence".
// If a dead letter is too large, the package leaves out the text of the error. If that is not
// enough, it also leaves out the headers or the data of the message. The header Retry-Left-Out
// then says "headers" or "data", and OnError is called. Several consumers may use the same
// subject for dead letters. If two consumers give up on the same message, there are two dead
// letters.
//
// docs/queues.md in the library's repository explains what all adapters for queues have in
// common.
//
// # How attempts are counted
//
// The number of an attempt is the server's count of deliveries. So an attempt counts even if
// its worker was killed, or was stopped before the handler returned. The server delivers the
// messages of a killed worker again within AckWait.
//
// The header [MaxAttemptsHeader] of a message can lower the policy's limit for this message. If the
// headers of this package cannot be parsed, the message becomes a dead letter, and the handler is
// not called. MaxElapsed counts from the time at which the stream stored the message. The server's
// clock sets this time. For the MaxAttempts and the Backoff of a [retry.Class], all failures of the
// message count, not only the failures of this class.
package retrynats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// Retries handles messages according to policies. Set the fields and call SetSubject before the
// first Consume. After the first Consume has begun, Retries is safe for concurrent use.
type Retries struct {
	// Workers is the number of messages that one call of Consume handles at once. If Workers is 0 or
	// below, Consume handles 10 messages at once.
	Workers int

	// OnError is called with the error if Consume cannot tell the server the decision about a
	// message. The server then delivers the message again after AckWait. OnError is also called if
	// a dead letter lacks the headers or the data of its message. OnError must be safe for
	// concurrent use. If OnError is nil, the errors are logged with slog.Default.
	OnError func(error)

	policies retryjob.Policies
	dead     string
}

// New returns Retries that apply the policy to each message, and publish dead letters to the
// subject deadSubject. A stream must store the messages of this subject. New returns an error if
// the policy is invalid or has no limit, as [retryjob.NewPolicies] does. It also returns an error
// if deadSubject is empty, or has a wildcard, a space or an empty token.
func New(policy retry.Policy, deadSubject string) (*Retries, error) {
	policies, err := retryjob.NewPolicies("retrynats", policy)
	if err != nil {
		return nil, err
	}
	if deadSubject == "" {
		return nil, errors.New("retrynats: no subject for dead letters: " +
			"pass a subject that a stream stores")
	}
	if !isOneSubject(deadSubject) {
		const text = "retrynats: dead letters go to %q, which is not the subject of a message: " +
			"pass a subject without wildcards, spaces or empty tokens"
		return nil, fmt.Errorf(text, deadSubject)
	}
	return &Retries{policies: policies, dead: deadSubject}, nil
}

// SetSubject sets the policy for the messages of one subject. It returns an error if the policy is
// invalid or has no limit, as [retryjob.NewPolicies] does. It also returns an error if the subject
// has a wildcard, a space or an empty token.
func (r *Retries) SetSubject(subject string, policy retry.Policy) error {
	if !isOneSubject(subject) {
		return fmt.Errorf("retrynats: %q is not the subject of a message: "+
			"pass a subject without wildcards, spaces or empty tokens", subject)
	}
	return r.policies.Set("retrynats: subject", subject, policy)
}

// ConsumerConfig returns the configuration of a durable consumer for Consume. With this
// configuration, the server does not limit the number of deliveries and adds no delays of its
// own. Messages that wait for a retry do not block others. You may set AckWait in the
// configuration, so that the messages of a killed worker are delivered again earlier or later.
// The server's default for AckWait is 30s.
func (r *Retries) ConsumerConfig(durable string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       durable,
		AckPolicy:     jetstream.AckExplicitPolicy,
		MaxDeliver:    -1,
		MaxAckPending: -1,
	}
}

// Consume handles the messages of a consumer until ctx is done. Then Consume asks for no more
// messages, cancels the contexts of the handlers, and waits until all handlers have returned.
// It returns nil. The messages of interrupted handlers are delivered again a second later. A
// message may still arrive within a second after the end of ctx. Such a message is not handled
// and is delivered again, but it has used up an attempt. If the server does not answer, Consume
// waits for up to 5 seconds.
//
// Consume returns an error if the consumer is deleted or the connection is closed.
//
// Before the first message, Consume checks the consumer and the stream of the dead letters. It
// returns an error if the consumer would forget or block messages, or if the stream would lose
// dead letters. A table in docs/queues.md in the library's repository lists the settings that
// Consume refuses. The configuration from [Retries.ConsumerConfig] has none of these settings.
//
// The parameter `js` must be the JetStream that has returned the parameter `consumer`. Consume
// calls the function `handle` for up to Workers messages at once. This function must not
// acknowledge its message. It must not change the message's headers and data, because the dead
// letter uses them. While the function runs, Consume extends the AckWait of the message.
//
// A message with a header Status and without data is never handled, because the NATS client
// mistakes it for an answer of the server. Such a message stays in the stream until you delete
// it.
func (r *Retries) Consume(
	ctx context.Context, js jetstream.JetStream, consumer jetstream.Consumer,
	handle func(context.Context, jetstream.Msg) error,
) error {
	info, err := consumer.Info(ctx)
	if err == nil {
		err = r.checkStart(ctx, js, info)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("retrynats: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &worker{
		Retries: r, js: js, stream: info.Stream, consumer: info.Name,
		ackWait: info.Config.AckWait, handle: handle, cancel: cancel,
	}
	errs := make([]error, cmp.Or(max(0, r.Workers), 10))
	var running sync.WaitGroup
	for i := range errs {
		running.Go(func() {
			defer cancel() // if one goroutine cannot go on, stop the others as well
			errs[i] = w.work(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// deadStream returns the stream that stores the dead letters.
func (r *Retries) deadStream(
	ctx context.Context, js jetstream.JetStream,
) (jetstream.Stream, error) {
	name, err := js.StreamNameBySubject(ctx, r.dead)
	if err != nil {
		return nil, err
	}
	return js.Stream(ctx, name)
}
