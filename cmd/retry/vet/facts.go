package vet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
)

const retryhttpPath = retryPath + "/retryhttp"

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
