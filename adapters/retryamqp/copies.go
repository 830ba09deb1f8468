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

// Copies publishes copies of messages, one after the other, on a connection of its own. During
// a memory or disk alarm RabbitMQ stops reading connections that publish. The connection that
// acknowledges messages must not be one of them.
type copies struct {
	connect func(context.Context) (*link, error)
	grace   time.Duration // how long a copy may take after its context is done

	mu       sync.Mutex // hold it until the message is acknowledged: a crash then doubles one
	over     error      // why no copy is tried any more
	link     *link
	channel  *amqp.Channel // in confirm mode; what cannot be published closes it
	refused  chan *amqp.Error
	returned chan amqp.Return
}

// open connects and opens a channel, where there is none or it is closed.
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

// untilStored is how publish tries. While another worker is declaring a queue, the queue exists
// but refuses messages.
var untilStored = retry.Policy{MaxAttempts: 10, Backoff: retry.Exponential{Base: 20 * time.Millisecond}}

// publish declares a queue, and waits until the queue has stored the message, or a while
// longer than ctx. A transaction with the acknowledgment would not do: RabbitMQ applies the
// acknowledgment even if the queue refuses the message.
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
		c.over = context.Cause(ctx) // the others would wait as long
		return c.over
	}
	return retry.Unwrap(err) // not marked: a loop around Consume connects again
}

// try publishes once.
func (c *copies) try(ctx context.Context, to queue, p amqp.Publishing) error {
	if err := to.declare(c.channel); err != nil {
		if said := (*amqp.Error)(nil); errors.As(err, &said) && said.Server && !c.link.IsClosed() {
			return retry.Permanent(err)
		}
		return c.drop(err)
	}
	stored, err := c.channel.PublishWithDeferredConfirmWithContext(ctx, "", to.name, true, false, p)
	if err != nil { // at most a part of it has been sent, which the server drops
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

// drop gives up a connection that has failed before it sent a whole copy, so that the next try
// connects again. The client may not have noticed the failure yet.
func (c *copies) drop(err error) error {
	_ = c.link.socket.Close()
	c.link = nil
	return err
}

// refusal returns why a copy was not stored. It is final if the connection has failed: the
// server may have stored the copy.
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
