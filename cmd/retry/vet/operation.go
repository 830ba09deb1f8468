package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// An operation is the function that one attempt runs.
type operation struct {
	node   ast.Node // *ast.FuncLit or *ast.FuncDecl
	cursor inspector.Cursor
	body   *ast.BlockStmt
	ctx    *types.Var // the context of the attempt; nil if it has no name
}

// runs reports whether the attempt runs the code at c: no function is between them but
// one that is called where it is written.
func runs(op *operation, c inspector.Cursor) bool {
	for fn := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		if fn.Node() == op.node || !isCalled(fn) {
			return fn.Node() == op.node
		}
	}
	return false
}

// isCalled reports whether the function literal at c is called immediately.
func isCalled(c inspector.Cursor) bool {
	call, ok := c.Parent().Node().(*ast.CallExpr)
	return ok && call.Fun == c.Node()
}

// outside reports whether v lives longer than an attempt: it is a variable
// around the closure, a package variable, or the receiver of a method.
func outside(op *operation, v *types.Var) bool {
	if decl, ok := op.node.(*ast.FuncDecl); ok && decl.Recv != nil && decl.Recv.Pos() <= v.Pos() && v.Pos() < decl.Recv.End() {
		_, pointer := v.Type().Underlying().(*types.Pointer)
		return pointer
	}
	return !op.contains(v.Pos())
}

func (u *uses) isOutside(op *operation, x ast.Expr) bool {
	id := rootOf(x)
	if id == nil {
		return false
	}
	v, ok := u.info.ObjectOf(id).(*types.Var)
	return ok && outside(op, v)
}

// detached reports whether the call at c may need a longer context: the attempt
// does not wait for it, or it cleans up after the attempt.
func (u *uses) detached(c inspector.Cursor, op *operation) bool {
	return slices.ContainsFunc(u.aside, func(stmt ast.Node) bool {
		return op.contains(stmt.Pos()) && within(stmt, c.Node().Pos())
	})
}

// mayBeOnce reports whether the code at c may run in only one attempt: it
// depends on a variable outside of op, or is in a function that something else
// calls, such as the function of a sync.Once.
func (u *uses) mayBeOnce(c inspector.Cursor, op *operation) bool {
	for around := range c.Enclosing((*ast.IfStmt)(nil), (*ast.FuncLit)(nil)) {
		if around.Node() == op.node || !op.contains(around.Node().Pos()) {
			break
		}
		choice, ok := around.Node().(*ast.IfStmt)
		if !ok {
			if !isCalled(around) {
				return true
			}
			continue
		}
		if c.Node().Pos() < choice.Body.Pos() {
			continue // in the condition itself
		}
		if u.looksOutside(op, choice.Cond) {
			return true
		}
	}
	return false
}

// looksOutside reports whether a condition looks at a variable outside of op.
func (u *uses) looksOutside(op *operation, cond ast.Expr) bool {
	for n := range ast.Preorder(cond) {
		id, ok := n.(*ast.Ident)
		if v, isVar := u.info.ObjectOf(id).(*types.Var); ok && isVar && !v.IsField() && outside(op, v) {
			return true
		}
	}
	return false
}

// isFinal reports whether the result of the code at c is passed to
// retry.Permanent.
func (u *uses) isFinal(c inspector.Cursor) bool {
	for c := range c.Enclosing((*ast.CallExpr)(nil)) {
		if u.callee(c.Node().(*ast.CallExpr)) == retryPath+".Permanent" {
			return true
		}
	}
	return false
}

func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// canFail reports whether a call can end early because its context does: it
// returns an error, or a value that can fail later for that reason, such as an
// *exec.Cmd. Loggers and metrics return none, a function that gets an error only
// wraps it, and cleanup should not end early.
func (u *uses) canFail(call *ast.CallExpr) bool {
	signature, ok := u.info.TypeOf(call.Fun).Underlying().(*types.Signature)
	if !ok {
		return false // a conversion
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

// onFailure reports whether the statement at c runs only if the attempt has
// failed.
func (u *uses) onFailure(op *operation, c inspector.Cursor) bool {
	for ; c.Node() != op.node; c = c.Parent() {
		branch, ok := c.Parent().Node().(*ast.IfStmt)
		if ok && c.Node() == branch.Body && u.isFailure(branch.Cond) {
			return true
		}
	}
	return false
}

// aboutError reports whether a condition looks at an error.
func (u *uses) aboutError(cond ast.Expr) bool {
	for n := range ast.Preorder(cond) {
		if id, ok := n.(*ast.Ident); ok && isError(u.info.TypeOf(id)) {
			return true
		}
	}
	return false
}
