package retrylog

import (
	"context"

	"github.com/goretry/retry/internal/ctxvalue"
)

// WithKey returns a copy of ctx that carries a key. In a log, all events of a call with this
// context contain the key. Calls that run at the same time need different keys. A call inside
// another call needs a key of its own, because it would otherwise get the key of the outer call.
func WithKey(ctx context.Context, key string) context.Context {
	return ctxvalue.WithLogKey(ctx, key)
}

// Key returns the key of ctx, or "" if ctx has no key.
func Key(ctx context.Context) string { return ctxvalue.LogKey(ctx) }

// WithHedged is for clients that send a second request while the first request is in flight. Pass
// the returned context to [retry.Do]. At the end of each attempt, the function `hedged` is called.
// If it returns true, the Record of the AttemptFinished event has Hedged set. A retryhttp.Hedge
// inside a retryhttp.Transport does not need WithHedged.
func WithHedged(ctx context.Context, hedged func() bool) context.Context {
	return context.WithValue(ctx, ctxvalue.Hedge{}, hedge(hedged))
}

type hedge func() bool

func (h hedge) Hedged(context.Context) bool { return h() }
