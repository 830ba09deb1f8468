package vet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
)

const retryhttpPath = retryPath + "/retryhttp"

// pointee returns y if x is &y, and otherwise x. It removes parentheses.
func pointee(x ast.Expr) ast.Expr {
	if address, ok := ast.Unparen(x).(*ast.UnaryExpr); ok && address.Op == token.AND {
		x = address.X
	}
	return ast.Unparen(x)
}

// literal returns the composite literal y if x is y or &y, and otherwise nil.
func literal(x ast.Expr) *ast.CompositeLit {
	lit, _ := pointee(x).(*ast.CompositeLit)
	return lit
}

// transport returns x if x is a retryhttp.Transport. If x is an http.Client that has a
// retryhttp.Transport, transport returns this Transport. Otherwise it returns nil.
func (u *uses) transport(x ast.Expr) ast.Expr {
	x = u.deep(x)
	if x == nil {
		return nil
	}
	if typeName(u.info.TypeOf(x)) == retryhttpPath+".Transport" {
		return x
	}
	of := keyed(literal(x))["Transport"]
	if of != nil && typeName(u.info.TypeOf(x)) == "net/http.Client" &&
		typeName(u.info.TypeOf(of)) == retryhttpPath+".Transport" {
		return of
	}
	return nil
}

// local returns the variable that an identifier declares or uses. It returns nil for any other
// expression.
func (u *uses) local(x ast.Expr) *types.Var {
	id, ok := ast.Unparen(x).(*ast.Ident)
	if !ok || id == nil || id.Name == "_" {
		return nil
	}
	v, _ := u.info.ObjectOf(id).(*types.Var)
	return v
}

// isZero reports whether x is the constant 0.
func (u *uses) isZero(x ast.Expr) bool {
	value := u.info.Types[x].Value
	return value != nil && value.Kind() != constant.String && value.Kind() != constant.Bool &&
		constant.Sign(value) == 0
}

// retryingClient returns the http.Client with which a call sends a request, if this client has a
// retryhttp.Transport. For any other call it returns nil.
func (u *uses) retryingClient(call *ast.CallExpr) ast.Expr {
	if x, _ := method(call); x != nil && u.sends(call) && u.transport(x) != nil {
		return x
	}
	return nil
}

// A setting is a place in the source that sets a field of a struct: a key and value in a literal,
// or an assignment.
type setting struct {
	cursor inspector.Cursor // the pair of key and value, or the assignment
	of     types.Type       // the type of the struct
	x      ast.Expr         // the literal, or the struct on the left side of the assignment
	field  *ast.Ident
	value  ast.Expr // the value that is set; nil if a call with several results sets it
}

// setsField reports whether s sets this field of the struct type typ in the package with this path.
func (s setting) setsField(path, typ, field string) bool {
	return s.field.Name == field && typeName(s.of) == path+"."+typ
}

// assigned reports whether s is an assignment.
func (s setting) assigned() bool {
	_, ok := s.cursor.Node().(*ast.AssignStmt)
	return ok
}

// findSettings finds all settings in the package.
func (u *uses) findSettings() {
	for c := range u.root.Preorder((*ast.KeyValueExpr)(nil), (*ast.AssignStmt)(nil)) {
		switch n := c.Node().(type) {
		case *ast.KeyValueExpr:
			lit, ok := c.Parent().Node().(*ast.CompositeLit)
			if field, named := n.Key.(*ast.Ident); ok && named {
				u.settings = append(u.settings, setting{c, deref(u.info.TypeOf(lit)), lit, field, n.Value})
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if sel, ok := ast.Unparen(left).(*ast.SelectorExpr); ok && n.Tok == token.ASSIGN {
					u.settings = append(u.settings,
						setting{c, deref(u.info.TypeOf(sel.X)), sel.X, sel.Sel, valueAt(n.Rhs, len(n.Lhs), i)})
				}
			}
		}
	}
}

// isSame reports whether a and b are the same variable, the same field, or the same method call
// without arguments, such as req.Context(). The variable before the name of a field may differ,
// because a method and its caller use different names for the same struct.
func (u *uses) isSame(a, b ast.Expr) bool {
	switch a := ast.Unparen(a).(type) {
	case *ast.Ident:
		b, ok := ast.Unparen(b).(*ast.Ident)
		return ok && u.info.ObjectOf(a) == u.info.ObjectOf(b)
	case *ast.SelectorExpr:
		b, ok := ast.Unparen(b).(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, _ := u.info.ObjectOf(a.Sel).(*types.Var)
		y, _ := u.info.ObjectOf(b.Sel).(*types.Var)
		return x != nil && y != nil && x.Origin() == y.Origin()
	case *ast.CallExpr:
		b, ok := ast.Unparen(b).(*ast.CallExpr)
		if !ok || len(a.Args)+len(b.Args) > 0 || u.callee(a) != u.callee(b) {
			return false
		}
		from, into := rootOf(a.Fun), rootOf(b.Fun)
		return from != nil && into != nil && u.info.ObjectOf(from) == u.info.ObjectOf(into)
	}
	return false
}

// isFailure reports whether a condition has the form err != nil.
func (u *uses) isFailure(cond ast.Expr) bool {
	binary, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	return ok && binary.Op == token.NEQ && u.info.Types[binary.Y].IsNil() &&
		isError(u.info.TypeOf(binary.X))
}

// leavesBlock reports whether the last statement of list is a return, a break or a goto.
func leavesBlock(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	switch last := list[len(list)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return last.Tok != token.CONTINUE
	}
	return false
}
