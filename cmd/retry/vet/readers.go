package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// isReader reports whether t is an interface that can only read. A function
// that gets a Seeker may rewind it.
func isReader(t types.Type) bool {
	return types.IsInterface(t) && has(t, "Read") && !has(t, "Seek") && !has(t, "Write")
}

func has(t types.Type, method string) bool {
	obj, _, _ := types.LookupFieldOrMethod(t, true, nil, method)
	_, ok := obj.(*types.Func)
	return ok
}

// isConsumable reports whether x is a reader that ends. Connections and sources
// of random bytes do not.
func (u *uses) isConsumable(x ast.Expr) bool {
	t := deref(u.info.TypeOf(x))
	if types.IsInterface(t) {
		name := strings.ToLower(types.ExprString(x))
		return has(t, "Read") && !has(t, "Write") && !strings.Contains(name, "rand") && !strings.Contains(name, "entropy")
	}
	return slices.Contains([]string{
		"bytes.Reader", "bytes.Buffer", "strings.Reader", "os.File", "io.LimitedReader", "io.PipeReader",
		"io.SectionReader", "compress/gzip.Reader", "mime/multipart.Part",
	}, typeName(t))
}

// isScanner reports whether x is a decoder or the like that was made around a
// reader that ends.
func (u *uses) isScanner(x ast.Expr) bool {
	made := u.from(x)
	if made == nil || len(made.Args) == 0 || !slices.Contains([]string{
		"bufio.NewScanner", "bufio.NewReader", "encoding/json.NewDecoder", "encoding/xml.NewDecoder", "encoding/csv.NewReader", "encoding/gob.NewDecoder",
		"archive/tar.NewReader", "io.TeeReader", "io.LimitReader", "io.MultiReader", "compress/gzip.NewReader",
	}, u.callee(made)) {
		return false
	}
	under := target(made.Args[0])
	return under == nil || u.isConsumable(under)
}

// isRows reports whether t is the result of a query, like those of database/sql
// and pgx.
func isRows(t types.Type) bool {
	named, ok := types.Unalias(deref(t)).(*types.Named)
	return ok && named.Obj().Name() == "Rows" && has(t, "Next") && has(t, "Scan")
}

// withBody returns the variable that a request comes from, if the request is
// known to have a body.
func (u *uses) withBody(x ast.Expr) ast.Expr {
	for { // req.Clone(ctx) and req.WithContext(ctx) have the same body
		call, ok := ast.Unparen(x).(*ast.CallExpr)
		if !ok {
			break
		}
		switch u.callee(call) {
		case "(*net/http.Request).Clone", "(*net/http.Request).WithContext":
			x = call.Fun.(*ast.SelectorExpr).X
		default:
			return nil
		}
	}
	req, ok := ast.Unparen(x).(*ast.Ident)
	if !ok {
		return nil
	}
	from, ok := u.result(req).(*ast.CallExpr)
	if !ok {
		return nil
	}
	switch u.callee(from) {
	case "net/http.NewRequest", "net/http.NewRequestWithContext":
		body := from.Args[len(from.Args)-1]
		if u.info.Types[body].IsNil() || types.ExprString(body) == "http.NoBody" {
			return nil
		}
		return req
	default:
		return nil
	}
}

// rowsOf returns the rows that a loop reads, or nil.
func (u *uses) rowsOf(loop *ast.ForStmt) ast.Expr {
	if next, ok := loop.Cond.(*ast.CallExpr); ok {
		if x, name := method(next); name == "Next" && isRows(u.info.TypeOf(x)) {
			return x
		}
	}
	return nil
}

// target returns the variable or field that x is or points to, or nil if x is
// something else.
func target(x ast.Expr) ast.Expr {
	x = ast.Unparen(x)
	if address, ok := x.(*ast.UnaryExpr); ok && address.Op == token.AND {
		x = ast.Unparen(address.X)
	}
	if rootOf(x) == nil {
		return nil
	}
	switch x.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		return x
	default:
		return nil
	}
}
