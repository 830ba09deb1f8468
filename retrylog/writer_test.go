package retrylog_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// BenchmarkWriter compares a Writer with slog's JSONHandler, which writes the same attributes. It
// measures the CPU time of the process for each event.
func BenchmarkWriter(b *testing.B) {
	at := time.Date(2026, 11, 20, 10, 31, 0, 123456789, time.UTC)
	due := at.Add(212 * time.Millisecond)
	failed := errors.New("connect: connection refused")
	for _, row := range []struct {
		name  string
		event retry.Event
		attrs func() []slog.Attr
	}{
		{"attempt started", retry.Event{
			Kind: retry.AttemptStarted, Time: at, Attempt: 1, Max: 4, Decision: retry.Decision{Number: 1},
		}, func() []slog.Attr {
			return []slog.Attr{slog.String("kind", "attempt_started"), slog.Int("attempt", 1), slog.Int("max", 4)}
		}},
		{"retry scheduled", retry.Event{
			Kind: retry.RetryScheduled, Time: at, Attempt: 1, Max: 4, Err: failed, Elapsed: 31 * time.Millisecond, Due: due,
			Decision: retry.Decision{Number: 1, Reason: retry.ReasonRetry, Delay: 212 * time.Millisecond, Hi: time.Second, Seed: 17316035218449499591},
		}, func() []slog.Attr {
			return []slog.Attr{
				slog.String("kind", "retry_scheduled"), slog.Int("attempt", 1), slog.Int("max", 4), slog.Any("err", failed),
				slog.String("elapsed", (31 * time.Millisecond).String()), slog.String("delay", (212 * time.Millisecond).String()),
				slog.Time("due", due), slog.String("hi", time.Second.String()), slog.String("seed", strconv.FormatUint(17316035218449499591, 10)),
			}
		}},
	} {
		bench := func(name string, write func()) {
			b.Run(row.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				began := cpu(b)
				for b.Loop() {
					write()
				}
				b.ReportMetric(float64(cpu(b)-began)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(0, "ns/op")
			})
		}
		w := retrylog.NewWriter(io.Discard)
		bench("Writer", func() { w.OnEvent(b.Context(), row.event) })
		h := slog.NewJSONHandler(io.Discard, nil)
		bench("JSONHandler", func() {
			line := slog.NewRecord(at, slog.LevelInfo, "", 0)
			line.AddAttrs(row.attrs()...)
			require.NoError(b, h.Handle(b.Context(), line))
		})
	}
}

// cpu returns the CPU time of this process.
func cpu(b *testing.B) int64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

type brokenWriter struct{ after int }

func (b *brokenWriter) Write(p []byte) (int, error) {
	if b.after--; b.after < 0 {
		return 0, errRefused
	}
	return len(p), nil
}

func TestWriterKeepsItsFirstError(t *testing.T) {
	broken := &brokenWriter{after: 2}
	w := retrylog.NewWriter(broken)
	p := policy
	p.Backoff, p.OnEvent = nil, w.OnEvent
	require.Error(t, retry.Do(context.Background(), p, func(context.Context) error { return errRefused }))
	assert.EqualError(t, w.Err(), "retrylog: connection refused")
	assert.Equal(t, -1, broken.after, "nothing is written after an error")
}
