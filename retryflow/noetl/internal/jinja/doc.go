// Package jinja parses and evaluates the expressions of Jinja templates, and
// gives the results that Jinja gives in Python with StrictUndefined. It has the
// operators, literals, attributes and subscripts, one function, rand, and the
// filters, tests and methods in the tables filters, tests and methods. All else,
// such as statements, slices and other filters, is an error that names it when the
// template is parsed. The few results that depend on a value and are not supported
// are errors of the evaluation, and say so.
//
// The cost of an expression is limited: see limits.go. An expression can read
// maps, slices and exported fields of structs, and calls no Go method.
package jinja
