package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// consuming are methods that continue where the last attempt stopped.
var consuming = []string{"Next", "Scan", "Read", "Recv", "Receive", "Decode", "Token", "Pop", "Dequeue", "More", "Advance"}

// resumes reports whether an operation continues where its last attempt
// stopped, using a cursor that it moves, or a stream or channel that it
// consumes.
func (u *uses) resumes(op *operation) bool {
	read := map[string]token.Pos{}     // where a variable from outside is first read
	assigned := map[string]token.Pos{} // where it is first assigned
	for c := range op.cursor.Preorder((*ast.AssignStmt)(nil), (*ast.IncDecStmt)(nil), (*ast.IfStmt)(nil), (*ast.CallExpr)(nil), (*ast.UnaryExpr)(nil), (*ast.RangeStmt)(nil)) {
		switch n := c.Node().(type) {
		case *ast.IfStmt:
			if u.asks(op, n.Cond) {
				return true
			}
		case *ast.AssignStmt:
			if added, plus := addedTo(u.info, n); added != nil && (!plus || !u.cursor(op, n.Lhs[0])) {
				continue
			}
			for _, left := range n.Lhs {
				u.note(op, assigned, left)
			}
		case *ast.IncDecStmt:
			u.note(op, assigned, n.X)
		case *ast.CallExpr:
			sel, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr)
			if !ok || u.info.Selections[sel] == nil || !u.isOutside(op, sel.X) {
				continue
			}
			for _, prefix := range consuming {
				if strings.HasPrefix(sel.Sel.Name, prefix) {
					return true
				}
			}
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && u.isOutside(op, n.X) {
				return true
			}
		case *ast.RangeStmt:
			if _, ok := u.info.TypeOf(n.X).Underlying().(*types.Chan); ok && u.isOutside(op, n.X) {
				return true
			}
		}
	}
	for c := range op.cursor.Preorder((*ast.Ident)(nil), (*ast.SelectorExpr)(nil)) {
		x := c.Node().(ast.Expr)
		name := types.ExprString(x)
		if _, ok := assigned[name]; !ok || isAssigned(c.Parent().Node(), x) {
			continue
		}
		if _, ok := read[name]; !ok && u.isOutside(op, x) {
			read[name] = x.Pos()
		}
	}
	for name, pos := range read {
		if pos < assigned[name] {
			return true
		}
	}
	return false
}

// asks reports whether a condition depends on something outside of op, such as
// a set of finished work.
func (u *uses) asks(op *operation, cond ast.Expr) bool {
	for n := range ast.Preorder(cond) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			continue
		}
		sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if ok && u.info.Selections[sel] != nil && !isContext(u.info.TypeOf(sel.X)) && u.isOutside(op, sel.X) {
			return true
		}
	}
	return false
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

// note records where a variable from outside of op is first assigned. An error
// does not count, because no attempt continues from it.
func (u *uses) note(op *operation, assigned map[string]token.Pos, left ast.Expr) {
	if index, ok := ast.Unparen(left).(*ast.IndexExpr); ok {
		left = index.X
	}
	t := u.info.TypeOf(left)
	if t == nil || !u.isOutside(op, left) || types.Identical(t, types.Universe.Lookup("error").Type()) {
		return
	}
	name := types.ExprString(left)
	if _, ok := assigned[name]; !ok {
		assigned[name] = left.Pos()
	}
}

func (u *uses) isOutside(op *operation, x ast.Expr) bool {
	id := rootOf(x)
	if id == nil {
		return false
	}
	v, ok := u.info.ObjectOf(id).(*types.Var)
	return ok && outside(op, v)
}

// cursor reports whether op reads a number that it adds to.
func (u *uses) cursor(op *operation, left ast.Expr) bool {
	name := types.ExprString(left)
	for c := range op.cursor.Preorder((*ast.Ident)(nil), (*ast.SelectorExpr)(nil)) {
		x := c.Node().(ast.Expr)
		if types.ExprString(x) == name && !isAssigned(c.Parent().Node(), x) {
			return true
		}
	}
	return false
}
