package retryflow

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// Validate returns nil if p is sound, and else an error that names every fault
// at once, with its task and rule. It calls none of p's functions.
func (p Pipeline) Validate() error {
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if p.MaxJumps < 0 {
		say("MaxJumps is %d: write 0 for 10,000, or how many", p.MaxJumps)
	}
	if err := p.policy().Validate(); err != nil {
		say("Policy: %v", err)
	}
	for _, field := range ofRules(p.Policy) {
		say("Policy: %s is up to the rules: write it in theirs", field)
	}
	if p.Policy.RetryIf != nil {
		say("Policy: RetryIf is up to the rules: write a When")
	}
	if p.Policy.Select != nil || p.Policy.OnEvent != nil {
		say("Policy: Select and OnEvent are the pipeline's: write Rules, and the OnEvent of Pipeline")
	}
	for i, t := range p.Tasks {
		name := fmt.Sprintf("task %q", t.Label)
		switch first := p.index(t.Label); {
		case t.Label == "":
			name = fmt.Sprintf("Tasks[%d]", i)
			say("%s: it has no Label", name)
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

// Validate returns nil if the rules are sound for [Rules.Select], and else an
// error that names every fault at once, with its rule. It calls none of their
// functions. Rules of a [Pipeline] are for its Validate: here there is no State
// to set and nowhere to jump to. A rule that is to end the retries says Fail,
// or Continue or Break, which is the same here.
func (rules Rules) Validate() error {
	return invalid("rules", rules.faults(func(r Rule) []string {
		faults := Pipeline{Policy: retry.Policy{MaxAttempts: 1}}.ruleFaults(r) // the policy of Select bounds them
		if r.Do == Jump {
			faults = []string{"a Jump is for a Pipeline: write Retry or Fail"}
		}
		if r.Set != nil && r.Do != Fail {
			faults = append(faults, "Set is for a Pipeline")
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

// faults returns what is wrong with rules, of each what the function says.
func (rules Rules) faults(of func(Rule) []string) (faults []string) {
	for i, r := range rules {
		for _, fault := range of(r) {
			faults = append(faults, fmt.Sprintf("rule %d: %s", i, fault))
		}
		if r.When == nil && i+1 < len(rules) {
			faults = append(faults, fmt.Sprintf("rule %d is never asked: rule %d has no When and always matches", i+1, i))
		}
	}
	return faults
}

func (p Pipeline) ruleFaults(r Rule) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	switch r.Do {
	case Continue, Break:
	case Retry:
		if err := p.together(r).Validate(); err != nil {
			say("%v", err)
		}
		if r.Policy.MaxAttempts == 0 && r.Policy.MaxRetries == 0 {
			say("its Policy sets no limit: write MaxAttempts or MaxRetries")
		}
		if r.Policy.RetryIf != nil {
			say("its Policy has no use for RetryIf: write a When")
		}
		for _, field := range ofPipeline(r.Policy) {
			say("its Policy has no use for %s: write it in Pipeline.Policy, or beside Select", field)
		}
	case Jump:
		if p.index(r.To) < 0 {
			say("To is %q, and no task has that Label", r.To)
		}
	case Fail:
		if r.Set != nil {
			say("Set is for what goes on, not for Fail")
		}
	default:
		say("Do is %q: write Continue, Retry, Jump, Break or Fail", r.Do)
	}
	if r.Do != Retry && !reflect.ValueOf(r.Policy).IsZero() {
		say("Policy is for a Retry")
	}
	if r.Do != Jump && r.To != "" {
		say("To is for a Jump")
	}
	if r.Do != Jump && r.Do != Retry && r.Delay != nil {
		say("Delay is for a Retry or a Jump")
	}
	return faults
}

// together returns the Policy of a rule with what bounds it: a rule may be
// unlimited where the pipeline is not.
func (p Pipeline) together(r Rule) retry.Policy {
	policy := r.Policy
	policy.MaxElapsed, policy.Budget = p.Policy.MaxElapsed, p.Policy.Budget
	if limit := p.policy().EffectiveMax(); limit != retry.Unlimited && policy.AttemptCap == 0 {
		policy.AttemptCap = limit
	}
	if r.Delay != nil {
		policy.Backoff = beginningWith(time.Second, policy.Backoff)
	}
	return policy
}

// ofRules returns which fields a policy sets that only those of rules have.
func ofRules(p retry.Policy) []string {
	return which(
		field{"Backoff", p.Backoff != nil},
		field{"MaxDelay", p.MaxDelay != 0},
		field{"Jitter", p.Jitter != nil},
		field{"MaxRetryAfter", p.MaxRetryAfter != 0},
	)
}

// ofPipeline returns which fields a policy sets that only that of a pipeline
// has.
func ofPipeline(p retry.Policy) []string {
	return which(
		field{"Source", p.Source != nil},
		field{"MaxElapsed", p.MaxElapsed != 0},
		field{"AttemptTimeout", p.AttemptTimeout != 0},
		field{"Select", p.Select != nil},
		field{"Budget", p.Budget != nil},
		field{"OnEvent", p.OnEvent != nil},
	)
}

type field struct {
	name  string
	isSet bool
}

func which(fields ...field) (set []string) {
	for _, f := range fields {
		if f.isSet {
			set = append(set, f.name)
		}
	}
	return set
}
