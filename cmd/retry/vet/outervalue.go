package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// deadlines derive a context that has a bound of its own.
var deadlines = []string{"context.WithTimeout", "context.WithDeadline", "context.WithTimeoutCause", "context.WithDeadlineCause"}

// lostContext reports calls in an attempt that get a context which nothing
// cancels, or whose time began before the first attempt.
func (u *uses) lostContext(pass *analysis.Pass, call *call, op *operation) {
	for c, inner := range all[*ast.CallExpr](op.cursor) {
		if !u.canFail(inner) || detached(c, op) || !runs(op, c) || slices.Contains(deadlines, u.callee(inner)) {
			continue
		}
		for i, arg := range inner.Args {
			made := u.from(arg)
			if made == nil || !isContext(u.param(inner, i)) || u.same(arg, call.ctx) {
				continue
			}
			switch name := u.callee(made); {
			case made == arg && (name == "context.Background" || name == "context.TODO"):
				reportContext(pass, op, arg, types.ExprString(arg)+" ends neither with the attempt nor with the call: ", ", or context.WithoutCancel of it")
			case slices.Contains(deadlines, name) && !op.contains(made.Pos()) && !u.sameContext(arg, call.ctx):
				pass.ReportRangef(arg, "the time of %s began before the first attempt, so a retry may have none left: derive it in the attempt, or set AttemptTimeout", types.ExprString(arg))
			}
		}
	}
}

// outerValues reports what holds the context of all attempts: a function literal or a
// request that was made outside.
func (u *uses) outerValues(pass *analysis.Pass, call *call, op *operation) {
	for c, inner := range all[*ast.CallExpr](op.cursor) {
		if !runs(op, c) || detached(c, op) || u.getsContext(op, inner) {
			continue
		}
		if lit, ok := u.value(inner.Fun).(*ast.FuncLit); ok && !op.contains(lit.Pos()) && u.holds(lit, call.ctx) {
			pass.ReportRangef(inner, "%s uses the context of all attempts, so AttemptTimeout does not end it: give it a context as a parameter", types.ExprString(inner.Fun))
		}
		for _, arg := range inner.Args {
			v := u.local(ast.Unparen(arg))
			if v == nil || !u.canFail(inner) || op.contains(v.Pos()) || u.assigns(op.body, v) || typeName(v.Type()) != "net/http.Request" {
				continue
			}
			made := u.from(arg)
			if made != nil && len(made.Args) > 0 && u.sameContext(made.Args[0], call.ctx) {
				pass.ReportRangef(arg, "%s has the context of all attempts, so AttemptTimeout does not end it: make it in the attempt, or pass %[1]s.WithContext of the attempt's context", v.Name())
			}
		}
	}
}

// getsContext reports whether a call gets the context of the attempt too.
func (u *uses) getsContext(op *operation, call *ast.CallExpr) bool {
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		t := u.info.TypeOf(arg)
		return t != nil && isContext(t) && u.isOf(op, arg)
	})
}

// holds reports whether a function without a context of its own makes calls with
// ctx.
func (u *uses) holds(lit *ast.FuncLit, ctx ast.Expr) bool {
	for n := range ast.Preorder(lit.Body) {
		call, ok := n.(*ast.CallExpr)
		if !ok || !u.canFail(call) || strings.HasPrefix(u.callee(call), "context.") {
			continue
		}
		for i, arg := range call.Args {
			if isContext(u.param(call, i)) && u.sameContext(arg, ctx) {
				return true
			}
		}
	}
	return false
}
