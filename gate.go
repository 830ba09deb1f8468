package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry/internal/gate"
)

// A Gate holds attempts of one kind while a server has asked one of them to wait, so
// that one refusal stops all callers and not only the one that met it. What is of one
// kind is up to you: the attempts with one key, such as an account or a model.
//
//	err := retry.Do(ctx, policy, gate.Hold("billing", func(ctx context.Context) error {
//		return client.Charge(ctx) // fails with retry.After(d, err) if it has to wait
//	}))
//
// When the wait is over, the callers leave spread over a quarter of it. A Gate gains
// nothing for attempts that are all under way before the first refusal.
//
// A Gate inside a Gate, such as one for a model inside one for its account, closes only
// for what a server said: an attempt that the inner one has not let through does not
// close the outer one.
//
// The zero Gate is ready to use, by any number of goroutines. Do not copy it, nor
// change its fields once it is in use. It remembers the pauses of 10,000 keys; if more
// keys wait at a time, some are not held. retryhttp.Gate is the one for HTTP requests.
type Gate struct {
	// Max is the longest pause; 0 or below: a minute. Each refusal begins a pause, so an
	// attempt may be held for several. The deadline of its context limits that.
	Max time.Duration

	// OnClose is called when a pause begins, once for all attempts that it holds, with
	// how long it lasts and the failure that began it. Several goroutines may call it at
	// a time. nil: not called.
	OnClose func(key string, wait time.Duration, cause error)

	pauses gate.Pauses
}

// Hold returns a function that calls fn as soon as the gate is open for key. If fn
// fails with a wait, of [After] or of a method RetryAfter, the gate is closed for that
// time for all attempts with this key. A success and any other failure change
// nothing.
//
// Waiting at the gate is part of the attempt: AttemptTimeout and HealthyAfter include
// it. If the context would end before the gate opens, fn is not called: the attempt
// fails at once, with an error that says so and asks for the rest of the pause.
//
// A nil Gate holds nothing. A nil fn stays nil.
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
		if d > 0 && g.pauses.Begin(key, d) && g.OnClose != nil {
			g.OnClose(key, d, err)
		}
		return err
	}
}

// enter waits until the gate is open for key.
func (g *Gate) enter(ctx context.Context, key string) error {
	const asked = "nothing was sent: a server asked %q to wait"
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
