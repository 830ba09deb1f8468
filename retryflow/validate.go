package retryflow

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// Validate returns nil if p can be run. Otherwise it returns an error that lists every fault with
// its task and its rule. It does not call the functions of p.
func (p Pipeline) Validate() error {
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if p.MaxJumps < 0 {
		say("MaxJumps is %d: write how many, or 0 for 10,000", p.MaxJumps)
	}
	if err := p.policy().Validate(); err != nil {
		say("Policy: %v", err)
	}
	for _, fault := range pipelinePolicyFaults(p.Policy) {
		say("Policy: %s", fault)
	}
	for i, t := range p.Tasks {
		name := fmt.Sprintf("task %q", t.Label)
		switch first := p.index(t.Label); {
		case t.Label == "":
			name = fmt.Sprintf("Tasks[%d]", i)
			say("%s: Label is empty", name)
		case first != i:
			say("%s: Tasks[%d] and Tasks[%d] have the same Label", name, first, i)
		}
		if t.Run == nil {
			say("%s: Run is nil", name)
		}
		for _, fault := range t.Rules.faults(p.ruleFaults) {
			say("%s: %s", name, fault)
		}
	}
	return invalid("pipeline", faults)
}

// Validate returns nil if [Rules.Classify] can use the rules. Otherwise it returns an error that
// lists every fault with its rule. It does not call the functions of the rules. A rule must not
// have Set or Jump, because Classify has no State and no tasks. Fail, Continue and Break all mean
// that the error is not retried.
func (rules Rules) Validate() error {
	// The policy that uses Classify has limits too, but its limits are unknown here.
	bounded := Pipeline{Policy: retry.Policy{MaxAttempts: 1}}
	return invalid("rules", rules.faults(func(r Rule) []string {
		faults := bounded.ruleFaults(r)
		if r.Do == Jump {
			faults = []string{"Jump is only valid in a Pipeline: write Retry or Fail"}
		}
		if r.Set != nil {
			faults = append(faults, "Set is only valid in a Pipeline")
		}
		return faults
	}))
}

func invalid(what string, faults []string) error {
	if faults == nil {
		return nil
	}
	return fmt.Errorf("retryflow: invalid %s: %s", what, strings.Join(faults, "; "))
}

// faults returns the faults that the function `check` finds in each rule. It adds a fault for each
// rule that can never match.
func (rules Rules) faults(check func(Rule) []string) (faults []string) {
	for i, r := range rules {
		for _, fault := range check(r) {
			faults = append(faults, fmt.Sprintf("rule %d: %s", i, fault))
		}
		if r.When == nil && i+1 < len(rules) {
			faults = append(faults, fmt.Sprintf("rule %d is never reached: "+
				"rule %d has no When and always matches", i+1, i))
		}
	}
	return faults
}

func (p Pipeline) ruleFaults(r Rule) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	switch r.Do {
	case Continue, Break, Fail:
	case Retry:
		policy := p.withLimits(r)
		atOnce := policy.Backoff == nil || policy.Backoff.Delay(math.MaxInt) <= 0
		switch unlimited := policy.EffectiveMax() == retry.Unlimited; {
		case policy.Validate() != nil:
			say("%v", policy.Validate())
		case unlimited && policy.Budget == nil && atOnce:
			say("unlimited attempts without a delay: write MaxAttempts, MaxRetries or a Backoff")
		}
		if r.Attempts == nil && r.Policy.MaxAttempts == 0 && r.Policy.MaxRetries == 0 {
			say("Policy sets no limit: write MaxAttempts or MaxRetries")
		}
		faults = append(faults, rulePolicyFaults(r.Policy)...)
	case Jump:
		if p.index(r.To) < 0 {
			say("To is %q: no task has that Label", r.To)
		}
	default:
		say("Do is %q: write Continue, Retry, Jump, Break or Fail", r.Do)
	}
	if r.Do != Retry && !reflect.ValueOf(r.Policy).IsZero() {
		say("Policy is only valid for Retry")
	}
	if r.Do != Jump && r.To != "" {
		say("To is only valid for Jump")
	}
	if r.Do != Jump && r.Do != Retry && r.Delay != nil {
		say("Delay is only valid for Retry and Jump")
	}
	if r.Do != Retry && r.Attempts != nil {
		say("Attempts is only valid for Retry")
	}
	return faults
}

// withLimits returns the Policy of a rule with the limits of the pipeline. A rule may be
// unlimited if the pipeline has a limit.
func (p Pipeline) withLimits(r Rule) retry.Policy {
	policy := r.Policy
	if r.Attempts != nil {
		policy.MaxAttempts = 1
	}
	policy.MaxElapsed, policy.Budget = p.Policy.MaxElapsed, p.Policy.Budget
	if limit := p.policy().EffectiveMax(); limit != noLimit && policy.AttemptCap == 0 {
		policy.AttemptCap = limit
	}
	if r.Delay != nil {
		policy.Backoff = beginningWith(time.Second, policy.Backoff)
	}
	return policy
}

// pipelinePolicyFaults returns a fault for each field that must not be set in the policy of a
// pipeline.
func pipelinePolicyFaults(p retry.Policy) []string {
	const rules = "%s belongs to the rules: set it in their Policy"
	return which(
		field{"Backoff", p.Backoff != nil, rules},
		field{"MaxDelay", p.MaxDelay != 0, rules},
		field{"Jitter", p.Jitter != nil, rules},
		field{"HealthyAfter", p.HealthyAfter != 0, "%s is not used, because the attempts of " +
			"a task are never reset: leave it 0, and call retry.Do with HealthyAfter in Run"},
		field{"RetryIf", p.RetryIf != nil, "%s belongs to the rules: write a When"},
		field{"Classify", p.Classify != nil, "%s is not used: write Rules"},
		field{"OnEvent", p.OnEvent != nil, "%s is not used: set Pipeline.OnEvent"},
	)
}

// rulePolicyFaults returns a fault for each field that must not be set in the policy of a rule.
func rulePolicyFaults(p retry.Policy) []string {
	const elsewhere = "set it in Pipeline.Policy, or in the policy that has the Classify"
	const pipeline = "%s of its Policy is not used: " + elsewhere
	return which(
		field{"RetryIf", p.RetryIf != nil, "%s of its Policy is not used: write a When"},
		field{"Classify", p.Classify != nil, "%s of its Policy is not used: write more rules"},
		field{"HealthyAfter", p.HealthyAfter != 0, "%s of its Policy is not used: " +
			"leave it 0, or set it in the policy that has the Classify"},
		field{"OnEvent", p.OnEvent != nil, "%s of its Policy is not used: " +
			"set Pipeline.OnEvent, or OnEvent of the policy that has the Classify"},
		field{"RetryAfter", p.RetryAfter != "", pipeline},
		field{"MaxRetryAfter", p.MaxRetryAfter != 0, pipeline},
		field{"Source", p.Source != nil, pipeline},
		field{"MaxElapsed", p.MaxElapsed != 0, pipeline},
		field{"AttemptTimeout", p.AttemptTimeout != 0, pipeline},
		field{"Budget", p.Budget != nil, pipeline},
		field{"Wait", p.Wait != nil, pipeline},
	)
}

// A field describes one field of a policy that must not be set.
type field struct {
	name  string
	isSet bool
	says  string // the text of the fault, with %s in the place of the name
}

func which(fields ...field) (faults []string) {
	for _, f := range fields {
		if f.isSet {
			faults = append(faults, fmt.Sprintf(f.says, f.name))
		}
	}
	return faults
}
