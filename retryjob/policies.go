package retryjob

import (
	"errors"
	"fmt"

	"github.com/goretry/retry"
)

// Policies contains the policy of an adapter, and other policies for single kinds of jobs. A
// kind is the name that the queue uses, such as a type of task or a subject. Call Set before
// the first job runs, because Set is not safe for concurrent use with Of. Use [NewPolicies]: Set
// panics on the zero value.
type Policies struct {
	policy retry.Policy
	kinds  map[string]retry.Policy
}

// NewPolicies returns Policies in which policy applies to every kind. It returns an error if
// policy is invalid or sets no limit, because then no job would be retried. The error starts
// with adapter, which is the name of a package.
func NewPolicies(adapter string, policy retry.Policy) (Policies, error) {
	if err := check(policy); err != nil {
		return Policies{}, fmt.Errorf("%s: %w", adapter, err)
	}
	return Policies{policy, map[string]retry.Policy{}}, nil
}

// check returns an error if policy is invalid, or if it sets no limit.
func check(policy retry.Policy) error {
	err := policy.Validate()
	limited := policy.MaxAttempts != 0 || policy.MaxRetries != 0 || policy.MaxElapsed != 0
	if err == nil && !limited && !policy.NonRetryable {
		err = errors.New("the policy has no limit, so no job would be retried: " +
			"write MaxAttempts, which may be 1, or retry.Unlimited if each job has a limit of its own")
	}
	return err
}

// Set sets the policy of one kind. If policy is invalid or sets no limit, Set changes nothing
// and returns an error that starts with where and the kind.
func (p Policies) Set(where, kind string, policy retry.Policy) error {
	if err := check(policy); err != nil {
		return fmt.Errorf("%s %s: %w", where, kind, err)
	}
	p.kinds[kind] = policy
	return nil
}

// Of returns the policy of a kind: the policy from Set, or else the policy of the adapter.
func (p Policies) Of(kind string) retry.Policy {
	if policy, ok := p.kinds[kind]; ok {
		return policy
	}
	return p.policy
}
