// Package jinja parses and evaluates the expressions of Jinja templates, and
// gives the results that Jinja gives in Python with StrictUndefined. There are
// no statements, and only the listed filters, tests and methods exist: any
// other is an error, with its name, when the template is parsed.
//
// The cost of an expression is limited: see limits.go. An expression can read
// maps, slices and exported fields of structs, and calls no Go method.
package jinja
