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

// A worker has two connections. The connection in the field `in` never publishes. The connection in
// the field `copies` does nothing but publish.
type worker struct {
	*Retries
	in       *link
	channel  *amqp.Channel // the channel of `in`, which gets and acknowledges messages
	closed   chan *amqp.Error
	canceled chan string // receives a value if the server cancels the consumer
	copies   copies

	mu          sync.Mutex // guards interrupted, and is held while the consumer is canceled
	interrupted []amqp.Delivery
}

// `use` connects a worker, calls f with it, and closes its connections. The worker has only one
// channel. If a worker had several channels and were killed, the server would close the channels
// one after the other. Meanwhile it would deliver the messages of the closed channels to the
// channels that are still open, and count each delivery as an attempt.
func (r *Retries) use(ctx context.Context, grace time.Duration, f func(*worker) error) (err error) {
	in, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer in.end()
	w := &worker{Retries: r, in: in, copies: copies{connect: r.connect, grace: grace}}
	if err := in.until(ctx, func() (err error) {
		w.channel, err = in.Channel()
		return err
	}); err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, w.ask(ctx, w.channel.Close)) }()
	defer w.copies.end() // at this point, nobody waits for the confirmation of a copy
	if err := w.copies.open(ctx); err != nil {
		return err
	}
	return f(w)
}

// start asks the server for messages. It returns an error if a queue does not have the
// arguments that Declare sets, because such a queue would not work correctly: for example, a
// classic queue would not count the attempts of killed workers.
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

const consumerTag = "retry" // a fixed tag is enough, because the channel has one consumer

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

// `ask` runs f, which waits for an answer of the server. When ctx has been done for the grace
// period, `ask` gives up.
func (w *worker) ask(ctx context.Context, f func() error) error {
	ctx, stop := lasting(ctx, w.copies.grace)
	defer stop()
	return w.in.until(ctx, f)
}

// cancel cancels the consumer.
func (w *worker) cancel(ctx context.Context) error {
	return w.ask(ctx, func() error { return w.channel.Cancel(consumerTag, false) })
}

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
		m, malformed := messageOf(d)
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

// leave cancels the consumer, so that the server sends no more messages to this worker.
func (w *worker) leave(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cancel(ctx)
}

// move copies a message to the queue `to`, and then acknowledges the message.
func (w *worker) move(
	ctx context.Context, m message, to queue, attempts int, headers amqp.Table,
) error {
	w.copies.mu.Lock()
	defer w.copies.mu.Unlock()
	if w.channel.IsClosed() || w.in.isCut() { // the original could not be acknowledged
		return fmt.Errorf("queue %s: %w", to.name, amqp.ErrClosed)
	}
	if err := w.publish(ctx, to, m.publishing(attempts, headers)); err != nil {
		return fmt.Errorf("queue %s: %w", to.name, err)
	}
	return w.ask(ctx, func() error { return m.Ack(false) })
}

// publish publishes a copy to a queue. It returns errTooLarge if the copy has too many headers
// for a frame.
func (w *worker) publish(ctx context.Context, to queue, p amqp.Publishing) error {
	if size, frame := sizeOf(p), w.in.Config.FrameSize; frame > 0 && size > frame {
		return fmt.Errorf("%w: its headers need %d bytes, and a frame has %d",
			errTooLarge, size, frame)
	}
	return w.copies.publish(ctx, to, p)
}
