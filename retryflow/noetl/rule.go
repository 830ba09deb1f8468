package noetl

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
)

// These are the defaults of a rule with `do: retry`.
const (
	defaultAttempts = 3
	defaultBackoff  = "fixed"
	defaultDelay    = time.Second
)

var directives = []retryflow.Directive{
	retryflow.Continue, retryflow.Retry, retryflow.Jump, retryflow.Break, retryflow.Fail,
}

const (
	writeRule      = `write a mapping with expr and do, or with else`
	writeElse      = `write a mapping with do: "else: {do: continue}"`
	writeThen      = `write a mapping with do: "then: {do: retry}"`
	writeExpr      = `write an expression in quotes: "{{ outcome.status == 'error' }}"`
	writeDirective = `write continue, retry, jump, break or fail`
	writeAttempts  = `write how many attempts in all, 1 or more, ` +
		`or an expression: "{{ workload.attempts }}"`
	writeBackoff = `write fixed, none, linear or exponential`
	writeSeconds = `write seconds, such as 1.5`
	writeDelay   = writeSeconds + `, or an expression: "{{ workload.delay }}"`
	writeLabel   = `write the label of a task`
	writeNames   = `write a mapping of names to values`
)

// These are the types of the functions in a retryflow.Rule.
type (
	condition = func(retryflow.Outcome) (bool, error)
	attempts  = func(retryflow.Outcome) (int, error)
	delay     = func(retryflow.Outcome) (time.Duration, error)
)

// A dialect is one of the forms in which people write rules.
type dialect struct {
	condition string // the key of the condition: expr, when or retry_when
	names     func(o retryflow.Outcome) func(string) (any, bool)
}

var evalDialect = dialect{"expr", names}

// taskRules takes the keys of the rules out of the mapping of a task, and returns the rules.
func (r *reader) taskRules(m *mapping) retryflow.Rules {
	eval, block, policy := m.take("eval"), m.take("retry"), r.policy(m)
	switch {
	case eval != nil && block != nil:
		r.fault(block.place, "both retry and eval are set: write one")
	case policy != nil && (eval != nil || block != nil):
		r.fault(policy.place, "both spec.policy and eval or retry are set: write one")
	case eval != nil:
		return r.rules(eval)
	case policy != nil:
		return r.policyRules(policy)
	case block != nil:
		return r.retryBlock(block)
	}
	return nil
}

// rules reads the list of rules under `eval`.
func (r *reader) rules(k *key) retryflow.Rules {
	list := resolve(k.value)
	rules, ok := r.lists[list]
	if !ok {
		rules = r.readRules(k, evalDialect)
		r.lists[list] = rules
	}
	return slices.Clone(rules) // each task gets its own copy
}

func (r *reader) readRules(k *key, d dialect) (rules retryflow.Rules) {
	r.seen[resolve(k.value)] = true
	elseLine := 0
	for i, n := range r.list(k.value, k.inside(), "write a list of rules") {
		at := k.inside().entry(i, resolve(n).Line)
		if elseLine > 0 {
			r.fault(at, "this rule is never reached: the else in line %d always matches", elseLine)
		}
		rule, isElse := r.rule(n, at, d)
		if isElse && elseLine == 0 {
			elseLine = at.line
		}
		rules = append(rules, rule)
	}
	return rules
}

// rule reads one rule. isElse reports whether the rule always matches, like an `else`.
func (r *reader) rule(n *yaml.Node, at place, d dialect) (rule retryflow.Rule, isElse bool) {
	m := r.mapping(n, at, writeRule)
	if len(m.keys) == 0 {
		if resolve(n).Kind == yaml.MappingNode {
			r.fault(m.place, "the rule is empty: %s", writeRule)
		}
		return rule, false
	}
	holds, then := false, d.condition == "when" // a rule with `when` has its other keys under `then`
	if k := m.take("else"); k != nil {
		isElse = true
		if isNull(resolve(k.value)) {
			r.fault(k.place, "else is empty, and NoETL skips such a rule: %s", writeElse)
			return rule, isElse
		}
		r.rejectRest(m, "write the other keys under else")
		if m = r.mapping(k.value, k.inside(), writeElse); resolve(k.value).Kind != yaml.MappingNode {
			return rule, isElse
		}
		m.line = k.line
		then = then && m.get("do") == nil
		if k := m.take(d.condition); k != nil {
			r.fault(k.place, "both %s and else are set: write one", d.condition)
		}
	} else if k := m.take(d.condition); k == nil {
		isElse = true // in NoETL, a rule without a condition always matches
	} else if n := resolve(k.value); then && n.Tag == "!!bool" && n.Decode(&holds) == nil {
		rule.When = func(retryflow.Outcome) (bool, error) { return holds, nil }
	} else if _, ok := r.text(k, writeExpr); ok {
		rule.When = r.readCondition(k, d)
	}
	if then {
		k := m.take("then")
		if k == nil {
			r.fault(m.place, "then is missing: %s", writeThen)
			return rule, isElse
		}
		r.rejectRest(m, "write the other keys under then")
		if m = r.mapping(k.value, k.inside(), writeThen); resolve(k.value).Kind != yaml.MappingNode {
			return rule, isElse
		}
	}
	r.directive(m, &rule, d)
	return rule, isElse
}

// directive reads the key `do` of a rule, and the other keys that the value of `do` allows.
func (r *reader) directive(m *mapping, rule *retryflow.Rule, d dialect) {
	k := m.take("do")
	if k == nil {
		r.fault(m.place, "do is missing: %s", writeDirective)
		return
	}
	text, ok := r.text(k, writeDirective)
	if !ok {
		return
	}
	if rule.Do = retryflow.Directive(text); !slices.Contains(directives, rule.Do) {
		r.fault(k.place, "do is %q: %s", text, writeDirective)
		return
	}
	known := "a rule with do: " + text + " has " + d.condition + " or else, do"
	switch rule.Do {
	case retryflow.Retry:
		r.retry(m, rule, d)
		known += ", attempts, backoff, delay"
	case retryflow.Jump:
		r.jump(m, rule, d)
		known += ", to, delay"
	}
	rule.Set = r.readSet(m, d)
	r.rejectRest(m, known+", set_iter, set_vars, set_ctx, set_shared, set_prev, set")
}

func (r *reader) retry(m *mapping, rule *retryflow.Rule, d dialect) {
	rule.Policy.MaxAttempts, rule.Attempts = r.attempts(m.take("attempts"), defaultAttempts, d)
	curve := r.backoff(m.take("backoff"))
	var fixed time.Duration
	fixed, rule.Delay = r.delay(m.take("delay"), defaultDelay, d)
	rule.Policy.Backoff = curve(fixed)
}

// backoff reads the name of a curve. It returns a function that makes the curve from its first
// delay.
func (r *reader) backoff(k *key) func(time.Duration) retry.Backoff {
	name := defaultBackoff
	if k != nil {
		if text, ok := r.text(k, writeBackoff); ok {
			name = text
		}
	}
	switch name {
	case "linear":
		return func(d time.Duration) retry.Backoff { return retry.Linear(d) }
	case "exponential":
		return func(d time.Duration) retry.Backoff { return retry.Exponential{Base: d} }
	case "fixed", "none":
	default:
		r.fault(k.place, "backoff is %q: %s", name, writeBackoff)
	}
	return func(d time.Duration) retry.Backoff { return retry.Fixed(d) }
}

// readCondition reads the condition of a rule.
func (r *reader) readCondition(k *key, d dialect) condition {
	t := r.expression(k)
	return func(o retryflow.Outcome) (bool, error) { return t.holds(d.names(o)) }
}
