package retrynats_test

import (
	"context"
	"fmt"
	"maps"
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

// The first delivery of a message that was a dead letter only delays the message, even if the
// message is already due. MaxElapsed counts from the due time. If the due time cannot be read or is
// years away, the message becomes a dead letter.
func TestEarlyMessageWaitsAgain(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, quick)
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
	assert.Contains(t, letters["never"].Err, "header Retry-Due: the time 9999-12-31T23:59:59Z is more than a year from now")
	for _, d := range letters {
		assert.Equal(t, 1, d.Attempts)
	}
}

// A message loses no attempt if its worker is killed before it has delayed the message, or if the
// clock of its worker is slow.
func TestAMessageThatIsDeliveredEarly(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, retry.Policy{MaxAttempts: 1})
	msg := nats.NewMsg(q.name + ".jobs")
	msg.Header.Set("Retry-Due", time.Now().Add(time.Hour).Format(time.RFC3339Nano))
	_, err := q.js.PublishMsg(t.Context(), msg)
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

// Each attempt, the dead letter and the redriven message have the headers of the producer. NATS
// reserves the names that begin with Nats-.
func TestHeadersOfProducers(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	retries := q.retries(t, retry.Policy{MaxAttempts: 2})
	want := nats.Header{"x-tenant": {"acme"}, "X-Tenant": {"other"}, "traceparent": {"00-1", "00-2"}, "X-Nats-Id": {"7"}, "nats-id": {"8"},
		"Retry": {"mine"}, "Retry-Count": {"3"}, "Status": {"shipped"}, "Description": {""}}
	_, err := q.js.PublishMsg(t.Context(), &nats.Msg{Subject: q.name + ".jobs", Data: []byte("a"), Header: want})
	require.NoError(t, err)
	var seen []nats.Header
	fails := func(_ context.Context, msg jetstream.Msg) error {
		seen = append(seen, msg.Headers())
		return errBoom
	}
	consume(t, q, retries, time.Second, 1, fails)
	letter, err := q.dead.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	seen = append(seen, letter.Header)
	consumer, err := q.js.Consumer(t.Context(), q.name, "worker")
	require.NoError(t, err)
	_, err = retries.Redrive(t.Context(), q.js, consumer, retryjob.RedriveOptions{})
	require.NoError(t, err)
	consume(t, q, retries, time.Second, 1, fails)
	require.Len(t, seen, 5)
	for n, got := range seen {
		assert.Subset(t, got, want, n)
	}
}

// The content of a dead letter is not trusted. Its message goes only to a subject of the consumer's
// messages. Redrive goes on after a dead letter that cannot go back, and after a dead letter that
// another Redrive has moved.
func TestRedriveOfAStrangersLetters(t *testing.T) {
	t.Parallel()
	payroll, owner := fmt.Sprintf("PAYROLL_%d", time.Now().UnixNano()), newQueue(t)
	other, err := owner.stream(t.Context(), jetstream.StreamConfig{Name: payroll, Subjects: []string{payroll + ".pay"}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, owner.js.DeleteStream(context.Background(), payroll)) })
	for name, row := range map[string]struct {
		subject string
		header  nats.Header
		full    bool
		want    string // "" if the message goes back
	}{
		"a subject of the consumer": {".jobs", nil, false, ""},
		"no subject":                {"", nil, false, `header Retry-Subject is ""`},
		"the server's API":          {"$JS.API.STREAM.DELETE." + payroll, nil, false, `which is not one of the consumer's subjects`},
		"another stream":            {payroll + ".pay", nil, false, `which is not one of the consumer's subjects`},
		"an inbox":                  {"_INBOX.x", nil, false, `header Retry-Subject is "_INBOX.x"`},
		"a wildcard":                {".*", nil, false, "which is not one of"},
		"another protocol":          {".jobs 0\r\n\r\nPUB x", nil, false, "which is not one of"},
		"too large to go back":      {".jobs", nil, true, "nats: maximum payload exceeded"},
		"without its data":          {".jobs", nats.Header{"Retry-Left-Out": {"data"}}, false, `the dead letter lacks the "data" of its message`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			if row.subject != "" && row.subject[0] == '.' {
				row.subject = q.name + row.subject
			}
			for n, subject := range []string{row.subject, q.name + ".jobs", q.name + ".jobs"} {
				letter := nats.NewMsg(q.name + ".dead")
				letter.Header = nats.Header{"Retry-Dead-Letter": {fmt.Sprintf(`{"reason":"r","key":"letter-%d"}`, n)}}
				if n == 0 {
					maps.Copy(letter.Header, row.header)
				}
				letter.Header.Set(retrynats.SubjectHeader, subject)
				if n == 0 && row.full { // as large as the server accepts, and the copy would be larger
					letter.Data = make([]byte, int(q.conn.MaxPayload())-headerSize(letter.Header))
				}
				_, err := q.js.PublishMsg(t.Context(), letter)
				require.NoError(t, err)
			}
			for _, dry := range []bool{true, false} {
				result, err := q.Redrive(t.Context(), retryjob.RedriveOptions{DryRun: dry})
				if row.want == "" || dry && row.full {
					assert.NoError(t, err)
					assert.Equal(t, retryjob.RedriveResult{Found: 3, Moved: 3}, result)
					continue
				}
				assert.ErrorContains(t, err, `retrynats: redrive: 1 of 3 dead letters cannot go back to the queue, and stay dead letters: "letter-0": message 1: `)
				assert.ErrorContains(t, err, row.want)
				assert.Equal(t, retryjob.RedriveResult{Found: 3, Moved: 2, Skipped: 1}, result)
			}
			assert.Eventually(t, func() bool { // the consumer counts a new message a moment after its stream
				n, err := q.Open(t.Context())
				return err == nil && n == map[bool]int{true: 3, false: 2}[row.want == ""]
			}, 10*time.Second, 10*time.Millisecond)
			info, err := other.Info(t.Context())
			require.NoError(t, err, "the other stream is still there")
			assert.Zero(t, info.State.Msgs)
		})
	}
}

func headerSize(header nats.Header) int {
	size := len("NATS/1.0\r\n\r\n")
	for name, values := range header {
		size += len(name) + len(": \r\n") + len(values[0])
	}
	return size
}

// The filter of a consumer says which messages it has. Without a filter, it has all messages of
// its stream.
func TestTheSubjectsOfAConsumer(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	require.NoError(t, q.js.DeleteStream(t.Context(), q.name))
	_, err := q.stream(t.Context(), jetstream.StreamConfig{Name: q.name, Subjects: []string{q.name + ".jobs", q.name + ".also.>"}})
	require.NoError(t, err)
	retries := q.retries(t, quick)
	for _, row := range []struct {
		config  jetstream.ConsumerConfig
		allowed bool
	}{
		{jetstream.ConsumerConfig{}, true},
		{jetstream.ConsumerConfig{FilterSubject: q.name + ".jobs"}, false},
		{jetstream.ConsumerConfig{FilterSubject: q.name + ".also.*"}, true},
		{jetstream.ConsumerConfig{FilterSubjects: []string{q.name + ".jobs", q.name + ".also.b"}}, false},
		{jetstream.ConsumerConfig{FilterSubjects: []string{q.name + ".jobs", q.name + ".also.a"}}, true},
	} {
		letter := nats.NewMsg(q.name + ".dead")
		letter.Header = nats.Header{"Retry-Dead-Letter": {`{"reason":"by hand"}`}, retrynats.SubjectHeader: {q.name + ".also.a"}}
		_, err := q.js.PublishMsg(t.Context(), letter)
		require.NoError(t, err)
		consumer, err := q.js.CreateConsumer(t.Context(), q.name, row.config)
		require.NoError(t, err)
		result, err := retries.Redrive(t.Context(), q.js, consumer, retryjob.RedriveOptions{DryRun: true})
		assert.Equal(t, row.allowed, err == nil, "%+v: %v", row.config, err)
		assert.Equal(t, row.allowed, result.Moved == 1)
		require.NoError(t, q.dead.Purge(t.Context()))
	}
}

// Even if a consumer has all subjects, Redrive publishes nothing to the server's own subjects
// or to an inbox.
func TestAllowed(t *testing.T) {
	for subject, want := range map[string]bool{
		"orders.new": true, "$JS.API.STREAM.DELETE.PAYROLL": false, "$SYS.REQ.SERVER.PING": false, "$KV.a.b": false, "_INBOX.x": false, "mine.x": false, "mines.x": true,
	} {
		assert.Equal(t, want, retrynats.Allowed([]string{"none", ">"}, "mine", subject), subject)
	}
}

func TestMatches(t *testing.T) {
	for _, row := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a", false}, {"a", "a.b", false}, {"a.b", "a.c", false}, {"", "", false}, {"a", "", false},
		{"a.*", "a.b", true}, {"a.*", "a.b.c", false}, {"a.*", "a", false}, {"a.*", "a.", false}, {"*.b", "a.b", true}, {"*", "*", false},
		{"a.>", "a.b", true}, {"a.>", "a.b.c", true}, {"a.>", "a", false}, {"a.>", "b.c", false}, {"a.>", "a..b", false}, {"a.>", "a.b.", false},
		{">", "a", true}, {">", "a.>", false}, {">", "a b", false}, {">", "a.b\r", false}, {">", "a\x7f", false}, {">", "\u00fc", true},
	} {
		assert.Equal(t, row.want, retrynats.Matches(row.pattern, row.subject), "%q, %q", row.pattern, row.subject)
	}
}

// If the stream has an equal copy, or if the copy was already handled, a killed process has
// moved the dead letter. Anybody may choose a Nats-Msg-Id, so a different message may have the
// same ID.
func TestRedriveAfterACopy(t *testing.T) {
	t.Parallel()
	moved, skipped := retryjob.RedriveResult{Found: 1, Moved: 1}, retryjob.RedriveResult{Found: 1, Skipped: 1}
	for name, row := range map[string]struct {
		data, due string
		handled   bool
		want      retryjob.RedriveResult
	}{
		"equal":                        {"a", "2026-11-22T20:15:00Z", false, moved},
		"equal, handled":               {"a", "2026-11-22T20:15:00Z", true, moved},
		"other data":                   {"b", "2026-11-22T20:15:00Z", false, skipped},
		"a copy that no redriver made": {"a", "", false, skipped},
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

// If dead letters cannot be deleted, each Redrive would move the same dead letters again. So
// Redrive returns an error.
func TestRedriveRefusesDenyDelete(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	require.NoError(t, q.js.DeleteStream(t.Context(), q.name+"_dead"))
	var err error
	q.dead, err = q.stream(t.Context(), jetstream.StreamConfig{Name: q.name + "_dead", Subjects: []string{q.name + ".dead"}, DenyDelete: true})
	require.NoError(t, err)
	for n := range 3 {
		require.NoError(t, q.Enqueue(t.Context(), fmt.Sprint(n), 0))
	}
	consume(t, q, q.retries(t, retry.Policy{MaxAttempts: 1}), time.Second, 3, func(context.Context, jetstream.Msg) error { return errBoom })
	for _, dry := range []bool{true, false} {
		result, err := q.Redrive(t.Context(), retryjob.RedriveOptions{DryRun: dry})
		assert.ErrorContains(t, err, fmt.Sprintf("retrynats: redrive: dead letters go to %q, in the stream %s_dead: DenyDelete is set", q.name+".dead", q.name))
		assert.Zero(t, result)
	}
	n, err := q.Open(t.Context())
	require.NoError(t, err)
	assert.Zero(t, n)
	assert.Len(t, lettersOf(t, q), 3)
}
