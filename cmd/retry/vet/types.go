package vet

import (
	"go/ast"
	"go/types"
)

// typeName returns the package path and the name of a type, such as net/http.Client. For a pointer
// it returns the name of the type to which t points. It returns "" if the type has no name.
func typeName(t types.Type) string {
	if named, ok := types.Unalias(deref(t)).(*types.Named); ok && named.Obj().Pkg() != nil {
		return named.Obj().Pkg().Path() + "." + named.Obj().Name()
	}
	return ""
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
