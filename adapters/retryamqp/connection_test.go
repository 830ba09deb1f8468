package retryamqp_test

import (
	"context"
	"fmt"
	"net"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryamqp"
	"github.com/goretry/retry/internal/servers"
	"github.com/goretry/retry/retryjob"
)

// During a memory alarm RabbitMQ reads nothing from connections that publish. Good messages
// are handled all the same, bad ones wait, and Consume and Redrive end with their contexts.
// After the alarm, no message is lost and none has too many attempts.
func TestAlarm(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]int{"small": 1, "larger than what sockets hold": 16 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alarm(t, body)
		})
	}
}

// labeled returns the goroutines with a label of package pprof, which they inherit.
func labeled(label string) string {
	var all strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
	var left []string
	for _, goroutines := range strings.Split(all.String(), "\n\n") {
		if strings.Contains(goroutines, label) {
			left = append(left, goroutines)
		}
	}
	return strings.Join(left, "\n\n")
}

func alarm(t *testing.T, body int) {
	s := servers.RabbitMQ(t)
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	q, err := open(ctx, "amqp://guest:guest@"+s.Address, "orders")
	require.NoError(t, err)
	const good, bad = 30, 3
	for n := range good {
		require.NoError(t, q.Enqueue(ctx, fmt.Sprint("good-", n), 0))
		if n%10 == 0 {
			require.NoError(t, q.publish(ctx, amqp.Publishing{MessageId: fmt.Sprint("bad-", n/10), Body: make([]byte, body), DeliveryMode: amqp.Persistent}))
		}
	}
	for n := range 3 {
		require.NoError(t, q.publishTo(ctx, "orders.dead", amqp.Publishing{MessageId: fmt.Sprint("letter-", n), Body: make([]byte, body),
			Headers: amqp.Table{"retry-dead-letter": `{"reason":"by hand"}`}, DeliveryMode: amqp.Persistent}))
	}
	require.NoError(t, q.conn.Close())
	s.Control("set_vm_memory_high_watermark", "0.00001")

	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}
	retries, err := retryamqp.New(policy, q.url, q.name)
	require.NoError(t, err)
	var dials atomic.Int32
	retries.Config.Heartbeat = time.Second // without an answer for three of them, the client gives up
	retries.Config.Dial = func(network, address string) (net.Conn, error) {
		dials.Add(1)
		return net.Dial(network, address)
	}
	var mu sync.Mutex
	runs := map[string][]int{}
	handle := func(_ context.Context, d amqp.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		runs[d.MessageId] = append(runs[d.MessageId], retryamqp.AttemptOf(d))
		if strings.HasPrefix(d.MessageId, "bad") {
			return errBoom
		}
		return nil
	}
	consuming, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	label := fmt.Sprintf("alarm of %d bytes", body)
	go pprof.Do(consuming, pprof.Labels("test", label), func(ctx context.Context) { done <- retries.Consume(ctx, handle) })
	handled := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for key := range runs {
			if strings.HasPrefix(key, "good") {
				n++
			}
		}
		return n
	}
	assert.Eventually(t, func() bool { return handled() == good }, 60*time.Second, 20*time.Millisecond, "good messages are handled during the alarm")
	if body > 1 { // the client cannot send its heartbeats either, and connects again
		assert.Eventually(t, func() bool { return dials.Load() > 2 }, 60*time.Second, 20*time.Millisecond)
	}
	end()
	ended := time.Now()
	consumed := <-done
	assert.ErrorContains(t, consumed, "it answers no publisher during a memory or disk alarm")
	assert.Less(t, time.Since(ended), 10*time.Second, "Consume ends soon after its context")
	t.Logf("Consume took %v to end: %v", time.Since(ended), consumed)

	deadline, stopRedrive := context.WithTimeout(ctx, time.Second)
	defer stopRedrive()
	began := time.Now()
	var result retryjob.RedriveResult
	pprof.Do(deadline, pprof.Labels("test", label), func(ctx context.Context) {
		result, err = retries.Redrive(ctx, retryjob.RedriveOptions{Window: time.Hour})
	})
	assert.Less(t, time.Since(began), 6*time.Second, "Redrive ends at its deadline")
	t.Logf("Redrive took %v with a deadline of a second, and moved %d: %v", time.Since(began), result.Moved, err)
	assert.Error(t, err)
	assert.Eventually(t, func() bool { return labeled(label) == "" }, 10*time.Second, 20*time.Millisecond, "no goroutine is left: %s", labeled(label))

	s.Control("set_vm_memory_high_watermark", "0.4")
	conn, err := q.connect()
	require.NoError(t, err)
	consuming, end = context.WithCancel(ctx)
	defer end()
	go func() { done <- retries.Consume(consuming, handle) }()
	assert.NoError(t, q.untilDead(ctx, bad+3-result.Moved))
	end()
	require.NoError(t, <-done)
	dead, err := q.Dead(ctx)
	require.NoError(t, err)
	for n := range bad {
		key := fmt.Sprint("bad-", n)
		assert.Equal(t, retry.ReasonExhausted, dead[key].Reason, "%s is a dead letter: %v", key, dead)
		assert.LessOrEqual(t, len(runs[key]), 3+1, key) // a copy may have been stored without a confirm
	}
	for key, attempts := range runs {
		for _, attempt := range attempts {
			assert.LessOrEqual(t, attempt, 3, key)
		}
		if strings.HasPrefix(key, "good") {
			assert.Equal(t, []int{1}, attempts, "%s is handled once", key)
		}
	}
	assert.NoError(t, conn.Close())
}
