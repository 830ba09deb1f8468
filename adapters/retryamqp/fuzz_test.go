package retryamqp

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// FuzzMessage checks that a message that always fails ends after its attempts, whatever
// its headers say, and that nothing panics. kind picks the types of the headers.
func FuzzMessage(f *testing.F) {
	f.Add(uint8(0), int64(-1_000_000), int64(-1000), int64(0), int64(0), int64(0), "", "")
	f.Add(uint8(1), int64(1<<63-1), int64(1<<63-1), int64(253402300799000), int64(1<<63-1), int64(-1), `{"a":-1}`, `{"reason":"planted"}`)
	f.Add(uint8(255), int64(-1<<63), int64(-1<<63), int64(-1<<63), int64(-1<<63), int64(1<<62), `[1]`, "")
	f.Fuzz(func(t *testing.T, kind uint8, attempts, deliveries, due, began, limit int64, classes, dead string) {
		boom := errors.New("boom")
		value := func(n int64, bit uint8) any {
			if kind>>bit&1 == 1 {
				return classes
			}
			return n
		}
		d := amqp.Delivery{MessageId: "7", Headers: amqp.Table{"x-delivery-count": value(deliveries, 0), attemptsHeader: value(attempts, 1),
			dueHeader: value(due, 2), beganHeader: value(began, 3), MaxAttemptsHeader: value(limit, 4)}}
		if classes != "" {
			d.Headers[classesHeader] = classes
		}
		if dead != "" {
			d.Headers[deadHeader] = dead
		}
		policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Classify: func(error) *retry.Class { return &retry.Class{Name: "slow"} }}
		runs := 0
		for moves := 0; ; moves++ {
			require.LessOrEqual(t, moves, 1+3)
			m, malformed := messageOf(d)
			if left := time.Until(m.due); left > 0 && malformed == nil {
				require.LessOrEqual(t, left, longestDelay+24*time.Hour)
				d = amqp.Delivery{MessageId: "7", Headers: m.publishing(m.attempt-1, nil).Headers} // the message is due now
				continue
			}
			var o retryjob.Outcome
			retryjob.Run(t.Context(), policy, m.job(), func(context.Context) error {
				if malformed != nil {
					return retry.Permanent(malformed)
				}
				runs++
				return boom
			}, func(outcome retryjob.Outcome) { o = outcome })
			if !o.Retry() {
				_, err := json.Marshal(o.DeadLetter(m.job()))
				require.NoError(t, err)
				break
			}
			m.classes[o.Class]++
			d = amqp.Delivery{MessageId: "7", Headers: m.publishing(m.attempt, nil).Headers}
		}
		require.LessOrEqual(t, runs, 3)
		_, _ = DeadLetterOf(d.Headers)
	})
}
