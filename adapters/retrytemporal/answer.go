package retrytemporal

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// DeadLetterOf returns the dead letter in err, which is the error that a workflow got from an
// activity. The dead letter contains the decision of the [Interceptor] after the last attempt.
// It is stored as JSON in the last detail of an ApplicationError. Temporal's user interface
// also shows a dead letter for a failed attempt that will be retried: its Reason is
// ReasonRetry.
//
// The result `ok` is false if err contains no dead letter. If the last attempt of an activity
// was lost, the error is a TimeoutError, which has no dead letter. The TimeoutError may wrap
// the failure of an earlier attempt. DeadLetterOf ignores the dead letter in this failure.
func DeadLetterOf(err error) (d retryjob.DeadLetter, ok bool) {
	app := answered(err)
	if app == nil {
		return d, false
	}
	values, _ := details(app)
	if len(values) == 0 {
		return d, false
	}
	targets := make([]any, len(values))
	for i, value := range values {
		targets[i] = new(any)
		if _, raw := value.(converter.RawValue); raw {
			targets[i] = new(converter.RawValue)
		}
	}
	targets[len(targets)-1] = &d
	if read(app, targets) != nil || d.Attempts < 1 {
		return retryjob.DeadLetter{}, false
	}
	return d, true
}

// answered returns the ApplicationError of the last attempt. It returns nil if the last attempt
// has no ApplicationError.
func answered(err error) *temporal.ApplicationError {
	for ; err != nil; err = errors.Unwrap(err) {
		switch err := err.(type) {
		case *temporal.ApplicationError:
			return err
		case *temporal.TimeoutError:
			return nil
		}
	}
	return nil
}

// details returns the details of an error. For an error from another process, the details are
// the raw values that were sent. The result `all` is false if a detail cannot be read. An error
// does not reveal the number of its details. So the function first reads 1 value, then 2, then
// 4 and so on, until a value is missing.
func details(app *temporal.ApplicationError) (values []any, all bool) {
	for n := 1; app.HasDetails(); n *= 2 {
		raw, targets := make([]converter.RawValue, n), make([]any, n)
		for i := range raw {
			targets[i] = &raw[i]
		}
		if read(app, targets) != nil {
			return created(app)
		}
		for _, value := range raw {
			if value.Payload() == nil {
				return values, true
			}
			values = append(values, value)
		}
		values = nil
	}
	return nil, true
}

// created returns the details of an error that was created in this process. The function first
// reads 1 detail, then 2, then 3 and so on, until a detail is missing.
func created(app *temporal.ApplicationError) (values []any, all bool) {
	type missing struct{}
	for {
		next, targets := make([]any, len(values)+1), make([]any, len(values)+1)
		for i := range next {
			next[i], targets[i] = missing{}, &next[i]
		}
		err := read(app, targets)
		if err != nil || next[len(values)] == (missing{}) {
			return values, !errors.Is(err, errUnreadable)
		}
		values = next
	}
}

var errUnreadable = errors.New("a detail cannot be read")

// `read` copies the details of app into targets. If the error was created in this process, the
// SDK copies by reflection, and panics if a detail is nil or does not have the type of its
// target. Then `read` returns errUnreadable.
func read(app *temporal.ApplicationError, targets []any) (err error) {
	defer func() {
		if recover() != nil {
			err = errUnreadable
		}
	}()
	return app.Details(targets...)
}

// leastDelay is the shortest NextRetryDelay. A NextRetryDelay of zero would mean that no delay
// is set.
const leastDelay = time.Millisecond

// answer returns the error that the server gets. This error describes the failure of the
// attempt as the SDK would describe it, and contains the decision.
func answer(ctx context.Context, job retryjob.Job, o retryjob.Outcome, failure error) error {
	last := retry.Unwrap(o.Err)
	// If the policy is invalid, `last` is the failure of the attempt. The dead letter says that
	// the policy is invalid.
	if e, ok := last.(*retry.Error); ok && e.Err != nil {
		last = e.Err
	}
	switch {
	case o.Interrupted() && errors.Is(context.Cause(ctx), worker.ErrWorkerShutdown):
		// Return an error without details. While a worker stops, the SDK may lose an error with details,
		// and report "context canceled" in its place. Then the server would decide alone.
		options := temporal.ApplicationErrorOptions{NextRetryDelay: leastDelay}
		return temporal.NewApplicationErrorWithOptions(valid(last.Error()), typeOf(last), options)
	case o.Interrupted() && failure == nil: // ctx was done before the attempt began
		return ctx.Err()
	case o.Interrupted(): // the server has canceled the attempt
		return failure
	}
	message := last.Error()
	options := temporal.ApplicationErrorOptions{NonRetryable: !o.Retry(), Cause: errors.Unwrap(last)}
	if o.Retry() {
		options.NextRetryDelay = max(leastDelay, o.Delay)
	}
	if app, ok := last.(*temporal.ApplicationError); ok {
		message, options.Category = app.Message(), app.Category()
		if options.Details, ok = details(app); !ok {
			options.Details, options.Cause = nil, app // app, which is now the cause, still has all details
		}
	}
	if !sendable(last) {
		// The causes can be left out, because most messages repeat the texts of their causes.
		message, options.Cause = valid(message), nil
	}
	options.Details = append(options.Details, o.DeadLetter(job))
	return temporal.NewApplicationErrorWithOptions(message, typeOf(last), options)
}

// sendable reports whether the texts of an error and its causes are valid UTF-8. The SDK cannot
// send other texts.
func sendable(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if !utf8.ValidString(err.Error()) {
			return false
		}
	}
	return true
}

// valid replaces invalid bytes in text, because protobuf accepts only valid UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// typeOf returns the name of the type that the SDK would send for err.
func typeOf(err error) string {
	if app, ok := err.(*temporal.ApplicationError); ok {
		return app.Type()
	}
	t := reflect.TypeOf(err)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}
