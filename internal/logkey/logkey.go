// Package logkey keeps in a context what retrylog adds to an event: the key of a call, which
// retryjob sets too, and whether the second request of a hedge has answered.
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

// Hedge is the key of a value whose method Hedged(context.Context) bool knows whether a second
// request has answered.
type Hedge struct{}

// Hedged reports whether ctx is of a second request, or of a call whose last attempt a second
// request has answered.
func Hedged(ctx context.Context) bool {
	is, ok := ctx.Value(Hedge{}).(interface{ Hedged(context.Context) bool })
	return ok && is.Hedged(ctx)
}
