// Package rpc is what retrygrpc and retryconnect have in common: the policies of
// methods, the table of codes, and streams. Ended serves retryaws too.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/saturate"
)

// The codes that the table knows, by the numbers that gRPC and Connect share.
const (
	deadlineExceeded  = 4
	resourceExhausted = 8
)

const (
	// PreviousAttempts is the key of the metadata that says how many attempts
	// there were before this one.
	PreviousAttempts = "grpc-previous-rpc-attempts"

	// Pushback is the key of the trailer by which a server asks for a wait in
	// milliseconds, or forbids a retry.
	Pushback = "grpc-retry-pushback-ms"
)

// PolicyOf returns the policy of a method, "/pkg.Service/Method": one of
// methods, by its name or by that of its service, or p.
func PolicyOf(method string, p retry.Policy, methods map[string]retry.Policy) retry.Policy {
	service := method[:strings.LastIndexByte(method, '/')+1]
	for _, name := range []string{method, service} {
		if p, ok := methods[name]; ok {
			return p
		}
	}
	return p
}

// Validate returns what is wrong with policies and with the names of methods.
// pkg begins its text.
func Validate(pkg string, p retry.Policy, methods map[string]retry.Policy) error {
	errs := []error{p.Validate()}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if !strings.HasPrefix(name, "/") || strings.Count(name, "/") != 2 || strings.HasPrefix(name, "//") {
			errs = append(errs, fmt.Errorf("%s: Methods has %q: write \"/pkg.Service/Method\", or \"/pkg.Service/\" for its other methods", pkg, name))
		}
		if err := methods[name].Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: Methods[%q]: %w", pkg, name, err))
		}
	}
	return errors.Join(errs...)
}

// A Failure is what an attempt failed with; the zero Failure is a success.
type Failure struct {
	Err       error
	Code      uint32
	Retryable bool          // by its code
	Wait      time.Duration // that the server names
	Named     bool          // it names one, if only of 0
	Pushback  []string      // the values of the trailer
	Final     string        // why it is not retried, whatever the rest says; "": nothing
}

// Mark marks the error of f: with the server's wait, or as permanent.
func (f Failure) Mark() error {
	if f.Err == nil {
		return nil
	}
	if len(f.Pushback) > 0 {
		wait, err := strconv.ParseInt(f.Pushback[0], 10, 64)
		if err != nil || wait < 0 || len(f.Pushback) > 1 {
			f.Final = fmt.Sprintf("the server forbids it, %s is %q", Pushback, f.Pushback)
		}
		f.Wait, f.Named = max(f.Wait, saturate.Mul(uint64(max(0, wait)), time.Millisecond)), true
	}
	throttled := f.Code == resourceExhausted && f.Named
	switch {
	case f.Final != "":
		return retry.Permanent(fmt.Errorf("%w (not retried: %s)", f.Err, f.Final))
	case !f.Retryable && !throttled:
		return retry.Permanent(f.Err)
	default:
		return retry.After(f.Wait, f.Err)
	}
}

// Do makes attempts by p, each with its number. coded returns the error of a
// context with its code.
func Do(ctx context.Context, p retry.Policy, attempt func(context.Context, int) Failure, coded func(error) error) error {
	attempts := 0
	err := retry.Do(ctx, p, func(attemptCtx context.Context) error {
		attempts++
		f := attempt(attemptCtx, attempts)
		if f.Code == deadlineExceeded {
			awaitDeadline(ctx)
		}
		switch timeout := f.Code == deadlineExceeded && p.AttemptTimeout > 0; {
		case Ended(ctx):
			return f.Err // not marked: a loop around this one may go on with another context
		case timeout && f.Final == "":
			return f.Err
		default:
			return f.Mark()
		}
	})
	var e *retry.Error
	if errors.As(err, &e) && e.Attempts == 0 && ctx.Err() != nil {
		e.Cause = &noAttempt{e.Cause, coded(ctx.Err())}
	}
	return err
}

// awaitDeadline waits for the deadline of ctx if that is less than a millisecond
// away. What a server gets of it is the number of whole milliseconds, and its
// answer that they are over may come before ctx ends.
func awaitDeadline(ctx context.Context) {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < time.Millisecond && ctx.Done() != nil {
		<-ctx.Done()
	}
}

// Ended reports whether ctx has ended, or is about to: transports look at the
// clock, and may be ahead of the context's timer.
func Ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// A noAttempt is why no attempt was made: the context, and its error with a
// code.
type noAttempt struct {
	error
	coded error
}

func (e *noAttempt) Unwrap() []error { return []error{e.error, e.coded} }

// A timeoutError is what an attempt failed with that ran into its
// AttemptTimeout.
type timeoutError time.Duration

func (e timeoutError) Error() string {
	return fmt.Sprintf("no message within AttemptTimeout (%v)", time.Duration(e))
}

func (timeoutError) Unwrap() error { return context.DeadlineExceeded }
