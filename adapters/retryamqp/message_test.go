package retryamqp_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/jobtest/servers"
	"github.com/goretry/retry/adapters/retryamqp"
	"github.com/goretry/retry/retryjob"
)

// handleBeside lets one worker handle the message odd and five good messages, until there are as
// many dead letters as the parameter letters says. It returns how often each message was handled,
// and the dead letters. The worker must not fail.
func handleBeside(t *testing.T, q *queue, policy retry.Policy, odd amqp.Publishing, letters int) (runs map[string]int, dead []amqp.Delivery) {
	t.Helper()
	odd.MessageId, odd.DeliveryMode = "odd", amqp.Persistent
	require.NoError(t, q.publish(t.Context(), odd))
	for n := range 5 {
		require.NoError(t, q.Enqueue(t.Context(), fmt.Sprint("good-", n), 0))
	}
	return work(t, q, policy, 5, letters)
}

func work(t *testing.T, q *queue, policy retry.Policy, atLeast, letters int) (runs map[string]int, dead []amqp.Delivery) {
	t.Helper()
	retries, err := retryamqp.New(policy, q.url, q.name)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	runs = map[string]int{}
	done := make(chan error, 1)
	go func() {
		done <- retries.Consume(ctx, func(_ context.Context, d amqp.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			runs[d.MessageId]++
			if strings.HasPrefix(d.MessageId, "good") {
				return nil
			}
			return errBoom
		})
	}()
	assert.Eventually(t, func() bool {
		n, err := q.ready(q.name + ".dead")
		mu.Lock()
		defer mu.Unlock()
		return err == nil && n == letters && len(runs) >= atLeast
	}, 20*time.Second, 20*time.Millisecond)
	stop()
	require.NoError(t, <-done)
	require.NoError(t, q.do(func(channel *amqp.Channel) error {
		for {
			d, ok, err := channel.Get(q.name+".dead", false)
			if err != nil || !ok {
				return err
			}
			dead = append(dead, d)
		}
	}))
	require.NoError(t, q.untilDead(t.Context(), letters))
	n, err := q.ready(q.name)
	require.NoError(t, err)
	assert.Zero(t, n, "every message is acknowledged")
	return runs, dead
}

const frame = 131072 // RabbitMQ's frame_max

// If the headers of a message leave no room for the headers of a copy, the message becomes a
// dead letter without its headers after one attempt, and its events say why. The other messages
// are handled once. A Redrive names the dead letter in its error, and moves the others.
func TestAMessageThatCannotBeCopied(t *testing.T) {
	t.Parallel()
	large := amqp.Publishing{Body: []byte("body"), Type: "t", Headers: amqp.Table{"big": strings.Repeat("x", 130_700-8-32), "list": []any{"a", int8(1), []byte("b"), nil}}}
	notDue := large
	notDue.Headers = amqp.Table{"big": large.Headers["big"], "retry-due": time.Now().Add(time.Hour).UnixMilli()}
	wide := large
	wide.Headers = amqp.Table{"many": amqp.Table{}}
	for n := range 8_000 { // the client does not read a table with more than 8,192
		wide.Headers["many"].(amqp.Table)[fmt.Sprintf("header-%06d", n)] = false // 16 bytes each
	}
	for name, row := range map[string]struct {
		message amqp.Publishing
		policy  retry.Policy
		runs    int
		reason  retry.Reason
		says    string
	}{
		"a retry":                         {large, retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(time.Millisecond)}, 1, retry.ReasonPermanent, "retry: permanent error after 1 attempt: boom; the message cannot be retried: queue "},
		"a retry at once":                 {large, retry.Policy{MaxAttempts: 9}, 1, retry.ReasonPermanent, "the message cannot be retried"},
		"the failure of the last attempt": {large, retry.Policy{MaxAttempts: 1}, 1, retry.ReasonExhausted, "retry: attempts exhausted after 1 attempt: boom"},
		"a message that is not due":       {notDue, retry.Policy{MaxAttempts: 9}, 0, retry.ReasonPermanent, "the message is too large to be copied to another queue: its headers need 13"},
		"8,000 headers":                   {wide, retry.Policy{MaxAttempts: 9}, 1, retry.ReasonPermanent, "the message cannot be retried"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			var mu sync.Mutex
			var finished []retry.Reason
			row.policy.OnEvent = func(_ context.Context, e retry.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == retry.CallFinished && e.Reason != retry.ReasonSuccess {
					finished = append(finished, e.Reason)
				}
			}
			row.policy.Budget = &retry.Budget{Size: 10}
			runs, dead := handleBeside(t, q, row.policy, row.message, 1)
			want := map[string]int{"good-0": 1, "good-1": 1, "good-2": 1, "good-3": 1, "good-4": 1}
			if row.runs > 0 {
				want["odd"] = row.runs
			}
			assert.Equal(t, want, runs)
			assert.Equal(t, []retry.Reason{row.reason}, finished)
			assert.Equal(t, 10, row.policy.Budget.Left(), "a retry that was not made is given back")
			require.Len(t, dead, 1)
			d, err := retryamqp.DeadLetterOf(dead[0].Headers)
			require.NoError(t, err)
			assert.Equal(t, [...]any{"odd", row.reason, 1}, [...]any{d.Key, d.Reason, d.Attempts})
			assert.Contains(t, d.Err, row.says)
			assert.Equal(t, [...]any{"headers", "body", "t"}, [...]any{dead[0].Headers["retry-left-out"], string(dead[0].Body), dead[0].Type})

			require.NoError(t, q.Enqueue(t.Context(), "bad", 0))
			_, dead = work(t, q, retry.Policy{MaxAttempts: 1}, 1, 2)
			require.Len(t, dead, 2)
			result, err := q.Redrive(t.Context(), retryjob.RedriveOptions{DryRun: true})
			assert.ErrorContains(t, err, `1 of 2 dead letters cannot go back to the queue, and stay dead letters: "odd": the dead letter lacks the "headers" of its message`)
			assert.Equal(t, retryjob.RedriveResult{Found: 2, Moved: 1, Skipped: 1}, result)
			require.NoError(t, q.untilDead(t.Context(), 2))
			result, err = q.Redrive(t.Context(), retryjob.RedriveOptions{})
			assert.ErrorContains(t, err, `"odd"`)
			assert.Equal(t, retryjob.RedriveResult{Found: 2, Moved: 1, Skipped: 1}, result)
		})
	}
}

// The estimate of a frame's size is never too small: a copy that just fits is stored, and
// whatever the size of a message, no worker fails.
func TestFramesThatJustFit(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	const least, most = frame - 2600, frame - 100
	letters := 0
	for size := least; size < most; size += 50 {
		require.NoError(t, q.publish(t.Context(), amqp.Publishing{MessageId: fmt.Sprint(size), Headers: amqp.Table{"x": strings.Repeat("x", size)}}))
		letters++
	}
	for n := range 5 {
		require.NoError(t, q.Enqueue(t.Context(), fmt.Sprint("good-", n), 0))
	}
	_, dead := work(t, q, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}, 5, letters)
	for _, d := range dead {
		_, err := retryamqp.DeadLetterOf(d.Headers)
		assert.NoError(t, err, d.MessageId)
	}
}

// A worker that stops gives a message back if it cannot copy the message. Then the attempt counts.
func TestAMessageThatCannotBeCopiedIsGivenBack(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	require.NoError(t, q.publish(t.Context(), amqp.Publishing{MessageId: "odd", Headers: amqp.Table{"big": strings.Repeat("x", 130_700)}}))
	retries, err := retryamqp.New(retry.Default(), q.url, q.name)
	require.NoError(t, err)
	for attempt := 1; attempt <= 2; attempt++ {
		ctx, stop := context.WithCancel(t.Context())
		require.NoError(t, retries.Consume(ctx, func(ctx context.Context, d amqp.Delivery) error {
			assert.Equal(t, attempt, retryamqp.AttemptOf(d))
			stop()
			<-ctx.Done()
			return ctx.Err()
		}))
	}
}

// If a queue refuses a copy, Consume ends with an error. The other messages are handled once,
// or are given back without counting the attempt.
func TestACopyThatIsRefused(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	require.NoError(t, q.do(func(channel *amqp.Channel) error {
		_, err := channel.QueueDeclare(q.name+".wait.5ms", false, false, false, false, nil) // with other arguments
		return err
	}))
	for _, key := range []string{"good-1", "waits", "odd", "good-2"} {
		require.NoError(t, q.Enqueue(t.Context(), key, 0))
	}
	retries, err := retryamqp.New(retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(5 * time.Millisecond)}, q.url, q.name)
	require.NoError(t, err)
	var mu sync.Mutex
	attempts := map[string][]int{}
	handle := func(ctx context.Context, d amqp.Delivery) error {
		mu.Lock()
		attempts[d.MessageId] = append(attempts[d.MessageId], retryamqp.AttemptOf(d))
		first := len(attempts[d.MessageId]) == 1
		mu.Unlock()
		switch {
		case d.MessageId == "odd":
			return errBoom
		case d.MessageId == "waits" && first:
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	refused := retries.Consume(ctx, handle)
	assert.ErrorContains(t, refused, "PRECONDITION_FAILED")
	assert.False(t, retry.IsPermanent(refused), "a loop that connects again goes on")
	var consuming sync.WaitGroup
	consuming.Go(func() { assert.NoError(t, retries.Consume(ctx, handle)) })
	assert.NoError(t, q.untilDead(ctx, 1), "its last failure needs no wait queue")
	assert.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(attempts["waits"]) == 2 && len(attempts["good-1"])+len(attempts["good-2"]) == 2
	}, 10*time.Second, 10*time.Millisecond)
	stop()
	consuming.Wait()
	assert.Equal(t, map[string][]int{"good-1": {1}, "good-2": {1}, "odd": {1, 2}, "waits": {1, 1}}, attempts)
}

// A dead letter that somebody else has written goes back only to this queue, whatever its
// headers say. If a dead letter cannot be copied, Redrive still goes on.
func TestRedriveOfAStrangersLetters(t *testing.T) {
	t.Parallel()
	q, other := newQueue(t), newQueue(t)
	const letter = `{"key":"forged","reason":"by hand"}`
	require.NoError(t, q.do(func(channel *amqp.Channel) error {
		for _, headers := range []amqp.Table{
			{"retry-dead-letter": letter, "big": strings.Repeat("x", frame-200)},
			{"retry-dead-letter": letter, "CC": []any{other.name}, "BCC": []any{other.name}, "x-original-routing-key": other.name},
			{"retry-dead-letter": letter},
		} {
			p := amqp.Publishing{MessageId: "forged", Headers: headers, ReplyTo: other.name}
			delete(headers, "CC") // it would send the letter itself elsewhere
			delete(headers, "BCC")
			if err := channel.PublishWithContext(t.Context(), "", q.name+".dead", true, false, p); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, q.untilDead(t.Context(), 3))
	result, err := q.Redrive(t.Context(), retryjob.RedriveOptions{})
	assert.ErrorContains(t, err, `1 of 3 dead letters cannot go back to the queue, and stay dead letters: "forged": queue `)
	assert.Equal(t, retryjob.RedriveResult{Found: 3, Moved: 2, Skipped: 1}, result)
	assert.Eventually(t, func() bool { n, err := q.Open(t.Context()); return err == nil && n == 2 }, 10*time.Second, 20*time.Millisecond)
	n, err := other.Open(t.Context())
	require.NoError(t, err)
	assert.Zero(t, n)
}

// RabbitMQ 4.0 has lowered max_message_size. If a body is larger than the new limit, its
// message becomes a dead letter without the body, and the worker goes on.
func TestABodyThatIsNowTooLarge(t *testing.T) {
	t.Parallel()
	s := servers.RabbitMQ(t)
	q, err := open(t.Context(), "amqp://guest:guest@"+s.Address, "orders")
	require.NoError(t, err)
	body := make([]byte, 200_000)
	for _, key := range []string{"retried", "buried"} {
		headers := amqp.Table{retryamqp.MaxAttemptsHeader: map[string]int64{"retried": 3, "buried": 1}[key]}
		require.NoError(t, q.publish(t.Context(), amqp.Publishing{MessageId: key, DeliveryMode: amqp.Persistent, Body: body, Headers: headers}))
	}
	for n := range 5 {
		require.NoError(t, q.Enqueue(t.Context(), fmt.Sprint("good-", n), 0))
	}
	s.Stop()
	config, err := os.ReadFile(s.Config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.Config, append(config, "max_message_size = 100000\n"...), 0o600))
	s.Start()
	require.Eventually(t, func() bool { _, err := q.ready("orders"); return err == nil }, 20*time.Second, 100*time.Millisecond)
	runs, dead := work(t, q, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}, 5, 2)
	assert.Equal(t, map[string]int{"good-0": 1, "good-1": 1, "good-2": 1, "good-3": 1, "good-4": 1, "retried": 1, "buried": 1}, runs)
	reasons := map[string]retry.Reason{}
	for _, letter := range dead {
		d, err := retryamqp.DeadLetterOf(letter.Headers)
		require.NoError(t, err)
		reasons[d.Key] = d.Reason
		assert.Equal(t, [...]any{"headers and body", 0}, [...]any{letter.Headers["retry-left-out"], len(letter.Body)})
	}
	assert.Equal(t, map[string]retry.Reason{"retried": retry.ReasonPermanent, "buried": retry.ReasonExhausted}, reasons)
	assert.NoError(t, errors.Join(q.conn.Close()))
}
