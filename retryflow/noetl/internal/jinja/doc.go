// Package jinja parses and evaluates the expressions that rules are made of, and
// gives the results that Jinja gives in Python with StrictUndefined. It has what the
// rules of NoETL's document and playbooks use: literals, attributes, subscripts, the
// operators in operators.go, the function rand, and the filters and tests in the tables
// filters and tests. All else, such as statements, methods and other filters, is an
// error that names it when the template is parsed. An attribute of a mapping is always
// its key: output.data.items is no method of Python.
//
// The cost of an expression is limited: see limits.go. An expression can read
// maps, slices and exported fields of structs, and calls no Go method.
package jinja
