package retrylog

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"time"

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
// the lines of a [slog.JSONHandler] at level Debug are a log that [Read] reads, if
// logger has no group and no attribute with one of these keys. At a higher level there
// are only the retries and the ends, but each retry has all that its delay follows
// from: see [retry.Draw].
//
// The key set by [WithKey] is the attribute "key". Errors are logged as they are, for
// handlers that examine them. Some are wrapped in an error that has their text
// alone: those that a handler would not log as a text (json.Marshaler,
// slog.LogValuer), and those whose text has line breaks or other characters that a
// terminal may act on, which are escaped as in [Explain].
func Slog(logger *slog.Logger) func(context.Context, retry.Event) {
	return func(ctx context.Context, e retry.Event) {
		l := logger
		if l == nil {
			l = slog.Default()
		}
		level, message := levelOf(e)
		if l.Enabled(ctx, level) {
			line := slog.NewRecord(e.Time, level, message, 0)
			line.AddAttrs(attrsOf(ctx, e)...)
			_ = l.Handler().Handle(ctx, line) // as slog.Logger does
		}
	}
}

func levelOf(e retry.Event) (slog.Level, string) {
	switch {
	case e.Kind == retry.AttemptStarted:
		return slog.LevelDebug, eventlog.MessageStarted
	case e.Kind == retry.AttemptFinished && e.Err != nil:
		return slog.LevelDebug, eventlog.MessageFailed
	case e.Kind == retry.AttemptFinished:
		return slog.LevelDebug, eventlog.MessageFinished
	case e.Kind == retry.RetryScheduled:
		return slog.LevelWarn, eventlog.MessageScheduled
	case e.Reason == retry.ReasonInvalid:
		return slog.LevelError, eventlog.MessageInvalid
	case e.Reason == retry.ReasonSuccess && e.Cause != nil:
		return slog.LevelWarn, eventlog.MessageInvalid
	case e.Reason == retry.ReasonSuccess && max(e.Attempt, e.Total) > 1:
		return slog.LevelInfo, eventlog.MessageRecovered
	case e.Reason == retry.ReasonSuccess:
		return slog.LevelDebug, eventlog.MessageSucceeded
	case e.Reason == retry.ReasonCanceled:
		return slog.LevelWarn, eventlog.MessageCanceled
	default:
		return slog.LevelError, eventlog.MessageGaveUp
	}
}

// attrsOf returns the attributes of e, by the names that its JSON has.
func attrsOf(ctx context.Context, e retry.Event) []slog.Attr {
	attrs := make([]slog.Attr, 0, 16)
	add := func(is bool, a slog.Attr) {
		if is {
			attrs = append(attrs, a)
		}
	}
	r, retries := recordOf(ctx, e), e.Kind == retry.RetryScheduled
	add(r.Key != "", slog.String("key", eventlog.Printable(r.Key)))
	add(true, slog.String("kind", string(e.Kind)))
	add(true, slog.Int("attempt", e.Attempt))
	add(e.Total > e.Attempt, slog.Int("total", e.Total))
	add(true, slog.Int("max", e.Max))
	add(e.Resets != 0, slog.Int("resets", e.Resets))
	add(true, duration("elapsed", e.Elapsed))
	add(e.Kind == retry.AttemptFinished, duration("took", e.Took))
	add(r.Hedged, slog.Bool("hedged", true))
	add(retries, duration("delay", e.Delay))
	add(retries, slog.Time("due", e.Due))
	add(e.Lo != 0 || e.Hi != 0, duration("lo", e.Lo))
	add(e.Lo != 0 || e.Hi != 0, duration("hi", e.Hi))
	add(e.RetryAfter != 0, duration("retry_after", e.RetryAfter))
	add(e.Seed != 0, slog.String("seed", strconv.FormatUint(e.Seed, 10)))
	add(e.Class != "", slog.String("class", eventlog.Printable(e.Class)))
	add(e.Reason != "" && !retries, slog.String("reason", string(e.Reason)))
	if e.Err != nil {
		attrs = append(attrs, slog.Any("err", asText(e.Err)))
	}
	if e.Cause != nil {
		attrs = append(attrs, slog.Any("cause", asText(e.Cause)))
	}
	return attrs
}

// duration is a text, as in the JSON of an event: a number of milliseconds would
// lose digits that the delay follows from.
func duration(name string, d time.Duration) slog.Attr { return slog.String(name, d.String()) }

// asText returns err, or an error around it if a handler would not log its text, or
// if that is not printable.
func asText(err error) error {
	text := fmt.Sprint(err) // also of a nil pointer whose method Error panics
	safe := eventlog.Printable(text)
	_, marshals := err.(json.Marshaler)
	_, values := err.(slog.LogValuer)
	if safe != text || marshals || values {
		return &textError{safe, err}
	}
	return err
}

type textError struct {
	text string
	err  error
}

func (e *textError) Error() string { return e.text }
func (e *textError) Unwrap() error { return e.err }
