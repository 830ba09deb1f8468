package vet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

const retryhttpPath = retryPath + "/retryhttp"

// from returns the call that x is, or whose results are assigned to the variable
// x and nothing else is.
func (u *uses) from(x ast.Expr) *ast.CallExpr {
	if id, ok := ast.Unparen(x).(*ast.Ident); ok {
		if call, ok := u.result(id).(*ast.CallExpr); ok {
			return call
		}
	}
	call, _ := u.value(x).(*ast.CallExpr)
	return call
}

// deep is value, and also looks into a field that is set in one place, and into a
// function of this package with one return.
func (u *uses) deep(x ast.Expr) ast.Expr {
	for range 5 {
		x = u.value(x)
		switch e := x.(type) {
		case *ast.CallExpr:
			decl := u.declared(e)
			if decl == nil {
				return x
			}
			returns := returnsOf(decl.Body)
			if len(returns) != 1 || len(returns[0].Results) == 0 {
				return x
			}
			x = returns[0].Results[0]
		case *ast.SelectorExpr:
			field, ok := u.info.ObjectOf(e.Sel).(*types.Var)
			if !ok || !field.IsField() {
				return x
			}
			values := u.fieldValues(field)
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

// declared returns the function of this package that a call calls, or nil.
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

// fieldValues returns what is assigned to a field.
func (u *uses) fieldValues(field *types.Var) (values []ast.Expr) {
	for _, s := range u.settings {
		if u.info.Uses[s.field] == field {
			values = append(values, s.value)
		}
	}
	return values
}

// literal returns the literal that x is or points to, or nil.
func literal(x ast.Expr) *ast.CompositeLit {
	if address, ok := ast.Unparen(x).(*ast.UnaryExpr); ok && address.Op == token.AND {
		x = address.X
	}
	lit, _ := ast.Unparen(x).(*ast.CompositeLit)
	return lit
}

// transport returns the retryhttp.Transport that x is or that the http.Client x
// has, or nil if it is none that is known.
func (u *uses) transport(x ast.Expr) ast.Expr {
	x = u.deep(x)
	if x == nil {
		return nil
	}
	if isNamed(derefAny(u.info.TypeOf(x)), retryhttpPath, "Transport") {
		return x
	}
	if lit := literal(x); lit != nil && isNamed(derefAny(u.info.TypeOf(lit)), "net/http", "Client") {
		if of := keyed(lit)["Transport"]; of != nil && isNamed(derefAny(u.info.TypeOf(of)), retryhttpPath, "Transport") {
			return of
		}
	}
	return nil
}

// local returns the variable that an identifier declares or uses, or nil.
func (u *uses) local(x ast.Expr) *types.Var {
	id, ok := x.(*ast.Ident)
	if !ok || id.Name == "_" {
		return nil
	}
	v, _ := u.info.ObjectOf(id).(*types.Var)
	return v
}

// isZero reports whether x is the constant 0.
func (u *uses) isZero(x ast.Expr) bool {
	value := u.info.Types[x].Value
	return value != nil && value.Kind() != constant.String && value.Kind() != constant.Bool && constant.Sign(value) == 0
}

// setTimeout reports whether a policy is known to have an AttemptTimeout.
func (u *uses) setTimeout(x ast.Expr) bool {
	if v := u.local(ast.Unparen(x)); v != nil && u.vars[v] != nil {
		for _, value := range u.vars[v].fields["AttemptTimeout"] {
			return value == nil || !u.isZero(value)
		}
	}
	if lit := literal(u.deep(x)); lit != nil {
		timeout := keyed(lit)["AttemptTimeout"]
		return timeout != nil && !u.isZero(timeout)
	}
	return false
}

func hasAny(s string, parts ...string) bool {
	for _, part := range parts {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}
