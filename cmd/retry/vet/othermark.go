package vet

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// OtherMark reports marks of other libraries that Do does not know.
var OtherMark = newCheck("othermark", `report the mark of another library on an error that Do gets

Do does not know backoff.Permanent, nor the marks of avast/retry-go and sethvargo/go-retry:
it retries such an error like any other.`, func(pass *analysis.Pass, u *uses) {
	marks, runs, read := map[string][]inspector.Cursor{}, map[string][]ast.Node{}, map[string]bool{}
	for c, id := range all[*ast.Ident](u.root) {
		o := u.info.Uses[id]
		if o == nil || o.Pkg() == nil {
			continue
		}
		path := version.ReplaceAllString(o.Pkg().Path(), "")
		library, around := otherLibraries[path], c.Parent().Parent().Node()
		_, isLiteral := around.(*ast.CompositeLit)
		switch {
		case library.mark == o.Name(), library.reads == o.Name() && isLiteral:
			marks[path] = append(marks[path], c.Parent())
		case library.reads == o.Name():
			read[path] = true
		case library.runs != nil && library.runs.MatchString(o.Name()):
			runs[path] = append(runs[path], around)
		}
	}
	for path, marks := range marks {
		for _, c := range marks {
			forOther := slices.ContainsFunc(runs[path], func(run ast.Node) bool { return within(run, c.Node().Pos()) })
			if !read[path] && !forOther && u.getsToDo(c, path, len(runs[path]) > 0) {
				pass.ReportRangef(c.Node(), "retry.Do does not know this mark, and retries the error like any other: %s", otherLibraries[path].instead)
			}
		}
	}
})

var version = regexp.MustCompile(`/v\d+$`)

// otherLibraries have the function that marks an error, what else reads the mark, the
// functions that retry, and what to write.
var otherLibraries = map[string]struct {
	mark, reads string
	runs        *regexp.Regexp
	instead     string
}{
	"github.com/cenkalti/backoff":   {"Permanent", "PermanentError", regexp.MustCompile(`^Retry(Notify|With|$)`), "write retry.Permanent(err)"},
	"github.com/avast/retry-go":     {"Unrecoverable", "IsRecoverable", regexp.MustCompile(`^Do`), "write retry.Permanent(err)"},
	"github.com/sethvargo/go-retry": {"RetryableError", "", regexp.MustCompile(`^(Do|Constant$|Exponential$|Fibonacci$)`), "return it without the mark, and the errors that had none with retry.Permanent(err)"},
}

// getsToDo reports whether the error that is marked at c is known to get to Do. Where the
// other library retries too, and in functions for other packages, most do not.
func (u *uses) getsToDo(c inspector.Cursor, path string, runs bool) bool {
	for _, op := range u.operations() {
		if op.contains(c.Node().Pos()) {
			return true
		}
	}
	for lit := range c.Enclosing((*ast.FuncLit)(nil)) {
		if call, ok := lit.Parent().Node().(*ast.CallExpr); ok && call.Fun != lit.Node() {
			return u.callsDo(call, path)
		}
	}
	for decl := range c.Enclosing((*ast.FuncDecl)(nil)) {
		name := decl.Node().(*ast.FuncDecl).Name
		return !runs && (!name.IsExported() || u.mentionsCallee(u.root, u.info.Defs[name].(*types.Func).FullName()))
	}
	return false
}

// callsDo reports whether a function calls Do, or may do so because its package does, and
// does not use the other library.
func (u *uses) callsDo(to *ast.CallExpr, path string) bool {
	if decl := u.declared(to); decl != nil {
		c, _ := u.root.FindNode(decl)
		parts := u.reached(c)
		return slices.ContainsFunc(u.calls, func(c *call) bool {
			return slices.ContainsFunc(parts, func(part inspector.Cursor) bool { return within(part.Node(), c.Pos()) })
		})
	}
	fn, ok := typeutil.Callee(u.info, to).(*types.Func)
	return ok && fn.Pkg() != nil && imports(fn.Pkg(), retryPath) && !imports(fn.Pkg(), path)
}

// imports reports whether a package imports another one, or a package below it.
func imports(p *types.Package, path string) bool {
	return slices.ContainsFunc(p.Imports(), func(p *types.Package) bool { return p.Path() == path || strings.HasPrefix(p.Path(), path+"/") })
}
