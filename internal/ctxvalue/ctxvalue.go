// Package ctxvalue passes values in a context from one package of this library to another: the key
// with which a call is logged, the Hedge of a request, and whether the context is large.
package ctxvalue

import "context"

type logKey struct{}

// WithLogKey returns a context that contains `key`. Calls that get this context are logged with
// this key. retrylog.WithKey and retryjob.Run call WithLogKey.
func WithLogKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, logKey{}, key)
}

// LogKey returns the key with which calls that get ctx are logged. It returns "" if ctx contains no
// key.
func LogKey(ctx context.Context) string {
	key, _ := ctx.Value(logKey{}).(string)
	return key
}

// Large is the key under which a context of retryhttp has the value true. Such a context contains a
// request with its body, so an error must not hold the context.
type Large struct{}

// Hedge is the key under which retryhttp puts a value into a context. The value has a method
// Hedged(context.Context) bool, which the function [Hedged] calls.
type Hedge struct{}

// Hedged reports whether ctx belongs to a hedge, which is the second request of an attempt. It also
// returns true if ctx belongs to a call whose last attempt was answered by a hedge. If ctx contains
// no value under the key [Hedge], it returns false.
func Hedged(ctx context.Context) bool {
	is, ok := ctx.Value(Hedge{}).(interface{ Hedged(context.Context) bool })
	return ok && is.Hedged(ctx)
}
