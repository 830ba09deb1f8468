package noetl

import (
	"errors"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
)

const writeRetryBlock = `write a mapping with max_attempts, initial_delay, ` +
	`backoff_multiplier, max_delay, jitter, retry_when and stop_when, or rules under eval`

// toolKeys lists keys that some playbooks write into the `retry` block of a tool. NoETL's server,
// workers and tools all ignore these keys.
var toolKeys = []string{"retry_on", "retry_on_status", "backoff_seconds"}

const writeToolRetry = `write a rule in place of retry: "spec: {policy: {rules: ` +
	`[{when: \"{{ output.error.retryable }}\", then: {do: retry, attempts: 3}}]}}"`

var isError = retryflow.IfErr(func(error) bool { return true })

// retryBlock reads the key `retry`, the old form of rules. Its value is a number of attempts,
// true, false or a mapping. The default of the first delay is one second. By default each later
// delay is twice the delay before it, as NoETL's migration notes say.
func (r *reader) retryBlock(k *key) retryflow.Rules {
	n := resolve(k.value)
	again := retryflow.Rule{When: isError, Do: retryflow.Retry, Policy: retry.Policy{
		MaxAttempts: defaultAttempts, Backoff: retry.Exponential{Base: defaultDelay},
	}}
	switch {
	case n.Tag == "!!bool":
		var on bool
		if n.Decode(&on) == nil && !on {
			return nil
		}
	case n.Tag == "!!int" || isText(n):
		again.Policy.MaxAttempts, again.Attempts = r.attempts(k, 0, blockDialect(ownLimit))
	case n.Kind == yaml.SequenceNode:
		r.fault(k.place, "retry is a list: write its conditions as rules under eval (do: retry), "+
			"and its pages with do: jump")
	default:
		m := r.mapping(k.value, k.inside(), writeRetryBlock)
		if n.Kind != yaml.MappingNode {
			return nil
		}
		for _, name := range toolKeys {
			if own := m.get(name); own != nil {
				r.fault(own.place, "%s is for the tool, and none of NoETL's tools reads it: "+
					writeToolRetry, name)
				return nil
			}
		}
		r.blockPolicy(m, &again)
	}
	return retryflow.Rules{again, {When: isError, Do: retryflow.Fail}, {Do: retryflow.Continue}}
}

func (r *reader) blockPolicy(m *mapping, again *retryflow.Rule) {
	again.Policy.MaxAttempts, again.Attempts =
		r.attempts(m.take("max_attempts"), defaultAttempts, blockDialect(ownLimit))
	limit := again.Attempts
	if fixed := again.Policy.MaxAttempts; limit == nil {
		limit = func(retryflow.Outcome) (int, error) { return fixed, nil }
	}
	base, factor := defaultDelay, 0.0 // a Factor of 0 means 2
	if k := m.take("initial_delay"); k != nil {
		base, again.Delay = r.delay(k, 0, blockDialect(limit))
	}
	if k := m.take("backoff_multiplier"); k != nil {
		var err error
		if factor, err = number(resolve(k.value)); err != nil || !(factor >= 1 && factor <= 1e6) {
			r.fault(k.place, "backoff_multiplier is %s: write a number from 1 to 1000000",
				describe(resolve(k.value)))
		}
	}
	again.Policy.Backoff = retry.Exponential{Base: base, Factor: factor}
	if k := m.take("max_delay"); k != nil {
		if again.Policy.MaxDelay = r.seconds(k, writeSeconds); again.Policy.MaxDelay == 0 {
			again.Policy.Backoff = retry.Fixed(0)
		}
	}
	if k := m.take("jitter"); k != nil {
		var on bool
		if n := resolve(k.value); n.Tag != "!!bool" || n.Decode(&on) != nil {
			r.fault(k.place, "jitter is %s: write true or false", describe(n))
		}
		if on {
			again.Policy.Jitter = retry.Proportional(0.5)
		}
	}
	again.When = blockWhen(
		r.blockCondition(m.take("retry_when"), limit),
		r.blockCondition(m.take("stop_when"), limit),
	)
	r.rejectRest(m, writeRetryBlock)
}

// blockWhen returns the condition under which the task is repeated. retryWhen or stopWhen may be
// nil. If there is a stop_when and no retry_when, the task is also repeated after a success,
// until stop_when is true.
func blockWhen(retryWhen, stopWhen condition) condition {
	return func(o retryflow.Outcome) (bool, error) {
		if stopWhen != nil {
			if stop, err := stopWhen(o); err != nil || stop {
				return false, err
			}
		}
		switch {
		case retryWhen != nil:
			if o.Err == nil {
				return false, nil
			}
			return retryWhen(o)
		default:
			return o.Err != nil || stopWhen != nil, nil
		}
	}
}

func (r *reader) blockCondition(k *key, limit attempts) condition {
	if k == nil {
		return nil
	}
	if _, ok := r.text(k, writeExpr); !ok {
		return nil
	}
	return r.readCondition(k, blockDialect(limit))
}

// ownLimit is called if the expression under the key max_attempts reads the name max_attempts. It
// returns an error, because the expression cannot read its own result.
func ownLimit(retryflow.Outcome) (int, error) {
	return 0, errors.New("max_attempts cannot be computed from itself")
}

// blockDialect is the form of conditions in a `retry` block. In this form, expressions can read
// some names that no other form has. `limit` computes the value of the name max_attempts.
func blockDialect(limit attempts) dialect {
	return dialect{"retry_when", func(o retryflow.Outcome) func(string) (any, bool) {
		others := names(o)
		return func(name string) (any, bool) {
			switch name {
			case "status_code":
				http, _ := o.Data["http"].(map[string]any)
				return http["status"], http["status"] != nil
			case "attempt":
				return o.Attempt, true
			case "max_attempts":
				n, err := limit(o)
				if err != nil {
					return err, false
				}
				return n, true
			case "error":
				if o.Err == nil {
					return nil, true
				}
				return o.Err.Error(), true
			case "success":
				return o.Err == nil, true
			case "result", "data":
				return o.Result, true
			}
			return others(name)
		}
	}}
}
