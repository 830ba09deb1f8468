package retrylog

import (
	"context"
	"log/slog"
	"time"

	"github.com/goretry/retry"
)

// Slog returns an OnEvent that logs to logger, to slog.Default() if it is nil:
//
//   - an attempt that failed, and the retry that is scheduled after it, as
//     warnings: two, for what it failed with is in the first, and how long the
//     wait is in the second;
//   - giving up, and a policy that is not valid, as errors; a call that was
//     canceled as a warning;
//   - success after retries, and a Loop that was left, as info;
//   - the start of attempts, and what succeeds at once, as debug.
//
// Giving up says why, not what the last attempt failed with: that is in the
// warning just before, and in the error that the call returns. A log of errors
// alone needs the latter.
//
// Messages are constant. Durations are milliseconds, in attributes that say so;
// a key set by [WithKey] is the attribute "key".
func Slog(logger *slog.Logger) func(context.Context, retry.Event) {
	return func(ctx context.Context, e retry.Event) {
		l := logger
		if l == nil {
			l = slog.Default()
		}
		level, message := levelOf(e)
		if l.Enabled(ctx, level) { // LogAttrs asks too, but after attrsOf
			l.LogAttrs(ctx, level, message, attrsOf(ctx, e)...)
		}
	}
}

func levelOf(e retry.Event) (slog.Level, string) {
	switch {
	case e.Kind == retry.AttemptStarted:
		return slog.LevelDebug, "attempt started"
	case e.Kind == retry.AttemptFinished && e.Err != nil:
		return slog.LevelWarn, "attempt failed"
	case e.Kind == retry.AttemptFinished:
		return slog.LevelDebug, "attempt succeeded"
	case e.Kind == retry.RetryScheduled:
		return slog.LevelWarn, "retry scheduled"
	case e.Reason == retry.ReasonSuccess && e.Attempt > 1:
		return slog.LevelInfo, "succeeded after retries"
	case e.Reason == retry.ReasonSuccess:
		return slog.LevelDebug, "succeeded"
	case e.Reason == retry.ReasonLeft:
		return slog.LevelInfo, "left"
	case e.Reason == retry.ReasonCanceled:
		return slog.LevelWarn, "canceled"
	case e.Reason == retry.ReasonInvalid:
		return slog.LevelError, "not valid"
	default:
		return slog.LevelError, "gave up"
	}
}

func attrsOf(ctx context.Context, e retry.Event) []slog.Attr {
	var attrs []slog.Attr
	if key := Key(ctx); key != "" {
		attrs = append(attrs, slog.String("key", key))
	}
	attrs = append(attrs, slog.Int("attempt", e.Attempt), slog.Int("max", e.Max), milliseconds("elapsed_ms", e.Elapsed))
	switch e.Kind {
	case retry.AttemptFinished:
		attrs = append(attrs, milliseconds("took_ms", e.Took))
	case retry.RetryScheduled:
		attrs = append(attrs, milliseconds("delay_ms", e.Delay), slog.Time("due", e.Due))
		if e.Hint != 0 {
			attrs = append(attrs, milliseconds("hint_ms", e.Hint))
		}
	case retry.Stopped:
		attrs = append(attrs, slog.String("reason", e.Reason.String()))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("err", e.Err))
	}
	return attrs
}

func milliseconds(name string, d time.Duration) slog.Attr {
	return slog.Float64(name, float64(d)/float64(time.Millisecond))
}
