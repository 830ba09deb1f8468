package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Template is a parsed text with any number of {{ … }}. It is safe for concurrent use.
type Template struct {
	parts []part
	rand  func() float64
}

// A part of a template is a text or an expression.
type part struct {
	text       string
	expression node // nil if the part is a text
}

// Parse parses a template. If an expression calls rand(), the number comes from the parameter
// rand.
func Parse(source string, rand func() float64) (*Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("the text has %d bytes: write at most %d", len(source), maxSource)
	}
	if !utf8.ValidString(source) {
		return nil, errors.New("the text is not valid UTF-8")
	}
	t := &Template{rand: rand}
	err := try(func() {
		for _, s := range split(source) {
			p := part{text: s.text}
			if s.tokens != nil {
				p.expression = parse(s.tokens)
			}
			t.parts = append(t.parts, p)
		}
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Single reports whether t is one {{ … }} without text around it.
func (t *Template) Single() bool { return len(t.parts) == 1 && t.parts[0].expression != nil }

// Truth reports whether the expression of t is true in the sense of Jinja's "if". t.Single() must
// be true. The function `lookup` returns the value of a name and true. If the name is missing,
// `lookup` returns false. If `lookup` returns false with an error as the value, the evaluation
// fails with this error.
func (t *Template) Truth(lookup func(name string) (any, bool)) (holds bool, err error) {
	err = t.evaluate(lookup, func(e *evaluation) { holds = truth(t.parts[0].expression.eval(e)) })
	return holds, err
}

// Value returns the result of t as a Go value. If t.Single() is true, the result is the value of
// the expression. For any other t, the result is a text.
func (t *Template) Value(lookup func(name string) (any, bool)) (v any, err error) {
	if !t.Single() {
		return t.Text(lookup)
	}
	err = t.evaluate(lookup, func(e *evaluation) { v = toGo(e, t.parts[0].expression.eval(e), 0) })
	return v, err
}

// Text returns the text that Jinja renders for t.
func (t *Template) Text(lookup func(name string) (any, bool)) (text string, err error) {
	err = t.evaluate(lookup, func(e *evaluation) {
		var b strings.Builder
		for _, p := range t.parts {
			s := p.text
			if p.expression != nil {
				s = e.str(p.expression.eval(e))
			}
			e.grow(len(s))
			b.WriteString(s)
		}
		text = b.String()
	})
	return text, err
}

// evaluate calls f with a new evaluation. If f panics with a failure, `evaluate` returns the error
// in the failure.
func (t *Template) evaluate(lookup func(name string) (any, bool), f func(*evaluation)) error {
	return try(func() { f(&evaluation{lookup: lookup, rand: t.rand}) })
}
