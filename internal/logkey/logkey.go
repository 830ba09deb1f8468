// Package logkey keeps the key of a call in a context, for retrylog, which reads
// it, and for retryjob, which sets it.
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
