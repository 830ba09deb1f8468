// Package jinja parses and evaluates the expressions of Jinja templates, and
// gives the answers that Jinja gives in Python, with StrictUndefined. There are
// no statements, and the filters, tests and methods are a closed list: a
// template with anything else is refused by name when it is parsed.
//
// What an expression may cost is bounded: see limits.go. An expression sees
// maps, slices and exported fields of structs, and calls no Go method.
package jinja
