// Package retryrpc retries the calls of an RPC library according to a retry.Policy. It is for
// authors of adapters. retrygrpc, retryconnect and retryaws are built on it. Users of these
// adapters do not need it.
//
// [Do] makes the attempts of a unary call, and a [Stream] makes the attempts of a stream. The
// adapter describes each failed attempt as a [Failure]. In an adapter's interceptor for unary
// calls, the call of Do looks like this:
//
//	policy := retryrpc.PolicyOf(method, i.Policy, i.Methods)
//	target := retryrpc.Target{Name: address, Own: &i.budgets, Budgets: i.Budgets}
//	err := retryrpc.Do(ctx, policy, target, func(ctx context.Context, number int) retryrpc.Failure {
//		err := invoke(ctx, method, request, reply)
//		code := codeOf(err)
//		return retryrpc.Failure{Err: err, Code: code, Retryable: code == unavailable}
//	}, withCode)
//
// The adapter decides which codes are retried. For all adapters, package retryrpc decides what
// to do after a pushback of the server, after RESOURCE_EXHAUSTED, and after a message that is
// too large. Package calltest contains the tests that every adapter runs.
package retryrpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// These are the status codes for which [Do] and [Failure.Mark] have rules of their own. gRPC and
// Connect use the same numbers for them.
const (
	deadlineExceeded  = 4
	resourceExhausted = 8
)

// answers maps each code that shows that the server works to the name of the code. With such a
// code, the server has understood the call and has answered. The code unimplemented is missing,
// because a proxy also returns it. The codes internal and unknown are missing, because they are
// signs of a bug.
var answers = map[uint32]string{
	3: "invalid argument", 5: "not found", 6: "already exists", 7: "permission denied",
	9: "failed precondition", 10: "aborted", 11: "out of range", 16: "unauthenticated",
}

const (
	// PreviousAttempts is the key of the metadata in which a client sends the number of
	// earlier attempts.
	PreviousAttempts = "grpc-previous-rpc-attempts"

	// Pushback is the key of the trailer in which a server asks for a wait in
	// milliseconds, or forbids a retry.
	Pushback = "grpc-retry-pushback-ms"
)

// PolicyOf returns the policy for a method, such as "/pkg.Service/Method". It looks in the map
// `methods` for the name of the method, and then for the name of its service, such as
// "/pkg.Service/". If `methods` contains neither name, PolicyOf returns p.
func PolicyOf(method string, p retry.Policy, methods map[string]retry.Policy) retry.Policy {
	service := method[:strings.LastIndexByte(method, '/')+1]
	for _, name := range []string{method, service} {
		if p, ok := methods[name]; ok {
			return p
		}
	}
	return p
}

// A Target says which Budget a call gets if its policy has no Budget.
type Target struct {
	// Name is the name of the server, such as "host:port".
	Name string

	// Own contains a Budget for each Name. If the field Budgets is nil, the call gets its Budget from
	// Own.
	Own *retry.Budgets

	// Budgets is the function that the user of the adapter has set. If it returns nil, the call
	// has no Budget.
	Budgets func(target string) *retry.Budget
}

// Validate returns an error if p is invalid, or if a policy or a name in the map `methods` is
// invalid. The error joins all faults. The text of an error about `methods` starts with the
// parameter `pkg`, which is the name of the adapter.
func Validate(pkg string, p retry.Policy, methods map[string]retry.Policy) error {
	errs := []error{p.Validate()}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if !isMethodOrService(name) {
			errs = append(errs, fmt.Errorf("%s: Methods has %q: write \"/pkg.Service/Method\", "+
				"or \"/pkg.Service/\" for all other methods", pkg, name))
		}
		if err := methods[name].Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: Methods[%q]: %w", pkg, name, err))
		}
	}
	return errors.Join(errs...)
}

// isMethodOrService reports whether `name` is written "/pkg.Service/Method" or "/pkg.Service/".
func isMethodOrService(name string) bool {
	return strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "//") &&
		strings.Count(name, "/") == 2 && !strings.ContainsAny(name, "* ")
}

// A Failure describes how an attempt failed. The zero Failure means that the attempt
// succeeded.
type Failure struct {
	Err       error         // the error of the RPC library, or nil if the attempt succeeded
	Code      uint32        // the code of the status; gRPC and Connect use the same numbers
	Retryable bool          // whether the adapter retries this code
	Wait      time.Duration // the wait that the server asks for, if the field Named is true
	Named     bool          // whether the server asks for a wait; if so, RESOURCE_EXHAUSTED is retried
	Pushback  []string      // the values of the Pushback trailer
	Final     string        // why there is no retry; "" if the other fields decide
	Unsent    bool          // whether the attempt has sent nothing, see retry.NotAttempted
}

// Mark returns the error of f, wrapped by [retry.Permanent], or by [retry.After] with the wait
// that the server asks for. It returns nil if the attempt succeeded.
func (f Failure) Mark() error {
	if f.Err == nil {
		return nil
	}
	if len(f.Pushback) > 0 {
		wait, err := strconv.ParseInt(f.Pushback[0], 10, 64)
		if err != nil || wait < 0 || len(f.Pushback) > 1 {
			f.Final = fmt.Sprintf("the server forbids it, %s is %q", Pushback, f.Pushback)
		}
		f.Wait, f.Named = max(f.Wait, Milliseconds(wait)), true
	}
	throttled := f.Code == resourceExhausted && f.Named
	switch {
	case f.Final != "":
		return retry.Permanent(fmt.Errorf("%w (not retried: %s)", f.Err, f.Final))
	case !throttled && (!f.Retryable || f.tooLarge()):
		return retry.Permanent(f.Err)
	default:
		return retry.After(f.Wait, f.Err)
	}
}

// tooLargeTexts contains parts of the error texts with which clients and servers refuse a
// message that is too large. These errors have no type of their own. Their code
// RESOURCE_EXHAUSTED does not identify them, because a rate limit has the same code.
var tooLargeTexts = []string{
	// grpc-go, and the C core of the gRPC for C++, Python and Ruby
	"message larger than max", "after decompression larger than max", "message too large",
	"gRPC message exceeds maximum size",           // grpc-java
	"exceeds the maximum configured message size", // grpc-dotnet
	// grpc-js
	"message with a size larger than", "decompresses to a size larger than",
	// Connect for Go and for ECMAScript
	"larger than configured", "exceeds sendMaxBytes", "exceeds getURLMaxBytes",
	"http.MaxBytesReader limit",
}

// tooLarge reports whether a message of the call is too large. A retry would be useless, because it
// would send the same message.
func (f Failure) tooLarge() bool {
	if f.Code != resourceExhausted {
		return false
	}
	text := f.Err.Error()
	return slices.ContainsFunc(tooLargeTexts, func(part string) bool {
		return strings.Contains(text, part)
	})
}

// healthy reports whether f comes from a server that works and asks for no wait.
func (f Failure) healthy() bool {
	return answers[f.Code] != "" && f.Err != nil && !f.Named && len(f.Pushback) == 0
}

var (
	errSeeBudgets   = errors.New("see Interceptor.Budgets")
	errSetNoBudgets = errors.New(
		"to wait until a server has started, set Interceptor.Budgets to NoBudgets")
)

// Do calls fn once for each attempt that p allows. It passes the context and the number of the
// attempt to fn. The first attempt has the number 1. If p has no Budget, the parameter `target`
// says which Budget the call gets. The function `coded` turns the error of a context into an error
// of the RPC library. Do calls `coded` if ctx was done before the first attempt. The error of Do is
// a [*retry.Error].
func Do(
	ctx context.Context, p retry.Policy, target Target,
	fn func(context.Context, int) Failure, coded func(error) error,
) error {
	var own *retry.Budget // the Budget from target.Own, or nil if the call has another Budget or none
	switch {
	case p.Budget != nil:
	case target.Budgets != nil:
		p.Budget = target.Budgets(target.Name)
	default:
		budget, done := target.Own.For(target.Name)
		defer done()
		own, p.Budget = budget, budget
	}
	attempts := 0
	err := retry.Do(ctx, p, func(attemptCtx context.Context) error {
		attempts++
		f := fn(attemptCtx, attempts)
		if f.Code == deadlineExceeded {
			awaitDeadline(ctx)
		}
		if f.healthy() {
			p.Budget.Success()
		}
		err := f.Err
		timeout := f.Code == deadlineExceeded && p.AttemptTimeout > 0 && f.Final == ""
		// Once ctx is done, the error is not made permanent, because the caller may make the call again
		// with another context.
		if !timeout && !Ended(ctx) {
			err = f.Mark()
		}
		if f.Unsent {
			err = retry.NotAttempted(err)
		}
		return err
	})
	e, failed := err.(*retry.Error)
	switch {
	case !failed:
	case e.Attempts == 0 && ctx.Err() != nil:
		e.Cause = &noAttempt{e.Cause, coded(ctx.Err())}
	case own != nil && e.Budget() == own:
		e.Cause = errSeeBudgets
		if e.Attempts > own.Size { // this call alone has emptied the Budget
			e.Cause = errSetNoBudgets
		}
	}
	return err
}

// awaitDeadline waits until ctx is done, if the deadline of ctx is less than a millisecond away.
// Clients send the remaining time in whole milliseconds. So a server may answer that the time is
// over shortly before ctx is done.
func awaitDeadline(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if ok && time.Until(deadline) < time.Millisecond && ctx.Done() != nil {
		<-ctx.Done()
	}
}

// Milliseconds returns n milliseconds as a duration. It returns 0 if n is negative, and the
// longest duration if n is too large for a duration.
func Milliseconds(n int64) time.Duration {
	if n > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(max(0, n)) * time.Millisecond
}

// Ended reports whether ctx is done or its deadline has passed. Transports compare the deadline
// with the clock, so a transport may end a call before the timer of the context fires.
func Ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// A noAttempt is the error of a call that ended before its first attempt. It wraps two errors: the
// cause of the context, and the context's error, converted to an error of the RPC library.
type noAttempt struct {
	error
	coded error
}

func (e *noAttempt) Unwrap() []error { return []error{e.error, e.coded} }

// A timeoutError is the error of an attempt that exceeded the AttemptTimeout. Its value is the
// AttemptTimeout.
type timeoutError time.Duration

func (e timeoutError) Error() string {
	return fmt.Sprintf("no message within AttemptTimeout (%v)", time.Duration(e))
}

func (timeoutError) Unwrap() error { return context.DeadlineExceeded }
