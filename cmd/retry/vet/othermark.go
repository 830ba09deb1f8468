package vet

import (
	"go/ast"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// OtherMark reports errors that a function of another library wraps, such as backoff.Permanent, if
// the errors are returned to retry.Do.
var OtherMark = newCheck("othermark", `report errors that another library marks (backoff.Permanent)

cenkalti/backoff has a function Permanent, avast/retry-go has Unrecoverable,
and sethvargo/go-retry has RetryableError. If one of these functions wraps an
error, retry.Do retries this error like any other error.`, func(pass *analysis.Pass, u *uses) {
	wrapped, read := map[string][]inspector.Cursor{}, map[string]bool{}
	for c, id := range nodes[*ast.Ident](u.root) {
		o := u.info.Uses[id]
		if o == nil || o.Pkg() == nil {
			continue
		}
		path := otherVersion.ReplaceAllString(o.Pkg().Path(), "")
		library := otherLibraries[path]
		_, isLiteral := c.Parent().Parent().Node().(*ast.CompositeLit)
		switch {
		case library.wraps == o.Name(), library.reads == o.Name() && isLiteral:
			wrapped[path] = append(wrapped[path], c)
		case library.reads == o.Name():
			read[path] = true
		case path == retryPath+"/retrycenkalti" && hasAny(o.Name(), "Retryable", "Translate", "Policy"):
			read["github.com/cenkalti/backoff"] = true
		}
	}
	for path, names := range wrapped {
		called := u.calledByDo(path)
		for _, c := range names {
			if fn := enclosingFunc(c); !read[path] && fn != nil && called[fn.Node()] {
				pass.ReportRangef(c.Parent().Node(), "retry.Do does not know %s of %s, and retries the error "+
					"like any other error: %s", c.Node().(*ast.Ident).Name, path, otherLibraries[path].instead)
			}
		}
	}
})

var otherVersion = regexp.MustCompile(`/v\d+$`)

// otherLibraries maps the path of a library to three texts: its function that wraps an error, the
// name with which a program recognizes such an error, and what to write instead.
var otherLibraries = map[string]struct{ wraps, reads, instead string }{
	"github.com/cenkalti/backoff": {"Permanent", "PermanentError", "write retry.Permanent(err)"},
	"github.com/avast/retry-go":   {"Unrecoverable", "IsRecoverable", "write retry.Permanent(err)"},
	"github.com/sethvargo/go-retry": {"RetryableError", "",
		"return this error without RetryableError, and each other error as retry.Permanent(err)"},
}

// calledByDo returns the functions that retry.Do calls, directly or through other functions. It
// also returns the functions that are passed to a function f of a package that imports this
// library, because f may pass them to retry.Do. The parameter `path` is the import path of another
// retry library. If a package imports both libraries, calledByDo ignores the calls of its
// functions, because they may pass their arguments to a retry loop of the other library.
func (u *uses) calledByDo(path string) map[any]bool {
	var given []ast.Expr
	passed := map[*types.Var][]ast.Expr{} // the arguments that each parameter gets
	for _, call := range nodes[*ast.CallExpr](u.root) {
		fn, ok := typeutil.Callee(u.info, call).(*types.Func)
		if !ok || fn.Pkg() == nil {
			continue
		}
		if fn.Pkg().Path() == retryPath && fn.Name() != "Once" ||
			importsBelow(fn.Pkg(), retryPath) && !importsBelow(fn.Pkg(), path) {
			given = append(given, call.Args...)
		}
		params := fn.Origin().Signature().Params()
		for i := range min(params.Len(), len(call.Args)) {
			passed[params.At(i)] = append(passed[params.At(i)], call.Args[i])
		}
	}
	found := map[any]bool{} // functions that Do may call, and parameters with such functions
	for i := 0; i < len(given); i++ {
		if v := u.local(given[i]); v != nil && !found[v] {
			found[v] = true
			given = append(given, passed[v]...)
		}
		op := u.operation(given[i])
		if op == nil || found[op.node] {
			continue
		}
		found[op.node] = true
		for c, call := range nodes[*ast.CallExpr](op.cursor) {
			v := u.local(call.Fun)
			// byCaller is true if v is a parameter of op. Each caller of op passes its own function in v,
			// and it is not known which of these callers Do reaches. So calledByDo does not add the
			// functions.
			byCaller := passed[v] != nil && op.contains(v.Pos())
			if enclosingFunc(c).Node() == op.node && !byCaller {
				given = append(given, call.Fun)
			}
		}
	}
	return found
}
