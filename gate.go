package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/goretry/retry/internal/gate"
)

// A Gate stops all callers for a while if a server asks one of them to wait. While the wait lasts,
// the Gate holds back all attempts that have the same key. You choose the key: an account, a model,
// a host.
//
//	err := retry.Do(ctx, policy, gate.Hold("billing", func(ctx context.Context) error {
//		return client.Charge(ctx) // returns retry.After(d, err) if the server asks for a wait
//	}))
//
// After the wait, the callers do not start together. Their starts are spread over a quarter of the
// wait: after a wait of 60s, they start within 15s. A Gate cannot help attempts that are already in
// flight when the server first asks for a wait.
//
// A Gate may be inside another Gate, for example a Gate for a model inside a Gate for its
// account. If the inner Gate does not let an attempt through, the outer Gate does not close,
// because no server has asked for a wait.
//
// The zero Gate is ready to use, by any number of goroutines. Do not copy a Gate, and do not change
// its fields after its first use. A Gate remembers the pauses of 10,000 keys. If more keys have a
// pause at the same time, the attempts of some keys are not held back. For HTTP requests, use
// retryhttp.Gate.
type Gate struct {
	// Max is the longest pause. If Max is 0 or below, the longest pause is a minute. If the server
	// asks for a wait again after a pause, a new pause begins. So an attempt may be held back for
	// several pauses. The deadline of the attempt's context limits the sum of these pauses.
	Max time.Duration

	// OnClose is called once when a pause begins, however many attempts the pause holds back. It gets
	// the length of the pause and the error that began the pause. Several goroutines may call OnClose
	// at the same time. OnClose may be nil.
	OnClose func(key string, wait time.Duration, cause error)

	pauses gate.Pauses
}

// Hold returns a function that calls fn as soon as the gate is open for attempts with this key. The
// error of fn may ask for a wait, by [After] or by a method RetryAfter. Then the gate closes for
// the time of this wait, and holds back all attempts with this key. A success does not change the
// gate, and neither does an error that asks for no wait. If the context of the attempt has ended,
// a wait that the cause of this context asks for does not change the gate either. The reason is
// that an errgroup cancels all its calls if one of them is asked to wait, and net/http then returns
// the cause in each of these calls.
//
// The time at the gate is part of the attempt: AttemptTimeout and HealthyAfter include it. If
// the context's deadline comes before the gate opens, the attempt fails without waiting, and fn
// is not called. The error of the attempt then asks for a wait until the gate opens.
//
// If g is nil, Hold returns fn. If fn is nil, Hold returns nil.
func (g *Gate) Hold(key string, fn func(context.Context) error) func(context.Context) error {
	if g == nil || fn == nil {
		return fn
	}
	return func(ctx context.Context) error {
		if err := g.enter(ctx, key); err != nil {
			return err
		}
		err := fn(ctx)
		if errors.As(err, new(gate.Held)) {
			return err
		}
		d := min(RetryAfterOf(err), cmp.Or(max(0, g.Max), time.Minute))
		if d <= 0 || isOfCause(err, context.Cause(ctx)) {
			return err
		}
		if g.pauses.Begin(key, d) && g.OnClose != nil {
			g.OnClose(key, d, err)
		}
		return err
	}
}

// isOfCause reports whether the wait of err is that of `cause`, which is the cause of a context
// that has ended, or nil. errors.Is would panic if `cause` is a struct with a map in it.
func isOfCause(err, cause error) bool {
	return cause != nil && RetryAfterOf(err) == RetryAfterOf(cause) &&
		reflect.ValueOf(cause).Comparable() && errors.Is(err, cause)
}

// The method `enter` waits until the gate is open for attempts with this key. It returns an error
// if the attempt must not begin.
func (g *Gate) enter(ctx context.Context, key string) error {
	const asked = "nothing was sent: a server asked all callers of %q to wait"
	room := func(left, spread time.Duration) (time.Duration, error) {
		spread, ok := gate.Within(ctx, left, spread)
		if !ok {
			why := fmt.Errorf(asked+", for %v more", key, short(left))
			return 0, gate.Held{Err: After(left, why)}
		}
		return spread, nil
	}
	err := g.pauses.Hold(ctx, key, new(time.Time), room)
	if err != nil && !errors.As(err, new(gate.Held)) {
		return fmt.Errorf(asked+": %w", key, err)
	}
	return err
}
