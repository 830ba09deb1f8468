package retrylog

import (
	"context"
	"log/slog"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
)

// Slog returns an OnEvent that logs to logger, or to slog.Default() if logger
// is nil:
//
//   - a retry is one warning, with the error, the attempt and the delay;
//   - the end of a call is one line, with the reason and the error: giving up is
//     an error, a canceled call a warning, and success after retries is info;
//   - an invalid policy is an error, or a warning where the call succeeded anyway;
//   - everything else is debug: each attempt's start and result, and the end of
//     a call that succeeded at once.
//
// Messages are constant. The attributes have the keys and values of the event's JSON:
// a delay is a text such as "212ms". The time of a line is when the event happened. So
// the lines at level Debug are a log that [Read] reads, if logger has no group. At a higher
// level there are only the retries and the ends, but each retry has all that its delay
// follows from: see [retry.Draw].
//
// The key set by [WithKey] is the attribute "key". An error is wrapped in one of which
// every handler logs the text, with line breaks and other characters that a terminal may
// act on escaped as in [Explain]. A handler finds the error itself with errors.As.
func Slog(logger *slog.Logger) func(context.Context, retry.Event) {
	return func(ctx context.Context, e retry.Event) {
		l := logger
		if l == nil {
			l = slog.Default()
		}
		level, message := levelOf(e)
		if l.Enabled(ctx, level) {
			line := slog.NewRecord(e.Time, level, message, 0)
			line.AddAttrs(eventlog.Attrs(recordOf(ctx, e))...)
			_ = l.Handler().Handle(ctx, line) // as slog.Logger does
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
	case e.Reason == retry.ReasonSuccess && e.Cause != nil:
		return slog.LevelWarn, "invalid policy or call"
	case e.Reason == retry.ReasonSuccess && e.Attempt > 1:
		return slog.LevelInfo, "succeeded after retries"
	case e.Reason == retry.ReasonSuccess:
		return slog.LevelDebug, "succeeded"
	case e.Reason == retry.ReasonCanceled:
		return slog.LevelWarn, "canceled"
	default:
		return slog.LevelError, "gave up"
	}
}
