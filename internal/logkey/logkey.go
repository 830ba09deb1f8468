// Package logkey keeps in a context what retrylog adds to an event: the key of a call, which
// retryjob sets too, and of retryhttp whether a second request has answered. The loop finds
// there the call around it, which may know more of its retries.
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

// Call is the key of what Hedged asks, and of a Payer.
type Call struct{}

// A Payer is a call of retryhttp, or of an adapter for RPCs. The loop passes the Budget of
// its policy, a *retry.Budget, because ctx may be the one of another loop inside.
type Payer interface {
	Free(budget any) bool   // the next retry takes nothing from it, and so needs none there either
	Unsent(budget any) bool // the last attempt was not made, so its retry is given back
	Empty(budget any)       // had no retry left, so the call stops
}

// PayerOf returns the Payer of ctx, nil if it has none.
func PayerOf(ctx context.Context) Payer {
	p, _ := ctx.Value(Call{}).(Payer)
	return p
}

// Hedged reports whether ctx is of a second request, or of a call whose last attempt one
// has answered.
func Hedged(ctx context.Context) bool {
	is, ok := ctx.Value(Call{}).(interface{ Hedged(context.Context) bool })
	return ok && is.Hedged(ctx)
}
