package noetl

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/noetl/internal/jinja"
)

// A template is a text of a playbook. It may contain {{ … }}.
type template struct {
	text   string
	parsed *jinja.Template
}

// expression parses the text of a key. The text must be exactly one {{ … }}, or an expression
// without braces.
func (r *reader) expression(k *key) *template {
	text := strings.TrimSpace(resolve(k.value).Value)
	if text == "" {
		r.fault(k.place, "%s: it is empty: write one {{ … }}", k.name)
		return nil
	}
	tag := func(open string) bool { return strings.Contains(text, open) }
	if !tag("{{") && !tag("{%") && !tag("{#") {
		text = "{{ " + text + " }}"
	}
	t, err := r.compile(text)
	if err == nil && !t.parsed.Single() {
		err = fmt.Errorf("%.200s: write exactly one {{ … }}", text)
	}
	if err != nil {
		r.fault(k.place, "%s: %v", k.name, err)
		return nil
	}
	return t
}

// compiled is the result of `compile`.
type compiled struct {
	template *template
	err      error
}

// compile parses a text with any number of {{ … }}. It parses equal texts only once.
func (r *reader) compile(text string) (*template, error) {
	c, ok := r.templates[text]
	if !ok {
		c.template, c.err = compile(text, r.source)
		r.templates[text] = c
	}
	return c.template, c.err
}

// compile parses a text with any number of {{ … }}.
func compile(text string, source func() uint64) (*template, error) {
	draw := rand.Uint64
	if source != nil {
		draw = source
	}
	parsed, err := jinja.Parse(text, func() float64 { return float64(draw()>>11) / (1 << 53) })
	if err != nil {
		return nil, fmt.Errorf("%.200s: %w", text, err)
	}
	return &template{text, parsed}, nil
}

// names returns a function that looks up the names in expressions.
func names(o retryflow.Outcome) func(name string) (any, bool) {
	var outcome map[string]any
	return func(name string) (any, bool) {
		switch name {
		case "outcome":
			if outcome == nil {
				outcome = visible(o)
			}
			return outcome, true
		case "_attempt":
			return o.Attempt, true
		case "_task":
			return o.Task, true
		}
		v, ok := o.State[name]
		return v, ok
	}
}

// holds reports whether t is true in the sense of Jinja. False, none, 0 and empty values are not
// true.
func (t *template) holds(lookup func(string) (any, bool)) (bool, error) {
	holds, err := t.parsed.Truth(lookup)
	return holds, t.named(err)
}

// value evaluates t. If t is a single expression, the result is the value of the expression. For
// any other t, the result is a text.
func (t *template) value(lookup func(string) (any, bool)) (any, error) {
	v, err := t.parsed.Value(lookup)
	return v, t.named(err)
}

// named adds the text of t to an error of its evaluation.
func (t *template) named(err error) error {
	if err == nil {
		return nil
	}
	named := fmt.Errorf("%s: %s", oneLine(t.text), oneLine(err.Error()))
	var undefined *jinja.UndefinedError
	if errors.As(err, &undefined) || errors.Is(err, retryflow.ErrNoMatch) {
		return missingError{named}
	}
	return named
}

// attempts evaluates t as a number of attempts.
func (t *template) attempts(lookup func(string) (any, bool)) (int, error) {
	v, err := t.value(lookup)
	if err != nil {
		return 0, err
	}
	switch v := v.(type) {
	case int:
		if v >= 1 {
			return v, nil
		}
	case string:
		if n, err := wholeNumber(v); err == nil && n >= 1 {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s: %s is not a number of attempts: "+
		"want a whole number of 1 or more", oneLine(t.text), show(v))
}

// delay evaluates t as a delay in seconds.
func (t *template) delay(lookup func(string) (any, bool)) (time.Duration, error) {
	v, err := t.value(lookup)
	if err != nil {
		return 0, err
	}
	var f float64
	switch v := v.(type) {
	case int:
		f = float64(v)
	case int64:
		f = float64(v)
	case float64:
		f = v
	case string:
		if f, err = parseNumber(v); err != nil {
			return 0, t.named(fmt.Errorf("text %.100q is not a number of seconds", v))
		}
	default:
		return 0, t.named(fmt.Errorf("%s is not a number of seconds", show(v)))
	}
	d, err := seconds(f)
	return d, t.named(err)
}

// show describes a value for an error.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case string:
		return fmt.Sprintf("text %.100q", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	case bool, int, int64, float64:
		return fmt.Sprint(v)
	default:
		return fmt.Sprintf("a %T", v)
	}
}

// A missingError is the error of an expression that needs a missing name or key. If the
// expression is the condition of a rule, the rule does not match.
type missingError struct{ error }

func (missingError) Is(target error) bool { return target == retryflow.ErrNoMatch }
