package retry_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

var (
	errBoom     = errors.New("boom")
	errDial     = errors.New("dial tcp: connection refused")
	errShutdown = errors.New("the server shuts down")
)

// A caller calls fn under a policy. The tests use a caller for Do and a caller for DoValue, because
// both make the same promises.
type caller func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error

var callers = []struct {
	name string
	call caller
}{
	{"Do", retry.Do},
	{"DoValue", func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error {
		_, err := retry.DoValue(ctx, p, func(ctx context.Context) (string, error) { return "value", fn(ctx) })
		return err
	}},
}

// The function `bubble` runs a subtest in virtual time. The subtest fails if a goroutine that it
// started does not end.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// everyWay runs a subtest in virtual time for Do and DoValue.
func everyWay(t *testing.T, name string, f func(t *testing.T, call caller)) {
	t.Helper()
	for _, c := range callers {
		bubble(t, name+"/"+c.name, func(t *testing.T) { f(t, c.call) })
	}
}

// The function `stopped` returns err as the *Error that every failed call returns.
func stopped(t *testing.T, err error) *retry.Error {
	t.Helper()
	e, ok := err.(*retry.Error)
	require.True(t, ok, "%v is a %T, not an *Error", err, err)
	return e
}

// The function `plain` returns a copy of an *Error with only its exported fields.
func plain(err error) *retry.Error {
	e := err.(*retry.Error)
	return &retry.Error{
		Reason: e.Reason, Class: e.Class, Attempts: e.Attempts, Waited: e.Waited, Delay: e.Delay, Err: e.Err, Cause: e.Cause,
		Before: e.Before,
	}
}

// The function `fails` returns a function that counts its attempts and always fails.
func fails(runs *int) func(context.Context) error {
	return func(context.Context) error { *runs++; return errDial }
}

// failWith returns a function that always returns err.
func failWith(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// The function `leaves` runs f in a new goroutine. It returns the value of a panic in f, and
// whether f returned.
func leaves(f func()) (recovered any, returned bool) {
	var done sync.WaitGroup
	done.Go(func() {
		defer func() { recovered = recover() }()
		f()
		returned = true
	})
	done.Wait()
	return recovered, returned
}

// noContext is a nil context.
var noContext context.Context

// everySecond is a policy of three attempts, one second apart.
var everySecond = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}

// hidden is a context that hides its deadline.
type hidden struct{ context.Context }

func (hidden) Deadline() (time.Time, bool) { return time.Time{}, false }

// The function `within` returns a context that ends after d, or when its test ends.
func within(ctx context.Context, d time.Duration, cause error) context.Context {
	ctx, cancel := context.WithTimeoutCause(ctx, d, cause)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// endingIn returns a function that derives a context which ends after d.
func endingIn(d time.Duration, cause error) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context { return within(ctx, d, cause) }
}

// hiddenIn does the same as endingIn, but the context hides its deadline.
func hiddenIn(d time.Duration, cause error) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context { return hidden{within(ctx, d, cause)} }
}

// canceledIn returns a function that derives a context which is canceled after d.
func canceledIn(d time.Duration, cause error) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(d, func() { cancel(cause) })
		return ctx
	}
}

// canceledBy returns a function that derives a context which has already been
// canceled.
func canceledBy(cause error) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(cause)
		return ctx
	}
}

// A watch records the events of a call.
type watch struct {
	events   []retry.Event
	contexts []context.Context
}

func (w *watch) event(ctx context.Context, e retry.Event) {
	w.events = append(w.events, e)
	w.contexts = append(w.contexts, ctx)
}

// The method `of` returns the events of one kind.
func (w *watch) of(kind retry.EventKind) (events []retry.Event) {
	for _, e := range w.events {
		if e.Kind == kind {
			events = append(events, e)
		}
	}
	return events
}

func (w *watch) counts() counts {
	return counts{
		len(w.of(retry.AttemptStarted)), len(w.of(retry.AttemptFinished)), len(w.of(retry.RetryScheduled)), len(w.of(retry.CallFinished)),
	}
}

// The type `counts` contains the number of events of each kind.
type counts struct{ started, finished, scheduled, stopped int }

// The variable `reasons` lists all Reasons of this package, without the zero Reason.
var reasons = []retry.Reason{
	retry.ReasonRetry, retry.ReasonSuccess, retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonPermanent, retry.ReasonRejected,
	retry.ReasonRetryAfter, retry.ReasonElapsed, retry.ReasonDeadline, retry.ReasonCanceled, retry.ReasonBudget, retry.ReasonBorrowed,
	retry.ReasonWait, retry.ReasonInvalid,
}

// The function `constant` returns a Source that always draws seed.
func constant(seed uint64) func() uint64 { return func() uint64 { return seed } }

// The function `always` returns a Classify that gives every failure this class.
func always(class retry.Class) func(error) *retry.Class {
	return func(error) *retry.Class { return &class }
}

// The function `tokens` empties a budget and returns how many retries it held.
func tokens(b *retry.Budget) (n int) {
	for b.Take() {
		n++
	}
	return n
}

// drawnFrom returns the decision for a delay without jitter.
func drawnFrom(number int, d time.Duration, reason retry.Reason) retry.Decision {
	return retry.Decision{Delay: d, Reason: reason, Lo: d, Hi: d, Number: number}
}

// askedFor returns the decision for a delay that a server has asked for.
func askedFor(d time.Duration, reason retry.Reason) retry.Decision {
	return retry.Decision{Delay: d, Reason: reason, Lo: d, Hi: d, Number: 1, RetryAfter: d}
}

// The function `rounds` returns how many rounds a random test makes: the number `short`, or a tenth
// of it under -short. If the environment variable RETRY_LONG is set, it returns the number `long`.
// The script .ci/soak sets RETRY_LONG.
func rounds(short, long int) int {
	switch {
	case os.Getenv("RETRY_LONG") != "":
		return long
	case testing.Short():
		return max(1, short/10)
	default:
		return short
	}
}
