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

// Response reports HTTP responses that are not looked at or closed, and results that
// end with their attempt.
var Response = newCheck("response", `report a status that is not read, a leaked body, a result that ends with its attempt

A 503 is no error of net/http. A failed attempt must close its response. And what
was made with the context of an attempt that has an AttemptTimeout ends with it.`, func(pass *analysis.Pass, u *uses) {
	inOps := map[ast.Node]bool{}
	for call, op := range u.operations() {
		for c := range op.cursor.Preorder((*ast.CallExpr)(nil)) {
			if own(op, c) && u.sends(c.Node().(*ast.CallExpr)) {
				inOps[c.Node()] = true
				u.unreadStatus(pass, c, op.cursor, call.name+" takes a 503 for success: return retryhttp.Check(req, resp, err), or an error for a bad status")
				u.leakedBody(pass, c, op)
			}
		}
	}
	for c := range u.root.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if x, _ := method(call); x == nil || inOps[call] || !u.sends(call) || u.transport(x) == nil {
			continue
		}
		if fn := enclosingFunc(c); fn != nil {
			u.unreadStatus(pass, c, *fn, "after its retries the Transport returns the last response, which may be a 503: check StatusCode, or return retryhttp.ErrorOf(resp)")
		}
	}
	for _, call := range u.calls {
		if u.setTimeout(call.policy) {
			u.outlived(pass, call)
		}
	}
})

// sends reports whether a call sends an HTTP request.
func (u *uses) sends(call *ast.CallExpr) bool {
	callee := u.callee(call)
	if !strings.HasPrefix(callee, "(*net/http.Client).") && !strings.HasPrefix(callee, "net/http.") && !strings.HasSuffix(callee, ").RoundTrip") {
		return false
	}
	tuple, ok := u.info.TypeOf(call).(*types.Tuple)
	return ok && tuple.Len() == 2 && isNamed(derefAny(tuple.At(0).Type()), "net/http", "Response")
}

// unreadStatus reports a response of which at most the body is used.
func (u *uses) unreadStatus(pass *analysis.Pass, c, fn inspector.Cursor, text string) {
	assign, ok := c.Parent().Node().(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 2 {
		return
	}
	resp := u.local(assign.Lhs[0])
	if resp != nil {
		if resp.Pos() < fn.Node().Pos() || resp.Pos() >= fn.Node().End() {
			return // it is looked at outside
		}
		for use := range u.idents(resp, fn) {
			if sel, ok := use.Parent().Node().(*ast.SelectorExpr); ok && sel.Sel.Name == "Body" {
				continue
			}
			if left, ok := use.Parent().Node().(*ast.AssignStmt); ok && slices.Contains(left.Lhs, use.Node().(ast.Expr)) {
				continue
			}
			if binary, ok := use.Parent().Node().(*ast.BinaryExpr); ok && u.info.Types[binary.Y].IsNil() {
				continue
			}
			return
		}
	} else if !isNamedIdent(assign.Lhs[0], "_") {
		return
	}
	pass.ReportRangef(c.Node(), "nothing looks at the status, and %s", text)
}

// leakedBody reports a return with an error before the body of the response is
// closed.
func (u *uses) leakedBody(pass *analysis.Pass, c inspector.Cursor, op *operation) {
	assign, ok := c.Parent().Node().(*ast.AssignStmt)
	if !ok {
		return
	}
	resp := u.local(assign.Lhs[0])
	if resp == nil {
		return
	}
	closed, passed := token.Pos(0), false
	for use := range u.idents(resp, op.cursor) {
		switch p := use.Parent().Node().(type) {
		case *ast.SelectorExpr:
			if p.Sel.Name != "Body" {
				continue
			}
			sel, ok := use.Parent().Parent().Node().(*ast.SelectorExpr)
			if ok && sel.Sel.Name == "Close" && closed == 0 {
				closed = use.Node().Pos()
			} else if !ok && u.ownArgument(use.Parent()) {
				passed = true // such as drain(resp.Body)
			}
		case *ast.CallExpr:
			passed = passed || !isLibrary(strings.TrimPrefix(u.callee(p), retryhttpPath+".")) && !strings.HasPrefix(u.callee(p), retryhttpPath+".")
		case *ast.ReturnStmt, *ast.BinaryExpr, *ast.AssignStmt:
		default:
			passed = true
		}
	}
	if passed {
		return
	}
	for _, ret := range returnsOf(op.body) {
		if ret.Pos() < c.Node().Pos() || closed != 0 && closed < ret.Pos() || len(ret.Results) == 0 || u.returnsNil(ret) || closed != 0 && closed < ret.End() {
			continue
		}
		last := ret.Results[len(ret.Results)-1]
		if u.makesError(last) {
			pass.ReportRangef(ret, "an attempt that fails here leaves the body of %s open, and its connection in use: close %[1]s.Body first", resp.Name())
			return
		}
	}
}

// ownArgument reports whether x is an argument of a function that may close it.
func (u *uses) ownArgument(x inspector.Cursor) bool {
	call, ok := x.Parent().Node().(*ast.CallExpr)
	return ok && u.declared(call) != nil
}

// makesError reports whether x is an error that the attempt itself makes.
func (u *uses) makesError(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.CallExpr:
		name := u.callee(x)
		if name == "fmt.Errorf" {
			return !slices.ContainsFunc(x.Args[1:], func(arg ast.Expr) bool { return isError(u.info.TypeOf(arg)) })
		}
		if name == retryPath+".Permanent" || name == retryPath+".After" {
			return u.makesError(x.Args[len(x.Args)-1])
		}
		return name == "errors.New" || name == retryhttpPath+".Check" || name == retryhttpPath+".NewStatusError"
	case *ast.UnaryExpr, *ast.CompositeLit:
		return true
	case *ast.Ident:
		v, ok := u.info.Uses[x].(*types.Var)
		return ok && v.Parent() == v.Pkg().Scope()
	}
	return false
}

// outlived reports results that end with the attempt that made them.
func (u *uses) outlived(pass *analysis.Pass, call *call) {
	const text = "%s ends with its attempt, because AttemptTimeout cancels the context when the attempt returns: use it inside the attempt, or bound it without an AttemptTimeout"
	if call.name == "retry.DoValue" && len(call.ops) == 0 {
		if tuple, ok := u.info.TypeOf(call.CallExpr).(*types.Tuple); ok && u.bound(tuple.At(0).Type()) {
			pass.ReportRangef(call.Fun, text, "the result")
		}
		return
	}
	for _, op := range call.ops {
		if op.ctx == nil {
			continue
		}
		for c := range op.cursor.Preorder((*ast.CallExpr)(nil)) {
			made := c.Node().(*ast.CallExpr)
			if !own(op, c) || !u.bound(firstOf(u.info.TypeOf(made))) || !u.withContext(op, made) {
				continue
			}
			if u.escapes(call, op, c) {
				pass.ReportRangef(made, text, "what "+types.ExprString(made.Fun)+" returns")
			}
		}
	}
}

func firstOf(t types.Type) types.Type {
	if tuple, ok := t.(*types.Tuple); ok && tuple.Len() > 0 {
		return tuple.At(0).Type()
	}
	return t
}

// bound reports whether a value of type t ends with the context that it was made
// with.
func (u *uses) bound(t types.Type) bool {
	if t == nil {
		return false
	}
	if ch, ok := t.Underlying().(*types.Chan); ok {
		return ch.Dir() != types.SendOnly
	}
	for _, name := range [][2]string{{"net/http", "Response"}, {"database/sql", "Rows"}, {"database/sql", "Tx"}, {"database/sql", "Row"}, {"os/exec", "Cmd"}} {
		if isNamed(derefAny(t), name[0], name[1]) {
			return true
		}
	}
	return isNamed(t, "io", "ReadCloser") || isContext(t) || types.IsInterface(t) && has(t, "Recv") && has(t, "CloseSend")
}

// withContext reports whether a call gets the context of the attempt, itself or in
// a request.
func (u *uses) withContext(op *operation, call *ast.CallExpr) bool {
	for _, arg := range call.Args {
		for n := range ast.Preorder(arg) {
			id, ok := n.(*ast.Ident)
			if !ok {
				continue
			}
			if u.info.Uses[id] == op.ctx {
				return true
			}
			if made := u.from(id); made != nil && made != call && made.Pos() > op.node.Pos() && made.End() < op.node.End() && len(made.Args) > 0 && isNamedIdent(made.Args[0], op.ctx.Name()) {
				return true
			}
		}
	}
	return false
}

// escapes reports whether the result of the call at c is returned by the attempt
// or assigned to a variable outside, and used there.
func (u *uses) escapes(call *call, op *operation, c inspector.Cursor) bool {
	var v *types.Var
	switch p := c.Parent().Node().(type) {
	case *ast.ReturnStmt:
		return call.name == "retry.DoValue" && u.usedOutside(call)
	case *ast.AssignStmt:
		v = u.local(p.Lhs[0])
	}
	if v == nil {
		return false
	}
	for use := range u.idents(v, op.cursor) {
		if sel, ok := use.Parent().Node().(*ast.SelectorExpr); ok && sel.Sel.Name == "Body" {
			if assign, ok := use.Parent().Parent().Node().(*ast.AssignStmt); ok && slices.Contains(assign.Lhs, ast.Expr(sel)) {
				return false // replaced by what was read
			}
		}
	}
	if !op.contains(v.Pos()) {
		fn := enclosingFunc(call.cursor)
		return fn != nil && (u.readAfter(*fn, call, v))
	}
	for _, ret := range returnsOf(op.body) {
		if call.name == "retry.DoValue" && len(ret.Results) == 2 && u.local(ret.Results[0]) == v && u.usedOutside(call) {
			return true
		}
		if call.name == "retry.DoValue" && len(ret.Results) == 0 && u.isNamedResult(op.node, v) && u.usedOutside(call) {
			return true
		}
	}
	for n := range ast.Preorder(op.body) { // conn = c
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != len(assign.Rhs) {
			continue
		}
		for i, right := range assign.Rhs {
			if u.local(right) == v && u.isOutside(op, assign.Lhs[i]) {
				return true
			}
		}
	}
	return false
}

// usedOutside reports whether more than the status of a call's result is used.
func (u *uses) usedOutside(call *call) bool {
	assign, ok := call.cursor.Parent().Node().(*ast.AssignStmt)
	if !ok {
		_, returned := call.cursor.Parent().Node().(*ast.ReturnStmt)
		return returned
	}
	v, fn := u.local(assign.Lhs[0]), enclosingFunc(call.cursor)
	if v == nil || fn == nil {
		return false
	}
	for use := range u.idents(v, *fn) {
		sel, ok := use.Parent().Node().(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if slices.Contains([]string{"Status", "StatusCode", "Header"}, sel.Sel.Name) {
			continue
		}
		if of, ok := use.Parent().Parent().Node().(*ast.SelectorExpr); ok && of.Sel.Name == "Close" {
			continue
		}
		return true
	}
	return false
}
