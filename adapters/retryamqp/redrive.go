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

// Redrive moves dead letters back to the queue. Each message gets all its attempts again, and
// is handled at its moment in o.Window, or up to a sixty-fourth of its wait later. Redrive
// skips dead letters that it cannot read.
//
// If Redrive is killed or fails, or if two run at once, no message is lost. Call Redrive again
// for the rest. A dead letter that was not acknowledged after its copy was stored then goes
// back twice.
//
// A dead letter that Redrive has read is absent from the queue until Redrive returns, or until
// the server notices that the process was killed. Dead letters that arrive meanwhile are left
// for the next call.
//
// Redrive connects. It returns soon after ctx is done, even during an alarm: a copy that the
// server is about to confirm gets another second.
func (r *Retries) Redrive(
	ctx context.Context, o retryjob.RedriveOptions,
) (retryjob.RedriveResult, error) {
	return o.Walk("retryamqp", func(walk *retryjob.Walk) error {
		return r.use(ctx, time.Second, func(w *worker) error {
			return w.redrive(ctx, walk) // the end of use gives back the dead letters that were skipped
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
			m, _ := read(d) // the handling of the message reports a malformed header
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
// wait. The worker that gets the message lets it wait for the rest. If waitUntil rounded
// up instead, the messages of an eighth of the window would arrive at the same time.
func (w *worker) waitUntil(ctx context.Context, m message, due time.Time) error {
	left := time.Until(due)
	if left < time.Millisecond {
		return w.wait(ctx, m, left, 0)
	}
	return w.move(ctx, m, w.waiting(stepBelow(left)), 0, amqp.Table{dueHeader: due.UnixMilli() + 1})
}

// stepBelow returns the longest step of at most delay. delay is at least a millisecond.
func stepBelow(delay time.Duration) time.Duration {
	ms := uint64(min(delay, longest) / time.Millisecond)
	cut := max(0, bits.Len64(ms)-4)
	return time.Duration(ms>>cut<<cut) * time.Millisecond
}
