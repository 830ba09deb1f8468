package retry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// UnmarshalJSON reads a policy as an operator writes it:
//
//	{
//	  "max_attempts": 5,
//	  "backoff": {"type": "exponential", "base": "200ms", "factor": 2},
//	  "max_delay": "5s",
//	  "jitter": 0.2
//	}
//
// JSON, YAML and the text form have the same keys:
//
//	key              value          left out         zero             what it says
//	max_attempts     whole number   not set          an error         executions in all, the first included; -1: unlimited
//	max_retries      whole number   not set          one execution    executions after the first; -1: unlimited
//	attempt_cap      whole number   none             none             the ceiling on executions, over every other limit
//	retryable        true or false  true             -                false: never run again after a failure
//	backoff          a mapping      no delay         -                the curve of delays, see below
//	max_delay        duration       no cap           no cap           no delay of the curve is longer, jitter included
//	jitter           see below      none             none             how far a delay is moved
//	max_retry_after  duration       1m or max_delay  1m or max_delay  the longest wait a server may ask for
//	max_elapsed      duration       no bound         no bound         no retry starts later than this after the first execution began
//	attempt_timeout  duration       none             none             the context of each execution ends after this
//
// A duration is text: "200ms", "1m30s". A jitter is "full" (from nothing to
// the delay), "equal" (from half of it), or a number from 0 to 1, a share of
// the delay: 0.2 is ±20 %. A backoff is one of these, where factor is at least
// 1, and 2 if it is left out:
//
//	{"type": "fixed", "base": "1s"}
//	{"type": "linear", "base": "1s"}
//	{"type": "exponential", "base": "200ms", "factor": 1.5}
//	{"type": "fibonacci", "base": "1s"}
//	{"type": "schedule", "delays": ["5m", "15m", "1h"]}
//
// What cannot be meant is an error: an unknown key, a key that is there twice,
// a bare number for a duration, a value of the wrong kind or out of range. The
// error names every such key at once and says what to write, and p stays as it
// was. Whether the keys make a sound policy together is not judged, for code
// may add a Budget yet, or another file a limit: ask [Policy.Validate] once p
// is complete.
//
// p may hold a policy already, such as [Default]. A key that is left out, or
// null, leaves its field as it is. Of max_attempts and max_retries one clears
// the other; max_retries 0 is one execution, whatever max_attempts says.
// attempt_cap can lower a cap that is set, not raise it. Functions, Source and
// Budget are no part of the form, and stay.
//
// Hold a Policy in a named field. A struct that embeds one takes over these
// methods and loses its other fields; a YAML library that is told to inline
// one goes past them.
func (p *Policy) UnmarshalJSON(data []byte) error {
	m, err := readMapping("", data)
	if err != nil {
		return fmt.Errorf(`retry: invalid policy: %w: write a mapping such as {"max_attempts": 5}`, err)
	}
	decoded := *p
	decoded.readForm(m)
	m.rejectRest("a policy")
	if err := m.faults.err(); err != nil {
		return fmt.Errorf("retry: %w", err)
	}
	*p = decoded
	return nil
}

// UnmarshalText reads the JSON that [Policy.UnmarshalJSON] reads, for flags
// (flag.TextVar) and environment variables.
func (p *Policy) UnmarshalText(text []byte) error { return p.UnmarshalJSON(text) }

// UnmarshalYAML reads in YAML what [Policy.UnmarshalJSON] reads in JSON. It is
// what go.yaml.in/yaml, gopkg.in/yaml and goccy/go-yaml look for;
// sigs.k8s.io/yaml uses UnmarshalJSON.
func (p *Policy) UnmarshalYAML(unmarshal func(any) error) error {
	var v any
	if err := unmarshal(&v); err != nil {
		return err
	}
	data, err := json.Marshal(jsonValue(v))
	if err != nil {
		return fmt.Errorf("retry: invalid policy: %w", err)
	}
	return p.UnmarshalJSON(data)
}

// jsonValue returns v, which a YAML library decoded, with text in place of
// what JSON cannot say: keys that are not text, infinity and NaN.
func jsonValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[key] = jsonValue(value)
		}
		return m
	case map[any]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[fmt.Sprint(key)] = jsonValue(value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, value := range v {
			list[i] = jsonValue(value)
		}
		return list
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Sprint(v)
		}
	case string:
		// goccy/go-yaml writes 1e-07 and reads it as text.
		if f, err := strconv.ParseFloat(v, 64); err == nil && strings.ContainsAny(v, "eE") && !strings.Contains(v, ".") {
			return f
		}
	}
	return v
}

// MarshalJSON writes p for [Policy.UnmarshalJSON], which gives the same policy
// back, but for its functions, Source and Budget. What is zero is left out. A
// policy with a value out of range is an error, and so is a BackoffFunc, an
// empty Schedule, and a Backoff or Jitter that is not of this package.
func (p Policy) MarshalJSON() ([]byte, error) {
	form, err := p.form()
	if err != nil {
		return nil, err
	}
	return json.Marshal(form)
}

// MarshalText writes what [Policy.MarshalJSON] writes, JSON on one line.
func (p Policy) MarshalText() ([]byte, error) { return p.MarshalJSON() }

// MarshalYAML returns what YAML libraries are to write in place of p: the keys
// that [Policy.MarshalJSON] writes.
func (p Policy) MarshalYAML() (any, error) { return p.form() }

// A policyForm is a Policy as it is written.
type policyForm struct {
	MaxAttempts    int          `json:"max_attempts,omitzero" yaml:"max_attempts,omitempty"`
	MaxRetries     int          `json:"max_retries,omitzero" yaml:"max_retries,omitempty"`
	AttemptCap     int          `json:"attempt_cap,omitzero" yaml:"attempt_cap,omitempty"`
	Retryable      *bool        `json:"retryable,omitzero" yaml:"retryable,omitempty"`
	Backoff        *backoffForm `json:"backoff,omitzero" yaml:"backoff,omitempty"`
	MaxDelay       duration     `json:"max_delay,omitzero" yaml:"max_delay,omitempty"`
	Jitter         any          `json:"jitter,omitzero" yaml:"jitter,omitempty"`
	MaxRetryAfter  duration     `json:"max_retry_after,omitzero" yaml:"max_retry_after,omitempty"`
	MaxElapsed     duration     `json:"max_elapsed,omitzero" yaml:"max_elapsed,omitempty"`
	AttemptTimeout duration     `json:"attempt_timeout,omitzero" yaml:"attempt_timeout,omitempty"`
}

// A backoffForm is a Backoff as it is written.
type backoffForm struct {
	Type   string     `json:"type" yaml:"type"`
	Base   *duration  `json:"base,omitzero" yaml:"base,omitempty"`
	Factor float64    `json:"factor,omitzero" yaml:"factor,omitempty"`
	Delays []duration `json:"delays,omitzero" yaml:"delays,omitempty"`
}

func (p Policy) form() (*policyForm, error) {
	p.Budget = nil
	if err := p.fieldFaults().err(); err != nil {
		return nil, fmt.Errorf("retry: %w", err)
	}
	form := &policyForm{
		MaxAttempts: p.MaxAttempts, MaxRetries: p.MaxRetries, AttemptCap: p.AttemptCap,
		MaxDelay: duration(p.MaxDelay), MaxRetryAfter: duration(p.MaxRetryAfter),
		MaxElapsed: duration(p.MaxElapsed), AttemptTimeout: duration(p.AttemptTimeout),
	}
	if p.NonRetryable {
		form.Retryable = new(bool)
	}
	switch b := p.Backoff.(type) {
	case nil:
	case Fixed:
		form.Backoff = &backoffForm{Type: "fixed", Base: (*duration)(&b)}
	case Linear:
		form.Backoff = &backoffForm{Type: "linear", Base: (*duration)(&b)}
	case Exponential:
		form.Backoff = &backoffForm{Type: "exponential", Base: (*duration)(&b.Base), Factor: b.Factor}
	case Fibonacci:
		form.Backoff = &backoffForm{Type: "fibonacci", Base: (*duration)(&b)}
	case Schedule:
		if len(b) == 0 {
			return nil, errors.New("retry: Backoff is an empty Schedule: use nil for no delay")
		}
		form.Backoff = &backoffForm{Type: "schedule"}
		for _, d := range b {
			form.Backoff.Delays = append(form.Backoff.Delays, duration(d))
		}
	default:
		return nil, fmt.Errorf("retry: Backoff is a %T, which has no text form: use Fixed, Linear, Exponential, Fibonacci or Schedule", b)
	}
	switch j := p.Jitter.(type) {
	case spread:
		form.Jitter = j.String()
	case Proportional:
		form.Jitter = float64(j)
	}
	if p.Jitter != nil && jitterOf(form.Jitter) == nil {
		return nil, fmt.Errorf("retry: Jitter is a %T, which has no text form: use FullJitter, EqualJitter or Proportional", p.Jitter)
	}
	return form, nil
}

// readForm sets the fields of p that m has keys for.
func (p *Policy) readForm(m *mapping) {
	attempts, hasAttempts := take(m, "max_attempts", "write how many executions in all: 1 for no retry, -1 for unlimited",
		func(n int) bool { return n > 0 || n == Unlimited })
	retries, hasRetries := take(m, "max_retries", "write how many executions after the first: 0 for no retry, -1 for unlimited",
		func(n int) bool { return n >= Unlimited })
	switch {
	case hasRetries && retries == 0:
		p.MaxAttempts, p.MaxRetries = 1, 0
	case hasAttempts || hasRetries:
		p.MaxAttempts, p.MaxRetries = attempts, retries
	}
	ceiling, _ := take(m, "attempt_cap", "write how many executions there may be at most, or 0 for no cap",
		func(n int) bool { return n >= 0 })
	if ceiling > 0 && (p.AttemptCap == 0 || ceiling < p.AttemptCap) {
		p.AttemptCap = ceiling
	}
	if retryable, ok := take(m, "retryable", "write true or false", func(bool) bool { return true }); ok {
		p.NonRetryable = !retryable
	}
	if b := m.takeBackoff(); b != nil {
		p.Backoff = b
	}
	m.takeDuration("max_delay", &p.MaxDelay)
	jitter, ok := take(m, "jitter", `write "full", "equal", or a share of the delay from 0 to 1: 0.2 is ±20 %`,
		func(v any) bool { return jitterOf(v) != nil })
	if ok {
		p.Jitter = jitterOf(jitter)
	}
	m.takeDuration("max_retry_after", &p.MaxRetryAfter)
	m.takeDuration("max_elapsed", &p.MaxElapsed)
	m.takeDuration("attempt_timeout", &p.AttemptTimeout)
}

// jitterOf returns the Jitter that is written as v, or nil.
func jitterOf(v any) Jitter {
	switch v := v.(type) {
	case string:
		for _, j := range []spread{FullJitter, EqualJitter} {
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

// A mapping is a JSON object whose keys are taken out one by one. It collects
// what is wrong with them.
type mapping struct {
	path   string // what its keys are called by in errors: "backoff."
	values map[string]json.RawMessage
	keys   []string // that were asked for
	faults faults
}

// readMapping reads a JSON object. A null is one that is empty.
func readMapping(path string, data []byte) (*mapping, error) {
	m := &mapping{path: path}
	if err := json.Unmarshal(data, &m.values); err != nil {
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
			return nil, fmt.Errorf("it is %s", shown(data))
		}
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	counts, err := countKeys(data)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[key]; n > 1 {
			m.faults = append(m.faults, fmt.Errorf("key %q is there %d times: keep one", path+key, n))
		}
	}
	return m, nil
}

// countKeys counts how often each key is there in a JSON object. Where a key
// is there twice, json.Unmarshal keeps the last without a word.
func countKeys(object []byte) (map[string]int, error) {
	counts := make(map[string]int)
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		counts[fmt.Sprint(key)]++
		if err := dec.Decode(new(json.RawMessage)); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// take takes a key out of m and returns its value, false if there is none: the
// key is left out, or null, or its value is of the wrong kind or not sound.
func take[T any](m *mapping, key, write string, sound func(T) bool) (v T, ok bool) {
	m.keys = append(m.keys, key)
	value, ok := m.values[key]
	delete(m.values, key)
	if !ok || string(value) == "null" {
		return v, false
	}
	return parse(m, key, value, write, sound)
}

// need is take for a key that must be there.
func need[T any](m *mapping, key, write string, sound func(T) bool) (v T, ok bool) {
	before := len(m.faults)
	v, ok = take(m, key, write, sound)
	if !ok && len(m.faults) == before {
		m.faults.add(m.path+key, "missing", write)
	}
	return v, ok
}

// parse returns the value of a key.
func parse[T any](m *mapping, key string, value json.RawMessage, write string, sound func(T) bool) (v T, ok bool) {
	if err := json.Unmarshal(value, &v); err != nil || !sound(v) {
		m.faults.add(m.path+key, shown(value), write)
		return v, false
	}
	return v, true
}

// rejectRest is called when all the keys that there can be have been taken.
func (m *mapping) rejectRest(of string) {
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(m.values)) {
		unknown = append(unknown, strconv.Quote(m.path+key))
	}
	if unknown != nil {
		m.faults = append(m.faults, fmt.Errorf("unknown key %s: the keys of %s are %s",
			strings.Join(unknown, ", "), of, strings.Join(m.keys, ", ")))
	}
}

// shown returns JSON for an error, on one line that is not too long.
func shown(value []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil {
		return fmt.Sprintf("%q", value)
	}
	if text := []rune(b.String()); len(text) > 60 {
		return string(text[:60]) + "..."
	}
	return b.String()
}

const writeDuration = `write a duration as text, such as "200ms" or "1m30s"`

func notNegative(d duration) bool { return d >= 0 }

// takeDuration sets d if its key is there.
func (m *mapping) takeDuration(key string, d *time.Duration) {
	if v, ok := take(m, key, writeDuration, notNegative); ok {
		*d = time.Duration(v)
	}
}

// takeBackoff returns the Backoff of a policy, nil if its key is not there.
func (m *mapping) takeBackoff() Backoff {
	value, ok := take(m, "backoff", "", func(json.RawMessage) bool { return true })
	if !ok {
		return nil
	}
	inner, err := readMapping("backoff.", value)
	if err != nil {
		m.faults.add("backoff", shown(value), `write a mapping such as {"type": "exponential", "base": "200ms"}`)
		return nil
	}
	b := inner.backoff()
	m.faults = append(m.faults, inner.faults...)
	return b
}

var backoffTypes = []string{"fixed", "linear", "exponential", "fibonacci", "schedule"}

// backoff returns the Backoff that m is.
func (m *mapping) backoff() (b Backoff) {
	kind, ok := need(m, "type", "write one of "+strings.Join(backoffTypes, ", "),
		func(kind string) bool { return slices.Contains(backoffTypes, kind) })
	if !ok {
		return nil
	}
	if kind == "schedule" {
		b = m.delays()
	} else {
		base, _ := need(m, "base", writeDuration, notNegative)
		switch kind {
		case "fixed":
			b = Fixed(base)
		case "linear":
			b = Linear(base)
		case "exponential":
			factor, _ := take(m, "factor", "write a number of at least 1, or leave it out for 2",
				func(factor float64) bool { return factor >= 1 })
			b = Exponential{Base: time.Duration(base), Factor: factor}
		case "fibonacci":
			b = Fibonacci(base)
		}
	}
	m.rejectRest("a backoff of type " + kind)
	return b
}

// delays returns the Schedule that m is.
func (m *mapping) delays() (s Schedule) {
	list, _ := need(m, "delays", `write the delays as a list, such as ["1s", "1m"]`,
		func(list []json.RawMessage) bool { return len(list) > 0 })
	for i, value := range list {
		d, _ := parse(m, fmt.Sprintf("delays[%d]", i), value, writeDuration, notNegative)
		s = append(s, time.Duration(d))
	}
	return s
}

// A duration is a time.Duration that is text in JSON and YAML: "200ms".
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalJSON is there to say what to write instead of a bare number.
func (d *duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%s is no duration: write text such as \"200ms\" or \"1m30s\"", data)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is no duration: write a number and a unit, such as \"200ms\" or \"1m30s\"", text)
	}
	*d = duration(parsed)
	return nil
}
