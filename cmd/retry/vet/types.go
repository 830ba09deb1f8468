package vet

import (
	"go/ast"
	"go/types"
	"strings"
)

// typeName returns the package path and the name of a type, such as net/http.Client. For a pointer
// it returns the name of the type to which t points. It returns "" if the type has no name.
func typeName(t types.Type) string {
	if named, ok := types.Unalias(deref(t)).(*types.Named); ok && named.Obj().Pkg() != nil {
		return named.Obj().Pkg().Path() + "." + named.Obj().Name()
	}
	return ""
}

// retryType returns the name of the type of x, such as Fixed. It returns "" if package retry does
// not declare the type.
func (u *uses) retryType(x ast.Expr) string {
	name, ours := strings.CutPrefix(typeName(u.info.TypeOf(x)), retryPath+".")
	if !ours {
		return ""
	}
	return name
}

// deref returns the type to which t points, or t if t is not a pointer.
func deref(t types.Type) types.Type {
	if t == nil {
		return types.Typ[types.Invalid]
	}
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		return pointer.Elem()
	}
	return t
}

func isContext(t types.Type) bool { return typeName(t) == "context.Context" }

func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// hasMethod reports whether the method set of t, or of a pointer to t, has a method with this name.
func hasMethod(t types.Type, method string) bool {
	if t == nil {
		return false
	}
	obj, _, _ := types.LookupFieldOrMethod(t, true, nil, method)
	_, ok := obj.(*types.Func)
	return ok
}

// isReader reports whether t is an interface with the method Read but without the methods Seek and
// Write. A function that gets a Seeker may rewind it.
func isReader(t types.Type) bool {
	return types.IsInterface(t) && hasMethod(t, "Read") &&
		!hasMethod(t, "Seek") && !hasMethod(t, "Write")
}

// isRows reports whether t is the result of a query, such as the Rows of database/sql or pgx.
func isRows(t types.Type) bool {
	named, ok := types.Unalias(deref(t)).(*types.Named)
	return ok && named.Obj().Name() == "Rows" && hasMethod(t, "Next") && hasMethod(t, "Scan")
}

func isPolicy(t types.Type) bool { return typeName(t) == retryPath+".Policy" }

// param returns the type of the parameter to which argument i of a call is passed.
func (u *uses) param(call *ast.CallExpr, i int) types.Type {
	signature, ok := u.info.TypeOf(call.Fun).Underlying().(*types.Signature)
	if !ok || signature.Params().Len() == 0 {
		return types.Typ[types.Invalid] // the call is a conversion, or calls a builtin function
	}
	params := signature.Params()
	last := params.Len() - 1
	if slice, ok := params.At(last).Type().(*types.Slice); ok && signature.Variadic() && i >= last &&
		!call.Ellipsis.IsValid() {
		return slice.Elem()
	}
	return params.At(min(i, last)).Type()
}
