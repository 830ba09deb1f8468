// Package retrynats retries the messages of a NATS JetStream consumer according to a
// [retry.Policy]. If a handler fails, the policy decides whether and when the message is
// handled again. A message that is not retried becomes a dead letter that says why.
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
// If the handler returns nil, the package acknowledges the message, and waits until the
// server confirms this. If the handler fails and the policy retries, the message is handled
// again after the policy's delay. Otherwise the package publishes a dead letter, and then
// terminates the message. If a handler panics, the attempt has failed, and the panic is not
// recovered. [Retries.Redrive] publishes the messages of dead letters again.
//
// A dead letter has the data and headers of its message, and a header that says why the
// message failed: see [DeadLetterOf]. Its Key is "stream/consumer/sequence". If a dead letter
// is too large, the package leaves out the text of the error, then the headers, or else the
// data. The header Retry-Left-Out and OnError name the missing headers or data. Several
// consumers may share the subject for dead letters: each failure gets its own dead letter.
//
// docs/queues.md in the library's repository describes what all queues share.
//
// # How attempts are counted
//
// The number of an attempt is the server's count of deliveries. So an attempt counts even if
// its worker was killed, or stopped before the handler returned. After a kill the server
// delivers the message again within AckWait.
//
// The header [MaxAttemptsHeader] of a message can lower the policy's limit for this message. A
// message whose headers cannot be read becomes a dead letter without being handled. MaxElapsed
// counts from when the stream stored the message, by the server's clock. Failures are not
// counted by class: each [retry.Class] is counted by all failures of the message.
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

// MaxAttemptsHeader is the header with a message's own limit on attempts, a whole
// number of at least 1. It can only lower the policy's limit.
const MaxAttemptsHeader = "Retry-Max-Attempts"

// SubjectHeader is the header of a dead letter with the subject of its message.
const SubjectHeader = "Retry-Subject"

const (
	// A dead letter has these headers: why its message failed, as JSON, and which part of the
	// message the dead letter lacks.
	deadHeader    = "Retry-Dead-Letter"
	leftOutHeader = "Retry-Left-Out"

	// dueHeader is the header of a message that was a dead letter: when it may run, in the
	// format time.RFC3339Nano.
	dueHeader = "Retry-Due"
)

// DeadLetterOf returns the dead letter that the headers of a message describe. It returns
// an error if the header of a dead letter is missing or cannot be read.
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

// AttemptOf returns the number of the attempt that a delivery is for. The first attempt is 1.
// The first delivery of a message that was a dead letter is not an attempt: the message is
// only delayed until it is due. AttemptOf returns 0 for that delivery, and for a message that
// does not come from JetStream.
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

// Retries handles messages according to policies. Set its fields and policies before the
// first Consume. After that, Retries is safe for concurrent use.
type Retries struct {
	// Workers is how many messages one Consume handles at once. Zero and below mean 10.
	Workers int

	// OnError is called with the error if Consume cannot tell the server what was decided
	// about a message. The server then delivers the message again after AckWait. OnError is
	// also called if a dead letter lacks a part of its message. Several goroutines may call
	// OnError at once. If it is nil, the errors are logged to slog.Default.
	OnError func(error)

	policies retryjob.Policies
	dead     string
}

// New returns Retries that apply policy to each message and publish dead letters to
// the subject dead, which must belong to a stream. It returns an error if policy is
// invalid, or has none of MaxAttempts, MaxRetries and MaxElapsed. It also returns an error
// if dead has a wildcard, a space or an empty token.
func New(policy retry.Policy, dead string) (*Retries, error) {
	policies, err := retryjob.NewPolicies("retrynats", policy)
	if err != nil {
		return nil, err
	}
	if dead == "" {
		return nil, errors.New("retrynats: no subject for dead letters: write one that a stream stores")
	}
	if !isOneSubject(dead) {
		return nil, fmt.Errorf("retrynats: dead letters go to %q, which is not one subject: "+
			"write tokens that are not empty, without spaces and wildcards", dead)
	}
	return &Retries{policies: policies, dead: dead}, nil
}

// SetSubject sets the policy for the messages of one subject. It returns an error if policy
// is invalid or has no limit, or if subject has a wildcard, a space or an empty token.
func (r *Retries) SetSubject(subject string, policy retry.Policy) error {
	if !isOneSubject(subject) {
		return fmt.Errorf("retrynats: subject %q is not one subject: "+
			"write tokens that are not empty, without spaces and wildcards", subject)
	}
	return r.policies.Set("retrynats: subject", subject, policy)
}

// ConsumerConfig returns the configuration of a durable consumer for Consume. With this
// configuration the server does not limit deliveries and adds no delays, and messages that
// wait for a retry do not block others. AckWait in the configuration sets how soon the
// messages of a killed worker are delivered again. The server's default is 30s.
func (r *Retries) ConsumerConfig(durable string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       durable,
		AckPolicy:     jetstream.AckExplicitPolicy,
		MaxDeliver:    -1,
		MaxAckPending: -1,
	}
}

// isOneSubject reports whether a message can have text as its subject.
func isOneSubject(text string) bool {
	odd := func(c rune) bool { return c <= ' ' || c == '*' || c == '>' || c == 0x7f }
	return !strings.ContainsFunc(text, odd) && !slices.Contains(strings.Split(text, "."), "")
}

// check returns an error if Consume cannot use a consumer with this configuration.
func check(c jetstream.ConsumerConfig) error {
	switch {
	case c.AckPolicy != jetstream.AckExplicitPolicy:
		return fmt.Errorf("AckPolicy is %v: write AckExplicitPolicy", c.AckPolicy)
	case len(c.BackOff) > 0:
		return errors.New("BackOff is set, which replaces AckWait and ignores Nak: leave it out")
	case c.MaxDeliver > 0:
		return fmt.Errorf("MaxDeliver is %d, after which the server forgets a message: "+
			"write -1, because the policy has the limit", c.MaxDeliver)
	case c.MaxAckPending > 0:
		return fmt.Errorf("MaxAckPending is %d: "+
			"this many messages that wait for a retry would hold up all others: write -1",
			c.MaxAckPending)
	case c.HeadersOnly:
		return errors.New("HeadersOnly is set, so a dead letter would lack its data: leave it out")
	case c.MaxRequestExpires > 0 && c.MaxRequestExpires < pull:
		return fmt.Errorf("MaxRequestExpires is %v, but Consume waits %v for a message: "+
			"write at least %v, or leave it out", c.MaxRequestExpires, pull, pull)
	case len(c.PriorityGroups) > 0:
		return fmt.Errorf("PriorityGroups is %q, but Consume asks for messages without a group: "+
			"leave it out", c.PriorityGroups)
	}
	return nil
}

// checkDead returns an error if a stream with this configuration would lose dead letters.
func checkDead(c jetstream.StreamConfig) error {
	old := c.Discard == jetstream.DiscardOld
	switch {
	case c.Retention == jetstream.InterestPolicy:
		return errors.New("Retention is Interest, so the stream drops messages that no consumer " +
			"waits for: write LimitsPolicy or WorkQueuePolicy")
	case c.MaxMsgsPerSubject > 0 && (old || !c.DiscardNewPerSubject):
		return fmt.Errorf("MaxMsgsPerSubject is %d, so a dead letter drops an older one: "+
			"leave it out", c.MaxMsgsPerSubject)
	case c.MaxMsgs > 0 && old:
		return fmt.Errorf("MaxMsgs is %d with DiscardOld, so a dead letter drops an older one: "+
			"write DiscardNew", c.MaxMsgs)
	case c.MaxBytes > 0 && old:
		return fmt.Errorf("MaxBytes is %d with DiscardOld, so a dead letter drops an older one: "+
			"write DiscardNew", c.MaxBytes)
	case c.Storage == jetstream.MemoryStorage:
		return errors.New("Storage is Memory, so the stream loses all messages at a restart: " +
			"write FileStorage")
	case c.NoAck:
		return errors.New("NoAck is set, so the stream does not confirm a dead letter: leave it out")
	case c.Sealed:
		return errors.New("Sealed is set, so the stream stores no dead letter: use another stream")
	case c.SubjectTransform != nil:
		return errors.New("SubjectTransform is set, so Redrive would not find the dead letters: " +
			"leave it out")
	}
	return nil
}

// Consume handles the messages of a consumer until ctx is done. Then it asks for no more
// messages, cancels the contexts of the handlers, waits until they have returned, and returns
// nil. Their messages are delivered again a second later. A message that arrives within a
// second after the end of ctx is delivered again too, and uses up an attempt. Consume waits 5
// seconds for a server that does not answer. It returns an error if the consumer is deleted
// or the connection is closed.
//
// Before the first message, Consume refuses a consumer that would forget messages or hold
// them up, and a stream that would lose dead letters. The table in docs/queues.md in the
// library's repository lists the settings that it refuses. [Retries.ConsumerConfig] has none
// of these settings.
//
// js must be the JetStream that returned consumer. handle is called for up to Workers messages
// at once. It must not acknowledge the messages. It must not change their headers and data,
// because the dead letters share them. Consume renews a message's AckWait while handle runs.
//
// A message without data that has a header Status is never handled, because the client of
// NATS takes it for an answer of the server. Such a message stays until somebody deletes it.
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
			defer cancel() // if one goroutine cannot go on, no goroutine can
			errs[i] = w.work(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// checkStart returns an error if Consume cannot use a consumer, or the stream of the dead
// letters.
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

// checkStream returns an error if the dead letters of messages from the stream called of would
// be lost or handled.
func (r *Retries) checkStream(ctx context.Context, js jetstream.JetStream, of string) error {
	stream, err := r.deadStream(ctx, js)
	if err != nil {
		return err
	}
	config := stream.CachedInfo().Config
	if config.Name == of {
		return fmt.Errorf("in the stream %s, which has the messages themselves: "+
			"use another stream for dead letters", of)
	}
	if err := checkDead(config); err != nil {
		return fmt.Errorf("in the stream %s: %w", config.Name, err)
	}
	return nil
}

// deadStream returns the stream of the dead letters.
func (r *Retries) deadStream(
	ctx context.Context, js jetstream.JetStream,
) (jetstream.Stream, error) {
	name, err := js.StreamNameBySubject(ctx, r.dead)
	if err != nil {
		return nil, err
	}
	return js.Stream(ctx, name)
}

// A worker has the data that the goroutines of one Consume share.
type worker struct {
	*Retries
	js               jetstream.JetStream
	stream, consumer string // the names of the stream and the consumer
	ackWait          time.Duration
	handle           func(context.Context, jetstream.Msg) error
	cancel           context.CancelFunc // ends the context of all goroutines

	// A goroutine holds pulls for reading while it asks for a message. A goroutine that locks
	// pulls for writing after the end of the context knows that no more messages arrive here.
	pulls sync.RWMutex
}

// work handles messages until ctx ends. After an error of a pull it gets the consumer again,
// because the headers of a message can confuse the client of NATS. After a header Nats-Pin-Id
// the client sends pulls that the server refuses. After headers Status and Description it
// says that the consumer was deleted.
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
				w.one(ctx, msg)
			}
		}
		return err
	})
	if ctx.Err() != nil || err == nil || retry.ReasonOf(err) == retry.ReasonDeadline {
		return nil
	}
	// The error is not marked as permanent, so that a loop around Consume can connect again.
	return fmt.Errorf("retrynats: %w", retry.Unwrap(err))
}

// pull is how long the server waits for a message. Consume waits until an open pull has ended,
// because the server counts a delivery even if the client is gone.
const pull = time.Second

// next asks for a message. It returns neither a message nor an error if no message arrives in
// time.
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

// leave ends all pulls: no pull begins any more, and each open pull has ended when leave
// returns. Only then may a message go back. Otherwise a pull would get the message again, and
// the server would count an attempt.
func (w *worker) leave() {
	w.cancel()
	w.pulls.Lock()
	defer w.pulls.Unlock()
}

// one makes one attempt to handle a message.
func (w *worker) one(ctx context.Context, msg jetstream.Msg) {
	meta, err := msg.Metadata()
	if err != nil {
		w.report(fmt.Errorf("a message of subject %s: %w", msg.Subject(), err))
		return
	}
	job, due, malformed := read(msg, meta)
	// Later deliveries count as attempts, so they run even if they are early.
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

// read returns the job of a delivery, and when its message is due. A zero due means at once.
// Producers can write the headers. If read returns an error, the message is malformed, and
// becomes a dead letter.
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
	// due may be a little ahead, because this machine's clock may be behind. If due is far
	// ahead, MaxElapsed would never end the message.
	if due.After(job.Began) && time.Until(due) < time.Minute {
		job.Began = due
	}
	return job, due, nil
}

// checkDue returns an error if a message is due more than a year from now. The Window of a
// redrive is at most a year. One more day is allowed, because the clock of the message's
// writer may be ahead.
func checkDue(due time.Time) error {
	if time.Until(due) > (365+1)*24*time.Hour {
		return fmt.Errorf("due %s, more than a year from now", due.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// keep renews a message's AckWait until stop is called.
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

// answer is how long Consume waits for a confirmation from the server.
const answer = 5 * time.Second

// settle tells the server the Outcome of an attempt.
func (w *worker) settle(
	ctx context.Context, msg jetstream.Msg, job retryjob.Job, o retryjob.Outcome,
) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	var err error
	switch {
	case o.Err == nil:
		return msg.DoubleAck(ctx)
	// A slow server may not know yet that a pull has ended, so the message waits for one pull.
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
	return w.js.Conn().FlushWithContext(ctx) // the process may be about to end
}

// terminate tells the server not to deliver a message again. The server's advisory has the
// reason. Servers before 2.10.4 ignore a termination with a reason, so they get none.
func (w *worker) terminate(msg jetstream.Msg, reason retry.Reason) error {
	var major, minor, patch int
	_, err := fmt.Sscanf(w.js.Conn().ConnectedServerVersion(), "%d.%d.%d", &major, &minor, &patch)
	if err != nil || slices.Compare([]int{major, minor, patch}, []int{2, 10, 4}) < 0 {
		return msg.Term()
	}
	return msg.TermWithReason(string(reason))
}

// bury publishes a dead letter. If the dead letter is too large, bury leaves out its error, then
// also the headers of the message, or else its data.
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
			w.report(fmt.Errorf("message %s: its dead letter has no room for its %s",
				job.Key, leftOut))
		}
	}
	return err
}

// isTooLarge reports whether a message is larger than the server or a stream allows.
func isTooLarge(err error) bool {
	const message, header jetstream.ErrorCode = 10054, 10097
	var e *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) ||
		errors.As(err, &e) && (e.ErrorCode == message || e.ErrorCode == header)
}

// publish publishes the dead letter d of a message. If a worker is killed afterwards, the
// server delivers the message again, and the ID of the letter prevents a second dead letter.
// The ID names one failure only. Neither the message nor its sequence number would be enough:
// two consumers may have the same message, and a stream that was created again repeats its
// sequence numbers.
func (w *worker) publish(
	ctx context.Context, msg jetstream.Msg, d retryjob.DeadLetter, leftOut string,
) error {
	meta, _ := msg.Metadata() // the worker has read the metadata before, without an error
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
		return fmt.Errorf("its dead letter was published before, as message %d of stream %s: %w",
			ack.Sequence, ack.Stream, err)
	case !same:
		return fmt.Errorf("its dead letter is not stored: message %d of stream %s is different, "+
			"and has the same Nats-Msg-Id", ack.Sequence, ack.Stream)
	}
	return nil
}

// isStored reports whether the message that a stream stored in place of a duplicate equals msg.
// The server compares only the IDs. The headers with times may differ.
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

// copyHeaders copies the headers of the user. Headers that begin with Nats- are instructions
// to the server about the stream of the message, so they are not copied.
func copyHeaders(to, from nats.Header) {
	own := []string{deadHeader, SubjectHeader, dueHeader, leftOutHeader}
	for name, values := range from {
		if !strings.HasPrefix(name, "Nats-") && !slices.Contains(own, name) {
			to[name] = values
		}
	}
}

// report passes an error to OnError, or logs it.
func (w *worker) report(err error) {
	err = fmt.Errorf("retrynats: %w", err)
	if w.OnError != nil {
		w.OnError(err)
		return
	}
	slog.Error(err.Error())
}
