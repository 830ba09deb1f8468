package retry

import (
	"context"
	"time"

	"github.com/goretry/retry/internal/twice"
)

// lossy returns fn for a build with the tag retrytwice, which loses the answers of
// some attempts that succeed: fn runs again, in the same attempt, where p would try
// again. A call that began anew by HealthyAfter has fewer attempts than are counted
// here, and is repeated less often.
func (p Policy) lossy(ctx context.Context, fn func(context.Context) error) func(context.Context) error {
	retries := func(attempt int, elapsed time.Duration) (after time.Duration, ok bool) {
		for l := payersOf(WithBudget(ctx, p.Budget)); l != nil; l = l.outer {
			if l.budget.Left() == 0 {
				return 0, false
			}
		}
		d := p.Next(Attempt{Number: attempt, Err: twice.Lost{}, Elapsed: elapsed, Seed: 1}) // with a Seed, nothing is drawn from Source
		return d.Delay, d.Retry()
	}
	again := func(ctx context.Context) error {
		_, err := execute(ctx, p.AttemptTimeout, fn)
		return err
	}
	return twice.Lossy(ctx, retries, fn, again)
}
