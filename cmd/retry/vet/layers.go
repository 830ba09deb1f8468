package vet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/goretry/retry"
)

// layers reports calls in an operation that retry themselves: a client with a
// retryhttp.Transport, or a function of this package that calls retry.Do.
func (u *uses) layers(pass *analysis.Pass, outer *call, op *operation) {
	if enclosingFunc(outer.cursor) == nil || u.budgeted(outer) || u.selective(outer.policy) || u.oneAttempt(outer.policy) {
		return
	}
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if !own(op, c) || detached(c, op) || u.isFinal(c) {
			continue
		}
		if x, _ := method(call); x != nil && u.sends(call) && u.transport(x) != nil && !u.mentionsCallee(*enclosingFunc(outer.cursor), retryhttpPath+".WithPolicy") {
			if lit := literal(u.deep(u.transport(x))); lit == nil || keyed(lit)["Policy"] != nil && !u.oneAttempt(keyed(lit)["Policy"]) {
				pass.ReportRangef(call, "the Transport of %s retries too, inside each attempt of %s: retry in one of them", types.ExprString(x), outer.name)
			}
		}
		decl := u.declared(call)
		if decl == nil {
			continue
		}
		for _, inner := range u.calls {
			if enclosingFunc(inner.cursor) == nil || enclosingFunc(inner.cursor).Node() != decl || u.budgeted(inner) || u.final(inner) || !u.handedOn(inner) {
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
	p := u.policy(x)
	if p == nil || p.changed {
		return false
	}
	lit, ok := p.base.(*ast.CompositeLit)
	if !ok {
		return p.base == nil
	}
	evaluated, _ := u.evaluate(retry.Policy{}, keyed(lit))
	return u.noLimit(keyed(lit)) || evaluated.EffectiveMax() == 1 && u.constant(keyed(lit)["MaxAttempts"]) != nil
}

func (u *uses) mentionsCallee(in inspector.Cursor, name string) bool {
	for c := range in.Preorder((*ast.CallExpr)(nil)) {
		if u.callee(c.Node().(*ast.CallExpr)) == name {
			return true
		}
	}
	return false
}

// handedOn reports whether the error of a call may become that of the function
// around it. One that is only logged is not retried.
func (u *uses) handedOn(call *call) bool {
	v, _ := u.resultOf(call)
	fn := enclosingFunc(call.cursor)
	if v == nil || fn == nil {
		_, dropped := call.cursor.Parent().Node().(*ast.ExprStmt)
		return !dropped
	}
	if u.isNamedResult(fn.Node(), v) || v.Pos() < fn.Node().Pos() || v.Pos() > fn.Node().End() {
		return true
	}
	for use := range u.idents(v, *fn) {
		for ret := range use.Enclosing((*ast.ReturnStmt)(nil)) {
			if ret.Node().Pos() > v.Pos() {
				return true
			}
			break
		}
		if assign, ok := use.Parent().Node().(*ast.AssignStmt); ok && len(assign.Rhs) > 0 {
			return true
		}
	}
	return false
}

// clientTimeouts reports the Timeout of an http.Client whose Transport retries.
func (u *uses) clientTimeouts(pass *analysis.Pass) {
	report := func(x ast.Expr) {
		if inTest(pass, x) {
			return
		}
		pass.ReportRangef(x, "Timeout bounds all attempts and waits of the Transport together, and its error hides why they stopped: use the request's context, and AttemptTimeout for one attempt")
	}
	for c := range u.root.Preorder((*ast.CompositeLit)(nil), (*ast.AssignStmt)(nil)) {
		switch n := c.Node().(type) {
		case *ast.CompositeLit:
			timeout := keyed(n)["Timeout"]
			if timeout != nil && isNamed(derefAny(u.info.TypeOf(n)), "net/http", "Client") && !u.isZero(timeout) && u.clientRetries(c, n) {
				report(timeout)
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				sel, ok := left.(*ast.SelectorExpr)
				if ok && sel.Sel.Name == "Timeout" && len(n.Lhs) == len(n.Rhs) && isNamed(derefAny(u.info.TypeOf(sel.X)), "net/http", "Client") && !u.isZero(n.Rhs[i]) && u.retrying(sel.X) {
					report(n.Rhs[i])
				}
			}
		}
	}
}

// clientRetries reports whether the client of a literal has a retryhttp.Transport,
// now or later.
func (u *uses) clientRetries(c inspector.Cursor, lit *ast.CompositeLit) bool {
	if of := keyed(lit)["Transport"]; of != nil {
		return u.transport(of) != nil
	}
	parent := c.Parent()
	if _, ok := parent.Node().(*ast.UnaryExpr); ok {
		parent = parent.Parent()
	}
	assign, ok := parent.Node().(*ast.AssignStmt)
	return ok && u.retrying(assign.Lhs[0])
}

// retrying reports whether the client in a variable is made with a Transport of
// ours, or gets one.
func (u *uses) retrying(x ast.Expr) bool {
	v := u.local(ast.Unparen(x))
	if v == nil || u.vars[v] == nil {
		return false
	}
	values := u.vars[v].fields["Transport"]
	for _, value := range u.vars[v].values {
		if lit := literal(value); lit != nil {
			values = append(values, keyed(lit)["Transport"])
		}
	}
	for _, value := range values {
		if value != nil && u.transport(value) != nil {
			return true
		}
	}
	return false
}

// hotLoops reports a loop that calls again, without a wait, what has given up.
func (u *uses) hotLoops(pass *analysis.Pass) {
	for _, call := range u.calls {
		fn := enclosingFunc(call.cursor)
		for c := range call.cursor.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil), (*ast.GoStmt)(nil)) {
			if fn != nil && !(fn.Node().Pos() <= c.Node().Pos() && c.Node().Pos() < fn.Node().End()) {
				break
			}
			var body *ast.BlockStmt
			counted := false
			switch loop := c.Node().(type) {
			case *ast.ForStmt:
				if !u.advances(loop.Init) && !u.advances(loop.Cond) && !u.advances(loop.Post) {
					body, counted = loop.Body, loop.Post != nil
				}
			case *ast.RangeStmt:
				if basic, ok := u.info.TypeOf(loop.X).Underlying().(*types.Basic); ok && basic.Info()&types.IsInteger != 0 {
					body, counted = loop.Body, true
				}
			}
			if body == nil || inTest(pass, call) || counted && !u.leavesOnSuccess(body, call) || u.waitsIn(c, body, call) || u.leavesOnError(body, call) || u.varies(c.Node(), body, call.CallExpr) {
				break
			}
			pass.ReportRangef(call.Fun, "the loop calls %s again at once after it gave up, so its limits and delays mean nothing: put the limit into the policy, or wait in the loop", call.name)
			break
		}
	}
}

// waitsIn reports whether a loop waits, or does something that may wait.
func (u *uses) waitsIn(loop inspector.Cursor, body *ast.BlockStmt, call *call) bool {
	for c := range loop.Preorder((*ast.UnaryExpr)(nil), (*ast.SelectStmt)(nil), (*ast.CallExpr)(nil), (*ast.SendStmt)(nil)) {
		if call.Pos() <= c.Node().Pos() && c.Node().Pos() < call.End() {
			continue
		}
		switch n := c.Node().(type) {
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				return true
			}
		case *ast.CallExpr:
			if n.Pos() < body.Pos() {
				continue
			}
			name := u.callee(n)
			if hasAny(name, "Sleep", "Wait", "wait") || u.canFail(n) && !wraps(name) && name != "(context.Context).Err" {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// leavesOnSuccess reports whether the loop ends when a call has succeeded.
func (u *uses) leavesOnSuccess(body *ast.BlockStmt, call *call) bool {
	v, _ := u.resultOf(call)
	for n := range ast.Preorder(body) {
		if branch, ok := n.(*ast.IfStmt); ok && v != nil && u.isFailure(branch.Cond, token.EQL) == v && leaves(branch.Body.List) {
			return true
		}
	}
	return false
}

// leavesOnError reports whether the error of a call ends the loop, or is looked at
// closely.
func (u *uses) leavesOnError(body *ast.BlockStmt, call *call) bool {
	v, _ := u.resultOf(call)
	if v == nil {
		_, ok := call.cursor.Parent().Node().(*ast.ReturnStmt)
		return ok
	}
	for n := range ast.Preorder(body) {
		branch, ok := n.(*ast.IfStmt)
		if !ok {
			continue
		}
		if u.isFailure(branch.Cond, token.NEQ) == v && leaves(branch.Body.List) {
			return true
		}
		if u.isFailure(branch.Cond, token.EQL) == nil && u.isFailure(branch.Cond, token.NEQ) == nil {
			for n := range ast.Preorder(branch.Cond) {
				if id, ok := n.(*ast.Ident); ok && u.info.Uses[id] == v {
					return true
				}
			}
		}
	}
	if loop := body.List[len(body.List)-1]; leaves([]ast.Stmt{loop}) {
		return true
	}
	return false
}
