package retrylog

import (
	"context"
	"log/slog"
	"time"

	"github.com/goretry/retry"
)

// Slog returns an OnEvent that logs to logger, or to slog.Default() if logger
// is nil:
//
//   - a retry is one warning, with the error, the attempt and the delay;
//   - the end of a call is one line, with the reason and the error: giving up is
//     an error, a canceled call a warning, success after retries and a [retry.Loop]
//     that was left are info;
//   - an invalid policy is an error, or a warning where the call succeeded anyway;
//   - everything else is debug: each attempt's start and result, and the end of
//     a call that succeeded at once.
//
// Messages are constant. Durations are milliseconds, in attributes whose names
// end in _ms. The key set by [WithKey] is the attribute "key". Errors are logged
// as they are, for handlers that examine them; one whose text has line breaks or
// other characters that a terminal may act on is wrapped in an error whose text
// has them escaped as in [Explain].
func Slog(logger *slog.Logger) func(context.Context, retry.Event) {
	return func(ctx context.Context, e retry.Event) {
		l := logger
		if l == nil {
			l = slog.Default()
		}
		level, message := levelOf(e)
		if l.Enabled(ctx, level) { // LogAttrs checks it too, but only after attrsOf
			l.LogAttrs(ctx, level, message, attrsOf(ctx, e)...)
		}
	}
}

func levelOf(e retry.Event) (slog.Level, string) {
	switch {
	case e.Kind == retry.AttemptStarted:
		return slog.LevelDebug, "attempt started"
	case e.Kind == retry.AttemptFinished && e.Err != nil:
		return slog.LevelDebug, "attempt failed"
	case e.Kind == retry.AttemptFinished:
		return slog.LevelDebug, "attempt succeeded"
	case e.Kind == retry.RetryScheduled:
		return slog.LevelWarn, "retry scheduled"
	case e.Reason == retry.ReasonInvalid:
		return slog.LevelError, "invalid policy or call"
	case faultOf(e) != nil:
		return slog.LevelWarn, "invalid policy or call"
	case e.Reason == retry.ReasonSuccess && e.Attempt > 1:
		return slog.LevelInfo, "succeeded after retries"
	case e.Reason == retry.ReasonSuccess:
		return slog.LevelDebug, "succeeded"
	case e.Reason == retry.ReasonLeft:
		return slog.LevelInfo, "left"
	case e.Reason == retry.ReasonCanceled:
		return slog.LevelWarn, "canceled"
	default:
		return slog.LevelError, "gave up"
	}
}

func attrsOf(ctx context.Context, e retry.Event) []slog.Attr {
	var attrs []slog.Attr
	if key := Key(ctx); key != "" {
		attrs = append(attrs, slog.String("key", printable(key)))
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
		attrs = append(attrs, slog.Any("err", escaped(e.Err)))
	}
	if e.Cause != nil {
		attrs = append(attrs, slog.Any("cause", escaped(e.Cause)))
	}
	return attrs
}

func milliseconds(name string, d time.Duration) slog.Attr {
	return slog.Float64(name, float64(d)/float64(time.Millisecond))
}

// escaped returns err, or an error around it if its text is not printable.
func escaped(err error) error {
	text := textOf(err)
	if safe := printable(text); safe != text {
		return &escapedError{safe, err}
	}
	return err
}

type escapedError struct {
	text string
	err  error
}

func (e *escapedError) Error() string { return e.text }
func (e *escapedError) Unwrap() error { return e.err }
