package retry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry/internal/strict"
)

// UnmarshalJSON reads the text form of a policy. All keys and values:
// https://github.com/goretry/retry/blob/main/docs/text-form.md
//
// Decoding is strict: unknown keys, duplicate keys, bare numbers for durations, and values
// of the wrong kind or out of range are errors. The error is a [*PolicyError]. It names up to
// 20 faults at once and says what to write. After an error, p is unchanged.
//
// p may already hold a policy, such as [Default]. Then the text changes only the fields whose
// keys it contains:
//
//   - A key with the value null leaves its field unchanged. Inside "backoff" and "budget", a
//     null is an error. A null in place of the whole policy leaves p unchanged.
//   - "max_attempts" and "max_retries" replace each other: if the text has only one of these
//     keys, the field of the other key is set to 0. A "max_retries" of 0 means one attempt,
//     even if the text also has "max_attempts".
//   - "attempt_cap" can lower the AttemptCap of p, but not raise it.
//   - "budget" makes a new Budget. This Budget is full and belongs to this policy alone. To
//     share a Budget between policies, set it in code.
//   - Fields that hold functions have no keys. They are unchanged.
//
// Do not embed a Policy in a struct. Give the struct a named field of the type Policy instead. A
// struct that embeds a Policy gets the methods of the Policy, which ignore all other fields of the
// struct. Do not inline a Policy with an option of a YAML library either, because then the library
// does not call these methods.
func (p *Policy) UnmarshalJSON(data []byte) error {
	err := strict.Decode(p, data, invalidPolicy, examplePolicy, (*Policy).readForm)
	return decodeError(err)
}

const (
	invalidPolicy = "retry: invalid policy"
	examplePolicy = `{"max_attempts": 5}`
)

// UnmarshalText reads the same JSON as [Policy.UnmarshalJSON]. It is for flags (flag.TextVar)
// and for environment variables. The text null is an error.
func (p *Policy) UnmarshalText(text []byte) error {
	if string(bytes.TrimSpace(text)) == "null" {
		return decodeError(strict.NoObject(invalidPolicy, []byte("null"), examplePolicy))
	}
	return p.UnmarshalJSON(text)
}

// UnmarshalYAML reads YAML with the same keys as the JSON of [Policy.UnmarshalJSON].
// go.yaml.in/yaml, gopkg.in/yaml and goccy/go-yaml call this method. sigs.k8s.io/yaml calls
// UnmarshalJSON.
func (p *Policy) UnmarshalYAML(unmarshal func(any) error) error {
	data, err := strict.YAML(invalidPolicy, unmarshal)
	if err != nil {
		return decodeError(err)
	}
	return p.UnmarshalJSON(data)
}

// decodeError returns err. If err is an error of package strict, decodeError returns it as a
// PolicyError.
func decodeError(err error) error {
	if e := new(strict.Error); errors.As(err, &e) {
		return &PolicyError{text: e}
	}
	return err
}

// MarshalJSON writes the text form of p. It leaves out fields that are zero and fields that have no
// key in the text form: RetryIf, Classify, Source, Wait, Enter, OnEvent, and the Name of the
// Budget. [Policy.UnmarshalJSON] reads all other fields back. The Budget that UnmarshalJSON makes
// is new and full, and is not the Budget of p. MarshalJSON returns an error if p is invalid. It
// also returns an error for a Backoff or Jitter without a text form: a BackoffFunc, an empty
// Schedule, or a type that is not from this package.
func (p Policy) MarshalJSON() ([]byte, error) {
	form, err := p.form()
	if err != nil {
		return nil, err
	}
	return json.Marshal(form)
}

// MarshalText writes the JSON of [Policy.MarshalJSON] on one line.
func (p Policy) MarshalText() ([]byte, error) { return p.MarshalJSON() }

// MarshalYAML returns a value for YAML libraries to write in place of p. It has the same keys
// as the result of [Policy.MarshalJSON].
func (p Policy) MarshalYAML() (any, error) { return p.form() }

// Keys returns the keys of the text form of a policy. A key inside a mapping is written with
// the key of the mapping: "backoff.base".
func Keys() (keys []string) {
	for _, n := range allNames {
		if n.key != "" && !slices.Contains(keys, n.key) {
			keys = append(keys, n.key)
		}
	}
	return keys
}

// A policyForm is the text form of a Policy.
type policyForm struct {
	MaxAttempts    int            `json:"max_attempts,omitzero" yaml:"max_attempts,omitempty"`
	MaxRetries     int            `json:"max_retries,omitzero" yaml:"max_retries,omitempty"`
	AttemptCap     int            `json:"attempt_cap,omitzero" yaml:"attempt_cap,omitempty"`
	Retryable      *bool          `json:"retryable,omitzero" yaml:"retryable,omitempty"`
	Backoff        *backoffForm   `json:"backoff,omitzero" yaml:"backoff,omitempty"`
	MaxDelay       duration       `json:"max_delay,omitzero" yaml:"max_delay,omitempty"`
	Jitter         any            `json:"jitter,omitzero" yaml:"jitter,omitempty"`
	MaxRetryAfter  duration       `json:"max_retry_after,omitzero" yaml:"max_retry_after,omitempty"`
	RetryAfter     RetryAfterMode `json:"retry_after,omitzero" yaml:"retry_after,omitempty"`
	MaxElapsed     duration       `json:"max_elapsed,omitzero" yaml:"max_elapsed,omitempty"`
	AttemptTimeout duration       `json:"attempt_timeout,omitzero" yaml:"attempt_timeout,omitempty"`
	HealthyAfter   duration       `json:"healthy_after,omitzero" yaml:"healthy_after,omitempty"`
	Budget         *budgetForm    `json:"budget,omitzero" yaml:"budget,omitempty"`
}

// A budgetForm is the text form of a Budget.
type budgetForm struct {
	Size        int           `json:"size" yaml:"size"`
	Ratio       strict.Number `json:"ratio,omitzero" yaml:"ratio,omitempty"`
	RefillEvery duration      `json:"refill_every,omitzero" yaml:"refill_every,omitempty"`
	Remember    duration      `json:"remember,omitzero" yaml:"remember,omitempty"`
	Grace       duration      `json:"grace,omitzero" yaml:"grace,omitempty"`
	Borrowed    bool          `json:"borrowed,omitzero" yaml:"borrowed,omitempty"`
}

// A backoffForm is the text form of a Backoff.
type backoffForm struct {
	Type   string        `json:"type" yaml:"type"`
	Base   *duration     `json:"base,omitzero" yaml:"base,omitempty"`
	Factor strict.Number `json:"factor,omitzero" yaml:"factor,omitempty"`
	Delays []duration    `json:"delays,omitzero" yaml:"delays,omitempty"`
}

func (p Policy) form() (*policyForm, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("retry: %w", err)
	}
	form := &policyForm{
		MaxAttempts: p.MaxAttempts, MaxRetries: p.MaxRetries, AttemptCap: p.AttemptCap,
		MaxDelay: duration(p.MaxDelay), MaxElapsed: duration(p.MaxElapsed),
		MaxRetryAfter: duration(p.MaxRetryAfter), RetryAfter: modes[string(p.RetryAfter)],
		AttemptTimeout: duration(p.AttemptTimeout), HealthyAfter: duration(p.HealthyAfter),
	}
	if p.NonRetryable {
		form.Retryable = new(bool)
	}
	if b := p.Budget; b != nil {
		form.Budget = &budgetForm{
			b.Size, strict.Number(b.Ratio),
			duration(b.RefillEvery), duration(b.Remember), duration(b.Grace), b.Borrowed,
		}
	}
	switch b := p.Backoff.(type) {
	case nil:
	case Fixed:
		form.Backoff = &backoffForm{Type: "fixed", Base: (*duration)(&b)}
	case Linear:
		form.Backoff = &backoffForm{Type: "linear", Base: (*duration)(&b)}
	case Exponential:
		form.Backoff = &backoffForm{Type: "exponential", Base: (*duration)(&b.Base)}
		form.Backoff.Factor = strict.Number(b.Factor)
	case Fibonacci:
		form.Backoff = &backoffForm{Type: "fibonacci", Base: (*duration)(&b)}
	case Schedule:
		if len(b) == 0 {
			const text = "retry: Backoff is an empty Schedule: use nil for no delay"
			return nil, errors.New(text)
		}
		form.Backoff = &backoffForm{Type: "schedule"}
		for _, d := range b {
			form.Backoff.Delays = append(form.Backoff.Delays, duration(d))
		}
	default:
		return nil, fmt.Errorf("retry: Backoff is a %T, which has no text form: "+
			"use Fixed, Linear, Exponential, Fibonacci or Schedule", b)
	}
	switch j := p.Jitter.(type) {
	case Spread:
		if form.Jitter = any(strict.Number(0)); j != 0 {
			form.Jitter = j.String()
		}
	case Proportional:
		form.Jitter = strict.Number(j)
	}
	if p.Jitter != nil && form.Jitter == nil {
		return nil, fmt.Errorf("retry: Jitter is a %T, which has no text form: "+
			"use FullJitter, EqualJitter or Proportional", p.Jitter)
	}
	return form, nil
}

// readForm sets the fields of p from the keys of m.
func (p *Policy) readForm(m *strict.Mapping) {
	attempts, hasAttempts := strict.Take(m, "max_attempts",
		"how many attempts in all: 1 for no retry, -1 for unlimited",
		func(n int) bool { return n > 0 || n == Unlimited })
	retries, hasRetries := strict.Take(m, "max_retries",
		"how many attempts after the first: 0 for no retry, -1 for unlimited",
		func(n int) bool { return n >= Unlimited })
	switch {
	case hasRetries && retries == 0:
		p.MaxAttempts, p.MaxRetries = 1, 0
	case hasAttempts || hasRetries:
		p.MaxAttempts, p.MaxRetries = attempts, retries
	}
	ceiling, _ := strict.Take(m, "attempt_cap",
		"how many attempts there may be at most, or 0 for no cap",
		func(n int) bool { return n >= 0 })
	if ceiling > 0 && (p.AttemptCap == 0 || ceiling < p.AttemptCap) {
		p.AttemptCap = ceiling
	}
	if retryable, ok := strict.Take[bool](m, "retryable", "true or false", nil); ok {
		p.NonRetryable = !retryable
	}
	const exampleBackoff = `a mapping such as {"type": "exponential", "base": "200ms"}`
	if curve := m.Inner("backoff", exampleBackoff); curve != nil {
		// In the mapping of a policy, a null keeps the old value of its field. A Backoff is always
		// replaced as a whole, so its keys have no old values to keep.
		curve.NullIsFault = true
		p.Backoff = readBackoff(curve)
	}
	readDuration(m, "max_delay", &p.MaxDelay)
	jitter, ok := strict.Take(m, "jitter",
		`"full", "equal", or a share of the delay from 0 to 1: 0.2 is ±20 %`,
		func(v any) bool { return jitterOf(v) != nil })
	if ok {
		p.Jitter = jitterOf(jitter)
	}
	readDuration(m, "max_retry_after", &p.MaxRetryAfter)
	mode, ok := strict.Take(m, "retry_after", "spread, at_least or exact",
		func(mode string) bool { _, ok := modes[mode]; return ok })
	if ok {
		p.RetryAfter = modes[mode]
	}
	readDuration(m, "max_elapsed", &p.MaxElapsed)
	readDuration(m, "attempt_timeout", &p.AttemptTimeout)
	readLeast(m, "healthy_after", leastHealthy, &p.HealthyAfter)
	const exampleBudget = `a mapping such as {"size": 100, "ratio": 0.1}`
	if budget := m.Inner("budget", exampleBudget); budget != nil {
		budget.NullIsFault = true
		p.Budget = readBudget(budget)
	}
	m.RejectRest("a policy")
}

// The variable `modes` maps the values of the key "retry_after" to the RetryAfterModes.
var modes = map[string]RetryAfterMode{
	string(spreadInText): RetryAfterSpread, "at_least": RetryAfterAtLeast, "exact": RetryAfterExact,
}

// readBudget returns the Budget that m describes.
func readBudget(m *strict.Mapping) *Budget {
	var b Budget
	b.Size, _ = strict.Need(m, "size", "how many retries it holds, at least 1",
		func(n int) bool { return n >= 1 })
	b.Ratio, _ = strict.Take(m, "ratio",
		"a share between 0 and 1: 0.1 is one retry for ten successes",
		func(share float64) bool { return share >= 0 && share <= 1 })
	readLeast(m, "refill_every", leastRefill, &b.RefillEvery)
	readLeast(m, "remember", leastRefill, &b.Remember)
	readLeast(m, "grace", leastRefill, &b.Grace)
	b.Borrowed, _ = strict.Take[bool](m, "borrowed", "true or false", nil)
	m.RejectRest("a budget")
	return &b
}

// jitterOf returns the Jitter for v, a value of the key "jitter". It returns nil if v is
// invalid.
func jitterOf(v any) Jitter {
	switch v := v.(type) {
	case string:
		for _, j := range []Spread{FullJitter, EqualJitter} {
			if v == j.String() {
				return j
			}
		}
	case float64:
		if v >= 0 && v <= 1 {
			return Proportional(v)
		}
	}
	return nil
}

// readDuration sets *d to the duration that m contains under the key. If m lacks the key, or if the
// value of the key is not a valid duration, *d is unchanged.
func readDuration(m *strict.Mapping, key string, d *time.Duration) {
	if v, ok := strict.Take(m, key, strict.WriteDuration, notNegative); ok {
		*d = time.Duration(v)
	}
}

// readLeast does the same as readDuration, for a duration that must be 0 or at least the parameter
// `shortest`.
func readLeast(m *strict.Mapping, key string, shortest time.Duration, d *time.Duration) {
	write := fmt.Sprintf(`a duration such as "1m", at least %v, or "0s" for never`, shortest)
	longEnough := func(d duration) bool { return d == 0 || time.Duration(d) >= shortest }
	if v, ok := strict.Take(m, key, write, longEnough); ok {
		*d = time.Duration(v)
	}
}

func notNegative(d duration) bool { return d >= 0 }

var backoffTypes = []string{"fixed", "linear", "exponential", "fibonacci", "schedule"}

// readBackoff returns the Backoff that m describes. It returns nil if the type is missing or
// unknown.
func readBackoff(m *strict.Mapping) (b Backoff) {
	kind, ok := strict.Need(m, "type", "one of "+strings.Join(backoffTypes, ", "),
		func(kind string) bool { return slices.Contains(backoffTypes, kind) })
	if !ok {
		return nil
	}
	if kind == "schedule" {
		b = readDelays(m)
	} else {
		base, _ := strict.Need(m, "base", strict.WriteDuration, notNegative)
		switch kind {
		case "fixed":
			b = Fixed(base)
		case "linear":
			b = Linear(base)
		case "exponential":
			factor, _ := strict.Take(m, "factor", "a number of at least 1, such as 2",
				func(factor float64) bool { return factor >= 1 })
			b = Exponential{Base: time.Duration(base), Factor: factor}
		case "fibonacci":
			b = Fibonacci(base)
		}
	}
	m.RejectRest("a backoff of type " + kind)
	return b
}

// readDelays returns the Schedule that m describes.
func readDelays(m *strict.Mapping) (s Schedule) {
	list, _ := strict.Need(m, "delays", `the delays as a list, such as ["1s", "1m"]`,
		func(list []json.RawMessage) bool { return len(list) > 0 })
	for i, value := range list {
		key := fmt.Sprintf("delays[%d]", i)
		d, _ := strict.Parse(m, key, value, strict.WriteDuration, notNegative)
		s = append(s, time.Duration(d))
	}
	return s
}

// A duration is a time.Duration that JSON and YAML write as text: "200ms".
type duration = strict.Duration
