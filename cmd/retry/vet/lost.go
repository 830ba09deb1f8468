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

// Lost reports results, errors and settings that are lost.
var Lost = newCheck("lost", `report results, errors and settings that are lost

A call that gave up goes unnoticed if its error is dropped. An operation that
returns nil after an error is not retried, and a policy that is changed in a copy
stays as it was.`, func(pass *analysis.Pass, u *uses) {
	u.droppedCalls(pass)
	u.blindDecisions(pass)
	u.changedCopies(pass)
	u.formattedMarks(pass)
	for call, op := range u.operations() {
		u.shadowedResults(pass, call, op)
		u.swallowedErrors(pass, call, op)
	}
})

// droppedCalls reports the calls whose error is dropped.
func (u *uses) droppedCalls(pass *analysis.Pass) {
	for _, call := range slices.Concat(u.calls, u.onces) {
		parent := call.cursor.Parent()
		switch n := parent.Node().(type) {
		case *ast.AssignStmt:
			if !isNamedIdent(n.Lhs[len(n.Lhs)-1], "_") {
				continue
			}
			v := u.local(n.Lhs[0])
			meant := inAny(parent, (*ast.DeferStmt)(nil), (*ast.GoStmt)(nil)) || commented(pass, n) || u.sets(call.policy, "OnEvent")
			if v == nil && meant || v != nil && (call.name == "retry.Once" || u.tested(call.cursor, v)) {
				continue
			}
		case *ast.ExprStmt, *ast.GoStmt, *ast.DeferStmt:
		default:
			continue
		}
		if !u.keepsError(call) {
			pass.ReportRangef(call.Fun, "the error of %s is dropped, so a call that gave up goes unnoticed: return it or log it", call.name)
		}
	}
}

// inAny reports whether c is in a statement of one of these kinds.
func inAny(c inspector.Cursor, kinds ...ast.Node) bool {
	for range c.Enclosing(kinds...) {
		return true
	}
	return false
}

// commented reports whether a comment above or behind a statement says why.
func commented(pass *analysis.Pass, n ast.Node) bool {
	return slices.ContainsFunc(enclosingFile(pass, n.Pos()).Comments, func(group *ast.CommentGroup) bool {
		below := placeOf(pass, n.End()).line - placeOf(pass, group.End()).line
		return below == 1 || below == 0 && !strings.HasPrefix(group.Text(), "want") // which tests of checks write
	})
}

// tested reports whether a condition of the function around c looks at v.
func (u *uses) tested(c inspector.Cursor, v *types.Var) bool {
	for _, branch := range all[*ast.IfStmt](*enclosingFunc(c)) {
		if u.hasUse(branch.Cond, v) {
			return true
		}
	}
	return false
}

// keepsError reports whether an operation keeps its error outside.
func (u *uses) keepsError(call *call) bool {
	for _, op := range call.ops {
		for _, assign := range all[*ast.AssignStmt](op.cursor) {
			for _, left := range assign.Lhs {
				if isError(u.info.TypeOf(left)) && u.isOutside(op, left) {
					return true
				}
			}
		}
	}
	return false
}

// blindDecisions reports the use of a Decision's Delay without a check of
// whether to retry.
func (u *uses) blindDecisions(pass *analysis.Pass) {
	for c, call := range all[*ast.CallExpr](u.root) {
		if name := u.callee(call); name != "("+retryPath+".Policy).Next" && name != retryPath+".Once" {
			continue
		}
		switch p := c.Parent().Node().(type) {
		case *ast.SelectorExpr:
			wait, ok := c.Parent().Parent().Node().(*ast.CallExpr)
			if ok && p.Sel.Name == "Delay" && strings.HasPrefix(u.callee(wait), "time.") {
				pass.ReportRangef(p.Sel, "Delay is also set where there is no retry: keep the Decision, and ask its Retry first")
			}
		case *ast.AssignStmt:
			v := u.local(p.Lhs[0])
			if delay := u.onlyDelay(c, v); delay != nil {
				pass.ReportRangef(delay, "nothing asks %s.Retry, and Delay is also set where there is no retry: leave the loop if %[1]s.Retry() is false", v.Name())
			}
		}
	}
}

// onlyDelay returns the first use of the Delay of the Decision v, or nil if
// something else of it is used too.
func (u *uses) onlyDelay(c inspector.Cursor, v *types.Var) (delay ast.Node) {
	fn := enclosingFunc(c)
	if v == nil || fn == nil {
		return nil
	}
	for use := range u.idents(v, *fn) {
		sel, ok := use.Parent().Node().(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Delay", "Lo", "Hi", "RetryAfter", "Seed"}, sel.Sel.Name) {
			return nil
		}
		if sel.Sel.Name == "Delay" && delay == nil {
			delay = sel
		}
	}
	return delay
}

// changedCopies reports fields that are set in a copy of a policy that nothing
// uses afterwards.
func (u *uses) changedCopies(pass *analysis.Pass) {
	for _, s := range u.settings {
		v, fn := u.local(ast.Unparen(s.x)), enclosingFunc(s.cursor)
		if v == nil || fn == nil || !isPolicy(v.Type()) || !within(fn.Node(), v.Pos()) || u.known(v) == nil {
			continue
		}
		if !u.isNamedResult(fn.Node(), v) && !u.usedAfter(*fn, s.cursor, v) {
			pass.ReportRangef(s.cursor.Node(), "%s is a copy that nothing uses after this, so %s is not set anywhere else: return the policy, or change it through a pointer", v.Name(), s.field.Name)
		}
	}
}

// usedAfter reports whether v is used after the assignment at c, other than to
// set a field of it.
func (u *uses) usedAfter(fn, c inspector.Cursor, v *types.Var) bool {
	for loop := range c.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		if !within(loop.Node(), v.Pos()) {
			return true
		}
	}
	for use, id := range u.idents(v, fn) {
		sel, ok := use.Parent().Node().(*ast.SelectorExpr)
		sets := ok && isAssigned(use.Parent().Parent().Node(), sel)
		if enclosingFunc(use).Node() != fn.Node() || !sets && id.Pos() > c.Node().Pos() {
			return true
		}
	}
	return false
}

// isNamedResult reports whether v is a named result of a function.
func (u *uses) isNamedResult(fn ast.Node, v *types.Var) bool {
	results := typeOf(fn).Results
	return results != nil && within(results, v.Pos())
}

// formattedMarks reports a marked error of which only the text is kept.
func (u *uses) formattedMarks(pass *analysis.Pass) {
	for _, call := range all[*ast.CallExpr](u.root) {
		if u.callee(call) != "fmt.Errorf" || strings.Contains(types.ExprString(call.Args[0]), "%w") {
			continue
		}
		for _, arg := range call.Args[1:] {
			made := u.from(arg)
			if made != nil && slices.Contains([]string{retryPath + ".Permanent", retryPath + ".After"}, u.callee(made)) {
				pass.ReportRangef(arg, "only the text of %s is kept, without its mark: use %%w", types.ExprString(arg))
			}
		}
	}
}

// shadowedResults reports a variable of an operation that hides the one which the
// caller reads, and which nothing assigns.
func (u *uses) shadowedResults(pass *analysis.Pass, call *call, op *operation) {
	fn := enclosingFunc(call.cursor)
	for _, assign := range all[*ast.AssignStmt](op.cursor) {
		for _, left := range assign.Lhs {
			inner := u.local(left)
			if fn == nil || assign.Tok != token.DEFINE || inner == nil || inner.Pos() != left.Pos() {
				continue
			}
			_, hidden := pass.Pkg.Scope().Innermost(op.node.Pos()).LookupParent(inner.Name(), op.node.Pos())
			outer, ok := hidden.(*types.Var)
			if !ok || outer.Pos() < fn.Node().Pos() || !types.Identical(outer.Type(), inner.Type()) {
				continue
			}
			record := u.known(outer)
			if record != nil && record.zero && len(record.values)+len(record.fields) == 0 && u.readAfter(*fn, call, outer) {
				pass.ReportRangef(left, "this %s hides the one outside of %s, which nothing assigns, so the caller gets its zero value: write = in place of :=", inner.Name(), call.name)
			}
		}
	}
}

// readAfter reports whether the function around a call reads v after it.
func (u *uses) readAfter(fn inspector.Cursor, call *call, v *types.Var) bool {
	for _, id := range u.idents(v, fn) {
		if id.Pos() > call.End() {
			return true
		}
	}
	return u.isNamedResult(fn.Node(), v) && slices.ContainsFunc(returnsOf(bodyOf(fn.Node())), func(ret *ast.ReturnStmt) bool {
		return len(ret.Results) == 0 && ret.Pos() > call.Pos()
	})
}

// swallowedErrors reports an operation that returns nil whatever happens, or after it
// has logged the first error.
func (u *uses) swallowedErrors(pass *analysis.Pass, call *call, op *operation) {
	returns := returnsOf(op.body)
	failing := u.firstFailing(op)
	if failing == nil || len(returns) == 0 || u.keepsError(call) {
		return
	}
	report := func(at ast.Node) {
		pass.ReportRangef(at, "%s takes nil for success, so this failure is not retried: return the error", call.name)
	}
	never := !slices.ContainsFunc(returns, func(ret *ast.ReturnStmt) bool { return !u.returnsNil(ret) })
	for c, branch := range all[*ast.IfStmt](op.cursor) {
		err := u.isFailure(branch.Cond, token.NEQ)
		if err == nil || len(branch.Body.List) == 0 || !own(op, c) {
			continue
		}
		ret, ok := branch.Body.List[len(branch.Body.List)-1].(*ast.ReturnStmt)
		if ok && u.returnsNil(ret) && (never || u.isResultOf(err, failing) && u.onlyLogs(branch.Body.List[:len(branch.Body.List)-1])) {
			report(ret)
			return
		}
	}
	if never {
		report(returns[len(returns)-1])
	}
}

// firstFailing returns the first call of an attempt that can fail.
func (u *uses) firstFailing(op *operation) *ast.CallExpr {
	for c, call := range all[*ast.CallExpr](op.cursor) {
		if own(op, c) && u.fails(call) {
			return call
		}
	}
	return nil
}

// isResultOf reports whether a call assigns err.
func (u *uses) isResultOf(err types.Object, call *ast.CallExpr) bool {
	v, ok := err.(*types.Var)
	return ok && u.vars[v] != nil && slices.Contains(slices.Concat(u.vars[v].calls, u.vars[v].values), ast.Expr(call))
}

// onlyLogs reports whether statements, at least one, do nothing but log.
func (u *uses) onlyLogs(list []ast.Stmt) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(stmt ast.Stmt) bool {
		log, ok := stmt.(*ast.ExprStmt)
		if !ok {
			return true
		}
		call, ok := log.X.(*ast.CallExpr)
		return !ok || u.canFail(call) && !strings.HasPrefix(u.callee(call), "fmt.")
	})
}
