package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// writers are the types that keep what a failed attempt has written.
var writers = []string{"bytes.Buffer", "strings.Builder", "hash.Hash", "hash.Hash32", "hash.Hash64", "encoding/csv.Writer", "os.File", "bufio.Writer", "archive/zip.Writer", "archive/tar.Writer", "net/http.ResponseWriter", "io.Writer"}

// written reports buffers, digests and files outside of an operation that each
// attempt writes to.
func (u *uses) written(pass *analysis.Pass, op *operation) {
	seen := map[types.Object]bool{}
	for c, call := range all[*ast.CallExpr](op.cursor) {
		to, partly := u.writesTo(call)
		if to = target(to); to == nil || !u.isOutside(op, to) || u.isForeign(to) || !own(op, c) || u.mayBeOnce(c, op) {
			continue
		}
		root := u.info.ObjectOf(rootOf(to))
		kind := typeName(u.info.TypeOf(to))
		if seen[root] || !slices.Contains(writers, kind) || kind == "io.Writer" && !partly {
			continue
		}
		if !partly && !strings.HasPrefix(kind, "hash.") && !u.inLoop(op, c) || !partly && !u.again(op, c) {
			continue // a record of the attempts
		}
		if u.onlyWritten(op, to) {
			seen[root] = true
			pass.ReportRangef(call, "%s keeps what a failed attempt wrote, and the next one writes behind it: make it in the attempt, or reset it first", types.ExprString(to))
		}
	}
}

// writesTo returns what a call writes to, and whether it may write a part and fail.
func (u *uses) writesTo(call *ast.CallExpr) (to ast.Expr, partly bool) {
	switch callee := u.callee(call); {
	case callee == "io.Copy", callee == "io.CopyN", callee == "io.CopyBuffer":
		return call.Args[0], true
	case strings.HasPrefix(callee, "fmt.Fprint"), callee == "io.WriteString":
		return call.Args[0], false
	case callee == "(*encoding/json.Encoder).Encode":
		x, _ := method(call)
		if made := u.from(x); made != nil && len(made.Args) == 1 {
			return made.Args[0], false
		}
	}
	switch x, name := method(call); name {
	case "Write", "WriteString", "WriteByte", "WriteRune", "WriteAll":
		return x, false
	case "ReadFrom":
		return x, true
	}
	return nil, false
}

// typeName returns the path and name of the type that t is or points to.
func typeName(t types.Type) string {
	if named, ok := types.Unalias(deref(t)).(*types.Named); ok && named.Obj().Pkg() != nil {
		return named.Obj().Pkg().Path() + "." + named.Obj().Name()
	}
	return ""
}

func (u *uses) inLoop(op *operation, c inspector.Cursor) bool {
	for loop := range c.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		return op.contains(loop.Node().Pos())
	}
	return false
}

// onlyWritten reports whether op does nothing with x but write to it: what asks it
// for its length may go on from there, and what gets it may reset it.
func (u *uses) onlyWritten(op *operation, x ast.Expr) bool {
	for c := range op.cursor.Preorder((*ast.Ident)(nil), (*ast.SelectorExpr)(nil)) {
		use, ok := c.Node().(ast.Expr)
		if !ok || !u.same(use, x) {
			continue
		}
		parent := c.Parent()
		if _, ok := parent.Node().(*ast.UnaryExpr); ok {
			parent = parent.Parent()
		}
		switch p := parent.Node().(type) {
		case *ast.SelectorExpr:
			if p.Sel == use {
				continue
			}
			if !slices.Contains([]string{"Write", "WriteString", "WriteByte", "WriteRune", "WriteAll", "ReadFrom", "Flush", "Sync", "Sum", "Bytes", "String", "Header", "WriteHeader"}, p.Sel.Name) {
				return false
			}
		case *ast.CallExpr:
			if to, _ := u.writesTo(p); to == nil || !u.same(target(to), x) {
				if !strings.HasPrefix(u.callee(p), "encoding/") && !strings.HasPrefix(u.callee(p), "io.") {
					return false
				}
			}
		default:
			return false
		}
	}
	return true
}
