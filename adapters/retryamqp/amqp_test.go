package retryamqp_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryamqp"
	"github.com/goretry/retry/retryjob"
)

func TestNewRefusesAnInvalidPolicy(t *testing.T) {
	const url = "amqp://localhost"
	_, err := retryamqp.New(retry.Policy{MaxAttempts: -2}, url, "orders")
	assert.ErrorContains(t, err, "retryamqp: invalid policy: MaxAttempts is -2")
	for bytes, refused := range map[int]bool{0: true, 1: false, 237: false, 238: true} {
		_, err = retryamqp.New(retry.Default(), url, strings.Repeat("q", bytes))
		assert.Equal(t, refused, err != nil, "%d bytes: %v", bytes, err)
	}
	retries, err := retryamqp.New(retry.Default(), url, "orders")
	require.NoError(t, err)
	for _, url := range []string{"orders", "http://localhost", "amqp://user:secret@host:port", "amqp://user:sec/ret@host", "amqp://user:se%zzcret@host", ""} {
		_, err = retryamqp.New(retry.Default(), url, "orders")
		assert.ErrorContains(t, err, "retryamqp: the URL of the server cannot be parsed", url)
		assert.NotContains(t, err.Error(), "sec", "no part of the password is in the error")
	}
	assert.ErrorContains(t, retries.SetType("email", retry.Policy{MaxDelay: -1}), "retryamqp: type email: invalid policy: MaxDelay is -1ns")
}

func TestSteps(t *testing.T) {
	const ms = time.Millisecond
	for delay, want := range map[time.Duration]time.Duration{
		1: ms, ms: ms, ms + 1: 2 * ms, 15 * ms: 15 * ms, 16 * ms: 16 * ms, 17 * ms: 18 * ms, 31 * ms: 32 * ms, 33 * ms: 36 * ms,
		time.Second: 1024 * ms, time.Minute: 61440 * ms, time.Hour: 3670016 * ms,
		15<<28*ms - 1: 15 << 28 * ms, 15 << 28 * ms: 15 << 28 * ms, math.MaxInt64: 15 << 28 * ms,
	} {
		assert.Equal(t, want, retryamqp.StepOf(delay), delay)
	}
	for delay := ms; delay < time.Minute; delay += 7 * ms {
		step := retryamqp.StepOf(delay)
		assert.True(t, step >= delay && step <= delay+delay/8, "the step for %v is %v", delay, step)
	}
	for _, delay := range []time.Duration{1, 7, 8, 15, 16, 17, 1000, 3_600_000, 1 << 40} { // StepBelow also returns a step
		below := retryamqp.StepBelow(delay * ms)
		assert.Equal(t, below, retryamqp.StepOf(below), delay)
		assert.LessOrEqual(t, below, delay*ms, delay)
		if delay < 1<<32 {
			assert.Greater(t, below*9/8, delay*ms*63/64, delay)
		}
	}
}

var errBoom = errors.New("boom")

// newQueue returns a new queue for one test.
func newQueue(t *testing.T) *queue {
	t.Helper()
	q, err := open(t.Context(), serverURL(t), fmt.Sprintf("retryamqp_%d", time.Now().UnixNano()))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, q.Close(context.Background(), true)) })
	return q
}

// `end` publishes a message, handles it until it is a dead letter, and returns the dead letter.
func end(t *testing.T, q *queue, p amqp.Publishing, handle func(context.Context, amqp.Delivery) error) amqp.Delivery {
	t.Helper()
	require.NoError(t, q.publish(t.Context(), p))
	retries, err := retryamqp.New(retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(5 * time.Millisecond)}, q.url, q.name)
	require.NoError(t, err)
	require.NoError(t, retries.SetType("other", retry.Policy{NonRetryable: true}))
	ctx, stop := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- retries.Consume(ctx, handle) }()
	var letter amqp.Delivery
	require.Eventually(t, func() (dead bool) {
		require.NoError(t, q.do(func(channel *amqp.Channel) (err error) {
			letter, dead, err = channel.Get(q.name+".dead", true)
			return err
		}))
		return dead
	}, 20*time.Second, 20*time.Millisecond)
	stop(errors.New("the test is over"))
	require.NoError(t, <-done)
	return letter
}

func TestReasonsOfDeadLetters(t *testing.T) {
	type letter struct {
		Reason   retry.Reason
		Attempts int
		Err      string
	}
	for name, row := range map[string]struct {
		message amqp.Publishing
		do      error
		want    letter
	}{
		"a policy for the type": {amqp.Publishing{Type: "other"}, errBoom,
			letter{retry.ReasonNonRetryable, 1, "retry: not retryable after 1 attempt: boom"}},
		"its own limit is not a number": {amqp.Publishing{Headers: amqp.Table{retryamqp.MaxAttemptsHeader: "x"}}, errBoom,
			letter{retry.ReasonPermanent, 1, "retry: permanent error after 1 attempt: header retry-max-attempts is x: write a whole number"}},
		"its own limit is negative": {amqp.Publishing{Headers: amqp.Table{retryamqp.MaxAttemptsHeader: int8(-1)}}, errBoom,
			letter{retry.ReasonPermanent, 1, "retry: permanent error after 1 attempt: header retry-max-attempts is -1: write a whole number of at least 1, or leave the header out"}},
		"a dead letter that was moved back": {amqp.Publishing{Headers: amqp.Table{"retry-dead-letter": "{}", "retry-attempts": int64(7), "retry-began": int64(1)}}, errBoom,
			letter{retry.ReasonExhausted, 2, "retry: attempts exhausted after 2 attempts: boom"}},
		"an error too long for a header": {amqp.Publishing{}, retry.Permanent(errors.New(strings.Repeat("x", 1<<20))),
			letter{retry.ReasonPermanent, 1, "retry: permanent error after 1 attempt: " + strings.Repeat("x", 8<<10-len("retry: permanent error after 1 attempt: "))}},
	} {
		t.Run(name, func(t *testing.T) {
			dead := end(t, newQueue(t), row.message, func(context.Context, amqp.Delivery) error { return row.do })
			got, err := retryamqp.DeadLetterOf(dead.Headers)
			require.NoError(t, err)
			assert.Equal(t, row.want, letter{got.Reason, got.Attempts, got.Err})
		})
	}
}

// A dead letter keeps the properties of its message, except properties that would send
// the dead letter elsewhere or expire it.
func TestDeadLetterKeepsProperties(t *testing.T) {
	q := newQueue(t)
	sent := amqp.Publishing{
		ContentType: "text/plain", ContentEncoding: "none", Priority: 3, CorrelationId: "c", ReplyTo: "r", MessageId: "m",
		Timestamp: time.Now().Truncate(time.Second), Type: "t", AppId: "a", UserId: "retry_test", Body: []byte("body"), Expiration: "60000",
		Headers: amqp.Table{"mine": "yes", "x-death": "no", "CC": []any{q.name}},
	}
	var attempts []int
	dead := end(t, q, sent, func(_ context.Context, d amqp.Delivery) error {
		attempts = append(attempts, retryamqp.AttemptOf(d))
		return errBoom
	})
	assert.Contains(t, attempts, 2)
	want := sent
	want.Expiration, want.UserId = "", ""
	delete(dead.Headers, "retry-dead-letter")
	delete(dead.Headers, "x-delivery-count") // belongs to the delivery of the dead letter
	want.DeliveryMode = amqp.Persistent
	want.Headers = amqp.Table{"mine": "yes", "retry-attempts": int64(2), "retry-began": sent.Timestamp.UnixMilli()}
	assert.Equal(t, want, amqp.Publishing{
		ContentType: dead.ContentType, ContentEncoding: dead.ContentEncoding, Priority: dead.Priority, CorrelationId: dead.CorrelationId,
		ReplyTo: dead.ReplyTo, MessageId: dead.MessageId, Timestamp: dead.Timestamp.Local(), Type: dead.Type, AppId: dead.AppId,
		UserId: dead.UserId, Body: dead.Body, Expiration: dead.Expiration, DeliveryMode: dead.DeliveryMode, Headers: dead.Headers,
	})
}

// If a message arrives before it is due, because its delay is beyond the longest
// step, the consumer makes it wait again.
func TestEarlyMessageWaitsAgain(t *testing.T) {
	due := time.Now().Add(300 * time.Millisecond).Truncate(time.Millisecond)
	var began time.Time
	end(t, newQueue(t), amqp.Publishing{Headers: amqp.Table{"retry-due": due.UnixMilli()}}, func(_ context.Context, d amqp.Delivery) error {
		if began.IsZero() {
			began = time.Now()
			assert.Equal(t, 1, retryamqp.AttemptOf(d))
		}
		return retry.Permanent(errBoom)
	})
	assert.False(t, began.Before(due), "the attempt began %v early", due.Sub(began))
}

// Without these arguments, messages could be lost. RabbitMQ moves dead letters at most once by
// default, and 4.0 and later drop a message after 20 deliveries. To check the arguments on the
// server, the test declares each queue again without one of them.
func TestQueueArguments(t *testing.T) {
	q := newQueue(t)
	end(t, q, amqp.Publishing{}, func(context.Context, amqp.Delivery) error { return errBoom }) // a wait queue is declared when it is needed
	kept := amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(math.MaxInt32)}
	for name, args := range map[string]amqp.Table{
		"":      kept,
		".dead": kept,
		".wait.5ms": {
			"x-queue-type": "quorum", "x-message-ttl": int64(5), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": q.name,
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		},
	} {
		declare := func(args amqp.Table) error {
			return q.do(func(channel *amqp.Channel) error {
				_, err := channel.QueueDeclare(q.name+name, true, false, false, false, args)
				return err
			})
		}
		assert.NoError(t, declare(args), "all arguments of the queue %q", name)
		for arg := range args {
			t.Run("queue"+name+" "+arg, func(t *testing.T) {
				without := maps.Clone(args)
				delete(without, arg)
				err := declare(without)
				assert.ErrorContains(t, err, "PRECONDITION_FAILED")
				assert.ErrorContains(t, err, arg)
			})
		}
	}
}

// A queue with other arguments is refused before its first message. A classic queue would not
// count the attempts of killed workers, and the other queues would lose messages.
func TestConsumeRefusesQueues(t *testing.T) {
	for name, row := range map[string]struct {
		suffix string
		args   amqp.Table
		says   string
	}{
		"a classic queue":      {"", nil, "x-queue-type"},
		"a delivery limit":     {"", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 5}, "x-delivery-limit"},
		"classic dead letters": {".dead", nil, "x-queue-type"},
		"dead letters that expire": {".dead", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(math.MaxInt32), "x-message-ttl": 1000},
			"x-message-ttl"},
		"a limited length": {".dead", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(math.MaxInt32), "x-max-length": 1}, "x-max-length"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t)
			require.NoError(t, q.do(func(channel *amqp.Channel) error {
				if _, err := channel.QueueDelete(q.name+row.suffix, false, false, false); err != nil {
					return err
				}
				_, err := channel.QueueDeclare(q.name+row.suffix, true, false, false, false, row.args)
				return err
			}))
			require.NoError(t, q.Enqueue(t.Context(), "a", 0))
			retries, err := retryamqp.New(retry.Default(), q.url, q.name)
			require.NoError(t, err)
			err = retries.Consume(t.Context(), func(context.Context, amqp.Delivery) error {
				t.Error("a message is handled")
				return nil
			})
			assert.ErrorContains(t, err, "retryamqp: queue "+q.name+row.suffix+": ")
			assert.ErrorContains(t, err, row.says)
		})
	}
}

// If an operator deletes a queue while messages are handled, it is declared again.
func TestDeletedQueueIsDeclaredAgain(t *testing.T) {
	q := newQueue(t)
	dead := end(t, q, amqp.Publishing{}, func(_ context.Context, d amqp.Delivery) error {
		if retryamqp.AttemptOf(d) == 2 {
			return errBoom
		}
		return q.do(func(channel *amqp.Channel) error {
			_, err := channel.QueueDelete(q.name+".wait.5ms", false, false, false)
			return errors.Join(err, errBoom)
		})
	})
	d, err := retryamqp.DeadLetterOf(dead.Headers)
	require.NoError(t, err)
	assert.Equal(t, 2, d.Attempts)
}

func TestConsumeFails(t *testing.T) {
	handle := func(context.Context, amqp.Delivery) error { return nil }
	for name, row := range map[string]struct {
		url    string
		config amqp.Config
		says   string
	}{
		"the queue was not declared": {url: serverURL(t), says: "NOT_FOUND"},
		"nobody listens":             {url: "amqp://127.0.0.1:1", says: "connection refused"},
		"a Dial of its own": {url: "amqp://nowhere", config: amqp.Config{Dial: func(string, string) (net.Conn, error) { return nil, errBoom }},
			says: "boom"},
		"Recovery": {url: serverURL(t), config: amqp.Config{Recovery: &amqp.Recovery{}}, says: "Config.Recovery is set"},
	} {
		t.Run(name, func(t *testing.T) {
			retries, err := retryamqp.New(retry.Default(), row.url, fmt.Sprintf("retryamqp_%d", time.Now().UnixNano()))
			require.NoError(t, err)
			retries.Config = row.config
			err = retries.Consume(t.Context(), handle)
			assert.ErrorContains(t, err, "retryamqp: ")
			assert.ErrorContains(t, err, row.says)
			_, err = retries.Redrive(t.Context(), retryjob.RedriveOptions{})
			assert.ErrorContains(t, err, "retryamqp: redrive: ")
			assert.ErrorContains(t, err, row.says)
			if row.says != "NOT_FOUND" {
				assert.ErrorContains(t, retries.Declare(t.Context()), row.says)
			}
		})
	}
}

// If an operator deletes the work queue, Consume ends with an error that names the queue. The
// messages that are being handled are not lost: messages that fail or are interrupted are in the
// wait queue or among the dead letters.
func TestConsumeNamesADeletedQueue(t *testing.T) {
	for name, row := range map[string]struct {
		args amqp.Table // the arguments of the queue that is declared again at once
		says string
	}{
		"the queue stays away":        {says: " was deleted: call Declare, and bind the queue again"},
		"the queue is declared again": {args: amqp.Table{"x-queue-type": "classic"}, says: "( was deleted: |, which exists: )"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t)
			for _, key := range []string{"fails", "stops"} {
				require.NoError(t, q.Enqueue(t.Context(), key, 0))
			}
			retries, err := retryamqp.New(retry.Policy{MaxAttempts: 1}, q.url, q.name)
			require.NoError(t, err)
			var both sync.WaitGroup
			both.Add(2)
			err = retries.Consume(t.Context(), func(ctx context.Context, d amqp.Delivery) error {
				both.Done()
				both.Wait()
				if d.MessageId == "fails" {
					assert.NoError(t, q.do(func(channel *amqp.Channel) error {
						_, err := channel.QueueDelete(q.name, false, false, false)
						if row.args != nil && err == nil {
							_, err = channel.QueueDeclare(q.name, true, false, false, false, row.args)
						}
						return err
					}))
					return errBoom
				}
				<-ctx.Done()
				return ctx.Err()
			})
			assert.ErrorContains(t, err, "retryamqp: the server has canceled the consumer")
			assert.Regexp(t, q.name+row.says, err.Error())
			assert.NotContains(t, err.Error(), "Goexit")
			if row.args != nil { // nothing goes back to a classic queue
				return
			}
			require.Eventually(t, func() bool { // a failure after the end of the consumer is an interruption
				open, err := q.Open(t.Context())
				require.NoError(t, err)
				dead, err := q.ready(q.name + ".dead")
				require.NoError(t, err)
				return open+dead == 2
			}, 20*time.Second, 20*time.Millisecond)
		})
	}
}

// After a handler has panicked or called runtime.Goexit, its worker gets no more messages. The
// process is about to end, and a message that arrives before the end would use up an attempt.
func TestAHandlerThatDoesNotReturn(t *testing.T) {
	q := newQueue(t)
	require.NoError(t, q.Enqueue(t.Context(), "a", 0))
	retries, err := retryamqp.New(retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Millisecond)}, q.url, q.name)
	require.NoError(t, err)
	err = retries.Consume(t.Context(), func(_ context.Context, d amqp.Delivery) error {
		assert.Equal(t, 1, retryamqp.AttemptOf(d))
		runtime.Goexit() // a panic would end the test
		return nil
	})
	assert.ErrorContains(t, err, "a handler has called runtime.Goexit")
}

// If a connection is lost, Consume waits for its handlers, and then returns the reason.
func TestLostConnection(t *testing.T) {
	for name, which := range map[string]int{"the connection that gets messages": 0, "the connection that publishes copies": 1} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t)
			require.NoError(t, q.Enqueue(t.Context(), "a", 0))
			retries, err := retryamqp.New(retry.Default(), q.url, q.name)
			require.NoError(t, err)
			var sockets []net.Conn
			retries.Config.Dial = func(network, address string) (net.Conn, error) {
				socket, err := net.Dial(network, address)
				sockets = append(sockets, socket)
				return socket, err
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			returned := 0
			err = retries.Consume(ctx, func(ctx context.Context, d amqp.Delivery) error {
				returned++
				if which == 1 && returned > 1 {
					stop()
					return nil
				}
				require.NoError(t, sockets[which].Close())
				if which == 1 {
					return errBoom
				}
				<-ctx.Done()
				return ctx.Err()
			})
			if which == 0 {
				assert.ErrorContains(t, err, "retryamqp: the channel was closed: Exception (501) Reason: ")
				assert.Equal(t, 1, returned)
				require.Eventually(t, func() bool { n, err := q.Open(t.Context()); return err == nil && n == 1 }, 10*time.Second, 20*time.Millisecond, "the server has taken the message back")
				return
			}
			assert.NoError(t, err, "the copies are published on a new connection")
			assert.Equal(t, 2, returned)
			assert.Len(t, sockets, 3)
		})
	}
}
