package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// SleepDrop reports operations that wait or retry themselves, and marks that
// are dropped.
var SleepDrop = newCheck("sleepdrop", `report waits and loops that the policy should do, and marks that are dropped

A time.Sleep or a retry loop inside an operation works against the policy around
it. retry.Permanent and retry.After mark only the error that they return.`, runSleepDrop)

func runSleepDrop(pass *analysis.Pass, u *uses) {
	reportDropped(pass, u)
	for call, op := range u.operations() {
		var loops []ast.Node
		for c := range op.cursor.Preorder((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
			if loop := c.Node(); own(op, c) && u.retries(loop) {
				loops = append(loops, loop)
				pass.ReportRangef(keyword{loop}, "this loop retries inside of %s, so its attempts and those of the policy multiply: "+
					"call once for each attempt, and move the limit and the wait into the policy", call.name)
			}
		}
		for c, stmt := range all[*ast.ExprStmt](op.cursor) {
			sleep, ok := stmt.X.(*ast.CallExpr)
			if !ok || u.callee(sleep) != "time.Sleep" || !own(op, c) || slices.ContainsFunc(loops, func(loop ast.Node) bool {
				return loop.Pos() <= stmt.Pos() && stmt.Pos() < loop.End()
			}) || !u.waits(pass, op, c) {
				continue
			}
			pass.ReportRangef(sleep, "time.Sleep adds to the delay of the policy, and does not end when the context does: "+
				"set the policy's Backoff, or return retry.After(d, err) if the server asked for the wait")
		}
	}
}

// A keyword has the range of the word "for".
type keyword struct{ ast.Node }

func (k keyword) End() token.Pos { return k.Pos() + token.Pos(len("for")) }

// own reports whether the attempt itself runs the statement at c, and not a
// function inside it.
func own(op *operation, c inspector.Cursor) bool {
	for fn := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		return fn.Node() == op.node
	}
	return false
}

// reportDropped reports each call of Permanent or After whose result is
// dropped.
func reportDropped(pass *analysis.Pass, u *uses) {
	for c := range u.root.Preorder((*ast.ExprStmt)(nil), (*ast.DeferStmt)(nil), (*ast.GoStmt)(nil)) {
		var call *ast.CallExpr
		switch n := c.Node().(type) {
		case *ast.ExprStmt:
			call, _ = ast.Unparen(n.X).(*ast.CallExpr)
		case *ast.DeferStmt:
			call = n.Call
		case *ast.GoStmt:
			call = n.Call
		}
		if call == nil {
			continue
		}
		name := strings.TrimPrefix(u.callee(call), retryPath+".")
		if name != "Permanent" && name != "After" || name == u.callee(call) {
			continue
		}
		pass.Report(analysis.Diagnostic{
			Pos: call.Pos(), End: call.End(),
			Message:        fmt.Sprintf("the error that retry.%s returns is dropped, so nothing is marked: return it", name),
			SuggestedFixes: u.useMark(c, call),
		})
	}
}

// useMark returns the fix for a dropped mark, if the marked error is returned
// next.
func (u *uses) useMark(c inspector.Cursor, call *ast.CallExpr) []analysis.SuggestedFix {
	_, ok := c.Node().(*ast.ExprStmt)
	marked, named := ast.Unparen(call.Args[len(call.Args)-1]).(*ast.Ident)
	if !ok || !named {
		return nil
	}
	next, end := following(c), c.Node().End()
	if next != nil {
		end = next.End()
	} else if branch, ok := c.Parent().Parent().Node().(*ast.IfStmt); ok && branch.Else == nil {
		next = following(c.Parent().Parent())
	}
	ret, ok := next.(*ast.ReturnStmt)
	if !ok || len(ret.Results) == 0 || !u.same(ret.Results[len(ret.Results)-1], marked) {
		return nil
	}
	var results []string
	for _, result := range ret.Results[:len(ret.Results)-1] {
		results = append(results, types.ExprString(result))
	}
	results = append(results, types.ExprString(call))
	return []analysis.SuggestedFix{{Message: "return the marked error", TextEdits: []analysis.TextEdit{
		{Pos: c.Node().Pos(), End: end, NewText: []byte("return " + strings.Join(results, ", "))},
	}}}
}

// following returns the statement after the one at c, or nil if that is the
// last.
func following(c inspector.Cursor) ast.Stmt {
	if next, ok := c.NextSibling(); ok {
		stmt, _ := next.Node().(ast.Stmt)
		return stmt
	}
	return nil
}

// waits reports whether the sleep at c is a wait between two attempts, and not
// part of an attempt's work.
func (u *uses) waits(pass *analysis.Pass, op *operation, c inspector.Cursor) bool {
	next := following(c)
	ret, returns := next.(*ast.ReturnStmt)
	if returns && u.returnsNil(ret) {
		return false
	}
	branch, jumps := next.(*ast.BranchStmt)
	last := next == nil || returns && !u.anyCall(ret) || jumps && branch.Tok == token.CONTINUE
	if last && u.onFailure(op, c) {
		return true
	}
	if c.Parent().Node() != op.body {
		return false
	}
	if returns && len(ret.Results) > 0 { // the sleep follows the attempt, whether or not that failed
		if id, ok := ret.Results[len(ret.Results)-1].(*ast.Ident); ok && u.assignedByCall(op, u.info.ObjectOf(id), c.Node().Pos()) {
			return true
		}
	}
	return !inTest(pass, c.Node()) && op.body.List[0] == c.Node() && u.anyCall(op.body)
}

// onFailure reports whether the statement at c runs only if the attempt has
// failed.
func (u *uses) onFailure(op *operation, c inspector.Cursor) bool {
	for ; c.Node() != op.node; c = c.Parent() {
		branch, ok := c.Parent().Node().(*ast.IfStmt)
		if ok && c.Node() == branch.Body && u.isFailure(branch.Cond, token.NEQ) != nil {
			return true
		}
	}
	return false
}

// isFailure returns the error that cond compares with nil, using the operator
// op.
func (u *uses) isFailure(cond ast.Expr, op token.Token) types.Object {
	binary, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	if !ok || binary.Op != op || !u.info.Types[binary.Y].IsNil() {
		return nil
	}
	id, ok := ast.Unparen(binary.X).(*ast.Ident)
	if !ok || !isError(u.info.TypeOf(id)) {
		return nil
	}
	return u.info.ObjectOf(id)
}

func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// anyCall reports whether a call in n can fail.
func (u *uses) anyCall(n ast.Node) bool {
	for n := range ast.Preorder(n) {
		if call, ok := n.(*ast.CallExpr); ok && u.fails(call) {
			return true
		}
	}
	return false
}

// assignedByCall reports whether a call assigns the error before pos.
func (u *uses) assignedByCall(op *operation, err types.Object, pos token.Pos) bool {
	for _, assign := range all[*ast.AssignStmt](op.cursor) {
		if assign.End() <= pos && u.failing(assign, err) != nil {
			return true
		}
	}
	return false
}

// failing returns the call whose error stmt assigns to err.
func (u *uses) failing(stmt ast.Stmt, err types.Object) *ast.CallExpr {
	assign, ok := stmt.(*ast.AssignStmt)
	if !ok || len(assign.Rhs) != 1 {
		return nil
	}
	id, ok := assign.Lhs[len(assign.Lhs)-1].(*ast.Ident)
	if !ok || u.info.ObjectOf(id) != err {
		return nil
	}
	call, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
	if !ok || !u.fails(call) {
		return nil
	}
	return call
}
