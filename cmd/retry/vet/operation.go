package vet

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
)

// An operation is the function that one attempt runs.
type operation struct {
	node   ast.Node // *ast.FuncLit or *ast.FuncDecl
	cursor inspector.Cursor
	body   *ast.BlockStmt
	ctx    *types.Var // the context of the attempt; nil if it has no name
}

// own reports whether the attempt itself runs the statement at c, and not a
// function inside it.
func own(op *operation, c inspector.Cursor) bool {
	for fn := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		return fn.Node() == op.node
	}
	return false
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

// isAssigned reports whether a statement assigns x, and reads it at most to
// compute the new value.
func isAssigned(stmt ast.Node, x ast.Expr) bool {
	switch stmt := stmt.(type) {
	case *ast.AssignStmt:
		for _, left := range stmt.Lhs {
			if left == x {
				return true
			}
		}
	case *ast.IncDecStmt:
		return stmt.X == x
	}
	return false
}

// detached reports whether the call at c may need a longer context: the attempt
// does not wait for it, or it cleans up after the attempt.
func detached(c inspector.Cursor, op *operation) bool {
	for c := range c.Enclosing((*ast.GoStmt)(nil), (*ast.DeferStmt)(nil)) {
		if op.contains(c.Node().Pos()) {
			return true
		}
	}
	return false
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
		for n := range ast.Preorder(choice.Cond) {
			id, ok := n.(*ast.Ident)
			if v, isVar := u.info.ObjectOf(id).(*types.Var); ok && isVar && !v.IsField() && (outside(op, v)) {
				return true
			}
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

// again reports whether an attempt that runs the code at c can fail afterwards.
func (u *uses) again(op *operation, c inspector.Cursor) bool {
	if !own(op, c) {
		return false
	}
	for stmt := range c.Enclosing((*ast.DeferStmt)(nil), (*ast.ExprStmt)(nil), (*ast.AssignStmt)(nil), (*ast.DeclStmt)(nil), (*ast.ReturnStmt)(nil)) {
		_, deferred := stmt.Node().(*ast.DeferStmt)
		return deferred || u.failsAfter(op, stmt.Node().(ast.Stmt))
	}
	return false
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
