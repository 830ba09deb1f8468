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
	"github.com/goretry/retry/retryjob"
)

// A dead letter has the headers of its message, except headers that instruct the server. An invalid
// limit makes the message a dead letter.
func TestHeaders(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, quick)
	for data, limit := range map[string]string{"a": "1", "b": "many", "c": "0"} {
		msg := nats.NewMsg(q.name + ".jobs")
		msg.Data = []byte(data)
		msg.Header.Set("Trace", "7")
		msg.Header.Set(nats.ExpectedStreamHdr, q.name)
		msg.Header.Set(retrynats.MaxAttemptsHeader, limit)
		_, err := q.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	consume(t, q, retries, time.Second, 3, func(context.Context, jetstream.Msg) error { return errBoom })
	letters, err := q.Dead(t.Context())
	require.NoError(t, err)
	require.Len(t, letters, 3)
	assert.Equal(t, retry.ReasonExhausted, letters["a"].Reason)
	assert.Equal(t, "retry: attempts exhausted after 1 attempt: boom", letters["a"].Err)
	for key, text := range map[string]string{"b": `header Retry-Max-Attempts is "many"`, "c": `header Retry-Max-Attempts is "0"`} {
		assert.Equal(t, retry.ReasonPermanent, letters[key].Reason)
		assert.Contains(t, letters[key].Err, text)
	}
	letter, err := q.dead.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	assert.Equal(t, "7", letter.Header.Get("Trace"))
	assert.Empty(t, letter.Header.Get(nats.ExpectedStreamHdr))
}

func TestDeadLetterOf(t *testing.T) {
	for _, row := range []struct {
		name, text string
		want       retryjob.DeadLetter
		err        string
	}{
		{"a dead letter", `{"key":"k","reason":"attempts_exhausted","attempts":3}`,
			retryjob.DeadLetter{Key: "k", Reason: retry.ReasonExhausted, Attempts: 3}, ""},
		{"no header", "", retryjob.DeadLetter{}, "retrynats: the message is not a dead letter: the header Retry-Dead-Letter is missing"},
		{"no JSON", "boom", retryjob.DeadLetter{}, "retrynats: header Retry-Dead-Letter: invalid character"},
		{"cut off", `{"key":"k"`, retryjob.DeadLetter{}, "retrynats: header Retry-Dead-Letter: unexpected end"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d, err := retrynats.DeadLetterOf(nats.Header{"Retry-Dead-Letter": {row.text}})
			assert.Equal(t, row.want, d)
			if row.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, row.err)
			}
		})
	}
}
