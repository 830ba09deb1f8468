package hooks

import (
	"context"
	"log"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
	"github.com/goretry/retry/retrynet"
)

func quick(ch chan retry.Event, alive func()) []retry.Policy {
	full := make(chan retry.Event, 100)
	return []retry.Policy{
		{OnEvent: func(_ context.Context, e retry.Event) {
			select {
			case ch <- e:
			default:
			}
			full <- e
		}},
		{OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				retries.Add(1)
			}
		}},
		{OnEvent: func(_ context.Context, e retry.Event) { log.Println(e) }},
		{OnEvent: func(context.Context, retry.Event) { alive() }},
		{OnEvent: retrylog.Slog(nil), RetryIf: retrynet.Transient},
		{RetryIf: func(err error) bool { return !retry.IsPermanent(err) }},
	}
}

// Both are called.
func both(p retry.Policy, b func(context.Context, retry.Event)) retry.Policy {
	a := p.OnEvent
	p.OnEvent = func(ctx context.Context, e retry.Event) { a(ctx, e); b(ctx, e) }
	return p
}
