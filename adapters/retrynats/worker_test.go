package retrynats_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrynats"
	"github.com/goretry/retry/retryjob"
)

// A wire notes in which order a client asks for messages, pulls end, and messages go back.
type wire struct {
	mu   sync.Mutex
	said []string
	gave chan struct{} // closed when the first message is given back
}

func (w *wire) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return noting{conn, w}, err
}

type noting struct {
	net.Conn
	wire *wire
}

func (n noting) Write(b []byte) (int, error) {
	n.wire.note(b)
	return n.Conn.Write(b)
}

func (n noting) Read(b []byte) (int, error) {
	read, err := n.Conn.Read(b)
	if bytes.Contains(b[:read], []byte("NATS/1.0 408")) { // the server ends a pull
		n.wire.mu.Lock()
		n.wire.said = append(n.wire.said, "end")
		n.wire.mu.Unlock()
	}
	return read, err
}

func (w *wire) note(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range bytes.Lines(b) {
		switch text := string(line); {
		case strings.HasPrefix(text, "PUB $JS.API.CONSUMER.MSG.NEXT."):
			w.said = append(w.said, "pull")
		case strings.HasPrefix(text, "-NAK"):
			if !slices.Contains(w.said, "back") {
				close(w.gave)
			}
			w.said = append(w.said, "back")
		}
	}
}

// A held JetStream has consumers whose workers wait before each call of Next.
type held struct {
	jetstream.JetStream
	hold func()
}

type heldConsumer struct {
	jetstream.Consumer
	hold func()
}

func (h held) Consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	c, err := h.JetStream.Consumer(ctx, stream, name)
	return heldConsumer{c, h.hold}, err
}

func (h heldConsumer) Next(opts ...jetstream.FetchOpt) (jetstream.Msg, error) {
	h.hold()
	return h.Consumer.Next(opts...)
}

// A message goes back only after all pulls of its worker have ended, even if a pull was about
// to begin. Otherwise the pull would get the message, and the server would count an attempt
// that nobody makes.
func TestAStoppedWorkerEndsItsPullsBeforeItGivesBack(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		held bool // whether one worker stops before the other asks for a message
	}{{"a pull is open", false}, {"a pull is about to begin", true}} {
		for round := range 3 {
			t.Run(fmt.Sprint(row.name, round), func(t *testing.T) {
				t.Parallel()
				q := newQueue(t)
				w := &wire{gave: make(chan struct{})}
				conn, err := nats.Connect(shared(t), nats.SetCustomDialer(w))
				require.NoError(t, err)
				defer conn.Close()
				js, err := jetstream.New(conn)
				require.NoError(t, err)
				retries := q.retries(t, quick)
				retries.Workers = 2
				consumer, err := js.CreateOrUpdateConsumer(t.Context(), q.name, retries.ConsumerConfig("worker"))
				require.NoError(t, err)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var mu sync.Mutex
				var attempts []int
				var calls atomic.Int64
				both := make(chan struct{}) // closed when both workers ask for a message
				hold := func() {
					if calls.Add(1) != 2 {
						return
					}
					close(both)
					if !row.held {
						return
					}
					<-ctx.Done()
					select { // a worker in the wrong order gives a message back here
					case <-w.gave:
					case <-time.After(100 * time.Millisecond):
					}
				}
				handle := func(ctx context.Context, msg jetstream.Msg) error {
					mu.Lock()
					attempts = append(attempts, retrynats.AttemptOf(msg))
					first := len(attempts) == 1
					mu.Unlock()
					if !first {
						return nil
					}
					<-both
					stop()
					<-ctx.Done()
					return ctx.Err()
				}
				require.NoError(t, q.Enqueue(t.Context(), "a", 0))
				require.NoError(t, retries.Consume(ctx, held{js, hold}, consumer, handle))
				w.mu.Lock()
				said := slices.Clone(w.said)
				w.mu.Unlock()
				back := slices.Index(said, "back")
				require.GreaterOrEqual(t, back, 0, "%q", said)
				assert.NotContains(t, said[back:], "pull", "%q", said)
				assert.Contains(t, said[:back], "end", "%q", said)
				consume(t, q, retries, time.Second, 1, handle)
				assert.Equal(t, []int{1, 2}, attempts)
			})
		}
	}
}

// If a worker gets a message while it stops, the message goes back at once, and the next worker
// handles it once.
func TestMessagesThatComeWhileAWorkerStops(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, retry.Policy{MaxAttempts: retry.Unlimited})
	reports := reported(retries)
	consumer, err := q.js.CreateOrUpdateConsumer(t.Context(), q.name, retries.ConsumerConfig("worker"))
	require.NoError(t, err)
	const jobs = 200
	var enqueuing sync.WaitGroup
	enqueuing.Go(func() {
		for n := range jobs {
			assert.NoError(t, q.Enqueue(t.Context(), fmt.Sprint(n), 0))
		}
	})
	var mu sync.Mutex
	runs := map[string][]int{}
	for done := false; !done; {
		ctx, stop := context.WithCancel(t.Context())
		idle := time.AfterFunc(10*time.Second, stop)
		require.NoError(t, retries.Consume(ctx, q.js, consumer, func(_ context.Context, msg jetstream.Msg) error {
			mu.Lock()
			defer mu.Unlock()
			runs[string(msg.Data())] = append(runs[string(msg.Data())], retrynats.AttemptOf(msg))
			if len(runs)%20 == 0 || len(runs) == jobs {
				stop()
			}
			return nil
		}))
		idle.Stop()
		done = len(runs) == jobs
	}
	enqueuing.Wait()
	for key, attempts := range runs {
		assert.Len(t, attempts, 1, key)
	}
	assert.Empty(t, *reports)
	n, err := q.Open(t.Context())
	require.NoError(t, err)
	assert.Zero(t, n)
}

// A deaf connection receives nothing any more, as if the server hung.
type deaf struct {
	net.Conn
	hangs  *atomic.Bool
	closed chan struct{}
	once   *sync.Once
}

func (d deaf) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	if d.hangs.Load() {
		<-d.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (d deaf) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Conn.Close()
}

type deafDialer struct{ hangs *atomic.Bool }

func (d deafDialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return deaf{conn, d.hangs, make(chan struct{}), new(sync.Once)}, err
}

// If the server hangs, Consume still ends, and the message is not lost.
func TestAServerThatHangs(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		handle  func(ctx context.Context) error
		left    int // how many messages are delivered again
		reports bool
	}{
		"a success":       {func(context.Context) error { return nil }, 0, true}, // the server gets the acknowledgment
		"a failure":       {func(context.Context) error { return errBoom }, 1, true},
		"an interruption": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			require.NoError(t, q.Enqueue(t.Context(), "a", 0))
			hangs := new(atomic.Bool)
			conn, err := nats.Connect(shared(t), nats.SetCustomDialer(deafDialer{hangs}))
			require.NoError(t, err)
			defer conn.Close()
			js, err := jetstream.New(conn)
			require.NoError(t, err)
			retries := q.retries(t, quick)
			reports := reported(retries)
			consumer, err := js.CreateOrUpdateConsumer(t.Context(), q.name, retries.ConsumerConfig("worker"))
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			require.NoError(t, retries.Consume(ctx, js, consumer, func(ctx context.Context, _ jetstream.Msg) error {
				hangs.Store(true)
				stop()
				return row.handle(ctx)
			}))
			assert.Equal(t, row.reports, len(*reports) > 0, "%q", *reports)
			n, err := q.Open(t.Context())
			require.NoError(t, err)
			assert.Equal(t, row.left, n)
		})
	}
}

// If the server hangs, Redrive still ends with its context, and a later Redrive moves the rest.
func TestRedriveOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, retry.Policy{MaxAttempts: 1})
	const jobs = 3
	for n := range jobs {
		require.NoError(t, q.Enqueue(t.Context(), fmt.Sprint(n), 0))
	}
	consume(t, q, retries, time.Second, jobs, func(context.Context, jetstream.Msg) error { return errBoom })
	hangs := new(atomic.Bool)
	conn, err := nats.Connect(shared(t), nats.SetCustomDialer(deafDialer{hangs}))
	require.NoError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	consumer, err := js.Consumer(t.Context(), q.name, "worker")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	_, err = retries.Redrive(ctx, js, consumer, retryjob.RedriveOptions{Window: time.Hour, Filter: func(retryjob.DeadLetter) bool {
		if seen++; seen == 2 {
			hangs.Store(true)
			time.AfterFunc(50*time.Millisecond, cancel) // while Redrive waits for an answer
		}
		return true
	}})
	assert.ErrorIs(t, err, context.Canceled)
	consumer, err = q.js.Consumer(t.Context(), q.name, "worker")
	require.NoError(t, err)
	result, err := retries.Redrive(t.Context(), q.js, consumer, retryjob.RedriveOptions{Window: time.Hour})
	require.NoError(t, err)
	assert.Equal(t, retryjob.RedriveResult{Found: 2, Moved: 2}, result)
	n, err := q.Open(t.Context())
	require.NoError(t, err)
	assert.Equal(t, jobs, n, "the message whose letter was not deleted is published once")
}

// MaxElapsed ends a message that was delivered before, even if its header says that it is due
// much later.
func TestMaxElapsedOfAForgedBeginning(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, retry.Policy{MaxElapsed: 300 * time.Millisecond, Backoff: retry.Fixed(50 * time.Millisecond)})
	msg := nats.NewMsg(q.name + ".jobs")
	msg.Data = []byte("a")
	msg.Header.Set("Retry-Due", time.Now().Add(time.Hour).Format(time.RFC3339Nano))
	_, err := q.js.PublishMsg(t.Context(), msg)
	require.NoError(t, err)
	consumer, err := q.js.CreateOrUpdateConsumer(t.Context(), q.name, retries.ConsumerConfig("worker"))
	require.NoError(t, err)
	early, err := consumer.Next()
	require.NoError(t, err)
	require.NoError(t, early.Nak())
	consume(t, q, retries, time.Second, 1, func(context.Context, jetstream.Msg) error { return errBoom })
	letters, err := q.Dead(t.Context())
	require.NoError(t, err)
	assert.Equal(t, retry.ReasonElapsed, letters["a"].Reason)
}

// An operator deletes the stream of the dead letters while messages are handled. Consume says
// so, and no dead letter is lost: each message is delivered until its letter is stored.
func TestTheStreamOfTheDeadLettersIsDeleted(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, retry.Policy{MaxAttempts: 1})
	reports := make(chan error, 100)
	retries.OnError = func(err error) { reports <- err }
	const jobs = 5
	for n := range jobs {
		require.NoError(t, q.Enqueue(t.Context(), fmt.Sprint(n), 0))
	}
	var again sync.WaitGroup
	again.Go(func() {
		err := <-reports
		assert.ErrorContains(t, err, "retrynats: message "+q.name+"/worker/")
		stream, err := q.stream(t.Context(), jetstream.StreamConfig{Name: q.name + "_dead", Subjects: []string{q.name + ".dead"}})
		assert.NoError(t, err)
		q.dead = stream
	})
	var once sync.Once
	consume(t, q, retries, time.Second, jobs, func(context.Context, jetstream.Msg) error {
		once.Do(func() { assert.NoError(t, q.js.DeleteStream(t.Context(), q.name+"_dead")) })
		return errBoom
	})
	again.Wait()
	letters, err := q.Dead(t.Context())
	require.NoError(t, err)
	assert.Len(t, letters, jobs)
}
