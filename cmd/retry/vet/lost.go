package vet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
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
	u.hiddenMarks(pass)
	for call, op := range u.operations() {
		u.shadowedResults(pass, call, op)
		u.swallowedErrors(pass, call, op)
	}
})

// droppedCalls reports the calls whose error is dropped.
func (u *uses) droppedCalls(pass *analysis.Pass) {
	for _, call := range slices.Concat(u.calls, u.onces) {
		blank := false
		parent := call.cursor.Parent()
		switch n := parent.Node().(type) {
		case *ast.AssignStmt:
			if !slices.ContainsFunc(n.Lhs, func(x ast.Expr) bool { return !isNamedIdent(x, "_") }) {
				blank = true
			} else if last := n.Lhs[len(n.Lhs)-1]; !isNamedIdent(last, "_") || call.name == "retry.Once" || len(n.Lhs) < 2 || u.tested(call.cursor, n.Lhs[0]) {
				continue
			}
		case *ast.ExprStmt, *ast.GoStmt, *ast.DeferStmt:
		default:
			continue
		}
		if blank && (commented(pass, parent.Node()) || inFunc(parent, (*ast.DeferStmt)(nil), (*ast.GoStmt)(nil))) || u.keepsError(call) {
			continue
		}
		pass.ReportRangef(call.Fun, "the error of %s is dropped, so a call that gave up goes unnoticed: return it or log it", call.name)
	}
}

// inFunc reports whether c is in a function literal that one of these statements
// calls.
func inFunc(c inspector.Cursor, kinds ...ast.Node) bool {
	for range c.Enclosing(kinds...) {
		return true
	}
	return false
}

// commented reports whether a comment above a statement says why.
func commented(pass *analysis.Pass, n ast.Node) bool {
	line := pass.Fset.Position(n.Pos()).Line
	for _, group := range enclosingFile(pass, n.Pos()).Comments {
		if pass.Fset.Position(group.End()).Line == line-1 {
			return true
		}
	}
	return false
}

// tested reports whether a condition of the function around c looks at x.
func (u *uses) tested(c inspector.Cursor, x ast.Expr) bool {
	v, fn := u.local(x), enclosingFunc(c)
	if v == nil || fn == nil {
		return false
	}
	for use := range u.idents(v, *fn) {
		for branch := range use.Enclosing((*ast.IfStmt)(nil)) {
			if cond := branch.Node().(*ast.IfStmt).Cond; cond.Pos() <= use.Node().Pos() && use.Node().Pos() < cond.End() {
				return true
			}
		}
	}
	return false
}

// keepsError reports whether an operation keeps its error outside.
func (u *uses) keepsError(call *call) bool {
	for _, op := range call.ops {
		for c := range op.cursor.Preorder((*ast.AssignStmt)(nil)) {
			for _, left := range c.Node().(*ast.AssignStmt).Lhs {
				if t := u.info.TypeOf(left); t != nil && isError(t) && u.isOutside(op, left) {
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
	for c := range u.root.Preorder((*ast.CallExpr)(nil)) {
		name := u.callee(c.Node().(*ast.CallExpr))
		if name != "("+retryPath+".Policy).Next" && name != retryPath+".Once" {
			continue
		}
		if sel, ok := c.Parent().Node().(*ast.SelectorExpr); ok && sel.Sel.Name == "Delay" {
			wait, ok := c.Parent().Parent().Node().(*ast.CallExpr)
			if !ok || !strings.HasPrefix(u.callee(wait), "time.") {
				continue
			}
			pass.ReportRangef(sel.Sel, "Delay is also set where there is no retry: keep the Decision, and ask its Retry first")
			continue
		}
		assign, ok := c.Parent().Node().(*ast.AssignStmt)
		if !ok {
			continue
		}
		fn, v := enclosingFunc(c), u.local(assign.Lhs[0])
		if fn == nil || v == nil {
			continue
		}
		var delay ast.Node
		asked := false
		for use := range u.idents(v, *fn) {
			sel, ok := use.Parent().Node().(*ast.SelectorExpr)
			switch {
			case !ok || !slices.Contains([]string{"Delay", "Lo", "Hi", "RetryAfter", "Seed"}, sel.Sel.Name):
				asked = true
			case sel.Sel.Name == "Delay" && delay == nil:
				delay = sel
			}
		}
		if delay != nil && !asked {
			pass.ReportRangef(delay, "nothing asks %s.Retry, and Delay is also set where there is no retry: leave the loop if %[1]s.Retry() is false", v.Name())
		}
	}
}

// changedCopies reports fields that are set in a copy of a policy that nothing
// uses afterwards.
func (u *uses) changedCopies(pass *analysis.Pass) {
	for c := range u.root.Preorder((*ast.AssignStmt)(nil)) {
		assign := c.Node().(*ast.AssignStmt)
		left, ok := assign.Lhs[0].(*ast.SelectorExpr)
		if !ok || assign.Tok != token.ASSIGN || !isPolicy(u.info.TypeOf(left.X)) {
			continue
		}
		x, path := left.X, true
		for {
			sel, ok := ast.Unparen(x).(*ast.SelectorExpr)
			if !ok {
				break
			}
			_, pointer := u.info.TypeOf(sel.X).Underlying().(*types.Pointer)
			x, path = sel.X, path && !pointer
		}
		v, fn := u.local(ast.Unparen(x)), enclosingFunc(c)
		if v == nil || !path || fn == nil || v.Pos() < fn.Node().Pos() || v.Pos() >= fn.Node().End() || u.vars[v] == nil || u.isNamedResult(fn.Node(), v) || u.addressed(*fn, v) {
			continue
		}
		if _, pointer := v.Type().Underlying().(*types.Pointer); pointer {
			continue
		}
		if !u.usedAfter(*fn, c, v) {
			pass.ReportRangef(assign, "%s is a copy that nothing uses after this, so %s is not set anywhere else: return the policy, or change it through a pointer", v.Name(), left.Sel.Name)
		}
	}
}

// usedAfter reports whether v is used after the assignment at c, other than to
// set a field of it.
func (u *uses) usedAfter(fn, c inspector.Cursor, v *types.Var) bool {
	for loop := range c.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		if v.Pos() < loop.Node().Pos() || v.Pos() >= loop.Node().End() {
			return true
		}
	}
	for use := range u.idents(v, fn) {
		if enclosingFunc(use).Node() != fn.Node() {
			return true
		}
		x := use
		for isPath(x.Parent().Node()) {
			x = x.Parent()
		}
		if assign, ok := x.Parent().Node().(*ast.AssignStmt); ok && x.Node() != use.Node() && slices.Contains(assign.Lhs, x.Node().(ast.Expr)) {
			continue
		}
		if use.Node().Pos() > c.Node().Pos() {
			return true
		}
	}
	return false
}

// addressed reports whether a function takes the address of v, as a call of a
// method may.
func (u *uses) addressed(fn inspector.Cursor, v *types.Var) bool {
	for use := range u.idents(v, fn) {
		for isPath(use.Parent().Node()) {
			use = use.Parent()
			if sel, ok := use.Node().(*ast.SelectorExpr); ok && u.info.Selections[sel] != nil && u.info.Selections[sel].Kind() == types.MethodVal {
				if _, pointer := u.info.Selections[sel].Obj().Type().(*types.Signature).Recv().Type().(*types.Pointer); pointer {
					return true
				}
			}
		}
		if address, ok := use.Parent().Node().(*ast.UnaryExpr); ok && address.Op == token.AND {
			return true
		}
	}
	return false
}

// isNamedResult reports whether v is a named result of a function.
func (u *uses) isNamedResult(fn ast.Node, v *types.Var) bool {
	results := typeOf(fn).Results
	return results != nil && results.Pos() <= v.Pos() && v.Pos() < results.End()
}

func typeOf(fn ast.Node) *ast.FuncType {
	if lit, ok := fn.(*ast.FuncLit); ok {
		return lit.Type
	}
	return fn.(*ast.FuncDecl).Type
}

var verb = regexp.MustCompile(`%[-+# 0-9.]*([a-zA-Z%])`)

// formattedMarks reports a marked error of which only the text is kept.
func (u *uses) formattedMarks(pass *analysis.Pass) {
	for c := range u.root.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if x, name := method(call); name == "Error" && u.isMark(x) {
			pass.ReportRangef(call, "the text of the error has no mark: return the error of retry.Permanent or retry.After")
		}
		if u.callee(call) != "fmt.Errorf" || u.info.Types[call.Args[0]].Value == nil {
			continue
		}
		var verbs []string
		for _, found := range verb.FindAllStringSubmatch(constant.StringVal(u.info.Types[call.Args[0]].Value), -1) {
			if found[1] != "%" {
				verbs = append(verbs, found[1])
			}
		}
		for i, arg := range call.Args[1:] {
			if i < len(verbs) && verbs[i] != "w" && isError(u.info.TypeOf(arg)) && (u.isMark(arg) || u.mayBeMarked(c, arg)) {
				pass.ReportRangef(arg, "%%%s keeps the text of %s and drops its mark, so the policy decides as for any other error: use %%w", verbs[i], types.ExprString(arg))
			}
		}
	}
}

// hiddenMarks reports a marked error in a new variable that is not handed on, and
// hides the one that is.
func (u *uses) hiddenMarks(pass *analysis.Pass) {
	for c := range u.root.Preorder((*ast.AssignStmt)(nil)) {
		assign := c.Node().(*ast.AssignStmt)
		if assign.Tok != token.DEFINE || len(assign.Rhs) != 1 || !u.isMark(assign.Rhs[0]) || u.callee(u.from(assign.Rhs[0])) == retryhttpPath+".Check" {
			continue
		}
		v, fn := u.local(assign.Lhs[0]), enclosingFunc(c)
		if v == nil || fn == nil {
			continue
		}
		kept := false
		for use := range u.idents(v, *fn) {
			for around := range use.Enclosing((*ast.ReturnStmt)(nil), (*ast.AssignStmt)(nil), (*ast.SendStmt)(nil), (*ast.CompositeLit)(nil), (*ast.FuncLit)(nil), (*ast.FuncDecl)(nil)) {
				switch around.Node().(type) {
				case *ast.FuncLit, *ast.FuncDecl:
				default:
					kept = true
				}
				break
			}
		}
		if !kept {
			pass.ReportRangef(assign, "the marked error is in a new %s that nothing returns: return it", v.Name())
		}
	}
}

// isMark reports whether x is the result of Permanent or After.
func (u *uses) isMark(x ast.Expr) bool {
	call := u.from(x)
	if call == nil {
		return false
	}
	name := u.callee(call)
	return name == retryPath+".Permanent" || name == retryPath+".After" || name == retryhttpPath+".Check"
}

// mayBeMarked reports whether the error x was returned to an attempt by a function
// of this package that marks errors.
func (u *uses) mayBeMarked(c inspector.Cursor, x ast.Expr) bool {
	v := u.local(ast.Unparen(x))
	if v == nil || u.vars[v] == nil {
		return false
	}
	calls := slices.Concat(u.vars[v].calls, u.vars[v].values)
	in := slices.ContainsFunc(u.calls, func(call *call) bool {
		return slices.ContainsFunc(call.ops, func(op *operation) bool { return op.contains(c.Node().Pos()) })
	})
	return in && slices.ContainsFunc(calls, func(x ast.Expr) bool {
		call, ok := x.(*ast.CallExpr)
		if !ok {
			return false
		}
		if decl := u.declared(call); decl != nil {
			for _, ret := range returnsOf(decl.Body) {
				if len(ret.Results) > 0 && u.isMark(ret.Results[len(ret.Results)-1]) {
					return true
				}
			}
		}
		return u.callee(call) == retryhttpPath+".Check"
	})
}

// shadowedResults reports a variable of an operation that hides the one which the
// caller reads, and which nothing assigns.
func (u *uses) shadowedResults(pass *analysis.Pass, call *call, op *operation) {
	fn := enclosingFunc(call.cursor)
	if fn == nil {
		return
	}
	for c := range op.cursor.Preorder((*ast.AssignStmt)(nil)) {
		assign := c.Node().(*ast.AssignStmt)
		if assign.Tok != token.DEFINE {
			continue
		}
		for _, left := range assign.Lhs {
			inner := u.local(left)
			if inner == nil || inner.Pos() != left.Pos() {
				continue
			}
			_, hidden := pass.Pkg.Scope().Innermost(op.node.Pos()).LookupParent(inner.Name(), op.node.Pos())
			outer, ok := hidden.(*types.Var)
			if !ok || outer.Pos() < fn.Node().Pos() || !types.Identical(outer.Type(), inner.Type()) {
				continue
			}
			if record := u.vars[outer]; record == nil || !record.zero || record.shared || len(record.values) > 0 || len(record.fields) > 0 || !u.readAfter(*fn, call, outer) {
				continue
			}
			pass.ReportRangef(left, "this %s hides the one outside of %s, which nothing assigns, so the caller gets its zero value: write = in place of :=", inner.Name(), call.name)
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
	for _, ret := range returnsOf(bodyOf(fn.Node())) {
		if len(ret.Results) == 0 && ret.Pos() > call.Pos() && u.isNamedResult(fn.Node(), v) {
			return true
		}
	}
	return false
}

// swallowedErrors reports an operation whose failure stays inside it.
func (u *uses) swallowedErrors(pass *analysis.Pass, call *call, op *operation) {
	returns := returnsOf(op.body)
	first := token.Pos(0) // the first call that can fail
	for c := range op.cursor.Preorder((*ast.CallExpr)(nil)) {
		if inner := c.Node().(*ast.CallExpr); first == 0 && own(op, c) && u.canFail(inner) && !wraps(u.callee(inner)) {
			first = inner.Pos()
		}
	}
	if first == 0 || len(returns) == 0 {
		return
	}
	never := !slices.ContainsFunc(returns, func(ret *ast.ReturnStmt) bool { return !u.returnsNil(ret) })
	for c := range op.cursor.Preorder((*ast.IfStmt)(nil)) {
		branch := c.Node().(*ast.IfStmt)
		ret, ok := branch.Body.List[max(0, len(branch.Body.List)-1):], false
		if len(ret) == 1 && own(op, c) && u.isFailure(branch.Cond, token.NEQ) != nil {
			last, isReturn := ret[0].(*ast.ReturnStmt)
			ok = isReturn && u.returnsNil(last) && (never || u.onlyLogs(branch, first))
		}
		if ok {
			pass.ReportRangef(ret[0], "%s takes nil for success, so this failure is not retried: return the error", call.name)
			return
		}
	}
	if never {
		for n := range ast.Preorder(op.body) {
			if branch, ok := n.(*ast.IfStmt); ok && u.isFailure(branch.Cond, token.NEQ) != nil {
				pass.ReportRangef(returns[len(returns)-1], "%s takes nil for success, so a failure is not retried: return the error", call.name)
				return
			}
		}
		for c := range op.cursor.Preorder((*ast.CallExpr)(nil)) {
			if inner := c.Node().(*ast.CallExpr); inner.Pos() == first {
				pass.ReportRangef(inner, "the operation of %s returns nil whether or not this fails, so nothing is retried: return its error", call.name)
				return
			}
		}
	}
}

// onlyLogs reports whether a branch for the error of the first call does nothing
// but log it.
func (u *uses) onlyLogs(branch *ast.IfStmt, first token.Pos) bool {
	err := u.isFailure(branch.Cond, token.NEQ)
	if branch.Pos() < first && (branch.Init == nil || branch.Init.Pos() > first) || len(branch.Body.List) < 2 {
		return false
	}
	var v *variable
	if obj, ok := err.(*types.Var); ok {
		v = u.vars[obj]
	}
	if v == nil || !slices.ContainsFunc(slices.Concat(v.calls, v.values), func(x ast.Expr) bool { return x != nil && x.Pos() == first }) {
		return false
	}
	for _, stmt := range branch.Body.List[:len(branch.Body.List)-1] {
		log, ok := stmt.(*ast.ExprStmt)
		if !ok {
			return false
		}
		call, ok := log.X.(*ast.CallExpr)
		if !ok || u.canFail(call) && !strings.HasPrefix(u.callee(call), "fmt.") {
			return false
		}
	}
	return !slices.ContainsFunc(branch.Body.List[len(branch.Body.List)-1].(*ast.ReturnStmt).Results, func(x ast.Expr) bool {
		return !u.info.Types[x].IsNil() && u.info.Types[x].Value == nil && literal(x) == nil
	})
}
