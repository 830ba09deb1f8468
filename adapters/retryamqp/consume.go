package retryamqp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
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
// Consume calls the function `handle` for up to Workers messages at once. This function must not
// acknowledge its message. It must not change the headers and the body of the message, because the
// package copies them if the attempt fails.
//
// When the handlers have returned, Consume returns within some seconds, even if the server does
// not answer. If the server does not confirm a copy within 5 seconds after the end of ctx,
// Consume returns an error. Later, the server delivers this message again. The attempt that has
// already run counts, even if it was interrupted.
//
// # How attempts are counted
//
// A header of the message counts the attempts that have ended. The server itself counts the
// attempts whose worker was killed. It delivers the message of a killed worker again as soon as the
// connection breaks. An attempt is not counted if it is interrupted because ctx is done. Another
// header counts the failures of each [retry.Class].
//
// The header [MaxAttemptsHeader] of a message can lower the policy's limit for this message. If the
// headers of this package cannot be parsed, the message becomes a dead letter, and the handler is
// not called. The property MessageId is the key of the message in logs, and the seed for the jitter
// of the message's delays. MaxElapsed counts from the property Timestamp, which is in whole
// seconds. If a message has no Timestamp, MaxElapsed counts from the start of the first attempt
// whose worker was not killed, because a worker that is killed cannot store when its attempt began.
//
// By default, RabbitMQ takes a message back if it is not acknowledged within 30 minutes. The
// server's consumer_timeout changes this time. Set an AttemptTimeout that is shorter than the
// time until RabbitMQ takes a message back.
func (r *Retries) Consume(
	ctx context.Context, handle func(context.Context, amqp.Delivery) error,
) error {
	err := r.use(ctx, 5*time.Second, func(w *worker) error { return w.consume(ctx, handle) })
	if err == nil || errors.Is(err, context.Cause(ctx)) { // ctx may end before a connection is open
		return nil
	}
	return fmt.Errorf("retryamqp: %w", err)
}

// The method `consume` handles messages until ctx is done or something fails.
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
	var running sync.WaitGroup // at most Workers handlers run: Qos limits what the server sends
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
	if stopped != nil || w.channel.IsClosed() { // the server itself takes the messages back
		return cmp.Or(failure, stopped)
	}
	return errors.Join(failure, w.giveBack(ctx))
}

// The method `attempt` makes one attempt to handle a message, or lets the message wait if it is not
// yet due.
func (w *worker) attempt(
	ctx context.Context, d amqp.Delivery, handle func(context.Context, amqp.Delivery) error,
) error {
	m, malformed := messageOf(d)
	if left := time.Until(m.due); left > 0 && malformed == nil {
		malformed = w.wait(ctx, m, left, m.attempt-1)
		if !errors.Is(malformed, errTooLarge) {
			return malformed
		}
	}
	var err error
	retryjob.Run(ctx, w.policies.Of(d.Type), m.job(), func(ctx context.Context) error {
		if malformed != nil {
			return retry.Permanent(malformed)
		}
		return handle(ctx, d)
	}, func(o retryjob.Outcome) { err = w.settle(ctx, m, o) })
	return err
}

// The method `settle` carries out the Outcome of an attempt. After a success, it acknowledges the
// message. For a retry or a dead letter, it copies the message to a queue, and then acknowledges
// the message. It adds an interrupted message to w.interrupted.
func (w *worker) settle(ctx context.Context, m message, o retryjob.Outcome) error {
	waits := ctx
	// During an alarm, RabbitMQ confirms a copy only when the alarm is over. After a panic, the worker
	// must not wait so long. So it uses a canceled context, with which it gives up after the grace
	// period.
	if errors.Is(o.Err, retryjob.ErrPanicked) {
		var stop context.CancelFunc
		waits, stop = context.WithCancel(ctx)
		stop()
	}
	switch {
	case o.Err == nil:
		return w.ask(ctx, func() error { return m.Ack(false) })
	case o.Interrupted():
		w.mu.Lock()
		defer w.mu.Unlock()
		w.interrupted = append(w.interrupted, m.Delivery)
		return nil
	case o.Retry():
		m.classes = o.Classes
		if waits != ctx {
			// The panic is about to end the process. A message that arrives before the process has ended
			// would use up an attempt, so the worker first cancels the consumer.
			if err := w.leave(waits); err != nil {
				return err
			}
		}
		err := w.wait(waits, m, o.Delay, m.attempt)
		if errors.Is(err, errTooLarge) { // the policy allows a retry, but the copy is too large
			p := w.policies.Of(m.Type)
			p.Budget.Refund()
			err = fmt.Errorf("%w; the message cannot be retried: %w", retry.Unwrap(o.Err), retry.Unwrap(err))
			return w.bury(waits, m, retryjob.Decide(ctx, p, m.job(), retry.Permanent(err)))
		}
		return err
	default:
		return w.bury(waits, m, o)
	}
}

// The method `bury` moves a message to the dead letters. If the dead letter is too large, `bury`
// leaves out the headers of the message. If the dead letter is still too large, `bury` also leaves
// out the body of the message.
func (w *worker) bury(ctx context.Context, m message, o retryjob.Outcome) error {
	dead, headers := o.DeadLetter(m.job()), amqp.Table{}
	for _, leftOut := range []string{"", "headers", "headers and body"} {
		if leftOut != "" {
			m.Headers, headers[leftOutHeader] = nil, leftOut
			dead.Err = strings.ToValidUTF8(dead.Err[:min(len(dead.Err), 1<<10)], "")
		}
		if leftOut == "headers and body" {
			m.Body = nil
		}
		text, err := json.Marshal(dead)
		if err != nil {
			return err
		}
		headers[deadHeader] = string(text)
		if err := w.move(ctx, m, w.dead(), o.Attempts, headers); !errors.Is(err, errTooLarge) {
			return err
		}
	}
	return errTooLarge
}

// The method `wait` moves a message to the wait queue whose TTL fits the parameter `delay`: it
// publishes a copy of the message there. A header of the copy contains the parameter `attempts`,
// which is the number of attempts that have ended.
func (w *worker) wait(ctx context.Context, m message, delay time.Duration, attempts int) error {
	delay = min(delay, longestDelay)
	switch step := stepOf(delay); {
	case delay <= 0:
		return w.move(ctx, m, w.work(), attempts, nil)
	case step < delay:
		due := time.Now().Add(delay).UnixMilli() + 1
		return w.move(ctx, m, w.waiting(step), attempts, amqp.Table{dueHeader: due})
	default:
		return w.move(ctx, m, w.waiting(step), attempts, nil)
	}
}

// A worker has two connections. The connection in the field `in` never publishes. The connection in
// the field `copies` does nothing but publish.
type worker struct {
	*Retries
	in       *link
	channel  *amqp.Channel // on the connection `in`; it gets and acknowledges messages
	closed   chan *amqp.Error
	canceled chan string // receives a value if the server cancels the consumer
	copies   copies

	// mu guards the field `interrupted`. The worker also holds mu during the call that cancels the
	// consumer.
	mu          sync.Mutex
	interrupted []amqp.Delivery // messages to give back to the queue
}

// `use` connects a worker, calls f with the worker, and closes the connections of the worker. The
// worker has only one channel. If a worker had several channels and were killed, the server would
// close the channels one after the other. Meanwhile it would deliver the messages of the closed
// channels to the channels that are still open, and count each delivery as an attempt.
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
	defer w.copies.end() // when it runs, nobody waits for the confirmation of a copy
	if err := w.copies.open(ctx); err != nil {
		return err
	}
	return f(w)
}

// The method `start` asks the server for messages. It returns an error if a queue does not have the
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

// The method `ended` returns the reason why the server sends no more messages.
func (w *worker) ended(ctx context.Context) error {
	if w.channel.IsClosed() {
		return fmt.Errorf("the channel was closed: %w", cmp.Or(<-w.closed, amqp.ErrClosed))
	}
	select {
	case <-w.canceled:
	default:
		// The server has not canceled the consumer, so the method `leave` has canceled it. This happens
		// if a handler calls runtime.Goexit.
		return errors.New("a handler has called runtime.Goexit: let the handler return an error instead")
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
		"the queue was deleted and declared again, or it is not available: call Consume again", w.queue)
}

// `ask` runs f, which waits for an answer of the server. When ctx has been done for the grace
// period, `ask` gives up.
func (w *worker) ask(ctx context.Context, f func() error) error {
	ctx, stop := lasting(ctx, w.copies.grace)
	defer stop()
	return w.in.until(ctx, f)
}

func (w *worker) cancel(ctx context.Context) error {
	return w.ask(ctx, func() error { return w.channel.Cancel(consumerTag, false) })
}

// The method `stop` cancels the consumer. Some messages may still arrive before the server confirms
// the cancellation. The worker does not handle these messages, and adds them to w.interrupted.
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
// counted. Call the method `stop` first. If the consumer were not canceled, the server could
// deliver the messages to this worker again.
func (w *worker) giveBack(ctx context.Context) error {
	for _, d := range w.interrupted {
		m, malformed := messageOf(d)
		var err error
		if malformed == nil { // a copy would lack the malformed headers
			err = w.wait(ctx, m, max(0, time.Until(m.due)), m.attempt-1)
		}
		// No copy can be published, so the server puts the message itself back into the queue, and
		// counts the interrupted attempt.
		if malformed != nil || errors.Is(err, errTooLarge) {
			err = w.ask(ctx, func() error { return d.Nack(false, true) })
		}
		if err != nil {
			return fmt.Errorf("message %q cannot be given back to the queue: %w", d.MessageId, err)
		}
	}
	return nil
}

// The method `leave` cancels the consumer, so that the server sends no more messages to this
// worker.
func (w *worker) leave(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cancel(ctx)
}

// The method `move` copies a message to the queue `to`, and then acknowledges the message.
func (w *worker) move(
	ctx context.Context, m message, to queue, attempts int, headers amqp.Table,
) error {
	w.copies.mu.Lock()
	defer w.copies.mu.Unlock()
	if w.channel.IsClosed() || w.in.isCut() { // do not copy: nobody can acknowledge the original
		return fmt.Errorf("queue %s: %w", to.name, amqp.ErrClosed)
	}
	if err := w.publish(ctx, to, m.publishing(attempts, headers)); err != nil {
		return fmt.Errorf("queue %s: %w", to.name, err)
	}
	return w.ask(ctx, func() error { return m.Ack(false) })
}

// The method `publish` publishes a copy to a queue. It returns errTooLarge if the copy has too many
// headers for a frame.
func (w *worker) publish(ctx context.Context, to queue, p amqp.Publishing) error {
	if size, frame := sizeOf(p), w.in.Config.FrameSize; frame > 0 && size > frame {
		return fmt.Errorf("%w: its headers need %d bytes, and a frame has %d",
			errTooLarge, size, frame)
	}
	return w.copies.publish(ctx, to, p)
}
