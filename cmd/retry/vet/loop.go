package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Loop reports loops that retry beside a policy.
var Loop = newCheck("loop", `report a loop that retries inside an attempt, or calls again at once what gave up

The attempts of a loop and those of the policy multiply, and a loop around a call makes
its limits and delays mean nothing.`, func(pass *analysis.Pass, u *uses) {
	for _, call := range u.calls {
		u.hotLoop(pass, call)
	}
	for call, op := range u.operations() {
		for c := range op.cursor.Preorder((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
			if runs(op, c) && u.retries(c.Node()) {
				pass.Reportf(c.Node().Pos(), "this loop retries inside of %s, so its attempts and those of the policy multiply: "+
					"call once for each attempt, and move the limit and the wait into the policy", call.name)
			}
		}
	}
})

// retries reports whether a loop repeats the same call after a failure and ends
// when it succeeds.
func (u *uses) retries(loop ast.Node) bool {
	body := u.sameBody(loop)
	if body == nil {
		return false
	}
	for n := range ast.Preorder(body) {
		branch, ok := n.(*ast.IfStmt)
		if !ok || !leaves(branch.Body.List) || leaves(body.List) {
			continue
		}
		err := u.isFailure(branch.Cond, token.EQL)
		for n := range ast.Preorder(body) {
			if call := u.failing(n, err); call != nil && !u.varies(loop, call) {
				return true
			}
		}
	}
	return false
}

// failing returns the call whose error a statement assigns to err.
func (u *uses) failing(n ast.Node, err types.Object) *ast.CallExpr {
	assign, ok := n.(*ast.AssignStmt)
	if !ok || err == nil || u.local(assign.Lhs[len(assign.Lhs)-1]) != err {
		return nil
	}
	if call, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr); ok && u.fails(call) {
		return call
	}
	return nil
}

// sameBody returns the body of a loop that does the same in each round, or nil if
// its rounds are about different things, as those of a failover are.
func (u *uses) sameBody(loop ast.Node) *ast.BlockStmt {
	switch loop := loop.(type) {
	case *ast.ForStmt:
		for _, part := range []ast.Node{loop.Init, loop.Cond, loop.Post} {
			if u.advances(part) {
				return nil
			}
		}
		return loop.Body
	case *ast.RangeStmt:
		if basic, ok := u.info.TypeOf(loop.X).Underlying().(*types.Basic); ok && basic.Info()&types.IsInteger != 0 {
			return loop.Body
		}
	}
	return nil
}

// advances reports whether a part of a loop contains a call, which may advance
// to another element.
func (u *uses) advances(n ast.Node) bool {
	if n == nil {
		return false
	}
	for n := range ast.Preorder(n) {
		if call, ok := n.(*ast.CallExpr); ok && u.callee(call) != "(context.Context).Err" && !strings.Contains(u.callee(call), "time.") {
			return true
		}
	}
	return false
}

// varies reports whether a loop's call depends on something that the loop
// changes, other than the context and the request of the call.
func (u *uses) varies(loop ast.Node, call *ast.CallExpr) bool {
	for n := range ast.Preorder(call) {
		id, ok := n.(*ast.Ident)
		v := u.local(id)
		if ok && v != nil && !isContext(v.Type()) && typeName(v.Type()) != "net/http.Request" && u.assigns(loop, v) {
			return true
		}
	}
	return false
}

// hotLoop reports the loop around a call that calls again, without a wait, what has
// given up.
func (u *uses) hotLoop(pass *analysis.Pass, call *call) {
	for c := range call.cursor.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil), (*ast.GoStmt)(nil)) {
		loop, ok := c.Node().(*ast.ForStmt)
		body := u.sameBody(c.Node())
		if ok && loop.Post == nil && body != nil && !u.waitsIn(body, call) && !u.leavesOnError(body, call) && !u.varies(loop, call.CallExpr) {
			pass.ReportRangef(call.Fun, "the loop calls %s again at once after it gave up, so its limits and delays mean nothing: put the limit into the policy, or wait in the loop", call.name)
		}
		return
	}
}

// waitsIn reports whether a loop waits, or does something that may wait, beside a
// call.
func (u *uses) waitsIn(body *ast.BlockStmt, call *call) bool {
	for n := range ast.Preorder(body) {
		if within(call, n.Pos()) {
			continue
		}
		switch n := n.(type) {
		case *ast.SelectStmt, *ast.SendStmt:
			return true
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				return true
			}
		case *ast.CallExpr:
			if hasAny(u.callee(n), "Sleep", "Wait", "wait") || u.fails(n) && u.callee(n) != "(context.Context).Err" {
				return true
			}
		}
	}
	return false
}

// leavesOnError reports whether a loop ends with the error of a call, or looks at it
// closely.
func (u *uses) leavesOnError(body *ast.BlockStmt, call *call) bool {
	v := u.resultOf(call)
	if _, returned := call.cursor.Parent().Node().(*ast.ReturnStmt); returned || leaves(body.List) {
		return true
	}
	for n := range ast.Preorder(body) {
		branch, ok := n.(*ast.IfStmt)
		if !ok || v == nil || !u.hasUse(branch.Cond, v) || u.isFailure(branch.Cond, token.EQL) != nil {
			continue
		}
		if leaves(branch.Body.List) || u.isFailure(branch.Cond, token.NEQ) == nil {
			return true
		}
	}
	return false
}
