package vet

import (
	"go/ast"
	"go/types"
)

// value returns the only value that x can have. If x is a variable that is assigned once, and its
// fields are never assigned, `value` returns the value that was assigned. If x is not a variable,
// `value` returns x itself. If x can have several values, `value` returns nil.
func (u *uses) value(x ast.Expr) ast.Expr {
	for x != nil {
		x = ast.Unparen(x)
		id, ok := x.(*ast.Ident)
		if !ok {
			return x
		}
		obj, ok := u.info.ObjectOf(id).(*types.Var)
		if !ok {
			return x // x is a constant, a function or nil
		}
		v := u.known(obj)
		if v == nil || len(v.values) != 1 || len(v.fields) > 0 {
			return nil
		}
		x = v.values[0]
	}
	return nil
}

// callOf returns x if x is a call. If x is a variable and its only value is the result of a call,
// callOf returns this call. If x is anything else, callOf returns nil.
func (u *uses) callOf(x ast.Expr) *ast.CallExpr {
	v := u.known(u.local(x))
	if v != nil && len(v.values) == 1 && len(v.calls) == 1 {
		x = v.calls[0]
	}
	call, _ := u.value(x).(*ast.CallExpr)
	return call
}

// maker returns the call that makes the value of x. It returns nil if this call is not known.
func (u *uses) maker(x ast.Expr) *ast.CallExpr {
	if v := u.known(u.local(x)); v != nil && len(v.values) == 1 && len(v.calls) == 0 {
		x = v.values[0]
	}
	return u.callOf(x)
}

// deep returns the only value that x can have. It looks through variables as the method `value`
// does. It also looks through a field that is set in one place, and through a call of a function of
// the checked package that has one return statement.
func (u *uses) deep(x ast.Expr) ast.Expr {
	for range 5 {
		x = u.value(x)
		switch e := x.(type) {
		case *ast.CallExpr:
			decl := u.declared(e)
			if decl == nil {
				return x
			}
			result := onlyResult(decl)
			if result == nil {
				return x
			}
			x = result
		case *ast.SelectorExpr:
			field, ok := u.info.ObjectOf(e.Sel).(*types.Var)
			if !ok || !field.IsField() {
				return x
			}
			var values []ast.Expr
			for _, s := range u.settings {
				if u.info.Uses[s.field] == field {
					values = append(values, s.value)
				}
			}
			if len(values) != 1 {
				return x
			}
			x = values[0]
		default:
			return x
		}
	}
	return x
}

// onlyResult returns the first result of a function that has one return statement. For any other
// function it returns nil.
func onlyResult(decl *ast.FuncDecl) ast.Expr {
	if returns := returnsOf(decl.Body); len(returns) == 1 && len(returns[0].Results) > 0 {
		return returns[0].Results[0]
	}
	return nil
}
