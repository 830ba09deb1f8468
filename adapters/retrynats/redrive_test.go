package retrynats_test

import (
	"context"
	"fmt"
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

// The first delivery of a message that was a dead letter only puts it off, due or not, and
// its time counts from when it is due. A due time that cannot be read, or that nobody will see,
// makes a dead letter.
func TestAMessageThatIsNotDue(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries, err := retrynats.New(quick, q.name+".dead")
	require.NoError(t, err)
	past, due := time.Now().Add(-time.Hour), time.Now().Add(300*time.Millisecond).Round(0).UTC()
	for key, at := range map[string]string{"past": past.Format(time.RFC3339Nano), "due": due.Format(time.RFC3339Nano), "malformed": "soon", "never": "9999-12-31T23:59:59Z"} {
		msg := nats.NewMsg(q.name + ".jobs")
		msg.Data = []byte(key)
		msg.Header.Set("Retry-Due", at)
		_, err := q.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	consume(t, q, retries, time.Second, 4, func(_ context.Context, msg jetstream.Msg) error {
		assert.Equal(t, 1, retrynats.AttemptOf(msg))
		if string(msg.Data()) == "due" {
			assert.False(t, time.Now().Before(due))
		}
		return retry.Permanent(errBoom)
	})
	letters, err := q.Dead(t.Context())
	require.NoError(t, err)
	assert.Equal(t, due, letters["due"].Began)
	assert.True(t, letters["past"].Began.After(past))
	assert.Contains(t, letters["malformed"].Err, "header Retry-Due")
	assert.Contains(t, letters["never"].Err, "header Retry-Due: due 9999-12-31T23:59:59Z, more than a year from now")
	for _, d := range letters {
		assert.Equal(t, 1, d.Attempts)
	}
}

// A worker that is killed before it has put a message off, or whose clock is behind, uses
// up none of its attempts.
func TestAMessageThatIsDeliveredEarly(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries, err := retrynats.New(retry.Policy{MaxAttempts: 1}, q.name+".dead")
	require.NoError(t, err)
	msg := nats.NewMsg(q.name + ".jobs")
	msg.Header.Set("Retry-Due", time.Now().Add(time.Hour).Format(time.RFC3339Nano))
	_, err = q.js.PublishMsg(t.Context(), msg)
	require.NoError(t, err)
	consumer, err := q.js.CreateOrUpdateConsumer(t.Context(), q.name, retries.ConsumerConfig("worker"))
	require.NoError(t, err)
	killed, err := consumer.Next()
	require.NoError(t, err)
	require.NoError(t, killed.Nak())
	attempts := make(chan int, 1)
	consume(t, q, retries, time.Second, 1, func(_ context.Context, msg jetstream.Msg) error {
		attempts <- retrynats.AttemptOf(msg)
		return nil
	})
	assert.Equal(t, 1, <-attempts)
}

// A dead letter without the subject of its message cannot go back, and one that another
// Redrive has moved is gone. Neither ends a Redrive.
func TestRedriveSkips(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for _, subject := range []string{"", q.name + ".jobs"} {
		letter := nats.NewMsg(q.name + ".dead")
		letter.Header.Set("Retry-Dead-Letter", `{"reason":"by hand"}`)
		letter.Header.Set(retrynats.SubjectHeader, subject)
		_, err := q.js.PublishMsg(t.Context(), letter)
		require.NoError(t, err)
	}
	result, err := q.Redrive(t.Context(), retryjob.RedriveOptions{Filter: func(retryjob.DeadLetter) bool {
		faster, err := q.Redrive(t.Context(), retryjob.RedriveOptions{})
		assert.NoError(t, err)
		assert.Equal(t, retryjob.RedriveResult{Found: 2, Moved: 1, Skipped: 1}, faster)
		return true
	}})
	require.NoError(t, err)
	assert.Equal(t, retryjob.RedriveResult{Found: 2, Skipped: 2}, result)
}

// Only an equal copy, or one that was handled already, means that a killed redriver has
// moved a dead letter. Nats-Msg-Ids are free for all, so another message may have its ID.
func TestRedriveAfterACopy(t *testing.T) {
	t.Parallel()
	moved, skipped := retryjob.RedriveResult{Found: 1, Moved: 1}, retryjob.RedriveResult{Found: 1, Skipped: 1}
	for name, row := range map[string]struct {
		data, due string
		handled   bool
		want      retryjob.RedriveResult
	}{
		"equal":          {"a", "2026-11-22T20:15:00Z", false, moved},
		"equal, handled": {"a", "2026-11-22T20:15:00Z", true, moved},
		"other data":     {"b", "2026-11-22T20:15:00Z", false, skipped},
		"of no redriver": {"a", "", false, skipped},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t)
			letter := nats.NewMsg(q.name + ".dead")
			letter.Data = []byte("a")
			letter.Header.Set("Retry-Dead-Letter", `{"reason":"by hand"}`)
			letter.Header.Set(retrynats.SubjectHeader, q.name+".jobs")
			_, err := q.js.PublishMsg(t.Context(), letter)
			require.NoError(t, err)
			stored, err := q.dead.GetMsg(t.Context(), 1)
			require.NoError(t, err)
			before := nats.NewMsg(q.name + ".jobs")
			before.Data = []byte(row.data)
			if row.due != "" {
				before.Header.Set("Retry-Due", row.due)
			}
			ack, err := q.js.PublishMsg(t.Context(), before, jetstream.WithMsgID(fmt.Sprintf("%s/1/%d", letter.Subject, stored.Time.UnixNano())))
			require.NoError(t, err)
			if row.handled {
				jobs, err := q.js.Stream(t.Context(), q.name)
				require.NoError(t, err)
				require.NoError(t, jobs.DeleteMsg(t.Context(), ack.Sequence))
			}
			result, err := q.Redrive(t.Context(), retryjob.RedriveOptions{})
			require.NoError(t, err)
			assert.Equal(t, row.want, result)
			assert.Len(t, lettersOf(t, q), row.want.Skipped)
		})
	}
}
