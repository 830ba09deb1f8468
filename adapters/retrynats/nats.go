// Package retrynats retries the messages of a NATS JetStream consumer according to a
// retry.Policy. If a handler fails, the policy decides whether and when the message is
// handled again. A failed message that is not retried becomes a dead letter, which contains the
// reason.
//
//	retries, err := retrynats.New(policy, "dead.orders")
//	if err != nil {
//		return err
//	}
//	consumer, err := js.CreateOrUpdateConsumer(ctx, "ORDERS", retries.ConsumerConfig("mailer"))
//	if err != nil {
//		return err
//	}
//	return retries.Consume(ctx, js, consumer, func(ctx context.Context, msg jetstream.Msg) error {
//		return send(ctx, msg.Data())
//	})
//
// # What happens to a message
//
// If the handler returns nil, the package acknowledges the message, and waits until the server
// confirms the acknowledgment. If the handler fails and the policy allows a retry, the message
// is handled again after the policy's delay. If the policy allows no retry, the package
// publishes a dead letter, and then terminates the message. If a handler panics, the attempt
// has failed, and the package does not recover the panic. [Retries.Redrive] publishes the
// messages of dead letters again.
//
// A dead letter has the data and the headers of its message. Another header says why the
// message failed: see [DeadLetterOf]. The Key of a dead letter is "stream/consumer/sequence".
// If a dead letter is too large, the package leaves out the text of the error. If that is not
// enough, it also leaves out the headers or the data of the message. The header Retry-Left-Out
// then says "headers" or "data", and OnError is called. Several consumers may use the same
// subject for dead letters. Each failure gets its own dead letter.
//
// docs/queues.md in the library's repository explains what all adapters for queues have in
// common.
//
// # How attempts are counted
//
// The number of an attempt is the server's count of deliveries. So an attempt counts even if
// its worker was killed, or was stopped before the handler returned. The server delivers the
// messages of a killed worker again within AckWait.
//
// The header [MaxAttemptsHeader] of a message can lower the policy's limit for this message. If
// the headers of this package cannot be parsed, the message becomes a dead letter, and the
// handler is not called. MaxElapsed counts from the time when the stream stored the message, by
// the server's clock. The MaxAttempts and the Backoff of a [retry.Class] count all failures of
// the message, not only the failures of this class.
package retrynats

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// MaxAttemptsHeader is the header that contains a message's own limit on attempts. The limit is
// a whole number of at least 1. It can lower the policy's limit, but never raise it.
const MaxAttemptsHeader = "Retry-Max-Attempts"

// SubjectHeader is the header of a dead letter that contains the subject of the failed message.
const SubjectHeader = "Retry-Subject"

const (
	// A dead letter has these two headers. The first contains the retryjob.DeadLetter as JSON. The
	// second says which part of the message the dead letter lacks.
	deadHeader    = "Retry-Dead-Letter"
	leftOutHeader = "Retry-Left-Out"

	// dueHeader is a header of a message that was a dead letter. It contains the time at which the
	// message is due, in the format time.RFC3339Nano.
	dueHeader = "Retry-Due"
)

// DeadLetterOf returns the dead letter from the headers of a message on the subject for dead
// letters. It returns an error if the header with the dead letter is missing or cannot be
// parsed.
func DeadLetterOf(header nats.Header) (retryjob.DeadLetter, error) {
	text := header.Get(deadHeader)
	if text == "" {
		return retryjob.DeadLetter{}, fmt.Errorf(
			"retrynats: not a dead letter: the header %s is missing", deadHeader)
	}
	var d retryjob.DeadLetter
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return retryjob.DeadLetter{}, fmt.Errorf("retrynats: header %s: %w", deadHeader, err)
	}
	return d, nil
}

// AttemptOf returns the number of the attempt that the delivery msg starts. The first attempt
// has number 1. If a dead letter was moved back, the first delivery of its message is not an
// attempt, because it only delays the message until the message is due. For such a delivery,
// AttemptOf returns 0. It also returns 0 for a message that does not come from JetStream.
func AttemptOf(msg jetstream.Msg) int {
	meta, err := msg.Metadata()
	if err != nil {
		return 0
	}
	delivered := int(min(meta.NumDelivered, math.MaxInt))
	if _, redriven := msg.Headers()[dueHeader]; redriven {
		return max(0, delivered-1)
	}
	return delivered
}

// Retries handles messages according to policies. Set the fields and call SetSubject before the
// first Consume. After that, Retries is safe for concurrent use.
type Retries struct {
	// Workers is how many messages one call of Consume handles at once. If Workers is 0 or below,
	// Consume handles 10 messages at once.
	Workers int

	// OnError is called with the error if Consume cannot tell the server the decision about a
	// message. The server then delivers the message again after AckWait. OnError is also called if
	// a dead letter lacks the headers or the data of its message. OnError must be safe for
	// concurrent use. If OnError is nil, the errors are logged with slog.Default.
	OnError func(error)

	policies retryjob.Policies
	dead     string
}

// New returns Retries that apply policy to each message, and publish dead letters to the
// subject deadSubject. A stream must store the messages of this subject. New returns an error
// if [retryjob.NewPolicies] would refuse policy, because policy is invalid or has no limit. It
// also returns an error if deadSubject has a wildcard, a space or an empty token.
func New(policy retry.Policy, deadSubject string) (*Retries, error) {
	policies, err := retryjob.NewPolicies("retrynats", policy)
	if err != nil {
		return nil, err
	}
	if deadSubject == "" {
		return nil, errors.New("retrynats: no subject for dead letters: write the subject of a stream")
	}
	if !isOneSubject(deadSubject) {
		return nil, fmt.Errorf("retrynats: dead letters go to %q, which is not one subject: "+
			"write tokens that are not empty, without spaces and wildcards", deadSubject)
	}
	return &Retries{policies: policies, dead: deadSubject}, nil
}

// SetSubject sets the policy for the messages of one subject. It returns an error if
// [retryjob.NewPolicies] would refuse policy, because policy is invalid or has no limit. It
// also returns an error if subject has a wildcard, a space or an empty token.
func (r *Retries) SetSubject(subject string, policy retry.Policy) error {
	if !isOneSubject(subject) {
		return fmt.Errorf("retrynats: subject %q is not one subject: "+
			"write tokens that are not empty, without spaces and wildcards", subject)
	}
	return r.policies.Set("retrynats: subject", subject, policy)
}

// ConsumerConfig returns the configuration of a durable consumer for Consume. With this
// configuration, the server does not limit the number of deliveries and adds no delays of its
// own. Messages that wait for a retry do not block others. You may set AckWait in the
// configuration, so that the messages of a killed worker are delivered again earlier or later.
// The server's default for AckWait is 30s.
func (r *Retries) ConsumerConfig(durable string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       durable,
		AckPolicy:     jetstream.AckExplicitPolicy,
		MaxDeliver:    -1,
		MaxAckPending: -1,
	}
}

// isOneSubject reports whether text can be the subject of a message.
func isOneSubject(text string) bool {
	odd := func(c rune) bool { return c <= ' ' || c == '*' || c == '>' || c == 0x7f }
	return !strings.ContainsFunc(text, odd) && !slices.Contains(strings.Split(text, "."), "")
}

// check returns an error if Consume cannot work with a consumer that has the configuration c.
func check(c jetstream.ConsumerConfig) error {
	switch {
	case c.AckPolicy != jetstream.AckExplicitPolicy:
		return fmt.Errorf("AckPolicy is %v: write AckExplicitPolicy", c.AckPolicy)
	case len(c.BackOff) > 0:
		return errors.New("BackOff replaces AckWait and ignores Nak: do not set BackOff")
	case c.MaxDeliver > 0:
		return fmt.Errorf("MaxDeliver is %d, and the server forgets a message after so many deliveries: "+
			"write -1, because the policy has the limit", c.MaxDeliver)
	case c.MaxAckPending > 0:
		return fmt.Errorf("MaxAckPending is %d: "+
			"if so many messages wait for a retry, they block all other messages: write -1",
			c.MaxAckPending)
	case c.HeadersOnly:
		return errors.New("HeadersOnly is true, so dead letters would lack their data: write false")
	case c.MaxRequestExpires > 0 && c.MaxRequestExpires < pull:
		return fmt.Errorf("MaxRequestExpires is %v, but Consume waits %v for a message: "+
			"write at least %v, or do not set MaxRequestExpires", c.MaxRequestExpires, pull, pull)
	case len(c.PriorityGroups) > 0:
		return fmt.Errorf("PriorityGroups is %q, but Consume asks for messages without a group: "+
			"do not set PriorityGroups", c.PriorityGroups)
	}
	return nil
}

// checkDead returns an error if a stream with the configuration c would lose dead letters.
func checkDead(c jetstream.StreamConfig) error {
	old := c.Discard == jetstream.DiscardOld
	switch {
	case c.Retention == jetstream.InterestPolicy:
		return errors.New("Retention is Interest, so the stream drops messages that no consumer " +
			"waits for: write LimitsPolicy or WorkQueuePolicy")
	case c.MaxMsgsPerSubject > 0 && (old || !c.DiscardNewPerSubject):
		return fmt.Errorf("MaxMsgsPerSubject is %d, so a new dead letter drops an older one: "+
			"do not set MaxMsgsPerSubject", c.MaxMsgsPerSubject)
	case c.MaxMsgs > 0 && old:
		return fmt.Errorf("MaxMsgs is %d with DiscardOld, so a new dead letter drops an older one: "+
			"write DiscardNew", c.MaxMsgs)
	case c.MaxBytes > 0 && old:
		return fmt.Errorf("MaxBytes is %d with DiscardOld, so a new dead letter drops an older one: "+
			"write DiscardNew", c.MaxBytes)
	case c.Storage == jetstream.MemoryStorage:
		return errors.New("Storage is Memory, so the stream loses all messages at a restart: " +
			"write FileStorage")
	case c.NoAck:
		return errors.New("NoAck is true, so the stream would not confirm dead letters: write false")
	case c.Sealed:
		return errors.New("Sealed is set, so the stream cannot store dead letters: use another stream")
	case c.SubjectTransform != nil:
		return errors.New("SubjectTransform is set, so Redrive would not find the dead letters: " +
			"do not set SubjectTransform")
	}
	return nil
}

// Consume handles the messages of a consumer until ctx is done. Then Consume asks for no more
// messages, cancels the contexts of the handlers, and waits until all handlers have returned.
// It returns nil. The messages of interrupted handlers are delivered again a second later. A
// message may still arrive within a second after the end of ctx. Such a message is not handled
// and is delivered again, but it has used up an attempt. If the server does not answer, Consume
// waits for up to 5 seconds.
//
// Consume returns an error if the consumer is deleted or the connection is closed.
//
// Before the first message, Consume checks the consumer and the stream of the dead letters. It
// returns an error if the consumer would forget or block messages, or if the stream would lose
// dead letters. A table in docs/queues.md in the library's repository lists the settings that
// Consume refuses. The configuration from [Retries.ConsumerConfig] has none of these settings.
//
// The parameter js must be the JetStream that has returned consumer. Consume calls handle for
// up to Workers messages at once. The function handle must not acknowledge its message. It must
// not change the message's headers and data, because the dead letter uses them. While handle
// runs, Consume extends the AckWait of the message.
//
// A message with a header Status and without data is never handled, because the NATS client
// mistakes it for an answer of the server. Such a message stays in the stream until you delete
// it.
func (r *Retries) Consume(
	ctx context.Context, js jetstream.JetStream, consumer jetstream.Consumer,
	handle func(context.Context, jetstream.Msg) error,
) error {
	info, err := consumer.Info(ctx)
	if err == nil {
		err = r.checkStart(ctx, js, info)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("retrynats: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &worker{
		Retries: r, js: js, stream: info.Stream, consumer: info.Name,
		ackWait: info.Config.AckWait, handle: handle, cancel: cancel,
	}
	errs := make([]error, cmp.Or(max(0, r.Workers), 10))
	var running sync.WaitGroup
	for i := range errs {
		running.Go(func() {
			defer cancel() // if one goroutine cannot go on, stop the others as well
			errs[i] = w.work(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// checkStart returns an error if Consume cannot work with the consumer, or with the stream of
// the dead letters.
func (r *Retries) checkStart(
	ctx context.Context, js jetstream.JetStream, info *jetstream.ConsumerInfo,
) error {
	if err := check(info.Config); err != nil {
		return fmt.Errorf("consumer %s: %w", info.Name, err)
	}
	if err := r.checkStream(ctx, js, info.Stream); err != nil {
		return fmt.Errorf("dead letters go to %q: %w", r.dead, err)
	}
	return nil
}

// checkStream returns an error if dead letters would be lost. It also returns an error if their
// stream is the stream of the messages, because dead letters would then be handled as messages.
// The parameter `source` is the name of the stream of the messages.
func (r *Retries) checkStream(ctx context.Context, js jetstream.JetStream, source string) error {
	stream, err := r.deadStream(ctx, js)
	if err != nil {
		return err
	}
	config := stream.CachedInfo().Config
	if config.Name == source {
		return fmt.Errorf("in the stream %s, which also stores the messages: "+
			"use another stream for dead letters", source)
	}
	if err := checkDead(config); err != nil {
		return fmt.Errorf("in the stream %s: %w", config.Name, err)
	}
	return nil
}

// deadStream returns the stream that stores the dead letters.
func (r *Retries) deadStream(
	ctx context.Context, js jetstream.JetStream,
) (jetstream.Stream, error) {
	name, err := js.StreamNameBySubject(ctx, r.dead)
	if err != nil {
		return nil, err
	}
	return js.Stream(ctx, name)
}

// A worker has the data that all goroutines of one call of Consume share.
type worker struct {
	*Retries
	js               jetstream.JetStream
	stream, consumer string // the names of the stream and the consumer
	ackWait          time.Duration
	handle           func(context.Context, jetstream.Msg) error
	cancel           context.CancelFunc // cancels the context of all goroutines

	// Each goroutine holds a read lock of pulls while it asks for a message. The method `leave`
	// first cancels the context, and then takes the write lock. When `leave` has the lock, no pull
	// is open, and no new pull can begin.
	pulls sync.RWMutex
}

// work handles messages until ctx is done. If a pull fails, work gets the consumer from the
// server again, because the headers of a message can confuse the NATS client. After a message
// with the header Nats-Pin-Id, the client sends pulls that the server refuses. After a message
// with the headers Status and Description, the client says that the consumer was deleted.
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

// `pull` is how long a pull stays open. A pull asks the server for one message. Before Consume
// returns, it waits until all its pulls have ended. Otherwise the server could still deliver a
// message to an open pull, and would count this delivery.
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

// `leave` ends all pulls. When `leave` returns, no pull is open, and no new pull can begin.
// Call `leave` before you give a message back. Otherwise a pull could get the message again,
// and the server would count this delivery as an attempt.
func (w *worker) leave() {
	w.cancel()
	w.pulls.Lock()
	defer w.pulls.Unlock()
}

// attempt makes one attempt to handle a message, or delays the message until it is due.
func (w *worker) attempt(ctx context.Context, msg jetstream.Msg) {
	meta, err := msg.Metadata()
	if err != nil {
		w.report(fmt.Errorf("a message of subject %s: %w", msg.Subject(), err))
		return
	}
	job, due, malformed := read(msg, meta)
	// Only the first delivery may delay the message. Each later delivery counts as an attempt, so
	// the message is then handled even if it is not yet due.
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

// `read` returns the job of a delivery, and the time at which its message is due. A zero time
// means that the message is due now. A producer may have written the headers. If a header is
// malformed, `read` returns an error, and the message becomes a dead letter.
func read(
	msg jetstream.Msg, meta *jetstream.MsgMetadata,
) (job retryjob.Job, due time.Time, malformed error) {
	job = retryjob.Job{
		Key:     fmt.Sprintf("%s/%s/%d", meta.Stream, meta.Consumer, meta.Sequence.Stream),
		Attempt: AttemptOf(msg),
		Began:   meta.Timestamp,
	}
	if text := msg.Headers().Get(MaxAttemptsHeader); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 {
			return job, due, fmt.Errorf("header %s is %.100q: "+
				"write a whole number from 1 on, or leave it out", MaxAttemptsHeader, text)
		}
		job.MaxAttempts = limit
	}
	if text := msg.Headers().Get(dueHeader); text != "" {
		if due, malformed = time.Parse(time.RFC3339Nano, text); malformed == nil {
			malformed = checkDue(due)
		}
		if malformed != nil {
			return job, due, fmt.Errorf("header %s: %w", dueHeader, malformed)
		}
	}
	// MaxElapsed counts from `due`. A `due` that is up to a minute in the future is accepted,
	// because the clock of this machine may be slow. With a due time in the far future, MaxElapsed
	// would never end the message.
	if due.After(job.Began) && time.Until(due) < time.Minute {
		job.Began = due
	}
	return job, due, nil
}

// checkDue returns an error if a message is due more than a year from now. The Window of a
// redrive is at most a year. One more day is allowed, because another machine has written the
// time, and its clock may be ahead.
func checkDue(due time.Time) error {
	if time.Until(due) > (365+1)*24*time.Hour {
		return fmt.Errorf("due %s, more than a year from now", due.UTC().Format(time.RFC3339Nano))
	}
	return nil
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

// `answer` is how long Consume waits for the server to confirm a decision.
const answer = 5 * time.Second

// settle acknowledges, delays or terminates the message of an attempt, as the Outcome says.
func (w *worker) settle(
	ctx context.Context, msg jetstream.Msg, job retryjob.Job, o retryjob.Outcome,
) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	var err error
	switch {
	case o.Err == nil:
		return msg.DoubleAck(ctx)
	// A slow server may not know yet that the pulls have ended. So the server must not deliver the
	// message again before a pull would have ended.
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

// terminate tells the server not to deliver a message again. The server publishes the reason in
// an advisory. Servers before 2.10.4 ignore a termination that has a reason, so terminate sends
// them no reason.
func (w *worker) terminate(msg jetstream.Msg, reason retry.Reason) error {
	var major, minor, patch int
	_, err := fmt.Sscanf(w.js.Conn().ConnectedServerVersion(), "%d.%d.%d", &major, &minor, &patch)
	if err != nil || slices.Compare([]int{major, minor, patch}, []int{2, 10, 4}) < 0 {
		return msg.Term()
	}
	return msg.TermWithReason(string(reason))
}

// bury publishes a dead letter. If the dead letter is too large, bury leaves out the error. If
// that is not enough, bury leaves out the headers of the message. If that is still not enough,
// bury keeps the headers and leaves out the data.
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

// publish publishes the dead letter d of a message. If the worker is killed afterwards, the
// server delivers the message again. The ID of the dead letter then prevents a second dead
// letter for this failure.
//
// The ID contains the name of the consumer, because several consumers may get the same message.
// It contains the time of the message, because sequence numbers begin again if a stream is
// deleted and created again.
func (w *worker) publish(
	ctx context.Context, msg jetstream.Msg, d retryjob.DeadLetter, leftOut string,
) error {
	meta, _ := msg.Metadata() // this cannot fail, because the method attempt has read the metadata
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
		return fmt.Errorf("the dead letter was published before, as message %d of stream %s: %w",
			ack.Sequence, ack.Stream, err)
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

// copyHeaders copies the headers of the producer. It leaves out the headers of this package. It
// also leaves out headers that begin with Nats-, because they are instructions to the server
// about the old stream.
func copyHeaders(to, from nats.Header) {
	own := []string{deadHeader, SubjectHeader, dueHeader, leftOutHeader}
	for name, values := range from {
		if !strings.HasPrefix(name, "Nats-") && !slices.Contains(own, name) {
			to[name] = values
		}
	}
}

// report passes an error to OnError. If OnError is nil, report logs the error.
func (w *worker) report(err error) {
	err = fmt.Errorf("retrynats: %w", err)
	if w.OnError != nil {
		w.OnError(err)
		return
	}
	slog.Error(err.Error())
}
