package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// isReader reports whether t is an interface with the method Read but without the methods Seek and
// Write. A function that gets a Seeker may rewind it.
func isReader(t types.Type) bool {
	return types.IsInterface(t) && hasMethod(t, "Read") &&
		!hasMethod(t, "Seek") && !hasMethod(t, "Write")
}

// isConsumable reports whether x is a reader that has an end. Connections and sources of random
// bytes have no end.
func (u *uses) isConsumable(x ast.Expr) bool {
	t := deref(u.info.TypeOf(x))
	if types.IsInterface(t) {
		name := strings.ToLower(types.ExprString(x))
		return hasMethod(t, "Read") && !hasMethod(t, "Write") && !strings.Contains(name, "rand") &&
			!strings.Contains(name, "entropy")
	}
	return slices.Contains([]string{
		"bytes.Reader", "bytes.Buffer", "strings.Reader", "os.File", "io.LimitedReader", "io.PipeReader",
		"io.SectionReader", "compress/gzip.Reader", "mime/multipart.Part",
	}, typeName(t))
}

// isRows reports whether t is the result of a query, such as the Rows of database/sql or pgx.
func isRows(t types.Type) bool {
	named, ok := types.Unalias(deref(t)).(*types.Named)
	return ok && named.Obj().Name() == "Rows" && hasMethod(t, "Next") && hasMethod(t, "Scan")
}

// withBody returns the variable of the request x if the request certainly has a body. For any other
// x it returns nil.
func (u *uses) withBody(x ast.Expr) ast.Expr {
	if call, ok := ast.Unparen(x).(*ast.CallExpr); ok { // req.Clone and req.WithContext keep the body
		req, name := method(call)
		if req == nil || name != "Clone" && name != "WithContext" {
			return nil
		}
		x = req
	}
	made := u.callOf(x)
	if made == nil || !strings.HasPrefix(u.callee(made), "net/http.NewRequest") {
		return nil
	}
	if body := made.Args[len(made.Args)-1]; u.info.Types[body].IsNil() ||
		types.ExprString(body) == "http.NoBody" {
		return nil
	}
	return x
}

// restored reports whether op may make a reader, a request or rows usable again after it has read
// them. For example, op assigns a new reader to the variable, rewinds the reader, or passes the
// reader to a function that may rewind the reader.
func (u *uses) restored(op *operation, found consumption) bool {
	// written reports whether x is the reader and t has a method Write. Something else may fill such a
	// reader. For example, a command writes to the buffer in its Stdout.
	written := func(x ast.Expr, t types.Type) bool {
		x = target(x)
		return x != nil && found.kind == "reader" && u.isSame(x, found.x) && t != nil &&
			types.IsInterface(t) && !isReader(t)
	}
	for c := range op.cursor.Preorder((*ast.AssignStmt)(nil), (*ast.KeyValueExpr)(nil),
		(*ast.CallExpr)(nil)) {
		switch n := c.Node().(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				sel, isField := left.(*ast.SelectorExpr)
				body := isField && found.kind == "request" && sel.Sel.Name == "Body" && u.isSame(sel.X, found.x)
				if body || u.isSame(left, rootOf(found.x)) || u.isSame(left, found.x) ||
					written(valueAt(n.Rhs, len(n.Lhs), i), u.info.TypeOf(left)) {
					return true
				}
			}
		case *ast.KeyValueExpr:
			if written(n.Value, u.info.TypeOf(n.Key)) {
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

// readMethods lists methods that do not make a used reader, request or rows usable again. Any other
// method may do so.
var readMethods = []string{
	"Bytes", "Clone", "Close", "Columns", "Context", "Decode", "Do", "Err", "InputOffset", "Len",
	"More", "Name", "Next", "Read", "ReadAll", "ReadByte", "ReadBytes", "ReadRune", "ReadString",
	"Scan", "Size", "Stat", "String", "Text", "Token", "WithContext", "WriteTo",
}

// rewinds reports whether a call may rewind the reader of op although the call does not name the
// reader. There are two cases. The call may rewind another value that is declared outside of op,
// because this value may contain the reader. Or the call is of a function literal outside of op,
// and the literal uses the reader.
func (u *uses) rewinds(op *operation, call *ast.CallExpr, found consumption) bool {
	if x, name := method(call); x != nil {
		return hasAny(strings.ToLower(name), "seek", "rewind", "reset", "reopen") && u.isOutside(op, x) &&
			typeName(u.info.TypeOf(x)) != "time.Timer"
	}
	lit, ok := u.value(call.Fun).(*ast.FuncLit)
	return ok && !op.contains(lit.Pos()) && u.hasUse(lit.Body, u.info.ObjectOf(rootOf(found.x)))
}

// restores reports whether a call gets the reader, request or rows that op reads, and may do more
// than read them.
func (u *uses) restores(call *ast.CallExpr, found consumption) bool {
	root := rootOf(found.x)
	fn, known := typeutil.Callee(u.info, call).(*types.Func)
	ours := !known || u.funcs[fn.Origin()] != nil
	if x, name := method(call); x != nil {
		if u.isSame(x, found.x) && !slices.Contains(readMethods, name) ||
			ours && !u.isSame(x, found.x) && u.isSame(x, root) {
			return true // for example, the call is u.rewind() and the reader is u.body
		}
	}
	for i, arg := range call.Args {
		switch arg = target(arg); {
		case arg == nil:
		case !u.isSame(arg, found.x):
			if ours && u.isSame(arg, root) {
				return true
			}
		case found.kind == "reader" && !isReader(u.param(call, i)), found.kind == "request" && ours:
			return true
		}
	}
	return false
}
