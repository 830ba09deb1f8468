package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// restored reports whether op may make x usable again: it assigns, rewinds or
// fills x, or passes it to a function that may do so.
func (u *uses) restored(op *operation, found consumption) bool {
	for c := range op.cursor.Preorder((*ast.AssignStmt)(nil), (*ast.KeyValueExpr)(nil), (*ast.CallExpr)(nil)) {
		switch n := c.Node().(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if u.overwrites(left, found) || len(n.Lhs) == len(n.Rhs) && u.isWritten(n.Rhs[i], u.info.TypeOf(left), found) {
					return true
				}
			}
		case *ast.KeyValueExpr:
			if u.isWritten(n.Value, u.info.TypeOf(n.Key), found) {
				return true
			}
		case *ast.CallExpr:
			if u.restores(n, found) || u.rewinds(op, n, found) {
				return true
			}
		}
	}
	return false
}

// isWritten reports whether x, which is used as a value of type t, is a buffer
// that is filled there, like the Stdout of a command.
func (u *uses) isWritten(x ast.Expr, t types.Type, found consumption) bool {
	x = target(x)
	return x != nil && found.kind == "reader" && u.same(x, found.x) && t != nil && types.IsInterface(t) && !isReader(t)
}

// overwrites reports whether an assignment to left gives x a new value.
func (u *uses) overwrites(left ast.Expr, found consumption) bool {
	if !u.sameRoot(left, found.x) {
		return false
	}
	switch left := left.(type) {
	case *ast.Ident:
		return true
	case *ast.SelectorExpr:
		return u.same(left, found.x) || found.kind == "request" && left.Sel.Name == "Body"
	default:
		return false
	}
}

func (u *uses) sameRoot(a, b ast.Expr) bool {
	x, y := rootOf(a), rootOf(b)
	return x != nil && y != nil && u.info.ObjectOf(x) == u.info.ObjectOf(y)
}

// reads are the methods that do not make a reader usable again.
var reads = []string{
	"Bytes", "Close", "Columns", "Decode", "Do", "Err", "InputOffset", "Len", "More", "Name", "Next", "Read", "ReadAll", "ReadByte", "ReadBytes",
	"Clone", "Context", "ReadRune", "ReadString", "Scan", "Size", "Stat", "String", "Text", "Token", "WithContext", "WriteTo",
}

// rewinds reports whether a call rewinds something outside of op, which may be
// another name of what op reads, or calls a function that uses it.
func (u *uses) rewinds(op *operation, call *ast.CallExpr, found consumption) bool {
	if x, name := method(call); x != nil {
		return hasAny(strings.ToLower(name), "seek", "rewind", "reset", "reopen") && u.isOutside(op, x) && !isNamed(derefAny(u.info.TypeOf(x)), "time", "Timer")
	}
	id, ok := call.Fun.(*ast.Ident)
	if !ok || !u.isOutside(op, id) {
		return false
	}
	lit, ok := u.value(id).(*ast.FuncLit)
	if !ok {
		return false
	}
	return u.hasUse(lit.Body, u.info.ObjectOf(rootOf(found.x)))
}

// restores reports whether a call may make x usable again.
func (u *uses) restores(call *ast.CallExpr, found consumption) bool {
	if method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && u.sameRoot(method.X, found.x) {
		switch {
		case u.same(method.X, found.x):
			if !slices.Contains(reads, method.Sel.Name) {
				return true // it may rewind or fill x
			}
		case u.isOurs(call):
			return true // such as u.rewind(), where x is u.body
		}
	}
	for i, arg := range call.Args {
		arg = target(arg)
		if arg == nil || !u.sameRoot(arg, found.x) {
			continue
		}
		switch {
		case !u.same(arg, found.x):
			if _, ok := arg.(*ast.Ident); ok && u.isOurs(call) {
				return true
			}
		case found.kind == "reader" && !isReader(u.param(call, i)), found.kind == "request" && u.isOurs(call):
			return true
		}
	}
	return false
}

// isOurs reports whether a call calls a function of this package, or an unknown
// one.
func (u *uses) isOurs(call *ast.CallExpr) bool {
	fn, ok := typeutil.Callee(u.info, call).(*types.Func)
	return !ok || u.funcs[fn.Origin()] != nil
}

// param returns the type of the parameter for the i-th argument of a call.
func (u *uses) param(call *ast.CallExpr, i int) types.Type {
	signature, ok := u.info.TypeOf(call.Fun).Underlying().(*types.Signature)
	if !ok {
		return types.Typ[types.Invalid] // a conversion
	}
	params := signature.Params()
	if last := params.Len() - 1; signature.Variadic() && i >= last {
		if slice, ok := params.At(last).Type().(*types.Slice); ok && !call.Ellipsis.IsValid() {
			return slice.Elem()
		}
		return params.At(last).Type()
	}
	if i >= params.Len() {
		return types.Typ[types.Invalid] // a builtin
	}
	return params.At(i).Type()
}
