// Package jinja parses and evaluates the expressions of rules. It gives the results of Jinja
// in Python with StrictUndefined. It supports what the rules in NoETL's document and playbooks
// use: literals, attributes, subscripts, the operators in operators.go, the function rand, and
// the filters and tests in the tables filters and tests. Everything else, such as statements,
// methods and other filters, is an error of the parser, which names it. An attribute of a
// mapping is always a key of the mapping: output.data.items is not the method of Python.
//
// The cost of an expression is limited: see limits.go. An expression can read maps, slices and
// exported fields of structs. It cannot call a Go method.
package jinja
