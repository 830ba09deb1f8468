// Package ctxvalue passes values in a context from one package of this library to another: the key
// with which a call is logged, the Hedge of a request, and the context from which retryhttp made
// the context of a call.
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

// Origin returns the context for the error of a call that got ctx. If ctx has a method Origin, ctx
// is an exchange of retryhttp, which contains the request with its body. An error must not hold so
// much memory, so it gets the context that the exchange was made from.
func Origin(ctx context.Context) context.Context {
	if exchange, is := ctx.(interface{ Origin() context.Context }); is {
		return exchange.Origin()
	}
	return ctx
}

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
