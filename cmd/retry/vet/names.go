package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// isLibrary reports whether a package path, or the full name of a function, belongs to this
// library.
func isLibrary(path string) bool {
	return path == retryPath || strings.HasPrefix(path, retryPath+"/") ||
		strings.HasPrefix(path, retryPath+".")
}

// callee returns the full name of the called function, such as "time.Sleep" or
// "(*database/sql.Tx).Commit". It returns "" if the function is not known.
func (u *uses) callee(call *ast.CallExpr) string {
	fn, ok := typeutil.Callee(u.info, call).(*types.Func)
	if !ok {
		return ""
	}
	return fn.Origin().FullName()
}

// calledName returns the last part of the full name of a function: Sleep for time.Sleep.
func calledName(callee string) string { return callee[strings.LastIndex(callee, ".")+1:] }

// lastName returns the name of a variable or field, or the text of the index of an element.
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.IndexExpr:
		return types.ExprString(x.Index)
	}
	return ""
}

func isNamedIdent(x ast.Node, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

// hasAny reports whether s contains at least one of the parts.
func hasAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}
