package vet

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Consumed reports readers, rows and requests that the first attempt uses up.
var Consumed = newCheck("consumed", `report a reader, request or rows made outside of the operation that reads them

The first attempt reads a body or rows to their end, and the second finds
nothing left. Each attempt must make the reader, request or rows that it reads.`, runConsumed)

func runConsumed(pass *analysis.Pass, u *uses) {
	for call, op := range u.operations() {
		for _, found := range u.consumptions(op) {
			pass.ReportRangef(found.x, "%s", found.text(call.name))
		}
	}
}

// A consumption is an expression that an operation uses up.
type consumption struct {
	x    ast.Expr
	kind string // "reader", "rows", or "request"
}

func (c consumption) text(retrier string) string {
	name := types.ExprString(c.x)
	switch c.kind {
	case "rows":
		return name + " comes from outside of " + retrier + " and the first attempt reads it to its end: run the query in each attempt"
	case "request":
		return name + " comes from outside of " + retrier + " and its body is empty from the second attempt on: make the request in each attempt, or set Body from GetBody before it is sent"
	default:
		return name + " comes from outside of " + retrier + " and is empty from the second attempt on: keep the bytes outside, and make a reader of them in each attempt"
	}
}

// consumptions returns the expressions that op uses up, each variable once.
func (u *uses) consumptions(op *operation) (found []consumption) {
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil), (*ast.KeyValueExpr)(nil), (*ast.AssignStmt)(nil)) {
		if detached(c, op) || u.mayBeOnce(c, op) {
			continue
		}
		for _, candidate := range u.candidates(c) {
			again := slices.ContainsFunc(found, func(f consumption) bool { return u.same(f.x, candidate.x) })
			if !again && u.comesFromOutside(op, candidate.x) && !u.restored(op, candidate) && !u.isFinal(c) {
				found = append(found, candidate)
			}
		}
	}
	return found
}

// candidates returns the variables that the node at c uses up, wherever they
// come from.
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

// received returns the variables that a method call uses up: its receiver, or
// the body of the request that it sends.
func (u *uses) received(call *ast.CallExpr) []consumption {
	method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	switch name := u.callee(call); name {
	case "(*net/http.Client).Do", "(net/http.RoundTripper).RoundTrip", "(*net/http.Transport).RoundTrip":
		if req := u.withBody(call.Args[0]); req != nil {
			return []consumption{{req, "request"}}
		}
		return nil
	}
	x := target(method.X)
	if x == nil {
		return nil
	}
	switch method.Sel.Name {
	case "Next":
		if isRows(u.info.TypeOf(x)) {
			return []consumption{{x, "rows"}}
		}
	case "Read", "ReadByte", "ReadBytes", "ReadRune", "ReadString", "WriteTo", "Scan", "Decode", "ReadAll", "Token", "NextPart":
		if u.isConsumable(x) || u.isScanner(x) {
			return []consumption{{x, "reader"}}
		}
	}
	return nil
}

// comesFromOutside reports whether x is a variable of this package that is made
// outside of op, or a field of such a variable.
func (u *uses) comesFromOutside(op *operation, x ast.Expr) bool {
	root, ok := u.info.ObjectOf(rootOf(x)).(*types.Var)
	if !ok || u.isForeign(x) {
		return false
	}
	if op.contains(root.Pos()) {
		return u.isReceiver(op, root)
	}
	if id, ok := x.(*ast.Ident); ok {
		v := u.vars[root]
		if v != nil && v.zero && !v.shared && len(v.values) == 0 && !isStruct(root.Type()) {
			return false // always nil
		}
		if value := u.value(id); value != nil && u.isForeign(value) {
			return false // such as rand.Reader
		}
	}
	return true
}

func isStruct(t types.Type) bool {
	_, ok := t.Underlying().(*types.Struct)
	return ok
}

// isForeign reports whether x is a variable of another package, such as os.Stdin.
func (u *uses) isForeign(x ast.Expr) bool {
	selector, ok := ast.Unparen(x).(*ast.SelectorExpr)
	return ok && u.info.Selections[selector] == nil
}

// isReceiver reports whether v is the receiver of op, which is a method.
func (u *uses) isReceiver(op *operation, v *types.Var) bool {
	decl, ok := op.node.(*ast.FuncDecl)
	return ok && decl.Recv != nil && decl.Recv.Pos() <= v.Pos() && v.Pos() < decl.Recv.End()
}
