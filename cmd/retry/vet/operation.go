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

// runs reports whether the attempt itself runs the code at c. It does not if the code is in a
// function literal, unless the literal is called where it is written.
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

// outside reports whether v lives longer than an attempt. Such variables are variables around the
// closure, package variables, and pointer receivers.
func outside(op *operation, v *types.Var) bool {
	if decl, ok := op.node.(*ast.FuncDecl); ok && decl.Recv != nil && decl.Recv.Pos() <= v.Pos() &&
		v.Pos() < decl.Recv.End() {
		_, pointer := v.Type().Underlying().(*types.Pointer)
		return pointer
	}
	return !op.contains(v.Pos())
}

// isOutside reports whether the variable at the root of x is outside of an operation.
func (u *uses) isOutside(op *operation, x ast.Expr) bool {
	id := rootOf(x)
	if id == nil {
		return false
	}
	v, ok := u.info.ObjectOf(id).(*types.Var)
	return ok && outside(op, v)
}

// detached reports whether the code at c is in a go or a defer statement of an operation. The
// attempt does not wait for it, or it cleans up after the attempt, so it may need a longer context.
func (u *uses) detached(c inspector.Cursor, op *operation) bool {
	return slices.ContainsFunc(u.aside, func(stmt ast.Node) bool {
		return op.contains(stmt.Pos()) && within(stmt, c.Node().Pos())
	})
}

// mayBeOnce reports whether the code at c may run in only one attempt. That is so if it depends on
// a variable outside of op, or if it is in a function literal that something else calls, such as a
// sync.Once.
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
			continue // the code is in the condition itself
		}
		if u.looksOutside(op, choice.Cond) {
			return true
		}
	}
	return false
}

// looksOutside reports whether a condition uses a variable outside of op.
func (u *uses) looksOutside(op *operation, cond ast.Expr) bool {
	for n := range ast.Preorder(cond) {
		id, ok := n.(*ast.Ident)
		if v, isVar := u.info.ObjectOf(id).(*types.Var); ok && isVar && !v.IsField() && outside(op, v) {
			return true
		}
	}
	return false
}

// isFinal reports whether the code at c is in an argument of retry.Permanent.
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

// canFail reports whether a call can end early because its context ends: it returns an error, or a
// value that can fail later for that reason, such as an *exec.Cmd. Functions of loggers and metrics
// return no error. A function that gets an error only wraps it. Cleanup should not end early.
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

// onFailure reports whether the statement at c runs only if the attempt has failed.
func (u *uses) onFailure(op *operation, c inspector.Cursor) bool {
	for ; c.Node() != op.node; c = c.Parent() {
		branch, ok := c.Parent().Node().(*ast.IfStmt)
		if ok && c.Node() == branch.Body && u.isFailure(branch.Cond) {
			return true
		}
	}
	return false
}

// aboutError reports whether a condition uses an error.
func (u *uses) aboutError(cond ast.Expr) bool {
	for n := range ast.Preorder(cond) {
		if id, ok := n.(*ast.Ident); ok && isError(u.info.TypeOf(id)) {
			return true
		}
	}
	return false
}
