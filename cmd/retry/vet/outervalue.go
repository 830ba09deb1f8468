package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// deadlines derive a context that has a bound of its own.
var deadlines = []string{"context.WithTimeout", "context.WithDeadline", "context.WithTimeoutCause", "context.WithDeadlineCause"}

// lostContext reports calls in an attempt that get a context which nothing
// cancels, or whose time began before the first attempt.
func (u *uses) lostContext(pass *analysis.Pass, call *call, op *operation) {
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil)) {
		inner := c.Node().(*ast.CallExpr)
		if !u.canFail(inner) || detached(c, op) || !own(op, c) || slices.Contains(deadlines, u.callee(inner)) {
			continue
		}
		for i, arg := range inner.Args {
			if !isContext(u.param(inner, i)) {
				continue
			}
			if made, ok := ast.Unparen(arg).(*ast.CallExpr); ok {
				if name := u.callee(made); (name == "context.Background" || name == "context.TODO") && !u.same(arg, call.ctx) {
					pass.ReportRangef(arg, "%s() ends neither with the attempt nor with the call: pass the context that the function is given, or context.WithoutCancel of it", types.ExprString(made.Fun))
				}
			}
			id, ok := ast.Unparen(arg).(*ast.Ident)
			if !ok || op.contains(u.info.ObjectOf(id).Pos()) || u.same(id, call.ctx) {
				continue
			}
			if made := u.from(id); made != nil && slices.Contains(deadlines, u.callee(made)) && !u.descends(call.ctx, id) {
				pass.ReportRangef(arg, "the time of %s began before the first attempt, so a retry may have none left: derive it in the attempt, or set AttemptTimeout", id.Name)
			}
		}
	}
}

// isReport reports whether the context that the call at c derives is for something
// beside the attempt, such as the report of a failure: the attempt has failed
// already, or drops the errors of what gets it.
func (u *uses) isReport(op *operation, c inspector.Cursor) bool {
	if u.onFailure(op, c) {
		return true
	}
	assign, ok := c.Parent().Node().(*ast.AssignStmt)
	if !ok {
		return false
	}
	v := u.local(assign.Lhs[0])
	if v == nil {
		return false
	}
	for use := range u.idents(v, op.cursor) {
		call, ok := use.Parent().Node().(*ast.CallExpr)
		if !ok {
			return false
		}
		_, dropped := use.Parent().Parent().Node().(*ast.ExprStmt)
		if left, ok := use.Parent().Parent().Node().(*ast.AssignStmt); ok {
			dropped = isNamedIdent(left.Lhs[len(left.Lhs)-1], "_")
		}
		if !dropped && u.canFail(call) {
			return false
		}
	}
	return true
}

// descends reports whether a context is made from the context id.
func (u *uses) descends(ctx, id ast.Expr) bool {
	for range 5 {
		made := u.from(ctx)
		if made == nil || len(made.Args) == 0 {
			return false
		}
		if ctx = made.Args[0]; u.same(ctx, id) {
			return true
		}
	}
	return false
}

// outerValues reports what holds the context of all attempts: a function literal, a
// request or a command that was made outside.
func (u *uses) outerValues(pass *analysis.Pass, call *call, op *operation) {
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil)) {
		inner := c.Node().(*ast.CallExpr)
		if !own(op, c) || detached(c, op) {
			continue
		}
		if id, ok := inner.Fun.(*ast.Ident); ok && u.isOutside(op, id) && !u.getsContext(op, inner) {
			if lit, ok := u.value(id).(*ast.FuncLit); ok && u.holds(lit, call.ctx) {
				pass.ReportRangef(inner, "%s uses the context of all attempts, so AttemptTimeout does not end it: give it a context as a parameter", id.Name)
			}
		}
		if !u.canFail(inner) || u.getsContext(op, inner) {
			continue
		}
		args := inner.Args
		if x, _ := method(inner); x != nil && isNamed(derefAny(u.info.TypeOf(x)), "os/exec", "Cmd") {
			args = append(slices.Clone(args), x)
		}
		for _, arg := range args {
			id, ok := ast.Unparen(arg).(*ast.Ident)
			if !ok || !u.isOutside(op, id) || !u.holdsContext(u.info.TypeOf(id)) || u.renewedIn(op, id) {
				continue
			}
			made := u.from(id)
			if made != nil && len(made.Args) > 0 && u.sameContext(made.Args[0], call.ctx) || u.isRequestOf(call.ctx, id) {
				pass.ReportRangef(arg, "%s has the context of all attempts, so AttemptTimeout does not end it: make it in the attempt, or pass %[1]s.WithContext of the attempt's context if it is a request", id.Name)
			}
		}
	}
}

// holdsContext reports whether a value of type t acts in the context that it was
// made with.
func (u *uses) holdsContext(t types.Type) bool {
	return isNamed(derefAny(t), "net/http", "Request") || isNamed(derefAny(t), "os/exec", "Cmd")
}

// isRequestOf reports whether ctx is the Context of the request id.
func (u *uses) isRequestOf(ctx ast.Expr, id *ast.Ident) bool {
	call, ok := u.value(ctx).(*ast.CallExpr)
	if !ok || u.callee(call) != "(*net/http.Request).Context" {
		return false
	}
	x, _ := method(call)
	return u.same(x, id)
}

// getsContext reports whether a call gets the context of the attempt too.
func (u *uses) getsContext(op *operation, call *ast.CallExpr) bool {
	for _, arg := range call.Args {
		if t := u.info.TypeOf(arg); t != nil && isContext(t) && u.isOf(op, arg) {
			return true
		}
	}
	return false
}

// renewedIn reports whether op assigns a variable or gives it another context.
func (u *uses) renewedIn(op *operation, id *ast.Ident) bool {
	v := u.local(id)
	return v == nil || u.assigns(op.body, v)
}

// holds reports whether a function without a context of its own makes calls with
// ctx.
func (u *uses) holds(lit *ast.FuncLit, ctx ast.Expr) bool {
	for n := range ast.Preorder(lit.Body) {
		call, ok := n.(*ast.CallExpr)
		if !ok || !u.canFail(call) || slices.Contains(deadlines, u.callee(call)) || strings.HasPrefix(u.callee(call), "context.") {
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
