package vet

import (
	"go/ast"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Response reports HTTP responses that are not looked at.
var Response = newCheck("response", `report an HTTP status that nothing reads

A 503 is no error of net/http, so an attempt that drops the status takes it for
success.`, func(pass *analysis.Pass, u *uses) {
	inOps := map[ast.Node]bool{}
	for call, op := range u.operations() {
		for c, sent := range all[*ast.CallExpr](op.cursor) {
			if runs(op, c) && u.sends(sent) {
				inOps[sent] = true
				u.unreadStatus(pass, c, op.cursor, call.name+" takes a 503 for success: return retryhttp.Check(req, resp, err), or an error for a bad status")
			}
		}
	}
	for c, call := range all[*ast.CallExpr](u.root) {
		if fn := enclosingFunc(c); fn != nil && !inOps[call] && u.retryingClient(call) != nil {
			u.unreadStatus(pass, c, *fn, "after its retries the Transport returns the last response, which may be a 503: check StatusCode, or return retryhttp.ErrorOf(resp)")
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
			if !slices.Contains(p.Lhs, use.Node().(ast.Expr)) {
				return
			}
		default:
			return
		}
	}
	pass.ReportRangef(c.Node(), "nothing looks at the status, and %s", text)
}
