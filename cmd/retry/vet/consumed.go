package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

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

// target returns the variable or field that x is or points to, or nil if x is
// something else.
func target(x ast.Expr) ast.Expr {
	x = ast.Unparen(x)
	if address, ok := x.(*ast.UnaryExpr); ok && address.Op == token.AND {
		x = ast.Unparen(address.X)
	}
	if rootOf(x) == nil {
		return nil
	}
	switch x.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		return x
	default:
		return nil
	}
}

// isReader reports whether t is an interface that can only read. A function
// that gets a Seeker may rewind it.
func isReader(t types.Type) bool {
	return types.IsInterface(t) && has(t, "Read") && !has(t, "Seek") && !has(t, "Write")
}

func has(t types.Type, method string) bool {
	obj, _, _ := types.LookupFieldOrMethod(t, true, nil, method)
	_, ok := obj.(*types.Func)
	return ok
}

// isConsumable reports whether x is a reader that ends. Connections and sources
// of random bytes do not.
func (u *uses) isConsumable(x ast.Expr) bool {
	t := deref(u.info.TypeOf(x))
	if types.IsInterface(t) {
		name := strings.ToLower(types.ExprString(x))
		return has(t, "Read") && !has(t, "Write") && !strings.Contains(name, "rand") && !strings.Contains(name, "entropy")
	}
	return slices.Contains([]string{
		"bytes.Reader", "bytes.Buffer", "strings.Reader", "os.File", "io.LimitedReader", "io.PipeReader",
		"io.SectionReader", "compress/gzip.Reader", "mime/multipart.Part",
	}, typeName(t))
}

// isScanner reports whether x is a decoder or the like that was made around a
// reader that ends.
func (u *uses) isScanner(x ast.Expr) bool {
	made := u.from(x)
	if made == nil || len(made.Args) == 0 || !slices.Contains([]string{
		"bufio.NewScanner", "bufio.NewReader", "encoding/json.NewDecoder", "encoding/xml.NewDecoder", "encoding/csv.NewReader", "encoding/gob.NewDecoder",
		"archive/tar.NewReader", "io.TeeReader", "io.LimitReader", "io.MultiReader", "compress/gzip.NewReader",
	}, u.callee(made)) {
		return false
	}
	under := target(made.Args[0])
	return under == nil || u.isConsumable(under)
}

// isRows reports whether t is the result of a query, like those of database/sql
// and pgx.
func isRows(t types.Type) bool {
	named, ok := types.Unalias(deref(t)).(*types.Named)
	return ok && named.Obj().Name() == "Rows" && has(t, "Next") && has(t, "Scan")
}

// withBody returns the variable that a request comes from, if the request is
// known to have a body.
func (u *uses) withBody(x ast.Expr) ast.Expr {
	for { // req.Clone(ctx) and req.WithContext(ctx) have the same body
		call, ok := ast.Unparen(x).(*ast.CallExpr)
		if !ok {
			break
		}
		switch u.callee(call) {
		case "(*net/http.Request).Clone", "(*net/http.Request).WithContext":
			x = call.Fun.(*ast.SelectorExpr).X
		default:
			return nil
		}
	}
	req, ok := ast.Unparen(x).(*ast.Ident)
	if !ok {
		return nil
	}
	from, ok := u.result(req).(*ast.CallExpr)
	if !ok {
		return nil
	}
	switch u.callee(from) {
	case "net/http.NewRequest", "net/http.NewRequestWithContext":
		body := from.Args[len(from.Args)-1]
		if u.info.Types[body].IsNil() || types.ExprString(body) == "http.NoBody" {
			return nil
		}
		return req
	default:
		return nil
	}
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
