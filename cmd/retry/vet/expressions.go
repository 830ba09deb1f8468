package vet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
)

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

// keyed returns the values of the fields that a literal sets by name. It returns an empty map for a
// nil literal.
func keyed(literal *ast.CompositeLit) map[string]ast.Expr {
	fields := map[string]ast.Expr{}
	if literal == nil {
		return fields
	}
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if name, ok := pair.Key.(*ast.Ident); ok {
				fields[name.Name] = pair.Value
			}
		}
	}
	return fields
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

// method returns the receiver and the name of a method call. If the call is not a method call, the
// receiver is nil.
func method(call *ast.CallExpr) (ast.Expr, string) {
	if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
		return sel.X, sel.Sel.Name
	}
	return nil, ""
}

// rootOf returns the identifier with which an expression such as a.b[i].c starts. It returns nil if
// the expression starts with something else, such as a call.
func rootOf(x ast.Expr) *ast.Ident {
	for {
		switch e := ast.Unparen(x).(type) {
		case *ast.SelectorExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		case *ast.Ident:
			return e
		default:
			return nil
		}
	}
}

// target returns the variable or field y if x is y or &y, and otherwise nil.
func target(x ast.Expr) ast.Expr {
	switch x = pointee(x); x.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		if rootOf(x) != nil {
			return x
		}
	}
	return nil
}

// isSame reports whether a and b are the same variable, the same field, or the same method call
// without arguments, such as req.Context(). The variable before the name of a field may differ, as
// in c.body and client.body, because a method and its caller use different names for the same
// struct.
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

// text returns the value of a constant string. For any other expression it returns "".
func (u *uses) text(x ast.Expr) string {
	if value := u.info.Types[x].Value; value != nil && value.Kind() == constant.String {
		return constant.StringVal(value)
	}
	return ""
}

// hasText reports whether an argument of a call is a constant that contains at least one of the
// strings in `texts`.
func (u *uses) hasText(call *ast.CallExpr, texts ...string) bool {
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		return hasAny(u.text(arg), texts...)
	})
}

// isZero reports whether x is the constant 0.
func (u *uses) isZero(x ast.Expr) bool {
	value := u.info.Types[x].Value
	return value != nil && value.Kind() != constant.String && value.Kind() != constant.Bool &&
		constant.Sign(value) == 0
}

// isForeign reports whether x is a variable of another package, such as os.Stdin.
func (u *uses) isForeign(x ast.Expr) bool {
	selector, ok := ast.Unparen(x).(*ast.SelectorExpr)
	return ok && u.info.Selections[selector] == nil
}

// isFailure reports whether a condition has the form err != nil.
func (u *uses) isFailure(cond ast.Expr) bool {
	binary, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	return ok && binary.Op == token.NEQ && u.info.Types[binary.Y].IsNil() &&
		isError(u.info.TypeOf(binary.X))
}

// aboutError reports whether a condition uses a variable of type error.
func (u *uses) aboutError(cond ast.Expr) bool {
	for n := range ast.Preorder(cond) {
		if id, ok := n.(*ast.Ident); ok && isError(u.info.TypeOf(id)) {
			return true
		}
	}
	return false
}
