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

// copies publishes copies of messages, one after the other, on its own connection. During
// a memory or disk alarm RabbitMQ stops reading connections that publish. The connection that
// acknowledges messages must therefore never publish.
type copies struct {
	connect func(context.Context) (*link, error)
	grace   time.Duration // how long a copy may take after its context is done

	// Hold mu from the copy to the acknowledgment: then a crash doubles at most one message.
	mu       sync.Mutex
	over     error // why no more copies are made; nil: copies are made
	link     *link
	channel  *amqp.Channel // in confirm mode; a copy that the server refuses closes it
	refused  chan *amqp.Error
	returned chan amqp.Return
}

// open connects and opens a channel, unless both are open.
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

// end closes the connection.
func (c *copies) end() {
	if c.link != nil {
		c.link.end()
	}
}

// untilStored is the policy of publish. While another worker is declaring a queue, the queue
// exists but refuses messages.
var untilStored = retry.Policy{
	MaxAttempts: 10,
	Backoff:     retry.Exponential{Base: 20 * time.Millisecond},
}

// publish declares a queue, and waits until the queue has stored the message, at most until
// the grace period after ctx is over. A transaction of the copy and the acknowledgment is not
// safe: RabbitMQ acknowledges the message even if the queue refuses the copy.
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
		c.over = context.Cause(ctx) // the next copies would wait as long
		return c.over
	}
	return retry.Unwrap(err) // without the mark of Permanent, so that a loop around Consume goes on
}

// try publishes a copy once.
func (c *copies) try(ctx context.Context, to queue, p amqp.Publishing) error {
	if err := to.declare(c.channel); err != nil {
		if said := (*amqp.Error)(nil); errors.As(err, &said) && said.Server && !c.link.IsClosed() {
			return retry.Permanent(err)
		}
		return c.drop(err)
	}
	stored, err := c.channel.PublishWithDeferredConfirmWithContext(ctx, "", to.name, true, false, p)
	if err != nil { // at most a part of the copy was sent, and the server drops that part
		return c.drop(err)
	}
	if !stored.Wait() {
		return c.refusal()
	}
	select {
	case <-c.returned:
		return errors.New("it was deleted")
	default:
		return nil
	}
}

// drop closes a connection that failed before a whole copy was sent, so that the next try
// connects again. The AMQP client may not have noticed the failure yet.
func (c *copies) drop(err error) error {
	_ = c.link.socket.Close()
	c.link = nil
	return err
}

// refusal returns why a copy was not stored. If the connection has failed, the error is
// permanent, because the server may have stored the copy.
func (c *copies) refusal() error {
	if !c.channel.IsClosed() {
		return errors.New("it refuses messages")
	}
	err := <-c.refused
	if err != nil && err.Code == amqp.PreconditionFailed {
		return retry.Permanent(fmt.Errorf("%w: %w", errTooLarge, err))
	}
	return retry.Permanent(cmp.Or(err, amqp.ErrClosed))
}
