package retrytemporal

import (
	"math"
	"slices"

	"go.temporal.io/sdk/temporal"

	"github.com/goretry/retry"
)

// Server returns the RetryPolicy for the ActivityOptions of a workflow whose worker
// has an [Interceptor] with the policy p. It allows as many attempts as p. Its
// delays apply where the server decides alone, because a worker was lost or too
// slow: they grow from p's first delay, by the Factor of an Exponential or else 2, up to
// the longest of its first hundred.
//
// For a job with its own limit, write Server(p.ForJob(limit)). If p is invalid, the
// result allows one attempt.
//
// # What stays with the server
//
// The MaximumAttempts of the server's policy lowers the policy's limit. If the
// policy has neither MaxAttempts nor MaxRetries, it is the limit. To forbid
// retries whatever the server's policy says, set MaxAttempts to 1 or NonRetryable.
//
// If an attempt is lost with its worker or exceeds its StartToCloseTimeout, the
// server decides alone, by the bounds of [Server]: no more attempts than the policy
// allows, and delays up to its longest. If that was the last attempt, the workflow
// gets a TimeoutError, and OnEvent is not called. To let the worker decide about
// slow attempts, set an AttemptTimeout shorter than the StartToCloseTimeout.
//
// A delay of zero becomes 1ms, because a NextRetryDelay of zero means that none is
// set. A delay below a second may take up to a second, because Temporal's timers
// are not more precise.
func Server(p retry.Policy) *temporal.RetryPolicy {
	limit := p.EffectiveMax()
	if limit == 1 {
		return &temporal.RetryPolicy{MaximumAttempts: 1}
	}
	delays := p.Delays(100)
	first := max(leastDelay, delays[0])
	bounds := &temporal.RetryPolicy{
		InitialInterval:    first,
		BackoffCoefficient: 2,
		MaximumInterval:    max(first, slices.Max(delays)),
	}
	if b, ok := p.Backoff.(retry.Exponential); ok && b.Factor != 0 {
		bounds.BackoffCoefficient = b.Factor
	}
	if limit != retry.Unlimited {
		bounds.MaximumAttempts = int32(min(limit, math.MaxInt32))
	}
	return bounds
}
