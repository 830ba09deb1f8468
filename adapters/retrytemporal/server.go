package retrytemporal

import (
	"math"
	"slices"

	"go.temporal.io/sdk/temporal"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

// Server returns the bounds for Temporal's server beside an [Interceptor] with
// the policy p: as many attempts, and for those that the server decides on alone,
// because their worker was lost or too late, delays from the first of p up to the
// longest of its first hundred.
//
// For a job with its own limit, write Server(p.ForJob(limit)). A p that makes one
// attempt, and one that is invalid, allows one.
func Server(p retry.Policy) *temporal.RetryPolicy {
	limit := p.EffectiveMax()
	if limit == 1 {
		return &temporal.RetryPolicy{MaximumAttempts: 1}
	}
	delays := p.Delays(100)
	first := max(leastDelay, delays[0])
	longest := max(first, slices.Max(delays))
	bounds := &temporal.RetryPolicy{
		InitialInterval:    first,
		BackoffCoefficient: coefficient(p),
		MaximumInterval:    longest,
	}
	if limit != retry.Unlimited {
		bounds.MaximumAttempts = int32(min(limit, math.MaxInt32))
	}
	return bounds
}

// coefficient returns what the server multiplies each delay by.
func coefficient(p retry.Policy) float64 {
	if b, ok := p.Backoff.(retry.Exponential); ok && b.Factor != 0 {
		return b.Factor
	}
	return 2
}

// Export returns p as a retry policy of Temporal's own, for a server that decides
// alone: activities whose workers have no [Interceptor], and workflows.
//
// It is exact, or Export returns an error that names every field of p that
// Temporal cannot express, see [retrydialect.ToTemporal].
func Export(p retry.Policy) (*temporal.RetryPolicy, error) {
	t, err := retrydialect.ToTemporal(p)
	if err != nil {
		return nil, err
	}
	return &temporal.RetryPolicy{
		InitialInterval:    t.InitialInterval,
		BackoffCoefficient: t.BackoffCoefficient,
		MaximumInterval:    t.MaximumInterval,
		MaximumAttempts:    int32(t.MaximumAttempts),
	}, nil
}
