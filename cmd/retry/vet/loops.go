package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// retries reports whether a loop repeats the same call after a failure and ends
// when it succeeds.
func (u *uses) retries(loop ast.Node) bool {
	body := u.sameBody(loop)
	if body == nil {
		return false
	}
	for i, stmt := range body.List {
		branch, ok := stmt.(*ast.IfStmt)
		if !ok || branch.Else != nil {
			continue
		}
		rest := body.List[i+1:]
		var err types.Object
		if succeeded := u.isFailure(branch.Cond, token.EQL); succeeded != nil && leaves(branch.Body.List) && !leaves(rest) {
			err = succeeded
		} else if failed := u.isFailure(branch.Cond, token.NEQ); failed != nil && !leaves(branch.Body.List) && continues(branch.Body.List) && leaves(rest) {
			err = failed
		} else {
			continue
		}
		call := u.failing(branch.Init, err)
		if branch.Init == nil && i > 0 {
			call = u.failing(body.List[i-1], err)
		}
		return call != nil && !u.varies(loop, body, call)
	}
	return false
}

// sameBody returns the body of a loop that does the same in each round, or nil if
// its rounds are about different things, as those of a failover are.
func (u *uses) sameBody(loop ast.Node) *ast.BlockStmt {
	switch loop := loop.(type) {
	case *ast.ForStmt:
		if !u.advances(loop.Init) && !u.advances(loop.Cond) && !u.advances(loop.Post) {
			return loop.Body
		}
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

// leaves reports whether the last statement of list leaves the loop.
func leaves(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	switch last := list[len(list)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return last.Tok != token.CONTINUE
	}
	return false
}

func continues(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	last, ok := list[len(list)-1].(*ast.BranchStmt)
	return ok && last.Tok == token.CONTINUE && last.Label == nil
}

// varies reports whether a loop's call depends on something that the loop
// changes, other than the context and the request of the call.
func (u *uses) varies(loop ast.Node, body *ast.BlockStmt, call *ast.CallExpr) bool {
	changed := map[types.Object]bool{}
	for n := range ast.Preorder(loop) {
		var left []ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			left = n.Lhs
		case *ast.IncDecStmt:
			left = []ast.Expr{n.X}
		case *ast.RangeStmt:
			left = []ast.Expr{n.Key}
		}
		for _, x := range left {
			if id := rootOf(x); id != nil {
				changed[u.info.ObjectOf(id)] = true
			}
		}
	}
	for n := range ast.Preorder(call) {
		id, ok := n.(*ast.Ident)
		if ok && changed[u.info.Uses[id]] && !isContext(u.info.TypeOf(id)) && !isNamed(deref(u.info.TypeOf(id)), "net/http", "Request") {
			return true
		}
	}
	return false
}

// hotLoops reports a loop that calls again, without a wait, what has given up.
func (u *uses) hotLoops(pass *analysis.Pass) {
	for _, call := range u.calls {
		for c := range call.cursor.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil), (*ast.GoStmt)(nil)) {
			body := u.sameBody(c.Node())
			if body == nil || inTest(pass, call) || u.waitsIn(body, call) || u.leavesOnError(body, call) || u.varies(c.Node(), body, call.CallExpr) {
				break
			}
			if loop, ok := c.Node().(*ast.ForStmt); ok && loop.Post == nil || u.leavesOn(body, call, token.EQL) {
				pass.ReportRangef(call.Fun, "the loop calls %s again at once after it gave up, so its limits and delays mean nothing: put the limit into the policy, or wait in the loop", call.name)
			}
			break
		}
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

// leavesOn reports whether a loop ends where the error of a call, compared with nil
// by op, says so.
func (u *uses) leavesOn(body *ast.BlockStmt, call *call, op token.Token) bool {
	v, _ := u.resultOf(call)
	for n := range ast.Preorder(body) {
		if branch, ok := n.(*ast.IfStmt); ok && v != nil && u.isFailure(branch.Cond, op) == v && leaves(branch.Body.List) {
			return true
		}
	}
	return false
}

// leavesOnError reports whether the error of a call ends the loop, or is looked at
// closely.
func (u *uses) leavesOnError(body *ast.BlockStmt, call *call) bool {
	if _, returned := call.cursor.Parent().Node().(*ast.ReturnStmt); returned || leaves(body.List) || u.leavesOn(body, call, token.NEQ) {
		return true
	}
	v, _ := u.resultOf(call)
	for n := range ast.Preorder(body) {
		if branch, ok := n.(*ast.IfStmt); ok && v != nil && u.isFailure(branch.Cond, token.EQL) == nil && u.isFailure(branch.Cond, token.NEQ) == nil && u.hasUse(branch.Cond, v) {
			return true
		}
	}
	return false
}
