// Package retryamqp lets a [retry.Policy] decide on the messages of a RabbitMQ
// queue: whether a message whose handler failed is handled again, when, and why
// not.
//
//	retries, err := retryamqp.New(policy, "orders")
//	if err != nil {
//		return err
//	}
//	if err := retries.Declare(conn); err != nil {
//		return err
//	}
//	return retries.Consume(ctx, conn, func(ctx context.Context, d amqp.Delivery) error {
//		return send(ctx, d.Body)
//	})
//
// # Its queues
//
// The package declares its own queues and uses no others; all are quorum queues.
// "orders" has the messages to handle: publish to it, or bind it to exchanges.
// "orders.dead" has the dead letters, which [DeadLetterOf] reads. Messages that
// wait are in queues like "orders.wait.1024ms", one for each delay, declared when
// a delay is first needed: a queue hands out its messages in order, so one with
// different delays would hold the short ones up behind the long ones. Delays are
// rounded up to one of eight steps between a power of two milliseconds and the
// next, at most an eighth more than the policy says. Do not limit the length of
// these queues.
//
// # What happens to a message
//
// The handler must not acknowledge the message. If it returns nil, the message is
// acknowledged. If it fails, the message goes to a queue for its delay, or to the
// dead letters. It leaves its queue and enters the other in one transaction, so a
// worker that is killed leaves one of the two, not both and not neither. Only a
// server that crashes, or a queue that refuses messages, in that moment can break
// the rule. A panic of a handler counts as a failure, and goes on.
//
// # How attempts are counted
//
// The attempts that have ended are counted in a header of the message, and the
// server counts those that a worker did not survive. It hands their messages out
// again at once when the connection breaks. Where that was the last attempt, the
// message becomes a dead letter without being handled. An attempt that is
// interrupted because Consume stops does not count.
//
// A message may have a limit of its own in the header [MaxAttemptsHeader], which
// lowers the policy's. Its MessageId names it in logs and picks its delays.
// MaxElapsed counts from its Timestamp, which is in whole seconds. Without one it
// counts from the start of the first attempt that its worker survived. RabbitMQ takes a message back from a handler after
// 30 minutes unless its consumer_timeout says otherwise: set an AttemptTimeout
// below that.
package retryamqp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// MaxAttemptsHeader is the header with a message's own limit on attempts, a whole
// number from 1 on.
const MaxAttemptsHeader = "retry-max-attempts"

// The headers of a message that has been handled.
const (
	attemptsHeader = "retry-attempts" // that have ended
	beganHeader    = "retry-began"    // since when MaxElapsed counts, in Unix milliseconds
	dueHeader      = "retry-due"      // when the next one is due, in Unix milliseconds, if one queue does not wait so long
	reasonHeader   = "retry-reason"   // of a dead letter
	errorHeader    = "retry-error"    // of a dead letter
	probeHeader    = "retry-probe"    // of no message, see prepare
)

// A DeadLetter says why a message is not handled again.
type DeadLetter struct {
	Reason   retry.Reason // why not
	Attempts int          // that were made
	Error    string       // the text of the [*retry.Error], which ends in the last failure
}

// DeadLetterOf reads the headers of a dead letter.
func DeadLetterOf(headers amqp.Table) (DeadLetter, error) {
	var d DeadLetter
	reason, _ := headers[reasonHeader].(string)
	if err := d.Reason.UnmarshalText([]byte(reason)); err != nil {
		return d, fmt.Errorf("retryamqp: header %s: %w", reasonHeader, err)
	}
	d.Error, _ = headers[errorHeader].(string)
	attempts, err := number(headers, attemptsHeader)
	if err != nil {
		return d, fmt.Errorf("retryamqp: %w", err)
	}
	d.Attempts = int(attempts)
	return d, nil
}

// AttemptOf returns the number of the attempt that a message is handed out for, 1
// for the first. A dead letter that was moved back to the queue begins again.
func AttemptOf(d amqp.Delivery) int {
	ended, _ := number(d.Headers, attemptsHeader) // only this package writes it
	if isDead(d) {
		ended = 0
	}
	cut, _ := number(d.Headers, "x-delivery-count") // only the server does
	return int(ended + cut + 1)
}

// isDead reports whether d was a dead letter.
func isDead(d amqp.Delivery) bool {
	_, dead := d.Headers[reasonHeader]
	return dead
}

// number returns a header that is a whole number, and 0 if it is not there.
func number(headers amqp.Table, name string) (int64, error) {
	switch value := headers[name].(type) {
	case nil:
		return 0, nil
	case int64:
		return value, nil
	case int32:
		return int64(value), nil
	case int16:
		return int64(value), nil
	case int8:
		return int64(value), nil
	case byte:
		return int64(value), nil
	case string:
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("header %s is %v: write a whole number", name, headers[name])
}

// Retries handles messages by policies. Set its fields and policies before the
// first Consume; after that it is safe for concurrent use.
type Retries struct {
	// Workers is how many messages one Consume handles at once; 0: 10. What follows
	// them is written one after the other.
	Workers int

	policy retry.Policy
	types  map[string]retry.Policy
	queue  string
}

// New returns Retries that apply policy to each message of queue. A policy that
// does not validate is an error.
func New(policy retry.Policy, queue string) (*Retries, error) {
	if err := policy.Validate(); err != nil {
		return nil, fmt.Errorf("retryamqp: %w", err)
	}
	if queue == "" {
		return nil, errors.New("retryamqp: no name of a queue")
	}
	return &Retries{policy: policy, types: map[string]retry.Policy{}, queue: queue}, nil
}

// SetType sets the policy for messages whose property Type is typename.
func (r *Retries) SetType(typename string, policy retry.Policy) error {
	if err := policy.Validate(); err != nil {
		return fmt.Errorf("retryamqp: type %s: %w", typename, err)
	}
	r.types[typename] = policy
	return nil
}

func (r *Retries) of(typename string) retry.Policy {
	if policy, ok := r.types[typename]; ok {
		return policy
	}
	return r.policy
}

// Declare declares the queue of the messages and that of the dead letters. It
// returns an error if there is one of these names with other properties.
func (r *Retries) Declare(conn *amqp.Connection) error {
	channel, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("retryamqp: %w", err)
	}
	for _, q := range []queue{r.work(), r.dead()} {
		if err := q.declare(channel); err != nil {
			return err // the server has closed the channel
		}
	}
	if err := channel.Close(); err != nil {
		return fmt.Errorf("retryamqp: %w", err)
	}
	return nil
}

// A queue is what a queue is declared with.
type queue struct {
	name string
	args amqp.Table
}

// kept are the properties of a queue whose messages stay until they are
// acknowledged. Newer servers drop one after 20 deliveries if nothing else is said.
var kept = amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(math.MaxInt32)}

func (r *Retries) work() queue { return queue{r.queue, kept} }
func (r *Retries) dead() queue { return queue{r.queue + ".dead", kept} }

// waiting is a queue whose messages go to the work queue after step. It holds each
// until the work queue has it.
func (r *Retries) waiting(step time.Duration) queue {
	return queue{fmt.Sprintf("%s.wait.%dms", r.queue, step.Milliseconds()), amqp.Table{
		"x-queue-type":              "quorum",
		"x-message-ttl":             step.Milliseconds(),
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": r.queue,
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish", // at-least-once needs it
	}}
}

func (q queue) declare(channel *amqp.Channel) error {
	if _, err := channel.QueueDeclare(q.name, true, false, false, false, q.args); err != nil {
		return fmt.Errorf("retryamqp: queue %s: %w", q.name, err)
	}
	return nil
}

// longest is the longest step, near the most that x-message-ttl may be.
const longest = 15 << 28 * time.Millisecond

// stepOf returns the shortest step that is not below delay, or the longest.
func stepOf(delay time.Duration) time.Duration {
	ms := uint64((delay + time.Millisecond - 1) / time.Millisecond)
	if delay >= longest {
		return longest
	}
	if cut := bits.Len64(ms) - 4; cut > 0 { // keep four digits
		ms = (ms + 1<<cut - 1) >> cut << cut
	}
	return time.Duration(ms) * time.Millisecond
}

// Consume handles messages until ctx ends. Then it cancels the contexts of those
// that are being handled, waits for their handlers, gives their messages back,
// and returns nil. If the connection or a channel fails, it does the same, except
// that the server takes the messages back by itself, and returns an error: connect
// and call it again.
//
// handle is called with up to Workers messages at once. conn must not recover by
// itself, because that would leave the transactions behind.
func (r *Retries) Consume(ctx context.Context, conn *amqp.Connection, handle func(context.Context, amqp.Delivery) error) error {
	if conn.IsRecoveryEnabled() {
		return errors.New("retryamqp: the connection recovers by itself: connect without Recovery, and again when Consume fails")
	}
	if err := r.consume(ctx, conn, handle); err != nil {
		return fmt.Errorf("retryamqp: %w", err)
	}
	return nil
}

// consume handles messages on one channel. With more of them, a message of a
// worker that was killed would be handed to its other channels while the server
// closes them, and each time that counts.
func (r *Retries) consume(ctx context.Context, conn *amqp.Connection, handle func(context.Context, amqp.Delivery) error) (err error) {
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	defer func() {
		if closed := channel.Close(); err == nil {
			err = closed
		}
	}()
	if err := channel.Tx(); err != nil {
		return err
	}
	workers := r.Workers
	if workers <= 0 {
		workers = 10
	}
	if err := channel.Qos(workers, 0, false); err != nil {
		return err
	}
	deliveries, err := channel.Consume(r.queue, consumerTag, false, false, false, false, nil)
	if err != nil {
		return err
	}
	parent := ctx
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	w := &worker{Retries: r, conn: conn, channel: channel, returned: channel.NotifyReturn(make(chan amqp.Return, 1)), ready: map[string]bool{}}
	var running sync.WaitGroup // at most workers, for the server sends no more
	for ctx.Err() == nil {
		select {
		case d, ok := <-deliveries:
			if !ok {
				fail(errors.New("the server has closed the channel"))
				continue
			}
			running.Go(func() {
				if err := w.one(ctx, d, handle); err != nil {
					fail(fmt.Errorf("message %q, attempt %d: %w", d.MessageId, AttemptOf(d), err))
				}
			})
		case <-ctx.Done():
		}
	}
	stopped := w.stop(deliveries)
	running.Wait()
	if parent.Err() == nil {
		return context.Cause(ctx)
	}
	return errors.Join(stopped, w.giveBack())
}

const consumerTag = "retry" // the channel has one consumer

// A worker has the channel, which is for one goroutine at a time.
type worker struct {
	*Retries
	mu          sync.Mutex
	conn        *amqp.Connection
	channel     *amqp.Channel // in transactions
	returned    chan amqp.Return
	ready       map[string]bool // queues, by name
	interrupted []amqp.Delivery
}

// stop ends the consumer. What comes until the server has confirmed that is
// interrupted before it began.
func (w *worker) stop(deliveries <-chan amqp.Delivery) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.channel.Cancel(consumerTag, false); err != nil {
		return err
	}
	for d := range deliveries {
		w.interrupted = append(w.interrupted, d)
	}
	return nil
}

// giveBack gives back what was interrupted. Call it after stop: the server would
// send it here again.
func (w *worker) giveBack() error {
	for _, d := range w.interrupted {
		m, _ := read(d) // what is malformed is reported where it is handled
		if err := w.move(m, w.work(), m.attempt-1, nil); err != nil {
			return fmt.Errorf("giving message %q back: %w", d.MessageId, err)
		}
	}
	return nil
}

// one makes an attempt of a message.
func (w *worker) one(ctx context.Context, d amqp.Delivery, handle func(context.Context, amqp.Delivery) error) error {
	if _, probe := d.Headers[probeHeader]; probe {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.done(d)
	}
	m, malformed := read(d)
	if left := time.Until(m.due); left > 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.wait(m, left, m.attempt-1)
	}
	var err error
	retryjob.Run(ctx, w.of(d.Type), retryjob.Job{
		Key:         d.MessageId,
		Attempt:     m.attempt,
		MaxAttempts: m.limit,
		Began:       m.began,
	}, func(ctx context.Context) error {
		if malformed != nil {
			return retry.Permanent(malformed)
		}
		return handle(ctx, d)
	}, func(o retryjob.Outcome) { err = w.settle(m, o) })
	return err
}

// settle tells the server what follows an attempt.
func (w *worker) settle(m message, o retryjob.Outcome) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case o.Err == nil:
		return w.done(m.Delivery)
	case o.Interrupted():
		w.interrupted = append(w.interrupted, m.Delivery)
		return nil
	case o.Retry():
		return w.wait(m, o.Delay, m.attempt)
	default:
		var failure *retry.Error
		errors.As(o.Err, &failure)
		return w.move(m, w.dead(), failure.Attempts, amqp.Table{
			reasonHeader: o.Reason.String(),
			errorHeader:  shorten(o.Err.Error()),
		})
	}
}

// done ends a message.
func (w *worker) done(d amqp.Delivery) error {
	if err := d.Ack(false); err != nil {
		return err
	}
	return w.channel.TxCommit()
}

// wait lets a message wait for delay, and be handed out after so many attempts
// then.
func (w *worker) wait(m message, delay time.Duration, attempts int) error {
	switch step := stepOf(delay); {
	case delay <= 0:
		return w.move(m, w.work(), attempts, nil)
	case step < delay:
		return w.move(m, w.waiting(step), attempts, amqp.Table{dueHeader: time.Now().Add(delay).UnixMilli() + 1})
	default:
		return w.move(m, w.waiting(step), attempts, nil)
	}
}

// move puts a message from the work queue into another, in one transaction.
func (w *worker) move(m message, to queue, attempts int, headers amqp.Table) error {
	copied := m.publishing(attempts, headers)
	if err := w.publish(to, copied); err != nil {
		return err
	}
	if err := m.Ack(false); err != nil {
		return err
	}
	for {
		if err := w.channel.TxCommit(); err != nil {
			return err
		}
		select {
		case <-w.returned: // the queue was deleted, and the message is nowhere else
			delete(w.ready, to.name)
			if err := w.publish(to, copied); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (w *worker) publish(to queue, p amqp.Publishing) error {
	if !w.ready[to.name] {
		if err := w.prepare(to); err != nil {
			return fmt.Errorf("queue %s: %w", to.name, err)
		}
		w.ready[to.name] = true
	}
	return w.channel.PublishWithContext(context.Background(), "", to.name, true, false, p)
}

// prepare declares a queue and waits until it stores messages. While another
// worker declares it, it is there but refuses them, and RabbitMQ commits a
// transaction all the same, which loses the message. So the first message is a
// probe that the server confirms. It is dropped when it comes to the work queue.
func (w *worker) prepare(to queue) error {
	if err := to.declare(w.channel); err != nil {
		return err
	}
	if to.name == w.queue || to.name == w.dead().name {
		return nil // Declare came before, and a probe would stay among the dead letters.
	}
	channel, err := w.conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	policy := retry.Policy{MaxAttempts: 10, Backoff: retry.Exponential{Base: 20 * time.Millisecond}}
	err = retry.Do(context.Background(), policy, func(ctx context.Context) error {
		confirmed, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", to.name, false, false, amqp.Publishing{Headers: amqp.Table{probeHeader: true}})
		switch {
		case err != nil:
			return retry.Permanent(err)
		case !confirmed.Wait():
			return errors.New("it refuses messages")
		default:
			return nil
		}
	})
	return errors.Join(err, channel.Close())
}

// A message is a delivery and what its headers say.
type message struct {
	amqp.Delivery
	attempt    int       // this one
	limit      int       // its own; 0: none
	began, due time.Time // a zero due is now
}

// read returns a message, and what is wrong with its headers.
func read(d amqp.Delivery) (message, error) {
	m := message{Delivery: d, attempt: AttemptOf(d), began: d.Timestamp}
	var errs []error
	get := func(name string) int64 {
		n, err := number(d.Headers, name)
		errs = append(errs, err)
		return n
	}
	if began := get(beganHeader); began > 0 && !isDead(d) {
		m.began = time.UnixMilli(began)
	}
	if m.began.IsZero() {
		m.began = time.Now()
	}
	if due := get(dueHeader); due > 0 {
		m.due = time.UnixMilli(due)
	}
	if m.limit = int(get(MaxAttemptsHeader)); m.limit < 0 {
		errs = append(errs, fmt.Errorf("header %s is %d: write a whole number from 1 on", MaxAttemptsHeader, m.limit))
	}
	return m, errors.Join(errs...)
}

// publishing returns a copy of m for another queue. What would send it elsewhere,
// end it before it is due, or belongs to its time in this queue, is left out.
func (m message) publishing(attempts int, headers amqp.Table) amqp.Publishing {
	all := amqp.Table{}
	for name, value := range m.Headers {
		switch {
		case strings.HasPrefix(name, "x-"), name == "CC", name == "BCC":
		case name == dueHeader, name == reasonHeader, name == errorHeader:
		default:
			all[name] = value
		}
	}
	all[attemptsHeader] = int64(attempts)
	all[beganHeader] = m.began.UnixMilli()
	maps.Copy(all, headers)
	return amqp.Publishing{
		Headers: all, DeliveryMode: amqp.Persistent,
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, Priority: m.Priority,
		CorrelationId: m.CorrelationId, ReplyTo: m.ReplyTo, MessageId: m.MessageId,
		Timestamp: m.Timestamp, Type: m.Type, AppId: m.AppId, Body: m.Body,
	}
}

// shorten returns as much of a text as fits into the headers of a message, which
// are one frame.
func shorten(text string) string {
	const most = 16 << 10
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
