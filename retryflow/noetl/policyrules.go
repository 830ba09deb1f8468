package noetl

import "github.com/goretry/retry/retryflow"

// policyRules reads spec.policy, the newest form of rules. In this form, the condition of a rule
// is under `when` and the other keys are under `then`. The status of a success is "ok" in place
// of "success".
func (r *reader) policyRules(k *key) retryflow.Rules {
	r.seen[resolve(k.value)] = true
	m := r.mapping(k.value, k.inside(), "")
	rules := r.readRules(m.take("rules"), policyDialect)
	if k := m.take("mode"); k != nil {
		if text, ok := r.text(k, "write exclusive"); ok && text != "exclusive" {
			r.fault(k.place, "mode is %q: write exclusive, the first rule that matches decides", text)
		}
	}
	if k := m.take("on_unmatched"); k != nil {
		switch text, ok := r.text(k, "write continue or fail"); {
		case !ok:
		case text != "continue" && text != "fail":
			r.fault(k.place, "on_unmatched is %q: write continue or fail", text)
		case len(rules) > 0 && rules[len(rules)-1].When == nil:
		case text == "continue":
			rules = append(rules, retryflow.Rule{Do: retryflow.Continue})
		default:
			rules = append(rules, retryflow.Rule{Do: retryflow.Fail})
		}
	}
	r.rejectRest(m, "a policy with rules has rules, mode and on_unmatched")
	return rules
}

// policy returns the key spec.policy of the task m if the value of this key has rules, and
// otherwise nil. It does not take the key out of m, because Config of the task contains the other
// keys of spec.policy.
func (r *reader) policy(m *mapping) *key {
	policy := r.member(m.get("spec"), "policy")
	if r.member(policy, "rules") != nil {
		return policy
	}
	return nil
}

// policyDialect is the form of rules under spec.policy. Expressions read the outcome as "outcome"
// or as "output". The status of a success is "ok". If the program did not set the key "data" of
// the outcome, this key contains the result.
var policyDialect = dialect{"when", func(o retryflow.Outcome) func(string) (any, bool) {
	others := names(o)
	return func(name string) (any, bool) {
		if name != "outcome" && name != "output" {
			return others(name)
		}
		outcome := visible(o)
		if o.Err == nil {
			outcome["status"] = "ok"
		}
		if _, ok := outcome["data"]; !ok {
			outcome["data"] = o.Result
		}
		return outcome, true
	}
}}
