package vet

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Nested reports retries inside retries.
var Nested = newCheck("nested", `report a call that retries inside each attempt of another call

Each attempt of the outer call makes all attempts of the inner call. With 4 outer and 3
inner attempts, a server in trouble gets 12 requests. This check reports nothing if a
function that contains one of the two calls also calls
retry.WithBudget.`, func(pass *analysis.Pass, u *uses) {
	u.clientTimeouts(pass)
	for call, op := range u.operations() {
		u.reportLayers(pass, call, op)
	}
})

// reportLayers reports code that is in an operation and retries by itself. Such code makes several
// attempts in each attempt of the call `outer`. The code is one of these:
//
//   - a call that retries
//   - a call of a function of the checked package that contains a call that retries
//   - a request through a client with a retryhttp.Transport
func (u *uses) reportLayers(pass *analysis.Pass, outer *call, op *operation) {
	if u.budgeted(outer) || u.sets(outer.policy, "RetryIf", "Classify") || u.oneAttempt(outer.policy) {
		return
	}
	for c, made := range nodes[*ast.CallExpr](op.cursor) {
		if !runsDirectly(op, c) || u.detached(c, op) || u.isFinal(c) {
			continue
		}
		if client := u.retryingClient(made); client != nil {
			lit := literal(u.deep(u.transport(client)))
			chosen := u.mentionsCallee(*enclosingFunc(outer.cursor), retryhttpPath+".WithPolicy")
			if !chosen &&
				(lit == nil || keyed(lit)["Policy"] != nil && !u.oneAttempt(keyed(lit)["Policy"])) {
				pass.ReportRangef(made, "the Transport of %s retries too, inside each attempt of %s: "+
					"retry in one of them", types.ExprString(client), outer.name)
			}
		}
		for _, inner := range u.calls {
			name := inner.name
			if inner.CallExpr != made {
				decl, fn := u.declared(made), enclosingFunc(inner.cursor)
				if decl == nil || fn == nil || fn.Node() != decl {
					continue
				}
				name += " of " + decl.Name.Name
			}
			m, known := u.attempts(outer.policy)
			n, also := u.attempts(inner.policy)
			if known && also && m > 1 && n > 1 && !u.budgeted(inner) && !u.endsRetries(inner) &&
				u.handedOn(inner.cursor) && (inner.CallExpr == made || u.handedOn(c)) {
				pass.ReportRangef(made.Fun,
					"%s inside %s makes up to %d x %d = %d calls: retry in one of them, or give the outer call a "+
						"context of retry.WithBudget", name, outer.name, m, n, m*n)
				break
			}
		}
	}
}

// budgeted reports whether retry.WithBudget is called in the function around a call, or in the
// declaration of a variable whose value contains the call.
func (u *uses) budgeted(call *call) bool {
	for decl := range call.cursor.Enclosing((*ast.FuncDecl)(nil), (*ast.GenDecl)(nil)) {
		if u.mentionsCallee(decl, retryPath+".WithBudget") {
			return true
		}
	}
	return false
}

// resultOf returns the variable to which the error of a call is assigned. It returns nil if the
// error is not assigned to a variable.
func (u *uses) resultOf(call *call) *types.Var {
	switch p := call.cursor.Parent().Node().(type) {
	case *ast.AssignStmt:
		return u.local(p.Lhs[len(p.Lhs)-1])
	case *ast.ValueSpec:
		return u.local(p.Names[len(p.Names)-1])
	}
	return nil
}

// handedOn reports whether the function around the call at c may return the error of the call, or
// pass the error on. A function that only logs the error does neither.
func (u *uses) handedOn(c inspector.Cursor) bool {
	fn := enclosingFunc(c)
	if fn == nil {
		return true
	}
	switch p := c.Parent().Node().(type) {
	case *ast.ExprStmt:
		return false
	case *ast.BinaryExpr, *ast.CallExpr: // the call is in a condition, or is an argument
		for around := range c.Enclosing((*ast.ExprStmt)(nil), (*ast.ReturnStmt)(nil),
			(*ast.AssignStmt)(nil), (*ast.IfStmt)(nil), (*ast.FuncLit)(nil)) {
			switch n := around.Node().(type) {
			case *ast.ExprStmt:
				return !mayLog(u, n)
			case *ast.IfStmt:
				return false
			}
			return true
		}
	case *ast.AssignStmt, *ast.ValueSpec:
		v := u.resultOf(&call{cursor: c})
		if v == nil {
			assign, ok := p.(*ast.AssignStmt)
			return !ok || !isNamedIdent(assign.Lhs[len(assign.Lhs)-1], "_")
		}
		return u.returnedFrom(*fn, p, v)
	}
	return true
}

// mayLog reports whether a statement may call a logger. A function may be a logger if it has no
// result, or if it is a Print function of fmt.
func mayLog(u *uses, stmt *ast.ExprStmt) bool {
	call, ok := ast.Unparen(stmt.X).(*ast.CallExpr)
	if !ok {
		return false
	}
	signature, ok := u.info.TypeOf(call.Fun).Underlying().(*types.Signature)
	return ok && (signature.Results().Len() == 0 || strings.HasPrefix(u.callee(call), "fmt.Print"))
}

// clientTimeouts reports the Timeout of an http.Client whose Transport retries. This Timeout limits
// all attempts and waits of a request together, not each attempt.
func (u *uses) clientTimeouts(pass *analysis.Pass) {
	for _, s := range u.settings {
		if s.setsField("net/http", "Client", "Timeout") && s.value != nil && !u.isZero(s.value) &&
			u.transport(u.sibling(s, "Transport")) != nil {
			pass.ReportRangef(s.value,
				"Timeout bounds all attempts and waits of the Transport together, and its error hides why the "+
					"attempts stopped: use the request's context, and AttemptTimeout for one attempt")
		}
	}
}
