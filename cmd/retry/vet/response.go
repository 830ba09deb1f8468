package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

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
		for c, sent := range all[*ast.CallExpr](op.cursor) {
			if own(op, c) && u.sends(sent) {
				inOps[sent] = true
				u.unreadStatus(pass, c, op.cursor, call.name+" takes a 503 for success: return retryhttp.Check(req, resp, err), or an error for a bad status")
			}
		}
	}
	for c, call := range all[*ast.CallExpr](u.root) {
		x, _ := method(call)
		if fn := enclosingFunc(c); fn != nil && x != nil && !inOps[call] && u.sends(call) && u.transport(x) != nil {
			u.unreadStatus(pass, c, *fn, "after its retries the Transport returns the last response, which may be a 503: check StatusCode, or return retryhttp.ErrorOf(resp)")
		}
	}
	for _, call := range u.calls {
		if u.setTimeout(call.policy) {
			u.outlived(pass, call)
		}
	}
})

// unreadStatus reports a response that is at most closed. What reads the body may
// judge by it.
func (u *uses) unreadStatus(pass *analysis.Pass, c, fn inspector.Cursor, text string) {
	assign, ok := c.Parent().Node().(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 2 {
		return
	}
	resp := u.local(assign.Lhs[0])
	if resp == nil && !isNamedIdent(assign.Lhs[0], "_") || resp != nil && !within(fn.Node(), resp.Pos()) {
		return // it is looked at outside
	}
	for use := range u.idents(resp, fn) {
		switch p := use.Parent().Node().(type) {
		case *ast.SelectorExpr:
			of, ok := use.Parent().Parent().Node().(*ast.SelectorExpr)
			if p.Sel.Name != "Body" || !ok || of.Sel.Name != "Close" {
				return
			}
		case *ast.BinaryExpr:
			if !u.info.Types[p.Y].IsNil() {
				return
			}
		case *ast.AssignStmt:
			if !isAssigned(p, use.Node().(ast.Expr)) {
				return
			}
		default:
			return
		}
	}
	pass.ReportRangef(c.Node(), "nothing looks at the status, and %s", text)
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
		for c, made := range all[*ast.CallExpr](op.cursor) {
			if own(op, c) && u.bound(firstOf(u.info.TypeOf(made))) && u.withContext(op, made) && u.escapes(call, op, c) {
				pass.ReportRangef(made, text, "what "+types.ExprString(made.Fun)+" returns")
			}
		}
	}
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
	return slices.Contains([]string{"net/http.Response", "database/sql.Rows", "database/sql.Tx", "database/sql.Row", "io.ReadCloser", "context.Context"}, typeName(t)) ||
		types.IsInterface(t) && has(t, "Recv") && has(t, "CloseSend")
}

// withContext reports whether a call gets the context of the attempt, itself or in
// a request.
func (u *uses) withContext(op *operation, call *ast.CallExpr) bool {
	for _, arg := range call.Args {
		made := u.from(arg)
		if op.ctx != nil && (u.hasUse(arg, op.ctx) || made != nil && op.contains(made.Pos()) && u.hasUse(made, op.ctx)) {
			return true
		}
	}
	return false
}

// escapes reports whether the result of the call at c is returned by the attempt
// or assigned to a variable outside, and used there.
func (u *uses) escapes(call *call, op *operation, c inspector.Cursor) bool {
	value := call.name == "retry.DoValue" && u.usedOutside(call)
	assign, ok := c.Parent().Node().(*ast.AssignStmt)
	if !ok {
		_, returned := c.Parent().Node().(*ast.ReturnStmt)
		return returned && value
	}
	v, fn := u.local(assign.Lhs[0]), enclosingFunc(call.cursor)
	if v == nil || fn == nil {
		return false
	}
	for use := range u.idents(v, op.cursor) {
		sel, ok := use.Parent().Node().(*ast.SelectorExpr)
		if ok && sel.Sel.Name == "Body" && isAssigned(use.Parent().Parent().Node(), sel) {
			return false // replaced by what was read
		}
	}
	if !op.contains(v.Pos()) {
		return u.usesMore(*fn, v, call.End())
	}
	return value && slices.ContainsFunc(returnsOf(op.body), func(ret *ast.ReturnStmt) bool {
		return len(ret.Results) == 0 && u.isNamedResult(op.node, v) || len(ret.Results) == 2 && u.local(ret.Results[0]) == v
	})
}

// usedOutside reports whether more than the status of a call's result is used.
func (u *uses) usedOutside(call *call) bool {
	assign, ok := call.cursor.Parent().Node().(*ast.AssignStmt)
	if !ok {
		_, returned := call.cursor.Parent().Node().(*ast.ReturnStmt)
		return returned
	}
	v, fn := u.local(assign.Lhs[0]), enclosingFunc(call.cursor)
	return v != nil && fn != nil && u.usesMore(*fn, v, assign.End())
}

// usesMore reports whether a function uses v after pos, and of a response more than
// what came with its status.
func (u *uses) usesMore(fn inspector.Cursor, v *types.Var, pos token.Pos) bool {
	for use, id := range u.idents(v, fn) {
		sel, field := use.Parent().Node().(*ast.SelectorExpr)
		of, deep := use.Parent().Parent().Node().(*ast.SelectorExpr)
		_, compared := use.Parent().Node().(*ast.BinaryExpr)
		status := typeName(v.Type()) == "net/http.Response" && (field && sel.Sel.Name != "Body" || deep && of.Sel.Name == "Close")
		if id.Pos() > pos && !compared && !status {
			return true
		}
	}
	return false
}
