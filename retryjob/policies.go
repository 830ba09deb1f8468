package retryjob

import (
	"errors"
	"fmt"

	"github.com/goretry/retry"
)

// Policies are for authors of adapters. They hold the policy of an adapter and the policies
// of single kinds of jobs. The adapter chooses what a kind is: a type of task, a subject. A
// copy shares the policies of the kinds. Call Set before the first job runs: Policies are
// safe for concurrent use only as long as Set is not called. The zero value has no policy;
// use [NewPolicies].
type Policies struct {
	policy retry.Policy
	kinds  map[string]retry.Policy
}

// NewPolicies returns Policies in which policy applies to every kind. It returns an error if
// policy is invalid, or if it sets none of MaxAttempts, MaxRetries, MaxElapsed and
// NonRetryable, because no job would then be retried. If each job has a limit of its own,
// set MaxAttempts to [retry.Unlimited]. The error begins with adapter, the name of a package.
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

// Set sets the policy of one kind. If NewPolicies would refuse policy, Set changes nothing
// and returns an error. The error begins with where and the kind: for "myqueue: type" and
// "mail", with "myqueue: type mail: ".
func (p Policies) Set(where, kind string, policy retry.Policy) error {
	if err := check(policy); err != nil {
		return fmt.Errorf("%s %s: %w", where, kind, err)
	}
	p.kinds[kind] = policy
	return nil
}

// Of returns the policy of a kind: the one that Set was given, or else the policy of all
// kinds.
func (p Policies) Of(kind string) retry.Policy {
	if policy, ok := p.kinds[kind]; ok {
		return policy
	}
	return p.policy
}
