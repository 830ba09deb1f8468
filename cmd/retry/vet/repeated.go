package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Repeated reports what must happen once but happens in each attempt.
var Repeated = newCheck("repeated", `report what must happen once, but happens in each attempt

The second attempt counts a WaitGroup down again, closes a channel again, or locks a
Mutex that the first one left locked.`, func(pass *analysis.Pass, u *uses) {
	for call, op := range u.operations() {
		u.syncInAttempt(pass, call, op)
	}
})

// syncInAttempt reports uses of package sync, and closed channels, that only one
// attempt may have.
func (u *uses) syncInAttempt(pass *analysis.Pass, call *call, op *operation) {
	for c, inner := range all[*ast.CallExpr](op.cursor) {
		x, _ := method(inner)
		callee := u.callee(inner)
		if isNamedIdent(inner.Fun, "close") && len(inner.Args) == 1 {
			x, callee = inner.Args[0], "close"
		}
		if x == nil || !u.isOutside(op, x) {
			continue
		}
		name := types.ExprString(x)
		switch callee {
		case "close", "(*sync.WaitGroup).Done":
			if !u.mentionsCallee(op.cursor, "(*sync.WaitGroup).Add") && u.again(op, c) && !u.mayBeOnce(c, op) {
				pass.ReportRangef(inner, "each attempt calls %s, and the second time it panics: call it after %s", types.ExprString(inner), call.name)
			}
		case "(*sync.Once).Do":
			if u.setsOwnError(op, inner.Args[0]) {
				pass.ReportRangef(inner, "%s runs its function in the first attempt only, so the second one has no error and succeeds: keep the result and check it, or leave the Once out", name)
			}
		case "(*sync.Mutex).Lock", "(*sync.RWMutex).Lock", "(*sync.RWMutex).RLock", "(sync.Locker).Lock":
			if u.staysLocked(op, c, name) {
				pass.ReportRangef(inner, "an attempt that fails leaves %s locked, and the next one waits for it without end: defer the Unlock", name)
			}
		}
	}
}

// setsOwnError reports whether a function assigns an error of op.
func (u *uses) setsOwnError(op *operation, fn ast.Expr) bool {
	for n := range ast.Preorder(fn) {
		if assign, ok := n.(*ast.AssignStmt); ok && assign.Tok == token.ASSIGN {
			v := u.local(assign.Lhs[len(assign.Lhs)-1])
			if v != nil && isError(v.Type()) && op.contains(v.Pos()) {
				return true
			}
		}
	}
	return false
}

// staysLocked reports whether op can return without the Unlock for the Lock at c.
func (u *uses) staysLocked(op *operation, c inspector.Cursor, name string) bool {
	return runs(op, c) && flow(op.body, c.Parent().Node(), func(n ast.Node) bool {
		for n := range ast.Preorder(n) {
			if call, ok := n.(*ast.CallExpr); ok {
				if x, method := method(call); x != nil && types.ExprString(x) == name && strings.HasSuffix(method, "Unlock") {
					return false
				}
			}
		}
		return true
	})
}
