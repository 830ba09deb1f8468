package retryamqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Consume connects to the server, and handles messages until ctx is done. Then Consume cancels
// the contexts of the handlers, and waits until all handlers have returned. It gives the
// messages of interrupted handlers back to the queue, and returns nil.
//
// Consume returns an error if a connection or a channel fails, if the server cancels the
// consumer, or if a queue does not accept a message. In this case, too, Consume first waits for
// the handlers. The server takes back all messages that were not acknowledged. Call Consume
// again after an error. Consume returns an error before the first message if a queue does not
// exist or does not have the arguments that Declare sets.
//
// Consume calls handle for up to Workers messages at once. The function handle must not
// acknowledge its message. It must not change the message's headers and body, because the copy
// uses them.
//
// When the handlers have returned, Consume returns within some seconds, even if the server does
// not answer. If the server does not confirm a copy within 5 seconds after the end of ctx,
// Consume returns an error. Later, the server delivers this message again, and counts the
// attempt.
//
// # How attempts are counted
//
// A header of the message counts the attempts that have ended. The server itself counts the
// attempts whose worker was killed. It delivers the message of a killed worker again as soon as the
// connection breaks. An attempt is not counted if it is interrupted because ctx is done. Another
// header counts the failures of each [retry.Class].
//
// The header [MaxAttemptsHeader] of a message can lower the policy's limit for this message. If
// the headers of this package cannot be parsed, the message becomes a dead letter, and handle
// is not called. The property MessageId is the key of the message in logs, and the seed of its
// delays. MaxElapsed counts from the property Timestamp, which is in whole seconds. If a
// message has no Timestamp, MaxElapsed counts from the start of the first attempt whose worker
// was not killed.
//
// By default, RabbitMQ takes a message back if it is not acknowledged within 30 minutes. The
// server's consumer_timeout changes this time. Set an AttemptTimeout that is shorter.
func (r *Retries) Consume(
	ctx context.Context, handle func(context.Context, amqp.Delivery) error,
) error {
	err := r.use(ctx, 5*time.Second, func(w *worker) error { return w.consume(ctx, handle) })
	if err == nil || errors.Is(err, context.Cause(ctx)) { // ctx may be done before connecting
		return nil
	}
	return fmt.Errorf("retryamqp: %w", err)
}

// consume handles messages until ctx is done or something fails.
func (w *worker) consume(
	ctx context.Context, handle func(context.Context, amqp.Delivery) error,
) error {
	deliveries, err := w.start(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var failure error // the first failure
	var failed sync.Once
	fail := func(err error) {
		failed.Do(func() { failure = err })
		stop()
	}
	var running sync.WaitGroup // at most Workers handlers, because the server sends no more messages
	for ctx.Err() == nil {
		select {
		case d, ok := <-deliveries:
			if !ok {
				fail(w.ended(ctx))
				continue
			}
			running.Go(func() {
				if err := w.attempt(ctx, d, handle); err != nil {
					fail(fmt.Errorf("message %q, attempt %d: %w", d.MessageId, AttemptOf(d), err))
				}
			})
		case <-ctx.Done():
		}
	}
	stopped := w.stop(ctx, deliveries)
	running.Wait()
	if stopped != nil || w.channel.IsClosed() { // the server takes back the channel's messages
		return cmp.Or(failure, stopped)
	}
	return errors.Join(failure, w.giveBack(ctx))
}

// start asks the server for messages. It returns an error if a queue does not have the
// arguments that Declare sets. For example, a classic queue would not count the attempts of
// killed workers.
func (w *worker) start(ctx context.Context) (deliveries <-chan amqp.Delivery, err error) {
	w.closed = w.channel.NotifyClose(make(chan *amqp.Error, 1))
	w.canceled = w.channel.NotifyCancel(make(chan string, 1))
	err = w.ask(ctx, func() error {
		if _, err := w.channel.QueueDeclarePassive(w.queue, true, false, false, false, nil); err != nil {
			return err // do not declare the queue here: it would not be bound to an exchange
		}
		if err := cmp.Or(w.work().declare(w.channel), w.dead().declare(w.channel)); err != nil {
			return err
		}
		// Qos sends the number of workers in two bytes. For Qos, 0 means no limit.
		workers := min(cmp.Or(max(0, w.Workers), 10), math.MaxUint16)
		if err := w.channel.Qos(workers, 0, false); err != nil {
			return err
		}
		deliveries, err = w.channel.Consume(w.queue, consumerTag, false, false, false, false, nil)
		return err
	})
	return deliveries, err
}

// ended returns the reason why the server sends no more messages.
func (w *worker) ended(ctx context.Context) error {
	if w.channel.IsClosed() {
		return fmt.Errorf("the channel was closed: %w", cmp.Or(<-w.closed, amqp.ErrClosed))
	}
	select {
	case <-w.canceled:
	default:
		// The server has not canceled the consumer, so the method `leave` has canceled it. This happens
		// if a handler calls runtime.Goexit.
		return errors.New("a handler has called runtime.Goexit")
	}
	var gone *amqp.Error
	if err := w.ask(ctx, func() error {
		channel, err := w.in.Channel() // if the queue does not exist, the server closes this channel
		if err == nil {
			_, err = channel.QueueDeclarePassive(w.queue, true, false, false, false, nil)
		}
		return err
	}); errors.As(err, &gone) && gone.Code == amqp.NotFound {
		return fmt.Errorf("the server has canceled the consumer, because queue %s was deleted: "+
			"call Declare, and bind the queue again", w.queue)
	}
	return fmt.Errorf("the server has canceled the consumer of queue %s, which exists: "+
		"it was deleted and declared again, or is not available", w.queue)
}

const consumerTag = "retry" // a fixed tag is enough, because the channel has one consumer

// stop cancels the consumer. Some messages may still arrive before the server confirms the
// cancellation. The worker does not handle these messages, and adds them to w.interrupted.
func (w *worker) stop(ctx context.Context, deliveries <-chan amqp.Delivery) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.cancel(ctx); err != nil {
		return err
	}
	for d := range deliveries {
		w.interrupted = append(w.interrupted, d)
	}
	return nil
}

// giveBack gives the interrupted messages back to the queue, so that their attempts are not
// counted. Call stop first. Before stop, the server could deliver the messages to this worker
// again.
func (w *worker) giveBack(ctx context.Context) error {
	for _, d := range w.interrupted {
		m, malformed := read(d)
		var err error
		if malformed == nil { // if headers are malformed, a copy would lack them
			err = w.wait(ctx, m, max(0, time.Until(m.due)), m.attempt-1)
		}
		// A copy with a new count cannot be published. The server counts what it delivers again.
		if malformed != nil || errors.Is(err, errTooLarge) {
			err = w.ask(ctx, func() error { return d.Nack(false, true) })
		}
		if err != nil {
			return fmt.Errorf("giving message %q back: %w", d.MessageId, err)
		}
	}
	return nil
}
