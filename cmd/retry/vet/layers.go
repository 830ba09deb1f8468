package vet

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// layers reports calls in an operation that retry themselves: a client with a
// retryhttp.Transport, or a function of this package that calls retry.Do.
func (u *uses) layers(pass *analysis.Pass, outer *call, op *operation) {
	around := enclosingFunc(outer.cursor)
	if around == nil || u.budgeted(outer) || u.selects(outer.policy) || u.oneAttempt(outer.policy) {
		return
	}
	for c, call := range all[*ast.CallExpr](op.cursor) {
		if !own(op, c) || detached(c, op) || u.isFinal(c) {
			continue
		}
		if x, _ := method(call); x != nil && u.sends(call) && u.transport(x) != nil && !u.mentionsCallee(*around, retryhttpPath+".WithPolicy") {
			lit := literal(u.deep(u.transport(x)))
			if lit == nil || keyed(lit)["Policy"] != nil && !u.oneAttempt(keyed(lit)["Policy"]) {
				pass.ReportRangef(call, "the Transport of %s retries too, inside each attempt of %s: retry in one of them", types.ExprString(x), outer.name)
			}
		}
		decl := u.declared(call)
		for _, inner := range u.calls {
			fn := enclosingFunc(inner.cursor)
			if decl == nil || fn == nil || fn.Node() != decl || u.budgeted(inner) || u.final(inner) || !u.handedOn(inner) {
				continue
			}
			n, known := u.factor(inner.policy)
			m, also := u.factor(outer.policy)
			if known && also {
				pass.ReportRangef(call.Fun, "%s calls %s inside %s, which makes up to %d x %d = %d calls: retry in one of them, or give the outer one a context of retry.WithBudget",
					decl.Name.Name, inner.name, outer.name, m, n, m*n)
				break
			}
		}
	}
}

// oneAttempt reports whether a policy is known to allow one attempt.
func (u *uses) oneAttempt(x ast.Expr) bool {
	n, known := u.attempts(x)
	return known && n == 1
}

// handedOn reports whether the function around a call may return its error. One
// that is only logged is not retried.
func (u *uses) handedOn(call *call) bool {
	v, _ := u.resultOf(call)
	fn := enclosingFunc(call.cursor)
	if v == nil || fn == nil {
		_, dropped := call.cursor.Parent().Node().(*ast.ExprStmt)
		return !dropped
	}
	if u.isNamedResult(fn.Node(), v) || !within(fn.Node(), v.Pos()) {
		return true
	}
	for use := range u.idents(v, *fn) {
		for ret := range use.Enclosing((*ast.ReturnStmt)(nil)) {
			if ret.Node().Pos() > v.Pos() {
				return true
			}
		}
		if _, ok := use.Parent().Node().(*ast.AssignStmt); ok {
			return true
		}
	}
	return false
}

// clientTimeouts reports the Timeout of an http.Client whose Transport retries.
func (u *uses) clientTimeouts(pass *analysis.Pass) {
	retrying := map[any]bool{}
	for _, s := range u.settings {
		if s.is("net/http", "Client", "Transport") && s.value != nil && u.transport(s.value) != nil {
			retrying[u.owner(s)] = true
		}
	}
	for _, s := range u.settings {
		if s.is("net/http", "Client", "Timeout") && s.value != nil && !u.isZero(s.value) && retrying[u.owner(s)] && !inTest(pass, s.field) {
			pass.ReportRangef(s.value, "Timeout bounds all attempts and waits of the Transport together, and its error hides why they stopped: use the request's context, and AttemptTimeout for one attempt")
		}
	}
}

// owner returns what a setting belongs to: a variable or field, or a literal that is
// assigned to none.
func (u *uses) owner(s setting) any {
	x := s.x
	if !s.assigned() {
		c := s.cursor.Parent().Parent()
		if _, ok := c.Node().(*ast.UnaryExpr); ok {
			c = c.Parent()
		}
		assign, ok := c.Node().(*ast.AssignStmt)
		if !ok {
			return s.x
		}
		x = assign.Lhs[0]
	}
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		return u.info.ObjectOf(x)
	case *ast.SelectorExpr:
		return u.info.ObjectOf(x.Sel)
	}
	return x
}
