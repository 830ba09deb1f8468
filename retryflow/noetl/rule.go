package noetl

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/exec"
	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
)

// What a retry has where it does not say otherwise.
const (
	defaultAttempts = 3
	defaultBackoff  = "fixed"
	defaultDelay    = time.Second
)

var directives = []retryflow.Directive{retryflow.Continue, retryflow.Retry, retryflow.Jump, retryflow.Break, retryflow.Fail}

const (
	writeRule       = `write a mapping with expr and do, or with else`
	writeElse       = `write a mapping with do: "else: {do: continue}"`
	writeExpr       = `write an expression in quotes: "{{ outcome.status == 'error' }}"`
	writeDirective  = `write continue, retry, jump, break or fail`
	writeAttempts   = `write how many executions in all: 1 or more`
	writeBackoff    = `write fixed, linear or exponential`
	writeDelay      = `write seconds, such as 1.5, or an expression in quotes`
	writeLabel      = `write the label of a task`
	writeIter       = `write a mapping of names to values`
	writeRetryBlock = `write a mapping with max_attempts and retry_when, or rules under eval`
)

// rules reads the list under eval.
func (r *reader) rules(k *key) retryflow.Rules {
	list := resolve(k.value)
	rules, ok := r.lists[list]
	if !ok {
		rules = r.readRules(k)
		r.lists[list] = rules
	}
	return slices.Clone(rules) // each task has its own
}

func (r *reader) readRules(k *key) (rules retryflow.Rules) {
	elseLine := 0
	for _, n := range r.list(k.value, "write a list of rules") {
		line := resolve(n).Line
		if elseLine > 0 {
			r.fault(line, "this rule is never asked: the else in line %d always matches", elseLine)
		}
		rule, isElse := r.rule(n)
		if isElse && elseLine == 0 {
			elseLine = line
		}
		rules = append(rules, rule)
	}
	return rules
}

// rule reads one rule, and whether it is the else.
func (r *reader) rule(n *yaml.Node) (rule retryflow.Rule, isElse bool) {
	m := r.mapping(n, writeRule)
	if len(m.keys) == 0 {
		if resolve(n).Kind == yaml.MappingNode {
			r.fault(m.line, "the rule is empty: %s", writeRule)
		}
		return rule, false
	}
	if k := m.take("else"); k != nil {
		if !isNull(resolve(k.value)) { // else: {do: …}; it may also stand beside do, and be empty
			r.rest(m, "what belongs to else stands under it")
			m = r.mapping(k.value, writeElse)
			m.line = k.line
		}
		if k := m.take("expr"); k != nil {
			r.fault(k.line, "expr and else are both there: write one")
		}
		r.body(m, &rule)
		return rule, true
	}
	if k := m.take("expr"); k == nil {
		r.fault(m.line, "expr is missing: %s", writeRule)
	} else if _, ok := r.text(k, writeExpr); ok {
		rule.When = r.when(k)
	}
	r.body(m, &rule)
	return rule, false
}

// body reads what follows if the rule matches.
func (r *reader) body(m *mapping, rule *retryflow.Rule) {
	k := m.take("do")
	if k == nil {
		r.fault(m.line, "do is missing: %s", writeDirective)
		return
	}
	text, ok := r.text(k, writeDirective)
	if !ok {
		return
	}
	i := slices.IndexFunc(directives, func(d retryflow.Directive) bool { return d.String() == text })
	if i < 0 {
		r.fault(k.line, "do is %q: %s", text, writeDirective)
		return
	}
	rule.Do = directives[i]
	known := "a rule that says " + text + " has expr or else, do"
	switch rule.Do {
	case retryflow.Retry:
		r.retry(m, rule)
		known += ", attempts, backoff, delay"
	case retryflow.Jump:
		r.jump(m, rule)
		known += ", to, delay"
	}
	if rule.Do != retryflow.Fail {
		rule.Set = r.set(m.take("set_iter"))
		known += ", set_iter"
	}
	r.rest(m, known)
}

func (r *reader) retry(m *mapping, rule *retryflow.Rule) {
	rule.Policy.MaxAttempts = r.attempts(m.take("attempts"), defaultAttempts)
	curve := r.backoff(m.take("backoff"))
	var fixed time.Duration
	fixed, rule.Delay = r.delay(m.take("delay"), defaultDelay)
	rule.Policy.Backoff = curve(fixed)
}

// backoff returns the curve that begins with a delay.
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
	case "fixed":
	default:
		r.fault(k.line, "backoff is %q: %s", name, writeBackoff)
	}
	return func(d time.Duration) retry.Backoff { return retry.Fixed(d) }
}

func (r *reader) jump(m *mapping, rule *retryflow.Rule) {
	if k := m.take("to"); k == nil {
		r.fault(m.line, "to is missing: %s", writeLabel)
	} else {
		rule.To, _ = r.text(k, writeLabel)
		r.jumps = append(r.jumps, key{name: rule.To, line: k.line})
	}
	var fixed time.Duration
	fixed, rule.Delay = r.delay(m.take("delay"), 0)
	if fixed > 0 {
		rule.Delay = func(retryflow.Outcome) (time.Duration, error) { return fixed, nil }
	}
}

func (r *reader) attempts(k *key, absent int) int {
	if k == nil {
		return absent
	}
	n := resolve(k.value)
	var attempts int
	if n.Tag != "!!int" || n.Decode(&attempts) != nil || attempts < 1 {
		r.fault(k.line, "%s is %s: %s", k.name, describe(n), writeAttempts)
	}
	return attempts
}

// delay reads a delay: one that is known, or one that is computed.
func (r *reader) delay(k *key, absent time.Duration) (time.Duration, func(retryflow.Outcome) (time.Duration, error)) {
	if k == nil {
		return absent, nil
	}
	n := resolve(k.value)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && strings.Contains(n.Value, "{") {
		t, err := r.expression(n)
		if err != nil {
			r.fault(k.line, "delay: %v", err)
			return 0, nil
		}
		return 0, t.delay
	}
	var f float64
	var err error
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str":
		f, err = parseNumber(n.Value)
	case n.Tag == "!!int" || n.Tag == "!!float":
		err = n.Decode(&f)
	default:
		err = errors.New("no number")
	}
	var d time.Duration
	if err == nil {
		d, err = seconds(f)
	}
	if err != nil {
		r.fault(k.line, "delay is %s: %s", describe(n), writeDelay)
	}
	return d, nil
}

// delay computes a delay in seconds.
func (t *template) delay(o retryflow.Outcome) (d time.Duration, err error) {
	err = t.evaluate(o, nil, func(v *exec.Value) error {
		var f float64
		switch {
		case v.IsNumber():
			f = v.Float()
		case v.IsString():
			if f, err = parseNumber(v.String()); err != nil {
				return fmt.Errorf("text %.100q is no number of seconds", v.String())
			}
		default:
			return fmt.Errorf("%s is no number of seconds", kind(v))
		}
		d, err = seconds(f)
		return err
	})
	return d, err
}

// parseNumber reads a decimal number, and nothing else that Go takes for one.
func parseNumber(text string) (float64, error) {
	text = strings.TrimSpace(text)
	if strings.Trim(text, "+-.0123456789eE") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(text, 64)
}

// maxSeconds is about 292 years, the longest that time.Duration holds.
const maxSeconds = math.MaxInt64 / int64(time.Second)

// seconds returns f seconds, to the nanosecond.
func seconds(f float64) (time.Duration, error) {
	if !(f >= 0 && f <= float64(maxSeconds)) {
		return 0, fmt.Errorf("%v is no number of seconds from 0 to %d", f, maxSeconds)
	}
	return time.Duration(math.Round(f * float64(time.Second))), nil
}

// when reads a condition.
func (r *reader) when(k *key) func(retryflow.Outcome) (bool, error) {
	t, err := r.expression(k.value)
	if err != nil {
		r.fault(k.line, "%s: %v", k.name, err)
		return nil
	}
	return func(o retryflow.Outcome) (bool, error) { return t.holds(o, nil) }
}

// holds reports whether t is true, as Jinja says: not false, none, 0, nor
// empty.
func (t *template) holds(o retryflow.Outcome, names map[string]any) (holds bool, err error) {
	err = t.evaluate(o, names, func(v *exec.Value) error {
		if v.IsCallable() {
			return errors.New("it is a function: call it")
		}
		if err := hidden(v); err != nil {
			return err
		}
		holds = v.IsTrue()
		return nil
	})
	return holds, err
}

// set reads set_iter.
func (r *reader) set(k *key) func(retryflow.State, retryflow.Outcome) error {
	if k == nil {
		return nil
	}
	n := resolve(k.value)
	set, ok := r.sets[n]
	if !ok {
		set = r.readSet(k, n)
		r.sets[n] = set
	}
	return set
}

func (r *reader) readSet(k *key, n *yaml.Node) func(retryflow.State, retryflow.Outcome) error {
	var values map[string]any
	if n.Kind != yaml.MappingNode {
		r.fault(k.line, "set_iter is %s: %s", describe(n), writeIter)
	} else if err := n.Decode(&values); err != nil {
		r.fault(k.line, "set_iter: %v", err)
	}
	for name, value := range values {
		values[name] = r.compileAll(k, name, value)
	}
	return func(s retryflow.State, o retryflow.Outcome) error { return setIter(values, s, o) }
}

// compileAll returns a value of set_iter with templates for its texts.
func (r *reader) compileAll(k *key, name string, value any) any {
	switch value := value.(type) {
	case string:
		if !strings.Contains(value, "{{") && !strings.Contains(value, "{%") {
			return value
		}
		t, err := compile(value, r.source)
		if err != nil {
			r.fault(k.line, "set_iter: %s: %v", name, err)
		}
		return t
	case []any:
		for i := range value {
			value[i] = r.compileAll(k, name, value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = r.compileAll(k, name, value[key])
		}
	}
	return value
}

// setIter changes the names under iter in the state. All values are computed
// before the first is changed, and whoever holds the mapping that was there
// keeps it as it is.
func setIter(values map[string]any, s retryflow.State, o retryflow.Outcome) error {
	iter := map[string]any{}
	switch before := s["iter"].(type) {
	case nil:
	case map[string]any:
		maps.Copy(iter, before)
	default:
		return fmt.Errorf("set_iter: iter in the state is %T, no map[string]any", before)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, err := computed(values[name], o)
		if err != nil {
			return fmt.Errorf("set_iter: %s: %w", name, err)
		}
		iter[name] = value
	}
	s["iter"] = iter
	return nil
}

// computed returns a copy of a value with its templates replaced by what they
// come to.
func computed(value any, o retryflow.Outcome) (any, error) {
	var err error
	switch value := value.(type) {
	case *template:
		return value.value(o)
	case []any:
		list := make([]any, len(value))
		for i := range value {
			if list[i], err = computed(value[i], o); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		m := make(map[string]any, len(value))
		for key := range value {
			if m[key], err = computed(value[key], o); err != nil {
				return nil, err
			}
		}
		return m, nil
	default:
		return value, nil
	}
}

// retryBlock reads the old block: max_attempts and retry_when, which knows
// status_code. It is exponential from one second, as its migration says.
func (r *reader) retryBlock(k *key) retryflow.Rules {
	m := r.mapping(k.value, writeRetryBlock)
	if resolve(k.value).Kind != yaml.MappingNode {
		return nil
	}
	attempts := m.take("max_attempts")
	if attempts == nil {
		r.fault(m.line, "max_attempts is missing: %s", writeAttempts)
	}
	again := retryflow.Rule{
		When:   isError,
		Do:     retryflow.Retry,
		Policy: retry.Policy{MaxAttempts: r.attempts(attempts, 0), Backoff: retry.Exponential{Base: defaultDelay}},
	}
	if k := m.take("retry_when"); k != nil {
		if _, ok := r.text(k, writeExpr); ok {
			again.When = r.retryWhen(k)
		}
	}
	r.rest(m, writeRetryBlock)
	return retryflow.Rules{again, {When: isError, Do: retryflow.Fail}, {Do: retryflow.Continue}}
}

var isError = retryflow.IfErr(func(error) bool { return true })

func (r *reader) retryWhen(k *key) func(retryflow.Outcome) (bool, error) {
	t, err := r.expression(k.value)
	if err != nil {
		r.fault(k.line, "retry_when: %v", err)
		return nil
	}
	return func(o retryflow.Outcome) (bool, error) {
		if o.Err == nil {
			return false, nil
		}
		names := map[string]any{}
		if http, ok := o.Data["http"].(map[string]any); ok && http["status"] != nil {
			names["status_code"] = http["status"]
		}
		return t.holds(o, names)
	}
}
