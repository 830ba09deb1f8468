package retryamqp

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry/retryjob"
)

// Redrive moves dead letters back to the queue. Each message gets all its attempts again, and is
// handled at the time within o.Window that [retryjob.Spread] computes from the key of the dead
// letter. Rounding can lengthen the wait of a message by up to 1/64. Redrive skips dead letters
// that it cannot parse.
//
// If Redrive fails, or if its process is killed, no message is lost. Call Redrive again for the
// rest. One dead letter may then go back twice, because the first call may have stored a copy of
// the dead letter without acknowledging it. Concurrent calls of Redrive lose no message either.
//
// While Redrive runs, nobody else can read the dead letters that Redrive has already read. The
// skipped dead letters can be read again when Redrive has returned, or when the server notices that
// the process was killed. Dead letters that arrive while Redrive runs are left for the next call.
//
// Redrive opens connections of its own. When ctx is done, Redrive waits up to a second for the
// confirmation of the last copy. Then it returns, even during a memory or disk alarm.
func (r *Retries) Redrive(
	ctx context.Context, o retryjob.RedriveOptions,
) (retryjob.RedriveResult, error) {
	return o.Walk("retryamqp", func(walk *retryjob.Walk) error {
		return r.use(ctx, time.Second, func(w *worker) error {
			// When the method `use` returns, it closes the channel. Then the server puts the skipped dead
			// letters back into their queue.
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
			unreadable = retryjob.Stuck(
				fmt.Errorf("the dead letter lacks the %.100q of its message", leftOut))
		}
		if err := walk.Look(letter, unreadable, dead.Messages, func(due time.Time) (bool, error) {
			m, _ := messageOf(d) // the worker that gets the message reports a malformed header
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

// waitUntil moves a dead letter to a wait queue, so that a worker handles it as a new message at
// the time `due`. It chooses the wait queue with the longest TTL that is not longer than the wait.
// The worker that gets the message then lets it wait for the rest of the time. If waitUntil chose a
// longer TTL instead, the message would leave the wait queue only after it is due. Messages that
// were moved to the same wait queue at the same time would then also be handled at the same time,
// although their due times differ.
func (w *worker) waitUntil(ctx context.Context, m message, due time.Time) error {
	left := time.Until(due)
	if left < time.Millisecond {
		return w.wait(ctx, m, left, 0)
	}
	return w.move(ctx, m, w.waiting(stepBelow(left)), 0, amqp.Table{dueHeader: due.UnixMilli() + 1})
}
