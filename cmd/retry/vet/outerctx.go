package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// OuterCtx reports calls in an operation that get the context of the whole call
// instead of the attempt's.
var OuterCtx = newCheck("outerctx", `report an operation that ignores the context of its attempt

The function that retry.Do runs gets a context that AttemptTimeout ends. A call
in the function that uses the outer context does not end with it, so one slow
attempt can use up the time of all.`, func(pass *analysis.Pass, u *uses) {
	for call, op := range u.operations(u.onces...) {
		if u.outlives(op) {
			continue
		}
		u.lostContext(pass, call, op)
		if u.policy(call.policy) != nil && !u.sets(call.policy, "AttemptTimeout") {
			continue // the two contexts are the same
		}
		u.outerValues(pass, call, op)
		for c, inner := range all[*ast.CallExpr](op.cursor) {
			if !u.canFail(inner) || detached(c, op) || slices.Contains(deadlines, u.callee(inner)) && u.onFailure(op, c) {
				continue
			}
			for i, arg := range inner.Args {
				if isContext(u.param(inner, i)) && !u.isOf(op, arg) && u.sameContext(arg, call.ctx) {
					reportContext(pass, op, arg, types.ExprString(inner.Fun)+" gets the context of all attempts, so AttemptTimeout does not end it: ", "")
				}
			}
		}
	}
})

// outlives reports whether an operation makes something that is used after its
// attempt, such as a connection or a stream. The attempt's context would end
// it.
func (u *uses) outlives(op *operation) bool {
	for c := range op.cursor.Preorder((*ast.ReturnStmt)(nil), (*ast.AssignStmt)(nil)) {
		var values []ast.Expr
		switch n := c.Node().(type) {
		case *ast.ReturnStmt:
			values = n.Results
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if u.isOutside(op, left) {
					values = append(values, left)
				}
			}
		}
		if slices.ContainsFunc(values, func(x ast.Expr) bool { return lives(u.info.TypeOf(x)) }) {
			return true
		}
	}
	return false
}

// lives reports whether a value of type t may depend on the context that it was
// made with.
func lives(t types.Type) bool {
	switch t := t.(type) {
	case nil:
		return false
	case *types.Tuple:
		return slices.ContainsFunc(slices.Collect(t.Variables()), func(v *types.Var) bool { return lives(v.Type()) })
	}
	_, isChan := t.Underlying().(*types.Chan)
	return isChan || typeName(t) == "net/http.Response" ||
		slices.ContainsFunc([]string{"Close", "CloseSend", "Recv", "Next", "Stop", "Unsubscribe"}, func(name string) bool { return has(t, name) })
}

// isOf reports whether x is a variable of op, such as its own context.
func (u *uses) isOf(op *operation, x ast.Expr) bool {
	id, ok := ast.Unparen(x).(*ast.Ident)
	return ok && op.contains(u.info.ObjectOf(id).Pos())
}

// sameContext reports whether arg is ctx, the context of a call, or the context
// that ctx was made from.
func (u *uses) sameContext(arg, ctx ast.Expr) bool {
	if t := u.info.TypeOf(arg); t == nil || !isContext(t) {
		return false
	}
	for {
		if u.same(arg, ctx) {
			return true
		}
		from := u.from(ctx)
		if from == nil || len(from.Args) == 0 || !isContext(u.info.TypeOf(from.Args[0])) {
			return false
		}
		ctx = from.Args[0] // such as retry.WithBudget(ctx, budget)
	}
}

// same reports whether two expressions are the same variable, field or method
// call, such as s.ctx or req.Context(). The receiver of a field does not
// matter, because a method and its caller name it differently.
func (u *uses) same(a, b ast.Expr) bool {
	switch a := ast.Unparen(a).(type) {
	case *ast.Ident:
		b, ok := ast.Unparen(b).(*ast.Ident)
		return ok && u.info.ObjectOf(a) == u.info.ObjectOf(b)
	case *ast.SelectorExpr:
		b, ok := ast.Unparen(b).(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, _ := u.info.ObjectOf(a.Sel).(*types.Var)
		y, _ := u.info.ObjectOf(b.Sel).(*types.Var)
		return x != nil && y != nil && x.Origin() == y.Origin()
	case *ast.CallExpr:
		b, ok := ast.Unparen(b).(*ast.CallExpr)
		if !ok || len(a.Args)+len(b.Args) > 0 || u.callee(a) != u.callee(b) {
			return false
		}
		from, into := rootOf(a.Fun), rootOf(b.Fun)
		return from != nil && into != nil && u.info.ObjectOf(from) == u.info.ObjectOf(into)
	default:
		return false
	}
}

// reportContext reports an argument that should be the context of the attempt.
func reportContext(pass *analysis.Pass, op *operation, arg ast.Expr, what, or string) {
	if op.ctx == nil || !visible(pass, op.ctx, arg.Pos()) {
		pass.ReportRangef(arg, "%sname the context that the function is given, as in func(ctx context.Context), and pass that%s", what, or)
		return
	}
	pass.Report(analysis.Diagnostic{
		Pos: arg.Pos(), End: arg.End(),
		Message: what + "pass " + op.ctx.Name() + ", the context of this attempt" + or,
		SuggestedFixes: []analysis.SuggestedFix{{
			Message:   "Pass " + op.ctx.Name(),
			TextEdits: []analysis.TextEdit{{Pos: arg.Pos(), End: arg.End(), NewText: []byte(op.ctx.Name())}},
		}},
	})
}

// visible reports whether the name of v refers to v at pos.
func visible(pass *analysis.Pass, v *types.Var, pos token.Pos) bool {
	_, obj := pass.Pkg.Scope().Innermost(pos).LookupParent(v.Name(), pos)
	return obj == v
}
