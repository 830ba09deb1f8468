package retryamqp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/jobtest"
	"github.com/goretry/retry/adapters/jobtest/servers"
	"github.com/goretry/retry/adapters/retryamqp"
	"github.com/goretry/retry/retryjob"
)

func TestEngine(t *testing.T) { jobtest.Run(t, engine(t)) }

// .ci/soak runs these tests with more jobs and kills.

func TestLoad(t *testing.T) { jobtest.Load(t, engine(t), servers.Amount(t, "RETRY_JOBS", 1000)) }

func TestKills(t *testing.T) {
	t.Parallel()
	jobtest.Kills(t, engine(t), servers.Amount(t, "RETRY_KILLS", 30))
}

func TestRedrive(t *testing.T) {
	t.Parallel()
	jobtest.Redrive(t, engine(t), servers.Amount(t, "RETRY_KILLS", 10))
}

// RabbitMQ restarts under load. It may forget the end of an attempt in this moment, and then
// the attempt runs again. There is no such test with crashes. After some crashes, 3.10.8 does
// not elect a leader for a queue that was declared shortly before the crash, and does not
// answer if a message is published to this queue.
func TestRestarts(t *testing.T) {
	t.Parallel()
	s := servers.RabbitMQ(t)
	e := engineAt("amqp://guest:guest@" + s.Address)
	e.Forgets = true
	jobtest.Restarts(t, e, 200, servers.Amount(t, "RETRY_RESTARTS", 2), func(int) error {
		s.Stop()
		s.Start()
		return nil
	})
}

// Memory alarms begin and end under load, and RabbitMQ restarts during every second alarm. In
// an alarm, only the messages that fail have to wait.
func TestRestartsAndAlarms(t *testing.T) {
	t.Parallel()
	s := servers.RabbitMQ(t)
	e := engineAt("amqp://guest:guest@" + s.Address)
	e.Forgets = true
	jobtest.Restarts(t, e, 200, servers.Amount(t, "RETRY_RESTARTS", 2), func(n int) error {
		s.Control("set_vm_memory_high_watermark", "0.00001")
		if n%2 == 1 {
			s.Stop()
			s.Start() // a restart ends the alarm
			return nil
		}
		s.Control("set_vm_memory_high_watermark", "0.4")
		return nil
	})
}

func serverURL(t *testing.T) string { return servers.Shared(t, "RETRY_TEST_RABBITMQ") }

func engine(t *testing.T) jobtest.Engine { return engineAt(serverURL(t)) }

func engineAt(url string) jobtest.Engine {
	return jobtest.Engine{
		Open:      func(ctx context.Context, name string) (jobtest.Queue, error) { return open(ctx, url, name) },
		Unit:      50 * time.Millisecond,
		Late:      30 * time.Second, // because the machine may be busy; TestSteps checks the delays
		Lease:     10 * time.Second,
		Uncounted: true,
		Repeats:   true,
		Classes:   true,
	}
}

// A queue is a work queue in RabbitMQ with its wait queues and dead letters.
type queue struct {
	name, url string

	mu   sync.Mutex
	conn *amqp.Connection
}

func open(ctx context.Context, url, name string) (*queue, error) {
	q := &queue{name: name, url: url}
	conn, err := q.connect()
	if err != nil {
		return nil, err
	}
	retries, err := retryamqp.New(retry.Default(), url, name)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return q, retries.Declare(ctx)
}

// connect returns the connection of q. If this connection is closed, connect opens a new one.
func (q *queue) connect() (*amqp.Connection, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn != nil && !q.conn.IsClosed() {
		return q.conn, nil
	}
	conn, err := amqp.Dial(q.url)
	if err == nil {
		q.conn = conn // after an error, q.conn stays set, because Close needs it
	}
	return conn, err
}

// do calls f with a channel.
func (q *queue) do(f func(channel *amqp.Channel) error) error {
	conn, err := q.connect()
	if err != nil {
		return err
	}
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := f(channel); err != nil {
		return err
	}
	return channel.Close()
}

// publish publishes a job.
func (q *queue) publish(ctx context.Context, p amqp.Publishing) error {
	return q.publishTo(ctx, q.name, p)
}

// publishTo publishes p to a queue, and waits until the server confirms it.
func (q *queue) publishTo(ctx context.Context, name string, p amqp.Publishing) error {
	return q.do(func(channel *amqp.Channel) error {
		if err := channel.Confirm(false); err != nil {
			return err
		}
		confirmed, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", name, true, false, p)
		if err != nil {
			return err
		}
		if ok, err := confirmed.WaitContext(ctx); err != nil || !ok {
			return fmt.Errorf("not confirmed: %w", err)
		}
		return nil
	})
}

// tenant is a header that each job has in each of its attempts.
const tenant = "x-tenant"

func (q *queue) Enqueue(ctx context.Context, key string, maxAttempts int) error {
	p := amqp.Publishing{MessageId: key, Timestamp: time.Now(), DeliveryMode: amqp.Persistent, Headers: amqp.Table{tenant: key}}
	if maxAttempts > 0 {
		p.Headers[retryamqp.MaxAttemptsHeader] = maxAttempts
	}
	return q.publish(ctx, p)
}

// Plant publishes messages whose headers are as large as a frame, and messages whose headers
// have impossible values.
func (q *queue) Plant(ctx context.Context, keys []string) error {
	large := amqp.Table{"big": strings.Repeat("x", 130_700)}
	late := amqp.Table{"big": large["big"], "retry-due": time.Now().Add(time.Hour).UnixMilli()}
	for i, key := range keys {
		headers := []amqp.Table{large, late, {"retry-attempts": int64(-1)}, {"retry-attempts": int64(1<<63 - 1)}, {"retry-attempts": "many"},
			{"retry-due": int64(1<<63 - 1)}, {"retry-due": int64(253402300799000)}, {"retry-due": int64(-1 << 63)}, {"x-delivery-count": int64(-9)},
			{"retry-began": int64(1<<63 - 1)}, {"retry-classes": "["}, {"retry-classes": `{"a":-9223372036854775808}`},
			{retryamqp.MaxAttemptsHeader: int8(0)}, {"retry-dead-letter": "{}"}}[i%14]
		if err := q.publish(ctx, amqp.Publishing{MessageId: key, DeliveryMode: amqp.Persistent, Headers: headers}); err != nil {
			return err
		}
	}
	return nil
}

// Forge publishes messages to the queue of the dead letters. Some are not dead letters, and others
// lack a part.
func (q *queue) Forge(ctx context.Context, keys []string) error {
	const dead = "retry-dead-letter"
	for i, key := range keys {
		headers := []amqp.Table{nil, {dead: "{"}, {dead: int64(1)}, {dead: `{"attempts":1}`}, {dead: []any{}},
			{dead: `{"reason":"permanent_error"}`, "retry-left-out": "headers"}}[i%6]
		if err := q.publishTo(ctx, q.name+".dead", amqp.Publishing{MessageId: key, DeliveryMode: amqp.Persistent, Headers: headers}); err != nil {
			return err
		}
	}
	return nil
}

func (q *queue) Work(ctx context.Context, p retry.Policy, do func(context.Context, string, int) error) error {
	retries, err := retryamqp.New(p, q.url, q.name)
	if err != nil {
		return err
	}
	return retries.Consume(ctx, func(ctx context.Context, d amqp.Delivery) error {
		if d.Headers[tenant] != d.MessageId && !strings.HasPrefix(d.MessageId, jobtest.PlantedPrefix) {
			return retry.Permanent(fmt.Errorf("the header %s is %v", tenant, d.Headers[tenant]))
		}
		return do(ctx, d.MessageId, retryamqp.AttemptOf(d))
	})
}

// `ready` returns how many messages of a queue wait for a worker.
func (q *queue) ready(name string) (n int, err error) {
	err = q.do(func(channel *amqp.Channel) error {
		inspected, err := channel.QueueDeclarePassive(name, true, false, false, false, nil)
		n = inspected.Messages
		return err
	})
	return n, err
}

// Open returns how many jobs wait for a worker. It need not count a job that a worker has, because
// the worker finishes the job before it stops.
func (q *queue) Open(context.Context) (int, error) { return q.ready(q.name) }

func (q *queue) Dead(ctx context.Context) (map[string]retryjob.DeadLetter, error) {
	letters, forged := map[string]retryjob.DeadLetter{}, 0
	if err := q.do(func(channel *amqp.Channel) error { // closing the channel returns the messages
		for {
			d, ok, err := channel.Get(q.name+".dead", false)
			if err != nil || !ok {
				return err
			}
			if strings.HasPrefix(d.MessageId, jobtest.ForgedPrefix) {
				forged++
				continue
			}
			l, err := retryamqp.DeadLetterOf(d.Headers)
			if err != nil {
				return err
			}
			key := d.MessageId
			for letters[key].Reason != "" {
				key += ", again"
			}
			letters[key] = l
		}
	}); err != nil {
		return nil, err
	}
	return letters, q.untilDead(ctx, len(letters)+forged)
}

// untilDead waits until n dead letters are in their queue again.
func (q *queue) untilDead(ctx context.Context, n int) error {
	p := retry.Policy{MaxElapsed: 10 * time.Second, Backoff: retry.Fixed(10 * time.Millisecond)}
	return retry.Do(ctx, p, func(context.Context) error {
		ready, err := q.ready(q.name + ".dead")
		if err == nil && ready < n { // there are more than n if a killed process has given letters back
			err = fmt.Errorf("%d of %d dead letters are back", ready, n)
		}
		return err
	})
}

func (q *queue) Redrive(ctx context.Context, o retryjob.RedriveOptions) (retryjob.RedriveResult, error) {
	retries, err := retryamqp.New(retry.Default(), q.url, q.name)
	if err != nil {
		return retryjob.RedriveResult{}, err
	}
	result, err := retries.Redrive(ctx, o)
	if o.OnProgress != nil && !o.DryRun { // other processes may be killed meanwhile
		return result, err
	}
	left := result.Skipped
	if o.DryRun {
		left = result.Found
	}
	return result, errors.Join(err, q.untilDead(ctx, left))
}

func (q *queue) Close(_ context.Context, remove bool) error {
	var err error
	if remove {
		err = q.do(func(channel *amqp.Channel) error {
			names := []string{q.name, q.name + ".dead", fmt.Sprintf("%s.wait.%dms", q.name, retryamqp.StepOf(5*time.Hour).Milliseconds())}
			for ms := 1; ms <= 4096; ms++ { // no test has a longer delay
				if retryamqp.StepOf(time.Duration(ms)*time.Millisecond) == time.Duration(ms)*time.Millisecond {
					names = append(names, fmt.Sprintf("%s.wait.%dms", q.name, ms))
				}
			}
			for _, name := range names { // deleting a queue that does not exist is no error
				if _, err := channel.QueueDelete(name, false, false, false); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return errors.Join(err, q.conn.Close())
}
