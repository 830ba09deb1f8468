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

// DeadLetterOf returns the dead letter in the error that a workflow got from an activity. The
// dead letter says what the [Interceptor] decided after the last attempt. Its JSON is the last
// detail of an ApplicationError. In Temporal's user interface, its Reason is ReasonRetry after
// an attempt that will be retried.
//
// ok is false if the error has no dead letter. If the last attempt of an activity was lost, its
// error is a TimeoutError, which has no dead letter. The TimeoutError wraps the failure of an
// earlier attempt, and DeadLetterOf ignores the details of that failure.
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

// answered returns the ApplicationError of the last attempt, nil if the attempt has none.
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

// details returns the details of an error. If the error comes from another process, they are the
// raw values that were sent. all is false if a detail cannot be read. An error does not say how
// many details it has, so details reads 1, 2, 4 and more, until a value is missing.
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

// created returns the details of an error that was created in this process. It reads one more
// detail in each round, until a detail is missing.
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

// read reads details into targets. If the error was created in this process, the SDK sets the
// targets by reflection, and panics if a detail is nil or has another type than its target.
func read(app *temporal.ApplicationError, targets []any) (err error) {
	defer func() {
		if recover() != nil {
			err = errUnreadable
		}
	}()
	return app.Details(targets...)
}

// leastDelay is the shortest NextRetryDelay. Zero would mean that no delay is set.
const leastDelay = time.Millisecond

// answer returns the error for the server. It has the failure of the attempt, converted as the SDK
// would convert it, and the decision.
func answer(ctx context.Context, job retryjob.Job, o retryjob.Outcome, failure error) error {
	last := retry.Unwrap(o.Err)
	// If the policy is invalid, the error has the type of the failure. Its details say why.
	if e, ok := last.(*retry.Error); ok && e.Err != nil {
		last = e.Err
	}
	switch {
	case o.Interrupted() && errors.Is(context.Cause(ctx), worker.ErrWorkerShutdown):
		// The error has no details, because the SDK may lose an error with details while its
		// worker stops. It would then report "context canceled" instead, and the server would
		// decide.
		options := temporal.ApplicationErrorOptions{NextRetryDelay: leastDelay}
		return temporal.NewApplicationErrorWithOptions(valid(last.Error()), typeOf(last), options)
	case o.Interrupted() && failure == nil: // ctx ended before the attempt
		return ctx.Err()
	case o.Interrupted(): // canceled by the server
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
			options.Details, options.Cause = nil, app // app still has all of them
		}
	}
	if !sendable(last) { // the causes are left out, but most messages repeat the texts of their causes
		message, options.Cause = valid(message), nil
	}
	options.Details = append(options.Details, o.DeadLetter(job))
	return temporal.NewApplicationErrorWithOptions(message, typeOf(last), options)
}

// sendable reports whether the SDK can send the texts of an error and its causes.
func sendable(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if !utf8.ValidString(err.Error()) {
			return false
		}
	}
	return true
}

// valid returns text as valid UTF-8, because protobuf accepts nothing else.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// typeOf returns the type that the SDK gives an error.
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
