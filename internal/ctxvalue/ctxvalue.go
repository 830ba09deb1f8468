// Package ctxvalue keeps in a context the two values that packages of this library hand to
// each other: the key of a call in a log, and the Hedge of a request.
package ctxvalue

import "context"

type logKey struct{}

// WithLogKey returns a context whose calls are logged under this key. retrylog.WithKey and
// retryjob.Run set the key.
func WithLogKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, logKey{}, key)
}

// LogKey returns the key under which the calls of ctx are logged, or "" if ctx has no key.
func LogKey(ctx context.Context) string {
	key, _ := ctx.Value(logKey{}).(string)
	return key
}

// Hedge is the key of a value in a context. The value has a method
// Hedged(context.Context) bool, which [Hedged] calls. retryhttp sets the value.
type Hedge struct{}

// Hedged reports whether ctx belongs to a hedge, which is the second request of an attempt,
// or to a call whose last attempt was answered by its hedge. It returns false if ctx has no
// Hedge.
func Hedged(ctx context.Context) bool {
	is, ok := ctx.Value(Hedge{}).(interface{ Hedged(context.Context) bool })
	return ok && is.Hedged(ctx)
}
