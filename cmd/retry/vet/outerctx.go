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

// OuterCtx reports calls in an operation that get the context of the whole call instead of the
// context of the attempt.
var OuterCtx = newCheck("outerctx", `report an operation that ignores the context of its attempt

retry.Do passes a context to the function that it retries, and AttemptTimeout ends
only this context. If the function instead uses the context that the caller passed
to retry.Do, its calls go on after the timeout. Then one slow attempt can use up
the time of all attempts.`, func(pass *analysis.Pass, u *uses) {
	for call, op := range u.operations(u.onces...) {
		if u.outlives(op) {
			continue
		}
		// Without an AttemptTimeout, the context of the attempt is the context of the call.
		bounded := u.policy(call.policy) == nil || u.sets(call.policy, "AttemptTimeout")
		for c, inner := range nodes[*ast.CallExpr](op.cursor) {
			if u.detached(c, op) {
				continue
			}
			if bounded && runsDirectly(op, c) {
				u.outerValues(pass, call, op, inner)
			}
			if runsDirectly(op, c) {
				u.ownTimeout(pass, call, op, c)
			}
			for i, arg := range inner.Args {
				if isContext(u.param(inner, i)) && u.canFail(inner) && !u.isDeclaredIn(op, arg) {
					u.outerContext(pass, call, op, c, arg, bounded)
				}
			}
		}
	}
})

// ownTimeout reports an attempt that mistakes its own timeout for the end of the call. Such an
// attempt passes the error of a context to retry.Permanent, and a timeout of the attempt can end
// this context.
func (u *uses) ownTimeout(pass *analysis.Pass, call *call, op *operation, c inspector.Cursor) {
	permanent := c.Node().(*ast.CallExpr)
	if u.callee(permanent) != retryPath+".Permanent" {
		return
	}
	ctx := u.endOf(permanent.Args[0])
	for around := range c.Enclosing((*ast.IfStmt)(nil)) {
		branch := around.Node().(*ast.IfStmt)
		if ctx == nil && op.contains(branch.Pos()) && covers(branch.Body, permanent.Pos()) &&
			u.isFailure(branch.Cond) {
			ctx = u.endOf(ast.Unparen(branch.Cond).(*ast.BinaryExpr).X)
		}
	}
	if ctx == nil || !u.hasOwnTime(call, op, ctx) {
		return
	}
	pass.ReportRangef(permanent,
		"%s also ends at the timeout of this attempt, and then the attempt is never retried: return the "+
			"error itself, because %s stops when its own context ends",
		types.ExprString(ctx), call.name)
}

// endOf returns the context ctx if x contains ctx.Err() or context.Cause(ctx). For any other x it
// returns nil.
func (u *uses) endOf(x ast.Expr) ast.Expr {
	for n := range ast.Preorder(x) {
		made, ok := n.(*ast.CallExpr)
		if !ok {
			continue
		}
		if of, name := method(made); of != nil && name == "Err" && isContext(u.info.TypeOf(of)) {
			return of
		}
		if u.callee(made) == "context.Cause" {
			return made.Args[0]
		}
	}
	return nil
}

// hasOwnTime reports whether the context ctx certainly has a timeout that starts anew in each
// attempt: the AttemptTimeout, or a timeout that the operation sets.
func (u *uses) hasOwnTime(call *call, op *operation, ctx ast.Expr) bool {
	v := u.local(ctx)
	if v == nil || !op.contains(v.Pos()) {
		return false
	}
	if v == op.ctx {
		return len(u.vars[v].values) == 1 && u.sets(call.policy, "AttemptTimeout")
	}
	made := u.callOf(ctx)
	return made != nil && slices.Contains(deadlines, u.callee(made))
}

// deadlines lists the functions that return a context with a deadline.
var deadlines = []string{
	"context.WithTimeout", "context.WithDeadline",
	"context.WithTimeoutCause", "context.WithDeadlineCause",
}

// outerContext reports `arg`, the context that the call at c gets, in three cases: all attempts
// share the context, nothing cancels the context, or the timeout of the context starts before the
// first attempt.
func (u *uses) outerContext(
	pass *analysis.Pass, call *call, op *operation, c inspector.Cursor, arg ast.Expr, bounded bool,
) {
	inner := c.Node().(*ast.CallExpr)
	derives := slices.Contains(deadlines, u.callee(inner))
	if u.sameContext(arg, call.ctx) {
		if bounded && !(derives && u.onFailure(op, c)) {
			reportContext(pass, op, arg, types.ExprString(inner.Fun)+
				" gets the context of all attempts, so AttemptTimeout does not end it: ", "")
		}
		return
	}
	made := u.callOf(arg)
	if made == nil || derives || !runsDirectly(op, c) {
		return
	}
	switch name := u.callee(made); {
	case made == arg && (name == "context.Background" || name == "context.TODO"):
		reportContext(pass, op, arg, types.ExprString(arg)+
			" ends neither with the attempt nor with the call: ", ", or context.WithoutCancel of it")
	case slices.Contains(deadlines, name) && !op.contains(made.Pos()):
		pass.ReportRangef(arg,
			"the timeout of %s starts before the first attempt, so a retry may have no time left: derive "+
				"it in the attempt, or set AttemptTimeout", types.ExprString(arg))
	}
}

// outlives reports whether an operation makes a value that is used after the attempt, such as a
// connection or a stream. Such a value would stop working when the context of the attempt ends.
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
		for _, x := range values {
			if dependsOnContext(u.info.TypeOf(x)) {
				return true
			}
		}
	}
	return false
}

// dependsOnContext reports whether a value of type t, such as a connection, may stop working when
// its context ends. The context of a value is the context that was passed to the function that made
// the value.
func dependsOnContext(t types.Type) bool {
	switch t := t.(type) {
	case nil:
		return false
	case *types.Tuple:
		for v := range t.Variables() {
			if dependsOnContext(v.Type()) {
				return true
			}
		}
		return false
	}
	_, isChan := t.Underlying().(*types.Chan)
	ends := []string{"Close", "CloseSend", "Recv", "Next", "Stop", "Unsubscribe"}
	return isChan || typeName(t) == "net/http.Response" ||
		slices.ContainsFunc(ends, func(name string) bool { return hasMethod(t, name) })
}

// outerValues reports a function literal or a request that is made outside of the operation and
// uses the context of all attempts.
func (u *uses) outerValues(pass *analysis.Pass, call *call, op *operation, inner *ast.CallExpr) {
	if slices.ContainsFunc(inner.Args, func(arg ast.Expr) bool {
		return isContext(u.info.TypeOf(arg)) && u.isDeclaredIn(op, arg)
	}) {
		return // one of the arguments is the context of the attempt
	}
	if lit, ok := u.value(inner.Fun).(*ast.FuncLit); ok && !op.contains(lit.Pos()) &&
		u.passesContext(lit, call.ctx) {
		pass.ReportRangef(inner,
			"%s uses the context of all attempts, so AttemptTimeout does not end it: give it a context as "+
				"a parameter", types.ExprString(inner.Fun))
	}
	for _, arg := range inner.Args {
		v := u.local(ast.Unparen(arg))
		if v == nil || !u.canFail(inner) || op.contains(v.Pos()) || u.assigns(op.body, v) ||
			typeName(v.Type()) != "net/http.Request" {
			continue
		}
		made := u.callOf(arg)
		if made != nil && len(made.Args) > 0 && u.sameContext(made.Args[0], call.ctx) {
			pass.ReportRangef(arg,
				"%s has the context of all attempts, so AttemptTimeout does not end it: make it in the "+
					"attempt, or pass %[1]s.WithContext with the context of the attempt", v.Name())
		}
	}
}

// passesContext reports whether a function literal passes ctx to a call that can fail.
func (u *uses) passesContext(lit *ast.FuncLit, ctx ast.Expr) bool {
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

// canFail reports whether a call can end early because its context ends. Such a call returns an
// error, a context, or a value that can fail later because of the context, such as an *exec.Cmd.
// canFail returns false for these calls:
//
//   - calls of functions without such a result, for example of loggers
//   - calls of functions that get an error, because they only wrap it
//   - calls that clean up, because they should not end early
func (u *uses) canFail(call *ast.CallExpr) bool {
	signature, ok := u.info.TypeOf(call.Fun).Underlying().(*types.Signature)
	if !ok {
		return false // a conversion cannot fail
	}
	for param := range signature.Params().Variables() {
		if isError(param.Type()) {
			return false
		}
	}
	switch name := calledName(u.callee(call)); name {
	case "Close", "Rollback", "Shutdown", "Release", "Unlock", "Abort", "Cause", "WithoutCancel":
		return false
	case "QueryRowContext", "CommandContext", "WithContext":
		return true
	default:
		if strings.HasSuffix(name, "FromContext") {
			return false
		}
	}
	for result := range signature.Results().Variables() {
		if isError(result.Type()) || isContext(result.Type()) {
			return true
		}
	}
	return false
}

// sameContext reports whether arg is the context ctx, or a context from which ctx is derived.
func (u *uses) sameContext(arg, ctx ast.Expr) bool {
	if t := u.info.TypeOf(arg); t == nil || !isContext(t) {
		return false
	}
	for {
		if u.isSame(arg, ctx) {
			return true
		}
		from := u.callOf(ctx)
		if from == nil || len(from.Args) == 0 || !isContext(u.info.TypeOf(from.Args[0])) {
			return false
		}
		ctx = from.Args[0] // for example, the context parent in retry.WithBudget(parent, budget)
	}
}

// reportContext reports an argument that should be the context of the attempt. The message starts
// with `prefix` and ends with `suffix`.
func reportContext(pass *analysis.Pass, op *operation, arg ast.Expr, prefix, suffix string) {
	if op.ctx == nil || !isVisible(pass, op.ctx, arg.Pos()) {
		pass.ReportRangef(arg,
			"%sname the context parameter of the function, as in func(ctx context.Context), "+
				"and pass it%s", prefix, suffix)
		return
	}
	pass.Report(analysis.Diagnostic{
		Pos: arg.Pos(), End: arg.End(),
		Message: prefix + "pass " + op.ctx.Name() + ", the context of this attempt" + suffix,
		SuggestedFixes: []analysis.SuggestedFix{{
			Message:   "Pass " + op.ctx.Name(),
			TextEdits: []analysis.TextEdit{{Pos: arg.Pos(), End: arg.End(), NewText: []byte(op.ctx.Name())}},
		}},
	})
}

// isVisible reports whether the name of v refers to v at the position pos. It returns false if a
// variable with the same name hides v.
func isVisible(pass *analysis.Pass, v *types.Var, pos token.Pos) bool {
	_, obj := pass.Pkg.Scope().Innermost(pos).LookupParent(v.Name(), pos)
	return obj == v
}
