// Package jinja parses and evaluates the expressions in rules. The results are the results of
// Python's Jinja with StrictUndefined. The package supports the parts of Jinja that occur in
// NoETL's playbooks and in its document "Retry Handling (Canonical)": literals, attributes,
// subscripts, the operators in operators.go, the function `rand`, and the filters and tests in
// filters.go. Everything else, such as a statement, a method or another filter, is a parse error.
// The text of the error names the unsupported part.
// An attribute of a mapping is always a key of the mapping: output.data.items is the key "items"
// and never Python's method items.
//
// The cost of an expression is limited: see limits.go. An expression can read maps, slices and
// exported fields of structs. It cannot call a Go method.
package jinja
