package vet

import (
	"go/ast"

	"golang.org/x/tools/go/ast/inspector"
)

// isPermanent reports whether op passes the error of the call `made` to retry.Permanent.
func (u *uses) isPermanent(op *operation, made *ast.CallExpr) bool {
	c, _ := op.cursor.FindNode(made)
	return u.isFinal(c) || u.endsRetries(&call{CallExpr: made, cursor: c})
}

// isFinal reports whether the syntax node at the cursor c is an argument of retry.Permanent, or a
// part of such an argument.
func (u *uses) isFinal(c inspector.Cursor) bool {
	for c := range c.Enclosing((*ast.CallExpr)(nil)) {
		if u.callee(c.Node().(*ast.CallExpr)) == retryPath+".Permanent" {
			return true
		}
	}
	return false
}

// endsRetries reports whether the error of a call is passed to retry.Permanent. If so, no outer
// call retries the error.
func (u *uses) endsRetries(call *call) bool {
	v := u.resultOf(call)
	for decl := range call.cursor.Enclosing((*ast.FuncDecl)(nil), (*ast.GenDecl)(nil)) {
		for _, permanent := range nodes[*ast.CallExpr](decl) {
			if u.callee(permanent) == retryPath+".Permanent" &&
				(covers(permanent, call.Pos()) || v != nil && u.hasUse(permanent, v)) {
				return true
			}
		}
	}
	return false
}
