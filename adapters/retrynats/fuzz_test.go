package retrynats

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

var errNoServer = errors.New("there is no server")

// A delivery is a message that no server has.
type delivery struct {
	jetstream.Msg
	meta   jetstream.MsgMetadata
	header nats.Header
	delay  time.Duration // the delay of the last Nak
}

func (d *delivery) Metadata() (*jetstream.MsgMetadata, error) { return &d.meta, nil }
func (d *delivery) Headers() nats.Header                      { return d.header }
func (d *delivery) Subject() string                           { return "orders" }
func (d *delivery) Data() []byte                              { return nil }
func (d *delivery) NakWithDelay(delay time.Duration) error    { d.delay = delay; return errNoServer }

// A publisher keeps what is published.
type publisher struct {
	jetstream.JetStream
	letters []*nats.Msg
}

func (p *publisher) PublishMsg(_ context.Context, m *nats.Msg, _ ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	p.letters = append(p.letters, m)
	return nil, errNoServer
}

// FuzzMessage checks that a message that always fails becomes a dead letter after its
// attempts, whatever its headers say, and that nothing panics.
func FuzzMessage(f *testing.F) {
	f.Add("3", "2026-11-22T20:15:00Z", true, "", uint64(1), int64(0))
	f.Add("", "9999-12-31T23:59:59Z", true, "", uint64(1), int64(0))
	f.Add("-1", "9999-12-31T23:59:59Z", true, `{"reason":"planted"}`, uint64(0), int64(-1<<63))
	f.Add("9223372036854775807", "", true, "{", uint64(1<<64-1), int64(1<<63-1))
	f.Add("", "soon", false, "", uint64(1<<63), int64(1<<62))
	f.Fuzz(func(t *testing.T, limit, due string, putOff bool, dead string, delivered uint64, stored int64) {
		runs, out := 0, &publisher{}
		r, err := New(retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}, "dead")
		require.NoError(t, err)
		r.OnError = func(err error) { require.ErrorIs(t, err, errNoServer) }
		w := &worker{Retries: r, js: out, ackWait: time.Hour, handle: func(context.Context, jetstream.Msg) error { runs++; return errNoServer }}
		d := &delivery{header: nats.Header{MaxAttemptsHeader: {limit}, deadHeader: {dead}}}
		d.meta.NumDelivered, d.meta.Timestamp = delivered, time.Unix(0, stored)
		if putOff {
			d.header[dueHeader] = []string{due}
		}
		for deliveries := 0; len(out.letters) == 0; deliveries++ {
			require.LessOrEqual(t, deliveries, 1+1+3) // plus delivery 0, which no server makes, and a delivery that only delays
			w.attempt(t.Context(), d)
			require.LessOrEqual(t, d.delay, 366*24*time.Hour)
			d.meta.NumDelivered = max(d.meta.NumDelivered, d.meta.NumDelivered+1)
		}
		require.LessOrEqual(t, runs, 3)
		_, err = DeadLetterOf(out.letters[0].Header)
		require.NoError(t, err)
		_, _ = DeadLetterOf(d.header)
	})
}
