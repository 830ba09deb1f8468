package retryamqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry"
)

// The type `copies` publishes copies of messages, one after the other, on a connection of its own.
// During a memory or disk alarm, RabbitMQ does not read from connections that publish. So the
// connection that acknowledges messages must never publish.
type copies struct {
	connect func(context.Context) (*link, error)
	grace   time.Duration // how long `publish` may go on after its context is done

	// Hold mu from the publishing of a copy to the acknowledgment of its message. Then a crash
	// leaves at most one message in two queues.
	mu       sync.Mutex
	over     error // the error of all further copies; nil as long as copies are possible
	link     *link
	channel  *amqp.Channel // in confirm mode; after an error, the server closes the channel
	refused  chan *amqp.Error
	returned chan amqp.Return
}

// `open` opens the connection and the channel, unless they are already open.
func (c *copies) open(ctx context.Context) (err error) {
	if c.link == nil || c.link.IsClosed() {
		c.channel = nil
		if c.link, err = c.connect(ctx); err != nil {
			c.link = nil
			return err
		}
	}
	if c.channel != nil && !c.channel.IsClosed() {
		return nil
	}
	return c.link.until(ctx, func() error {
		if c.channel, err = c.link.Channel(); err != nil {
			return err
		}
		c.refused = c.channel.NotifyClose(make(chan *amqp.Error, 1))
		c.returned = c.channel.NotifyReturn(make(chan amqp.Return, 1))
		return c.channel.Confirm(false)
	})
}

// `end` closes the connection.
func (c *copies) end() {
	if c.link != nil {
		c.link.end()
	}
}

// untilStored is the policy with which the method `publish` tries to store a copy. Several tries
// may be necessary: while another worker is declaring a queue, the queue already exists but refuses
// messages.
var untilStored = retry.Policy{
	MaxAttempts: 10,
	Backoff:     retry.Exponential{Base: 20 * time.Millisecond},
}

// The method `publish` declares a queue, publishes a copy, and waits until the queue has stored the
// copy. It gives up when ctx has been done for the duration c.grace. An AMQP transaction around the
// copy and the acknowledgment would not be safe: RabbitMQ acknowledges the message even if the
// queue refuses the copy.
func (c *copies) publish(ctx context.Context, to queue, p amqp.Publishing) error {
	if c.over != nil {
		return c.over
	}
	ctx, stop := lasting(ctx, c.grace)
	defer stop()
	err := retry.Do(ctx, untilStored, func(ctx context.Context) error {
		if err := c.open(ctx); err != nil {
			return err
		}
		return c.link.until(ctx, func() error { return c.try(ctx, to, p) })
	})
	if ctx.Err() != nil && err != nil {
		// From now on, each copy fails at once. Otherwise each copy would first wait for the duration
		// c.grace.
		c.over = context.Cause(ctx)
		return c.over
	}
	return retry.Unwrap(err) // without Permanent, so that a retry.Do around Consume goes on
}

// `try` tries once to publish a copy.
func (c *copies) try(ctx context.Context, to queue, p amqp.Publishing) error {
	if err := to.declare(c.channel); err != nil {
		if said := (*amqp.Error)(nil); errors.As(err, &said) && said.Server && !c.link.IsClosed() {
			return retry.Permanent(err)
		}
		return c.drop(err)
	}
	stored, err := c.channel.PublishWithDeferredConfirmWithContext(ctx, "", to.name, true, false, p)
	if err != nil { // the server ignores a copy of which only a part was sent
		return c.drop(err)
	}
	if !stored.Wait() {
		return c.refusal()
	}
	select {
	case <-c.returned:
		return errors.New("the queue was deleted")
	default:
		return nil
	}
}

// `try` calls `drop` after an error that occurred before the whole copy was sent. `drop` closes the
// connection and returns the error. So the next try connects again, even if the AMQP client has not
// noticed the error.
func (c *copies) drop(err error) error {
	_ = c.link.socket.Close()
	c.link = nil
	return err
}

// The method `refusal` returns the error for a copy that the server did not confirm. If the
// connection has failed, the error is Permanent, because the server may have stored the copy.
func (c *copies) refusal() error {
	if !c.channel.IsClosed() {
		return errors.New("the queue refuses messages")
	}
	err := <-c.refused
	if err != nil && err.Code == amqp.PreconditionFailed {
		return retry.Permanent(fmt.Errorf("%w: %w", errTooLarge, err))
	}
	return retry.Permanent(cmp.Or(err, amqp.ErrClosed))
}
