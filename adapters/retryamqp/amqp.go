// Package retryamqp retries the messages of a RabbitMQ queue according to a
// [retry.Policy]. If a handler fails, the policy decides whether and when the message is
// handled again. A message that is not retried becomes a dead letter that says why.
//
//	retries, err := retryamqp.New(policy, "amqp://localhost", "orders")
//	if err != nil {
//		return err
//	}
//	if err := retries.Declare(ctx); err != nil {
//		return err
//	}
//	return retries.Consume(ctx, func(ctx context.Context, d amqp.Delivery) error {
//		return send(ctx, d.Body)
//	})
//
// # Queues
//
// The package declares its own queues and uses no others. All of them are quorum queues.
//
//	queue               what it holds
//	orders              messages to handle: publish to it, or bind it to exchanges
//	orders.dead         dead letters: DeadLetterOf reads them
//	orders.wait.1024ms  messages that wait for 1024 ms; each delay has such a queue
//
// A wait queue is declared when a message first needs it. RabbitMQ delivers the messages
// of a queue in order. If delays shared a queue, short delays would wait for long ones.
//
// Delays are rounded up to one of eight steps between a power of two milliseconds and the
// next power, so they are at most an eighth longer than the policy says. A delay above a
// year becomes a year. Do not limit the length of these queues.
//
// # What happens to a message
//
// The handler must not acknowledge the message. If the handler returns nil, the package
// acknowledges the message. If the handler fails, the package copies the message to the
// queue for its delay or to the dead letters. It acknowledges the message when that queue
// has stored the copy, so no message is lost. If the worker is killed or the connection
// breaks before the acknowledgment, the message is in both queues. Then its handler may
// run more often than the policy says.
//
// If a handler panics, the attempt has failed. The panic is not recovered, and Consume
// takes no more messages.
//
// [Retries.Consume] says how attempts are counted. [Retries] says what a copy keeps, and
// what happens during an alarm. [Retries.Redrive] moves dead letters back. docs/queues.md
// in the library's repository describes what all queues share.
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
	"github.com/goretry/retry/retryjob"
)

// MaxAttemptsHeader is the header with a message's own limit on attempts, a whole
// number of at least 1. It can only lower the policy's limit.
const MaxAttemptsHeader = "retry-max-attempts"

// The headers of a message that has been handled.
const (
	attemptsHeader = "retry-attempts"    // the number of attempts that have ended
	beganHeader    = "retry-began"       // when MaxElapsed starts to count, in Unix milliseconds
	dueHeader      = "retry-due"         // when a wait longer than its step ends, in Unix milliseconds
	classesHeader  = "retry-classes"     // the number of failed attempts of each class, as JSON
	deadHeader     = "retry-dead-letter" // why a message is a dead letter, as JSON
	leftOutHeader  = "retry-left-out"    // which parts of its message a dead letter lacks
)

// DeadLetterOf returns the dead letter that the headers of a message describe. It returns
// an error if the header of a dead letter is missing or cannot be read.
func DeadLetterOf(headers amqp.Table) (retryjob.DeadLetter, error) {
	text, _ := headers[deadHeader].(string)
	if text == "" {
		return retryjob.DeadLetter{}, fmt.Errorf(
			"retryamqp: not a dead letter: the header %s is missing", deadHeader)
	}
	var d retryjob.DeadLetter
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return retryjob.DeadLetter{}, fmt.Errorf("retryamqp: header %s: %w", deadHeader, err)
	}
	return d, nil
}

// AttemptOf returns the number of the attempt that a delivery is for. The first attempt
// is 1. A dead letter that was moved back to the queue starts again at 1.
func AttemptOf(d amqp.Delivery) int {
	ended, _ := number(d.Headers, attemptsHeader) // the handling of the message reports an error
	if isDead(d) {
		ended = 0
	}
	cut, _ := number(d.Headers, "x-delivery-count") // the first delivery lacks this header
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
	n, err := strconv.ParseInt(fmt.Sprint(value), 10, 64) // AMQP has several types of numbers
	if err != nil {
		return 0, fmt.Errorf("header %s is %.100v: write a whole number", name, value)
	}
	return n, nil
}

// Retries handles messages according to policies. Set its fields and policies before the
// first Consume. After that, Retries is safe for concurrent use.
//
// # What a copy keeps
//
// A message that is retried or becomes a dead letter is copied to another queue. The copy
// keeps the headers and the properties of the message, with these exceptions:
//
//   - Expiration is removed, because it would end the wait early.
//   - UserId is removed, because RabbitMQ refuses the UserId of another user.
//   - Each copy is persistent.
//   - The headers CC and BCC are removed, and so are headers in which RabbitMQ or a plugin
//     records the path of a message, such as x-death, x-opt-* and x-delay.
//
// A copy needs up to 12 KiB more in its headers, and RabbitMQ accepts 128 KiB. A message
// that leaves no room for these headers is not retried. It becomes a dead letter without
// its headers, and the header retry-left-out says so. A body that is larger than a
// lowered max_message_size is left out too.
//
// # Two connections, and alarms
//
// During a memory or disk alarm RabbitMQ reads nothing from a connection that publishes. So
// each Consume and each Redrive opens two connections. One connection gets messages and
// acknowledges them, and the other connection publishes the copies. During an alarm, a
// message that succeeds is acknowledged. A message that fails waits with its worker until
// the alarm is over. If as many messages wait as there are Workers, they hold up all other
// messages. If Consume or Redrive ends meanwhile, RabbitMQ may still store the unconfirmed
// copy when the alarm is over. Then the message is in both queues.
//
// The package opens both connections itself, from a URL. Nobody else may publish on the
// connection that acknowledges, and only the owner of a connection can cut it while RabbitMQ
// does not read it.
type Retries struct {
	// Workers is how many messages one Consume handles at once, at most 65,535. Zero and
	// below mean 10. Copies are sent to the server one after the other.
	Workers int

	// Config has the TLS settings, the logins and the name of the connections, for
	// [amqp.DialConfig]. The zero value connects as [amqp.Dial] does. Recovery must be nil:
	// messages that were delivered before a recovery cannot be acknowledged after it. If
	// Dial is set, it can choose between servers, and must limit its own time.
	Config amqp.Config

	policies retryjob.Policies
	url      string
	uri      amqp.URI
	queue    string
}

// New returns Retries that apply policy to each message of queue on the server at url. It
// returns an error if policy is invalid, or has none of MaxAttempts, MaxRetries and
// MaxElapsed. It does not connect.
func New(policy retry.Policy, url, queue string) (*Retries, error) {
	policies, err := retryjob.NewPolicies("retryamqp", policy)
	if err != nil {
		return nil, err
	}
	uri, err := amqp.ParseURI(url)
	if err != nil { // the error may contain a part of the password
		return nil, errors.New("retryamqp: the URL of the server cannot be read: " +
			"write amqp://user:password@host:5672/vhost, and % and two digits for special characters")
	}
	const longestName = 255 - len(".wait.4026531840ms")
	if queue == "" || len(queue) > longestName {
		return nil, fmt.Errorf("retryamqp: the name of the queue has %d bytes: write 1 to %d, "+
			"because the names of its wait queues are longer", len(queue), longestName)
	}
	return &Retries{policies: policies, url: url, uri: uri, queue: queue}, nil
}

// SetType sets the policy for messages whose property Type is typename. It returns an error
// if policy is invalid, or has none of MaxAttempts, MaxRetries and MaxElapsed.
func (r *Retries) SetType(typename string, policy retry.Policy) error {
	return r.policies.Set("retryamqp: type", typename, policy)
}

// Declare declares the queue for the messages and the queue for the dead letters. It
// returns an error if a queue of the same name has other properties.
func (r *Retries) Declare(ctx context.Context) error {
	in, err := r.connect(ctx)
	if err != nil {
		return fmt.Errorf("retryamqp: %w", err)
	}
	defer in.end()
	if err := in.until(ctx, func() error {
		channel, err := in.Channel()
		if err != nil {
			return err
		}
		return cmp.Or(r.work().declare(channel), r.dead().declare(channel))
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

// kept has the arguments for a queue whose messages stay until they are acknowledged.
// Without x-delivery-limit, servers from 4.0 on drop a message after 20 deliveries.
var kept = amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(math.MaxInt32)}

func (r *Retries) work() queue { return queue{r.queue, kept} }
func (r *Retries) dead() queue { return queue{r.queue + ".dead", kept} }

// waiting returns a queue whose messages move to the work queue after step. The wait queue
// keeps each message until the work queue has stored the message.
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

// stepOf returns the shortest step of at least delay. If delay exceeds longest, stepOf
// returns longest.
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

// Consume connects, and handles messages until ctx is done. Then it cancels the contexts of
// the handlers, waits until they have returned, gives their messages back, and returns nil.
//
// Consume also waits for the handlers, and returns an error, if a connection or a channel
// fails, if the server cancels the consumer, or if a queue does not accept a message. The
// server then takes back all messages that were not acknowledged. Call Consume again after
// an error. Consume refuses queues whose properties differ from those that Declare sets.
//
// handle is called for up to Workers messages at once. It must not acknowledge the
// messages. It must not change their headers and bodies, because the copies share them.
//
// After the handlers have returned, Consume returns within some seconds, whatever the server
// does. If the server does not confirm a copy within 5 seconds after the end of ctx, Consume
// returns an error. The server then delivers the message again, and counts the attempt.
//
// # How attempts are counted
//
// A header of the message counts the attempts that have ended. The server counts the
// attempts whose worker was killed, and delivers their messages again as soon as the
// connection breaks. An attempt that is interrupted because Consume stops is not
// counted. Another header counts the failures of each [retry.Class].
//
// The header [MaxAttemptsHeader] of a message can lower the policy's limit for this message.
// A message whose headers cannot be read becomes a dead letter without being handled. The
// MessageId names the message in logs, and is the seed of its delays. MaxElapsed counts from
// the Timestamp, which is in whole seconds. Without a Timestamp, MaxElapsed counts from the
// start of the first attempt that its worker survived.
//
// RabbitMQ takes a message back from its handler after 30 minutes, unless its
// consumer_timeout says otherwise. Set an AttemptTimeout below that.
func (r *Retries) Consume(
	ctx context.Context, handle func(context.Context, amqp.Delivery) error,
) error {
	err := r.use(ctx, 5*time.Second, func(w *worker) error { return w.consume(ctx, handle) })
	if err == nil || errors.Is(err, context.Cause(ctx)) { // ctx may end before there is a connection
		return nil
	}
	return fmt.Errorf("retryamqp: %w", err)
}

// use calls f with a worker that is connected. The worker has one channel: with several
// channels, the server would deliver the messages of a killed worker to its other channels
// while it closes them, and each delivery would be counted as an attempt.
func (r *Retries) use(ctx context.Context, grace time.Duration, f func(*worker) error) (err error) {
	in, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer in.end()
	w := &worker{Retries: r, in: in, copies: copies{connect: r.connect, grace: grace}}
	if err := in.until(ctx, func() (err error) {
		w.channel, err = in.Channel()
		return err
	}); err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, w.ask(ctx, w.channel.Close)) }()
	defer w.copies.end() // each copy has been confirmed, or never will be
	if err := w.copies.open(ctx); err != nil {
		return err
	}
	return f(w)
}

// consume handles messages until ctx is done or something fails.
func (w *worker) consume(
	ctx context.Context, handle func(context.Context, amqp.Delivery) error,
) error {
	deliveries, err := w.start(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var failure error // the first failure
	var failed sync.Once
	fail := func(err error) {
		failed.Do(func() { failure = err })
		stop()
	}
	var running sync.WaitGroup // at most Workers, because the server sends no more at once
	for ctx.Err() == nil {
		select {
		case d, ok := <-deliveries:
			if !ok {
				fail(w.ended(ctx))
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
	stopped := w.stop(ctx, deliveries)
	running.Wait()
	if stopped != nil || w.channel.IsClosed() { // the server takes back the messages of a lost channel
		return cmp.Or(failure, stopped)
	}
	return errors.Join(failure, w.giveBack(ctx))
}

// start asks the server for messages. Before the first message, it refuses a queue with other
// arguments. For example, a classic queue does not count the attempts of killed workers.
func (w *worker) start(ctx context.Context) (deliveries <-chan amqp.Delivery, err error) {
	w.closed = w.channel.NotifyClose(make(chan *amqp.Error, 1))
	w.canceled = w.channel.NotifyCancel(make(chan string, 1))
	err = w.ask(ctx, func() error {
		if _, err := w.channel.QueueDeclarePassive(w.queue, true, false, false, false, nil); err != nil {
			return err // declaring the queue would hide that it is not bound to an exchange
		}
		if err := cmp.Or(w.work().declare(w.channel), w.dead().declare(w.channel)); err != nil {
			return err
		}
		// Qos sends the number in two bytes, and takes 0 for no limit.
		workers := min(cmp.Or(max(0, w.Workers), 10), math.MaxUint16)
		if err := w.channel.Qos(workers, 0, false); err != nil {
			return err
		}
		deliveries, err = w.channel.Consume(w.queue, consumerTag, false, false, false, false, nil)
		return err
	})
	return deliveries, err
}

// ended returns why the server sends no more messages.
func (w *worker) ended(ctx context.Context) error {
	if w.channel.IsClosed() {
		return fmt.Errorf("the channel was closed: %w", cmp.Or(<-w.closed, amqp.ErrClosed))
	}
	select {
	case <-w.canceled:
	default:
		// No message says that the server has canceled the consumer, so this worker did.
		return errors.New("a handler has called runtime.Goexit")
	}
	var gone *amqp.Error
	if err := w.ask(ctx, func() error {
		channel, err := w.in.Channel() // the search for a missing queue closes its channel
		if err == nil {
			_, err = channel.QueueDeclarePassive(w.queue, true, false, false, false, nil)
		}
		return err
	}); errors.As(err, &gone) && gone.Code == amqp.NotFound {
		return fmt.Errorf("the server has canceled the consumer, because queue %s was deleted: "+
			"call Declare, and bind the queue again", w.queue)
	}
	return fmt.Errorf("the server has canceled the consumer of queue %s, which exists: "+
		"it was deleted and declared again, or is not available", w.queue)
}

const consumerTag = "retry" // the channel has one consumer

// A worker has two connections: in never publishes, and the connection in copies only publishes.
type worker struct {
	*Retries
	in       *link
	channel  *amqp.Channel // gets messages, and acknowledges them
	closed   chan *amqp.Error
	canceled chan string // receives the tag if the server cancels the consumer
	copies   copies

	mu          sync.Mutex // guards interrupted, and the cancellation of the consumer
	interrupted []amqp.Delivery
}

// ask runs f, which waits for the server, until the grace period after ctx is done.
func (w *worker) ask(ctx context.Context, f func() error) error {
	ctx, stop := lasting(ctx, w.copies.grace)
	defer stop()
	return w.in.until(ctx, f)
}

// cancel cancels the consumer.
func (w *worker) cancel(ctx context.Context) error {
	return w.ask(ctx, func() error { return w.channel.Cancel(consumerTag, false) })
}

// stop cancels the consumer. Messages that arrive before the server confirms the
// cancellation are not handled, but added to w.interrupted.
func (w *worker) stop(ctx context.Context, deliveries <-chan amqp.Delivery) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.cancel(ctx); err != nil {
		return err
	}
	for d := range deliveries {
		w.interrupted = append(w.interrupted, d)
	}
	return nil
}

// giveBack returns the interrupted messages to their queues, so that their attempts are not
// counted. Call giveBack after stop, or the server would deliver the messages here again.
func (w *worker) giveBack(ctx context.Context) error {
	for _, d := range w.interrupted {
		m, malformed := read(d)
		var err error
		if malformed == nil { // a copy would lack the headers that cannot be read
			err = w.wait(ctx, m, max(0, time.Until(m.due)), m.attempt-1)
		}
		if malformed != nil || errors.Is(err, errTooLarge) { // the server then counts the attempt
			err = w.ask(ctx, func() error { return d.Nack(false, true) })
		}
		if err != nil {
			return fmt.Errorf("giving message %q back: %w", d.MessageId, err)
		}
	}
	return nil
}

// one makes one attempt to handle a message.
func (w *worker) one(
	ctx context.Context, d amqp.Delivery, handle func(context.Context, amqp.Delivery) error,
) error {
	m, malformed := read(d)
	if left := time.Until(m.due); left > 0 && malformed == nil {
		malformed = w.wait(ctx, m, left, m.attempt-1)
		if !errors.Is(malformed, errTooLarge) {
			return malformed
		}
	}
	var err error
	retryjob.Run(ctx, w.policies.Of(d.Type), m.job(), func(ctx context.Context) error {
		if malformed != nil {
			return retry.Permanent(malformed)
		}
		return handle(ctx, d)
	}, func(o retryjob.Outcome) { err = w.settle(ctx, m, o) })
	return err
}

// settle tells the server the Outcome of an attempt.
func (w *worker) settle(ctx context.Context, m message, o retryjob.Outcome) error {
	waits := ctx
	if errors.Is(o.Err, retryjob.ErrPanicked) { // a panicking process must not wait out an alarm
		var stop context.CancelFunc
		waits, stop = context.WithCancel(ctx)
		stop()
	}
	switch {
	case o.Err == nil:
		return w.ask(ctx, func() error { return m.Ack(false) })
	case o.Interrupted():
		w.mu.Lock()
		defer w.mu.Unlock()
		w.interrupted = append(w.interrupted, m.Delivery)
		return nil
	case o.Retry():
		m.classes = o.Classes
		if waits != ctx {
			// The panic ends the process. A message that arrives until then would use up an
			// attempt, so the worker stops receiving first.
			if err := w.leave(waits); err != nil {
				return err
			}
		}
		err := w.wait(waits, m, o.Delay, m.attempt)
		if errors.Is(err, errTooLarge) { // the policy decided without knowing this
			p := w.policies.Of(m.Type)
			p.Budget.Refund()
			err = fmt.Errorf("%w; it cannot be retried: %w", retry.Unwrap(o.Err), retry.Unwrap(err))
			return w.bury(waits, m, retryjob.Decide(ctx, p, m.job(), retry.Permanent(err)))
		}
		return err
	default:
		return w.bury(waits, m, o)
	}
}

// leave cancels the consumer, so that the server sends no more messages.
func (w *worker) leave(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cancel(ctx)
}

// bury moves a message to the dead letters. If the dead letter is too large, bury leaves out
// the headers of the message, and then also its body.
func (w *worker) bury(ctx context.Context, m message, o retryjob.Outcome) error {
	dead, headers := o.DeadLetter(m.job()), amqp.Table{}
	for _, leftOut := range []string{"", "headers", "headers and body"} {
		if leftOut != "" {
			m.Headers, headers[leftOutHeader] = nil, leftOut
			dead.Err = strings.ToValidUTF8(dead.Err[:min(len(dead.Err), 1<<10)], "")
		}
		if leftOut == "headers and body" {
			m.Body = nil
		}
		text, err := json.Marshal(dead)
		if err != nil {
			return err
		}
		headers[deadHeader] = string(text)
		if err := w.move(ctx, m, w.dead(), o.Attempts, headers); !errors.Is(err, errTooLarge) {
			return err
		}
	}
	return errTooLarge
}

// longestDelay is the longest delay of a message. A message that is due later could outlive
// its queue.
const longestDelay = 365 * 24 * time.Hour

// wait moves a message to the queue for delay. attempts is how many attempts have ended when
// the message is delivered again.
func (w *worker) wait(ctx context.Context, m message, delay time.Duration, attempts int) error {
	delay = min(delay, longestDelay)
	switch step := stepOf(delay); {
	case delay <= 0:
		return w.move(ctx, m, w.work(), attempts, nil)
	case step < delay:
		due := time.Now().Add(delay).UnixMilli() + 1
		return w.move(ctx, m, w.waiting(step), attempts, amqp.Table{dueHeader: due})
	default:
		return w.move(ctx, m, w.waiting(step), attempts, nil)
	}
}

// move puts a message from one queue into another.
func (w *worker) move(
	ctx context.Context, m message, to queue, attempts int, headers amqp.Table,
) error {
	w.copies.mu.Lock()
	defer w.copies.mu.Unlock()
	if w.channel.IsClosed() || w.in.isCut() { // the message can no longer be acknowledged
		return fmt.Errorf("queue %s: %w", to.name, amqp.ErrClosed)
	}
	if err := w.publish(ctx, to, m.publishing(attempts, headers)); err != nil {
		return fmt.Errorf("queue %s: %w", to.name, err)
	}
	return w.ask(ctx, func() error { return m.Ack(false) })
}

// errTooLarge is the error for a message that is too large to be copied.
var errTooLarge = errors.New("the message is too large to be copied to another queue")

// publish copies a message to a queue.
func (w *worker) publish(ctx context.Context, to queue, p amqp.Publishing) error {
	if size, frame := sizeOf(p), w.in.Config.FrameSize; frame > 0 && size > frame {
		return fmt.Errorf("%w: its headers need %d bytes, and a frame has %d",
			errTooLarge, size, frame)
	}
	return w.copies.publish(ctx, to, p)
}

// added is how many bytes are left for the headers that the server adds when it moves or
// redelivers a copy, such as x-death, which contains the names of queues.
const added = 2 << 10

// sizeOf returns an upper bound for the bytes of the frame that has the headers of p and its
// other properties. A frame that is too long ends the connection of its sender or receiver.
func sizeOf(p amqp.Publishing) int {
	size := added + 64 // 64 for the frame's own fields, and for the properties that are numbers
	for _, text := range []string{
		p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo, p.MessageId, p.Type, p.AppId,
	} {
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
		return 9 // the longest of the other types
	}
}

// A message is a delivery with its headers parsed.
type message struct {
	amqp.Delivery
	attempt    int       // the number of this attempt
	limit      int       // the message's own limit on attempts; 0: none
	began, due time.Time // a zero due means now
	classes    map[string]int
}

func (m message) job() retryjob.Job {
	return retryjob.Job{
		Key:         m.MessageId,
		Attempt:     m.attempt,
		MaxAttempts: m.limit,
		Began:       m.began,
		Classes:     m.classes,
	}
}

// read parses the headers of a delivery. Producers can write all of these headers. read
// corrects impossible counts. If it returns an error, the message is malformed, and becomes
// a dead letter. read returns the message even then.
func read(d amqp.Delivery) (message, error) {
	m := message{Delivery: d, attempt: AttemptOf(d), began: d.Timestamp}
	var errs []error
	get := func(name string) int64 {
		n, err := number(d.Headers, name)
		errs = append(errs, err)
		return n
	}
	get(attemptsHeader)
	m.classes = map[string]int{}
	if text, is := d.Headers[classesHeader].(string); is && !isDead(d) {
		if err := json.Unmarshal([]byte(text), &m.classes); err != nil {
			errs = append(errs, fmt.Errorf("header %s: %w", classesHeader, err))
		}
	}
	if began := get(beganHeader); began > 0 && !isDead(d) {
		m.began = time.UnixMilli(began)
	}
	if now := time.Now(); m.began.IsZero() || m.began.After(now) {
		m.began = now
	}
	if due := get(dueHeader); due > 0 {
		m.due = time.UnixMilli(due)
		// One more day is allowed, because the clock of the header's writer may be ahead.
		if time.Until(m.due) > longestDelay+24*time.Hour {
			errs = append(errs, fmt.Errorf("header %s: due %s, more than a year from now",
				dueHeader, m.due.UTC().Format(time.RFC3339Nano)))
		}
	}
	m.limit = int(get(MaxAttemptsHeader))
	unread := errs[len(errs)-1]
	if unread == nil && m.limit < 1 && d.Headers[MaxAttemptsHeader] != nil {
		errs = append(errs, fmt.Errorf("header %s is %d: write a whole number from 1 on, or leave it out",
			MaxAttemptsHeader, m.limit))
	}
	return m, errors.Join(errs...)
}

// publishing returns a copy of m for another queue. The copy lacks the headers and properties
// that would send it elsewhere, end its wait early, or concern only the present queue.
func (m message) publishing(attempts int, headers amqp.Table) amqp.Publishing {
	all := amqp.Table{}
	for name, value := range m.Headers {
		if !leftOut(name) {
			all[name] = value
		}
	}
	all[attemptsHeader] = int64(attempts)
	all[beganHeader] = m.began.UnixMilli()
	if len(m.classes) > 0 {
		text, _ := json.Marshal(m.classes) // a map of strings to numbers always has a JSON form
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
