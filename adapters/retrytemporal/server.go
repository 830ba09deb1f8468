package retrytemporal

import (
	"math"
	"slices"

	"go.temporal.io/sdk/temporal"

	"github.com/goretry/retry"
)

// Server returns a RetryPolicy for the server. Set it in the ActivityOptions of a workflow if
// the worker has an [Interceptor] with the policy p. The RetryPolicy allows as many attempts as
// p.
//
// The delays of the RetryPolicy apply only if the server decides without the interceptor, because a
// worker was lost or too slow. The first of these delays is the first delay of p. Each further
// delay is the previous delay, multiplied by the Factor of p's Exponential. For any other Backoff,
// the factor is 2. No delay is longer than the longest of the first hundred delays of p.
//
// For a job with its own limit, write Server(p.ForJob(limit)). If p is invalid, the
// RetryPolicy allows one attempt.
//
// # What the server decides
//
// The MaximumAttempts of the server's policy can lower the limit of the interceptor's policy.
// If the interceptor's policy has neither MaxAttempts nor MaxRetries, MaximumAttempts is the
// limit. To forbid retries in any case, set MaxAttempts to 1 or NonRetryable to true in the
// interceptor's policy.
//
// If an attempt is lost with its worker, or exceeds its StartToCloseTimeout, the server decides
// without the interceptor. In these cases, the server uses the RetryPolicy from the function
// Server. So the server starts no more attempts than p allows, and no delay is longer than the
// longest delay of p. If this happens in the last attempt, the workflow gets a TimeoutError, and
// OnEvent is not called. The worker can decide about slow attempts if you set an AttemptTimeout
// that is shorter than the StartToCloseTimeout.
//
// A delay of zero becomes 1ms, because a NextRetryDelay of zero means that no delay is set. A
// delay below a second may take up to a second, because Temporal's timers have a precision of
// about a second.
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
