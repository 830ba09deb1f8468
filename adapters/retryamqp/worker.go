package retryamqp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
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

// attempt makes one attempt to handle a message, or lets the message wait if it is not yet due.
func (w *worker) attempt(
	ctx context.Context, d amqp.Delivery, handle func(context.Context, amqp.Delivery) error,
) error {
	m, malformed := read(d)
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

// settle acknowledges or copies the message of an attempt, as the Outcome says.
func (w *worker) settle(ctx context.Context, m message, o retryjob.Outcome) error {
	waits := ctx
	if errors.Is(o.Err, retryjob.ErrPanicked) { // do not wait for the end of an alarm
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
			// The panic is about to end the process. A message that arrives before the end would use up
			// an attempt, so the worker first cancels the consumer.
			if err := w.leave(waits); err != nil {
				return err
			}
		}
		err := w.wait(waits, m, o.Delay, m.attempt)
		if errors.Is(err, errTooLarge) { // the policy allowed a retry before this error
			p := w.policies.Of(m.Type)
			p.Budget.Refund()
			err = fmt.Errorf("%w; it cannot be retried: %w", retry.Unwrap(o.Err), retry.Unwrap(err))
			return w.bury(waits, m, retryjob.Decide(ctx, p, m.job(), retry.Permanent(err)))
		}
		return err
	default:
		return w.bury(waits, m, o)
	}
}

// leave cancels the consumer, so that the server sends no more messages to this worker.
func (w *worker) leave(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cancel(ctx)
}

// bury moves a message to the dead letters. If the dead letter is too large, bury leaves out the
// headers of the message. If it is still too large, bury leaves out the body of the message.
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

// longestDelay is the longest delay of a message. Longer delays are shortened to it, because
// the queue may not exist for that long.
const longestDelay = 365 * 24 * time.Hour

// wait moves a message to the wait queue for delay: it publishes a copy there. A header of the
// copy contains attempts, the number of attempts that have ended.
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
