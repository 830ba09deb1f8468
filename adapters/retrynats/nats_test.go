package retrynats_test

import (
	"context"
	"errors"
	"fmt"
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

var (
	errBoom = errors.New("boom")
	quick   = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(20 * time.Millisecond)}
)

func TestNewRefuses(t *testing.T) {
	_, err := retrynats.New(retry.Policy{MaxAttempts: -2}, "dead")
	assert.ErrorContains(t, err, "retrynats: invalid policy: MaxAttempts is -2")
	_, err = retrynats.New(quick, "")
	assert.ErrorContains(t, err, "no subject for dead letters")
	for _, dead := range []string{"dead.*", "dead.>", "*", ">", "dead..a", ".dead", "dead.", "dead a", "dead\r\nPUB"} {
		_, err = retrynats.New(quick, dead)
		assert.ErrorContains(t, err, fmt.Sprintf("retrynats: dead letters go to %q, which is not the subject of a message", dead))
	}
	retries, err := retrynats.New(quick, "dead")
	require.NoError(t, err)
	assert.ErrorContains(t, retries.SetSubject("orders", retry.Policy{MaxDelay: -1}), "retrynats: subject orders: invalid policy: MaxDelay is -1ns")
	assert.ErrorContains(t, retries.SetSubject("orders.*", quick), `retrynats: "orders.*" is not the subject of a message`)
}

// newQueue returns a queue on the newest server.
func newQueue(t *testing.T) *queue {
	q, err := open(t.Context(), shared(t), fmt.Sprintf("retrynats_%d", time.Now().UnixNano()))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, q.Close(context.Background(), true)) })
	return q
}

// `retries` returns Retries that publish dead letters to the subject of q.
func (q *queue) retries(t *testing.T, p retry.Policy) *retrynats.Retries {
	retries, err := retrynats.New(p, q.name+".dead")
	require.NoError(t, err)
	return retries
}

// reported collects what Retries report. Read it after Consume has returned.
func reported(retries *retrynats.Retries) *[]string {
	var mu sync.Mutex
	all := new([]string)
	retries.OnError = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		*all = append(*all, err.Error())
	}
	return all
}

// consume handles messages until none is left.
func consume(t *testing.T, q *queue, retries *retrynats.Retries, ackWait time.Duration, jobs int, handle func(context.Context, jetstream.Msg) error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	config := retries.ConsumerConfig("worker")
	config.AckWait = ackWait
	consumer, err := q.js.CreateOrUpdateConsumer(ctx, q.name, config)
	require.NoError(t, err)
	var consuming sync.WaitGroup
	consuming.Go(func() { assert.NoError(t, retries.Consume(ctx, q.js, consumer, handle)) })
	require.Eventually(t, func() bool {
		n, err := q.Open(ctx)
		return err == nil && n == 0
	}, 15*time.Second, 20*time.Millisecond)
	stop()
	consuming.Wait()
}

func TestAPolicyForASubject(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, quick)
	require.NoError(t, retries.SetSubject(q.name+".jobs", retry.Policy{NonRetryable: true}))
	require.NoError(t, q.Enqueue(t.Context(), "a", 0))
	advisories, err := q.conn.SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED." + q.name + ".worker")
	require.NoError(t, err)
	consume(t, q, retries, time.Second, 1, func(context.Context, jetstream.Msg) error { return errBoom })
	letters, err := q.Dead(t.Context())
	require.NoError(t, err)
	assert.Equal(t, retry.ReasonNonRetryable, letters["a"].Reason)
	advisory, err := advisories.NextMsg(5 * time.Second)
	require.NoError(t, err)
	assert.Contains(t, string(advisory.Data), `"reason":"not_retryable"`)
}

// A message that is handled for longer than AckWait is not delivered twice.
func TestALongAttempt(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, quick)
	require.NoError(t, q.Enqueue(t.Context(), "a", 0))
	var runs atomic.Int64
	consume(t, q, retries, time.Second, 1, func(context.Context, jetstream.Msg) error {
		runs.Add(1)
		time.Sleep(2500 * time.Millisecond)
		return nil
	})
	assert.EqualValues(t, 1, runs.Load())
}

// While 1,100 messages wait for a retry, another message is handled. A consumer may have only 1,000
// unacknowledged messages by default.
func TestWaitingMessagesBlockNoOthers(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour)})
	retries.Workers = 50
	for i := range 1100 {
		require.NoError(t, q.Enqueue(t.Context(), fmt.Sprint("waits-", i), 0))
	}
	require.NoError(t, q.Enqueue(t.Context(), "last", 0))
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	consumer, err := q.js.CreateOrUpdateConsumer(ctx, q.name, retries.ConsumerConfig("worker"))
	require.NoError(t, err)
	handled := false
	require.NoError(t, retries.Consume(ctx, q.js, consumer, func(_ context.Context, msg jetstream.Msg) error {
		if string(msg.Data()) == "last" {
			handled = true
			stop()
			return nil
		}
		return errBoom
	}))
	assert.True(t, handled)
}

// If a message is as large as the server allows, its dead letter would be too large. The dead
// letter is still stored, without the error, or also without the headers or the data. The other
// messages are handled as usual.
func TestALargeMessage(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		below   int // how many bytes the message is below max_payload
		header  int // how many bytes of the message are a header
		dead    int // the largest message in the stream of the dead letters; 0: any
		leftOut string
	}{
		"the largest message":                 {0, 0, 0, "data"},
		"one byte less":                       {1, 0, 0, "data"},
		"100 bytes less":                      {100, 0, 0, "data"},
		"room for all but the error":          {600, 0, 0, ""},
		"large because of the headers":        {0, 20_000, 0, "headers"},
		"the largest headers":                 {500_000, 65_450, 0, "headers"},
		"headers that leave some room":        {500_000, 64_000, 0, ""},
		"the stream does not take this data":  {1_000_000, 0, 10_000, "data"},
		"the stream does not take this error": {1_047_000, 0, 10_000, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			if row.dead > 0 {
				_, err := q.stream(t.Context(), jetstream.StreamConfig{Name: q.name + "_dead", Subjects: []string{q.name + ".dead"}, MaxMsgSize: int32(row.dead)})
				require.NoError(t, err)
			}
			retries := q.retries(t, quick)
			reports := reported(retries)
			msg := nats.NewMsg(q.name + ".jobs")
			if row.header > 0 {
				msg.Header.Set("Big", strings.Repeat("x", row.header-len("NATS/1.0\r\nBig: \r\n\r\n")))
			}
			msg.Data = []byte(strings.Repeat("x", int(q.conn.MaxPayload())-row.below-row.header))
			_, err := q.js.PublishMsg(t.Context(), msg)
			require.NoError(t, err)
			for n := range 5 {
				require.NoError(t, q.Enqueue(t.Context(), fmt.Sprint("good-", n), 0))
			}
			var mu sync.Mutex
			runs := map[string]int{}
			consume(t, q, retries, 10*time.Second, 6, func(_ context.Context, msg jetstream.Msg) error {
				mu.Lock()
				defer mu.Unlock()
				key := string(msg.Data()[:6])
				runs[key]++
				if strings.HasPrefix(key, "good") {
					return nil
				}
				return retry.Permanent(errors.New(strings.Repeat("!", 2<<20)))
			})
			assert.Equal(t, map[string]int{"good-0": 1, "good-1": 1, "good-2": 1, "good-3": 1, "good-4": 1, "xxxxxx": 1}, runs)
			letter, err := q.dead.GetMsg(t.Context(), 1)
			require.NoError(t, err)
			d, err := retrynats.DeadLetterOf(letter.Header)
			require.NoError(t, err)
			assert.Equal(t, [...]any{q.name + "/worker/1", retry.ReasonPermanent, 1, ""}, [...]any{d.Key, d.Reason, d.Attempts, d.Err})
			assert.Equal(t, row.leftOut, letter.Header.Get("Retry-Left-Out"))
			assert.Equal(t, row.leftOut != "data", len(letter.Data) == len(msg.Data))
			assert.Equal(t, row.leftOut != "headers", letter.Header.Get("Big") == msg.Header.Get("Big"))
			if row.leftOut == "" {
				assert.Empty(t, *reports)
			} else {
				assert.Equal(t, []string{"retrynats: message " + q.name + "/worker/1: the dead letter lacks the " + row.leftOut + " of the message"}, *reports)
			}
		})
	}
}

func TestConsumeRefuses(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	ctx := t.Context()
	dead := q.name + ".dead"
	require.NoError(t, q.js.DeleteStream(ctx, q.name)) // the next stream of this name allows any kind of consumer
	_, err := q.js.CreateStream(ctx, jetstream.StreamConfig{Name: q.name, Subjects: []string{q.name + ".jobs", q.name + ".also"}})
	require.NoError(t, err)
	for name, row := range map[string]struct {
		dead   string
		change func(c *jetstream.ConsumerConfig)
		want   string
	}{
		"BackOff": {dead, func(c *jetstream.ConsumerConfig) {
			c.BackOff, c.MaxDeliver = []time.Duration{time.Second}, 5
		}, "BackOff is set and replaces AckWait, so the server may deliver a message again while its handler runs: do not set BackOff"},
		"MaxDeliver":                  {dead, func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 }, "MaxDeliver is 5"},
		"MaxAckPending":               {dead, func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1000 }, "MaxAckPending is 1000"},
		"MaxAckPending of the server": {dead, func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 0 }, "MaxAckPending is 1000"},
		"HeadersOnly":                 {dead, func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true }, "HeadersOnly is true"},
		"MaxRequestExpires":           {dead, func(c *jetstream.ConsumerConfig) { c.MaxRequestExpires = 999 * time.Millisecond }, "MaxRequestExpires is 999ms"},
		"PriorityGroups": {dead, func(c *jetstream.ConsumerConfig) {
			c.PriorityPolicy, c.PriorityGroups = jetstream.PriorityPolicyOverflow, []string{"a"}
		}, `PriorityGroups is ["a"]`},
		"AckPolicy":               {dead, func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy }, "AckPolicy is AckAll"},
		"no stream":               {"nowhere", func(*jetstream.ConsumerConfig) {}, `dead letters go to "nowhere"`},
		"a subject of the stream": {q.name + ".also", func(*jetstream.ConsumerConfig) {}, "use another stream for dead letters"},
		"a consumer is gone":      {dead, nil, "consumer not found"},
	} {
		t.Run(name, func(t *testing.T) {
			retries, err := retrynats.New(quick, row.dead)
			require.NoError(t, err)
			config := retries.ConsumerConfig("worker")
			if row.change != nil {
				row.change(&config)
			}
			consumer, err := q.js.CreateConsumer(ctx, q.name, config)
			require.NoError(t, err)
			defer func() { _ = q.js.DeleteConsumer(ctx, q.name, "worker") }() // fails in the row that has deleted it
			if row.change == nil {
				require.NoError(t, q.js.DeleteConsumer(ctx, q.name, "worker"))
			}
			err = retries.Consume(ctx, q.js, consumer, nil)
			assert.ErrorContains(t, err, row.want)
		})
	}
}

// A stream that would lose dead letters is refused before the first message, and a stream
// that loses none is not.
func TestConsumeRefusesAStreamThatLosesDeadLetters(t *testing.T) {
	t.Parallel()
	type config = jetstream.StreamConfig
	for name, row := range map[string]struct {
		change func(c *config)
		want   string // "": all dead letters are stored
	}{
		"limits":                  {func(*config) {}, ""},
		"a work queue":            {func(c *config) { c.Retention = jetstream.WorkQueuePolicy }, ""},
		"a limit with DiscardNew": {func(c *config) { c.Discard, c.MaxMsgs, c.MaxBytes = jetstream.DiscardNew, 10, 1<<20 }, ""},
		"a limit of each subject": {func(c *config) {
			c.Discard, c.DiscardNewPerSubject, c.MaxMsgsPerSubject = jetstream.DiscardNew, true, 10
		}, ""},
		"DenyDelete":                 {func(c *config) { c.DenyDelete = true }, ""},
		"interest":                   {func(c *config) { c.Retention = jetstream.InterestPolicy }, "Retention is Interest"},
		"MaxMsgsPerSubject":          {func(c *config) { c.MaxMsgsPerSubject = 1 }, "MaxMsgsPerSubject is 1"},
		"MaxMsgsPerSubject, but new": {func(c *config) { c.MaxMsgsPerSubject, c.Discard = 1, jetstream.DiscardNew }, "MaxMsgsPerSubject is 1"},
		"MaxMsgs":                    {func(c *config) { c.MaxMsgs = 3 }, "MaxMsgs is 3 with DiscardOld"},
		"MaxBytes":                   {func(c *config) { c.MaxBytes = 1000 }, "MaxBytes is 1000 with DiscardOld"},
		"memory":                     {func(c *config) { c.Storage = jetstream.MemoryStorage }, "Storage is Memory"},
		"NoAck":                      {func(c *config) { c.NoAck = true }, "NoAck is true"},
		"SubjectTransform": {func(c *config) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: ">", Destination: "moved.>"}
		}, "SubjectTransform is set"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			require.NoError(t, q.js.DeleteStream(t.Context(), q.name+"_dead"))
			c := config{Name: q.name + "_dead", Subjects: []string{q.name + ".dead"}}
			row.change(&c)
			var err error
			q.dead, err = q.stream(t.Context(), c)
			require.NoError(t, err)
			for n := range 5 {
				require.NoError(t, q.Enqueue(t.Context(), fmt.Sprint(n), 0))
			}
			retries := q.retries(t, retry.Policy{MaxAttempts: 1})
			if row.want == "" {
				consume(t, q, retries, time.Second, 5, func(context.Context, jetstream.Msg) error { return errBoom })
				assert.Len(t, lettersOf(t, q), 5)
				return
			}
			consumer, err := q.js.CreateOrUpdateConsumer(t.Context(), q.name, retries.ConsumerConfig("worker"))
			require.NoError(t, err)
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
			defer stop()
			err = retries.Consume(ctx, q.js, consumer, func(context.Context, jetstream.Msg) error { return errBoom })
			assert.ErrorContains(t, err, fmt.Sprintf("retrynats: dead letters go to %q: in the stream %s: %s", q.name+".dead", c.Name, row.want))
			n, err := q.Open(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 5, n, "no message was handled")
		})
	}
}

// A sealed stream cannot store another dead letter, and no dead letter in it can be deleted.
func TestASealedStream(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	_, err := q.stream(t.Context(), jetstream.StreamConfig{Name: q.name + "_dead", Subjects: []string{q.name + ".dead"}, Sealed: true})
	require.NoError(t, err)
	retries := q.retries(t, quick)
	consumer, err := q.js.CreateOrUpdateConsumer(t.Context(), q.name, retries.ConsumerConfig("worker"))
	require.NoError(t, err)
	assert.ErrorContains(t, retries.Consume(t.Context(), q.js, consumer, nil), "Sealed is set")
	_, err = retries.Redrive(t.Context(), q.js, consumer, retryjob.RedriveOptions{})
	assert.ErrorContains(t, err, "DenyDelete is set")
}

// Consume returns an error when it cannot go on.
func TestConsumeEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*queue) error{
		"the consumer is deleted": func(q *queue) error { return q.js.DeleteConsumer(context.Background(), q.name, "worker") },
		"the stream is deleted and made again": func(q *queue) error {
			err := q.js.DeleteStream(context.Background(), q.name)
			again, failed := open(context.Background(), shared(t), q.name)
			return errors.Join(err, failed, again.Close(context.Background(), false))
		},
		"the connection is closed": func(q *queue) error {
			q.conn.Close()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := open(t.Context(), shared(t), fmt.Sprintf("retrynats_%d", time.Now().UnixNano()))
			require.NoError(t, err)
			defer func() {
				again, err := open(context.Background(), shared(t), q.name)
				require.NoError(t, err)
				assert.NoError(t, again.Close(context.Background(), true))
			}()
			retries := q.retries(t, quick)
			consumer, err := q.js.CreateConsumer(t.Context(), q.name, retries.ConsumerConfig("worker"))
			require.NoError(t, err)
			time.AfterFunc(200*time.Millisecond, func() { assert.NoError(t, end(q)) })
			err = retries.Consume(t.Context(), q.js, consumer, func(context.Context, jetstream.Msg) error { return nil })
			assert.ErrorContains(t, err, "retrynats: ")
			assert.False(t, retry.IsPermanent(err), "a loop that connects again goes on")
		})
	}
}

// A context that is done before the first message is no error.
func TestConsumeOfAContextThatIsDone(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, quick)
	consumer, err := q.js.CreateOrUpdateConsumer(t.Context(), q.name, retries.ConsumerConfig("worker"))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	assert.NoError(t, retries.Consume(ctx, q.js, consumer, nil))
}

// The NATS client mistakes a message with a header Status and without data for an answer of the
// server. It also obeys a header Nats-Pin-Id. In spite of such messages, a worker handles all
// others.
func TestMessagesTakenForAnswersOfTheServer(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, quick)
	retries.Workers = 1
	for _, header := range []nats.Header{
		{"Status": {"409"}, "Description": {"Consumer Deleted"}}, {"Status": {"409"}}, {"Status": {"404"}}, {"Status": {"100"}}, {"Status": {"400"}}, {"Status": {"shipped"}},
	} {
		_, err := q.js.PublishMsg(t.Context(), &nats.Msg{Subject: q.name + ".jobs", Header: header})
		require.NoError(t, err)
	}
	_, err := q.js.PublishMsg(t.Context(), &nats.Msg{Subject: q.name + ".jobs", Data: []byte("pinned"), Header: nats.Header{"Nats-Pin-Id": {"x"}}})
	require.NoError(t, err)
	require.NoError(t, q.Enqueue(t.Context(), "good", 0))
	consumer, err := q.js.CreateOrUpdateConsumer(t.Context(), q.name, retries.ConsumerConfig("worker"))
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	var handled []string
	require.NoError(t, retries.Consume(ctx, q.js, consumer, func(_ context.Context, msg jetstream.Msg) error {
		if handled = append(handled, string(msg.Data())); len(handled) == 2 {
			stop()
		}
		return nil
	}))
	assert.Equal(t, []string{"pinned", "good"}, handled)

	_, err = q.js.PublishMsg(t.Context(), &nats.Msg{Subject: q.name + ".jobs", Header: nats.Header{"Status": {"400"}}})
	require.NoError(t, err)
	ctx, stop = context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer stop()
	assert.NoError(t, retries.Consume(ctx, q.js, consumer, nil), "a deadline ends Consume even while it waits after an error")
}

// If Consume cannot tell the server a result, it calls OnError, and the message is
// delivered again.
func TestAFailureToTellTheServer(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, retry.Policy{MaxAttempts: 1})
	reports := reported(retries)
	require.NoError(t, q.Enqueue(t.Context(), "a", 0))
	full, err := q.js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{
		Name: q.name + "_dead", Subjects: []string{q.name + ".dead"}, MaxMsgs: 1, Discard: jetstream.DiscardNew,
	})
	require.NoError(t, err)
	_, err = q.js.Publish(t.Context(), q.name+".dead", []byte("it is full"))
	require.NoError(t, err)
	report := retries.OnError
	retries.OnError = func(err error) {
		report(err)
		assert.NoError(t, full.Purge(context.Background()))
	}

	var runs atomic.Int64
	consume(t, q, retries, 300*time.Millisecond, 1, func(context.Context, jetstream.Msg) error {
		runs.Add(1)
		return errBoom
	})
	assert.EqualValues(t, 1, runs.Load(), "the second delivery is refused")
	letters, err := q.Dead(t.Context())
	require.NoError(t, err)
	assert.Equal(t, retry.ReasonExhausted, letters["a"].Reason)
	require.NotEmpty(t, *reports)
	assert.Contains(t, (*reports)[0], "retrynats: message "+q.name+"/worker/1, attempt 1: nats: nats: API error")
}

// failAll runs two consumers of a stream. In both, every message fails.
func failAll(t *testing.T, q *queue, retries *retrynats.Retries, consumers ...string) {
	t.Helper()
	for _, name := range consumers {
		consumer, err := q.js.CreateOrUpdateConsumer(t.Context(), q.name, retries.ConsumerConfig(name))
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		var consuming sync.WaitGroup
		consuming.Go(func() {
			assert.NoError(t, retries.Consume(ctx, q.js, consumer, func(context.Context, jetstream.Msg) error { return retry.Permanent(errBoom) }))
		})
		assert.Eventually(t, func() bool {
			info, err := consumer.Info(t.Context())
			return err == nil && info.NumPending == 0 && info.NumAckPending == 0
		}, 15*time.Second, 10*time.Millisecond)
		stop()
		consuming.Wait()
	}
}

// lettersOf returns how many dead letters each key has.
func lettersOf(t *testing.T, q *queue) map[string]int {
	t.Helper()
	info, err := q.dead.Info(t.Context())
	require.NoError(t, err)
	letters := map[string]int{}
	for n := info.State.FirstSeq; n <= info.State.LastSeq && info.State.Msgs > 0; n++ {
		msg, err := q.dead.GetMsg(t.Context(), n)
		require.NoError(t, err)
		if d, err := retrynats.DeadLetterOf(msg.Header); err == nil {
			letters[d.Key]++
		}
	}
	return letters
}

// Each failure has its own dead letter. This is true for two consumers that use the same
// subject for dead letters. It is also true for a stream that was deleted and created again,
// although its sequence numbers begin again.
func TestEveryFailureHasItsDeadLetter(t *testing.T) {
	t.Parallel()
	for name, storage := range map[string]jetstream.StorageType{"file": jetstream.FileStorage, "memory": jetstream.MemoryStorage} {
		t.Run(name, func(t *testing.T) {
			const messages, lives = 10, 2
			q := newQueue(t)
			retries := q.retries(t, quick)
			want := map[string]int{}
			for range lives {
				require.NoError(t, q.js.DeleteStream(t.Context(), q.name))
				_, err := q.stream(t.Context(), jetstream.StreamConfig{Name: q.name, Subjects: []string{q.name + ".jobs"}, Storage: storage})
				require.NoError(t, err)
				for n := range messages {
					require.NoError(t, q.Enqueue(t.Context(), fmt.Sprint(n), 0))
					want[fmt.Sprintf("%s/a/%d", q.name, n+1)] = lives
					want[fmt.Sprintf("%s/b/%d", q.name, n+1)] = lives
				}
				failAll(t, q, retries, "a", "b")
			}
			assert.Equal(t, want, lettersOf(t, q))
		})
	}
}

// If the stream already has a message with the ID of a dead letter, an equal message means that
// a worker published the dead letter and died. A different message is an error.
func TestADeadLetterWhoseIDIsTaken(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change  func(letter *nats.Msg)
		taken   string // what Consume reports; "": nothing
		letters int    // the number of dead letters at the end
	}{
		"an equal message":                    {func(*nats.Msg) {}, "", 1},
		"other data":                          {func(m *nats.Msg) { m.Data = []byte("other") }, "is different", 2},
		"another header":                      {func(m *nats.Msg) { m.Header.Set("Trace", "7") }, "is different", 2},
		"a message that is not a dead letter": {func(m *nats.Msg) { m.Header.Del("Retry-Dead-Letter") }, "is different", 1},
		"a message that is gone":              {nil, "message not found", 1},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t)
			_, err := q.stream(t.Context(), jetstream.StreamConfig{Name: q.name + "_dead", Subjects: []string{q.name + ".dead"}, Duplicates: 5 * time.Second})
			require.NoError(t, err)
			retries := q.retries(t, retry.Policy{MaxAttempts: 1})
			reports := reported(retries)
			require.NoError(t, q.Enqueue(t.Context(), "a", 0))
			stored, err := q.js.Stream(t.Context(), q.name)
			require.NoError(t, err)
			original, err := stored.GetMsg(t.Context(), 1)
			require.NoError(t, err)
			key := q.name + "/worker/1"
			letter := nats.NewMsg(q.name + ".dead")
			letter.Data = original.Data
			letter.Header.Set(retrynats.SubjectHeader, q.name+".jobs")
			letter.Header.Set("Retry-Dead-Letter", `{"reason":"before","key":"`+key+`"}`)
			if row.change != nil {
				row.change(letter)
			}
			ack, err := q.js.PublishMsg(t.Context(), letter, jetstream.WithMsgID(fmt.Sprintf("%s.dead/%s/%d", q.name, key, original.Time.UnixNano())))
			require.NoError(t, err)
			if row.change == nil {
				require.NoError(t, q.dead.DeleteMsg(t.Context(), ack.Sequence))
			}
			consume(t, q, retries, 100*time.Millisecond, 1, func(context.Context, jetstream.Msg) error { return errBoom })
			assert.Equal(t, map[string]int{key: row.letters}, lettersOf(t, q))
			if row.taken == "" {
				assert.Empty(t, *reports)
				return
			}
			require.NotEmpty(t, *reports)
			assert.Contains(t, (*reports)[0], row.taken)
		})
	}
}
