package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Template is a text with any number of {{ … }}. It is safe for concurrent
// use.
type Template struct {
	parts []part
	rand  func() float64
}

// A part is text, or an expression.
type part struct {
	text       string
	expression node // nil for text
}

// Parse parses a template. The function rand() of expressions calls rand.
func Parse(source string, rand func() float64) (*Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("it has %d bytes: write at most %d", len(source), maxSource)
	}
	if !utf8.ValidString(source) {
		return nil, errors.New("it is not valid UTF-8")
	}
	segments, err := split(source)
	if err != nil {
		return nil, err
	}
	t := &Template{rand: rand}
	constants := &evaluation{}
	for _, s := range segments {
		p := part{text: s.text}
		if s.tokens != nil {
			if p.expression, err = parse(s.tokens, constants); err != nil {
				return nil, err
			}
		}
		t.parts = append(t.parts, p)
	}
	return t, nil
}

// Single reports whether t is one {{ … }} and no text.
func (t *Template) Single() bool { return len(t.parts) == 1 && t.parts[0].expression != nil }

// Truth reports whether the expression of a single t is true, as in an if of
// Jinja. lookup returns the value of a name, or false if there is none. With
// false, an error in place of the value fails the evaluation.
func (t *Template) Truth(lookup func(name string) (any, bool)) (bool, error) {
	e := &evaluation{lookup: lookup, rand: t.rand}
	return e.truthOf(t.parts[0].expression)
}

// Value returns the result of t as a Go value: the value of its expression if t
// is single, and otherwise a text.
func (t *Template) Value(lookup func(name string) (any, bool)) (any, error) {
	if !t.Single() {
		return t.Text(lookup)
	}
	e := &evaluation{lookup: lookup, rand: t.rand}
	v, err := t.parts[0].expression.eval(e)
	if err != nil {
		return nil, err
	}
	return toGo(e, v, 0)
}

// Text returns the text that Jinja renders.
func (t *Template) Text(lookup func(name string) (any, bool)) (string, error) {
	e := &evaluation{lookup: lookup, rand: t.rand}
	var b strings.Builder
	for _, p := range t.parts {
		text := p.text
		if p.expression != nil {
			v, err := p.expression.eval(e)
			if err != nil {
				return "", err
			}
			if text, err = e.str(v); err != nil {
				return "", err
			}
		}
		if err := e.grow(len(text)); err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
