package retrylog

import (
	"context"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
)

// WithKey returns a context whose calls have key in a log. Calls that run at the
// same time need different keys, and a call within another one needs a key of its
// own, because otherwise it gets the key of the outer call.
func WithKey(ctx context.Context, key string) context.Context { return ctxvalue.WithLogKey(ctx, key) }

// Key returns the key of ctx, "" if it has none.
func Key(ctx context.Context) string { return ctxvalue.LogKey(ctx) }

// WithHedged is for clients that send a second request while the first one is in flight. Give
// the context that it returns to retry.Do. The record of an AttemptFinished is Hedged if hedged
// returns true, which is called when the attempt has finished. A retryhttp.Hedge below a
// retryhttp.Transport does this by itself.
func WithHedged(ctx context.Context, hedged func() bool) context.Context {
	return context.WithValue(ctx, ctxvalue.Hedge{}, hedge(hedged))
}

type hedge func() bool

func (h hedge) Hedged(context.Context) bool { return h() }

func recordOf(ctx context.Context, e retry.Event) Record {
	hedged := e.Kind == retry.AttemptFinished && ctxvalue.Hedged(ctx)
	return Record{Key: Key(ctx), Event: e, Hedged: hedged}
}
