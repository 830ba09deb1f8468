package retrynats_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrynats"
)

// The first delivery of a message that was a dead letter only puts it off, due or not, and
// its time counts from when it is due. A due time that cannot be read is reported.
func TestAMessageThatIsNotDue(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries, err := retrynats.New(quick, q.name+".dead")
	require.NoError(t, err)
	past, due := time.Now().Add(-time.Hour), time.Now().Add(300*time.Millisecond).Round(0).UTC()
	for key, at := range map[string]string{"past": past.Format(time.RFC3339Nano), "due": due.Format(time.RFC3339Nano), "malformed": "soon"} {
		msg := nats.NewMsg(q.name + ".jobs")
		msg.Data = []byte(key)
		msg.Header.Set("Retry-Due", at)
		_, err := q.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	consume(t, q, retries, time.Second, 3, func(_ context.Context, msg jetstream.Msg) error {
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
	for _, d := range letters {
		assert.Equal(t, 1, d.Attempts)
	}
}
