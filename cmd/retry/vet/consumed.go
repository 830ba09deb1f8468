package vet

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Consumed reports readers, rows and requests that the first attempt reads to the end.
var Consumed = newCheck("consumed", `report a reader, request or rows that the first attempt uses up

The first attempt reads a body or rows to the end, so nothing is left for the
second attempt. Each attempt must make its own reader, request or
rows.`, func(pass *analysis.Pass, u *uses) {
	for call, op := range u.operations() {
		for _, found := range u.consumptions(op) {
			pass.ReportRangef(found.x, "%s comes from outside of %s and %s", types.ExprString(found.x),
				call.name, consequences[found.kind])
		}
	}
})

// A consumption is a reader, a request or rows that an operation reads to the end.
type consumption struct {
	x    ast.Expr
	kind string // "reader", "rows", or "request"
}

// consequences maps the kind of a consumption to a text. The text says what happens in the second
// attempt, and what to write instead.
var consequences = map[string]string{
	"reader": "is empty from the second attempt on: keep the bytes outside, and make a reader of " +
		"them in each attempt",
	"rows": "the first attempt reads it to its end: run the query in each attempt",
	"request": "its body is empty from the second attempt on: make the request in each attempt, or " +
		"set Body from GetBody before it is sent",
}

// consumptions returns the readers, requests and rows that op reads to the end. It returns each
// variable once.
func (u *uses) consumptions(op *operation) (found []consumption) {
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil), (*ast.KeyValueExpr)(nil),
		(*ast.AssignStmt)(nil)) {
		if u.detached(c, op) || u.mayBeOnce(c, op) {
			continue
		}
		for _, candidate := range u.candidates(c) {
			again := slices.ContainsFunc(found, func(f consumption) bool {
				return u.isSame(f.x, candidate.x)
			})
			if !again && u.comesFromOutside(op, candidate.x) && !u.restored(op, candidate) && !u.isFinal(c) {
				found = append(found, candidate)
			}
		}
	}
	return found
}

// candidates returns the readers, requests and rows that the node at c reads to the end, even if
// the attempt itself makes them.
func (u *uses) candidates(c inspector.Cursor) (found []consumption) {
	read := func(x ast.Expr, to types.Type) {
		if x = target(x); x != nil && isReader(to) && u.isConsumable(x) {
			found = append(found, consumption{x, "reader"})
		}
	}
	switch n := c.Node().(type) {
	case *ast.KeyValueExpr:
		if field, ok := n.Key.(*ast.Ident); ok {
			if v, ok := u.info.ObjectOf(field).(*types.Var); ok && v.IsField() {
				read(n.Value, v.Type())
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if field, ok := left.(*ast.SelectorExpr); ok && len(n.Lhs) == len(n.Rhs) {
				read(n.Rhs[i], u.info.TypeOf(field))
			}
		}
	case *ast.CallExpr:
		for i, arg := range n.Args {
			read(arg, u.param(n, i))
		}
		found = append(found, u.received(n)...)
	}
	return found
}

// senders lists the methods that send a request.
var senders = []string{
	"(*net/http.Client).Do", "(net/http.RoundTripper).RoundTrip", "(*net/http.Transport).RoundTrip",
}

// readToEnd lists the methods that may read a reader to the end.
var readToEnd = []string{
	"Read", "ReadByte", "ReadBytes", "ReadRune", "ReadString", "WriteTo", "Scan", "Decode",
	"ReadAll", "Token", "NextPart",
}

// received returns the reader or the rows that a method call reads to the end. If the call sends a
// request with a body, it returns the request.
func (u *uses) received(call *ast.CallExpr) []consumption {
	x, name := method(call)
	if x == nil {
		return nil
	}
	if slices.Contains(senders, u.callee(call)) {
		if req := u.withBody(call.Args[0]); req != nil {
			return []consumption{{req, "request"}}
		}
		return nil
	}
	switch x = target(x); {
	case x == nil:
	case name == "Next" && isRows(u.info.TypeOf(x)):
		return []consumption{{x, "rows"}}
	case slices.Contains(readToEnd, name):
		if u.isConsumable(x) {
			return []consumption{{x, "reader"}}
		}
	}
	return nil
}

// comesFromOutside reports whether x is a variable of this package that is declared outside of op,
// or a field of such a variable.
func (u *uses) comesFromOutside(op *operation, x ast.Expr) bool {
	if !u.isOutside(op, x) || u.isForeign(x) {
		return false
	}
	id, ok := x.(*ast.Ident)
	if !ok {
		return true
	}
	v := u.vars[u.local(id)]
	_, isStruct := u.info.TypeOf(x).Underlying().(*types.Struct)
	if v != nil && v.zero && !v.shared && len(v.values) == 0 && !isStruct {
		return false // the variable is always nil
	}
	value := u.value(id)
	return value == nil || !u.isForeign(value) // for example, rand.Reader has no end
}

// isForeign reports whether x is a variable of another package, such as os.Stdin.
func (u *uses) isForeign(x ast.Expr) bool {
	selector, ok := ast.Unparen(x).(*ast.SelectorExpr)
	return ok && u.info.Selections[selector] == nil
}
