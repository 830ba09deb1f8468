package retryamqp_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryamqp"
	"github.com/goretry/retry/retryjob"
)

// While a gate is closed, it keeps back what the client sends.
type gate struct {
	net.Conn
	mu *sync.Mutex
}

func (g gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Conn.Write(b)
}

// If a message arrives while a worker stops, the message goes back unchanged. Its attempt is
// not counted, it still waits until it is due, and malformed headers are not lost.
func TestAMessageThatComesWhileAWorkerStops(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(300 * 24 * time.Hour).UnixMilli()
	for name, row := range map[string]struct {
		headers amqp.Table
		queue   string // the queue in which the message is at the end
		reason  retry.Reason
	}{
		"a good message":               {amqp.Table{}, "", retry.ReasonSuccess},
		"a message that is not due":    {amqp.Table{"retry-due": later}, ".wait.4026531840ms", ""},
		"an invalid time":              {amqp.Table{"retry-due": "never"}, "", retry.ReasonPermanent},
		"invalid classes":              {amqp.Table{"retry-classes": "["}, "", retry.ReasonPermanent},
		"an invalid count":             {amqp.Table{"retry-attempts": "x"}, "", retry.ReasonPermanent},
		"the headers of a dead letter": {amqp.Table{"retry-dead-letter": "{}", "retry-attempts": int64(7)}, "", retry.ReasonSuccess},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			require.NoError(t, q.Enqueue(t.Context(), "first", 0))
			retries, err := retryamqp.New(retry.Policy{MaxAttempts: 1}, q.url, q.name)
			require.NoError(t, err)
			var sending sync.Mutex
			retries.Config.Dial = func(network, address string) (net.Conn, error) {
				conn, err := net.Dial(network, address)
				return gate{conn, &sending}, err
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			require.NoError(t, retries.Consume(ctx, func(ctx context.Context, d amqp.Delivery) error {
				assert.Equal(t, "first", d.MessageId)
				sending.Lock() // the server does not learn that this worker stops
				defer sending.Unlock()
				stop()
				assert.NoError(t, q.publish(t.Context(), amqp.Publishing{MessageId: "second", DeliveryMode: amqp.Persistent, Headers: row.headers}))
				assert.Eventually(t, func() bool { n, err := q.ready(q.name); return err == nil && n == 0 }, 20*time.Second, 10*time.Millisecond, "the message is delivered")
				return nil
			}))
			if row.queue != "" {
				n, err := q.ready(q.name + row.queue)
				require.NoError(t, err)
				assert.Equal(t, 1, n)
				assert.NoError(t, q.do(func(channel *amqp.Channel) error {
					_, err := channel.QueueDelete(q.name+row.queue, false, false, false)
					return err
				}))
				return
			}
			ctx, stop = context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			ended := make(chan retry.Reason, 1)
			policy := retry.Policy{MaxAttempts: 2, OnEvent: func(_ context.Context, e retry.Event) {
				if e.Kind == retry.CallFinished {
					ended <- e.Reason
					stop()
				}
			}}
			retries, err = retryamqp.New(policy, q.url, q.name)
			require.NoError(t, err)
			require.NoError(t, retries.Consume(ctx, func(_ context.Context, d amqp.Delivery) error {
				assert.Equal(t, []any{"second", 1}, []any{d.MessageId, retryamqp.AttemptOf(d)})
				return nil
			}))
			assert.Equal(t, row.reason, <-ended)
		})
	}
}

// The protocol has two bytes for the number of Workers.
func TestManyWorkers(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1<<16 - 1, 1 << 16, 1<<16 + 1} {
		q := newQueue(t)
		const jobs = 5
		for n := range jobs {
			require.NoError(t, q.Enqueue(t.Context(), fmt.Sprint(n), 0))
		}
		retries, err := retryamqp.New(retry.Policy{MaxAttempts: 1}, q.url, q.name)
		require.NoError(t, err)
		retries.Workers = workers
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		var together atomic.Int32
		require.NoError(t, retries.Consume(ctx, func(ctx context.Context, _ amqp.Delivery) error {
			if together.Add(1) == jobs {
				stop()
			}
			<-ctx.Done()
			return ctx.Err()
		}))
		stop()
		assert.EqualValues(t, jobs, together.Load(), "%d workers", workers)
	}
}

// MaxElapsed alone ends a message whose beginning is missing, in the future, or forged.
func TestMaxElapsedOfAForgedBeginning(t *testing.T) {
	t.Parallel()
	ahead := time.Now().Add(1000 * time.Hour)
	for name, p := range map[string]amqp.Publishing{
		"no timestamp":            {},
		"a timestamp to come":     {Timestamp: ahead},
		"a header to come":        {Headers: amqp.Table{"retry-began": ahead.UnixMilli()}},
		"a header far from now":   {Headers: amqp.Table{"retry-began": int64(1<<63 - 1)}},
		"a header below zero":     {Headers: amqp.Table{"retry-began": int64(-1 << 63)}},
		"a header and timestamps": {Timestamp: ahead, Headers: amqp.Table{"retry-began": int64(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			p.MessageId = "a"
			require.NoError(t, q.publish(t.Context(), p))
			policy := retry.Policy{MaxElapsed: 300 * time.Millisecond, Backoff: retry.Fixed(50 * time.Millisecond)}
			_, dead := work(t, q, policy, 1, 1)
			require.Len(t, dead, 1)
			d, err := retryamqp.DeadLetterOf(dead[0].Headers)
			require.NoError(t, err)
			assert.Equal(t, retry.ReasonElapsed, d.Reason)
		})
	}
}

// An operator deletes the queue of the dead letters while messages are handled. The queue is
// declared again, and no dead letter is lost. The same happens if an operator deletes the work
// queue during a Redrive.
func TestTheQueueOfTheCopiesIsDeleted(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	remove := func(name string) error {
		return q.do(func(channel *amqp.Channel) error {
			_, err := channel.QueueDelete(name, false, false, false)
			return err
		})
	}
	for _, key := range []string{"a", "b", "c"} {
		require.NoError(t, q.Enqueue(t.Context(), key, 0))
	}
	var once sync.Once
	retries, err := retryamqp.New(retry.Policy{MaxAttempts: 1}, q.url, q.name)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- retries.Consume(ctx, func(context.Context, amqp.Delivery) error {
			once.Do(func() { assert.NoError(t, remove(q.name+".dead")) })
			return errBoom
		})
	}()
	require.NoError(t, q.untilDead(t.Context(), 3))
	stop()
	require.NoError(t, <-done)

	removed := false
	result, err := retries.Redrive(t.Context(), retryjob.RedriveOptions{Filter: func(retryjob.DeadLetter) bool {
		if !removed {
			removed = true
			assert.NoError(t, remove(q.name))
		}
		return true
	}})
	require.NoError(t, err)
	assert.Equal(t, retryjob.RedriveResult{Found: 3, Moved: 3}, result)
	n, err := q.Open(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, n)
}
