package retryjob

import (
	"errors"
	"fmt"

	"github.com/goretry/retry"
)

// Policies is the set of policies of an adapter: one policy for all jobs, and further policies for
// single kinds of jobs. The type is for authors of adapters. The adapter chooses what a kind is,
// for example a type of task or a subject. A copy of Policies shares the policies of single kinds
// with the original, so calling Set on the copy also changes the original.
//
// Call Set before the first job runs, because Set is not safe for concurrent use. Use [NewPolicies]
// to make Policies, because the zero value contains no policy.
type Policies struct {
	policy retry.Policy
	kinds  map[string]retry.Policy
}

// NewPolicies returns Policies in which the argument `policy` applies to every kind of job. It
// returns an error if `policy` is invalid. It also returns an error if `policy` sets none of
// MaxAttempts, MaxRetries, MaxElapsed and NonRetryable: a policy without any of these settings
// makes only one attempt, so no job would be retried. If each job has a limit of its own, set
// MaxAttempts to [retry.Unlimited]. If no job should be retried, set MaxAttempts to 1, or set
// NonRetryable. The error begins with `adapter`, which is the name of the adapter's package.
func NewPolicies(adapter string, policy retry.Policy) (Policies, error) {
	if err := check(policy); err != nil {
		return Policies{}, fmt.Errorf("%s: %w", adapter, err)
	}
	return Policies{policy, map[string]retry.Policy{}}, nil
}

// check returns an error if `policy` is invalid, or if it sets neither a limit nor NonRetryable.
func check(policy retry.Policy) error {
	err := policy.Validate()
	limited := policy.MaxAttempts != 0 || policy.MaxRetries != 0 || policy.MaxElapsed != 0
	if err == nil && !limited && !policy.NonRetryable {
		err = errors.New("the policy sets no limit, and without a limit no job is retried: set " +
			"MaxAttempts to a limit, to 1 for no retry, or to retry.Unlimited if each job has a limit " +
			"of its own")
	}
	return err
}

// Set sets the policy for jobs of one kind. If the argument `policy` is invalid or sets no limit,
// so that [NewPolicies] would return an error, Set returns an error too, and changes nothing. The
// error begins with `prefix` and `kind`. For example, with the prefix "myqueue: type" and the kind
// "mail", it begins with "myqueue: type mail: ".
func (p Policies) Set(prefix, kind string, policy retry.Policy) error {
	if err := check(policy); err != nil {
		return fmt.Errorf("%s %s: %w", prefix, kind, err)
	}
	p.kinds[kind] = policy
	return nil
}

// Of returns the policy for jobs of one kind. If Set was not called for this kind, Of returns the
// policy that was passed to [NewPolicies].
func (p Policies) Of(kind string) retry.Policy {
	if policy, ok := p.kinds[kind]; ok {
		return policy
	}
	return p.policy
}
