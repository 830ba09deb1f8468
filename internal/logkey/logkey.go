// Package logkey keeps in a context what retrylog adds to an event: the key of a call, which
// retryjob sets too, and of retryhttp whether a second request has answered. The loop asks
// retryhttp there which retries are free.
package logkey

import "context"

type inContext struct{}

// With returns a context whose calls have key in a log.
func With(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, inContext{}, key)
}

// Of returns the key of ctx, "" if it has none.
func Of(ctx context.Context) string {
	key, _ := ctx.Value(inContext{}).(string)
	return key
}

// Call is the key of what Hedged asks, and of a Freer.
type Call struct{}

// A Freer is a call of retryhttp. It tells the loop whether the next retry takes nothing
// from a *retry.Budget, and so does not need one there either.
type Freer interface{ Free(budget any) bool }

// FreerOf returns the Freer of ctx, nil if it has none.
func FreerOf(ctx context.Context) Freer {
	f, _ := ctx.Value(Call{}).(Freer)
	return f
}

// Hedged reports whether ctx is of a second request, or of a call whose last attempt one
// has answered.
func Hedged(ctx context.Context) bool {
	is, ok := ctx.Value(Call{}).(interface{ Hedged(context.Context) bool })
	return ok && is.Hedged(ctx)
}
