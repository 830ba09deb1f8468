package retrynats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// A worker has the data that all goroutines of one call of Consume share.
type worker struct {
	*Retries
	js               jetstream.JetStream
	stream, consumer string // the names of the stream and the consumer
	ackWait          time.Duration
	handle           func(context.Context, jetstream.Msg) error
	cancel           context.CancelFunc // cancels the context of all goroutines

	// Each goroutine holds a read lock of the mutex `pulls` while it asks the server for a message.
	// The method `leave` first cancels the context, and then takes the write lock. When `leave` has
	// the lock, no pull is open, and no new pull can begin.
	pulls sync.RWMutex
}

// The method `work` handles messages until ctx is done. If a pull fails, `work` gets the consumer
// from the server again, because the headers of a message can confuse the NATS client. After a
// message with the header Nats-Pin-Id, the client sends pulls that the server refuses. After a
// message with the headers Status and Description, the client says that the consumer was deleted.
func (w *worker) work(ctx context.Context) error {
	err := retry.Do(ctx, retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Fixed(250 * time.Millisecond), // the server may be restarting
		RetryIf: func(err error) bool {
			return !errors.Is(err, nats.ErrConnectionClosed) &&
				!errors.Is(err, jetstream.ErrConsumerNotFound) &&
				!errors.Is(err, jetstream.ErrStreamNotFound)
		},
	}, func(context.Context) error {
		consumer, err := w.js.Consumer(ctx, w.stream, w.consumer)
		for err == nil {
			var msg jetstream.Msg
			if msg, err = w.next(ctx, consumer); msg != nil {
				w.attempt(ctx, msg)
			}
		}
		return err
	})
	if ctx.Err() != nil || err == nil || retry.ReasonOf(err) == retry.ReasonDeadline {
		return nil
	}
	// Without Unwrap, the error would be permanent, and a retry.Do around Consume could not
	// connect again.
	return fmt.Errorf("retrynats: %w", retry.Unwrap(err))
}

// `pull` is the time that a pull stays open. A pull asks the server for one message. Before Consume
// returns, it waits until all its pulls have ended. If a pull were still open, the server could
// deliver a message to the pull, and would count this delivery.
const pull = time.Second

// `next` asks the server for a message. If no message arrives in time, `next` returns neither a
// message nor an error.
func (w *worker) next(ctx context.Context, consumer jetstream.Consumer) (jetstream.Msg, error) {
	w.pulls.RLock()
	defer w.pulls.RUnlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	msg, err := consumer.Next(jetstream.FetchMaxWait(pull))
	if errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages) {
		err = nil
	}
	return msg, err
}

// `leave` ends all pulls. When `leave` returns, no pull is open, and no new pull can begin. Call
// `leave` before you give a message back. If a pull were still open, it could get the message
// again, and the server would count this delivery as an attempt.
func (w *worker) leave() {
	w.cancel()
	w.pulls.Lock()
	defer w.pulls.Unlock()
}

// The method `attempt` makes one attempt to handle a message, or delays the message until it is
// due.
func (w *worker) attempt(ctx context.Context, msg jetstream.Msg) {
	meta, err := msg.Metadata()
	if err != nil {
		w.report(fmt.Errorf("a message of subject %s: %w", msg.Subject(), err))
		return
	}
	job, due, malformed := read(msg, meta)
	// After a redrive, the first delivery only delays the message until it is due, and does not count
	// as an attempt. Each later delivery counts as an attempt. So at a later delivery the message is
	// handled even if it is not yet due.
	if job.Attempt == 0 && malformed == nil {
		if err := msg.NakWithDelay(max(time.Until(due), time.Nanosecond)); err != nil {
			w.report(fmt.Errorf("message %s: %w", job.Key, err))
		}
		return
	}
	job.Attempt = max(1, job.Attempt)
	stop := w.keep(msg, job.Key)
	defer stop()
	retryjob.Run(ctx, w.policies.Of(msg.Subject()), job, func(ctx context.Context) error {
		if malformed != nil {
			return retry.Permanent(malformed)
		}
		return w.handle(ctx, msg)
	}, func(o retryjob.Outcome) {
		if o.Interrupted() || errors.Is(o.Err, retryjob.ErrPanicked) && o.Retry() {
			w.leave()
		}
		stop()
		if err := w.settle(context.WithoutCancel(ctx), msg, job, o); err != nil {
			w.report(fmt.Errorf("message %s, attempt %d: %w", job.Key, job.Attempt, err))
		}
	})
}

// `keep` extends the AckWait of a message again and again until `stop` is called.
func (w *worker) keep(msg jetstream.Msg, key string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var keeper sync.WaitGroup
	keeper.Go(func() {
		tick := time.NewTicker(max(w.ackWait/3, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := msg.InProgress(); err != nil {
				w.report(fmt.Errorf("message %s: %w", key, err))
			}
		}
	})
	return func() {
		cancel()
		keeper.Wait()
	}
}

// confirmTimeout is the time that Consume waits for the server to confirm a decision about a
// message.
const confirmTimeout = 5 * time.Second

// The method `settle` acknowledges, delays or terminates the message of an attempt, as the Outcome
// says.
func (w *worker) settle(
	ctx context.Context, msg jetstream.Msg, job retryjob.Job, o retryjob.Outcome,
) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	var err error
	switch {
	case o.Err == nil:
		return msg.DoubleAck(ctx)
	// The worker has ended its pulls, but a slow server may not know this yet, and may deliver the
	// message to one of these pulls. So the delay of the message is longer by the duration `pull`.
	// After this duration, the server has ended these pulls by itself.
	case o.Interrupted():
		err = msg.NakWithDelay(pull)
	case errors.Is(o.Err, retryjob.ErrPanicked) && o.Retry():
		err = msg.NakWithDelay(o.Delay + pull)
	case o.Retry():
		err = msg.NakWithDelay(o.Delay)
	default:
		if err := w.bury(ctx, msg, job, o); err != nil {
			return err
		}
		err = w.terminate(msg, o.Reason)
	}
	if err != nil {
		return err
	}
	return w.js.Conn().FlushWithContext(ctx) // the process may end before the client sends its buffer
}

// The method `terminate` tells the server not to deliver a message again. The server publishes the
// reason in an advisory. Servers before 2.10.4 ignore a termination that has a reason, so
// `terminate` sends no reason to these servers.
func (w *worker) terminate(msg jetstream.Msg, reason retry.Reason) error {
	var major, minor, patch int
	_, err := fmt.Sscanf(w.js.Conn().ConnectedServerVersion(), "%d.%d.%d", &major, &minor, &patch)
	if err != nil || slices.Compare([]int{major, minor, patch}, []int{2, 10, 4}) < 0 {
		return msg.Term()
	}
	return msg.TermWithReason(string(reason))
}

// The method `bury` publishes a dead letter. If the dead letter is too large, `bury` leaves out the
// text of the error. If the dead letter is still too large, `bury` also leaves out the headers of
// the message. If it is too large even then, `bury` keeps the headers and leaves out the data of
// the message.
func (w *worker) bury(
	ctx context.Context, msg jetstream.Msg, job retryjob.Job, o retryjob.Outcome,
) error {
	d := o.DeadLetter(job)
	err := w.publish(ctx, msg, d, "")
	for _, leftOut := range []string{"", "headers", "data"} {
		if !isTooLarge(err) {
			return err
		}
		d.Err = ""
		if err = w.publish(ctx, msg, d, leftOut); err == nil && leftOut != "" {
			w.report(fmt.Errorf("message %s: the dead letter lacks the %s of the message",
				job.Key, leftOut))
		}
	}
	return err
}

// isTooLarge reports whether err says that a message is larger than the server or the stream
// allows.
func isTooLarge(err error) bool {
	const message, header jetstream.ErrorCode = 10054, 10097
	var e *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) ||
		errors.As(err, &e) && (e.ErrorCode == message || e.ErrorCode == header)
}

// The method `publish` publishes the dead letter d of a message. If the worker is killed
// afterwards, the server delivers the message again. The ID of the dead letter then prevents a
// second dead letter for this failure.
//
// The ID contains the name of the consumer, because several consumers may get the same message. It
// also contains the time at which the message was stored, because sequence numbers begin again if a
// stream is deleted and created again.
func (w *worker) publish(
	ctx context.Context, msg jetstream.Msg, d retryjob.DeadLetter, leftOut string,
) error {
	meta, _ := msg.Metadata() // this cannot fail, because the method `attempt` has read the metadata
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	letter := nats.NewMsg(w.dead)
	if leftOut != "headers" {
		copyHeaders(letter.Header, msg.Headers())
	}
	if leftOut != "data" {
		letter.Data = msg.Data()
	}
	if leftOut != "" {
		letter.Header.Set(leftOutHeader, leftOut)
	}
	letter.Header.Set(SubjectHeader, msg.Subject())
	letter.Header.Set(deadHeader, string(text))
	id := fmt.Sprintf("%s/%s/%d", w.dead, d.Key, meta.Timestamp.UnixNano())
	ack, err := w.js.PublishMsg(ctx, letter, jetstream.WithMsgID(id))
	if err != nil || !ack.Duplicate {
		return err
	}
	switch same, err := isStored(ctx, w.js, ack, letter); {
	case err != nil:
		return fmt.Errorf("cannot read message %d of stream %s, "+
			"which has the Nats-Msg-Id of the dead letter: %w", ack.Sequence, ack.Stream, err)
	case !same:
		return fmt.Errorf("the dead letter is not stored: message %d of stream %s is different, "+
			"but has the same Nats-Msg-Id", ack.Sequence, ack.Stream)
	}
	return nil
}

// isStored reports whether a stream has stored msg before. The server has refused msg as a
// duplicate, but the server compares only the IDs. So isStored compares the stored message with
// msg. The headers that contain times may differ.
func isStored(
	ctx context.Context, js jetstream.JetStream, ack *jetstream.PubAck, msg *nats.Msg,
) (bool, error) {
	stream, err := js.Stream(ctx, ack.Stream)
	if err != nil {
		return false, err
	}
	stored, err := stream.GetMsg(ctx, ack.Sequence)
	if err != nil {
		return false, err
	}
	same := stored.Subject == msg.Subject && bytes.Equal(stored.Data, msg.Data) &&
		len(stored.Header) == len(msg.Header)
	for name, values := range msg.Header {
		before, is := stored.Header[name]
		timed := name == deadHeader || name == dueHeader
		same = same && is && (timed || slices.Equal(before, values))
	}
	return same, nil
}

// The method `report` passes an error to OnError. If OnError is nil, `report` logs the error.
func (w *worker) report(err error) {
	err = fmt.Errorf("retrynats: %w", err)
	if w.OnError != nil {
		w.OnError(err)
		return
	}
	slog.Error(err.Error())
}
