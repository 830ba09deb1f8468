package retrytest

import (
	"context"

	"github.com/goretry/retry/internal/twice"
)

// NotTwice returns a context below which a build with the tag retrytwice repeats no
// success: for a test that counts attempts, or an operation that must not run again
// although its policy would retry it. Other builds repeat nothing.
func NotTwice(ctx context.Context) context.Context { return twice.Not(ctx) }
