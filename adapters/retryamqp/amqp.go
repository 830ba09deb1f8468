// Package retryamqp retries the messages of a RabbitMQ queue by a [retry.Policy].
// When a handler fails, the policy decides whether and when its message is handled
// again. A message that is not retried becomes a dead letter with the reason.
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
// The package declares its own queues and uses no others. All are quorum queues.
//
//   - "orders" has the messages to handle: publish to it, or bind it to exchanges.
//   - "orders.dead" has the dead letters, which [DeadLetterOf] reads.
//   - Queues like "orders.wait.1024ms", one for each delay, have the messages that
//     wait. They are declared when they are first needed. A queue delivers its
//     messages in order, so in a shared queue short delays would wait behind long
//     ones.
//
// Delays are rounded up to one of eight steps between a power of two milliseconds
// and the next, so they are at most an eighth longer than the policy says. A delay above
// a year is a year. Do not limit the length of these queues.
//
// # What happens to a message
//
// The handler must not acknowledge the message. If it returns nil, the message is
// acknowledged. If it fails, the message moves to the queue for its delay, or to
// the dead letters: it is acknowledged when the other queue has stored its copy. So
// none is lost. If the worker is killed, or the connection breaks, between the two, the
// message is in both queues, and its handler may run more often than the policy
// says, as for any message of RabbitMQ that was handled and not acknowledged.
// [Retries.Consume] says how attempts are counted, docs/queues.md in the library's
// repository what all queues share. If a handler panics, that is a failure of the attempt,
// the panic is not recovered, and Consume takes no more messages.
//
// A copy needs up to 12 KiB more in its headers, and RabbitMQ takes 128 KiB. A message
// that leaves no room for them is not retried. It becomes a dead letter without its headers,
// and the header retry-left-out says so. A body that RabbitMQ no longer takes, because
// its max_message_size was lowered, is left out too.
//
// [Retries.Redrive] moves dead letters back.
package retryamqp

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/goretry/retry/internal/jobqueue"
	"github.com/goretry/retry/retryjob"
)

// MaxAttemptsHeader is the header with a message's own limit on attempts, a whole
// number of at least 1.
const MaxAttemptsHeader = "retry-max-attempts"

// The headers of a message that has been handled.
const (
	attemptsHeader = "retry-attempts"    // the number of attempts that have ended
	beganHeader    = "retry-began"       // when MaxElapsed starts to count, in Unix milliseconds
	dueHeader      = "retry-due"         // when a delay longer than the longest step ends, in Unix milliseconds
	classesHeader  = "retry-classes"     // how many attempts failed with an error of each class, as JSON
	deadHeader     = "retry-dead-letter" // why a message is a dead letter, as JSON
	leftOutHeader  = "retry-left-out"    // what of its message a dead letter has no room for
)

// DeadLetterOf reads the header of a dead letter.
func DeadLetterOf(headers amqp.Table) (retryjob.DeadLetter, error) {
	text, _ := headers[deadHeader].(string)
	return jobqueue.LetterOf("retryamqp", deadHeader, text)
}

// AttemptOf returns the number of the attempt that a delivery is for, 1 for the
// first. A dead letter that was moved back to the queue starts again at 1.
func AttemptOf(d amqp.Delivery) int {
	ended, _ := number(d.Headers, attemptsHeader) // an error is reported when the message is handled
	if isDead(d) {
		ended = 0
	}
	cut, _ := number(d.Headers, "x-delivery-count") // the server writes it, but not for the first delivery
	const most = math.MaxInt32 / 2
	return 1 + int(max(0, min(ended, most))+max(0, min(cut, most)))
}

// isDead reports whether d is, or was, a dead letter.
func isDead(d amqp.Delivery) bool {
	_, dead := d.Headers[deadHeader]
	return dead
}

// number returns the value of a header that is a whole number, 0 if it is missing.
func number(headers amqp.Table, name string) (int64, error) {
	value := headers[name]
	if value == nil {
		return 0, nil
	}
	n, err := strconv.ParseInt(fmt.Sprint(value), 10, 64) // of any of AMQP's types
	if err != nil {
		return 0, fmt.Errorf("header %s is %.100v: write a whole number", name, value)
	}
	return n, nil
}

// Retries handles messages by policies. Set its fields and policies before the
// first Consume; after that it is safe for concurrent use.
type Retries struct {
	// Workers is how many messages one Consume handles at once; 0 means 10. Their
	// results are sent to the server one after the other.
	Workers int

	policies jobqueue.Policies
	queue    string
}

// New returns Retries that apply policy to each message of queue. It returns an
// error if policy is invalid, or has none of MaxAttempts, MaxRetries and MaxElapsed.
func New(policy retry.Policy, queue string) (*Retries, error) {
	policies, err := jobqueue.NewPolicies("retryamqp", policy)
	if err != nil {
		return nil, err
	}
	const longestName = 255 - len(".wait.4026531840ms")
	if queue == "" || len(queue) > longestName {
		return nil, fmt.Errorf("retryamqp: the name of the queue has %d bytes: write 1 to %d, because its wait queues have longer ones", len(queue), longestName)
	}
	return &Retries{policies: policies, queue: queue}, nil
}

// SetType sets the policy for messages whose property Type is typename.
func (r *Retries) SetType(typename string, policy retry.Policy) error {
	return r.policies.Set("retryamqp: type", typename, policy)
}

// Declare declares the queue for the messages and the one for the dead letters. It
// returns an error if a queue of the same name has other properties.
func (r *Retries) Declare(conn *amqp.Connection) error {
	if err := r.use(conn, func(w *worker) error {
		return cmp.Or(r.work().declare(w.channel), r.dead().declare(w.channel))
	}); err != nil {
		return fmt.Errorf("retryamqp: %w", err)
	}
	return nil
}

// A queue holds the arguments of a declaration.
type queue struct {
	name string
	args amqp.Table
}

// kept are the arguments for a queue whose messages stay until they are
// acknowledged. Without the limit, servers from 4.0 on drop a message after 20
// deliveries.
var kept = amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(math.MaxInt32)}

func (r *Retries) work() queue { return queue{r.queue, kept} }
func (r *Retries) dead() queue { return queue{r.queue + ".dead", kept} }

// waiting returns a queue whose messages move to the work queue after step. It
// keeps each message until the work queue has stored it.
func (r *Retries) waiting(step time.Duration) queue {
	return queue{fmt.Sprintf("%s.wait.%dms", r.queue, step.Milliseconds()), amqp.Table{
		"x-queue-type":              "quorum",
		"x-message-ttl":             step.Milliseconds(),
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": r.queue,
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish", // at-least-once requires it
	}}
}

func (q queue) declare(channel *amqp.Channel) error {
	if _, err := channel.QueueDeclare(q.name, true, false, false, false, q.args); err != nil {
		return fmt.Errorf("queue %s: %w", q.name, err)
	}
	return nil
}

// longest is the longest step, close to the maximum of x-message-ttl.
const longest = 15 << 28 * time.Millisecond

// stepOf returns the shortest step of at least delay, or longest if delay is above
// that.
func stepOf(delay time.Duration) time.Duration {
	ms := uint64((delay + time.Millisecond - 1) / time.Millisecond)
	if delay >= longest {
		return longest
	}
	if cut := bits.Len64(ms) - 4; cut > 0 { // keep the four highest bits
		ms = (ms + 1<<cut - 1) >> cut << cut
	}
	return time.Duration(ms) * time.Millisecond
}

var errRecovers = errors.New("retryamqp: the connection recovers by itself, and what was delivered before cannot be acknowledged after it: connect without Recovery, and again after an error")

// Consume handles messages until ctx is done. Then it cancels the contexts of the
// handlers, waits until they have returned, gives their messages back, and returns
// nil. If the connection or the channel fails, or a queue does not take a message, it
// also waits for the handlers, and returns an error: connect again and call it again. The
// server takes back what was not acknowledged.
//
// handle is called for up to Workers messages at once. conn must not have the
// Recovery of its package enabled: what was delivered before it cannot be
// acknowledged after it.
//
// # How attempts are counted
//
// A header of the message counts the attempts that have ended. The server counts
// those whose worker was killed, and delivers their messages again as soon as the
// connection breaks. An attempt that is interrupted because Consume stops is not
// counted. Another header counts the failures of each [retry.Class].
//
// A message may have its own limit in the header [MaxAttemptsHeader], which lowers the
// policy's. A message whose headers cannot be read makes a dead letter without being
// handled. The MessageId names the message in logs and is the seed of its delays.
// MaxElapsed counts from the Timestamp, which is in whole seconds. Without a
// Timestamp it counts from the start of the first attempt that its worker survived.
//
// RabbitMQ takes a message back from its handler after 30 minutes, unless its
// consumer_timeout says otherwise. Set an AttemptTimeout below that.
func (r *Retries) Consume(ctx context.Context, conn *amqp.Connection, handle func(context.Context, amqp.Delivery) error) error {
	if conn.IsRecoveryEnabled() {
		return errRecovers
	}
	if err := r.use(conn, func(w *worker) error { return w.consume(ctx, handle) }); err != nil {
		return fmt.Errorf("retryamqp: %w", err)
	}
	return nil
}

// use calls f with a worker, which has a channel. With several channels, the server would
// deliver the messages of a killed worker to its other channels while it closes them, and
// each delivery would be counted as an attempt.
func (r *Retries) use(conn *amqp.Connection, f func(*worker) error) (err error) {
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	w := &worker{Retries: r, conn: conn, channel: channel}
	defer func() {
		if w.out != nil {
			_ = w.out.Close() // everything that was published has been confirmed
		}
		err = cmp.Or(err, channel.Close())
	}()
	return f(w)
}

// consume handles messages.
func (w *worker) consume(ctx context.Context, handle func(context.Context, amqp.Delivery) error) error {
	if err := w.channel.Qos(cmp.Or(max(0, w.Workers), 10), 0, false); err != nil {
		return err
	}
	deliveries, err := w.channel.Consume(w.queue, consumerTag, false, false, false, false, nil)
	if err != nil {
		return err
	}
	parent := ctx
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	var running sync.WaitGroup // at most workers, because the server sends no more at once
	for ctx.Err() == nil {
		select {
		case d, ok := <-deliveries:
			if !ok {
				why := "a handler has called runtime.Goexit" // so the consumer was canceled
				if w.channel.IsClosed() {
					why = "the server has closed the channel"
				}
				fail(errors.New(why))
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
	err = context.Cause(ctx)
	if parent.Err() != nil {
		err = stopped
	}
	if w.channel.IsClosed() { // the server takes the messages back by itself
		return err
	}
	return errors.Join(err, w.giveBack())
}

const consumerTag = "retry" // the channel has one consumer

// A worker guards its channels, which only one goroutine may use at a time.
type worker struct {
	*Retries
	mu          sync.Mutex
	conn        *amqp.Connection
	channel     *amqp.Channel // gets messages, and acknowledges them
	interrupted []amqp.Delivery

	// What cannot be published closes its channel. So copies have one of their own, and
	// the messages beside them are still acknowledged.
	out      *amqp.Channel // in confirm mode; nil or closed: opened for the next copy
	refused  chan *amqp.Error
	returned chan amqp.Return
}

// open opens the channel for copies, if it must.
func (w *worker) open() (err error) {
	if w.out != nil && !w.out.IsClosed() {
		return nil
	}
	if w.out, err = w.conn.Channel(); err != nil {
		return err
	}
	w.refused = w.out.NotifyClose(make(chan *amqp.Error, 1))
	w.returned = w.out.NotifyReturn(make(chan amqp.Return, 1))
	return w.out.Confirm(false)
}

// stop cancels the consumer. Messages that arrive before the server confirms that
// are not handled, and are interrupted.
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

// giveBack returns the interrupted messages to the work queue. Call it after stop,
// or the server would deliver them here again.
func (w *worker) giveBack() error {
	for _, d := range w.interrupted {
		m, _ := read(d) // a malformed header is reported when the message is handled
		err := w.move(m, w.work(), m.attempt-1, nil)
		if errors.Is(err, errTooLarge) { // then the server counts the attempt
			err = d.Nack(false, true)
		}
		if err != nil {
			return fmt.Errorf("giving message %q back: %w", d.MessageId, err)
		}
	}
	return nil
}

// one makes one attempt to handle a message.
func (w *worker) one(ctx context.Context, d amqp.Delivery, handle func(context.Context, amqp.Delivery) error) error {
	m, malformed := read(d)
	if left := time.Until(m.due); left > 0 && malformed == nil {
		w.mu.Lock()
		malformed = w.wait(m, left, m.attempt-1)
		w.mu.Unlock()
		if !errors.Is(malformed, errTooLarge) {
			return malformed
		}
	}
	var err error
	jobqueue.Run(ctx, w.policies.Of(d.Type), m.job(), malformed, func(ctx context.Context) error {
		return handle(ctx, d)
	}, func(o retryjob.Outcome) { err = w.settle(ctx, m, o) })
	return err
}

// settle tells the server the Outcome of an attempt.
func (w *worker) settle(ctx context.Context, m message, o retryjob.Outcome) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case o.Err == nil:
		return m.Ack(false)
	case o.Interrupted():
		w.interrupted = append(w.interrupted, m.Delivery)
		return nil
	case o.Retry():
		if o.Class != "" {
			m.classes[o.Class]++
		}
		if errors.Is(o.Err, retryjob.ErrPanicked) { // the process may end only after the wait, and then have used up an attempt
			if err := w.channel.Cancel(consumerTag, false); err != nil {
				return err
			}
		}
		err := w.wait(m, o.Delay, m.attempt)
		if errors.Is(err, errTooLarge) { // the policy did not know that; say it
			p := w.policies.Of(m.Type)
			p.Budget.Refund()
			err = fmt.Errorf("%w; it cannot be retried: %w", retry.Unwrap(o.Err), retry.Unwrap(err))
			return w.bury(m, retryjob.Decide(ctx, p, m.job(), retry.Permanent(err)))
		}
		return err
	default:
		return w.bury(m, o)
	}
}

// bury moves a message to the dead letters. What does not fit is left out: if it must,
// its headers, or also its body.
func (w *worker) bury(m message, o retryjob.Outcome) error {
	dead, headers := o.DeadLetter(m.job()), amqp.Table{}
	dead.Err = jobqueue.Shorten(dead.Err, 8<<10) // the headers of a message must fit into one frame
	for _, leftOut := range []string{"", "headers", "headers and body"} {
		if leftOut != "" {
			m.Headers, headers[leftOutHeader] = nil, leftOut
			dead.Err = jobqueue.Shorten(dead.Err, 1<<10)
		}
		if leftOut == "headers and body" {
			m.Body = nil
		}
		text, err := json.Marshal(dead)
		if err != nil {
			return err
		}
		headers[deadHeader] = string(text)
		if err := w.move(m, w.dead(), o.Attempts, headers); !errors.Is(err, errTooLarge) {
			return err
		}
	}
	return errTooLarge
}

// wait moves a message to the queue for delay. attempts is the number of attempts
// that have ended by then.
func (w *worker) wait(m message, delay time.Duration, attempts int) error {
	delay = min(delay, jobqueue.Longest)
	switch step := stepOf(delay); {
	case delay <= 0:
		return w.move(m, w.work(), attempts, nil)
	case step < delay:
		return w.move(m, w.waiting(step), attempts, amqp.Table{dueHeader: time.Now().Add(delay).UnixMilli() + 1})
	default:
		return w.move(m, w.waiting(step), attempts, nil)
	}
}

// move puts a message from one queue into another.
func (w *worker) move(m message, to queue, attempts int, headers amqp.Table) error {
	if err := w.publish(to, m.publishing(attempts, headers)); err != nil {
		return fmt.Errorf("queue %s: %w", to.name, err)
	}
	return m.Ack(false)
}

// untilStored is how publish tries. While another worker is declaring a queue, it exists
// but refuses messages.
var untilStored = retry.Policy{MaxAttempts: 10, Backoff: retry.Exponential{Base: 20 * time.Millisecond}}

// errTooLarge says that a message cannot be copied.
var errTooLarge = errors.New("the message is too large to be copied to another queue")

// publish declares a queue, and waits until that has stored the message. A
// transaction with the acknowledgment would not do: RabbitMQ applies that also if the
// queue refuses the message.
func (w *worker) publish(to queue, p amqp.Publishing) error {
	if size, frame := sizeOf(p), w.conn.Config.FrameSize; frame > 0 && size > frame {
		return fmt.Errorf("%w: its headers need %d bytes, and a frame has %d", errTooLarge, size, frame)
	}
	err := retry.Do(context.Background(), untilStored, func(ctx context.Context) error {
		if err := w.open(); err != nil {
			return retry.Permanent(err)
		}
		if err := to.declare(w.out); err != nil {
			return retry.Permanent(err)
		}
		stored, err := w.out.PublishWithDeferredConfirmWithContext(ctx, "", to.name, true, false, p)
		if err != nil {
			return retry.Permanent(err)
		}
		if !stored.Wait() {
			return w.refusal()
		}
		select {
		case <-w.returned:
			return errors.New("it was deleted")
		default:
			return nil
		}
	})
	return retry.Unwrap(err) // not marked: a loop around Consume connects again
}

// refusal returns why a copy was not stored.
func (w *worker) refusal() error {
	if !w.out.IsClosed() {
		return errors.New("it refuses messages")
	}
	err := <-w.refused
	if err != nil && err.Code == amqp.PreconditionFailed {
		return retry.Permanent(fmt.Errorf("%w: %w", errTooLarge, err))
	}
	return retry.Permanent(cmp.Or(err, amqp.ErrClosed))
}

// added is room for the headers that the server adds when it moves or redelivers a copy,
// such as x-death, which has the names of queues.
const added = 2 << 10

// sizeOf returns at least how many bytes the frame takes that has the headers of p and its
// other properties. A longer one ends the connection, of who sends it or of who gets it.
func sizeOf(p amqp.Publishing) int {
	size := added + 64 // the frame's own fields, and the properties that are numbers
	for _, text := range []string{p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo, p.MessageId, p.Type, p.AppId} {
		size += 1 + len(text)
	}
	return size + sizeOfField(p.Headers)
}

func sizeOfField(value any) (size int) {
	size = 5 // the type and the length
	switch value := value.(type) {
	case string:
		return size + len(value)
	case []byte:
		return size + len(value)
	case []any:
		for _, element := range value {
			size += sizeOfField(element)
		}
		return size
	case amqp.Table:
		for name, element := range value {
			size += 1 + len(name) + sizeOfField(element)
		}
		return size
	default:
		return 9 // the longest of the others
	}
}

// A message is a delivery with its headers parsed.
type message struct {
	amqp.Delivery
	attempt    int       // the number of this attempt
	limit      int       // the message's own limit; 0: none
	began, due time.Time // a zero due means now
	classes    map[string]int
}

func (m message) job() retryjob.Job {
	return retryjob.Job{Key: m.MessageId, Attempt: m.attempt, MaxAttempts: m.limit, Began: m.began, Classes: m.classes}
}

// read parses the headers of a delivery, and returns the message even with an error.
// Producers can write all of them. Impossible counts are corrected. An error is
// final: the message is malformed, and makes a dead letter.
func read(d amqp.Delivery) (message, error) {
	m := message{Delivery: d, attempt: AttemptOf(d), began: d.Timestamp}
	var errs []error
	get := func(name string) int64 {
		n, err := number(d.Headers, name)
		errs = append(errs, err)
		return n
	}
	get(attemptsHeader)
	var classes map[string]int
	if text, is := d.Headers[classesHeader].(string); is && !isDead(d) {
		if err := json.Unmarshal([]byte(text), &classes); err != nil {
			errs = append(errs, fmt.Errorf("header %s: %w", classesHeader, err))
		}
	}
	m.classes = jobqueue.Classes(classes, m.attempt)
	if began := get(beganHeader); began > 0 && !isDead(d) {
		m.began = time.UnixMilli(began)
	}
	if now := time.Now(); m.began.IsZero() || m.began.After(now) {
		m.began = now
	}
	if due := get(dueHeader); due > 0 {
		m.due = time.UnixMilli(due)
		if err := jobqueue.CheckDue(m.due); err != nil {
			errs = append(errs, fmt.Errorf("header %s: %w", dueHeader, err))
		}
	}
	m.limit = int(get(MaxAttemptsHeader))
	if unread := errs[len(errs)-1]; unread == nil && m.limit < 1 && d.Headers[MaxAttemptsHeader] != nil {
		errs = append(errs, fmt.Errorf("header %s is %d: write a whole number from 1 on, or leave it out", MaxAttemptsHeader, m.limit))
	}
	return m, errors.Join(errs...)
}

// publishing returns a copy of m for another queue. It leaves out what would send
// the copy elsewhere or expire it early, and what concerns only this queue.
func (m message) publishing(attempts int, headers amqp.Table) amqp.Publishing {
	all := amqp.Table{}
	for name, value := range m.Headers {
		switch {
		case strings.HasPrefix(name, "x-"), name == "CC", name == "BCC":
		case name == dueHeader, name == deadHeader, name == classesHeader, name == leftOutHeader:
		default:
			all[name] = value
		}
	}
	all[attemptsHeader] = int64(attempts)
	all[beganHeader] = m.began.UnixMilli()
	if len(m.classes) > 0 {
		text, _ := json.Marshal(m.classes) // texts and numbers cannot fail
		all[classesHeader] = string(text)
	}
	maps.Copy(all, headers)
	return amqp.Publishing{
		Headers: all, DeliveryMode: amqp.Persistent,
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, Priority: m.Priority,
		CorrelationId: m.CorrelationId, ReplyTo: m.ReplyTo, MessageId: m.MessageId,
		Timestamp: m.Timestamp, Type: m.Type, AppId: m.AppId, Body: m.Body,
	}
}
