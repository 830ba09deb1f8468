package jobqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// Policies are the policy of an adapter, and those of single kinds of jobs.
type Policies struct {
	policy retry.Policy
	kinds  map[string]retry.Policy
}

// NewPolicies returns Policies that have policy for each kind. The error, if policy is
// invalid or has no limit, begins with the name of the adapter.
func NewPolicies(adapter string, policy retry.Policy) (Policies, error) {
	if err := check(policy); err != nil {
		return Policies{}, fmt.Errorf("%s: %w", adapter, err)
	}
	return Policies{policy, map[string]retry.Policy{}}, nil
}

// check returns an error if policy is invalid, or has forgotten its limit.
func check(policy retry.Policy) error {
	err := policy.Validate()
	if err == nil && policy.MaxAttempts == 0 && policy.MaxRetries == 0 && policy.MaxElapsed == 0 && !policy.NonRetryable {
		err = errors.New("the policy has no limit, so no job would be retried: write MaxAttempts, which may be 1, or retry.Unlimited if each job has a limit of its own")
	}
	return err
}

// Set sets the policy of one kind. where begins the error if policy is invalid.
func (p Policies) Set(where, kind string, policy retry.Policy) error {
	if err := check(policy); err != nil {
		return fmt.Errorf("%s %s: %w", where, kind, err)
	}
	p.kinds[kind] = policy
	return nil
}

// Of returns the policy of a kind.
func (p Policies) Of(kind string) retry.Policy {
	if policy, ok := p.kinds[kind]; ok {
		return policy
	}
	return p.policy
}

// LetterOf reads the dead letter in a header, whose text is "" if there is none.
func LetterOf(adapter, header, text string) (d retryjob.DeadLetter, err error) {
	if text == "" {
		return d, fmt.Errorf("%s: there is no header %s: this is no dead letter", adapter, header)
	}
	if err = json.Unmarshal([]byte(text), &d); err != nil {
		err = fmt.Errorf("%s: header %s: %w", adapter, header, err)
	}
	return d, err
}

// Limit returns a job's own limit on attempts from the text of a header, 0 for none.
func Limit(header, text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("header %s is %.100q: write a whole number from 1 on, or leave it out", header, text)
	}
	return n, nil
}

// Shorten cuts a text to at most this many bytes, because servers limit the size of
// headers. JSON may need six bytes for one.
func Shorten(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
