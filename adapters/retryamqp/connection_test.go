package retryamqp_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/jobtest/servers"
	"github.com/goretry/retry/adapters/retryamqp"
	"github.com/goretry/retry/retryjob"
)

// When a context is done, the server has some more time to confirm a copy.
func TestLasting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, end := context.WithCancel(t.Context())
		lasting, stop := retryamqp.Lasting(parent, 5*time.Second)
		time.Sleep(time.Hour)
		require.NoError(t, lasting.Err())
		end()
		time.Sleep(5*time.Second - 1)
		synctest.Wait()
		require.NoError(t, lasting.Err())
		time.Sleep(1)
		synctest.Wait()
		require.Error(t, lasting.Err())
		assert.ErrorContains(t, context.Cause(lasting), "the server has not answered for 5s after the end of the context")
		stop()

		ended, stop := retryamqp.Lasting(parent, time.Second) // parent is already done
		time.Sleep(time.Second - 1)
		synctest.Wait()
		require.NoError(t, ended.Err())
		stop() // leaves no goroutine, or the test would fail
		assert.ErrorIs(t, context.Cause(ended), context.Canceled)
	})
}

// If the server does not read, a write ends when the heartbeats have failed.
func TestSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, server := net.Pipe()
		socket := retryamqp.NewSocket(conn)
		written := make(chan error)
		go func() {
			_, err := socket.Write([]byte("a"))
			written <- err
		}()
		require.NoError(t, socket.SetReadDeadline(time.Now().Add(time.Second)))
		_, err := socket.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.ErrorIs(t, <-written, io.ErrClosedPipe)
		require.NoError(t, server.Close())
	})
}

// A stalling connection no longer passes on what is written, as if the server hung.
type stalling struct {
	net.Conn
	stalled atomic.Bool
	once    sync.Once
	closed  chan struct{}
}

func (s *stalling) pass(n int, err error) (int, error) {
	if s.stalled.Load() {
		<-s.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (s *stalling) Read(b []byte) (int, error) { return s.pass(s.Conn.Read(b)) }

func (s *stalling) Write(b []byte) (int, error) {
	if _, err := s.pass(0, nil); err != nil {
		return 0, err
	}
	return s.Conn.Write(b)
}

func (s *stalling) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

// If one of the two connections hangs, Consume ends soon after its context and leaves no
// goroutine. The message is delivered again.
func TestAConnectionThatHangs(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		which int
		err   error // the error that the handler returns
	}{
		"a success is not acknowledged": {0, nil},
		"a failure is not acknowledged": {0, errBoom},
		"a copy is not confirmed":       {1, errBoom},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			require.NoError(t, q.Enqueue(t.Context(), "a", 0))
			retries, err := retryamqp.New(retry.Policy{MaxAttempts: 1}, q.url, q.name)
			require.NoError(t, err)
			var conns []*stalling
			retries.Config.Dial = func(network, address string) (net.Conn, error) {
				conn, err := net.Dial(network, address)
				conns = append(conns, &stalling{Conn: conn, closed: make(chan struct{})})
				return conns[len(conns)-1], err
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			pprof.Do(ctx, pprof.Labels("test", name), func(ctx context.Context) {
				err = retries.Consume(ctx, func(context.Context, amqp.Delivery) error {
					conns[row.which].stalled.Store(true)
					stop()
					return row.err
				})
			})
			assert.ErrorContains(t, err, "the server has not answered for 5s after the end of the context")
			assert.Eventually(t, func() bool { return labeled(name) == "" }, 10*time.Second, 20*time.Millisecond, "no goroutine is left: %s", labeled(name))
			assert.Eventually(t, func() bool { n, err := q.Open(t.Context()); return err == nil && n == 1 }, 10*time.Second, 20*time.Millisecond, "the message is delivered again")
		})
	}
}

// During a memory alarm, RabbitMQ does not read from connections that publish. Messages that
// succeed are still handled, and messages that fail wait. Consume and Redrive end with their
// contexts. After the alarm, no message is lost and none has too many attempts.
func TestAlarm(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]int{"small": 1, "larger than what sockets hold": 12 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alarm(t, body)
		})
	}
}

// A publisher notes when the client publishes a message, which is method 40 of class 60 in AMQP.
type publisher struct {
	net.Conn
	sent func()
}

func (p publisher) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	if bytes.Contains(b, []byte{0, 60, 0, 40}) {
		p.sent()
	}
	return n, err
}

// labeled returns the goroutines with a label of package pprof. A goroutine inherits the labels of
// the goroutine that has started it.
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
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Minute)
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
	if body > 1 { // without an answer for three heartbeats, the client gives up a connection
		retries.Config.Heartbeat = 5 * time.Second
	}
	published := make(chan struct{}) // closed when the first copy has been sent
	sent := sync.OnceFunc(func() { close(published) })
	retries.Config.Dial = func(network, address string) (net.Conn, error) {
		dials.Add(1)
		conn, err := net.Dial(network, address)
		return publisher{conn, sent}, err
	}
	var mu sync.Mutex
	runs := map[string][]int{}
	handle := func(_ context.Context, d amqp.Delivery) error {
		mu.Lock()
		runs[d.MessageId] = append(runs[d.MessageId], retryamqp.AttemptOf(d))
		mu.Unlock()
		if strings.HasPrefix(d.MessageId, "bad") {
			return errBoom
		}
		<-published // before this, the server still reads from a connection that publishes
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
	assert.Eventually(t, func() bool { return handled() == good }, 120*time.Second, 20*time.Millisecond, "good messages are handled during the alarm")
	if body > 1 { // the client cannot send its heartbeats either, and connects again
		assert.Eventually(t, func() bool { return dials.Load() > 2 }, 120*time.Second, 20*time.Millisecond)
	}
	end()
	assert.ErrorContains(t, <-done, "the server has not answered for 5s after the end of the context; "+
		"it answers no publisher during a memory or disk alarm")

	deadline, stopRedrive := context.WithTimeout(ctx, time.Second)
	defer stopRedrive()
	var result retryjob.RedriveResult
	pprof.Do(deadline, pprof.Labels("test", label), func(ctx context.Context) {
		result, err = retries.Redrive(ctx, retryjob.RedriveOptions{Window: time.Hour})
	})
	// On a busy machine, connecting may take the whole second.
	assert.Regexp(t, "the server has not answered for 1s after the end of the context|context deadline exceeded", err)
	assert.Eventually(t, func() bool { return labeled(label) == "" }, 10*time.Second, 20*time.Millisecond, "no goroutine is left: %s", labeled(label))

	s.Control("set_vm_memory_high_watermark", "0.4")
	conn, err := q.connect()
	require.NoError(t, err)
	consuming, end = context.WithCancel(ctx)
	defer end()
	go func() { done <- retries.Consume(consuming, handle) }()
	assert.Eventually(t, func() bool {
		dead, err := q.Dead(ctx)
		return err == nil && dead["bad-0"].Reason != "" && dead["bad-1"].Reason != "" && dead["bad-2"].Reason != ""
	}, 90*time.Second, 100*time.Millisecond)
	end()
	require.NoError(t, <-done)
	dead, err := q.Dead(ctx)
	require.NoError(t, err)
	for n := range bad {
		key := fmt.Sprint("bad-", n)
		assert.Equal(t, retry.ReasonExhausted, dead[key].Reason, "%s is a dead letter: %v", key, dead)
		// RabbitMQ may read a copy from a socket that was cut, and store it when the alarm is over.
		// Then the message is in two queues from the second attempt on.
		assert.LessOrEqual(t, len(runs[key]), 3+2, key)
	}
	for n := range 3 - result.Moved {
		assert.Equal(t, retry.Reason("by hand"), dead[fmt.Sprint("letter-", n+result.Moved)].Reason, "%v", dead)
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
