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
// number of at least 1.
const MaxAttemptsHeader = "Retry-Max-Attempts"

// SubjectHeader is the header of a dead letter with the subject of the message.
const SubjectHeader = "Retry-Subject"

const (
	deadHeader    = "Retry-Dead-Letter" // of a dead letter: why, as JSON
	leftOutHeader = "Retry-Left-Out"    // of a dead letter: what of its message it has no room for
	dueHeader     = "Retry-Due"         // of a message that was a dead letter: when it may run, by time.RFC3339Nano
)

// DeadLetterOf reads the header of a dead letter.
func DeadLetterOf(header nats.Header) (retryjob.DeadLetter, error) {
	text := header.Get(deadHeader)
	if text == "" {
		return retryjob.DeadLetter{}, fmt.Errorf("retrynats: not a dead letter: the header %s is missing", deadHeader)
	}
	var d retryjob.DeadLetter
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return retryjob.DeadLetter{}, fmt.Errorf("retrynats: header %s: %w", deadHeader, err)
	}
	return d, nil
}

// AttemptOf returns the number of the attempt that a delivery is for, 1 for the
// first. The first delivery of a message that was a dead letter is not an attempt:
// the message is only put off until it is due. AttemptOf returns 0 for that delivery,
// and for a message that is not of JetStream.
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

// Retries handles messages by policies. Set its fields before the first Consume;
// after that it is safe for concurrent use.
type Retries struct {
	// Workers is how many messages one Consume handles at once; 0 means 10.
	Workers int

	// OnError is called with the error if Consume cannot tell the server about
	// a message. The server then delivers the message again after AckWait. It is also
	// called if a dead letter has no room for all of its message. If OnError is nil, the
	// errors are logged to slog.Default.
	OnError func(error)

	policies retryjob.Policies
	dead     string
}

// New returns Retries that apply policy to each message and publish dead letters to
// the subject dead, which must belong to a stream. It returns an error if policy is
// invalid, or has none of MaxAttempts, MaxRetries and MaxElapsed, or if dead is not one
// subject, because it has a wildcard or an empty token.
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
// is invalid or has no limit, or if subject has a wildcard.
func (r *Retries) SetSubject(subject string, policy retry.Policy) error {
	if !isOneSubject(subject) {
		return fmt.Errorf("retrynats: subject %q is not one subject: "+
			"write tokens that are not empty, without spaces and wildcards", subject)
	}
	return r.policies.Set("retrynats: subject", subject, policy)
}

// ConsumerConfig returns the configuration for a durable consumer for Consume. With
// it the server does not limit deliveries and adds no delays, and messages that
// wait for a retry do not block others. To choose how soon the messages of a killed
// worker are delivered again, set AckWait; the server's default is 30s.
func (r *Retries) ConsumerConfig(durable string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1, MaxAckPending: -1}
}

// isOneSubject reports whether a text is a subject that a message can have.
func isOneSubject(text string) bool {
	odd := func(c rune) bool { return c <= ' ' || c == '*' || c == '>' || c == 0x7f }
	return !strings.ContainsFunc(text, odd) && !slices.Contains(strings.Split(text, "."), "")
}

// check returns what is wrong with a consumer's configuration.
func check(c jetstream.ConsumerConfig) error {
	switch {
	case c.AckPolicy != jetstream.AckExplicitPolicy:
		return fmt.Errorf("AckPolicy is %v: write AckExplicitPolicy", c.AckPolicy)
	case len(c.BackOff) > 0:
		return errors.New("BackOff is set, which takes the place of AckWait and ignores Nak: leave it out")
	case c.MaxDeliver > 0:
		return fmt.Errorf("MaxDeliver is %d, after which the server forgets a message: write -1, the policy has the limit", c.MaxDeliver)
	case c.MaxAckPending > 0:
		return fmt.Errorf("MaxAckPending is %d: so many messages that wait for a retry hold up all others: write -1", c.MaxAckPending)
	case c.HeadersOnly:
		return errors.New("HeadersOnly is set, so a dead letter would lack its data: leave it out")
	case c.MaxRequestExpires > 0 && c.MaxRequestExpires < pull:
		return fmt.Errorf("MaxRequestExpires is %v, and Consume asks for a message for %v: write that, or leave it out",
			c.MaxRequestExpires, pull)
	case len(c.PriorityGroups) > 0:
		return fmt.Errorf("PriorityGroups is %q, and Consume asks for messages without a group: leave it out", c.PriorityGroups)
	}
	return nil
}

// checkDead returns why a stream would lose dead letters.
func checkDead(c jetstream.StreamConfig) error {
	old := c.Discard == jetstream.DiscardOld
	switch {
	case c.Retention == jetstream.InterestPolicy:
		return errors.New("Retention is Interest, so it drops what no consumer waits for: write LimitsPolicy or WorkQueuePolicy")
	case c.MaxMsgsPerSubject > 0 && (old || !c.DiscardNewPerSubject):
		return fmt.Errorf("MaxMsgsPerSubject is %d, so a dead letter drops an older one: leave it out", c.MaxMsgsPerSubject)
	case c.MaxMsgs > 0 && old:
		return fmt.Errorf("MaxMsgs is %d with DiscardOld, so a dead letter drops an older one: write DiscardNew", c.MaxMsgs)
	case c.MaxBytes > 0 && old:
		return fmt.Errorf("MaxBytes is %d with DiscardOld, so a dead letter drops an older one: write DiscardNew", c.MaxBytes)
	case c.Storage == jetstream.MemoryStorage:
		return errors.New("Storage is Memory, so it drops all at a restart: write FileStorage")
	case c.NoAck:
		return errors.New("NoAck is set, so it does not say whether it has stored a dead letter: leave it out")
	case c.Sealed:
		return errors.New("Sealed is set, so it stores no dead letter: use another stream")
	case c.SubjectTransform != nil:
		return errors.New("SubjectTransform is set, so Redrive would not find what it stores: leave it out")
	}
	return nil
}

// Consume handles the messages of a consumer until ctx is done. Then it asks for no more
// messages, cancels the contexts of the handlers, waits until they have returned, and returns
// nil; their messages are delivered again a second later. A message that comes within a second
// after the end of ctx is delivered again too, and uses up an attempt. A server that does not
// answer gets 5 seconds. Consume returns an error if the consumer is deleted or the connection
// closed.
//
// Before the first message, it refuses a consumer that would forget messages or hold them
// up, and a stream that would lose dead letters. The table in docs/queues.md in the
// library's repository lists the settings. [Retries.ConsumerConfig] has none of them.
//
// js is where consumer comes from. handle is called for up to Workers messages at once. It
// must not acknowledge them, and not change their headers and data, because a dead letter has
// them. Consume renews a message's AckWait for as long as handle runs.
// A message without data that has a header Status is never handled: the client of NATS
// takes it for an answer of the server. It stays until it is deleted.
func (r *Retries) Consume(ctx context.Context, js jetstream.JetStream, consumer jetstream.Consumer, handle func(context.Context, jetstream.Msg) error) error {
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
			defer cancel() // if one goroutine cannot go on, none can
			errs[i] = w.work(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// checkStart returns why Consume refuses a consumer or the stream of the dead letters.
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

// checkStream returns why the stream of the dead letters of messages of another stream will
// not do.
func (r *Retries) checkStream(ctx context.Context, js jetstream.JetStream, of string) error {
	stream, err := r.deadStream(ctx, js)
	if err != nil {
		return err
	}
	config := stream.CachedInfo().Config
	if config.Name == of {
		return fmt.Errorf("in the stream %s that they come from: use a stream of their own", of)
	}
	if err := checkDead(config); err != nil {
		return fmt.Errorf("in the stream %s: %w", config.Name, err)
	}
	return nil
}

// deadStream returns the stream of the dead letters.
func (r *Retries) deadStream(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	name, err := js.StreamNameBySubject(ctx, r.dead)
	if err != nil {
		return nil, err
	}
	return js.Stream(ctx, name)
}

// A worker holds what the goroutines of one Consume share.
type worker struct {
	*Retries
	js               jetstream.JetStream
	stream, consumer string // their names
	ackWait          time.Duration
	handle           func(context.Context, jetstream.Msg) error
	cancel           context.CancelFunc // ends the context of all goroutines

	// A goroutine holds pulls for reading while it asks for a message. Whoever can lock pulls
	// after the context has ended knows that the server delivers nothing more here.
	pulls sync.RWMutex
}

// work handles messages until ctx ends. After an error of a pull it gets the consumer anew:
// with a header of a message, Nats-Pin-Id, the client of NATS sends pulls that a server
// refuses, and with Status and Description it says that the consumer is deleted.
func (w *worker) work(ctx context.Context) error {
	err := retry.Do(ctx, retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Fixed(250 * time.Millisecond), // for a server that restarts
		RetryIf: func(err error) bool {
			return !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound)
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
	return fmt.Errorf("retrynats: %w", retry.Unwrap(err)) // not marked: a loop around Consume connects again
}

// pull is how long the server waits for a message. Consume waits for an open pull to end,
// because a message that is sent to a client that is gone is counted as delivered.
const pull = time.Second

// next asks for a message. It returns neither a message nor an error if none has come.
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

// leave has no pull begin, and waits until each that is open has ended. Only then may a
// message go back. A pull would get it, and the server would count an attempt.
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
	if job.Attempt == 0 && malformed == nil { // later deliveries count, so they run, early or not
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

// read describes a delivery to retryjob, and says when its message is due, the zero time
// for at once. Producers can write the headers, so an error is final: the message is
// malformed, and makes a dead letter.
func read(msg jetstream.Msg, meta *jetstream.MsgMetadata) (job retryjob.Job, due time.Time, malformed error) {
	job = retryjob.Job{
		Key:     fmt.Sprintf("%s/%s/%d", meta.Stream, meta.Consumer, meta.Sequence.Stream),
		Attempt: AttemptOf(msg),
		Began:   meta.Timestamp,
	}
	if text := msg.Headers().Get(MaxAttemptsHeader); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 {
			return job, due, fmt.Errorf("header %s is %.100q: write a whole number from 1 on, or leave it out", MaxAttemptsHeader, text)
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
	// A clock may be behind. A time that is far ahead would let each attempt be the first.
	if due.After(job.Began) && time.Until(due) < time.Minute {
		job.Began = due
	}
	return job, due, nil
}

// checkDue returns an error if a message says that it is due more than a year from now, the
// longest Window of a redrive. One more day is allowed, because the clock by which the message
// was written may be ahead.
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
func (w *worker) settle(ctx context.Context, msg jetstream.Msg, job retryjob.Job, o retryjob.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	var err error
	switch {
	case o.Err == nil:
		return msg.DoubleAck(ctx)
	// A server that is slow may not yet know that a pull has ended.
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

// terminate tells the server not to deliver a message again. Its advisory has the reason,
// but before 2.10.4 it ignores a termination with one.
func (w *worker) terminate(msg jetstream.Msg, reason retry.Reason) error {
	var major, minor, patch int
	_, err := fmt.Sscanf(w.js.Conn().ConnectedServerVersion(), "%d.%d.%d", &major, &minor, &patch)
	if err != nil || slices.Compare([]int{major, minor, patch}, []int{2, 10, 4}) < 0 {
		return msg.Term()
	}
	return msg.TermWithReason(string(reason))
}

// bury publishes a dead letter. What does not fit is left out: the error, then the headers
// of the message or, if it must be, its data.
func (w *worker) bury(ctx context.Context, msg jetstream.Msg, job retryjob.Job, o retryjob.Outcome) error {
	d := o.DeadLetter(job)
	err := w.publish(ctx, msg, d, "")
	for _, leftOut := range []string{"", "headers", "data"} {
		if !isTooLarge(err) {
			return err
		}
		d.Err = ""
		if err = w.publish(ctx, msg, d, leftOut); err == nil && leftOut != "" {
			w.report(fmt.Errorf("message %s: its dead letter has no room for its %s", job.Key, leftOut))
		}
	}
	return err
}

// isTooLarge reports whether a message is larger than the server or a stream allows.
func isTooLarge(err error) bool {
	const message, header jetstream.ErrorCode = 10054, 10097
	var e *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &e) && (e.ErrorCode == message || e.ErrorCode == header)
}

// publish publishes the dead letter d of a message. If a worker was killed after it had
// done so, the server delivers the message again, and the letter's ID keeps it from being
// stored twice. The ID names one failure only: two consumers may have the same message, and
// a stream that was made anew has the same sequence numbers again.
func (w *worker) publish(ctx context.Context, msg jetstream.Msg, d retryjob.DeadLetter, leftOut string) error {
	meta, _ := msg.Metadata() // no error: the worker has read them before
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
	ack, err := w.js.PublishMsg(ctx, letter, jetstream.WithMsgID(fmt.Sprintf("%s/%s/%d", w.dead, d.Key, meta.Timestamp.UnixNano())))
	if err != nil || !ack.Duplicate {
		return err
	}
	switch same, err := isStored(ctx, w.js, ack, letter); {
	case err != nil:
		return fmt.Errorf("its dead letter was published before, as message %d of stream %s: %w", ack.Sequence, ack.Stream, err)
	case !same:
		return fmt.Errorf("its dead letter is not stored: message %d of stream %s has the same Nats-Msg-Id, and is another", ack.Sequence, ack.Stream)
	}
	return nil
}

// isStored reports whether what a stream has stored in place of a duplicate is msg: the
// server compares only the IDs. When msg was published before may differ.
func isStored(ctx context.Context, js jetstream.JetStream, ack *jetstream.PubAck, msg *nats.Msg) (bool, error) {
	stream, err := js.Stream(ctx, ack.Stream)
	if err != nil {
		return false, err
	}
	stored, err := stream.GetMsg(ctx, ack.Sequence)
	if err != nil {
		return false, err
	}
	same := stored.Subject == msg.Subject && bytes.Equal(stored.Data, msg.Data) && len(stored.Header) == len(msg.Header)
	for name, values := range msg.Header {
		before, is := stored.Header[name]
		same = same && is && (name == deadHeader || name == dueHeader || slices.Equal(before, values))
	}
	return same, nil
}

// copyHeaders copies the headers that are the user's. Those that begin with Nats- are
// instructions to the server about the stream that the message comes from.
func copyHeaders(to, from nats.Header) {
	for name, values := range from {
		if !strings.HasPrefix(name, "Nats-") && name != deadHeader && name != SubjectHeader && name != dueHeader && name != leftOutHeader {
			to[name] = values
		}
	}
}

func (w *worker) report(err error) {
	err = fmt.Errorf("retrynats: %w", err)
	if w.OnError != nil {
		w.OnError(err)
		return
	}
	slog.Error(err.Error())
}
