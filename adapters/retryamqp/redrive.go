package retryamqp

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry/retryjob"
)

// Redrive moves dead letters back: each gets all its attempts, and is handled at its
// moment in o.Window, or up to a sixty-fourth of its wait later. What it cannot read, it
// skips. If Redrive is killed or fails, or two run at once, no message is lost, and
// Redrive can be called again. A dead letter whose copy was stored and that was not
// acknowledged then goes back twice.
//
// A dead letter that Redrive looks at is not in the queue until it returns, or the server
// notices that it was killed. Those that arrive meanwhile are left for the next call.
//
// Redrive connects. It returns soon after ctx is done, also during an alarm: a copy that the
// server is about to confirm gets another second.
func (r *Retries) Redrive(
	ctx context.Context, o retryjob.RedriveOptions,
) (retryjob.RedriveResult, error) {
	return o.Walk("retryamqp", func(walk *retryjob.Walk) error {
		return r.use(ctx, time.Second, func(w *worker) error { // its end gives back what was skipped
			return w.redrive(ctx, walk)
		})
	})
}

func (w *worker) redrive(ctx context.Context, walk *retryjob.Walk) error {
	var dead amqp.Queue
	if err := w.ask(ctx, func() (err error) {
		dead, err = w.channel.QueueDeclarePassive(w.dead().name, true, false, false, false, nil)
		return err
	}); err != nil {
		return err
	}
	for range dead.Messages {
		var d amqp.Delivery
		var ok bool
		err := w.ask(ctx, func() (err error) {
			d, ok, err = w.channel.Get(dead.Name, false)
			return err
		})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !ok {
			return err
		}
		letter, unreadable := DeadLetterOf(d.Headers)
		if leftOut, is := d.Headers[leftOutHeader]; is && unreadable == nil {
			unreadable = retryjob.Stuck(fmt.Errorf("it has no room for its %.100q", leftOut))
		}
		if err := walk.Look(letter, unreadable, dead.Messages, func(due time.Time) (bool, error) {
			m, _ := read(d) // a malformed header is reported when the message is handled
			m.began = due
			err := w.waitUntil(ctx, m, due)
			if errors.Is(err, errTooLarge) {
				err = retryjob.Stuck(err)
			}
			return err == nil, err
		}); err != nil {
			return fmt.Errorf("message %q: %w", d.MessageId, err)
		}
	}
	return nil
}

// waitUntil moves a message that was never handled to the queue for the step below its
// wait. The worker that gets it then lets it wait for the rest. Rounded up at once, an
// eighth of a window of messages would come together.
func (w *worker) waitUntil(ctx context.Context, m message, due time.Time) error {
	left := time.Until(due)
	if left < time.Millisecond {
		return w.wait(ctx, m, left, 0)
	}
	return w.move(ctx, m, w.waiting(stepBelow(left)), 0, amqp.Table{dueHeader: due.UnixMilli() + 1})
}

// stepBelow returns the longest step of at most delay, which is at least a millisecond.
func stepBelow(delay time.Duration) time.Duration {
	ms := uint64(min(delay, longest) / time.Millisecond)
	cut := max(0, bits.Len64(ms)-4)
	return time.Duration(ms>>cut<<cut) * time.Millisecond
}
