package retrylog

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/printable"
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
			line.AddAttrs(attrs(recordOf(ctx, e))...)
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

// messages are those of the lines that Slog logs.
var messages = []string{
	"attempt started", "attempt failed", "attempt succeeded", "retry scheduled",
	"invalid policy or call", "succeeded after retries", "succeeded", "canceled", "gave up",
}

// attrs returns the fields of r for package slog: those that are not zero, and those that an event
// of its kind always has. The time is that of the line.
func attrs(r Record) []slog.Attr {
	r = r.bare()
	list := make([]slog.Attr, 0, 16)
	for _, f := range fields {
		always := f.always && slices.Contains(f.kinds, r.Event.Kind)
		if f.key != "time" && (always || !f.isZero(&r)) {
			list = append(list, slog.Attr{Key: f.key, Value: attrOf(f.of(&r))})
		}
	}
	return list
}

// attrOf returns the value of a field. A duration is a text, as in the JSON of an event: a number
// of milliseconds would lose digits that the delay follows from.
func attrOf(field any) slog.Value {
	switch field := field.(type) {
	case *int, *bool, *time.Time:
		return slog.AnyValue(reflect.ValueOf(field).Elem().Interface())
	case *error:
		return slog.AnyValue(&textError{printable.Line(textOf(*field)), *field})
	default: // of texts, a seed, or a duration
		return slog.StringValue(printable.Line(fmt.Sprint(reflect.ValueOf(field).Elem())))
	}
}

// A textError is an error that every handler logs as a text, and no terminal obeys.
type textError struct {
	text string
	err  error
}

func (e *textError) Error() string { return e.text }
func (e *textError) Unwrap() error { return e.err }
