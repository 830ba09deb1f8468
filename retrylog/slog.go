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

// Slog returns a function for the OnEvent of policies. It writes to the given logger, or to
// slog.Default() if the logger is nil:
//
//	level    line
//	Warn     a retry, with the error, the attempt and the delay
//	Error    the end of a call that gave up, with the reason and the error
//	Warn     the end of a canceled call
//	Info     the end of a call that succeeded after retries
//	Error    an invalid policy
//	Warn     an invalid policy, if the call succeeded all the same
//	Debug    the start and the result of each attempt
//	Debug    the end of a call that succeeded at its first attempt
//
// The messages are constant. The attributes have the keys and values of the event's JSON: a delay,
// for example, is a string such as "212ms". The time of a line is the time of the event. [Read] can
// read the lines, unless the logger has a group (see [slog.Logger.WithGroup]). If the level of the
// logger is above Debug, the log contains only the retries and the ends of calls. The delay of a
// retry can be computed from its line alone, see [retry.Draw].
//
// The key of [WithKey] is the attribute "key". The text of an error is one line in which control
// characters are escaped, as in [Explain]. A handler can get the original error with errors.As.
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
			_ = l.Handler().Handle(ctx, line) // slog.Logger ignores this error too
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

// messages contains every message that levelOf returns.
var messages = []string{
	"attempt started", "attempt failed", "attempt succeeded", "retry scheduled",
	"invalid policy or call", "succeeded after retries", "succeeded", "canceled", "gave up",
}

// The function `attrs` returns the fields of r as attributes of package slog. It leaves out the
// time, because the line already contains the time. It also leaves out a field that is zero, unless
// events of this kind always have the field.
func attrs(r Record) []slog.Attr {
	r = r.bare()
	list := make([]slog.Attr, 0, 16)
	for _, f := range fields {
		always := f.always && slices.Contains(f.kinds, r.Event.Kind)
		if f.key != "time" && (always || !f.isZero(&r)) {
			list = append(list, slog.Attr{Key: f.key, Value: attrOf(f.pointer(&r))})
		}
	}
	return list
}

// attrOf returns the value of a field. A duration becomes a text, as in the JSON of an event. A
// number of milliseconds would lose digits that are needed to compute the delay again.
func attrOf(field any) slog.Value {
	switch field := field.(type) {
	case *int, *bool, *time.Time:
		return slog.AnyValue(reflect.ValueOf(field).Elem().Interface())
	case *error:
		return slog.AnyValue(&textError{printable.Line(textOf(*field)), *field})
	default: // a text, a seed, or a duration
		return slog.StringValue(printable.Line(fmt.Sprint(reflect.ValueOf(field).Elem())))
	}
}
