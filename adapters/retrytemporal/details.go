package retrytemporal

import (
	"errors"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/goretry/retry/retryjob"
)

// DeadLetterOf returns the dead letter in the details of err, which a workflow got from an
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

// `read` copies the details of `app` into the parameter `targets`. If the error was created in this
// process, the SDK copies by reflection, and panics if a detail is nil or does not have the type of
// its target. Then `read` returns errUnreadable.
func read(app *temporal.ApplicationError, targets []any) (err error) {
	defer func() {
		if recover() != nil {
			err = errUnreadable
		}
	}()
	return app.Details(targets...)
}
