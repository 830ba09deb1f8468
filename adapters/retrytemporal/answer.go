package retrytemporal

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// leastDelay is the shortest NextRetryDelay. A NextRetryDelay of zero would mean that no delay
// is set.
const leastDelay = time.Millisecond

// answer returns the error that the server gets. This error describes the failure of the attempt as
// the SDK would describe it, and contains the decision whether a retry follows.
func answer(ctx context.Context, job retryjob.Job, o retryjob.Outcome, failure error) error {
	last := retry.Unwrap(o.Err)
	// If the policy is invalid, Unwrap returns an Error that wraps the failure of the attempt. The
	// server gets this failure. The dead letter says that the policy is invalid.
	if e, ok := last.(*retry.Error); ok && e.Err != nil {
		last = e.Err
	}
	switch {
	case o.Interrupted() && errors.Is(context.Cause(ctx), worker.ErrWorkerShutdown):
		// Return an error without details. While a worker stops, the SDK may lose an error with details,
		// and report "context canceled" in its place. The server would then decide with its own
		// RetryPolicy whether and when a retry follows.
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
			options.Details, options.Cause = nil, app // `app`, which is now the cause, still has all details
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

// valid replaces invalid bytes in `text`, because protobuf accepts only valid UTF-8.
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
