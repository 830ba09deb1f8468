package noetl

import "github.com/goretry/retry/retryflow"

// policyRules reads spec.policy, the newest form of rules. Its rules have the keys when and
// then in place of expr and do, and the status of a success is ok in place of success.
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
	r.rest(m, "a policy with rules has rules, mode and on_unmatched")
	return rules
}

// policyDialect has output as a second name of the outcome. The status of a success is ok,
// and data is the result unless the outcome has other data.
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
