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

// Consume connects, and handles messages until ctx is done. Then it cancels the contexts of
// the handlers, waits until they have returned, gives their messages back, and returns nil.
//
// Consume also waits for the handlers, and returns an error, if a connection or a channel
// fails, if the server cancels the consumer, or if a queue does not accept a message. The
// server then takes back all messages that were not acknowledged. Call Consume again after
// an error. Consume refuses queues whose properties differ from those that Declare sets.
//
// handle is called for up to Workers messages at once. It must not acknowledge the
// messages. It must not change their headers and bodies, because the copies share them.
//
// After the handlers have returned, Consume returns within some seconds, whatever the server
// does. If the server does not confirm a copy within 5 seconds after the end of ctx, Consume
// returns an error. The server then delivers the message again, and counts the attempt.
//
// # How attempts are counted
//
// A header of the message counts the attempts that have ended. The server counts the
// attempts whose worker was killed, and delivers their messages again as soon as the
// connection breaks. An attempt that is interrupted because Consume stops is not
// counted. Another header counts the failures of each [retry.Class].
//
// The header [MaxAttemptsHeader] of a message can lower the policy's limit for this message.
// A message whose headers cannot be read becomes a dead letter without being handled. The
// MessageId names the message in logs, and is the seed of its delays. MaxElapsed counts from
// the Timestamp, which is in whole seconds. Without a Timestamp, MaxElapsed counts from the
// start of the first attempt that its worker survived.
//
// RabbitMQ takes a message back from its handler after 30 minutes, unless its
// consumer_timeout says otherwise. Set an AttemptTimeout below that.
func (r *Retries) Consume(
	ctx context.Context, handle func(context.Context, amqp.Delivery) error,
) error {
	err := r.use(ctx, 5*time.Second, func(w *worker) error { return w.consume(ctx, handle) })
	if err == nil || errors.Is(err, context.Cause(ctx)) { // ctx may end before there is a connection
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
	var running sync.WaitGroup // at most Workers, because the server sends no more at once
	for ctx.Err() == nil {
		select {
		case d, ok := <-deliveries:
			if !ok {
				fail(w.ended(ctx))
				continue
			}
			running.Go(func() {
				if err := w.one(ctx, d, handle); err != nil {
					fail(fmt.Errorf("message %q, attempt %d: %w", d.MessageId, AttemptOf(d), err))
				}
			})
		case <-ctx.Done():
		}
	}
	stopped := w.stop(ctx, deliveries)
	running.Wait()
	if stopped != nil || w.channel.IsClosed() { // the server takes back the messages of a lost channel
		return cmp.Or(failure, stopped)
	}
	return errors.Join(failure, w.giveBack(ctx))
}

// start asks the server for messages. Before the first message, it refuses a queue with other
// arguments. For example, a classic queue does not count the attempts of killed workers.
func (w *worker) start(ctx context.Context) (deliveries <-chan amqp.Delivery, err error) {
	w.closed = w.channel.NotifyClose(make(chan *amqp.Error, 1))
	w.canceled = w.channel.NotifyCancel(make(chan string, 1))
	err = w.ask(ctx, func() error {
		if _, err := w.channel.QueueDeclarePassive(w.queue, true, false, false, false, nil); err != nil {
			return err // declaring the queue would hide that it is not bound to an exchange
		}
		if err := cmp.Or(w.work().declare(w.channel), w.dead().declare(w.channel)); err != nil {
			return err
		}
		// Qos sends the number in two bytes, and takes 0 for no limit.
		workers := min(cmp.Or(max(0, w.Workers), 10), math.MaxUint16)
		if err := w.channel.Qos(workers, 0, false); err != nil {
			return err
		}
		deliveries, err = w.channel.Consume(w.queue, consumerTag, false, false, false, false, nil)
		return err
	})
	return deliveries, err
}

// ended returns why the server sends no more messages.
func (w *worker) ended(ctx context.Context) error {
	if w.channel.IsClosed() {
		return fmt.Errorf("the channel was closed: %w", cmp.Or(<-w.closed, amqp.ErrClosed))
	}
	select {
	case <-w.canceled:
	default:
		// No message says that the server has canceled the consumer, so this worker did.
		return errors.New("a handler has called runtime.Goexit")
	}
	var gone *amqp.Error
	if err := w.ask(ctx, func() error {
		channel, err := w.in.Channel() // the search for a missing queue closes its channel
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

const consumerTag = "retry" // the channel has one consumer

// stop cancels the consumer. Messages that arrive before the server confirms the
// cancellation are not handled, but added to w.interrupted.
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

// giveBack returns the interrupted messages to their queues, so that their attempts are not
// counted. Call giveBack after stop, or the server would deliver the messages here again.
func (w *worker) giveBack(ctx context.Context) error {
	for _, d := range w.interrupted {
		m, malformed := read(d)
		var err error
		if malformed == nil { // a copy would lack the headers that cannot be read
			err = w.wait(ctx, m, max(0, time.Until(m.due)), m.attempt-1)
		}
		if malformed != nil || errors.Is(err, errTooLarge) { // the server then counts the attempt
			err = w.ask(ctx, func() error { return d.Nack(false, true) })
		}
		if err != nil {
			return fmt.Errorf("giving message %q back: %w", d.MessageId, err)
		}
	}
	return nil
}
