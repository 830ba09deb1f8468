package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// value returns the only value that an expression can have. That is the expression itself, or the
// value of a variable that is assigned once and whose fields are never assigned. It returns nil if
// several values are possible.
func (u *uses) value(x ast.Expr) ast.Expr {
	for x != nil {
		x = ast.Unparen(x)
		id, ok := x.(*ast.Ident)
		if !ok {
			return x
		}
		obj, ok := u.info.ObjectOf(id).(*types.Var)
		if !ok {
			return x // a constant, a function, nil
		}
		v := u.known(obj)
		if v == nil || len(v.values) != 1 || len(v.fields) > 0 {
			return nil
		}
		x = v.values[0]
	}
	return nil
}

// known returns the record of a variable. It returns nil if something outside of the record may
// change the variable.
func (u *uses) known(obj *types.Var) *variable {
	v := u.vars[obj]
	if v == nil || v.shared || obj.Exported() && obj.Parent() == obj.Pkg().Scope() {
		return nil
	}
	return v
}

// from returns the call x, or the call whose result is the only value of the variable x. It returns
// nil if there is no such call.
func (u *uses) from(x ast.Expr) *ast.CallExpr {
	v := u.known(u.local(x))
	if v != nil && len(v.values) == 1 && len(v.calls) == 1 {
		x = v.calls[0]
	}
	call, _ := u.value(x).(*ast.CallExpr)
	return call
}

// deep returns the value of x. Unlike value, it follows a field that is set in one place, and a
// call of a function of this package with one return statement.
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

// onlyResult returns the first result of a function with one return statement, nil for any other
// function.
func onlyResult(decl *ast.FuncDecl) ast.Expr {
	if returns := returnsOf(decl.Body); len(returns) == 1 && len(returns[0].Results) > 0 {
		return returns[0].Results[0]
	}
	return nil
}

// declared returns the function of this package that a call calls, nil for any other function.
func (u *uses) declared(call *ast.CallExpr) *ast.FuncDecl {
	fn, ok := typeutil.Callee(u.info, call).(*types.Func)
	if !ok {
		return nil
	}
	if decl := u.funcs[fn.Origin()]; decl != nil && decl.Body != nil {
		return decl
	}
	return nil
}

// hasAny reports whether s contains one of parts.
func hasAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}
